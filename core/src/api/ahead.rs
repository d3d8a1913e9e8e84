//! From an undisturbed run to what it may come to: saves, losses, waits, and the bill.

use super::answer::RunReport;
use super::estimate::Workplace;
use super::outlook::{CheckpointOutlook, RunOutlook};
use super::reckon::Prospect;
use super::run::{Checkpointing, Faults, Hazard, LossPolicy, Run, SaveMode};
use crate::assumption::Assumption;
use crate::checkpoint::{Asynchronous, Contents, Saving, Store, Writer, optimum, two_level};
use crate::cluster::PriceKind;
use crate::error::{Error, ErrorCode, Result};
use crate::layout::{Layout, Sharding};
use crate::preemption::{
    Availability, Elastic, Fleet, Outlook, Policy, RestartJob, SparePool, Spells, SpotOutlook, Start, Swing,
    Weights, gang_mean_up, hazard_of_monthly_share, outlook_of, shortest_interval, spot_zones,
};
use crate::quantity::{Bytes, BytesPerSecond, Seconds};
use crate::step::StepReport;
use crate::term::{Term, Terms};
use crate::workload::Batch;

/// Mean share of a gang that one eviction takes, where nothing is known of the zone.
///
/// Source: the recorded fleets; 0.42 in the 16-node gang, less in larger ones.
const SPOT_LOSS_SHARE: f64 = 0.3;
/// Squared variation of spells with and without capacity in recorded zones.
const SPOT_SCV: (f64, f64) = (4.5, 3.0);
/// Mean wait for spot capacity, in seconds: an hour, between the recorded zones' 20 min and 4 h.
const SPOT_WAIT: f64 = 3600.0;
/// Detection and replacement of a failed node.
///
/// Source: Jiang et al. 2024 (`MegaScale`), detection and recovery within ten minutes.
const REPLACEMENT: f64 = 600.0;
/// From machines to a running job, in seconds: image, rendezvous, first step.
const PROVISION: f64 = 120.0;
/// Warm-up after a load, in seconds.
const WARM_UP: f64 = 60.0;
/// Stall of an asynchronous save besides the copy, in seconds.
///
/// Source: PyTorch distributed checkpointing on a 7 B model, 6.3 s in all, 0.4 s of it the copy.
const ASYNC_SETUP: f64 = 5.9;
/// Share of failures after which the copy at a peer or on the node is still there.
///
/// Source: Moody et al. 2010 (SCR), 85 % of failures.
const RECOVERABLE: f64 = 0.85;
/// Until a failed node is back, in seconds: two days.
const REPAIR: f64 = 172_800.0;

/// What a figure stands at when it was not given.
pub(super) struct Assumed(pub(super) Vec<Assumption>);

impl Assumed {
    /// The figure given, or its default with a note.
    pub(super) fn or(
        &mut self,
        given: Option<f64>,
        field: &'static str,
        value: f64,
        why: &'static str,
    ) -> f64 {
        given.unwrap_or_else(|| {
            self.0.push(Assumption::new(field, round(value), why));
            value
        })
    }
}

impl Assumed {
    /// The same of a count.
    pub(super) fn count(
        &mut self,
        given: Option<u32>,
        field: &'static str,
        value: u32,
        why: &'static str,
    ) -> u32 {
        self.or(given.map(f64::from), field, f64::from(value), why);
        given.unwrap_or(value)
    }
}

/// Four digits are enough to state an assumption.
fn round(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let scale = libm::pow(10.0, 3.0 - libm::floor(libm::log10(value.abs())));
    (libm::round(value * scale) / scale).to_string()
}

/// How the gang is lost, in figures.
pub(super) struct Losing {
    pub(super) per_node_hour: f64,
    pub(super) share: f64,
    pub(super) availability: Availability,
    pub(super) provision: Seconds,
}

/// A layout with its batch and the step it makes.
#[derive(Clone, Copy)]
pub(super) struct Laid<'a> {
    pub(super) layout: &'a Layout,
    pub(super) batch: &'a Batch,
    pub(super) step: &'a StepReport,
}

