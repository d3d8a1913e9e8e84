//! `plan`: every layout the search sees, the best of them, and why not the others.

use super::answer::{PlanAnswer, PlanLine, Rejection};
use super::estimate::{Workplace, check_model, networks_between, resolve_cluster, strategy_name, verdict};
use super::explain::Explain;
use super::request::{PlanRequest, SCHEMA_VERSION};
use super::text::plan_name;
use super::variations;
use crate::assumption::Assumption;
use crate::cluster::Cluster;
use crate::compute::{FlopRules, step_flops};
use crate::error::Result;
use crate::layout::{Layout, Recompute};
use crate::ledger::deduplicated;
use crate::order::sort_by;
use crate::quantity::{Bytes, Seconds, Usd};
use crate::search::{Facts, Ground, Outcome, Point, Search, StopReason, explore};
use crate::step::Setting;
use crate::workload::{Batch, Recipe};

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
    let mut machines = vec![(cluster.clone(), assumptions.clone())];
    for spec in &request.alternatives {
        machines.push(resolve_cluster(spec, &request.catalog).map_err(|e| e.under("alternatives"))?);
    }
    let batch = Batch { seq_len: request.seq_len, global_batch: request.global_batch };
    check_model(&model, &request.recipe, &Layout::default(), request.seq_len)?;
    let first = Site {
        place: Workplace { model: &model, recipe: &request.recipe, cluster: &cluster, run: &request.run },
        batch,
        search: &request.search,
        assumptions: &assumptions,
    };
    let sites: Vec<Site<'_>> =
        machines.iter().map(|(cluster, assumptions)| Site { assumptions, ..first.on(cluster) }).collect();
    let mut all = Outcome::default();
    for (i, site) in sites.iter().enumerate() {
        let out = site.explore(i);
        all.found.extend(out.found);
        all.front.extend(out.front);
        if i == 0 {
            all.late = out.late;
            // What a bound ruled out is costed in full here.
            let whole = |(layout, _): (Layout, Bytes)| {
                let needed = site.place.memory(&layout, &batch).needed;
                (layout, needed)
            };
            all.misses = out.misses.into_iter().map(whole).collect();
        }
        all.seen += out.seen;
        all.costed += out.costed;
        all.space += out.space;
        if out.stop == StopReason::CandidateLimit {
            all.stop = out.stop;
        }
    }
    rank(&mut all, request.search.objective);
    let several = sites.len() > 1;
    let lines = |points: &[Point]| -> Vec<PlanLine> {
        points.iter().filter_map(|p| Some(sites.get(p.cluster)?.line(p, several))).collect()
    };
    let feasible = !all.found.is_empty();
    let winner = all.found.first().or(all.late.as_ref());
    let site = winner.and_then(|p| sites.get(p.cluster)).unwrap_or(&first);
    let layout = winner
        .map(|p| p.layout.clone())
        .or_else(|| nearest(&all.misses).map(|(l, _)| l.clone()))
        .unwrap_or_else(|| Layout { data_parallel_shard: first.place.cluster.gpus(), ..Layout::default() });
    let explain = Explain::new(site, &layout, feasible);
    let why_not = explain.why_not(&request.why_not)?;
    let changes = explain.changes(request.current.as_ref())?;
    let budget = site.budget();
    let mut best = site.place.answer(layout.clone(), &batch, site.assumptions.clone());
    site.place.complete(&mut best, &batch)?;
    let listed = distinct(&all.found, request.search.list);
    let mut ranked = lines(&listed);
    for (line, point) in ranked.iter_mut().zip(&listed) {
        let place = sites.get(point.cluster).map_or(site.place, |s| s.place);
        place.look_ahead_lines(core::slice::from_mut(line), &batch)?;
    }
    Ok(PlanAnswer {
        schema_version: SCHEMA_VERSION,
        feasible,
        nearest_changes: if feasible {
            Vec::new()
        } else {
            nearest_changes(&site.place, &layout, &batch, budget, all.late.as_ref(), &request.search)
        },
        neighbours: if feasible { explain.neighbours() } else { Vec::new() },
        why_not,
        changes,
        scaling: if request.search.scaling {
            let chosen = winner.and_then(|p| request.alternatives.get(p.cluster.checked_sub(1)?));
            let networks = networks_between(chosen.unwrap_or(&request.cluster), &request.catalog)?;
            Some(variations::scaling(site, &networks))
        } else {
            None
        },
        sensitivity: if request.search.sensitivity {
            variations::sensitivity(site, &layout)
        } else {
            Vec::new()
        },
        warnings: explain.warnings(),
        rejected: rejections(&all, &explain, &request.search),
        front: lines(&all.front),
        ranked,
        best,
        candidates: all.seen,
        costed: all.costed,
        brute_force: all.space,
        stop_reason: all.stop,
    })
}

