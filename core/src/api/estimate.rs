//! `estimate`: one given layout, opened.

use std::borrow::Cow;

use super::answer::{EstimateAnswer, Fit, Price, RunReport, Verdict};
use super::request::EstimateRequest;
use super::run::Run;
use super::text::plan_name;
use crate::assumption::Assumption;
use crate::calibrate::Calibration;
use crate::cluster::{Catalog, Cluster, Network};
use crate::error::{Error, ErrorCode, Result};
use crate::layout::{Layout, Offload, Sharding, Wrap};
use crate::ledger::deduplicated;
use crate::memory::{self, MemoryReport};
use crate::quantity::Bytes;
use crate::step::{Setting, StepReport};
use crate::term::{Interval80, Term, Terms};
use crate::version::SCHEMA_VERSION;
use crate::workload::{Batch, Framework, Kernels, Method, Model, Recipe};

/// What one layout needs: memory, time, money.
///
/// ```
/// use shardwise::api::{EstimateRequest, Verdict, estimate};
/// let request: EstimateRequest = serde_json::from_str(
///     r#"{"model": "llama-3.1-8b", "cluster": "8xH100-SXM-80GB", "seq_len": 4096,
///         "layout": {"sharding": "fsdp2", "recompute": "full"}}"#,
/// ).unwrap();
/// let answer = estimate(&request).unwrap();
/// assert_eq!(answer.fit.verdict, Verdict::Fits);
/// assert_eq!(answer.layout.data_parallel_shard, 8);
/// ```
///
/// # Errors
/// A request that cannot be read; see [`Error`].
pub fn estimate(request: &EstimateRequest) -> Result<EstimateAnswer> {
    let Resolved { model, cluster, assumptions, layout, batch } = Resolved::new(request)?;
    let recipe = recipe_on(&request.recipe, &cluster);
    let parts = Workplace {
        model: &model,
        recipe: &recipe,
        cluster: &cluster,
        run: &request.run,
        calibration: &request.calibration,
    };
    let mut answer = parts.answer(layout, &batch, assumptions);
    parts.complete(&mut answer, &batch)?;
    Ok(answer)
}

/// The recipe as it runs on these machines.
pub(super) fn recipe_on(recipe: &Recipe, cluster: &Cluster) -> Recipe {
    Recipe { on_processor: cluster.is_processor(), ..recipe.clone() }
}

/// A request with every name looked up and every default filled in.
pub(super) struct Resolved {
    pub(super) model: Cow<'static, Model>,
    pub(super) cluster: Cluster,
    assumptions: Vec<Assumption>,
    pub(super) layout: Layout,
    pub(super) batch: Batch,
}

impl Resolved {
    pub(super) fn new(request: &EstimateRequest) -> Result<Self> {
        request.validate()?;
        let model = request.model.resolve("model")?;
        let (cluster, assumptions) = resolve_cluster(&request.cluster, &request.catalog)?;
        let layout = request.layout.clone().resolve(cluster.gpus()).map_err(|e| e.under("layout"))?;
        let batch = request.batch(&layout)?;
        check_model(&model, &request.recipe, &layout, request.seq_len)?;
        Ok(Self { model, cluster, assumptions, layout, batch })
    }
}

/// The machines a request names.
pub(super) fn resolve_cluster(
    spec: &crate::cluster::ClusterSpec,
    own: &crate::cluster::CatalogRows,
) -> Result<(Cluster, Vec<Assumption>)> {
    spec.resolve(&*Catalog::with(own)?)
}

/// The networks that would join several nodes of those a request names.
pub(super) fn networks_between(
    spec: &crate::cluster::ClusterSpec,
    own: &crate::cluster::CatalogRows,
) -> Result<Vec<Network>> {
    spec.networks_between(&*Catalog::with(own)?)
}

