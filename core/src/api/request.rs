//! What a face may ask. Field names are the contract: JSON, Python keywords and the page's form
//! are made from these types.

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use super::run::Run;
use crate::calibrate::Calibration;
use crate::cluster::{CatalogRows, ClusterSpec};
use crate::error::{Error, ErrorCode, Result, entries, in_range};
use crate::layout::Layout;
use crate::search::{Objective, Search};
use crate::version::{schema_version, version};
use crate::workload::{Batch, ModelSpec, Recipe};

fn whole_cluster() -> Layout {
    Layout { data_parallel_shard: 0, ..Layout::default() }
}

/// Asks what one given layout needs: memory, time, money.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EstimateRequest {
    /// Version of this format.
    #[serde(default = "schema_version")]
    pub schema_version: u32,
    /// What is trained.
    pub model: ModelSpec,
    /// On which machines.
    pub cluster: ClusterSpec,
    /// Tokens per sequence.
    pub seq_len: u64,
    /// Sequences per optimizer step; none means one micro-batch per data-parallel rank.
    #[serde(default)]
    pub global_batch: Option<u64>,
    /// How it is trained.
    #[serde(default)]
    pub recipe: Recipe,
    /// How the work is split.
    #[serde(default = "whole_cluster")]
    pub layout: Layout,
    /// How much is trained, and at which price.
    #[serde(default)]
    pub run: Run,
    /// What measured runs taught: the answer's `calibration` of `calibrate`.
    #[serde(default)]
    pub calibration: Calibration,
    /// Catalogue rows of the user's own.
    #[serde(default)]
    pub catalog: CatalogRows,
}

/// Other machines of a plan, at most.
const MOST_ALTERNATIVES: usize = 256;
/// Layouts that a plan explains, at most.
const MOST_ASKED: usize = 256;

/// Asks for the best layout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PlanRequest {
    /// Version of this format.
    #[serde(default = "schema_version")]
    pub schema_version: u32,
    /// What is trained.
    pub model: ModelSpec,
    /// On which machines.
    pub cluster: ClusterSpec,
    /// Tokens per sequence.
    pub seq_len: u64,
    /// Sequences per optimizer step.
    pub global_batch: u64,
    /// How it is trained.
    #[serde(default)]
    pub recipe: Recipe,
    /// What may vary.
    #[serde(default)]
    pub search: Search,
    /// Other machines that the run could have instead.
    #[serde(default)]
    pub alternatives: Vec<ClusterSpec>,
    /// Layouts to explain: why not these? A shard degree of 0 means all ranks left.
    #[serde(default)]
    pub why_not: Vec<Layout>,
    /// The layout in use: what to change first is told.
    #[serde(default)]
    pub current: Option<Layout>,
    /// How much is trained, and at which price.
    #[serde(default)]
    pub run: Run,
    /// What measured runs taught: the answer's `calibration` of `calibrate`.
    #[serde(default)]
    pub calibration: Calibration,
    /// Catalogue rows of the user's own.
    #[serde(default)]
    pub catalog: CatalogRows,
}

/// Asks what a model is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DescribeModelRequest {
    /// Version of this format.
    #[serde(default = "schema_version")]
    pub schema_version: u32,
    /// The model.
    pub model: ModelSpec,
}

/// Asks for the catalogue, with rows of the user's own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CatalogRequest {
    /// Version of this format.
    #[serde(default = "schema_version")]
    pub schema_version: u32,
    /// Catalogue rows of the user's own.
    #[serde(default)]
    pub catalog: CatalogRows,
}

impl EstimateRequest {
    pub(crate) fn validate(&self) -> Result<()> {
        version(self.schema_version)?;
        in_range("seq_len", self.seq_len as f64, 1.0, 1e8)?;
        if let Some(n) = self.global_batch {
            in_range("global_batch", n as f64, 1.0, 1e9)?;
        }
        self.calibration.validate().map_err(|e| e.under("calibration"))?;
        self.recipe.validate().map_err(|e| e.under("recipe"))?;
        self.run.validate().map_err(|e| e.under("run"))
    }

    /// The batch, with its default.
    pub(crate) fn batch(&self, layout: &Layout) -> Result<Batch> {
        let least = layout.data_parallel() * layout.micro_batch;
        let global_batch = self.global_batch.unwrap_or(least);
        if !global_batch.is_multiple_of(least) {
            return Err(Error::new(
                "global_batch",
                ErrorCode::Conflict,
                global_batch,
                format!(
                    "a multiple of {least} = {} data-parallel ranks x micro-batch {}",
                    layout.data_parallel(),
                    layout.micro_batch
                ),
            ));
        }
        Ok(Batch { seq_len: self.seq_len, global_batch })
    }
}

impl PlanRequest {
    pub(crate) fn validate(&self) -> Result<()> {
        version(self.schema_version)?;
        in_range("seq_len", self.seq_len as f64, 1.0, 1e8)?;
        in_range("global_batch", self.global_batch as f64, 1.0, 1e9)?;
        entries("alternatives", self.alternatives.len(), 0, MOST_ALTERNATIVES)?;
        entries("why_not", self.why_not.len(), 0, MOST_ASKED)?;
        self.search.validate().map_err(|e| e.under("search"))?;
        let limited = if self.search.deadline.is_some() {
            Some(("search.deadline", "one"))
        } else if self.search.budget.is_some() {
            Some(("search.budget", "one"))
        } else if self.search.objective == Objective::ExpectedCost {
            Some(("search.objective", "expected_cost"))
        } else {
            None
        };
        if let Some((field, given)) =
            limited.filter(|_| self.run.tokens.is_none() && self.run.steps.is_none())
        {
            let allowed = "only with run.tokens or run.steps";
            return Err(Error::new(field, ErrorCode::Conflict, given, allowed));
        }
        self.calibration.validate().map_err(|e| e.under("calibration"))?;
        self.recipe.validate().map_err(|e| e.under("recipe"))?;
        self.run.validate().map_err(|e| e.under("run"))
    }
}
