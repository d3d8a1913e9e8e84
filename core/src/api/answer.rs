//! What comes back. An infeasible plan is an answer: it says what binds and by how much.

use std::borrow::Cow;

use serde::Serialize;
use shardwise_derive::ToJson;

use super::outlook::{OfferLine, RunOutlook, ServingOutlook};
use crate::assumption::Assumption;
use crate::cluster::{Cluster, PriceKind};
use crate::layout::Layout;
use crate::memory::MemoryReport;
use crate::quantity::{Bytes, Seconds, Usd, UsdPerSecond};
use crate::search::{Scaling, StopReason};
use crate::step::StepReport;
use crate::term::Terms;
use crate::vocabulary::vocabulary;
use crate::workload::{Compute, Method, ModelSummary, Optimizer};

vocabulary! {
    /// Whether the fullest rank fits its accelerator.
    Verdict {
        /// Even the upper end of the interval fits.
        Fits = "fits",
        /// It fits, but less surely than nine times in ten.
        Tight = "tight",
        /// It needs more than the accelerator has.
        DoesNotFit = "does_not_fit",
    } default Fits
}

/// Memory held against the accelerator.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Fit {
    /// Whether it fits.
    pub verdict: Verdict,
    /// Memory a framework can use on one accelerator.
    pub capacity: Bytes,
    /// Capacity less need; negative when it does not fit.
    pub headroom: Bytes,
    /// In one sentence: what binds and by how much.
    pub reason: String,
}

/// The whole run: steps, time, money.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct RunReport {
    /// Optimizer steps.
    pub steps: f64,
    /// Tokens trained on.
    pub tokens: f64,
    /// Wall time.
    pub time: Seconds,
    /// Price of the whole cluster; none when the catalogue has no price of that kind.
    pub price: Option<Price>,
    /// Money by term of the undisturbed run; none without a price.
    pub cost: Option<Terms<Usd>>,
    /// What the run may come to; there when saves, losses, a deadline or expenses are asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outlook: Option<RunOutlook>,
    /// Ways of paying for the machines, side by side; there when asked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub offers: Vec<OfferLine>,
}

/// A price with its origin.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Price {
    /// All accelerators together.
    pub cluster: UsdPerSecond,
    /// Which kind of price it is.
    pub kind: PriceKind,
    /// Where it was read.
    pub source: String,
    /// When it was read.
    pub as_of: String,
}

/// What one layout needs.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct EstimateAnswer {
    /// Version of this format.
    pub schema_version: u32,
    /// The model.
    pub model: ModelSummary,
    /// The machines.
    pub cluster: Cluster,
    /// How a person names the layout: its strategy and the degrees above 1.
    pub name: String,
    /// The layout, every degree filled in.
    pub layout: Layout,
    /// Sequences per optimizer step.
    pub global_batch: u64,
    /// Tokens per sequence.
    pub seq_len: u64,
    /// Micro-batches per optimizer step on each data-parallel rank.
    pub gradient_accumulation: u64,
    /// Whether it fits.
    pub fit: Fit,
    /// Peak memory, opened.
    pub memory: MemoryReport,
    /// Step time, opened.
    pub step: StepReport,
    /// The run, when the request says how much is trained.
    pub run: Option<RunReport>,
    /// How the result is served; there when asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<ServingOutlook>,
    /// What was assumed for each thing not given.
    pub assumptions: Vec<Assumption>,
}

/// One plan in a list.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PlanLine {
    /// How a person names the layout: its strategy and the degrees above 1.
    pub name: String,
    /// The layout.
    pub layout: Layout,
    /// The machines, where several are considered.
    pub machines: Option<String>,
    /// What is trained, where several recipes are considered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<Method>,
    /// The optimizer, where several recipes are considered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer: Option<Optimizer>,
    /// The format of the matrix multiplications, where several recipes are considered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compute: Option<Compute>,
    /// Sequences per optimizer step, where several are considered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_batch: Option<u64>,
    /// Micro-batches per optimizer step on each data-parallel rank.
    pub gradient_accumulation: u64,
    /// Device memory of the fullest rank.
    pub memory: Bytes,
    /// Capacity less need.
    pub headroom: Bytes,
    /// Whether it fits.
    pub verdict: Verdict,
    /// Step time.
    pub step_time: Seconds,
    /// Tokens per second of the whole cluster.
    pub tokens_per_second: f64,
    /// Model FLOPs utilisation.
    pub mfu: f64,
    /// Wall time of the run.
    pub run_time: Option<Seconds>,
    /// Money of the run.
    pub cost: Option<Usd>,
    /// Expected wall time where losses or saves are asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_time: Option<Seconds>,
    /// Wall time that nine runs in ten stay below.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_p90: Option<Seconds>,
    /// Expected bill.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_cost: Option<Usd>,
}