/// One of the request's clusters.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) place: Workplace<'a>,
    pub(super) batch: Batch,
    pub(super) search: &'a Search,
    pub(super) assumptions: &'a Vec<Assumption>,
}

impl<'a> Site<'a> {
    pub(super) fn explore(&self, index: usize) -> Outcome {
        explore(&self.ground(), &self.facts(), index)
    }

    /// The same on other machines.
    pub(super) fn on<'b>(&self, cluster: &'b Cluster) -> Site<'b>
    where
        'a: 'b,
    {
        Site { place: Workplace { cluster, ..self.place }, ..*self }
    }

    /// The best layout, if any fits.
    pub(super) fn best(&self) -> Option<Point> {
        let mut out = self.explore(0);
        rank(&mut out, self.search.objective);
        out.found.into_iter().next()
    }

    pub(super) fn facts(&self) -> Facts {
        let p = &self.place;
        Facts::new(p.model, p.recipe, p.cluster, &self.batch, self.search.any_framework)
    }

    /// Bytes that a rank may need.
    pub(super) fn budget(&self) -> Bytes {
        self.place.cluster.memory * (1.0 - self.search.headroom)
    }

    fn tokens(&self) -> f64 {
        let seq_len = self.place.model.fixed_tokens.unwrap_or(self.batch.seq_len);
        seq_len as f64 * self.batch.global_batch as f64
    }

    pub(super) fn steps(&self) -> Option<f64> {
        match (self.place.run.steps, self.place.run.tokens) {
            (Some(steps), _) => Some(steps),
            (None, Some(tokens)) => {
                Some(libm::ceil(deduplicated(tokens, self.place.run.duplicated) / self.tokens()))
            }
            (None, None) => None,
        }
    }

    fn ground(&self) -> Ground<'a> {
        Ground {
            model: self.place.model,
            recipe: self.place.recipe,
            cluster: self.place.cluster,
            batch: self.batch,
            search: self.search,
            steps: self.steps(),
            price: self.place.cluster.price(self.place.run.price).map(crate::UsdPerSecond::get),
        }
    }

    /// A costed layout as a line of a list.
    pub(super) fn line(&self, point: &Point, several: bool) -> PlanLine {
        let cluster = self.place.cluster;
        let rules = FlopRules {
            seq_len: self.batch.seq_len,
            sequences: self.batch.global_batch as f64,
            causal_half: true,
            recompute: Recompute::None,
            recompute_every: 1,
        };
        let flops = step_flops(self.place.model, self.place.recipe, &rules).model();
        let machine = Setting::new(self.place.model, self.place.recipe, self.batch, cluster).machine;
        let seconds = point.measure.time;
        let run_time = self.steps().map(|n| Seconds::of(seconds) * n);
        PlanLine {
            name: plan_name(&point.layout),
            machines: several.then(|| cluster.to_string()),
            gradient_accumulation: self
                .batch
                .accumulation(point.layout.data_parallel(), point.layout.micro_batch),
            memory: point.memory.device,
            headroom: Bytes::of(point.measure.headroom),
            verdict: verdict(point.memory.needed, point.memory.device_high, cluster.memory),
            step_time: Seconds::of(seconds),
            tokens_per_second: self.tokens() / seconds,
            mfu: flops / (machine.peak * point.layout.world() as f64 * seconds),
            cost: run_time.and(point.measure.money).map(Usd::of),
            run_time,
            expected_time: None,
            time_p90: None,
            expected_cost: None,
            layout: point.layout.clone(),
        }
    }
}

