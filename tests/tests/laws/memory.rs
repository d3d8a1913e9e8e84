//! Laws of memory.

use proptest::prelude::*;
use shardwise::layout::{Offload, Recompute, Sharding};
use shardwise::memory;
use shardwise::workload::{Compute, Framework};

use crate::case::{Case, cases};
use crate::check::{alike, holds};

/// States of a rank of the first stage when the optimizer steps, with the gradients it applies: what
/// ZeRO's table counts.
fn states(case: &Case) -> f64 {
    let report = memory::estimate_stage(&case.model, &case.recipe, &case.layout, &case.batch, 0);
    let step = report.phases.iter().find(|p| p.name == "optimizer step").expect("an optimizer step");
    ["parameters", "master weights", "optimizer states", "EMA", "gradients"]
        .iter()
        .filter_map(|name| step.allocated.get(name))
        .map(shardwise::Bytes::get)
        .sum()
}

/// What layers keep for backward on the first stage, where most is kept.
fn kept(case: &Case) -> f64 {
    let report = memory::estimate_stage(&case.model, &case.recipe, &case.layout, &case.batch, 0);
    let amounts = report.phases.iter().filter_map(|p| p.allocated.get("saved activations"));
    amounts.map(shardwise::Bytes::get).fold(0.0, f64::max)
}

#[test]
fn states_never_rise_with_the_sharding_stage() {
    let ladders = [
        vec![Sharding::Zero1, Sharding::Zero2, Sharding::Zero3],
        vec![Sharding::NoShard, Sharding::ShardGradOp, Sharding::FullShard],
        vec![Sharding::NoShard, Sharding::HybridShardZero2, Sharding::HybridShard],
    ];
    holds(40, (cases(), proptest::sample::select(ladders.to_vec())), |(case, ladder)| {
        let ranks = case.layout.data_parallel();
        let mut before = f64::INFINITY;
        for sharding in ladder {
            let laid = case.laid(|l| {
                l.sharding = sharding;
                (l.data_parallel_replicate, l.data_parallel_shard) =
                    if sharding.shards() { (1, ranks) } else { (ranks, 1) };
            });
            let now = states(&laid);
            prop_assert!(now <= before * (1.0 + 1e-9), "{sharding}: {now} after {before}");
            before = now;
        }
        Ok(())
    });
}

#[test]
fn states_never_rise_with_the_shard_degree() {
    holds(40, (cases(), 2_u64..=4), |(case, times)| {
        let more = case.laid(|l| l.data_parallel_shard *= times);
        let (before, now) = (states(&case), states(&more));
        prop_assert!(now <= before * (1.0 + 1e-9), "{now} after {before}");
        Ok(())
    });
}

#[test]
fn kept_activations_never_rise_with_recompute() {
    holds(40, cases(), |case| {
        let with = |recompute| kept(&case.laid(|l| (l.recompute, l.recompute_every) = (recompute, 1)));
        let (none, selective, full) =
            (with(Recompute::None), with(Recompute::Selective), with(Recompute::Full));
        // With adapters on a frozen base PEFT then lets gradients flow into the embedding, which keeps
        // what its own norm and dropout need, where it has them (BERT). torchtitan's policy
        // keeps whole outputs of products, of which backward itself wants a rank's share under tensor
        // parallelism, and keeps them on the device where the rest leaves it; encoder-decoders, which
        // torchtitan does not train, were not traced under it.
        let apart = case.layout.tensor_parallel > 1
            || case.layout.offloads(Offload::Activation)
            || case.model.has_encoder();
        let by_operation = case.recipe.framework == Framework::Torchtitan && apart;
        // Products in fewer bits keep copies of their inputs; what is made again starts from the 16 bits.
        let narrow = matches!(case.recipe.compute, Compute::Fp8 | Compute::Mxfp8 | Compute::Nvfp4);
        prop_assert!(
            case.recipe.frozen_base() || by_operation || narrow || selective <= none * (1.0 + 1e-9),
            "selective {selective} none {none}"
        );
        // Before PyTorch 2.5, FSDP1 holds inputs of recomputed layers on a frozen base, wherever the rest is.
        let held = case.recipe.frozen_base() && case.layout.offloads(Offload::Activation);
        prop_assert!(held || full <= selective * (1.0 + 1e-9), "full {full} selective {selective}");
        Ok(())
    });
}

#[test]
fn a_bigger_micro_batch_never_needs_less() {
    holds(40, (cases(), 1_u64..=4), |(case, more)| {
        let mut bigger = case.laid(|l| l.micro_batch += more);
        let accumulation = case.batch.accumulation(case.layout.data_parallel(), case.layout.micro_batch);
        bigger.batch.global_batch = accumulation * bigger.layout.data_parallel() * bigger.layout.micro_batch;
        let of = |c: &Case| memory::estimate(&c.model, &c.recipe, &c.layout, &c.batch);
        let (before, now) = (of(&case), of(&bigger));
        let more_than = |a: shardwise::Bytes, b: shardwise::Bytes| a.get() >= b.get() * (1.0 - 1e-9);
        prop_assert!(
            more_than(now.allocated, before.allocated),
            "allocated {} after {}",
            now.allocated,
            before.allocated
        );
        prop_assert!(more_than(now.needed, before.needed), "needed {} after {}", now.needed, before.needed);
        prop_assert!(more_than(now.device.total(), before.device.total()), "device");
        // The host's share is that of the fullest stage, and another one may become it.
        let one = case.layout.pipeline_parallel == 1;
        prop_assert!(!one || more_than(now.host.total(), before.host.total()), "host");
        Ok(())
    });
}

#[test]
fn one_rank_keeps_the_same_states_however_they_are_sharded() {
    // Engines differ in what they keep; within one, a group of one rank shards nothing.
    let engines = [
        vec![Sharding::None, Sharding::Ddp],
        vec![Sharding::Zero1, Sharding::Zero2],
        vec![
            Sharding::NoShard,
            Sharding::FullShard,
            Sharding::ShardGradOp,
            Sharding::HybridShard,
            Sharding::HybridShardZero2,
        ],
    ];
    holds(40, (cases(), proptest::sample::select(engines.to_vec())), |(case, engine)| {
        let alone = case.laid(|l| {
            (l.data_parallel_replicate, l.data_parallel_shard, l.context_parallel) = (1, 1, 1);
            (l.tensor_parallel, l.pipeline_parallel, l.expert_parallel) = (1, 1, 1);
            (l.offload, l.gradient_as_bucket_view) = (Vec::new(), false);
        });
        let first = states(&alone.laid(|l| l.sharding = engine[0]));
        for &sharding in &engine {
            let now = states(&alone.laid(|l| l.sharding = sharding));
            prop_assert!(alike(first, now), "{sharding}: {now}, {}: {first}", engine[0]);
        }
        Ok(())
    });
}
