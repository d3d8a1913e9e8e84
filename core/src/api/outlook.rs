//! What a run may come to: expected time and money with their spread, and what they are made of.

use serde::Serialize;
use shardwise_derive::ToJson;

use crate::assumption::Assumption;
use crate::quantity::{Bytes, Seconds, Usd, UsdPerSecond};
use crate::term::Terms;

/// What a run may come to when the state is saved and nodes are lost.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct RunOutlook {
    /// Time when nothing is lost: the steps, the saves, and provisioning where losses are asked about.
    pub undisturbed: Seconds,
    /// Expected wall time, by what it is spent on.
    pub time: Terms<Seconds>,
    /// How widely it scatters.
    pub time_spread: Spread<Seconds>,
    /// Parts with node counts of their own, where asked for.
    pub phases: Vec<PhaseOutlook>,
    /// False where segments outlast every spell of the gang: it then never ends, and times stand at
    /// 300,000 years.
    pub ends: bool,
    /// Expected bill, line by line; none without a price.
    pub ledger: Option<Terms<Usd>>,
    /// How widely the bill scatters.
    pub cost_spread: Option<Spread<Usd>>,
    /// The deadline asked about.
    pub deadline: Option<Deadline>,
    /// How the state is saved.
    pub checkpoint: Option<CheckpointOutlook>,
    /// How nodes are lost.
    pub losses: Option<LossOutlook>,
    /// What was assumed for each thing not given.
    pub assumptions: Vec<Assumption>,
}

impl RunOutlook {
    /// The expected bill; none without a price.
    #[must_use]
    pub fn cost(&self) -> Option<Usd> {
        self.ledger.as_ref().map(Terms::total)
    }
}

/// A part of the run on a number of nodes of its own.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PhaseOutlook {
    /// Nodes of this part.
    pub nodes: u32,
    /// Share of the tokens.
    pub share: f64,
    /// Step time on these nodes.
    pub step: Seconds,
    /// Its steps, without saves and losses.
    pub work: Seconds,
    /// Memory needed per GPU, as shards grow when nodes leave.
    pub needed: Bytes,
    /// Whether that fits.
    pub fits: bool,
}

/// Figures not exceeded with a probability.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Spread<Q> {
    /// One run in two stays below.
    pub p50: Q,
    /// Nine in ten.
    pub p90: Q,
    /// Ninety-nine in a hundred.
    pub p99: Q,
}

/// A deadline and its chance.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Deadline {
    /// After the start.
    pub after: Seconds,
    /// Probability of having ended by then, 0 to 1.
    pub chance: f64,
}

/// How the state is saved.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct CheckpointOutlook {
    /// What is written.
    pub bytes: Terms<Bytes>,
    /// Time for which training stands still for one save.
    pub stall: Terms<Seconds>,
    /// From the state to the finished checkpoint.
    pub write: Seconds,
    /// Loading it again.
    pub load: Seconds,
    /// Host memory that a node needs for it.
    pub host_memory: Bytes,
    /// Work between two saves.
    pub interval: Seconds,
    /// Saves in an undisturbed run.
    pub saves: f64,
    /// Two levels: work between two full saves.
    pub full_interval: Option<Seconds>,
    /// The interval with the least expected time; none where nothing can be lost.
    pub best_interval: Option<Seconds>,
    /// Expected time over that with the best interval, less 1.
    pub excess: f64,
    /// Whether saves are made on notice instead.
    pub on_notice: bool,
}

/// How nodes are lost.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct LossOutlook {
    /// Losses of one node per hour.
    pub per_node_hour: f64,
    /// Mean share of the gang that one loss takes.
    pub loss_share: f64,
    /// Mean time for which the gang stays complete; none where it is never lost.
    pub mean_up: Option<Seconds>,
    /// Mean wait for capacity after a loss.
    pub mean_down: Seconds,
    /// Expected losses in the run; none where the policy's model does not count them.
    pub expected: Option<f64>,
}

/// One way of paying for the machines.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct OfferLine {
    /// `on_demand`, `spot`, `reserved_1y`, `reserved_3y` or `owned`.
    pub offer: String,
    /// Cloud, shape and region of the price.
    pub place: String,
    /// Price of the whole cluster while it is in use.
    pub price: UsdPerSecond,
    /// Expected wall time of the run.
    pub time: Seconds,
    /// Wall time that nine runs in ten stay below.
    pub time_p90: Seconds,
    /// Expected cost of the machines for the time used.
    pub cost: Usd,
    /// What is owed in all: the term of a reservation, what was bought.
    pub committed: Option<Usd>,
    /// Share of the time in use from which it is cheaper than paying on demand; above 1 it never is.
    pub break_even: Option<f64>,
}

/// How the result is served, on one GPU.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct ServingOutlook {
    /// Bits of a weight, scales included.
    pub bits: f64,
    /// Memory with one sequence: weights, reserve, cache.
    pub memory: Bytes,
    /// Memory in which it must fit.
    pub limit: Bytes,
    /// Whether it does.
    pub fits: bool,
    /// Sequences decoded together.
    pub batch: u32,
    /// From prompt to first token.
    pub first_token: Option<Seconds>,
    /// Answer tokens per second, all sequences together.
    pub tokens_per_second: Option<f64>,
    /// Price of a million answer tokens.
    pub per_million: Option<Usd>,
    /// The same with 16-bit weights on a GPU with room for them.
    pub plain_per_million: Option<Usd>,
    /// What the quantisation-aware training costs more than the plain one.
    pub extra_training: Option<Usd>,
    /// Tokens served after which that is paid back.
    pub break_even_tokens: Option<f64>,
    /// The same in days at the tokens a day asked.
    pub break_even_days: Option<f64>,
}
