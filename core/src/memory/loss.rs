//! The cross-entropy and the head: often the peak of a small-batch step.

use super::rules::Mode;
use crate::layout::Layout;
use crate::workload::{BlockKind, Framework, LossKernel, Model, OpKind, Recipe, Stream};

/// Bytes of logits and loss alive at the instants of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct LossBytes {
    /// At the fullest instant of the forward.
    pub(super) forward: f64,
    /// When backward begins.
    pub(super) between: f64,
    /// At the fullest instant of the loss's backward.
    pub(super) backward: f64,
    /// Logits that the script holds through backward and the optimizer step.
    pub(super) held: f64,
    /// Gradient of the logits while the head's backward runs.
    pub(super) gradient: f64,
    /// Logits and their gradient are whole tensors.
    pub(super) whole: bool,
}

impl LossBytes {
    /// A loss on whole logits of `u` bytes, in units of which it takes room at the fullest instant of
    /// the forward, keeps room, and takes room at the fullest of backward; the script holds `held` of
    /// the logits from before the second to after the third.
    const fn on_logits(u: f64, [forward, kept, backward]: [f64; 3], held: f64) -> Self {
        Self {
            forward: forward * u,
            between: kept * u + held,
            backward: backward * u + held,
            held,
            gradient: u,
            whole: true,
        }
    }
}

/// The head as the loss sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Head {
    /// Whether it is on this rank.
    present: bool,
    /// Classes of this rank.
    classes: f64,
    /// Vectors per sequence that are classified; none means every token.
    vectors: Option<f64>,
    /// The logits go into the cross-entropy as they are.
    plain: bool,
    /// The cross-entropy runs under autocast, in fp32.
    autocast: bool,
    hidden: f64,
    /// Bytes of an element of the logits.
    width: f64,
}

impl Head {
    pub(super) fn of(model: &Model, layout: &Layout, mode: &Mode<'_>, present: bool) -> Self {
        let block = model.runs().map(|(b, _)| b).find(|b| b.kind == BlockKind::Head);
        let logits = block.and_then(|b| b.ops.last());
        let stream = block.zip(logits).and_then(|(b, op)| {
            b.slots.get(usize::from(op.inputs.first().copied().unwrap_or_default())).map(|s| s.stream)
        });
        Self {
            present,
            classes: model.vocabulary as f64 / layout.vocabulary_ranks() as f64,
            vectors: (stream == Some(Stream::Sequence)).then_some(1.0),
            plain: logits.is_some_and(|op| op.kind == OpKind::PlainLoss),
            autocast: mode.autocast,
            hidden: model.hidden as f64,
            width: mode.compute,
        }
    }
}

/// Loss bytes for a micro-batch of `samples` sequences, `tokens` tokens in all.
///
/// Source: transformers.loss.ForCausalLMLoss traced under PyTorch 2.15: with u = 2 t V the logits
/// (u) are cast to fp32 (2u), log-softmax makes another (2u), its backward two more.
pub(super) fn loss_bytes(recipe: &Recipe, head: &Head, samples: f64, tokens: f64) -> LossBytes {
    if !head.present {
        return LossBytes::default();
    }
    let (vocabulary, hidden, compute) = (head.classes, head.hidden, head.width);
    let u = head.vectors.map_or(tokens, |v| v * samples) * vocabulary * compute;
    let held = if recipe.drop_logits { 0.0 } else { u };
    // Logits that are fp32 already, or that no cast to fp32 follows.
    let wide = compute > 2.0 || head.plain;
    let chunks = recipe.loss_chunks.unwrap_or(8) as f64;
    let before = recipe.transformers_before(4, 46);
    match recipe.loss {
        // Under autocast log-softmax still runs in the logits' type; its output is cast to fp32 for
        // the likelihood, which keeps the copy.
        LossKernel::Eager if head.plain && head.autocast => LossBytes::on_logits(u, [4.0, 3.0, 5.0], held),
        // Pure fp32: logits (u), log-softmax (u), two gradients.
        LossKernel::Eager if wide => LossBytes::on_logits(u, [2.0, 1.0, 3.0], held),
        // Before 4.46 the fp32 logits replace the 16-bit ones, and the shift copies them.
        LossKernel::Eager if before => LossBytes::on_logits(u, [6.0, 4.0, 6.0], 0.0),
        LossKernel::Eager => LossBytes::on_logits(u, [5.0, 2.0, 6.0], held),
        LossKernel::Fused if before => LossBytes::on_logits(u, [4.0, 2.0, 4.0], 0.0),
        LossKernel::Fused => LossBytes::on_logits(u, [5.0, 2.0, 4.0], held),
        LossKernel::FusedInPlace => LossBytes::on_logits(u, [2.0, 1.0, 2.0], 0.0),
        LossKernel::Compiled => LossBytes { held, ..LossBytes::on_logits(u, [2.0, 1.0, 3.0], 0.0) },
        LossKernel::FusedLinear => {
            // Source: Liger's fused linear cross-entropy: tokens in chunks of t / 2^ceil(log2(V/h)),
            // each with logits, fp32 copy and gradient; the hidden state's gradient is whole.
            let parts = libm::exp2(libm::ceil(libm::log2((vocabulary / hidden).max(1.0))));
            let chunk = libm::ceil(tokens / parts) * vocabulary * compute * 5.0;
            let grads = tokens * hidden * compute;
            LossBytes { forward: chunk + grads, between: grads, backward: grads, ..LossBytes::default() }
        }
        LossKernel::HeadChunked => {
            let part = u / chunks;
            // An engine's kernel writes the gradient over the logits; PyTorch makes an fp32 copy,
            // log-softmax and gradient as on whole logits.
            let copies = if recipe.framework == Framework::Native { 1.0 } else { 4.0 };
            let most = copies * part;
            LossBytes { forward: most, backward: most, gradient: part, ..LossBytes::default() }
        }
        LossKernel::Chunked => LossBytes::on_logits(u, [1.0 + 2.0 / chunks, 1.0, 1.0 + 4.0 / chunks], 0.0),
        LossKernel::VocabParallel => LossBytes::on_logits(u, [5.0, 2.0, 5.0], 0.0),
    }
}
