//! What a search may vary, what it makes least, and why it ended.

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use crate::error::{Result, entries, in_range};
use crate::layout::{Offload, Recompute, Schedule, Sharding};
use crate::quantity::{Seconds, Usd};
use crate::vocabulary::vocabulary;
use crate::workload::{Compute, Method, Optimizer};

vocabulary! {
    /// What the search makes least (or most).
    Objective {
        /// Least time.
        Time = "time",
        /// Least money.
        Cost = "cost",
        /// Least expected bill, losses and saves counted: it needs a run.
        ExpectedCost = "expected_cost",
        /// Most memory left.
        Headroom = "headroom",
    } default Time
}

vocabulary! {
    /// Why the search ended.
    StopReason {
        /// Every candidate was looked at.
        Exhausted = "exhausted",
        /// The limit of candidates was reached.
        CandidateLimit = "candidate_limit",
    } default Exhausted
}

/// What the search may vary. An empty list leaves that choice open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Search {
    /// Sharding strategies to consider.
    pub shardings: Vec<Sharding>,
    /// Micro-batches to consider, in sequences.
    pub micro_batches: Vec<u64>,
    /// What to consider recomputing.
    pub recompute: Vec<Recompute>,
    /// Where all of a layer is recomputed: every how many layers; left open: every one, every second,
    /// every fourth.
    pub recompute_every: Vec<u64>,
    /// Tensor-parallel degrees to consider.
    pub tensor_parallel: Vec<u64>,
    /// Pipeline degrees to consider.
    pub pipeline_parallel: Vec<u64>,
    /// Chunks a rank that an interleaved schedule may have.
    pub pipeline_chunks: Vec<u64>,
    /// Context-parallel degrees to consider.
    pub context_parallel: Vec<u64>,
    /// Expert-parallel degrees to consider.
    pub expert_parallel: Vec<u64>,
    /// Pipeline schedules to consider; left open: 1F1B, interleaved and zero-bubble H1, as the
    /// framework has them.
    pub schedules: Vec<Schedule>,
    /// What may leave the device; unlike the other lists, an empty one means nothing.
    pub offload: Vec<Offload>,
    /// Methods to consider, of which any fine-tuning does: full, LoRA, QLoRA, QAT; left open: the
    /// recipe's.
    pub methods: Vec<Method>,
    /// Optimizers to consider; left open: the recipe's.
    pub optimizers: Vec<Optimizer>,
    /// Formats of the matrix multiplications to consider; left open: the recipe's.
    pub computes: Vec<Compute>,
    /// Numbers of nodes to consider, for `cluster` and everything beside it; left open: those given.
    pub nodes: Vec<u32>,
    /// Cloud shapes to consider beside `cluster`, as many nodes of each as have its GPUs; the one word
    /// `any` means every priced shape of the catalogue with parts of the same vendor.
    pub instances: Vec<String>,
    /// Sequences per optimizer step to consider, from the first to the second number: those of the
    /// request times powers of two; left open: those of the request.
    pub global_batch_range: Option<[u64; 2]>,
    /// What is made least.
    pub objective: Objective,
    /// The run must be over within this time, in seconds. It needs a run.
    pub deadline: Option<Seconds>,
    /// The run must cost no more than this, in US dollars. It needs a run.
    pub budget: Option<Usd>,
    /// Memory to leave free, as a share of the accelerator's usable memory, 0 to 0.9.
    pub headroom: f64,
    /// Whether layouts are looked at that the recipe's framework does not run.
    pub any_framework: bool,
    /// Whether the best plan is also sought on fewer and on more machines of the kind.
    pub scaling: bool,
    /// Whether the best plan is also sought for other prices, networks and batches.
    pub sensitivity: bool,
    /// Plans to list beside the best.
    pub list: u64,
    /// Candidates after which the search stops.
    pub max_candidates: u64,
}

impl Default for Search {
    fn default() -> Self {
        Self {
            shardings: Vec::new(),
            micro_batches: Vec::new(),
            recompute: Vec::new(),
            recompute_every: Vec::new(),
            tensor_parallel: Vec::new(),
            pipeline_parallel: Vec::new(),
            pipeline_chunks: Vec::new(),
            context_parallel: Vec::new(),
            expert_parallel: Vec::new(),
            schedules: Vec::new(),
            offload: Vec::new(),
            methods: Vec::new(),
            optimizers: Vec::new(),
            computes: Vec::new(),
            nodes: Vec::new(),
            instances: Vec::new(),
            global_batch_range: None,
            objective: Objective::Time,
            deadline: None,
            budget: None,
            headroom: 0.0,
            any_framework: false,
            scaling: false,
            sensitivity: false,
            list: 8,
            max_candidates: 1_000_000,
        }
    }
}

/// Items of a list of numbers or names, at most.
const MOST_LISTED: usize = 256;
/// Words of a list, at most: more than any vocabulary has.
const MOST_WORDS: usize = 64;

impl Search {
    /// Checks the ranges.
    pub(crate) fn validate(&self) -> Result<()> {
        in_range("headroom", self.headroom, 0.0, 0.9)?;
        in_range("list", self.list as f64, 0.0, 1000.0)?;
        in_range("max_candidates", self.max_candidates as f64, 1.0, 1e12)?;
        for (name, list) in [
            ("micro_batches", &self.micro_batches),
            ("tensor_parallel", &self.tensor_parallel),
            ("pipeline_parallel", &self.pipeline_parallel),
            ("pipeline_chunks", &self.pipeline_chunks),
            ("context_parallel", &self.context_parallel),
            ("expert_parallel", &self.expert_parallel),
            ("recompute_every", &self.recompute_every),
        ] {
            entries(name, list.len(), 0, MOST_LISTED)?;
            for (i, &n) in list.iter().enumerate() {
                in_range("", n as f64, 1.0, 1e6).map_err(|e| e.entry(name, i))?;
            }
        }
        for (name, length, most) in [
            ("shardings", self.shardings.len(), MOST_WORDS),
            ("recompute", self.recompute.len(), MOST_WORDS),
            ("schedules", self.schedules.len(), MOST_WORDS),
            ("offload", self.offload.len(), MOST_WORDS),
            ("methods", self.methods.len(), MOST_WORDS),
            ("optimizers", self.optimizers.len(), MOST_WORDS),
            ("computes", self.computes.len(), MOST_WORDS),
            ("instances", self.instances.len(), MOST_LISTED),
            ("nodes", self.nodes.len(), MOST_LISTED),
        ] {
            entries(name, length, 0, most)?;
        }
        for (i, &n) in self.nodes.iter().enumerate() {
            in_range("", f64::from(n), 1.0, 1e6).map_err(|e| e.entry("nodes", i))?;
        }
        if let Some([low, high]) = self.global_batch_range {
            in_range("global_batch_range[0]", low as f64, 1.0, high as f64)?;
            in_range("global_batch_range[1]", high as f64, 1.0, 1e9)?;
        }
        for (name, limit) in
            [("deadline", self.deadline.map(Seconds::get)), ("budget", self.budget.map(Usd::get))]
        {
            if let Some(limit) = limit {
                in_range(name, limit, 0.0, 1e15)?;
            }
        }
        Ok(())
    }
}