/// What was chosen beside the layout.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Chosen {
    /// The machines.
    pub machines: String,
    /// Nodes.
    pub nodes: u32,
    /// GPUs.
    pub gpus: u64,
    /// What is trained.
    pub method: Method,
    /// Optimizer.
    pub optimizer: Optimizer,
    /// Format of the matrix multiplications.
    pub compute: Compute,
    /// Sequences per optimizer step.
    pub global_batch: u64,
}

/// A strategy that does not fit, or cannot run, and why.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Rejection {
    /// How a person names the layout: its strategy and the degrees above 1.
    pub name: String,
    /// The layout of that strategy that comes nearest.
    pub layout: Layout,
    /// One sentence with its figure.
    pub reason: String,
    /// What it needs more than there is; none when a rule and not memory forbids it.
    pub shortfall: Option<Bytes>,
    /// The rule that forbids it, if one does.
    pub rule: Option<Cow<'static, str>>,
}

/// A change to the layout in use.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Change {
    /// What is changed, in words.
    pub change: String,
    /// The layout after it.
    pub layout: Layout,
    /// Step time after it.
    pub step_time: Seconds,
    /// What it saves a step; none when the layout in use does not fit.
    pub saves: Option<Seconds>,
    /// What it saves over the run.
    pub saves_money: Option<Usd>,
}

/// What becomes of the plan when something about the request changes.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Sensitivity {
    /// What changes.
    pub change: String,
    /// How a person names the best layout then; none when nothing fits.
    pub name: Option<String>,
    /// Whether another layout is best then.
    pub other_plan: bool,
    /// Its step time.
    pub step_time: Option<Seconds>,
    /// Tokens per second of the whole cluster.
    pub tokens_per_second: Option<f64>,
    /// Money of the run; the expected bill where losses change.
    pub cost: Option<Usd>,
}

/// Something the figures do not show.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PlanWarning {
    /// In one sentence with its figure.
    pub says: String,
    /// Paper it follows.
    pub source: Cow<'static, str>,
}

/// The best layout, the next best, and why not the others.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct PlanAnswer {
    /// Version of this format.
    pub schema_version: u32,
    /// Whether any layout fits.
    pub feasible: bool,
    /// What was chosen beside the layout, where machines, recipe or batch were open.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<Chosen>,
    /// The best layout in full; when nothing fits, the one that comes nearest.
    pub best: EstimateAnswer,
    /// The best plan of each strategy and recompute setting that fits, best first.
    pub ranked: Vec<PlanLine>,
    /// Plans of which none betters another in time, money and memory left, fastest first.
    pub front: Vec<PlanLine>,
    /// Strategies that do not fit or cannot run.
    pub rejected: Vec<Rejection>,
    /// Layouts one change away from the best, and why not these.
    pub neighbours: Vec<Rejection>,
    /// The layouts asked about, and why not these.
    pub why_not: Vec<Rejection>,
    /// What to change first about the layout in use, most time saved first.
    pub changes: Vec<Change>,
    /// Time and money over the number of machines, when asked for.
    pub scaling: Option<Scaling>,
    /// What becomes of the plan when the request changes, when asked for.
    pub sensitivity: Vec<Sensitivity>,
    /// What the figures do not show.
    pub warnings: Vec<PlanWarning>,
    /// When nothing fits: changes that would make it fit, cheapest first.
    pub nearest_changes: Vec<String>,
    /// Candidates looked at.
    pub candidates: u64,
    /// Of those, the ones that fit and were costed in full.
    pub costed: u64,
    /// Candidates that brute force would look at: those spared by a bound included.
    pub brute_force: u64,
    /// Why the search ended.
    pub stop_reason: StopReason,
}
