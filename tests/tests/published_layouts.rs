//! Layouts that large runs were published with: in the space, feasible, and about as fast as the plan.

use std::path::Path;

use shardwise_tests::throughput::choices;

#[test]
fn published_layouts_are_seen() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/corpus/throughput.jsonl");
    let all = choices(&file).expect("the corpus");
    let runs: Vec<_> = all.iter().filter(|c| c.against.is_none()).collect();
    for c in &all {
        println!("{} {} {:+.1} %: {:?} {:?}", c.id, c.model, 100.0 * c.excess(), c.against, c.names);
    }
    assert!(all.len() > 60 && runs.len() * 10 >= all.len() * 9, "{} of {} run", runs.len(), all.len());
}
