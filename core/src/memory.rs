//! Peak memory of one rank: a timeline, not a sum.

mod fsdp;
mod instants;
mod kernels;
mod line;
mod loss;
mod memo;
mod report;
mod rules;
mod runtime;
mod saved;
mod stages;
mod states;
mod swap;
mod tape;
mod timeline;
mod transients;
mod weights;
mod wrap;

pub(crate) use memo::Memo;
pub use report::{MemoryReport, Phase};
pub use saved::saved_state;
pub(crate) use stages::{Figures, Peaks, Stages};
pub(crate) use wrap::{bars_size, hides_shared_table};

use crate::layout::{Layout, Recompute};
use crate::quantity::Bytes;
use crate::term::{Term, Terms};
use crate::workload::{Batch, Block, Model, Recipe};
use instants::{Instants, Parts};
use runtime::Outside;
use stages::Peak;
use timeline::{Stage, saves_by_operation};

/// How far readings of similar runs lie from the estimate.
mod interval {
    use crate::quantity::Bytes;
    use crate::term::Interval80;

    /// About eight in ten published device readings lie between the two shares of the estimate, the
    /// largest source left out (`accuracy memory`). Readings err upwards: what runs beside the model
    /// adds to it, and little takes away.
    pub(super) const DEVICE: (f64, f64) = (0.88, 1.275);
    /// The same of allocator readings, and of peaks of tensors.
    pub(super) const RESERVED: (f64, f64) = (0.88, 1.265);
    pub(super) const ALLOCATED: (f64, f64) = (0.86, 1.25);
    /// The same of the least memory of a step, judged by the readings of tensors and allocator.
    pub(super) const NEEDED: (f64, f64) = ALLOCATED;

    pub(super) fn around(x: Bytes, (low, high): (f64, f64)) -> Interval80<Bytes> {
        Interval80 { low: x * low, high: x * high }
    }
}

/// Bytes one layer keeps from forward to backward for `tokens` tokens, as real PyTorch counts them
/// (`tests/data/corpus/layer_activations.csv`).
#[must_use]
pub fn layer_saved_bytes(
    block: &Block,
    recipe: &Recipe,
    layout: &Layout,
    seq_len: u64,
    tokens: u64,
) -> Bytes {
    let mode = rules::Mode::new(recipe, layout, seq_len, false);
    let bytes = rules::interpret(block, &mode);
    let t = tokens as f64;
    Bytes::of(match layout.recompute {
        Recompute::Full => bytes.input.at(t),
        _ if saves_by_operation(recipe, layout) => bytes.input.at(t) + bytes.selected.at(t),
        _ => bytes.kept.at(t),
    })
}

/// Peak memory of the fullest rank.
#[must_use]
pub fn estimate(model: &Model, recipe: &Recipe, layout: &Layout, batch: &Batch) -> MemoryReport {
    let accumulation = batch.accumulation(layout.data_parallel(), layout.micro_batch);
    let mut memo = Memo::default();
    let stages = Stages::new(model, recipe, layout, batch.seq_len, accumulation > 1, &mut memo);
    let samples = layout.micro_batch as f64;
    match stages.fullest(samples, layout, accumulation) {
        Some((index, stage)) => {
            let in_flight = stages::in_flight(layout, accumulation, index);
            report(index, &stage.instants(samples, in_flight), stage, in_flight)
        }
        None => empty(),
    }
}

/// Peak memory of one pipeline stage, counted from 0.
///
/// ```
/// use shardwise::memory::{estimate, estimate_stage};
/// use shardwise::{Layout, ModelSpec, Recipe, workload::Batch};
/// let model = ModelSpec::from("llama-3-8b").resolve("model").unwrap();
/// let (recipe, batch) = (Recipe::default(), Batch { seq_len: 4096, global_batch: 8 });
/// let layout = Layout { pipeline_parallel: 4, ..Layout::default() };
/// let second = estimate_stage(&model, &recipe, &layout, &batch, 1);
/// assert!(second.allocated <= estimate(&model, &recipe, &layout, &batch).allocated);
/// ```
#[must_use]
pub fn estimate_stage(
    model: &Model,
    recipe: &Recipe,
    layout: &Layout,
    batch: &Batch,
    stage: u64,
) -> MemoryReport {
    let accumulation = batch.accumulation(layout.data_parallel(), layout.micro_batch);
    let share = stages::share_of(model, layout, stage.min(layout.pipeline_parallel.saturating_sub(1)));
    let mut memo = Memo::default();
    let held = Stage::new(model, recipe, layout, batch.seq_len, accumulation > 1, share, &mut memo);
    let in_flight = stages::in_flight(layout, accumulation, stage);
    report(stage, &held.instants(layout.micro_batch as f64, in_flight), &held, in_flight)
}