/// What a model cannot do whatever the layout.
pub(super) fn check_model(model: &Model, recipe: &Recipe, layout: &Layout, seq_len: u64) -> Result<()> {
    if model.is_traced() && recipe.method != Method::Full {
        return Err(Error::new(
            "recipe.method",
            ErrorCode::Conflict,
            recipe.method,
            "full: a traced model already holds its adapters",
        ));
    }
    if let Some(tokens) = model.fixed_tokens.filter(|&tokens| seq_len != tokens) {
        let allowed = format!("{tokens}, the tokens of one sample");
        return Err(Error::new("seq_len", ErrorCode::Conflict, seq_len, allowed));
    }
    let swaps = layout.swaps(Offload::Optimizer) || layout.swaps(Offload::Param);
    let deepspeed = layout.sharding == Sharding::Zero3
        && matches!(recipe.framework, Framework::DeepSpeed | Framework::Torch);
    if swaps && !deepspeed {
        return Err(Error::new(
            "layout.offload",
            ErrorCode::Conflict,
            layout.sharding,
            "zero3 under deepspeed, for NVMe drives",
        ));
    }
    if layout.wrap == Wrap::Size
        && let Some(barred) = memory::bars_size(layout.sharding, memory::hides_shared_table(model, recipe))
    {
        let allowed = format!("layers, layers+embed+head or model, beside {barred}");
        return Err(Error::new("layout.wrap", ErrorCode::Conflict, layout.wrap, allowed));
    }
    if layout.pipeline_parallel > model.layers() {
        return Err(Error::new(
            "layout.pipeline_parallel",
            ErrorCode::Conflict,
            layout.pipeline_parallel,
            format!("at most the {} layers of the model", model.layers()),
        ));
    }
    Ok(())
}

/// What stays the same from layout to layout.
#[derive(Clone, Copy)]
pub(super) struct Workplace<'a> {
    pub(super) model: &'a Model,
    pub(super) recipe: &'a Recipe,
    pub(super) cluster: &'a Cluster,
    pub(super) run: &'a Run,
    pub(super) calibration: &'a Calibration,
}

impl<'a> Workplace<'a> {
    pub(super) fn memory(&self, layout: &Layout, batch: &Batch) -> MemoryReport {
        self.memory_with(self.recipe, layout, batch)
    }

    pub(super) fn step(&self, layout: &Layout, batch: &Batch) -> StepReport {
        self.setting(batch).report(layout)
    }

    /// Memory under another recipe.
    pub(super) fn memory_with(&self, recipe: &Recipe, layout: &Layout, batch: &Batch) -> MemoryReport {
        memory::estimate(self.model, recipe, layout, batch).calibrated(self.calibration.allocated)
    }

