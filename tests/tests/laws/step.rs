//! Laws of the step.

use proptest::prelude::*;
use shardwise::BytesPerSecond;
use shardwise::layout::{Layout, Offload, Recompute, Schedule, Sharding};
use shardwise::pipeline::{Stage, bubble};
use shardwise::step;
use shardwise::strategies::word;

use crate::case::{Case, cases};
use crate::check::{alike, holds};

const ROUNDING: f64 = 1.0 + 1e-9;

#[test]
fn terms_are_those_of_the_times_and_shares_are_shares() {
    holds(40, cases(), |case| {
        let report = step::estimate(&case.model, &case.recipe, &case.layout, &case.batch, &case.cluster);
        let total = case.times().total();
        prop_assert!(alike(report.total().get(), total), "{} {total}", report.total());
        prop_assert!(
            report.mfu >= 0.0 && report.mfu <= report.hfu * ROUNDING,
            "{} {}",
            report.mfu,
            report.hfu
        );
        prop_assert!(report.hfu <= 1.0, "hfu {}", report.hfu);
        prop_assert!(report.remedies.windows(2).all(|w| w[0].saves >= w[1].saves));
        prop_assert!(report.remedies.iter().all(|r| r.saves.get() > 0.0 && r.saves <= report.total()));
        Ok(())
    });
}

#[test]
fn recompute_is_never_faster() {
    holds(40, cases(), |case| {
        // Where activations travel to the host, those that are recomputed need not.
        let with = |recompute| {
            let stays = |l: &mut Layout| {
                l.offload.retain(|&what| what != Offload::Activation);
                (l.recompute, l.recompute_every) = (recompute, 1);
            };
            case.laid(stays).times().total()
        };
        let (none, selective, full) =
            (with(Recompute::None), with(Recompute::Selective), with(Recompute::Full));
        prop_assert!(selective * ROUNDING >= none, "selective {selective}, none {none}");
        prop_assert!(full * ROUNDING >= none, "full {full}, none {none}");
        Ok(())
    });
}

#[test]
fn faster_links_and_memory_are_never_slower() {
    holds(40, (cases(), 1.0..=4.0_f64), |(case, times)| {
        // DualPipe is defined from twice as many micro-batches as stages.
        let case = case.laid(|l| {
            if l.pipeline_schedule == Schedule::DualPipe {
                l.pipeline_schedule = Schedule::OneFOneB;
            }
        });
        let setting = case.setting();
        let plain = setting.times(&case.layout).total();
        let mut faster = setting;
        faster.fabric = setting.fabric.slowed(1.0 / times);
        let now = faster.times(&case.layout).total();
        prop_assert!(now <= plain * ROUNDING, "fabric: {now} after {plain}");
        let mut wider = setting;
        wider.machine.bandwidth *= times;
        let now = wider.times(&case.layout).total();
        prop_assert!(now <= plain * ROUNDING, "memory: {now} after {plain}");
        // The same through the figures of the machines.
        let mut linked = case.clone();
        let more = |rate: &mut BytesPerSecond| *rate = *rate * times;
        for channel in
            [&mut linked.cluster.within_domain, &mut linked.cluster.within_node].into_iter().flatten()
        {
            more(&mut channel.bandwidth);
        }
        for network in &mut linked.cluster.networks {
            more(&mut network.channel.bandwidth);
        }
        let now = linked.times().total();
        prop_assert!(now <= plain * ROUNDING, "links: {now} after {plain}");
        Ok(())
    });
}

#[test]
fn one_rank_exchanges_nothing() {
    holds(40, (cases(), word(Sharding::ALL)), |(mut case, sharding)| {
        (case.cluster.nodes, case.cluster.gpus_per_node) = (1, 1);
        let alone = case.laid(|l| {
            l.sharding = sharding;
            (l.data_parallel_replicate, l.data_parallel_shard, l.context_parallel) = (1, 1, 1);
            (l.tensor_parallel, l.pipeline_parallel, l.expert_parallel) = (1, 1, 1);
            // Parameters on the host come over its link whatever the ranks.
            l.offload.clear();
        });
        let t = alone.times();
        let exchanged = t.tensor + t.context + t.expert + t.sharded + t.data + t.send + t.bubble;
        prop_assert!(exchanged == 0.0, "{sharding}: {t:?}");
        Ok(())
    });
}

/// The share of a step that is bubble, for pipelines on ranks that the machines may not have.
fn share(case: &Case, micro_batches: u64) -> f64 {
    let mut case = case.clone();
    case.batch.global_batch = micro_batches * case.layout.data_parallel() * case.layout.micro_batch;
    let t = case.times();
    t.bubble / t.total()
}

#[test]
fn the_bubble_is_a_share_that_falls_with_more_micro_batches() {
    let of = [Schedule::Gpipe, Schedule::OneFOneB, Schedule::Interleaved];
    // From two on: with the second begins the sum of gradients, which every micro-batch then takes.
    holds(40, (cases(), proptest::sample::select(of.to_vec()), 2_u64..=6), |(case, schedule, least)| {
        let layers = case.model.layers();
        let case = case.laid(|l| {
            l.pipeline_schedule = schedule;
            l.pipeline_parallel = layers.min(4);
        });
        let mut before = 1.0;
        for doubled in 0..5 {
            let now = share(&case, least << doubled);
            prop_assert!((0.0..1.0).contains(&now), "{schedule}: {now}");
            prop_assert!(now <= before * ROUNDING, "{schedule}: {now} after {before}");
            before = now;
        }
        Ok(())
    });
}

#[test]
fn the_closed_forms_of_the_bubble_are_never_below_nought() {
    let time = 0.0..=10.0_f64;
    let stage = (time.clone(), time.clone(), time);
    holds(
        1000,
        (word(Schedule::ALL), 1_u32..=64, 1_u32..=8, 1_u32..=256, stage),
        |(s, p, v, m, (f, b, w))| {
            let mean = Stage { forward: f, backward_input: b, backward_weight: w };
            let (p, v, m) = (f64::from(p), f64::from(v), f64::from(m));
            let idle = bubble(s, p, v, m, &mean);
            prop_assert!(idle >= 0.0 && idle.is_finite(), "{idle}");
            // Idle over idle and work, with work the m micro-batches of the rank.
            prop_assert!(mean.total() == 0.0 || idle / (idle + m * mean.total()) < 1.0);
            prop_assert!(
                bubble(s, p, v, m + 1.0, &mean) <= idle * ROUNDING,
                "more micro-batches idle longer"
            );
            prop_assert!(bubble(s, 1.0, v, m, &mean) == 0.0);
            Ok(())
        },
    );
}

#[test]
fn remedies_help_as_told() {
    holds(40, cases(), |case| {
        let case = case.laid(|l| l.recompute = Recompute::Full);
        let of = |c: &Case| step::estimate(&c.model, &c.recipe, &c.layout, &c.batch, &c.cluster);
        let report = of(&case);
        if let Some(told) = report.remedies.iter().find(|r| r.change == "no recompute") {
            let without = of(&case.laid(|l| l.recompute = Recompute::None));
            let saved = (report.total() - without.total()).get();
            prop_assert!(
                (told.saves.get() - saved).abs() <= 1e-9 * report.total().get(),
                "{} {saved}",
                told.saves
            );
        }
        Ok(())
    });
}
