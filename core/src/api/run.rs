//! How much is trained, at which price, and what may befall the run: the part of a request that
//! the bill and its spread are made from. Everything but the length may be left out; what is then
//! assumed is listed in the answer.

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use crate::checkpoint::{Contents, Writer};
use crate::cluster::PriceKind;
use crate::error::{Error, ErrorCode, Result, in_range};
use crate::preemption::{Availability, Trace};
use crate::vocabulary::vocabulary;

vocabulary! {
    /// How a checkpoint is saved.
    SaveMode {
        /// Training waits for the write.
        Synchronous = "sync",
        /// Training waits for the copy to host memory; the write runs beside it.
        Asynchronous = "async",
        /// Light saves (heartbeats) to a peer or a local drive, full ones beside them.
        TwoLevel = "two_level",
    } default Synchronous
}

vocabulary! {
    /// How often nodes are lost, where no rate is given.
    Hazard {
        /// Hardware faults of a cluster in regular use: 4 per 1,000 days of a node of eight.
        Hardware = "hardware",
        /// What the priced offer's interruption band implies; a lower bound.
        Band = "band",
        /// Spot machines with spare capacity: 0.01 per node-hour.
        Optimistic = "optimistic",
        /// Spot machines of which nothing is known: 0.05 per node-hour.
        Base = "base",
        /// A contended zone: 0.25 per node-hour.
        Pessimistic = "pessimistic",
    } default Hardware
}

vocabulary! {
    /// What is done while nodes are missing.
    LossPolicy {
        /// Wait until the gang is complete again.
        Wait = "wait",
        /// Wait for `patience_s`, then run the rest on machines that are not taken away.
        FallBack = "fall_back",
        /// The first `spot_share` of the work on spot, the rest reserved.
        SpotThenReserved = "spot_then_reserved",
        /// Go on with the nodes that are left, at least `least_nodes`.
        Shrink = "shrink",
        /// Keep `spares` nodes standing by.
        Spares = "spares",
    } default Wait
}

/// How much is trained, and at which price. Without tokens or steps only the step is reported.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Run {
    /// Tokens to train on.
    pub tokens: Option<f64>,
    /// Optimizer steps, instead of tokens.
    pub steps: Option<f64>,
    /// Which price of the catalogue is paid.
    pub price: PriceKind,
    /// Share of the tokens that deduplication removes before training, 0 to 1.
    pub duplicated: f64,
    /// When and how the state is saved; none means never, or at the best interval where nodes may be
    /// lost.
    pub checkpoint: Option<Checkpointing>,
    /// How nodes are lost and come back; none means that none are.
    pub faults: Option<Faults>,
    /// Node counts that vary over the run, in order: grown on a plateau, shrunk after; none means the
    /// cluster's throughout.
    pub node_counts: Vec<NodeCount>,
    /// Hours after which the run is to have ended: the answer says how likely that is.
    pub deadline_hours: Option<f64>,
    /// What is paid beside the machines' time.
    pub expenses: Option<Expenses>,
    /// Puts the prices known for these machines side by side.
    pub offers: bool,
    /// Machines of one's own, to hold against renting.
    pub owned: Option<Owned>,
    /// How the result is served.
    pub serving: Option<Serving>,
}

/// A part of the run on a number of nodes of its own; the data-parallel degree follows.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct NodeCount {
    /// Nodes of this part.
    pub nodes: u32,
    /// Share of the tokens trained on them, 0 to 1; the shares of all parts add up to 1.
    pub share: f64,
}

/// When and how the state is saved. Give an interval in seconds or in steps; neither means the best.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Checkpointing {
    /// Work between two saves, in seconds.
    pub interval_s: Option<f64>,
    /// Optimizer steps between two saves, instead.
    pub every_steps: Option<f64>,
    /// How a checkpoint is saved.
    pub mode: SaveMode,
    /// What it holds; none means what training goes on from, of adapters without their base.
    pub contents: Option<Contents>,
    /// Who writes.
    pub writer: Writer,
    /// Its size in GB (10^9 bytes); none means what the recipe keeps.
    pub size_gb: Option<f64>,
    /// What one node writes to the store, in GB/s; none means the cluster's storage, else 3.2.
    pub node_gb_s: Option<f64>,
    /// What the store takes from all nodes together, in GB/s; none means no limit.
    pub store_gb_s: Option<f64>,
    /// Time per save that no bandwidth shortens, in seconds; none means 1.3.
    pub latency_s: Option<f64>,
    /// Stall of an asynchronous save besides the copy, in seconds; none means 5.9.
    pub setup_s: Option<f64>,
    /// What one node gives to a peer or a local drive in a light save, in GB/s; none means 7.35.
    pub near_gb_s: Option<f64>,
    /// Share of losses after which the light save is still there, 0 to 1; none means 0.85, less
    /// where losses take much of the gang.
    pub recoverable: Option<f64>,
}

