//! Which kernels run beside the matrix products, and the bytes each moves. One profile is one way
//! the same mathematics is written; a row of numbers here is a count of reads and writes, in bytes
//! per element at 16 bits, forward and backward.

use crate::workload::{Act, Framework, Kernels, NormKind, Recipe};

/// Bytes per element, forward and backward.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pass {
    /// Forward.
    pub forward: f64,
    /// Backward.
    pub backward: f64,
}

const fn pass(forward: f64, backward: f64) -> Pass {
    Pass { forward, backward }
}

/// The ways in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelStyle {
    /// Megatron-Core with Transformer Engine: fused norms and activations, overlapped traffic.
    TransformerEngine,
    /// Megatron-LM of 2021: fused bias-GELU and softmax, nothing overlapped.
    Megatron2021,
    /// Own models written with one PyTorch kernel per operation (Composer, `LitGPT`).
    Eager,
    /// Transformers' own modelling code.
    Transformers,
    /// `torch.compile` and XLA.
    Compiled,
    /// Hand-fused kernels in an eager program (Liger, Unsloth, flash-attention's own layers).
    Fused,
    /// C and CUDA.
    Native,
}

/// Traffic and kernel counts of one style.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// Which style.
    pub style: KernelStyle,
    /// Projections that share an input run as one product (q, k, v; gate and up).
    pub merged: bool,
    /// Mean-and-variance norm, per element.
    pub layer_norm: Pass,
    /// Root-mean-square norm, per element.
    pub rms_norm: Pass,
    /// Residual addition, per element.
    pub add: Pass,
    /// Activation, per element.
    pub activation: Pass,
    /// Product with the gate, per element of the product.
    pub gate: Pass,
    /// Rotary embedding, per element.
    pub rotary: Pass,
    /// Splitting a merged projection, per element of it.
    pub split: Pass,
    /// Cross-entropy, per logit, when it is not fused otherwise.
    pub loss: Pass,
    /// Scores of unfused attention, per score.
    pub scores: Pass,
    /// Adapter of a linear of k inputs and n outputs: bytes per token are
    /// `forward = a (k + b n)`.
    pub adapter: [f64; 4],
    /// Kernels of a root-mean-square norm.
    pub rms_kernels: f64,
    /// Kernels of a rotary embedding.
    pub rotary_kernels: f64,
    /// Kernels of an activation, product or addition.
    pub pointwise_kernels: f64,
    /// Host time to launch one kernel, in seconds.
    pub launch: f64,
    /// Optimizer traffic per owned parameter, in bytes (Adam on fp32 states with unscaling, norm
    /// and cast).
    pub optimizer: f64,
    /// Fixed time of an optimizer step, in seconds.
    pub optimizer_latency: f64,
    /// Data-parallel traffic runs beside the compute.
    pub overlaps_data: bool,
    /// Tensor-parallel traffic runs beside the matrix products unasked.
    pub overlaps_tensor: bool,
}

/// Megatron-Core: norms read once and write once; activations fused with the bias and the gate.
/// Source: Korthikanti 2022 (which tensors a fused layer touches), Transformer Engine's kernels.
const TRANSFORMER_ENGINE: Profile = Profile {
    style: KernelStyle::TransformerEngine,
    merged: true,
    layer_norm: pass(4.0, 8.0),
    rms_norm: pass(4.0, 8.0),
    add: pass(6.0, 4.0),
    activation: pass(4.0, 6.0),
    gate: pass(2.0, 4.0),
    rotary: pass(4.0, 4.0),
    split: pass(0.0, 0.0),
    loss: pass(8.0, 6.0),
    scores: pass(13.0, 15.0),
    adapter: [2.0, 2.0, 4.0, 1.0],
    rms_kernels: 1.0,
    rotary_kernels: 0.5,
    pointwise_kernels: 0.5,
    launch: 4e-6,
    optimizer: 30.0,
    optimizer_latency: 2e-4,
    overlaps_data: true,
    overlaps_tensor: true,
};

const MEGATRON_2021: Profile = Profile {
    style: KernelStyle::Megatron2021,
    add: pass(7.0, 5.0),
    loss: pass(12.0, 8.0),
    optimizer: 50.0,
    optimizer_latency: 1.5e-3,
    overlaps_data: false,
    overlaps_tensor: false,
    ..TRANSFORMER_ENGINE
};

