//! Runs: their length, what may befall them, what is paid beside the machines.

use proptest::collection::vec;
use proptest::prelude::*;

use super::figure::{figure, once_in, pick, rarely, word};
use super::record;
use crate::api::{
    Checkpointing, Expenses, Faults, Hazard, LossPolicy, NodeCount, Owned, Run, SaveMode, Serving,
};
use crate::checkpoint::{Contents, Writer};
use crate::cluster::PriceKind;
use crate::preemption::{Availability, Spells, Start, Swing, Trace, TraceStep, spot_zones};
use crate::quantity::Seconds;

/// When and how the state is saved.
pub fn checkpointing() -> BoxedStrategy<Checkpointing> {
    let contents = [Contents::Resume, Contents::Model, Contents::AdaptersResume, Contents::Adapters];
    let drawn = record!(Checkpointing {
        interval_s: rarely(figure(0.1..=1e9)),
        every_steps: rarely(figure(1.0..=1e9)),
        mode: word(SaveMode::ALL),
        contents: rarely(pick(contents.to_vec())),
        writer: pick(vec![Writer::Single, Writer::Sharded]),
        size_gb: rarely(figure(1e-6..=1e6)),
        node_gb_s: rarely(figure(0.1..=1e6)),
        store_gb_s: rarely(figure(0.1..=1e9)),
        latency_s: rarely(figure(0.0..=1e5)),
        setup_s: rarely(figure(0.0..=1e5)),
        near_gb_s: rarely(figure(0.1..=1e6)),
        recoverable: rarely(figure(0.0..=1.0)),
    });
    drawn
        .prop_map(|mut c| {
            c.every_steps = c.every_steps.filter(|_| c.interval_s.is_none());
            c
        })
        .boxed()
}

fn spells() -> BoxedStrategy<Spells> {
    let quartiles = rarely(figure(0.1..=1.0));
    (figure(60.0..=1e7), figure(0.0..=50.0), quartiles)
        .prop_map(|(mean, scv, quartile)| {
            let share = |of: f64| quartile.map(|q| Seconds::of(mean * q * of));
            Spells {
                mean: Seconds::of(mean),
                scv,
                lower_quartile: share(0.3),
                median: share(0.7),
                upper_quartile: share(1.4),
            }
        })
        .boxed()
}

fn availability() -> BoxedStrategy<Availability> {
    let measured =
        (figure(0.0..=0.5), figure(0.0..=0.5), figure(60.0..=1e8)).prop_map(|(day_sd, week_sd, record)| {
            Swing::Measured { day_sd, week_sd, record: Seconds::of(record) }
        });
    record!(Availability {
        up: prop_oneof![1 => Just(None), 5 => spells().prop_map(Some)],
        down: spells(),
        swing: prop_oneof![Just(Swing::Independent), Just(Swing::Typical), measured],
        start: pick(vec![Start::AnyMoment, Start::WithCapacity]),
        loss_share: rarely(figure(0.01..=1.0)),
    })
}

/// A record of a gang of at most `nodes` nodes that is complete at some time.
fn trace(nodes: u32) -> BoxedStrategy<Trace> {
    vec((60.0..=50_000.0_f64, 0..=nodes), 1..=20)
        .prop_map(move |spans| {
            let mut at = 0.0;
            let mut steps = vec![TraceStep { at: Seconds::ZERO, nodes }];
            for (after, there) in spans {
                at += after;
                steps.push(TraceStep { at: Seconds::of(at), nodes: there });
            }
            // In order and inside the length by construction.
            Trace::new(steps, Seconds::of(at + 3600.0)).ok()
        })
        .prop_filter_map("a trace out of order", |trace| trace)
        .boxed()
}

/// How nodes are lost and come back.
pub fn faults() -> BoxedStrategy<Faults> {
    let drawn = record!(Faults {
        hazard: rarely(word(Hazard::ALL)),
        per_node_hour: rarely(figure(0.0..=1.0)),
        zone: rarely(pick(spot_zones().iter().map(|zone| zone.id.clone()).collect())),
        availability: rarely(availability()),
        trace: rarely(trace(1)),
        loss_share: rarely(figure(0.01..=1.0)),
        up_scv: rarely(figure(0.0..=50.0)),
        wait_s: rarely(figure(1.0..=1e6)),
        wait_scv: rarely(figure(0.0..=50.0)),
        provision_s: rarely(figure(0.0..=1e4)),
        restore_s: rarely(figure(0.0..=1e4)),
        notice_s: rarely(figure(0.0..=1e4)),
        policy: word(LossPolicy::ALL),
        patience_s: rarely(figure(0.0..=1e6)),
        spot_share: rarely(figure(0.0..=1.0)),
        firm_price: rarely(pick(vec![PriceKind::OnDemand, PriceKind::Reserved1y, PriceKind::Reserved3y])),
        least_nodes: rarely(1_u32..=64),
        spares: rarely(0_u32..=64),
        repair_s: rarely(figure(1.0..=1e7)),
    });
    drawn.prop_map(one_record).boxed()
}