/// How nodes are lost and come back, and what is then done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Faults {
    /// How often nodes are lost; none means `base` at the spot price, else `hardware`.
    pub hazard: Option<Hazard>,
    /// Losses of one node per hour, instead.
    pub per_node_hour: Option<f64>,
    /// A recorded spot zone by its id, instead (`docs/run-cost.md` lists them).
    pub zone: Option<String>,
    /// When the gang is complete, as measured, instead.
    pub availability: Option<Availability>,
    /// Nodes that were available over time, instead.
    pub trace: Option<Trace>,
    /// Mean share of the gang that one loss takes, 0 to 1; none means 0.3 on spot, else one node.
    pub loss_share: Option<f64>,
    /// Squared variation of the time between losses, 1 where they are memoryless; none means 4.5 on
    /// spot, else 1.
    pub up_scv: Option<f64>,
    /// Mean wait for capacity after a loss, in seconds; none means 3600 on spot, else 600.
    pub wait_s: Option<f64>,
    /// Squared variation of that wait; none means 3 on spot, else 1.
    pub wait_scv: Option<f64>,
    /// From the gang being complete to the job running, in seconds; none means 120.
    pub provision_s: Option<f64>,
    /// Loading the state and warming up after a loss, in seconds; none means the load and 60.
    pub restore_s: Option<f64>,
    /// How long before a loss it is announced, in seconds, if a save is then made; none means that
    /// nothing is made of it.
    pub notice_s: Option<f64>,
    /// What is done while nodes are missing.
    pub policy: LossPolicy,
    /// Policy `fall_back`: how long one wait may last, in seconds; none means 0.
    pub patience_s: Option<f64>,
    /// Policy `spot_then_reserved`: share of the work on spot, 0 to 1; none means 0.5.
    pub spot_share: Option<f64>,
    /// Which price the machines have that are not taken away; none means on demand.
    pub firm_price: Option<PriceKind>,
    /// Policy `shrink`: fewest nodes that hold the job; none means half.
    pub least_nodes: Option<u32>,
    /// Policy `spares`: nodes standing by, paid like the others; none means 1.
    pub spares: Option<u32>,
    /// Policy `spares`: mean time until a failed node is back, in seconds; none means two days.
    pub repair_s: Option<f64>,
}

/// What is paid beside the machines' time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Expenses {
    /// Data leaving the provider or region, in GB.
    pub egress_gb: f64,
    /// Price of a GB; none means the cloud's first tier of internet egress.
    pub egress_usd_per_gb: Option<f64>,
    /// Data kept, in GB: data set, checkpoints, logs.
    pub storage_gb: f64,
    /// For how many months; none means the length of the run.
    pub storage_months: Option<f64>,
    /// Price of a GB and month; none means the cloud's object store.
    pub storage_usd_per_gb_month: Option<f64>,
    /// Hours of people.
    pub people_hours: f64,
    /// What one costs.
    pub people_usd_per_hour: f64,
    /// Evaluation and tuning runs.
    pub evaluation_runs: f64,
    /// Hours each holds its GPUs.
    pub evaluation_hours: f64,
    /// GPUs each holds; none means a node.
    pub evaluation_gpus: Option<f64>,
    /// How many share the GPUs at a time; none means 1.
    pub evaluation_shared_by: Option<f64>,
    /// Starts that fail before the first step.
    pub failed_starts: f64,
    /// Hours the gang is held in each; none means a quarter.
    pub failed_start_hours: Option<f64>,
}

