//! What a face may ask. Field names are the contract: JSON, Python keywords and the page's form
//! are made from these types.

use serde::{Deserialize, Serialize};

use super::run::Run;
use crate::cluster::{CatalogRows, ClusterSpec};
use crate::error::{Error, ErrorCode, Result, in_range};
use crate::layout::{Layout, Recompute, Sharding};
use crate::vocabulary::vocabulary;
use crate::workload::{Batch, ModelSpec, Recipe};

/// Version of requests and answers. It rises when a field changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

pub(super) const fn schema_version() -> u32 {
    SCHEMA_VERSION
}

vocabulary! {
    /// What the search makes least (or most).
    Objective {
        /// Least time.
        Time = "time",
        /// Least money.
        Cost = "cost",
        /// Most memory left.
        Headroom = "headroom",
    } default Time
}

fn whole_cluster() -> Layout {
    Layout { data_parallel_shard: 0, ..Layout::default() }
}

/// Asks what one given layout needs: memory, time, money.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Catalogue rows of the user's own.
    #[serde(default)]
    pub catalog: CatalogRows,
}

/// What the search may vary. An empty list leaves that choice open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Search {
    /// Sharding strategies to consider.
    pub shardings: Vec<Sharding>,
    /// Micro-batches to consider, in sequences.
    pub micro_batches: Vec<u64>,
    /// What to consider recomputing.
    pub recompute: Vec<Recompute>,
    /// Tensor-parallel degrees to consider.
    pub tensor_parallel: Vec<u64>,
    /// Pipeline degrees to consider.
    pub pipeline_parallel: Vec<u64>,
    /// What is made least.
    pub objective: Objective,
    /// Memory to leave free, as a share of the accelerator's usable memory, 0 to 0.9.
    pub headroom: f64,
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
            tensor_parallel: Vec::new(),
            pipeline_parallel: Vec::new(),
            objective: Objective::Time,
            headroom: 0.0,
            list: 8,
            max_candidates: 1_000_000,
        }
    }
}

/// Asks for the best layout.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// How much is trained, and at which price.
    #[serde(default)]
    pub run: Run,
    /// Catalogue rows of the user's own.
    #[serde(default)]
    pub catalog: CatalogRows,
}

/// Asks what a model is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DescribeModelRequest {
    /// The model.
    pub model: ModelSpec,
}

/// Asks for the catalogue, with rows of the user's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct CatalogRequest {
    /// Catalogue rows of the user's own.
    pub catalog: CatalogRows,
}

pub(super) fn version(given: u32) -> Result<()> {
    if given == SCHEMA_VERSION {
        return Ok(());
    }
    Err(Error::new("schema_version", ErrorCode::OutOfRange, given, format!("{SCHEMA_VERSION}")))
}

impl EstimateRequest {
    pub(crate) fn validate(&self) -> Result<()> {
        version(self.schema_version)?;
        in_range("seq_len", self.seq_len as f64, 1.0, 1e8)?;
        if let Some(n) = self.global_batch {
            in_range("global_batch", n as f64, 1.0, 1e9)?;
        }
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
        in_range("search.headroom", self.search.headroom, 0.0, 0.9)?;
        in_range("search.list", self.search.list as f64, 0.0, 1000.0)?;
        in_range("search.max_candidates", self.search.max_candidates as f64, 1.0, 1e12)?;
        for (name, list) in [
            ("search.micro_batches", &self.search.micro_batches),
            ("search.tensor_parallel", &self.search.tensor_parallel),
            ("search.pipeline_parallel", &self.search.pipeline_parallel),
        ] {
            for &n in list {
                in_range(name, n as f64, 1.0, 1e6)?;
            }
        }
        self.recipe.validate().map_err(|e| e.under("recipe"))?;
        self.run.validate().map_err(|e| e.under("run"))
    }
}
