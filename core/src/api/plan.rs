//! `plan`: every layout the search sees, the best of them, and why not the others.

use super::answer::{PlanAnswer, PlanLine, Rejection, StopReason};
use super::estimate::{Workplace, check_model, resolve_cluster, strategy_name, verdict};
use super::request::{Objective, PlanRequest, SCHEMA_VERSION, Search};
use super::text::plan_name;
use crate::cluster::Cluster;
use crate::error::Result;
use crate::layout::{Layout, Recompute, Sharding};
use crate::order::sort_by;
use crate::quantity::Bytes;
use crate::workload::{Batch, Framework, Recipe};

/// The best layout for the machines, a ranked list, and why not the rest.
///
/// ```
/// use shardwise::api::{PlanRequest, plan};
/// let request: PlanRequest = serde_json::from_str(
///     r#"{"model": "llama-3.1-8b", "cluster": "8xH100-SXM-80GB", "seq_len": 8192,
///         "global_batch": 64, "run": {"tokens": 1e10}}"#,
/// ).unwrap();
/// let answer = plan(&request).unwrap();
/// assert!(answer.feasible);
/// assert!(answer.rejected.iter().any(|r| r.layout.sharding.name() == "ddp"));
/// ```
///
/// # Errors
/// A request that cannot be read; see [`Error`](crate::Error). That nothing fits is an answer.
pub fn plan(request: &PlanRequest) -> Result<PlanAnswer> {
    request.validate()?;
    let model = request.model.resolve("model")?;
    let (cluster, assumptions) = resolve_cluster(&request.cluster, &request.catalog)?;
    let batch = Batch { seq_len: request.seq_len, global_batch: request.global_batch };
    check_model(&model, &request.recipe, &Layout::default(), request.seq_len)?;
    let place = Workplace { model: &model, recipe: &request.recipe, cluster: &cluster, run: &request.run };
    let search = &request.search;
    let budget = cluster.memory * (1.0 - search.headroom);

    let mut seen = 0_u64;
    let mut stop_reason = StopReason::Exhausted;
    let mut fitting: Vec<Seen> = Vec::new();
    let mut misses: Vec<(Layout, Bytes)> = Vec::new();
    'search: for sharding in strategies(search, &request.recipe, &cluster) {
        for layout in skeletons(sharding, search, &model, &cluster) {
            for &recompute in recompute_choices(search) {
                for micro_batch in micro_batches(search, &batch, &layout) {
                    if seen >= search.max_candidates {
                        stop_reason = StopReason::CandidateLimit;
                        break 'search;
                    }
                    seen += 1;
                    let layout = Layout { micro_batch, recompute, ..layout.clone() };
                    let memory = place.memory(&layout, &batch);
                    if memory.needed > budget {
                        misses.push((layout, memory.needed));
                        // A larger micro-batch never needs less.
                        break;
                    }
                    let step = place.step(&layout, &batch);
                    let verdict = verdict(&memory, cluster.memory);
                    let run = place.run_report(&step);
                    fitting.push(Seen {
                        line: PlanLine {
                            gradient_accumulation: batch.accumulation(layout.data_parallel(), micro_batch),
                            name: plan_name(&layout),
                            layout,
                            memory: memory.device.total(),
                            headroom: cluster.memory - memory.needed,
                            verdict,
                            step_time: step.total(),
                            tokens_per_second: step.tokens_per_second(),
                            mfu: step.mfu,
                            run_time: run.as_ref().map(|r| r.time),
                            cost: run.as_ref().and_then(|r| r.cost.as_ref()).map(crate::Terms::total),
                            expected_time: None,
                            time_p90: None,
                            expected_cost: None,
                        },
                    });
                }
            }
        }
    }
    rank(&mut fitting, search.objective);
    let rejected = rejections(&fitting, &misses, budget);
    let best_layout = fitting
        .first()
        .map(|s| s.line.layout.clone())
        .or_else(|| nearest(&misses).map(|(l, _)| l.clone()))
        .unwrap_or_else(|| Layout { data_parallel_shard: cluster.gpus(), ..Layout::default() });
    let feasible = !fitting.is_empty();
    let mut best = place.answer(best_layout, &batch, assumptions);
    place.complete(&mut best, &batch)?;
    let mut ranked = distinct(fitting, search.list);
    place.look_ahead_lines(&mut ranked, &batch)?;
    Ok(PlanAnswer {
        schema_version: SCHEMA_VERSION,
        feasible,
        nearest_changes: if feasible {
            Vec::new()
        } else {
            nearest_changes(&place, &best.layout, &batch, budget)
        },
        best,
        ranked,
        rejected,
        candidates: seen,
        stop_reason,
    })
}