/// Machines of one's own like those of the request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Owned {
    /// Price of everything bought, in USD.
    pub capex_usd: f64,
    /// Share of the time that they are in use, above 0 to 1.
    pub utilisation: f64,
    /// Years over which they are written off; none means 4.
    #[serde(default)]
    pub years: Option<f64>,
    /// What they fetch after that, in USD.
    #[serde(default)]
    pub resale_usd: f64,
    /// Power under load in kW; none means 1.8 times the GPUs' design power.
    #[serde(default)]
    pub power_kw: Option<f64>,
    /// Power from the grid over power of the machines; none means 1.3.
    #[serde(default)]
    pub pue: Option<f64>,
    /// Price of a kWh in USD; none means 0.12.
    #[serde(default)]
    pub usd_per_kwh: Option<f64>,
    /// Share of their power that they draw when idle; none means 0.3.
    #[serde(default)]
    pub idle_power: Option<f64>,
    /// People who run them, in USD per year.
    #[serde(default)]
    pub staff_usd_per_year: f64,
    /// Space, contracts and insurance, in USD per year.
    #[serde(default)]
    pub space_usd_per_year: f64,
}

/// How the result is served, on one GPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Serving {
    /// Memory in which it must fit, in GiB; none means that of the training's GPU.
    pub memory_gib: Option<f64>,
    /// Whether `plan` may only choose what fits there.
    pub must_fit: bool,
    /// Memory bandwidth of the serving GPU, in GB/s; none means the training's.
    pub bandwidth_gb_s: Option<f64>,
    /// Its 16-bit matrix rate, in TFLOP/s; none means the training's.
    pub tflops: Option<f64>,
    /// Its price per hour in USD; none means the training's.
    pub usd_per_hour: Option<f64>,
    /// Bits of a weight, scales included; none means what the training prepares it for, else 16.
    pub bits: Option<f64>,
    /// Tokens of a prompt; none means 500.
    pub prompt: Option<f64>,
    /// Tokens of an answer; none means 300.
    pub answer: Option<f64>,
    /// Sequences decoded together at most; none means 16.
    pub batch: Option<u32>,
    /// Tokens a draft model proposes at a time.
    pub draft_tokens: u32,
    /// Probability that a proposed token is accepted.
    pub acceptance: f64,
    /// Time of one draft token over the time of one token of the model.
    pub draft_cost: f64,
    /// Tokens served a day.
    pub tokens_per_day: Option<f64>,
}

/// Checks optional figures: name, figure, least, most.
fn each(list: &[(&str, Option<f64>, f64, f64)]) -> Result<()> {
    for &(name, value, low, high) in list {
        if let Some(value) = value {
            in_range(name, value, low, high)?;
        }
    }
    Ok(())
}

impl Run {
    /// Whether more is asked than the undisturbed run.
    pub(super) fn looks_ahead(&self) -> bool {
        self.checkpoint.is_some()
            || self.faults.is_some()
            || self.deadline_hours.is_some()
            || self.expenses.is_some()
            || !self.node_counts.is_empty()
    }

    pub(super) fn validate(&self) -> Result<()> {
        each(&[
            ("tokens", self.tokens, 1.0, 1e18),
            ("steps", self.steps, 1.0, 1e18),
            ("duplicated", Some(self.duplicated), 0.0, 0.999),
            ("deadline_hours", self.deadline_hours, 0.0, 1e7),
        ])?;
        self.check_node_counts()?;
        if self.tokens.is_some() && self.steps.is_some() {
            return Err(Error::new("steps", ErrorCode::Conflict, "both tokens and steps", "one of them"));
        }
        let endless = self.tokens.is_none() && self.steps.is_none();
        if endless && (self.looks_ahead() || self.offers || self.owned.is_some()) {
            return Err(Error::new("tokens", ErrorCode::MissingField, "nothing", "tokens or steps"));
        }
        if let Some(c) = &self.checkpoint {
            c.validate().map_err(|e| e.under("checkpoint"))?;
        }
        if let Some(f) = &self.faults {
            f.validate(self.price).map_err(|e| e.under("faults"))?;
        }
        if let Some(e) = &self.expenses {
            e.validate().map_err(|e| e.under("expenses"))?;
        }
        if let Some(o) = &self.owned {
            o.validate().map_err(|e| e.under("owned"))?;
        }
        match &self.serving {
            Some(s) => s.validate().map_err(|e| e.under("serving")),
            None => Ok(()),
        }
    }
}

