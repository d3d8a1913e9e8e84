//! Whole requests: what was drawn apart is put together.

use proptest::collection::vec;
use proptest::prelude::*;

use super::catalog::catalog_rows;
use super::cluster::{cluster, small_cluster};
use super::figure::{figure, once_in, rarely};
use super::layout::{Draft, draft};
use super::model::{dimensions, model, preset};
use super::recipe::recipe;
use super::record;
use super::run::run;
use super::search::search;
use crate::api::{
    CalibrateRequest, CatalogRequest, CompareRequest, Contender, DescribeModelRequest, EstimateRequest,
    MeasuredRun, Objective, PlanRequest, Run, Search, estimate,
};
use crate::calibrate::Calibration;
use crate::layout::{Layout, Offload, Reshard, Sharding, Wrap};
use crate::memory::{bars_size, hides_shared_table};
use crate::quantity::{Bytes, Seconds};
use crate::workload::{Compute, Framework, Method, Model, Recipe};
use crate::{Catalog, CatalogRows, ClusterSpec, ModelSpec, SCHEMA_VERSION};

/// What measured runs taught.
pub fn calibration() -> BoxedStrategy<Calibration> {
    let factor = || prop_oneof![1 => Just(1.0), 1 => figure(0.34..=3.0)];
    let learnt = record!(Calibration {
        matmul: factor(),
        attention: factor(),
        memory: factor(),
        network: factor(),
        host: factor(),
        allocated: factor(),
        spread: rarely(figure(0.001..=1.0)),
    });
    prop_oneof![3 => Just(Calibration::default()), 1 => learnt].boxed()
}

fn own_rows() -> BoxedStrategy<CatalogRows> {
    prop_oneof![31 => Just(CatalogRows::default()), 1 => catalog_rows()].boxed()
}

fn tokens() -> BoxedStrategy<u64> {
    prop_oneof![
        4 => (5_u32..=13).prop_map(|i| 1_u64 << i),
        2 => 1_u64..=16_384,
        1 => Just(1_u64),
        1 => Just(131_072_u64),
    ]
    .boxed()
}

/// Accelerators and nodes of machines; those of one device where they are unknown.
fn size(machines: &ClusterSpec) -> (u64, u32) {
    machines.resolve(Catalog::embedded()).map_or((1, 1), |(c, _)| (c.gpus(), c.nodes))
}

/// A traced model holds its adapters already, and samples of a fixed length have it.
fn suited(spec: &ModelSpec, recipe: &mut Recipe, seq_len: &mut u64) -> Option<Model> {
    let model = spec.resolve("model").ok()?.into_owned();
    if model.is_traced() {
        recipe.method = Method::Full;
    }
    *seq_len = model.fixed_tokens.unwrap_or(*seq_len);
    Some(model)
}

/// What is said of a run's length.
#[derive(Clone, Debug)]
struct Length {
    /// Wall time of the undisturbed run, in seconds; none asks about the step alone.
    seconds: Option<f64>,
    /// Said in tokens.
    tokens: bool,
}

fn length() -> BoxedStrategy<Length> {
    record!(Length {
        seconds: prop_oneof![1 => Just(None), 1 => figure(10.0..=3e8).prop_map(Some)],
        tokens: any::<bool>(),
    })
}

impl Length {
    /// A run of that length of steps of such a time, or only what may be asked of a step.
    fn of(&self, run: Run, step: f64, tokens: f64) -> Run {
        let Some(seconds) = self.seconds else {
            return Run {
                price: run.price,
                duplicated: run.duplicated,
                serving: run.serving,
                ..Run::default()
            };
        };
        let steps = (seconds / step).clamp(1.0, 1e15);
        // What deduplication removes is not trained on.
        let given = steps * tokens / (1.0 - run.duplicated);
        if self.tokens && (1.0..=1e18).contains(&given) {
            Run { tokens: Some(given), steps: None, ..run }
        } else {
            Run { steps: Some(steps), tokens: None, ..run }
        }
    }
}

/// A request for an estimate. The length of the run is drawn as a time, so the steps follow from the
/// estimate of one.
///
/// ```
/// use proptest::strategy::{Strategy, ValueTree};
/// let mut runner = proptest::test_runner::TestRunner::deterministic();
/// let request = shardwise::strategies::estimate_request().new_tree(&mut runner).unwrap().current();
/// assert!(shardwise::estimate(&request).is_ok());
/// ```
pub fn estimate_request() -> BoxedStrategy<EstimateRequest> {
    let parts =
        (model(), recipe(), draft(), calibration(), own_rows(), tokens(), rarely(1_u64..=8), length());
    let ground = cluster().prop_flat_map(|machines| {
        let nodes = size(&machines).1;
        (Just(machines), run(nodes))
    });
    (parts, ground).prop_map(|(parts, ground)| together(parts, ground)).boxed()
}

