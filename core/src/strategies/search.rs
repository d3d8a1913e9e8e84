//! What a search may vary.

use proptest::collection::vec;
use proptest::prelude::*;

use super::figure::{few, figure, once_in, pick, rarely, word};
use super::record;
use crate::layout::{Offload, Recompute, Schedule, Sharding};
use crate::quantity::{Seconds, Usd};
use crate::search::{Objective, Search};
use crate::workload::{Compute, Method, Optimizer};

fn numbers(of: &[u64]) -> BoxedStrategy<Vec<u64>> {
    prop_oneof![1 => Just(Vec::new()), 2 => vec(pick(of.to_vec()), 1..=2)].boxed()
}

/// A search over a space that is small enough to be gone through in a moment.
pub fn search() -> BoxedStrategy<Search> {
    record!(Search {
        shardings: vec(word(Sharding::ALL), 1..=4),
        micro_batches: vec(1_u64..=4, 1..=2),
        recompute: few(Recompute::ALL),
        recompute_every: numbers(&[1, 2, 3]),
        tensor_parallel: numbers(&[1, 2, 4]),
        pipeline_parallel: numbers(&[1, 2]),
        pipeline_chunks: numbers(&[2, 3]),
        context_parallel: vec(pick(vec![1_u64, 2]), 1..=2),
        expert_parallel: vec(pick(vec![1_u64, 2, 4]), 1..=2),
        schedules: few(Schedule::ALL),
        offload: few(Offload::ALL),
        methods: few(&[Method::Full, Method::Lora]),
        optimizers: few(Optimizer::ALL),
        computes: few(Compute::ALL),
        nodes: prop_oneof![4 => Just(Vec::new()), 1 => vec(1_u32..=3, 1..=2)],
        instances: prop_oneof![4 => Just(Vec::new()), 1 => vec(Just("p5.48xlarge".to_owned()), 1)],
        global_batch_range: rarely((1_u64..=16, 16_u64..=256).prop_map(|(low, high)| [low, high])),
        objective: word(Objective::ALL),
        deadline: rarely(figure(0.0..=1e15).prop_map(Seconds::of)),
        budget: rarely(figure(0.0..=1e15).prop_map(Usd::of)),
        headroom: prop_oneof![3 => Just(0.0), 1 => figure(0.0..=0.9)],
        any_framework: any::<bool>(),
        scaling: once_in(8),
        sensitivity: once_in(8),
        list: prop_oneof![Just(8_u64), 0_u64..=20],
        max_candidates: prop_oneof![3 => Just(1_000_000_u64), 1 => 1_u64..=500],
    })
}
