//! What a framework keeps between steps, in bytes per parameter, and what its optimizer needs for
//! the step itself.

use super::swap::{Swapped, offload_optimizer, swap};
use super::transients::BUCKET;
use super::weights::BlockWeights;
use crate::layout::{Layout, Offload, Sharding};
use crate::workload::{
    BaseQuantization, Compute, Dtype, Framework, Home, Method, Optimizer, Recipe, Temporaries,
};

/// Bytes at rest on one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct States {
    pub(super) parameters: f64,
    pub(super) optimizer: f64,
    pub(super) master: f64,
    /// Gradients once all are made, as the optimizer finds them.
    pub(super) gradients: f64,
    /// Of those, what still takes room when the optimizer begins.
    pub(super) applied: f64,
    /// What the framework keeps beside: communication buckets, flat buffers.
    pub(super) framework: f64,
    /// Of `framework`, the gradients of the rank's partition.
    pub(super) partition: f64,
    /// Exponential moving average of the parameters.
    pub(super) ema: f64,
    /// The optimizer step's own temporaries.
    pub(super) step: f64,
    /// Of the optimizer's states and gradients, what rests on the host.
    pub(super) host: f64,
    /// What passes to the node's drives.
    pub(super) swapped: Swapped,
    /// Bytes of one unsharded gradient element as backward makes it.
    pub(super) gradient_width: f64,
}

/// Over how many ranks each kind of state is divided.
#[derive(Clone, Copy, Debug)]
pub(super) struct Divisors {
    pub(super) parameters: f64,
    pub(super) gradients: f64,
    pub(super) optimizer: f64,
    /// The same three for routed experts, whose data-parallel group is smaller.
    pub(super) experts: f64,
}

impl Divisors {
    pub(super) fn of(layout: &Layout) -> Self {
        let w = match layout.sharding {
            Sharding::Zero1 | Sharding::Zero2 | Sharding::Zero3 | Sharding::DistributedOptimizer => {
                (layout.data_parallel() * layout.context_parallel) as f64
            }
            s if s.shards() => layout.shard_ranks() as f64,
            _ => 1.0,
        };
        let (parameters, gradients) = match layout.sharding {
            Sharding::Zero1 | Sharding::DistributedOptimizer => (1.0, 1.0),
            Sharding::Zero2 => (1.0, w),
            _ => (w, w),
        };
        Self {
            parameters,
            gradients,
            optimizer: w,
            experts: (w * layout.tensor_parallel as f64 / layout.expert_parallel as f64).clamp(1.0, w),
        }
    }
}

/// Bytes per element of a quantised weight.
///
/// Source: Dettmers 2023: 4 bits and one fp32 absmax per 64 elements; double quantisation makes
/// that one byte and an fp32 per 256 of them. GPTQ: 4 bits and 2.5 bytes per group of 128.
pub(super) fn quantised_bytes(kind: BaseQuantization, double: bool) -> f64 {
    match kind {
        BaseQuantization::Nf4 | BaseQuantization::Fp4 => {
            0.5 + if double { (1.0 + 4.0 / 256.0) / 64.0 } else { 4.0 / 64.0 }
        }
        BaseQuantization::Int8 => 1.0,
        BaseQuantization::GptqInt4 => 0.5 + 2.5 / 128.0,
    }
}

/// Bytes of the base parameters per rank, unsharded (used for gathers too): `plain` elements in
/// `width` bytes each, quantised ones in few bits.
pub(super) fn base_bytes(w: &BlockWeights, recipe: &Recipe, width: f64) -> f64 {
    let quantised = quantised_bytes(recipe.base_quantization, recipe.double_quantization.unwrap_or(true));
    let lifted = if recipe.kbit_preparation { 4.0 } else { width };
    if recipe.method == Method::Qlora {
        w.quantised * quantised + (w.base() - w.quantised) * lifted
    } else {
        w.base() * width
    }
}

