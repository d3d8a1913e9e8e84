//! `cargo bench -p shardwise-benches --bench search`: whole spaces; elements are candidates that fit
//! and were costed in full.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use shardwise_benches::whole_space;

fn spaces(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("search");
    group.sample_size(10);
    for gpus in [8_u64, 64, 512, 4096, 16_384] {
        let request = whole_space(gpus);
        let answer = shardwise::plan(&request).expect("a request of the core's own form");
        println!(
            "{gpus} GPUs: {} candidates in the space, {} looked at, {} fit and were costed in full; best {} in {}",
            answer.brute_force,
            answer.candidates,
            answer.costed,
            answer.best.name,
            answer.best.step.total(),
        );
        group.throughput(Throughput::Elements(answer.costed.max(1)));
        group.bench_with_input(BenchmarkId::from_parameter(gpus), &request, |b, request| {
            b.iter(|| shardwise::plan(black_box(request)));
        });
    }
    group.finish();
}

criterion_group!(benches, spaces);
criterion_main!(benches);