type Parts = (ModelSpec, Recipe, Draft, Calibration, CatalogRows, u64, Option<u64>, Length);

fn together(parts: Parts, (cluster, run): (ClusterSpec, Run)) -> EstimateRequest {
    let (model, mut recipe, draft, calibration, catalog, mut seq_len, times, length) = parts;
    let resolved = suited(&model, &mut recipe, &mut seq_len);
    let (gpus, nodes) = size(&cluster);
    let layers = resolved.as_ref().map_or(1, Model::layers);
    let layout = possible(draft.fit(gpus, layers), resolved.as_ref(), &recipe);
    let data = gpus / (layout.tensor_parallel * layout.pipeline_parallel * layout.context_parallel);
    let global_batch = times.map(|times| times * data * layout.micro_batch);
    let mut request = EstimateRequest {
        schema_version: SCHEMA_VERSION,
        model,
        cluster,
        seq_len,
        global_batch,
        recipe,
        layout,
        run: Run::default(),
        calibration,
        catalog,
    };
    if let Ok(plain) = estimate(&request) {
        request.run = length.of(run, plain.step.total().get(), plain.step.tokens);
        // A part on twice the nodes, where the batch lets the data-parallel degree double.
        if let Some(part) = request.run.node_counts.last_mut()
            && plain.gradient_accumulation.is_multiple_of(2)
        {
            part.nodes = nodes * 2;
        }
    }
    request
}

/// Only DeepSpeed's third stage swaps to drives, and only FSDP1 makes units by size, of a head with a
/// table of its own.
fn possible(mut layout: Layout, model: Option<&Model>, recipe: &Recipe) -> Layout {
    if layout.swaps(Offload::Param) || layout.swaps(Offload::Optimizer) {
        if matches!(recipe.framework, Framework::DeepSpeed | Framework::Torch) {
            layout.sharding = Sharding::Zero3;
        } else {
            layout.offload.retain(|o| !matches!(o, Offload::ParamNvme | Offload::OptimizerNvme));
        }
    }
    let hides = model.is_some_and(|model| hides_shared_table(model, recipe));
    if layout.wrap == Wrap::Size && bars_size(layout.sharding, hides).is_some() {
        layout.wrap = Wrap::Layers;
    }
    layout
}

/// A request for a plan on few accelerators, over a space that a search goes through in a moment.
///
/// ```
/// use proptest::strategy::{Strategy, ValueTree};
/// let mut runner = proptest::test_runner::TestRunner::deterministic();
/// let request = shardwise::strategies::plan_request().new_tree(&mut runner).unwrap().current();
/// assert!(shardwise::plan(&request).is_ok());
/// ```
pub fn plan_request() -> BoxedStrategy<PlanRequest> {
    let asked = (vec(draft(), 0..=2), rarely(draft()), rarely(small_cluster()));
    let parts = (
        prop_oneof![preset(), dimensions(), model()],
        recipe(),
        search(),
        calibration(),
        own_rows(),
        (5_u32..=12).prop_map(|i| 1_u64 << i),
        1_u64..=8,
        length(),
    );
    let ground = small_cluster().prop_flat_map(|machines| {
        let nodes = size(&machines).1;
        (Just(machines), run(nodes))
    });
    (parts, ground, asked)
        .prop_map(|(parts, (cluster, run), (why_not, current, alternative))| {
            let (model, mut recipe, mut search, calibration, catalog, mut seq_len, times, length) = parts;
            let resolved = suited(&model, &mut recipe, &mut seq_len);
            if resolved.is_some_and(|model| model.is_traced()) {
                search.methods.clear();
            }
            if search.computes.iter().any(|c| matches!(c, Compute::Fp32 | Compute::Tf32)) {
                recipe.autocast = recipe.autocast.map(|_| false);
            }
            let (gpus, _) = size(&cluster);
            let mut request = PlanRequest {
                schema_version: SCHEMA_VERSION,
                model,
                cluster,
                seq_len,
                global_batch: times * gpus,
                recipe,
                search: Search::default(),
                alternatives: alternative.into_iter().collect(),
                why_not: why_not.iter().map(on_any_machines).collect(),
                current: current.as_ref().map(on_any_machines),
                run: Run::default(),
                calibration,
                catalog,
            };
            // What the search chooses is faster or slower than the plainest layout, by two orders at times.
            let length = Length { seconds: length.seconds.map(|s| s.clamp(1e3, 1e7)), ..length };
            request.run = length.of(run, step_time(&request), request.seq_len as f64 * times as f64);
            let ends = request.run.tokens.is_some() || request.run.steps.is_some();
            if !ends {
                (search.deadline, search.budget) = (None, None);
                if search.objective == Objective::ExpectedCost {
                    search.objective = Objective::Cost;
                }
            }
            let settled = search.nodes.is_empty()
                && search.instances.is_empty()
                && search.global_batch_range.is_none()
                && request.alternatives.is_empty();
            if !settled {
                on_any_nodes(&mut request.run);
            }
            request.search = search;
            request
        })
        .boxed()
}

