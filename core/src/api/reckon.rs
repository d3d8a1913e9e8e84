//! The answer of a look ahead: where the expected time goes, what it costs, how widely both scatter.

use super::ahead::{Assumed, Losing};
use super::estimate::Workplace;
use super::outlook::{CheckpointOutlook, Deadline, LossOutlook, RunOutlook, Spread};
use super::run::{LossPolicy, Run};
use super::varying::Varying;
use crate::cluster::PriceKind;
use crate::ledger::{Bill, MachineTime};
use crate::preemption::{ElasticOutlook, GangPrices, PolicyOutlook, RestartJob, probability_of};
use crate::quantity::{Seconds, Usd, UsdPerSecond};
use crate::step::StepReport;
use crate::term::{Term, Terms};

/// The chain's word for a run that does not end, in seconds.
const NEVER: f64 = 1e13;

/// The run under its policy.
pub(super) enum Prospect {
    Chain(Box<PolicyOutlook>),
    Elastic(ElasticOutlook),
    Varying(Box<Varying>),
}

impl Prospect {
    fn expected(&self) -> Seconds {
        match self {
            Self::Chain(c) => c.expected(),
            Self::Elastic(e) => e.expected(),
            Self::Varying(v) => v.outlook.expected(),
        }
    }

    fn quantile(&self, p: f64) -> Seconds {
        match self {
            Self::Chain(c) => c.quantile(p),
            Self::Elastic(e) => e.quantile(p),
            Self::Varying(v) => v.outlook.quantile(p),
        }
    }

    fn probability_by(&self, deadline: Seconds) -> f64 {
        match self {
            Self::Chain(c) => c.probability_by(deadline),
            Self::Elastic(e) => probability_of(|p| e.quantile(p), deadline),
            Self::Varying(v) => v.outlook.probability_by(deadline),
        }
    }
}

impl Workplace<'_> {
    #[expect(clippy::too_many_arguments, reason = "the parts of one answer, each made once")]
    pub(super) fn outlook(
        &self,
        run: &Run,
        step: &StepReport,
        job: &RestartJob,
        checkpoint: Option<CheckpointOutlook>,
        losing: Option<Losing>,
        prospect: Option<&Prospect>,
        mut assumed: Assumed,
    ) -> RunOutlook {
        let mut undisturbed = job.undisturbed();
        let saving = job.save * f64::from(job.saves());
        let mut parts = Parts { saving, ..Parts::default() };
        let mut phases = Vec::new();
        let (mut ends, mut losses) = (true, None);
        let mut time_spread = Spread { p50: undisturbed, p90: undisturbed, p99: undisturbed };
        match prospect {
            None => parts.held = undisturbed,
            Some(Prospect::Chain(chain)) => {
                parts.held = chain.spot_time();
                parts.firm = chain.firm_time();
                parts.waiting = chain.waiting();
                parts.losses = chain.losses();
                losses = Some(parts.losses);
            }
            Some(Prospect::Elastic(elastic)) => {
                parts.held = elastic.expected();
                parts.nodes = elastic.node_time() / f64::from(self.cluster.nodes);
            }
            Some(Prospect::Varying(v)) => {
                parts.waiting = v.outlook.waiting();
                parts.held = v.outlook.expected() - parts.waiting;
                parts.nodes = v.outlook.node_time() / f64::from(self.cluster.nodes);
                parts.losses = v.outlook.losses();
                parts.saving = v.saving;
                losses = Some(parts.losses);
                undisturbed = v.outlook.undisturbed();
                phases.clone_from(&v.parts);
            }
        }
        if let Some(p) = prospect {
            time_spread = Spread { p50: p.quantile(0.5), p90: p.quantile(0.9), p99: p.quantile(0.99) };
            ends = p.expected().get() < NEVER;
        }
        let cost = self.price(run, run.price).map(|price| {
            let firm = run.faults.as_ref().and_then(|f| f.firm_price).unwrap_or_default();
            let firm = self.price(run, firm).unwrap_or(price);
            let ledger = self.ledger(run, step, job, prospect, &parts, price, firm, &mut assumed);
            let spread = Self::money(run, prospect, &parts, &ledger, price, firm, &time_spread);
            (ledger, spread)
        });
        let (ledger, cost_spread) = cost.map_or((None, None), |(l, s)| (Some(l), Some(s)));
        let deadline = run.deadline_hours.map(|hours| {
            let after = Seconds::of(hours * 3600.0);
            let chance = match prospect {
                Some(p) => p.probability_by(after),
                None => f64::from(u8::from(undisturbed <= after)),
            };
            Deadline { after, chance }
        });
        RunOutlook {
            undisturbed,
            time: parts.times(job),
            time_spread,
            phases,
            ends,
            ledger,
            cost_spread,
            deadline,
            checkpoint,
            losses: losing.map(|l| LossOutlook {
                per_node_hour: l.per_node_hour,
                loss_share: l.share,
                mean_up: l.availability.up.map(|up| up.mean),
                mean_down: l.availability.down.mean,
                expected: losses,
            }),
            assumptions: assumed.0,
        }
    }

    /// What the gang costs per time, spares included.
    fn price(&self, run: &Run, kind: PriceKind) -> Option<UsdPerSecond> {
        let spares = match &run.faults {
            Some(f) if f.policy == LossPolicy::Spares => f64::from(f.spares.unwrap_or(1)),
            _ => 0.0,
        };
        self.cluster.price(kind).map(|p| p * (1.0 + spares / f64::from(self.cluster.nodes)))
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of one bill, each made once")]
    fn ledger(
        &self,
        run: &Run,
        step: &StepReport,
        job: &RestartJob,
        prospect: Option<&Prospect>,
        parts: &Parts,
        price: UsdPerSecond,
        firm: UsdPerSecond,
        assumed: &mut Assumed,
    ) -> Terms<Usd> {
        let gpus = self.cluster.gpus() as f64;
        let stalled = waits(step);
        // What firm machines take over is work and saves in the proportion of the whole.
        let own = if parts.firm > Seconds::ZERO { parts.held / (parts.held + parts.firm) } else { 1.0 };
        let (work, saving) = match prospect {
            Some(Prospect::Varying(v)) => (v.paid_work, v.paid_saving),
            _ => (job.work * own, parts.saving * own),
        };
        let paid = if parts.nodes > Seconds::ZERO { parts.nodes } else { parts.held };
        let extra = paid - work - saving;
        let cut = parts.cut_saves(job).min(extra.max(Seconds::ZERO));
        let mut bill = Bill::new(
            gpus,
            price / gpus,
            MachineTime {
                training: work * (1.0 - stalled),
                stalled: work * stalled,
                saving,
                redone: (extra - cut).max(Seconds::ZERO),
                idle: if run.price == PriceKind::Spot { Seconds::ZERO } else { parts.waiting },
            },
        );
        bill.firm_time = parts.firm;
        bill.firm_per_gpu = firm / gpus;
        bill.retried_saves = cut;
        if let Some(expenses) = &run.expenses {
            self.expenses(expenses, parts.total(), &mut bill, assumed);
        }
        // Every figure was checked at the door.
        bill.lines().unwrap_or_default()
    }

    fn money(
        run: &Run,
        prospect: Option<&Prospect>,
        parts: &Parts,
        ledger: &Terms<Usd>,
        price: UsdPerSecond,
        firm: UsdPerSecond,
        time: &Spread<Seconds>,
    ) -> Spread<Usd> {
        let expected = ledger.total();
        let machines = |p: f64, at: Seconds| match prospect {
            None => None,
            Some(Prospect::Chain(chain)) if run.price == PriceKind::Spot => {
                let prices = GangPrices { spot: price, firm };
                Some(chain.money_quantile(prices, p) - chain.expected_money(prices))
            }
            Some(Prospect::Chain(_)) => Some(price * (at - parts.total())),
            // Nodes held on average over the run.
            Some(Prospect::Elastic(_) | Prospect::Varying(_)) => {
                Some(price * (at - parts.total()) * (parts.nodes / parts.held))
            }
        };
        let at = |p: f64, time: Seconds| machines(p, time).map_or(expected, |away| expected + away);
        Spread { p50: at(0.5, time.p50), p90: at(0.9, time.p90), p99: at(0.99, time.p99) }
    }
}