struct Seen {
    line: PlanLine,
}

/// Strategies to look at: those asked for, else all that the framework runs on this many devices.
fn strategies(search: &Search, recipe: &Recipe, cluster: &Cluster) -> Vec<Sharding> {
    if !search.shardings.is_empty() {
        return search.shardings.clone();
    }
    if cluster.gpus() == 1 {
        return vec![Sharding::None];
    }
    match recipe.framework {
        Framework::Megatron | Framework::Megatron2021 | Framework::MegatronDeepSpeed => {
            vec![Sharding::Ddp, Sharding::DistributedOptimizer]
        }
        Framework::DeepSpeed => vec![Sharding::Ddp, Sharding::Zero1, Sharding::Zero2, Sharding::Zero3],
        _ => {
            let mut all = vec![
                Sharding::Ddp,
                Sharding::Zero1,
                Sharding::Zero2,
                Sharding::Zero3,
                Sharding::FullShard,
                Sharding::ShardGradOp,
                Sharding::NoShard,
                Sharding::Fsdp2,
            ];
            if cluster.nodes > 1 && cluster.gpus_per_node > 1 {
                all.push(Sharding::HybridShard);
            }
            all
        }
    }
}

/// Layouts of one strategy without micro-batch and recompute.
fn skeletons(sharding: Sharding, search: &Search, model: &crate::Model, cluster: &Cluster) -> Vec<Layout> {
    let gpus = cluster.gpus();
    let mut out = Vec::new();
    let tensor: &[u64] = if search.tensor_parallel.is_empty() { &[1] } else { &search.tensor_parallel };
    let pipeline: &[u64] = if search.pipeline_parallel.is_empty() { &[1] } else { &search.pipeline_parallel };
    for &tensor_parallel in tensor {
        for &pipeline_parallel in pipeline {
            let inner = tensor_parallel * pipeline_parallel;
            if !gpus.is_multiple_of(inner) || pipeline_parallel > model.layers() {
                continue;
            }
            let ranks = gpus / inner;
            let (data_parallel_replicate, data_parallel_shard) = match sharding {
                Sharding::HybridShard | Sharding::HybridShardZero2 => {
                    let node = (u64::from(cluster.gpus_per_node)
                        / inner.min(u64::from(cluster.gpus_per_node)))
                    .max(1);
                    if !ranks.is_multiple_of(node) {
                        continue;
                    }
                    (ranks / node, node)
                }
                s if s.shards() => (1, ranks),
                _ => (ranks, 1),
            };
            out.push(Layout {
                sharding,
                data_parallel_replicate,
                data_parallel_shard,
                tensor_parallel,
                sequence_parallel: tensor_parallel > 1,
                pipeline_parallel,
                ..Layout::default()
            });
        }
    }
    out
}

fn recompute_choices(search: &Search) -> &[Recompute] {
    if search.recompute.is_empty() { &[Recompute::None, Recompute::Full] } else { &search.recompute }
}

/// Micro-batches that divide each rank's share of the batch, powers of two unless asked otherwise.
fn micro_batches(search: &Search, batch: &Batch, layout: &Layout) -> Vec<u64> {
    let ranks = layout.data_parallel();
    if !batch.global_batch.is_multiple_of(ranks) {
        return Vec::new();
    }
    let share = batch.global_batch / ranks;
    let mut sizes: Vec<u64> = if search.micro_batches.is_empty() {
        (0..20).map(|i| 1_u64 << i).collect()
    } else {
        search.micro_batches.clone()
    };
    sort_by(&mut sizes, Ord::cmp);
    sizes.retain(|&m| m <= share && share.is_multiple_of(m));
    sizes
}

/// Best first. Ties go to less memory, then to the order of the search.
fn rank(seen: &mut Vec<Seen>, objective: Objective) {
    let key = |s: &Seen| match objective {
        Objective::Time => s.line.step_time.get(),
        Objective::Cost => s.line.cost.map_or(s.line.step_time.get(), crate::Usd::get),
        Objective::Headroom => -s.line.headroom.get(),
    };
    sort_by(seen, |a, b| {
        key(a).total_cmp(&key(b)).then(b.line.headroom.get().total_cmp(&a.line.headroom.get()))
    });
}