/// A record stands alone: how often and for how long is told once.
fn one_record(mut f: Faults) -> Faults {
    f.availability = f.availability.filter(|_| f.zone.is_none());
    f.trace = f.trace.filter(|_| f.zone.is_none() && f.availability.is_none());
    if f.zone.is_some() || f.availability.is_some() || f.trace.is_some() {
        (f.hazard, f.per_node_hour, f.loss_share) = (None, None, None);
        (f.up_scv, f.wait_s, f.wait_scv) = (None, None, None);
    }
    f.per_node_hour = f.per_node_hour.filter(|_| f.hazard.is_none());
    f
}

/// What is paid beside the machines' time.
pub fn expenses() -> BoxedStrategy<Expenses> {
    let some = |most: f64| prop_oneof![1 => Just(0.0), 1 => figure(0.0..=most)];
    record!(Expenses {
        egress_gb: some(1e12),
        egress_usd_per_gb: rarely(figure(0.0..=1e3)),
        storage_gb: some(1e12),
        storage_months: rarely(figure(0.0..=1200.0)),
        storage_usd_per_gb_month: rarely(figure(0.0..=1e3)),
        people_hours: some(1e7),
        people_usd_per_hour: some(1e5),
        evaluation_runs: some(1e8),
        evaluation_hours: some(1e5),
        evaluation_gpus: rarely(figure(0.0..=1e6)),
        evaluation_shared_by: rarely(figure(1.0..=1e4)),
        failed_starts: some(1e6),
        failed_start_hours: rarely(figure(0.0..=1e5)),
    })
}

/// Machines of one's own.
pub fn owned() -> BoxedStrategy<Owned> {
    let drawn = record!(Owned {
        capex_usd: figure(0.0..=1e12),
        utilisation: figure(1e-3..=1.0),
        years: rarely(figure(0.1..=30.0)),
        resale_usd: figure(0.0..=1.0),
        power_kw: rarely(figure(0.0..=1e7)),
        pue: rarely(figure(1.0..=5.0)),
        usd_per_kwh: rarely(figure(0.0..=10.0)),
        idle_power: rarely(figure(0.0..=1.0)),
        staff_usd_per_year: figure(0.0..=1e11),
        space_usd_per_year: figure(0.0..=1e11),
    });
    // Drawn as a share of the price.
    drawn.prop_map(|owned| Owned { resale_usd: owned.resale_usd * owned.capex_usd, ..owned }).boxed()
}

/// How the result is served.
pub fn serving() -> BoxedStrategy<Serving> {
    record!(Serving {
        memory_gib: rarely(figure(0.001..=1e6)),
        must_fit: once_in(4),
        bandwidth_gb_s: rarely(figure(0.001..=1e7)),
        tflops: rarely(figure(0.001..=1e7)),
        usd_per_hour: rarely(figure(0.0..=1e6)),
        bits: rarely(figure(1.0..=64.0)),
        prompt: rarely(figure(0.0..=1e8)),
        answer: rarely(figure(1.0..=1e8)),
        batch: rarely(1_u32..=1_000_000),
        draft_tokens: prop_oneof![2 => Just(0_u32), 1 => 0_u32..=64],
        acceptance: figure(0.0..=1.0),
        draft_cost: figure(0.0..=10.0),
        tokens_per_day: rarely(figure(1.0..=1e15)),
    })
}

/// A run as it may be asked about on machines of `nodes` nodes, its length left at one step.
///
/// Node counts are the whole cluster's: which others divide the batch depends on the layout.
pub fn run(nodes: u32) -> BoxedStrategy<Run> {
    let gang = (proptest::option::of(faults()), trace(nodes)).prop_map(|(faults, trace)| {
        faults.map(|mut f| {
            // The record drawn with it is of one node.
            f.trace = f.trace.map(|_| trace);
            f
        })
    });
    let drawn = record!(Run {
        tokens: Just(None),
        steps: Just(Some(1.0)),
        price: word(PriceKind::ALL),
        duplicated: prop_oneof![2 => Just(0.0), 1 => figure(0.0..=0.999)],
        checkpoint: rarely(checkpointing()),
        faults: gang,
        node_counts: once_in(8).prop_map(move |varies| if varies { halves(nodes) } else { Vec::new() }),
        deadline_hours: rarely(figure(0.0..=1e7)),
        expenses: rarely(expenses()),
        offers: once_in(8),
        owned: rarely(owned()),
        serving: rarely(serving()),
    });
    drawn.prop_map(move |run| mended(run, nodes)).boxed()
}

fn halves(nodes: u32) -> Vec<NodeCount> {
    vec![NodeCount { nodes, share: 0.5 }; 2]
}

/// What does not go together gives way.
fn mended(mut run: Run, nodes: u32) -> Run {
    let spot = run.price == PriceKind::Spot;
    if let Some(faults) = &mut run.faults {
        let needs_spot = matches!(faults.policy, LossPolicy::FallBack | LossPolicy::SpotThenReserved);
        let too_many = faults.policy == LossPolicy::Shrink && nodes > 64;
        if (needs_spot && !spot) || too_many || !run.node_counts.is_empty() {
            faults.policy = LossPolicy::Wait;
        }
    }
    if let Some(checkpoint) = &mut run.checkpoint
        && checkpoint.mode == SaveMode::TwoLevel
        && !run.node_counts.is_empty()
    {
        checkpoint.mode = SaveMode::Asynchronous;
    }
    run
}
