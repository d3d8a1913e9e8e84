//! `cargo bench -p shardwise-benches`: the request is parsed, the answer is not printed.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use shardwise_benches::{many_nodes, one_layout, one_node};

fn verbs(criterion: &mut Criterion) {
    let request = one_layout();
    criterion.bench_function("estimate/one layout", |b| b.iter(|| shardwise::estimate(black_box(&request))));
    let text = serde_json::to_string(&request).expect("a request prints");
    criterion.bench_function("estimate/text to text", |b| {
        b.iter(|| shardwise::call("estimate", black_box(&text)));
    });
    let request = one_node();
    criterion.bench_function("plan/one node", |b| b.iter(|| shardwise::plan(black_box(&request))));
    let request = many_nodes();
    criterion.bench_function("plan/64 nodes", |b| b.iter(|| shardwise::plan(black_box(&request))));
}

criterion_group!(benches, verbs);
criterion_main!(benches);
