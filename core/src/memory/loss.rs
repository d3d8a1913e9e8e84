//! The cross-entropy and the head: often the peak of a small-batch step.

use crate::workload::{LossKernel, Recipe};

/// Multiples of `u`, the bytes of one copy of the logits in the compute type, alive at the three
/// instants of the loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LossBytes {
    /// Kept between forward and backward.
    pub(super) kept: f64,
    /// At the fullest instant of the forward, `kept` included.
    pub(super) forward: f64,
    /// At the fullest instant of the loss's backward.
    pub(super) backward: f64,
    /// Logits that the script holds through backward and the optimizer step.
    pub(super) held: f64,
    /// Gradient of the logits while the head's backward runs.
    pub(super) gradient: f64,
}

/// Loss bytes for `elements` logits (tokens x classes on this rank).
///
/// Source: transformers.loss.ForCausalLMLoss traced under PyTorch 2.15: with u = 2 t V the logits
/// (u) are cast to fp32 (2u), log-softmax makes another (2u), its backward two more.
pub(super) fn loss_bytes(
    recipe: &Recipe,
    elements: f64,
    hidden_bytes: f64,
    tokens: f64,
    vocabulary: f64,
    hidden: f64,
) -> LossBytes {
    let compute = recipe.compute.activations().bytes();
    let u = elements * compute;
    let held = if recipe.drop_logits { 0.0 } else { u };
    let wide = compute > 2.0;
    let chunks = recipe.loss_chunks.unwrap_or(8) as f64;
    match recipe.loss {
        // Pure fp32: logits (u), log-softmax (u), two gradients.
        LossKernel::Eager if wide => {
            LossBytes { kept: u + held, forward: 2.0 * u, backward: 3.0 * u + held, held, gradient: u }
        }
        // Before Transformers 4.46 the fp32 logits replace the 16-bit ones, and the shift copies them.
        LossKernel::Eager if recipe.transformers_before(4, 46) => {
            LossBytes { kept: 4.0 * u, forward: 6.0 * u, backward: 6.0 * u, held: 0.0, gradient: u }
        }
        LossKernel::Eager => {
            LossBytes { kept: 2.0 * u + held, forward: 5.0 * u, backward: 6.0 * u + held, held, gradient: u }
        }
        LossKernel::Fused if recipe.transformers_before(4, 46) => {
            LossBytes { kept: 2.0 * u, forward: 4.0 * u, backward: 4.0 * u, held: 0.0, gradient: u }
        }
        LossKernel::Fused => {
            LossBytes { kept: 2.0 * u + held, forward: 5.0 * u, backward: 4.0 * u + held, held, gradient: u }
        }
        LossKernel::FusedInPlace => {
            LossBytes { kept: u, forward: 2.0 * u, backward: 2.0 * u, held: 0.0, gradient: u }
        }
        LossKernel::Compiled => LossBytes { kept: u, forward: 2.0 * u, backward: 3.0 * u, held, gradient: u },
        LossKernel::FusedLinear => {
            // Source: Liger's fused linear cross-entropy: tokens in chunks of t / 2^ceil(log2(V/h)),
            // each with logits, fp32 copy and gradient; the hidden state's gradient is whole.
            let parts = libm::exp2(libm::ceil(libm::log2((vocabulary / hidden).max(1.0))));
            let chunk = libm::ceil(tokens / parts) * vocabulary * compute * 5.0;
            let grads = tokens * hidden_bytes;
            LossBytes { kept: grads, forward: chunk + grads, backward: grads, held: 0.0, gradient: 0.0 }
        }
        LossKernel::HeadChunked => {
            let part = u / chunks;
            LossBytes {
                kept: u / chunks,
                forward: 4.0 * part,
                backward: 4.0 * part,
                held: 0.0,
                gradient: part,
            }
        }
        LossKernel::Chunked => LossBytes {
            kept: u,
            forward: u + 2.0 * u / chunks,
            backward: u + 4.0 * u / chunks,
            held: 0.0,
            gradient: u,
        },
        LossKernel::VocabParallel => {
            LossBytes { kept: 2.0 * u, forward: 5.0 * u, backward: 5.0 * u, held: 0.0, gradient: u }
        }
    }
}
