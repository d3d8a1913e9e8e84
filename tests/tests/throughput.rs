//! Golden: the published runs and PyTorch's counter, as they are scored today. The limits are what a
//! change may not worsen.

use std::path::Path;

use shardwise_tests::{flops, throughput};

fn corpus(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/corpus").join(name)
}

#[test]
fn published_step_times() {
    let score = throughput::score(&corpus("throughput.jsonl")).expect("the corpus");
    let summary = score.summary();
    let at = |path: &str| summary.pointer(path).and_then(serde_json::Value::as_f64).expect(path);
    assert!(at("/scored") >= 0.95 * at("/complete"), "{summary}");
    assert!(at("/median_abs_pct") < 6.0 && at("/p90_abs_pct") < 20.0, "{summary}");
    assert!(at("/dense/median_abs_pct") < 5.5 && at("/dense/p90_abs_pct") < 17.0, "{summary}");
    assert!(at("/moe/median_abs_pct") < 10.0 && at("/moe/p90_abs_pct") < 28.0, "{summary}");
    assert!(at("/kendall_tau") > 0.6 && at("/regret_pct") < 3.0, "{summary}");
    let covered = at("/interval80_coverage_pct");
    assert!((75.0..=92.0).contains(&covered) && at("/interval80_median_width_pct") <= 50.0, "{summary}");
    assert!(at("/leave_publisher_out/median_abs_pct") < 8.0, "{summary}");
}

#[test]
fn counted_flops() {
    let score = flops::score(&corpus("flops.csv")).expect("the table");
    assert_eq!(score.scored.len(), score.rows);
    for row in &score.scored {
        assert_eq!(row.predicted, row.measured, "{}", row.id);
    }
}