impl Run {
    fn check_node_counts(&self) -> Result<()> {
        if self.node_counts.is_empty() {
            return Ok(());
        }
        for (i, part) in self.node_counts.iter().enumerate() {
            in_range("nodes", f64::from(part.nodes), 1.0, 1e6)
                .and_then(|_| in_range("share", part.share, 1e-6, 1.0))
                .map_err(|e| e.entry("node_counts", i))?;
        }
        let field = |code, given: &dyn core::fmt::Display, allowed| {
            Err(Error::new("node_counts", code, given, allowed))
        };
        let sum: f64 = self.node_counts.iter().map(|part| part.share).sum();
        if !(sum - 1.0).abs().le(&1e-6) {
            return field(ErrorCode::OutOfRange, &format_args!("shares that add up to {sum}"), "1 in all");
        }
        if self.node_counts.len() > 100 {
            return field(
                ErrorCode::OutOfRange,
                &format_args!("a list of {}", self.node_counts.len()),
                "a list of 1 to 100",
            );
        }
        match &self.faults {
            Some(faults) if faults.policy != LossPolicy::Wait => field(
                ErrorCode::Conflict,
                &format_args!("the policy {}", faults.policy),
                "the policy wait where node counts vary",
            ),
            _ => Ok(()),
        }
    }
}

impl Checkpointing {
    fn validate(&self) -> Result<()> {
        if self.interval_s.is_some() && self.every_steps.is_some() {
            let given = "both interval_s and every_steps";
            return Err(Error::new("every_steps", ErrorCode::Conflict, given, "one of them"));
        }
        each(&[
            ("interval_s", self.interval_s, 0.1, 1e9),
            ("every_steps", self.every_steps, 1.0, 1e9),
            ("size_gb", self.size_gb, 1e-6, 1e9),
            ("node_gb_s", self.node_gb_s, 1e-6, 1e6),
            ("store_gb_s", self.store_gb_s, 1e-6, 1e9),
            ("latency_s", self.latency_s, 0.0, 1e5),
            ("setup_s", self.setup_s, 0.0, 1e5),
            ("near_gb_s", self.near_gb_s, 1e-6, 1e6),
            ("recoverable", self.recoverable, 0.0, 1.0),
        ])
    }
}

impl Faults {
    fn validate(&self, price: PriceKind) -> Result<()> {
        if let (Some(_), Some(rate)) = (self.hazard, self.per_node_hour) {
            let allowed = "hazard or per_node_hour, not both";
            return Err(Error::new("per_node_hour", ErrorCode::Conflict, rate, allowed));
        }
        self.check_record()?;
        each(&[
            ("per_node_hour", self.per_node_hour, 0.0, 1e3),
            ("loss_share", self.loss_share, 1e-6, 1.0),
            ("up_scv", self.up_scv, 0.0, 1000.0),
            ("wait_s", self.wait_s, 1.0, 1e9),
            ("wait_scv", self.wait_scv, 0.0, 1000.0),
            ("provision_s", self.provision_s, 0.0, 1e7),
            ("restore_s", self.restore_s, 0.0, 1e7),
            ("notice_s", self.notice_s, 0.0, 1e6),
            ("patience_s", self.patience_s, 0.0, 1e9),
            ("spot_share", self.spot_share, 0.0, 1.0),
            ("least_nodes", self.least_nodes.map(f64::from), 1.0, 64.0),
            ("spares", self.spares.map(f64::from), 0.0, 1e4),
            ("repair_s", self.repair_s, 1.0, 1e9),
        ])?;
        let needs_spot = matches!(self.policy, LossPolicy::FallBack | LossPolicy::SpotThenReserved);
        if needs_spot && price != PriceKind::Spot {
            let allowed = "wait, shrink or spares, unless run.price is spot";
            return Err(Error::new("policy", ErrorCode::Conflict, self.policy, allowed));
        }
        if self.firm_price == Some(PriceKind::Spot) {
            return Err(Error::new(
                "firm_price",
                ErrorCode::Conflict,
                "spot",
                "on_demand, reserved_1y or reserved_3y",
            ));
        }
        Ok(())
    }
}