type Part = (&'static str, fn(&Parts) -> f64, &'static str, &'static str);

const PARTS: &[Part] = &[
    (
        "parameters",
        |p| p.parameters,
        "parameters on the rank x bytes of their type",
        "profile of the framework",
    ),
    (
        "master weights",
        |p| p.master,
        "4 bytes per parameter / ranks that shard them",
        "Rajbhandari 2020, section 3",
    ),
    ("optimizer states", |p| p.optimizer, "moments per parameter / ranks that shard them", "torch.optim"),
    ("EMA", |p| p.ema, "one copy of the trained parameters", "torch.optim.swa_utils"),
    (
        "framework buffers",
        |p| p.framework,
        "communication buckets, main gradients and model buffers that persist",
        "DDP, DeepSpeed and Megatron sources",
    ),
    ("batch", |p| p.inputs, "16 t: token ids and labels, 8 bytes each", "PyTorch"),
    ("gradients", |p| p.gradients, "gradients made so far / ranks that shard them", "autograd"),
    (
        "saved activations",
        |p| p.activations + p.waiting,
        "sum over layers of distinct storages kept",
        "tape of the layer",
    ),
    (
        "backward of one layer",
        |p| p.working,
        "kept tensors, gradients and temporaries at the fullest operation",
        "tape of the layer",
    ),
    ("logits and loss", |p| p.loss, "multiples of u = 2 t V", "cross-entropy implementation"),
    ("gathered parameters", |p| p.gathered, "root unit and the units in use, unsharded", "FSDP"),
    ("gradient reduction", |p| p.reduction, "input of the reduce-scatter", "FSDP, DeepSpeed"),
    ("cast weights", |p| p.copies, "compute-type copies of weights kept for backward", "torch.autocast"),
    (
        "optimizer temporaries",
        |p| p.temporaries,
        "one copy of the trained parameters (foreach), none (fused)",
        "torch.optim",
    ),
];

fn report(stage_index: u64, instants: &Instants, stage: &Stage<'_>, in_flight: f64) -> MemoryReport {
    let phases: Vec<Phase> = instants
        .iter()
        .map(|(instant, parts)| {
            let mut terms = Vec::with_capacity(PARTS.len());
            terms.extend(PARTS.iter().filter_map(|(name, amount, formula, source)| {
                let bytes = amount(parts);
                (bytes > 0.0).then(|| Term::new(*name, Bytes::of(bytes), *formula, *source))
            }));
            Phase { name: instant.name().into(), allocated: Terms(terms) }
        })
        .collect();
    let Peak { instant: peak, total, .. } = stages::peak_of(instants);
    let allocated = Bytes::of(total);
    let outside = instants.get(peak).map_or_else(Outside::default, |(_, p)| {
        Outside::of(p.total(), p.at_rest(), stage.recipe(), stage.layout())
    });
    let reserved = vec![
        Term::new("allocated", allocated, "peak of the phases", "timeline"),
        Term::new(
            "cached by the allocator",
            Bytes::of(outside.cached),
            "0.12 of what comes and goes + 0.01 of what rests; 0.10 more with parameters gathered on their own streams",
            "published readings that give both figures",
        ),
    ];
    let mut device = reserved.clone();
    device.push(Term::new(
        "context and libraries",
        Bytes::of(outside.context),
        "CUDA context, cuBLAS workspaces",
        "measured",
    ));
    if outside.communicators > 0.0 {
        device.push(Term::new(
            "communicators",
            Bytes::of(outside.communicators),
            "0.55 GiB per process group",
            "NCCL",
        ));
    }
    let (reserved, device) = (Terms(reserved), Terms(device));
    MemoryReport {
        phases,
        peak,
        stage: stage_index,
        allocated,
        allocated_interval80: interval::around(allocated, interval::ALLOCATED),
        reserved_interval80: interval::around(reserved.total(), interval::RESERVED),
        device_interval80: interval::around(device.total(), interval::DEVICE),
        reserved,
        device,
        needed: Bytes::of(outside.needed(total)),
        needed_interval80: interval::around(Bytes::of(outside.needed(total)), interval::NEEDED),
        host: Terms(host_lines(stage, in_flight)),
        nvme: Terms(drive_lines(stage)),
    }
}

fn host_lines(stage: &Stage<'_>, in_flight: f64) -> Vec<Term<Bytes>> {
    let layout = stage.layout();
    let activations = stage.offloaded_activations(layout.micro_batch as f64) * in_flight.max(1.0);
    let mut out = vec![
        Term::new(
            "offloaded states",
            Bytes::of(stage.states().host),
            "states that rest on the host",
            "layout.offload",
        ),
        Term::new(
            "offloaded activations",
            Bytes::of(activations),
            "what the layers keep, or the inputs that recomputation starts from",
            "layout.offload",
        ),
    ];
    let buffers = stage.states().swapped.buffers();
    if buffers > 0.0 {
        let formula = "pinned: 4 x tile x buffers, and parameters'";
        out.push(Term::new("swap buffers", Bytes::of(buffers), formula, SWAP));
    }
    out
}

/// Where swapping is described.
const SWAP: &str = "Rajbhandari 2021; DeepSpeed";

fn drive_lines(stage: &Stage<'_>) -> Vec<Term<Bytes>> {
    let swapped = &stage.states().swapped;
    let mut out = Vec::new();
    for (name, amount) in [("optimizer states", swapped.optimizer), ("parameters", swapped.parameters)] {
        if amount > 0.0 {
            out.push(Term::new(name, Bytes::of(amount), "bytes / ranks that shard them", SWAP));
        }
    }
    out
}

fn empty() -> MemoryReport {
    MemoryReport {
        phases: Vec::new(),
        peak: 0,
        stage: 0,
        allocated: Bytes::ZERO,
        reserved: Terms::default(),
        device: Terms::default(),
        allocated_interval80: interval::around(Bytes::ZERO, interval::ALLOCATED),
        reserved_interval80: interval::around(Bytes::ZERO, interval::RESERVED),
        device_interval80: interval::around(Bytes::ZERO, interval::DEVICE),
        needed: Bytes::ZERO,
        needed_interval80: interval::around(Bytes::ZERO, interval::NEEDED),
        host: Terms::default(),
        nvme: Terms::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Offload, RecomputeModule, Sharding};
    use crate::workload::{
        AdapterKind, AttentionKernel, BlockKind, Compute, Dtype, Framework, Kernels, Lora, Method, ModelSpec,
        Optimizer,
    };

    fn layer(name: &str, recipe: &Recipe, recompute: Recompute, tokens: u64) -> Bytes {
        let model = ModelSpec::from(name).resolve("model").unwrap();
        let (block, _) = model.runs().find(|(b, _)| b.kind == BlockKind::Layer).unwrap();
        let layout = Layout { recompute, ..Layout::default() };
        layer_saved_bytes(block, recipe, &layout, tokens, tokens)
    }

    fn bf16(framework: Framework) -> Recipe {
        Recipe { params_dtype: Some(Dtype::Bf16), framework, ..Recipe::default() }
    }

    #[test]
    fn a_checkpoint_by_operation_saves_every_second_product() {
        // Real PyTorch 2.15 with torchtitan's policy: bytes that one layer leaves, 1024 tokens.
        let recipe = bf16(Framework::Torchtitan);
        assert_eq!(layer("llama-3-8b", &recipe, Recompute::Selective, 1024), Bytes::of(65_142_808.0));
        assert_eq!(layer("qwen3-8b", &recipe, Recompute::Selective, 1024), Bytes::of(60_948_504.0));
    }

    #[test]
    fn selective_recomputation_elsewhere_concerns_the_scores() {
        let flash = bf16(Framework::Torch);
        let eager = Recipe { attention: AttentionKernel::Eager, ..flash.clone() };
        let kept = |recipe, recompute| layer("llama-3-8b", recipe, recompute, 1024);
        assert_eq!(kept(&flash, Recompute::Selective), kept(&flash, Recompute::None));
        // fp32 probabilities and their 16-bit copy: 6 a s bytes a token (Korthikanti 2022).
        let scores = Bytes::of(6.0 * 32.0 * 1024.0 * 1024.0);
        assert_eq!(kept(&eager, Recompute::None), kept(&eager, Recompute::Selective) + scores);
    }

    #[test]
    fn selective_recomputation_drops_what_its_modules_make() {
        // llama-3-8b: h = 4096, f = 14336, 32 heads and 8 key-value heads of 128, 1024 tokens.
        let model = ModelSpec::from("llama-3-8b").resolve("model").unwrap();
        let (block, _) = model.runs().find(|(b, _)| b.kind == BlockKind::Layer).unwrap();
        let recipe = Recipe { kernels: Some(Kernels::Fused), ..bf16(Framework::Megatron) };
        let kept = |modules: &[RecomputeModule]| {
            let recompute = Recompute::Selective;
            let layout = Layout { recompute, recompute_modules: modules.to_vec(), ..Layout::default() };
            layer_saved_bytes(block, &recipe, &layout, 1024, 1024)
        };
        let whole = kept(&[]);
        let dropped = |module| (whole - kept(&[module])).get() / 1024.0;
        assert!((dropped(RecomputeModule::Layernorm) - (4.0 * 4096.0 + 8.0)).abs() < 1e-6);
        assert!((dropped(RecomputeModule::Activation) - (2.0 * 14336.0)).abs() < 1e-6);
        assert!((dropped(RecomputeModule::Mlp) - (6.0 * 14336.0)).abs() < 1e-6);
        assert!((dropped(RecomputeModule::Qkv) - (2.0 * 128.0 * (32.0 + 2.0 * 8.0))).abs() < 1e-6);
    }

    #[test]
    fn dora_trains_a_magnitude_for_each_output() {
        let model = ModelSpec::from("llama-3-8b").resolve("model").unwrap();
        let batch = Batch { seq_len: 256, global_batch: 1 };
        let states = |kind| {
            let lora = Lora { kind, rank: 8, targets: vec!["q_proj".into()], ..Lora::default() };
            let recipe = Recipe { method: Method::Lora, lora, ..Recipe::default() };
            let layout = Layout { sharding: Sharding::None, ..Layout::default() };
            let report = estimate(&model, &recipe, &layout, &batch);
            let of = |t: &Term<Bytes>| (t.name == "optimizer states").then_some(t.amount);
            report.peak_terms().and_then(|terms| terms.0.iter().find_map(of)).unwrap()
        };
        // Two fp32 moments of 4096 magnitudes in each of 32 layers.
        let more = states(AdapterKind::Dora) - states(AdapterKind::Lora);
        assert_eq!(more, Bytes::of(8.0 * 4096.0 * 32.0));
    }

    #[test]
    fn transformer_engine_keeps_weights_in_eight_bits_both_ways_round() {
        let model = ModelSpec::from("llama-3-8b").resolve("model").unwrap();
        let batch = Batch { seq_len: 4096, global_batch: 1 };
        let of = |compute, fp8_param_gather| {
            let mut recipe = Recipe { compute, ..bf16(Framework::Megatron) };
            recipe.runtime.fp8_param_gather = fp8_param_gather;
            let layout = Layout { sharding: Sharding::None, recompute: Recompute::Full, ..Layout::default() };
            let report = estimate(&model, &recipe, &layout, &batch);
            let of = |t: &Term<Bytes>| (t.name == "framework buffers").then_some(t.amount);
            report.peak_terms().and_then(|terms| terms.0.iter().find_map(of)).map_or(0.0, Bytes::get)
        };
        // All 8,030,261,248 parameters but two tables of 128256 x 4096.
        let layers = 8_030_261_248.0 - 2.0 * 128_256.0 * 4096.0;
        let without = of(Compute::Bf16, false);
        assert!((of(Compute::Fp8, false) - without - 2.0 * layers).abs() < 1.0);
        assert!((of(Compute::Mxfp8, false) - without - 2.0625 * layers).abs() < 1.0);
        assert!((of(Compute::Fp8, true) - without).abs() < 1.0);
    }

    #[test]
    fn experts_hold_what_the_fullest_rank_gets() {
        let model = ModelSpec::from("mixtral-8x7b").resolve("model").unwrap();
        let (block, _) = model.runs().find(|(b, _)| b.kind == BlockKind::Layer).unwrap();
        let kept = |factor: Option<f64>, imbalance: Option<f64>, ranks: u64| {
            let mut recipe = bf16(Framework::Megatron);
            recipe.runtime.moe_capacity_factor = factor;
            recipe.runtime.moe_imbalance = imbalance;
            let layout = Layout { expert_parallel: ranks, ..Layout::default() };
            layer_saved_bytes(block, &recipe, &layout, 1024, 1024)
        };
        assert_eq!(kept(None, Some(2.0), 1), kept(None, None, 1));
        assert!(kept(None, Some(2.0), 8) > kept(None, None, 8));
        assert_eq!(kept(Some(1.5), None, 8), kept(None, Some(1.5), 8));
    }

    #[test]
    fn offloaded_activations_move_to_the_host() {
        let model = ModelSpec::from("llama-3-8b").resolve("model").unwrap();
        let batch = Batch { seq_len: 4096, global_batch: 8 };
        for recompute in [Recompute::None, Recompute::Full] {
            let here = Layout { recompute, micro_batch: 8, ..Layout::default() };
            let away = Layout { offload: vec![Offload::Activation], ..here.clone() };
            let recipe = Recipe { optimizer: Optimizer::AdamwFused, ..bf16(Framework::Torch) };
            let of = |l| estimate(&model, &recipe, l, &batch);
            let (here, away) = (of(&here), of(&away));
            assert!(away.allocated < here.allocated);
            assert!(away.host.total() > here.host.total());
        }
    }
}
