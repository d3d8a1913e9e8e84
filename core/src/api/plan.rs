//! `plan`: every layout the search sees, the best of them, and why not the others.

use super::answer::{Chosen, PlanAnswer, PlanLine, Rejection};
use super::estimate::{Workplace, networks_between, recipe_on, strategy_name, verdict};
use super::explain::Explain;
use super::nearest::nearest_changes;
use super::open::Open;
use super::request::PlanRequest;
use super::text::plan_name;
use super::variations;
use crate::assumption::Assumption;
use crate::cluster::{Cluster, ClusterSpec};
use crate::compute::{FlopRules, step_flops};
use crate::error::{Error, ErrorCode, Result};
use crate::layout::{Again, Layout, Recompute};
use crate::ledger::deduplicated;
use crate::order::sort_by;
use crate::quantity::{Bytes, Seconds, Usd};
use crate::search::{Facts, Ground, Objective, Outcome, Point, Scaling, Search, StopReason, explore};
use crate::version::SCHEMA_VERSION;
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
    let open = Open::new(request, &model)?;
    let mut sites: Vec<Site<'_>> = Vec::new();
    let on = |cluster| open.recipes.iter().map(|recipe| recipe_on(recipe, cluster)).collect();
    let recipes: Vec<Vec<Recipe>> = open.machines.iter().map(|(cluster, _)| on(cluster)).collect();
    for ((cluster, assumptions), recipes) in open.machines.iter().zip(&recipes) {
        for recipe in recipes {
            sites.extend(open.batches.iter().map(|&batch| Site {
                place: Workplace {
                    model: &model,
                    recipe,
                    cluster,
                    run: &request.run,
                    calibration: &request.calibration,
                },
                batch,
                asked: request.global_batch,
                search: &request.search,
                assumptions,
            }));
        }
    }
    let Some(first) = sites.first() else {
        return Err(Error::new("search", ErrorCode::MissingField, "", "machines, a recipe and a batch"));
    };
    let mut all = everything(&sites);
    rank(&mut all, request.search.objective);
    if request.search.objective == Objective::ExpectedCost {
        by_expected_cost(&sites, &mut all.found)?;
    }
    let lines = |points: &[Point]| -> Vec<PlanLine> {
        points.iter().filter_map(|p| Some(sites.get(p.cluster)?.line(p, &open))).collect()
    };
    let feasible = !all.found.is_empty();
    let winner = all.found.first().or(all.late.as_ref());
    let site = winner.and_then(|p| sites.get(p.cluster)).unwrap_or(first);
    let layout = winner
        .map(|p| p.layout.clone())
        .or_else(|| nearest(&all.misses).map(|(l, _)| l.clone()))
        .unwrap_or_else(|| Layout { data_parallel_shard: site.place.cluster.gpus(), ..Layout::default() });
    let explain = Explain::new(site, &layout, feasible);
    let why_not = explain.why_not(&request.why_not)?;
    let changes = explain.changes(request.current.as_ref())?;
    let mut best = site.place.answer(layout.clone(), &site.batch, site.assumptions.clone());
    site.place.complete(&mut best, &site.batch)?;
    let listed = distinct(&all.found, request.search.list);
    let mut ranked = lines(&listed);
    for (line, point) in ranked.iter_mut().zip(&listed) {
        let site = sites.get(point.cluster).unwrap_or(site);
        site.place.look_ahead_lines(core::slice::from_mut(line), &site.batch)?;
    }
    Ok(PlanAnswer {
        schema_version: SCHEMA_VERSION,
        feasible,
        chosen: (sites.len() > 1).then(|| site.chosen()),
        nearest_changes: if feasible {
            Vec::new()
        } else {
            nearest_changes(site, &layout, all.late.as_ref())?
        },
        neighbours: if feasible { explain.neighbours() } else { Vec::new() },
        why_not,
        changes,
        scaling: if request.search.scaling { Some(scaling(request, first, site)?) } else { None },
        sensitivity: if request.search.sensitivity {
            variations::sensitivity(site, &layout)
        } else {
            Vec::new()
        },
        warnings: explain.warnings(),
        rejected: rejections(&all, &explain, &request.search),
        front: lines(&all.front.0),
        ranked,
        best,
        candidates: all.seen,
        costed: all.costed,
        brute_force: all.space,
        stop_reason: all.stop,
    })
}

fn scaling(request: &PlanRequest, first: &Site<'_>, site: &Site<'_>) -> Result<Scaling> {
    let networks = networks_between(&named(request, first, site), &request.catalog)?;
    Ok(variations::scaling(site, &networks))
}

/// How a request would name the machines of a site.
fn named(request: &PlanRequest, first: &Site<'_>, site: &Site<'_>) -> ClusterSpec {
    let (own, it) = (first.place.cluster, site.place.cluster);
    if (&own.accelerator, &own.instance) == (&it.accelerator, &it.instance) {
        return request.cluster.clone();
    }
    let plain = || format!("{}x{}", it.gpus_per_node, it.accelerator);
    ClusterSpec::from(it.instance.clone().unwrap_or_else(plain).as_str())
}