impl Faults {
    /// A record says by itself how often and for how long the gang is incomplete.
    fn check_record(&self) -> Result<()> {
        let records = [
            ("zone", self.zone.is_some()),
            ("availability", self.availability.is_some()),
            ("trace", self.trace.is_some()),
        ];
        let figures = [
            ("hazard", self.hazard.is_some()),
            ("per_node_hour", self.per_node_hour.is_some()),
            ("loss_share", self.loss_share.is_some()),
            ("up_scv", self.up_scv.is_some()),
            ("wait_s", self.wait_s.is_some()),
            ("wait_scv", self.wait_scv.is_some()),
        ];
        let mut given = records.iter().filter(|(_, given)| *given).map(|(name, _)| *name);
        let Some(record) = given.next() else { return Ok(()) };
        let second = given.next().or(figures.iter().find(|(_, given)| *given).map(|(name, _)| *name));
        if let Some(second) = second {
            let both = format_args!("both {record} and {second}");
            return Err(Error::new(second, ErrorCode::Conflict, both, "one of them"));
        }
        if let Some(availability) = &self.availability {
            availability.validate().map_err(|e| e.under("availability"))?;
        }
        match &self.trace {
            Some(trace) => trace.validate().map_err(|e| e.under("trace")),
            None => Ok(()),
        }
    }
}

impl Expenses {
    fn validate(&self) -> Result<()> {
        each(&[
            ("egress_gb", Some(self.egress_gb), 0.0, 1e12),
            ("egress_usd_per_gb", self.egress_usd_per_gb, 0.0, 1e3),
            ("storage_gb", Some(self.storage_gb), 0.0, 1e12),
            ("storage_months", self.storage_months, 0.0, 1200.0),
            ("storage_usd_per_gb_month", self.storage_usd_per_gb_month, 0.0, 1e3),
            ("people_hours", Some(self.people_hours), 0.0, 1e7),
            ("people_usd_per_hour", Some(self.people_usd_per_hour), 0.0, 1e5),
            ("evaluation_runs", Some(self.evaluation_runs), 0.0, 1e8),
            ("evaluation_hours", Some(self.evaluation_hours), 0.0, 1e5),
            ("evaluation_gpus", self.evaluation_gpus, 0.0, 1e6),
            ("evaluation_shared_by", self.evaluation_shared_by, 1.0, 1e4),
            ("failed_starts", Some(self.failed_starts), 0.0, 1e6),
            ("failed_start_hours", self.failed_start_hours, 0.0, 1e5),
        ])
    }
}

impl Owned {
    fn validate(&self) -> Result<()> {
        each(&[
            ("capex_usd", Some(self.capex_usd), 0.0, 1e12),
            ("utilisation", Some(self.utilisation), 1e-3, 1.0),
            ("years", self.years, 0.1, 30.0),
            ("resale_usd", Some(self.resale_usd), 0.0, self.capex_usd),
            ("power_kw", self.power_kw, 0.0, 1e7),
            ("pue", self.pue, 1.0, 5.0),
            ("usd_per_kwh", self.usd_per_kwh, 0.0, 10.0),
            ("idle_power", self.idle_power, 0.0, 1.0),
            ("staff_usd_per_year", Some(self.staff_usd_per_year), 0.0, 1e11),
            ("space_usd_per_year", Some(self.space_usd_per_year), 0.0, 1e11),
        ])
    }
}

impl Serving {
    fn validate(&self) -> Result<()> {
        each(&[
            ("memory_gib", self.memory_gib, 0.001, 1e6),
            ("bandwidth_gb_s", self.bandwidth_gb_s, 0.001, 1e7),
            ("tflops", self.tflops, 0.001, 1e7),
            ("usd_per_hour", self.usd_per_hour, 0.0, 1e6),
            ("bits", self.bits, 1.0, 64.0),
            ("prompt", self.prompt, 0.0, 1e8),
            ("answer", self.answer, 1.0, 1e8),
            ("batch", self.batch.map(f64::from), 1.0, 1e6),
            ("draft_tokens", Some(f64::from(self.draft_tokens)), 0.0, 64.0),
            ("acceptance", Some(self.acceptance), 0.0, 1.0),
            ("draft_cost", Some(self.draft_cost), 0.0, 10.0),
            ("tokens_per_day", self.tokens_per_day, 1.0, 1e15),
        ])
    }
}