/// Best first; on the front fastest first, less what plans on other machines better.
fn rank(out: &mut Outcome, objective: crate::search::Objective) {
    sort_by(&mut out.found, |a, b| a.measure.weigh(&b.measure, objective));
    let front = core::mem::take(&mut out.front);
    out.front =
        front.iter().filter(|p| !front.iter().any(|o| o.measure.dominates(&p.measure))).cloned().collect();
    sort_by(&mut out.front, |a, b| a.measure.weigh(&b.measure, crate::search::Objective::Time));
}

/// The best plan of each strategy, recompute setting, tensor and pipeline degree.
fn distinct(found: &[Point], list: u64) -> Vec<Point> {
    let mut out: Vec<Point> = Vec::new();
    for p in found {
        let l = &p.layout;
        let known = out.iter().any(|o| {
            o.cluster == p.cluster
                && o.layout.sharding == l.sharding
                && o.layout.recompute == l.recompute
                && o.layout.tensor_parallel == l.tensor_parallel
                && o.layout.pipeline_parallel == l.pipeline_parallel
        });
        if out.len() as u64 >= list {
            break;
        }
        if !known {
            out.push(p.clone());
        }
    }
    out
}

fn nearest(misses: &[(Layout, Bytes)]) -> Option<&(Layout, Bytes)> {
    misses.iter().reduce(|a, b| if b.1 < a.1 { b } else { a })
}

/// Each strategy of which nothing fits, with the layout that comes nearest, and each that was asked
/// for and cannot run.
fn rejections(all: &Outcome, explain: &Explain<'_>, search: &Search) -> Vec<Rejection> {
    let fits = |s| all.found.iter().any(|p| p.layout.sharding == s);
    let mut out: Vec<Rejection> = Vec::new();
    for (layout, needed) in all.misses.iter().filter(|(l, _)| !fits(l.sharding)) {
        let budget = explain.site.budget();
        out.push(Rejection {
            reason: format!(
                "{} needs {needed} of {budget} even at micro-batch {} with {} recompute",
                strategy_name(layout.sharding),
                layout.micro_batch,
                layout.recompute
            ),
            name: plan_name(layout),
            layout: layout.clone(),
            shortfall: Some(*needed - budget),
            rule: None,
        });
    }
    for &sharding in &search.shardings {
        let known = fits(sharding) || all.misses.iter().any(|(l, _)| l.sharding == sharding);
        if !known {
            out.extend(explain.forbidden(sharding));
        }
    }
    out
}

/// Changes that would make it fit, tried one at a time, cheapest first: those that cost nothing but
/// a setting, then those that cost time, then those that cost money.
fn nearest_changes(
    place: &Workplace<'_>,
    layout: &Layout,
    batch: &Batch,
    budget: Bytes,
    late: Option<&Point>,
    search: &Search,
) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(late) = late {
        // Memory is not what binds.
        let time = place.run_report(&place.step(&late.layout, batch));
        if let (Some(run), Some(deadline)) = (&time, search.deadline) {
            out.push(format!("a deadline of {} instead of {deadline}", run.time));
        }
        if let (Some(cost), Some(budget)) = (time.as_ref().and_then(|r| r.cost.as_ref()), search.budget) {
            out.push(format!("a budget of {} instead of {budget}", cost.total()));
        }
        return out;
    }
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