/// What the search finds on every site.
fn everything(sites: &[Site<'_>]) -> Outcome {
    let mut all = Outcome::default();
    for (i, site) in sites.iter().enumerate() {
        let out = site.explore(i);
        all.found.extend(out.found);
        all.front.0.extend(out.front.0);
        if i == 0 {
            // What a bound ruled out is costed in full here.
            let whole = |(layout, _): (Layout, Bytes)| {
                let needed = site.place.memory(&layout, &site.batch).needed;
                (layout, needed)
            };
            all.misses = out.misses.into_iter().map(whole).collect();
        }
        all.late = all.late.or(out.late);
        all.seen += out.seen;
        all.costed += out.costed;
        all.space += out.space;
        if out.stop == StopReason::CandidateLimit {
            all.stop = out.stop;
        }
    }
    all
}

/// One of the request's clusters.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) place: Workplace<'a>,
    pub(super) batch: Batch,
    /// Sequences of the batch that the request names.
    pub(super) asked: u64,
    pub(super) search: &'a Search,
    pub(super) assumptions: &'a Vec<Assumption>,
}

impl<'a> Site<'a> {
    /// Every layout, none of them a plan where the result could not be served as demanded.
    pub(super) fn explore(&self, index: usize) -> Outcome {
        let mut out = explore(&self.ground(), &self.facts(), index);
        if matches!(self.place.unserved(), Ok(Some(_))) {
            out.found.clear();
            out.front.0.clear();
            out.late = None;
        }
        out
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
            calibration: *self.place.calibration,
            scale: self.asked as f64 / self.batch.global_batch as f64,
        }
    }

    /// A costed layout as a line of a list.
    pub(super) fn line(&self, point: &Point, open: &Open) -> PlanLine {
        let mut line = self.plain_line(point);
        let recipe = self.place.recipe;
        line.machines = (open.machines.len() > 1).then(|| self.place.cluster.to_string());
        if open.recipes.len() > 1 {
            line.method = Some(recipe.method);
            line.optimizer = Some(recipe.optimizer);
            line.compute = Some(recipe.compute);
        }
        line.global_batch = (open.batches.len() > 1).then_some(self.batch.global_batch);
        line
    }

    /// What was chosen beside the layout.
    fn chosen(&self) -> Chosen {
        Chosen {
            machines: self.place.cluster.to_string(),
            nodes: self.place.cluster.nodes,
            gpus: self.place.cluster.gpus(),
            method: self.place.recipe.method,
            optimizer: self.place.recipe.optimizer,
            compute: self.place.recipe.compute,
            global_batch: self.batch.global_batch,
        }
    }

    /// The same where nothing but the layout is open.
    pub(super) fn plain_line(&self, point: &Point) -> PlanLine {
        let cluster = self.place.cluster;
        let rules = FlopRules {
            seq_len: self.batch.seq_len,
            sequences: self.batch.global_batch as f64,
            causal_half: true,
            recompute: Recompute::None,
            recompute_every: 1,
            again: Again::default(),
        };
        let flops = step_flops(self.place.model, self.place.recipe, &rules).model();
        let machine = self.place.setting(&self.batch).machine;
        let seconds = point.step;
        let run_time = self.steps().map(|n| Seconds::of(seconds) * n);
        PlanLine {
            name: plan_name(&point.layout),
            machines: None,
            method: None,
            optimizer: None,
            compute: None,
            global_batch: None,
            gradient_accumulation: self
                .batch
                .accumulation(point.layout.data_parallel(), point.layout.micro_batch),
            memory: point.memory.device,
            headroom: Bytes::of(point.measure.headroom),
            verdict: verdict(&point.memory.needed_interval80, cluster.memory),
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
fn rank(out: &mut Outcome, objective: Objective) {
    sort_by(&mut out.found, |a, b| a.measure.weigh(&b.measure, objective));
    let front = core::mem::take(&mut out.front.0);
    out.front.0 =
        front.iter().filter(|p| !front.iter().any(|o| o.measure.dominates(&p.measure))).cloned().collect();
    sort_by(&mut out.front.0, |a, b| a.measure.weigh(&b.measure, Objective::Time));
}

/// Least expected bill first. On the same machines a faster step never costs more, so that of each
/// choice of machines, recipe and batch the cheapest plan stands for the others, which follow in their
/// order; and no bill is less than that of the undisturbed run.
fn by_expected_cost(sites: &[Site<'_>], found: &mut Vec<Point>) -> Result<()> {
    let mut weighed: Vec<(f64, Point)> = Vec::new();
    let mut rest = Vec::new();
    let mut least = f64::INFINITY;
    for point in core::mem::take(found) {
        let known = weighed.iter().any(|(_, p)| p.cluster == point.cluster);
        let hopeless = point.measure.money.is_none_or(|money| money > least);
        match sites.get(point.cluster) {
            Some(site) if !known && !hopeless => {
                let mut line = site.plain_line(&point);
                site.place.look_ahead_lines(core::slice::from_mut(&mut line), &site.batch)?;
                let bill = line.expected_cost.or(line.cost).map_or(f64::INFINITY, Usd::get);
                least = least.min(bill);
                weighed.push((bill, point));
            }
            _ => rest.push(point),
        }
    }
    sort_by(&mut weighed, |a, b| a.0.total_cmp(&b.0));
    found.extend(weighed.into_iter().map(|(_, point)| point));
    found.extend(rest);
    Ok(())
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