/// Copies of the layers' weights that Transformer Engine quantises in the first micro-batch and keeps,
/// one for each way a product reads them: forward by rows, the gradient of the input by columns.
/// Parameters that rest in 8 bits themselves, with their transposes, weigh what 16-bit ones do.
///
/// Source: Transformer Engine `module/base.py` (`get_weight_workspace`, `_fp8_workspaces`), the
/// columns wherever a backward follows; Megatron-Core passes `is_first_microbatch`. MXFP8 has one scale
/// byte for each 32 elements (OCP Microscaling, section 5.2).
fn eight_bit_copies(w: &BlockWeights, recipe: &Recipe) -> f64 {
    if !recipe.transformer_engine_eight_bit() || recipe.runtime.fp8_param_gather {
        return 0.0;
    }
    let scales = if recipe.compute == Compute::Mxfp8 { 1.0 / 32.0 } else { 0.0 };
    2.0 * (1.0 + scales) * (w.base() - w.tables)
}

/// DeepSpeed's default `sub_group_size`, in elements.
const SUB_GROUP: f64 = 1e9;

impl States {
    /// Bytes at rest for the given weights of one rank.
    pub(super) fn of(w: &BlockWeights, recipe: &Recipe, layout: &Layout) -> Self {
        let d = Divisors::of(layout);
        let trained = w.trainable(recipe);
        let share = |per: f64| {
            if recipe.frozen_base() {
                trained / per
            } else {
                (w.dense - w.frozen) / per + w.experts / if per > 1.0 { d.experts } else { 1.0 }
            }
        };
        // An engine's optimizer updates the parameters themselves, whatever it shards.
        let flat = layout.sharding.is_zero() && recipe.framework != Framework::Native;
        let mut s = if flat || recipe.framework.keeps_master_weights() {
            Self::sixteen_bit_engine(w, recipe, layout, &d, &share)
        } else {
            Self::torch(w, recipe, layout, &d, &share)
        };
        if s.applied <= 0.0 {
            s.applied = s.gradients;
        }
        if recipe.ema {
            s.ema = share(d.optimizer) * recipe.params().bytes();
        }
        if recipe.optimizer_in_backward {
            (s.gradients, s.applied) = (0.0, 0.0);
            s.step = 0.0;
        }
        let home = recipe.optimizer.costs().home;
        if let Home::Paged(stays) = home {
            // The scales of the blocks stay on the device.
            let scales = share(d.optimizer) * stays;
            s.host += s.optimizer - scales;
            s.optimizer = scales;
        }
        let (part, sixteen) = (share(d.optimizer), recipe.compute.activations().bytes());
        if flat && layout.offloads(Offload::Optimizer) {
            offload_optimizer(&mut s, w, layout, part, sixteen);
            swap(&mut s, w, recipe, layout, &d, part, sixteen);
            return s;
        }
        if layout.offloads(Offload::Optimizer) || home == Home::Host {
            s.host += s.optimizer + s.master;
            s.optimizer = 0.0;
            s.master = 0.0;
            s.step = 0.0;
        }
        swap(&mut s, w, recipe, layout, &d, part, sixteen);
        // FSDP and DeepSpeed move gradients to where the optimizer is, as they are reduced.
        let follow =
            layout.sharding.is_fsdp() || matches!(layout.sharding, Sharding::Zero2 | Sharding::Zero3);
        if layout.offloads(Offload::Gradient) || (layout.offloads(Offload::Optimizer) && follow) {
            s.host += s.gradients + s.partition;
            s.framework -= s.partition;
            (s.gradients, s.applied) = (0.0, 0.0);
        }
        s
    }

    /// PyTorch's own optimizers: states in the type of the parameters.
    fn torch(
        w: &BlockWeights,
        recipe: &Recipe,
        layout: &Layout,
        d: &Divisors,
        share: &dyn Fn(f64) -> f64,
    ) -> Self {
        let width = recipe.params().bytes();
        let trained_width = if recipe.frozen_base() { recipe.lora.dtype.bytes() } else { width };
        let trained = share(d.optimizer);
        let base = if recipe.frozen_base() || d.parameters <= 1.0 {
            base_bytes(w, recipe, width) / d.parameters
        } else {
            (w.dense / d.parameters + w.experts / d.experts) * width
        };
        let adapters = (w.adapters + w.saved) * trained_width / d.parameters;
        let gradients = share(d.gradients) * trained_width;
        let ddp = layout.sharding == Sharding::Ddp && layout.data_parallel() > 1;
        // Source: torch DistributedDataParallel: gradients are copied into buckets that persist;
        // with gradient_as_bucket_view they live there.
        let framework = if ddp { gradients } else { 0.0 };
        Self {
            parameters: base + adapters,
            optimizer: trained * recipe.optimizer.costs().states.bytes(trained_width),
            gradients: if ddp && layout.gradient_as_bucket_view { 0.0 } else { gradients },
            framework,
            step: optimizer_step(
                recipe.optimizer,
                trained * trained_width,
                w.largest_trained.min(trained) * trained_width,
            ),
            gradient_width: trained_width,
            ..Self::default()
        }
    }