/// The best plan of each strategy and recompute setting.
fn distinct(seen: Vec<Seen>, list: u64) -> Vec<PlanLine> {
    let mut out: Vec<PlanLine> = Vec::new();
    for s in seen {
        let l = &s.line.layout;
        let known = out.iter().any(|o| {
            o.layout.sharding == l.sharding
                && o.layout.recompute == l.recompute
                && o.layout.tensor_parallel == l.tensor_parallel
                && o.layout.pipeline_parallel == l.pipeline_parallel
        });
        if !known && (out.len() as u64) < list {
            out.push(s.line);
        }
    }
    out
}

fn nearest(misses: &[(Layout, Bytes)]) -> Option<&(Layout, Bytes)> {
    misses.iter().reduce(|a, b| if b.1 < a.1 { b } else { a })
}

/// Each strategy of which nothing fits, with the layout that comes nearest.
fn rejections(fitting: &[Seen], misses: &[(Layout, Bytes)], budget: Bytes) -> Vec<Rejection> {
    let mut out: Vec<Rejection> = Vec::new();
    for (layout, _) in misses {
        let sharding = layout.sharding;
        if fitting.iter().any(|s| s.line.layout.sharding == sharding)
            || out.iter().any(|r| r.layout.sharding == sharding)
        {
            continue;
        }
        let of: Vec<(Layout, Bytes)> =
            misses.iter().filter(|(l, _)| l.sharding == sharding).cloned().collect();
        if let Some((layout, needed)) = nearest(&of) {
            out.push(Rejection {
                reason: format!(
                    "{} needs {} of {} even at micro-batch {} with {} recompute",
                    strategy_name(sharding),
                    needed,
                    budget,
                    layout.micro_batch,
                    layout.recompute
                ),
                name: plan_name(layout),
                layout: layout.clone(),
                shortfall: Some(*needed - budget),
            });
        }
    }
    out
}

/// Changes that would make it fit, tried one at a time, cheapest first: those that cost nothing but
/// a setting, then those that cost time, then those that cost money.
fn nearest_changes(place: &Workplace<'_>, layout: &Layout, batch: &Batch, budget: Bytes) -> Vec<String> {
    let mut out = Vec::new();
    let mut offer = |what: &str, recipe: &Recipe, layout: &Layout, batch: &Batch| {
        let need = crate::memory::estimate(place.model, recipe, layout, batch).needed;
        if need <= budget {
            out.push(format!("{what}: needs {need} of {budget}"));
        }
    };
    let base = place.recipe;
    let full = Layout { recompute: Recompute::Full, ..layout.clone() };
    let fused = Recipe { loss: crate::workload::LossKernel::FusedLinear, ..base.clone() };
    offer("a fused linear cross-entropy", &fused, &full, batch);
    offer(
        "8-bit AdamW",
        &Recipe { optimizer: crate::workload::Optimizer::Adamw8bit, ..base.clone() },
        &full,
        batch,
    );
    let offloaded = Layout { offload: vec![crate::layout::Offload::Optimizer], ..full.clone() };
    offer("optimizer states on the host", base, &offloaded, batch);
    if !place.model.is_traced() {
        let lora = Recipe { method: crate::workload::Method::Lora, params_dtype: None, ..base.clone() };
        offer("LoRA instead of full training", &lora, &full, batch);
        let qlora = Recipe { method: crate::workload::Method::Qlora, params_dtype: None, ..base.clone() };
        offer("QLoRA instead of full training", &qlora, &full, batch);
    }
    if layout.sharding.shards() {
        for factor in [2_u64, 4, 8, 16, 32, 64] {
            let wider = Layout { data_parallel_shard: full.data_parallel_shard * factor, ..full.clone() };
            let need = crate::memory::estimate(place.model, base, &wider, batch).needed;
            if need <= budget {
                out.push(format!(
                    "{} accelerators instead of {}: needs {need} of {budget}",
                    wider.world(),
                    full.world()
                ));
                break;
            }
        }
    }
    let mut seq_len = batch.seq_len;
    while seq_len > 256 {
        seq_len /= 2;
        let shorter = Batch { seq_len, ..*batch };
        let need = crate::memory::estimate(place.model, base, &full, &shorter).needed;
        if need <= budget {
            out.push(format!(
                "sequences of {seq_len} instead of {}: needs {need} of {budget}",
                batch.seq_len
            ));
            break;
        }
    }
    out
}
