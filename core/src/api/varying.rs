//! Runs whose node count changes on the way: each part with its own step time, memory and gang.

use super::ahead::{Assumed, Laid, Losing};
use super::answer::Verdict;
use super::estimate::Workplace;
use super::outlook::PhaseOutlook;
use super::run::{NodeCount, Run, SaveMode};
use crate::cluster::Cluster;
use crate::error::{Error, ErrorCode, Result};
use crate::layout::Layout;
use crate::preemption::{
    Availability, Phase, PhasedOutlook, RestartJob, gang_mean_up, phased, shortest_interval,
};
use crate::quantity::Seconds;

/// The parts one after another.
pub(super) struct Varying {
    pub(super) outlook: PhasedOutlook,
    pub(super) parts: Vec<PhaseOutlook>,
    /// Steps of all parts, and their saves.
    pub(super) work: Seconds,
    pub(super) saving: Seconds,
    /// The same in time of the cluster's whole node count: what is paid.
    pub(super) paid_work: Seconds,
    pub(super) paid_saving: Seconds,
}

impl Workplace<'_> {
    /// The parts of a run, from the job it would be on the cluster's own nodes.
    pub(super) fn varying(
        &self,
        run: &Run,
        laid: Laid<'_>,
        job: &RestartJob,
        losing: Option<&Losing>,
    ) -> Result<Varying> {
        if run.checkpoint.as_ref().is_some_and(|c| c.mode == SaveMode::TwoLevel) {
            let allowed = "sync or async where node counts vary";
            return Err(Error::new("run.checkpoint.mode", ErrorCode::Conflict, SaveMode::TwoLevel, allowed));
        }
        let base = f64::from(self.cluster.nodes);
        // What this assumes was said where the job was made.
        let (whole, _) = self.saving(run, laid.layout.sharding, &mut Assumed(Vec::new()));
        let mut phases = Vec::with_capacity(run.node_counts.len());
        let mut parts = Vec::with_capacity(run.node_counts.len());
        let zero = Seconds::ZERO;
        let (mut work, mut saving, mut paid_work, mut paid_saving) = (zero, zero, zero, zero);
        for (i, part) in run.node_counts.iter().enumerate() {
            let cluster = Cluster { nodes: part.nodes, ..self.cluster.clone() };
            let place = Workplace { cluster: &cluster, ..*self };
            let layout = resized(laid.layout, *part, self.cluster.nodes)
                .filter(|l| laid.batch.global_batch.is_multiple_of(l.data_parallel() * l.micro_batch))
                .ok_or_else(|| uneven(i, part.nodes, laid))?;
            let step = place.step(&layout, laid.batch).total();
            let memory = place.memory(&layout, laid.batch);
            let own = job.work * part.share * (step / laid.step.total());
            if !(1.0..=1e10).contains(&own.get()) {
                let allowed = "a share that makes a part of 1 s to 1e10 s";
                let given = format_args!("{}, a part of {own}", part.share);
                return Err(
                    Error::new("share", ErrorCode::OutOfRange, given, allowed).entry("run.node_counts", i)
                );
            }
            let saves = RestartJob {
                work: own,
                interval: job.interval.max(shortest_interval(own)).min(own),
                save: ratio(job.save, &whole, part.nodes, |s| s.stall().total()),
                restore: ratio(job.restore, &whole, part.nodes, crate::checkpoint::Saving::load),
                provision: job.provision,
            };
            let share = f64::from(part.nodes) / base;
            let stalls = saves.save * f64::from(saves.saves());
            work += own;
            saving += stalls;
            paid_work += own * share;
            paid_saving += stalls * share;
            parts.push(PhaseOutlook {
                nodes: part.nodes,
                share: part.share,
                step,
                work: own,
                needed: memory.needed,
                fits: place.fit(&memory).verdict != Verdict::DoesNotFit,
            });
            let availability = match losing {
                Some(losing) => of_nodes(losing, part.nodes, self.cluster.nodes),
                None => Availability::undisturbed(),
            };
            phases.push(Phase { nodes: part.nodes, job: saves, availability });
        }
        let outlook = phased(&phases).map_err(|e| e.under("run"))?;
        Ok(Varying { outlook, parts, work, saving, paid_work, paid_saving })
    }
}

/// A time of saving or loading on another number of nodes.
fn ratio(
    time: Seconds,
    whole: &crate::checkpoint::Saving,
    nodes: u32,
    of: fn(&crate::checkpoint::Saving) -> Seconds,
) -> Seconds {
    let there = of(whole).max(Seconds::of(1e-9));
    time * (of(&crate::checkpoint::Saving { nodes, ..*whole }) / there)
}

/// The layout on another number of nodes: data parallelism grows or shrinks, replicas first.
fn resized(layout: &Layout, part: NodeCount, nodes: u32) -> Option<Layout> {
    let (to, from) = (u64::from(part.nodes), u64::from(nodes));
    let scaled = |degree: u64| {
        let product = degree.checked_mul(to)?;
        (product.is_multiple_of(from) && product >= from).then(|| product / from)
    };
    let mut layout = layout.clone();
    if let Some(replicate) =
        scaled(layout.data_parallel_replicate).filter(|_| layout.data_parallel_replicate > 1)
    {
        layout.data_parallel_replicate = replicate;
    } else {
        layout.data_parallel_shard = scaled(layout.data_parallel_shard)?;
    }
    Some(layout)
}

fn uneven(i: usize, nodes: u32, laid: Laid<'_>) -> Error {
    Error::new(
        format!("run.node_counts[{i}].nodes"),
        ErrorCode::Conflict,
        nodes,
        format!(
            "a number of nodes on which the data-parallel degree of {} scales to a whole number that \
             divides the global batch of {} by micro-batches of {}",
            laid.layout.data_parallel(),
            laid.batch.global_batch,
            laid.layout.micro_batch
        ),
    )
}

/// When a gang of another size is complete: losses that take one node, or the share seen.
fn of_nodes(losing: &Losing, nodes: u32, recorded: u32) -> Availability {
    let (n, all) = (f64::from(nodes), f64::from(recorded));
    let share = if losing.share * all <= 1.0 + 1e-9 { 1.0 / n } else { losing.share.max(1.0 / n) };
    let mut out = losing.availability.clone();
    out.loss_share = Some(share);
    if let Some(up) = &mut out.up {
        let longer = gang_mean_up(losing.per_node_hour, n, Some(share))
            / gang_mean_up(losing.per_node_hour, all, Some(losing.share));
        up.mean = up.mean * longer;
        for quartile in [&mut up.lower_quartile, &mut up.median, &mut up.upper_quartile] {
            *quartile = quartile.map(|q| q * longer);
        }
    }
    out
}