    /// 16-bit parameters with fp32 main copies: DeepSpeed and Megatron.
    fn sixteen_bit_engine(
        w: &BlockWeights,
        recipe: &Recipe,
        layout: &Layout,
        d: &Divisors,
        share: &dyn Fn(f64) -> f64,
    ) -> Self {
        let width = recipe.compute.activations().bytes();
        let whole = share(1.0);
        let part = share(d.optimizer);
        let frozen =
            if recipe.frozen_base() { base_bytes(w, recipe, width) } else { w.frozen * width } / d.parameters;
        let parameters = frozen + share(d.parameters) * width;
        let moments = recipe.optimizer.costs().states.bytes(Dtype::Fp32.bytes());
        let mut s = Self {
            parameters,
            optimizer: part * moments,
            master: part * 4.0,
            gradient_width: width,
            ..Self::default()
        };
        match (recipe.framework, layout.sharding) {
            (Framework::Megatron, _) => {
                // Source: Megatron-Core optimizer docs: fp32 main gradients accumulate in place of
                // the 16-bit ones (`grad_reduce_in_fp32`; else in the parameters' format); the distributed
                // optimizer divides main weights and moments.
                s.gradient_width = recipe.reduce_dtype.map_or(4.0, Dtype::bytes);
                s.gradients = whole * s.gradient_width;
                s.framework = eight_bit_copies(w, recipe);
            }
            (Framework::Megatron2021, Sharding::None | Sharding::Ddp) => {
                // Source: Megatron-LM 2021 float16 optimizer: 16-bit gradients and fp32 main ones.
                s.gradients = whole * width;
                s.framework = whole * 4.0;
            }
            (Framework::MegatronDeepSpeed, Sharding::Zero1) => {
                // Source: Megatron-DeepSpeed 2021: gradients are flattened beside themselves.
                s.gradients = whole * width;
                s.framework = whole * width / 2.0;
            }
            // A rank keeps every tensor that its partition touches.
            (_, Sharding::Zero1) => {
                s.gradients = whole * width;
                s.applied = (part * width).max(w.largest_trained * width);
            }
            (_, Sharding::Zero2) => s.gradients = (part * width).max(w.largest_trained * width),
            (_, Sharding::Zero3) => {
                // The bucket and the partition's gradients are there at rest too.
                s.partition = part * width;
                s.framework = s.partition + BUCKET * width;
            }
            _ => s.gradients = whole * width,
        }
        if recipe.framework == Framework::MegatronDeepSpeed {
            s.step = part * 4.0;
        }
        if matches!(recipe.framework, Framework::DeepSpeed | Framework::Torch) {
            // Source: DeepSpeed 0.19 traced: the engine casts its partition's gradients to fp32 and
            // the optimizer's foreach path copies them; without stages the fp32 gradients, their
            // flat copy and that of the parameters are whole.
            let foreach = if recipe.optimizer.costs().step == Temporaries::Foreach { 2.0 } else { 1.0 };
            s.step = match layout.sharding {
                // Stage 3 works through its partition in sub-groups of 1e9 elements.
                Sharding::Zero3 => 4.0 * part.min(SUB_GROUP) * foreach,
                // Several tensors are flattened into one, and let go once it is cast.
                Sharding::Zero1 | Sharding::Zero2 if part > w.largest_trained => {
                    part * (4.0 * foreach - width)
                }
                Sharding::Zero1 | Sharding::Zero2 => 4.0 * part * foreach,
                _ => 8.0 * whole,
            };
        }
        s
    }
}

/// Temporaries of the optimizer's step, given the bytes of the trained parameters on this rank and
/// of their largest tensor.
fn optimizer_step(optimizer: Optimizer, parameters: f64, largest: f64) -> f64 {
    match optimizer.costs().step {
        Temporaries::None => 0.0,
        Temporaries::Foreach | Temporaries::Copy => parameters,
        Temporaries::Loop => 2.0 * largest,
    }
}