    /// What times a step.
    pub(super) fn setting(&self, batch: &Batch) -> Setting<'a> {
        Setting::new(self.model, self.recipe, *batch, self.cluster).calibrated(self.calibration)
    }

    pub(super) fn answer(
        &self,
        layout: Layout,
        batch: &Batch,
        mut assumptions: Vec<Assumption>,
    ) -> EstimateAnswer {
        let memory = self.memory(&layout, batch);
        let step = self.step(&layout, batch);
        let run = self.run_report(&step);
        if self.recipe.kernels.is_none() {
            let kernels = self.recipe.kernels();
            let why = match kernels {
                Kernels::Fused => "the framework brings its own",
                _ => "one kernel per operation, as Transformers writes them",
            };
            assumptions.push(Assumption::new("recipe.kernels", kernels.name(), why));
        }
        if self.recipe.params_dtype.is_none() {
            assumptions.push(Assumption::new(
                "recipe.params_dtype",
                self.recipe.params().name(),
                if self.recipe.frozen_base() {
                    "a frozen base rests in the compute format"
                } else {
                    "mixed precision keeps fp32 parameters"
                },
            ));
        }
        EstimateAnswer {
            schema_version: SCHEMA_VERSION,
            model: self.model.summary(),
            cluster: self.cluster.clone(),
            fit: self.fit(&memory),
            global_batch: batch.global_batch,
            seq_len: batch.seq_len,
            gradient_accumulation: batch.accumulation(layout.data_parallel(), layout.micro_batch),
            name: plan_name(&layout),
            layout,
            memory,
            step,
            run,
            serving: None,
            assumptions,
        }
    }

    pub(super) fn fit(&self, memory: &MemoryReport) -> Fit {
        let capacity = self.cluster.memory;
        let headroom = capacity - memory.needed;
        let (needed, likely) = (memory.needed, &memory.needed_interval80);
        let node = f64::from(self.cluster.gpus_per_node);
        let beside = [
            (self.cluster.host_memory, memory.host.total() * node, "host memory"),
            (self.cluster.nvme, memory.nvme.total() * node, "NVMe"),
        ];
        let full = beside
            .iter()
            .find_map(|&(room, need, what)| room.filter(|&room| need > room).map(|room| (room, need, what)));
        let verdict = if full.is_some() { Verdict::DoesNotFit } else { verdict(likely, capacity) };
        let reason = match verdict {
            _ if let Some((room, need, what)) = full => {
                format!("needs {need} of {room} of {what} on a node")
            }
            Verdict::Fits => format!("uses {needed} of {capacity}"),
            Verdict::Tight if needed > capacity => format!(
                "needs {needed} of {capacity}, too much but for the error of the estimate (from {})",
                likely.low
            ),
            Verdict::Tight => format!(
                "uses {needed} of {capacity}, with less to spare than the error of the estimate (up to {})",
                likely.high
            ),
            Verdict::DoesNotFit => format!(
                "needs {needed} of {capacity}: {} too much at {}",
                needed - capacity,
                memory.phases.get(memory.peak).map_or("the peak", |p| &p.name)
            ),
        };
        Fit { verdict, capacity, headroom, reason }
    }

    pub(super) fn run_report(&self, step: &StepReport) -> Option<RunReport> {
        let steps = match (self.run.steps, self.run.tokens) {
            (Some(steps), _) => steps,
            (None, Some(tokens)) => libm::ceil(deduplicated(tokens, self.run.duplicated) / step.tokens),
            (None, None) => return None,
        };
        let time = step.total() * steps;
        let price = self.cluster.price(self.run.price).map(|cluster| Price {
            cluster,
            kind: self.run.price,
            source: self.cluster.prices.source.clone(),
            as_of: self.cluster.prices.as_of.clone(),
        });
        let cost = price.as_ref().map(|p| {
            Terms(vec![Term::new(
                "compute",
                p.cluster * time,
                "steps x step time x price of the cluster",
                "catalogue",
            )])
        });
        Some(RunReport {
            steps,
            tokens: steps * step.tokens,
            time,
            price,
            cost,
            outlook: None,
            offers: Vec::new(),
        })
    }
}

/// Fits when the upper end of the interval does, does not when even the lower end does not.
pub(super) fn verdict(needed: &Interval80<Bytes>, capacity: Bytes) -> Verdict {
    if needed.low > capacity {
        Verdict::DoesNotFit
    } else if needed.high > capacity {
        Verdict::Tight
    } else {
        Verdict::Fits
    }
}

/// How a person names a strategy.
pub(super) fn strategy_name(sharding: Sharding) -> &'static str {
    match sharding {
        Sharding::None => "no sharding",
        Sharding::Ddp => "DDP",
        Sharding::Zero1 => "ZeRO-1",
        Sharding::Zero2 => "ZeRO-2",
        Sharding::Zero3 => "ZeRO-3",
        Sharding::FullShard => "FSDP FULL_SHARD",
        Sharding::ShardGradOp => "FSDP SHARD_GRAD_OP",
        Sharding::HybridShard => "FSDP HYBRID_SHARD",
        Sharding::HybridShardZero2 => "FSDP _HYBRID_SHARD_ZERO2",
        Sharding::NoShard => "FSDP NO_SHARD",
        Sharding::Fsdp2 => "FSDP2",
        Sharding::DistributedOptimizer => "distributed optimizer",
    }
}