/// The degrees follow from whatever machines are chosen.
fn on_any_machines(draft: &Draft) -> Layout {
    let mut layout = Layout { data_parallel_shard: 0, ..draft.base.clone() };
    if layout.reshard_after_forward == Reshard::Node {
        layout.reshard_after_forward = Reshard::Always;
    }
    layout
}

/// Records of a gang and parts on other nodes are of one number of nodes; a search may choose another.
fn on_any_nodes(run: &mut Run) {
    run.node_counts.clear();
    if let Some(faults) = &mut run.faults {
        faults.trace = None;
    }
}

/// Time of a step of the plainest layout, which tells how many steps are a run of some length.
fn step_time(request: &PlanRequest) -> f64 {
    let plain = EstimateRequest {
        schema_version: SCHEMA_VERSION,
        model: request.model.clone(),
        cluster: request.cluster.clone(),
        seq_len: request.seq_len,
        global_batch: None,
        recipe: request.recipe.clone(),
        layout: Layout { data_parallel_shard: 0, ..Layout::default() },
        run: Run::default(),
        calibration: request.calibration,
        catalog: request.catalog.clone(),
    };
    estimate(&plain).map_or(1.0, |answer| answer.step.total().get())
}

/// A request for what a model is made of.
pub fn describe_model_request() -> BoxedStrategy<DescribeModelRequest> {
    model().prop_map(|model| DescribeModelRequest { schema_version: SCHEMA_VERSION, model }).boxed()
}

/// A request for the catalogue.
pub fn catalog_request() -> BoxedStrategy<CatalogRequest> {
    catalog_rows().prop_map(|catalog| CatalogRequest { schema_version: SCHEMA_VERSION, catalog }).boxed()
}

/// A request for a few answers side by side.
pub fn compare_request() -> BoxedStrategy<CompareRequest> {
    let one = prop_oneof![
        3 => estimate_request().prop_map(|e| (Some(Box::new(e)), None)),
        1 => plan_request().prop_map(|p| (None, Some(Box::new(p)))),
    ];
    let contender = (rarely(Just("mine".to_owned())), one).prop_map(|(name, (estimate, plan))| Contender {
        name,
        estimate,
        plan,
    });
    vec(contender, 2..=3)
        .prop_map(|requests| CompareRequest { schema_version: SCHEMA_VERSION, requests })
        .boxed()
}

/// A request for what measured runs teach: estimates, and readings within three times of them.
pub fn calibrate_request() -> BoxedStrategy<CalibrateRequest> {
    let run = (estimate_request(), figure(0.34..=3.0), figure(0.34..=3.0), once_in(4), once_in(4)).prop_map(
        |(mut request, slower, larger, no_time, no_memory)| {
            request.calibration = Calibration::default();
            let (time, bytes) = estimate(&request)
                .map_or((1.0, 1e9), |answer| (answer.step.total().get(), answer.memory.allocated.get()));
            let (time, bytes) = ((time * slower).clamp(1e-5, 1e7), (bytes * larger).clamp(1e6, 1e15));
            MeasuredRun {
                estimate: Box::new(request),
                step_time: (!no_time || no_memory).then(|| Seconds::of(time)),
                allocated: (!no_memory).then(|| Bytes::of(bytes)),
            }
        },
    );
    vec(run, 1..=3).prop_map(|runs| CalibrateRequest { schema_version: SCHEMA_VERSION, runs }).boxed()
}