/// One PyTorch kernel per operation: each reads its inputs and writes its output in full.
const EAGER: Profile = Profile {
    style: KernelStyle::Eager,
    merged: true,
    layer_norm: pass(6.0, 9.0),
    rms_norm: pass(20.0, 32.0),
    add: pass(6.0, 4.0),
    activation: pass(5.2, 9.0),
    gate: pass(2.6, 6.0),
    rotary: pass(18.0, 18.0),
    split: pass(4.0, 8.0),
    loss: pass(14.0, 14.0),
    scores: pass(30.0, 36.0),
    adapter: [2.0, 3.0, 4.0, 1.0],
    rms_kernels: 4.0,
    rotary_kernels: 5.0,
    pointwise_kernels: 1.0,
    launch: 6e-6,
    optimizer: 60.0,
    optimizer_latency: 1.5e-3,
    overlaps_data: true,
    overlaps_tensor: false,
};

/// Transformers: root-mean-square norms pass through fp32 (to fp32 6 B, square 8, mean 4, scale 8,
/// back 6, weight 4: 36 B), rotary embeddings through slices and concatenations.
/// Source: `transformers` `modeling_llama.py`.
const TRANSFORMERS: Profile = Profile {
    style: KernelStyle::Transformers,
    merged: false,
    rms_norm: pass(36.0, 52.0),
    activation: pass(6.8, 10.2),
    gate: pass(3.4, 6.8),
    split: pass(0.0, 0.0),
    loss: pass(18.0, 16.0),
    rms_kernels: 6.0,
    ..EAGER
};

/// Pointwise chains become one kernel, residual additions join the next norm.
const COMPILED: Profile = Profile {
    style: KernelStyle::Compiled,
    merged: false,
    layer_norm: pass(3.0, 6.0),
    rms_norm: pass(3.0, 6.0),
    add: pass(3.0, 3.0),
    loss: pass(8.0, 6.0),
    optimizer: 40.0,
    optimizer_latency: 2e-4,
    overlaps_tensor: false,
    ..TRANSFORMER_ENGINE
};

const FUSED: Profile = Profile {
    style: KernelStyle::Fused,
    loss: pass(6.0, 6.0),
    launch: 6e-6,
    optimizer: 60.0,
    optimizer_latency: 1.5e-3,
    overlaps_tensor: false,
    ..TRANSFORMER_ENGINE
};

const NATIVE: Profile = Profile {
    style: KernelStyle::Native,
    loss: pass(4.0, 4.0),
    overlaps_tensor: false,
    ..TRANSFORMER_ENGINE
};

impl Profile {
    /// The profile a recipe runs with.
    #[must_use]
    pub const fn of(recipe: &Recipe) -> &'static Self {
        match (recipe.framework, recipe.kernels()) {
            (Framework::Megatron, _) => &TRANSFORMER_ENGINE,
            (Framework::Megatron2021 | Framework::MegatronDeepSpeed, _) => &MEGATRON_2021,
            (Framework::Native, _) => &NATIVE,
            (Framework::Torchtitan | Framework::Jax, _) | (_, Kernels::Compiled) => &COMPILED,
            (_, Kernels::Fused) => &FUSED,
            (Framework::Composer | Framework::LitGpt | Framework::Torchtune, Kernels::Eager) => &EAGER,
            (Framework::Torch | Framework::DeepSpeed, Kernels::Eager) => &TRANSFORMERS,
        }
    }

    /// Norm traffic per element.
    #[must_use]
    pub const fn norm(&self, kind: NormKind) -> Pass {
        match kind {
            NormKind::Layer { .. } => self.layer_norm,
            _ => self.rms_norm,
        }
    }

    /// Kernels of a norm.
    #[must_use]
    pub const fn norm_kernels(&self, kind: NormKind) -> f64 {
        match kind {
            NormKind::Layer { .. } => 1.0,
            _ => self.rms_kernels,
        }
    }

    /// Activation traffic per element and kernels. Forms written out in Python are chains of
    /// kernels unless the style fuses them.
    #[must_use]
    pub const fn act(&self, act: Act) -> (Pass, f64) {
        let chained = matches!(act, Act::GeluNew | Act::GeluFast)
            && matches!(self.style, KernelStyle::Eager | KernelStyle::Transformers);
        if chained { (pass(34.0, 44.0), 8.0) } else { (self.activation, self.pointwise_kernels) }
    }
}