impl Workplace<'_> {
    /// What the run may come to under `run`, which may differ from the request's in its price.
    pub(super) fn look_ahead(&self, run: &Run, laid: Laid<'_>, report: &RunReport) -> Result<RunOutlook> {
        let step = laid.step;
        let mut assumed = Assumed(Vec::new());
        let work = report.time;
        if run.faults.is_some() || run.checkpoint.is_some() {
            self.check_length(work)?;
        }
        let saving = (run.faults.is_some() || run.checkpoint.is_some())
            .then(|| self.saving(run, laid.layout.sharding, &mut assumed));
        let losing = match &run.faults {
            Some(faults) => Some(self.losing(faults, run.price, &mut assumed)?),
            None => None,
        };
        let (job, checkpoint) = Self::job(run, step, work, saving.as_ref(), losing.as_ref(), &mut assumed)?;
        if !run.node_counts.is_empty() {
            let varying = self.varying(run, laid, &job, losing.as_ref())?;
            let whole = RestartJob { work: varying.work, ..job };
            let prospect = Prospect::Varying(Box::new(varying));
            return Ok(self.outlook(run, step, &whole, checkpoint, losing, Some(&prospect), assumed));
        }
        let prospect = match (&run.faults, &losing) {
            (Some(faults), Some(losing)) if losing.availability.up.is_some() => {
                Some(self.prospect(faults, losing, &job, &mut assumed)?)
            }
            _ => None,
        };
        Ok(self.outlook(run, step, &job, checkpoint, losing, prospect.as_ref(), assumed))
    }

    /// Losses of a node in an hour, when the run asks about losses.
    pub(super) fn per_node_hour(&self) -> Option<f64> {
        let faults = self.run.faults.as_ref()?;
        let losing = self.losing(faults, self.run.price, &mut Assumed(Vec::new()));
        losing.ok().map(|l| l.per_node_hour)
    }

    fn check_length(&self, work: Seconds) -> Result<()> {
        if work.get() >= 1.0 && work.get() <= 1e10 {
            return Ok(());
        }
        let field = if self.run.steps.is_some() { "run.steps" } else { "run.tokens" };
        let allowed = "a run of 1 s to 1e10 s where saves or losses are asked about";
        Err(Error::new(field, ErrorCode::OutOfRange, format_args!("a run of {work}"), allowed))
    }

    pub(super) fn saving(
        &self,
        run: &Run,
        sharding: Sharding,
        assumed: &mut Assumed,
    ) -> (Saving, Terms<Bytes>) {
        let policy = run.checkpoint.clone().unwrap_or_default();
        let contents = policy.contents.unwrap_or(if self.recipe.frozen_base() {
            Contents::AdaptersResume
        } else {
            Contents::Resume
        });
        let bytes = match policy.size_gb {
            Some(gb) => Terms(vec![Term::new("checkpoint", Bytes::of(gb * 1e9), "given", "request")]),
            None => crate::memory::saved_state(self.model, self.recipe, sharding).bytes(contents),
        };
        let usual = Store::parallel_file_system();
        let node = match (policy.node_gb_s, self.cluster.storage) {
            (None, Some(rate)) => rate,
            (given, _) => BytesPerSecond::of(
                1e9 * assumed.or(
                    given,
                    "run.checkpoint.node_gb_s",
                    usual.node_write.get() / 1e9,
                    "a parallel file system in the cloud (torchsnapshot on FSx for Lustre)",
                ),
            ),
        };
        let store = Store {
            node_write: node,
            node_read: node,
            total: policy.store_gb_s.map(|gb| BytesPerSecond::of(gb * 1e9)),
            latency: Seconds::of(assumed.or(
                policy.latency_s,
                "run.checkpoint.latency_s",
                usual.latency.get(),
                "torchsnapshot on FSx for Lustre",
            )),
        };
        let asynchronous = (policy.mode == SaveMode::Asynchronous).then(|| Asynchronous {
            device_to_host: self.copy_rate(),
            setup: Seconds::of(assumed.or(
                policy.setup_s,
                "run.checkpoint.setup_s",
                ASYNC_SETUP,
                "PyTorch distributed checkpointing of a 7 B model",
            )),
        });
        let saving = Saving {
            bytes: bytes.total().max(Bytes::of(1.0)),
            nodes: self.cluster.nodes,
            ranks_per_node: self.cluster.gpus_per_node,
            writer: policy.writer,
            store,
            asynchronous,
        };
        (saving, bytes)
    }

    /// A pinned copy from one GPU to its host; PCIe 4's where the link is unknown.
    fn copy_rate(&self) -> BytesPerSecond {
        self.cluster
            .host
            .as_ref()
            .map_or(BytesPerSecond::of(25e9), |host| host.bandwidth * host.copy_fraction.unwrap_or(0.8))
    }

    fn losing(&self, faults: &Faults, price: PriceKind, assumed: &mut Assumed) -> Result<Losing> {
        let spot = price == PriceKind::Spot;
        let nodes = f64::from(self.cluster.nodes);
        let why = "image, rendezvous, first step";
        let provision = assumed.or(faults.provision_s, "run.faults.provision_s", PROVISION, why);
        let provision = Seconds::of(provision);
        if let Some(availability) = self.recorded(faults)? {
            let why = "the record does not say";
            let given = availability.loss_share;
            let share = assumed.or(given, "run.faults.loss_share", SPOT_LOSS_SHARE, why).max(1.0 / nodes);
            let up = availability.up.as_ref().map(|up| up.mean.get());
            return Ok(Losing {
                per_node_hour: up.map_or(0.0, |up| 3600.0 * share / up),
                share,
                availability,
                provision,
            });
        }
        let hazard = faults.hazard.unwrap_or(if spot { Hazard::Base } else { Hazard::Hardware });
        let (rate, why) = self.rate(hazard);
        let per_node_hour = assumed.or(faults.per_node_hour, "run.faults.per_node_hour", rate, why);
        let one = 1.0 / nodes;
        let share = if spot { SPOT_LOSS_SHARE.max(one) } else { one };
        let why = if spot {
            "evictions come in groups; recorded fleets lose 0.1 to 0.5 of a gang at once"
        } else {
            "hardware fails node by node"
        };
        let share = assumed.or(faults.loss_share, "run.faults.loss_share", share, why).max(one);
        let (up, down) = if spot { SPOT_SCV } else { (1.0, 1.0) };
        let scatter = "as in recorded zones, 1 where memoryless";
        let up = assumed.or(faults.up_scv, "run.faults.up_scv", up, scatter);
        let down = assumed.or(faults.wait_scv, "run.faults.wait_scv", down, scatter);
        let wait = if spot { SPOT_WAIT } else { REPLACEMENT };
        let why = if spot { "recorded zones: 20 min to 4 h" } else { "detection and replacement" };
        let wait = assumed.or(faults.wait_s, "run.faults.wait_s", wait, why);
        let spells = |mean: Seconds, scv: f64| Spells { scv, ..Spells::memoryless(mean) };
        let mean = gang_mean_up(per_node_hour, nodes, Some(share));
        let (least, most) = (Seconds::of(1.0), Seconds::of(1e10));
        Ok(Losing {
            per_node_hour,
            share,
            availability: Availability {
                up: (per_node_hour > 0.0).then(|| spells(mean.max(least).min(most), up)),
                down: spells(Seconds::of(wait), down),
                swing: if spot { Swing::Typical } else { Swing::Independent },
                start: if spot { Start::AnyMoment } else { Start::WithCapacity },
                loss_share: Some(share),
            },
            provision,
        })
    }

    /// When the gang is complete, as a record says.
    fn recorded(&self, faults: &Faults) -> Result<Option<Availability>> {
        if let Some(id) = &faults.zone {
            let known = spot_zones();
            let found = known.iter().find(|zone| zone.id == *id);
            return found.map(|zone| Some(zone.availability.clone())).ok_or_else(|| {
                let known: Vec<&str> = known.iter().map(|zone| zone.id.as_str()).collect();
                let (field, code) = ("run.faults.zone", ErrorCode::UnknownName);
                Error::new(field, code, format_args!("\"{id}\""), format!("one of: {}", known.join(", ")))
            });
        }
        let Some(trace) = &faults.trace else { return Ok(faults.availability.clone()) };
        let nodes = self.cluster.nodes;
        trace.describe(nodes).map(Some).ok_or_else(|| {
            let given = format_args!("never {nodes} nodes at once");
            let allowed =
                format!("a record in which all {nodes} nodes of the cluster are there at some time");
            Error::new("run.faults.trace", ErrorCode::Conflict, given, allowed)
        })
    }

    /// Losses per node-hour of a named hazard, and what it rests on.
    fn rate(&self, hazard: Hazard) -> (f64, &'static str) {
        // Rates are told of nodes of eight.
        let hardware =
            Fleet::Regular.per_1000_node_days() / 24_000.0 * f64::from(self.cluster.gpus_per_node) / 8.0;
        match (hazard, self.cluster.interruption) {
            (Hazard::Hardware, _) => (hardware, "4 failures per 1,000 days of a node of eight"),
            (Hazard::Band, Some([_, high])) => {
                (hazard_of_monthly_share(high), "upper end of the offer's interruption band")
            }
            (Hazard::Optimistic, _) => {
                (SpotOutlook::Optimistic.per_node_hour(), "a judgement: spare capacity")
            }
            (Hazard::Pessimistic, _) => {
                (SpotOutlook::Pessimistic.per_node_hour(), "a judgement: a contended zone")
            }
            (Hazard::Base | Hazard::Band, _) => {
                (SpotOutlook::Base.per_node_hour(), "a judgement: nothing is known of the zone")
            }
        }
    }

    /// The job with its interval, and what is said of its saves.
    fn job(
        run: &Run,
        step: &StepReport,
        work: Seconds,
        saving: Option<&(Saving, Terms<Bytes>)>,
        losing: Option<&Losing>,
        assumed: &mut Assumed,
    ) -> Result<(RestartJob, Option<CheckpointOutlook>)> {
        let mut job = RestartJob {
            work,
            interval: work,
            save: Seconds::ZERO,
            restore: Seconds::ZERO,
            provision: losing.map_or(Seconds::ZERO, |l| l.provision),
        };
        let Some((saving, bytes)) = saving else { return Ok((job, None)) };
        let policy = run.checkpoint.clone().unwrap_or_default();
        let faults = run.faults.clone().unwrap_or_default();
        let (write, load) = (saving.write().total(), saving.load());
        let mut stall = saving.stall();
        job.save = stall.total();
        let risky = losing.filter(|l| l.availability.up.is_some());
        if risky.is_some() {
            let warm = load.get() + WARM_UP;
            let why = "the load and a minute of warm-up";
            job.restore = Seconds::of(assumed.or(faults.restore_s, "run.faults.restore_s", warm, why));
        }
        let mean_up = risky.and_then(|l| l.availability.up.as_ref()).map(|up| up.mean);
        let mut full_interval = None;
        let mut best_interval = None;
        if policy.mode == SaveMode::TwoLevel {
            let light = Self::light(&policy, saving, bytes.total(), assumed);
            if let (Some(mean_up), Some(losing)) = (mean_up, risky) {
                let share = assumed.or(
                    policy.recoverable,
                    "run.checkpoint.recoverable",
                    RECOVERABLE.min(1.0 - losing.share).max(0.0),
                    "85 % of failures (Moody 2010), at most what a loss leaves of the gang",
                );
                let plan = two_level(light.total(), job.save, share, mean_up);
                let near =
                    Self::asked(&policy, step).unwrap_or(plan.near).min(work).max(shortest_interval(work));
                let far = plan.far.max(near);
                // To first order: full saves spread over the light ones; a loss that takes the light
                // level with it undoes half a full interval more.
                job.restore += far.min(work) * ((1.0 - share) / 2.0);
                stall = light;
                stall.0.push(Term::new(
                    "share of the full saves",
                    job.save * (near / far),
                    "full stall x light interval / full interval",
                    "Vaidya 1995",
                ));
                best_interval = Some(plan.near);
                full_interval = Some(far);
            } else {
                stall = light;
            }
            job.save = stall.total();
        }
        let least = saving.least_interval().max(shortest_interval(work));
        let best = match (&mean_up, risky, best_interval) {
            (_, _, Some(two)) => Some(two),
            (Some(mean_up), Some(losing), None) => Some(Self::best(&faults, losing, &job, *mean_up)?),
            _ => None,
        };
        let wanted = Self::asked(&policy, step).or(best).unwrap_or(work);
        job.interval = wanted.max(least).min(work);
        if job.interval > wanted && wanted < work {
            assumed.0.push(Assumption::new(
                "run.checkpoint.interval_s",
                round(job.interval.get()),
                "the next save waits for the last write, and a run has at most 19,000 saves",
            ));
        }
        let notice = faults.notice_s.map(Seconds::of).filter(|_| risky.is_some());
        let on_notice = notice.and_then(|n| RestartJob { save: write, ..job }.saving_on_notice(n));
        let mut outlook = CheckpointOutlook {
            bytes: bytes.clone(),
            stall,
            write,
            load,
            host_memory: saving.host_memory(),
            interval: job.interval,
            saves: f64::from(job.saves()),
            full_interval,
            best_interval: best.map(|b| b.max(least).min(work)),
            excess: 0.0,
            on_notice: on_notice.is_some(),
        };
        if let Some(noticed) = on_notice {
            outlook.interval = work;
            outlook.saves = 0.0;
            return Ok((noticed, Some(outlook)));
        }
        if let (Some(best), Some(losing)) = (outlook.best_interval, risky) {
            let whole = Outlook::new(&job, &losing.availability)?;
            outlook.excess = whole.expected() / whole.every(best).expected() - 1.0;
        }
        Ok((job, Some(outlook)))
    }

    /// Stall of a light save: each node hands its share to a peer or a local drive.
    fn light(policy: &Checkpointing, saving: &Saving, bytes: Bytes, assumed: &mut Assumed) -> Terms<Seconds> {
        let usual = Store::node_nvme();
        let rate = BytesPerSecond::of(
            1e9 * assumed.or(
                policy.near_gb_s,
                "run.checkpoint.near_gb_s",
                usual.node_write.get() / 1e9,
                "local drives of a node (torchsnapshot on NVMe)",
            ),
        );
        Saving {
            bytes: bytes.max(Bytes::of(1.0)),
            writer: Writer::Sharded,
            store: Store { node_write: rate, total: None, ..usual },
            asynchronous: None,
            ..*saving
        }
        .stall()
    }

    fn asked(policy: &Checkpointing, step: &StepReport) -> Option<Seconds> {
        policy.interval_s.map(Seconds::of).or(policy.every_steps.map(|n| step.total() * n))
    }

    fn best(faults: &Faults, losing: &Losing, job: &RestartJob, mean_up: Seconds) -> Result<Seconds> {
        if matches!(faults.policy, LossPolicy::Shrink | LossPolicy::Spares) {
            return Ok(optimum(job.save.max(Seconds::of(1e-3)), mean_up));
        }
        let whole = Outlook::new(job, &losing.availability)?;
        Ok(whole.best_interval(Weights::TIME))
    }

    fn prospect(
        &self,
        faults: &Faults,
        losing: &Losing,
        job: &RestartJob,
        assumed: &mut Assumed,
    ) -> Result<Prospect> {
        let nodes = self.cluster.nodes;
        let node_mean_up = Seconds::of((3600.0 / losing.per_node_hour).clamp(1.0, 1e12));
        let policy = match faults.policy {
            LossPolicy::Wait => Policy::Wait,
            LossPolicy::FallBack => {
                let why = "the first loss is not waited out";
                let patience = assumed.or(faults.patience_s, "run.faults.patience_s", 0.0, why);
                Policy::FallBack { patience: Seconds::of(patience) }
            }
            LossPolicy::SpotThenReserved => {
                let spot_share =
                    assumed.or(faults.spot_share, "run.faults.spot_share", 0.5, "half of the work");
                Policy::SpotThenReserved { spot_share }
            }
            LossPolicy::Shrink => {
                if nodes > 64 {
                    let allowed = "shrink on at most 64 nodes";
                    return Err(Error::new(
                        "run.faults.policy",
                        ErrorCode::Conflict,
                        format_args!("shrink on {nodes} nodes"),
                        allowed,
                    ));
                }
                let half = nodes.div_ceil(2);
                let least_nodes = assumed
                    .count(faults.least_nodes, "run.faults.least_nodes", half, "half of the nodes")
                    .min(nodes);
                let refill = losing.availability.down.mean;
                let gang = Elastic { nodes, least_nodes, node_mean_up, gang_loss: 0.0, refill };
                return gang.outlook(job).map(Prospect::Elastic).map_err(told);
            }
            LossPolicy::Spares => {
                let pool = SparePool {
                    nodes,
                    spares: assumed.count(faults.spares, "run.faults.spares", 1, "one node standing by"),
                    node_mean_up,
                    repair: Seconds::of(assumed.or(
                        faults.repair_s,
                        "run.faults.repair_s",
                        REPAIR,
                        "two days until a failed node is back",
                    )),
                };
                let chain = pool.outlook(job).map_err(told)?;
                return Ok(Prospect::Chain(Box::new(chain.into())));
            }
        };
        outlook_of(job, &losing.availability, policy)
            .map(|chain| Prospect::Chain(Box::new(chain)))
            .map_err(told)
    }
}

/// The fault of a chain, under the field of the request that led to it.
fn told(e: Error) -> Error {
    if e.field == "job.interval" {
        e.moved("job.interval", "run.checkpoint.interval_s")
    } else {
        e.under("run.faults")
    }
}