/// Share of the step that waits: for communication, input, the slowest rank.
fn waits(step: &StepReport) -> f64 {
    const WAITS: [&str; 11] = [
        "contention",
        "tensor parallel",
        "context parallel",
        "expert parallel",
        "sharded parameters",
        "data parallel",
        "pipeline sends",
        "pipeline bubble",
        "offload",
        "input",
        "straggler",
    ];
    let sum: Seconds = step.time.0.iter().filter(|t| WAITS.contains(&&*t.name)).map(|t| t.amount).sum();
    let total = step.total();
    if total > Seconds::ZERO { (sum / total).clamp(0.0, 1.0) } else { 0.0 }
}

/// Where the expected time goes.
#[derive(Default)]
struct Parts {
    held: Seconds,
    firm: Seconds,
    waiting: Seconds,
    saving: Seconds,
    /// Node time over nodes, where nodes vary.
    nodes: Seconds,
    losses: f64,
}

impl Parts {
    fn total(&self) -> Seconds {
        self.held + self.firm + self.waiting
    }

    /// Saves in the making when the gang is lost, half written on average: a loss falls into one with
    /// probability stall / (interval + stall).
    fn cut_saves(&self, job: &RestartJob) -> Seconds {
        let share = job.save / (job.interval + job.save).max(Seconds::of(1e-9));
        job.save * (self.losses * share / 2.0)
    }

    /// The expected time by what it is spent on; the order in which the chain adds it up.
    fn times(&self, job: &RestartJob) -> Terms<Seconds> {
        const CHAIN: &str = "absorbing chain over the checkpoints (docs/run-cost.md)";
        let mut terms = Vec::new();
        let mut line = |name: &'static str, amount: Seconds, formula: &'static str| {
            if amount != Seconds::ZERO {
                terms.push(Term::new(name, amount, formula, CHAIN));
            }
        };
        line("provisioning", job.provision, "once, at the start");
        line("training", job.work, "steps x step time");
        line("saving", self.saving, "saves x stall");
        let redone = self.held + self.firm - (job.provision + job.work + self.saving);
        line("redone", redone, "restarts, restores and work done again: time held - undisturbed time");
        line("waiting", self.waiting, "losses x wait for capacity, and for the first start");
        Terms(terms)
    }
}
