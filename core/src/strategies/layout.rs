//! Layouts.

use proptest::collection::vec;
use proptest::prelude::*;

use super::figure::{few, once_in, word};
use super::record;
use crate::layout::{
    ContextStyle, Layout, Offload, Recompute, RecomputeModule, Reshard, Schedule, Sharding, Wrap,
};

/// A layout for machines that are not known yet: degrees are drawn as a way to share out the prime
/// factors of whatever number of accelerators there is.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Everything but the degrees.
    pub base: Layout,
    /// The degree that each prime factor goes to: tensor, pipeline, context, replicas, else shards.
    pub axes: Vec<u8>,
    /// Picks the expert degree among those that are possible.
    pub expert: usize,
    /// Leaves the shard degree to be filled in.
    pub rest: bool,
}

impl Draft {
    /// The layout on `gpus` accelerators of a model of `layers` layers.
    #[must_use]
    pub fn fit(&self, gpus: u64, layers: u64) -> Layout {
        let mut l = self.base.clone();
        for (prime, axis) in primes(gpus).into_iter().zip(self.axes.iter().cycle()) {
            let degree = match axis {
                0 => &mut l.tensor_parallel,
                1 if l.pipeline_parallel * prime <= layers.max(1) => &mut l.pipeline_parallel,
                2 => &mut l.context_parallel,
                3 => &mut l.data_parallel_replicate,
                _ => &mut l.data_parallel_shard,
            };
            *degree *= prime;
        }
        if self.rest && l.sharding.shards() {
            l.data_parallel_shard = 0;
        } else if !l.sharding.shards() {
            l.data_parallel_replicate *= l.data_parallel_shard;
            l.data_parallel_shard = 1;
        }
        let sharing = gpus / (l.pipeline_parallel * l.tensor_parallel * l.data_parallel_replicate);
        if !sharing.is_multiple_of(l.reshard_within) {
            l.reshard_within = primes(sharing).first().copied().unwrap_or(8);
        }
        let ranks = gpus / l.pipeline_parallel;
        let divisors: Vec<u64> = (1..=ranks.min(256)).filter(|d| ranks.is_multiple_of(*d)).collect();
        l.expert_parallel = divisors.get(self.expert % divisors.len().max(1)).copied().unwrap_or(1);
        l
    }
}

fn primes(mut n: u64) -> Vec<u64> {
    let mut out = Vec::new();
    let mut p = 2;
    while p * p <= n {
        while n.is_multiple_of(p) {
            out.push(p);
            n /= p;
        }
        p += 1;
    }
    if n > 1 {
        out.push(n);
    }
    out
}

/// A layout for machines that are not known yet.
pub fn draft() -> BoxedStrategy<Draft> {
    let base = record!(Layout {
        sharding: word(Sharding::ALL),
        data_parallel_replicate: Just(1),
        data_parallel_shard: Just(1),
        tensor_parallel: Just(1),
        sequence_parallel: any::<bool>(),
        vocab_parallel: any::<bool>(),
        pipeline_parallel: Just(1),
        pipeline_schedule: word(Schedule::ALL),
        pipeline_chunks: prop_oneof![2 => Just(1_u64), 1 => 1_u64..=4],
        context_parallel: Just(1),
        context_style: word(ContextStyle::ALL),
        expert_parallel: Just(1),
        micro_batch: prop_oneof![2 => Just(1_u64), 2 => 1_u64..=8],
        recompute: word(Recompute::ALL),
        recompute_modules: few(RecomputeModule::ALL),
        recompute_every: prop_oneof![2 => Just(1_u64), 1 => 1_u64..=6],
        partition_activations: once_in(4),
        offload: few(Offload::ALL),
        reshard_after_forward: word(Reshard::ALL),
        reshard_within: 2_u64..=16,
        wrap: word(Wrap::ALL),
        gradient_as_bucket_view: any::<bool>(),
        sync_every_micro_batch: once_in(4),
    });
    let axis = prop_oneof![6 => Just(4_u8), 2 => Just(0), 2 => Just(1), 1 => Just(2), 2 => Just(3)];
    (base, vec(axis, 1..=16), prop_oneof![2 => Just(0), 1 => 0_usize..64], once_in(4))
        .prop_map(|(base, axes, expert, rest)| Draft { base, axes, expert, rest })
        .boxed()
}

/// A layout of a model of `layers` layers on `gpus` accelerators.
///
/// ```
/// use proptest::strategy::{Strategy, ValueTree};
/// let mut runner = proptest::test_runner::TestRunner::deterministic();
/// let layout = shardwise::strategies::layout(24, 32).new_tree(&mut runner).unwrap().current();
/// assert_eq!(layout.resolve(24).unwrap().world(), 24);
/// ```
pub fn layout(gpus: u64, layers: u64) -> BoxedStrategy<Layout> {
    draft().prop_map(move |draft| draft.fit(gpus, layers)).boxed()
}
