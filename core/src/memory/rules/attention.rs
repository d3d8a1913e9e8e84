//! Scaled dot-product attention.

use super::super::line::Line;
use super::super::tape::Id;
use super::{Kernel, Origin, Place, Reader, kernel_of};
use crate::layout::ContextStyle;
use crate::workload::{Attention, AttentionBias, Op};

const FP32: f64 = 4.0;
const INT64: f64 = 8.0;
/// Bytes of the two generator tensors that the flash kernel returns (seed and offset as one pair
/// of 64-bit words, and an unused word), and of the two that the memory-efficient one does.
///
/// Source: `_scaled_dot_product_flash_attention` and `_efficient_attention_forward`, PyTorch 2.15.
const FLASH_RANDOM_STATE: f64 = 24.0;
const EFFICIENT_RANDOM_STATE: f64 = 16.0;

impl Reader<'_, '_> {
    pub(super) fn attention(&mut self, op: &Op, spec: &Attention) -> Place {
        let (q, k, v) = (self.input(op, 0), self.input(op, 1), self.input(op, 2));
        let shards = if q.cut { self.mode.tp } else { 1.0 };
        let heads = spec.heads as f64 / shards;
        let out_elements = Line::per_token(heads * spec.v_head as f64);
        let grad = self.any_grad(&[q.id, k.id, v.id]);
        let width = if self.mode.autocast { self.mode.compute } else { self.tape.width(v.id) };
        let out = self.tape.tensor(out_elements, width, grad);
        let kernel = kernel_of(spec, self.mode);
        if matches!(kernel, Kernel::Flash | Kernel::Efficient) {
            self.tape.select(out);
        }
        match kernel {
            Kernel::Flash => self.flash(q.id, k.id, v.id, out, spec, heads),
            Kernel::Efficient => self.efficient(q.id, k.id, v.id, out, spec, heads),
            Kernel::Math => self.math([q.id, k.id, v.id], out, spec, heads),
            Kernel::Eager => return self.eager_attention(q, k, v, out, spec, heads),
        }
        // Flash lays its output out as its input; head by head, the projection must copy it.
        if q.origin == Origin::HeadMajor && kernel != Kernel::Efficient {
            let copy = self.like(out);
            self.tape.step(&[out], copy);
            return Place { id: copy, cut: q.cut, origin: Origin::Other };
        }
        Place { id: out, cut: q.cut, origin: Origin::Other }
    }

    /// What autocast hands to the kernel: norms and rotary embeddings leave fp32 behind.
    fn narrowed(&mut self, x: Id) -> Id {
        if self.mode.autocast { self.cast(x, self.mode.compute) } else { x }
    }

    /// Keeps q, k, v, its output and the log-sum-exp. Backward accumulates dq in fp32 and, with
    /// grouped heads, expands dk and dv to all heads before summing.
    fn flash(&mut self, q: Id, k: Id, v: Id, out: Id, spec: &Attention, heads: f64) {
        let [q, k, v] = [q, k, v].map(|x| self.narrowed(x));
        self.tape.step(&[q, k, v], out);
        for id in [q, k, v, out] {
            self.tape.keep(id);
        }
        self.statistics(heads, FLASH_RANDOM_STATE);
        let grouped =
            if spec.kv_heads < spec.heads { self.tape.bytes(q) + self.tape.bytes(q) } else { Line::ZERO };
        self.tape.temporary(self.tape.elements(q) * FP32 + grouped);
        let (queries, pair) = (self.tape.bytes(q), self.tape.bytes(k) + self.tape.bytes(v));
        match self.mode.context {
            // The next block of keys and values arrives, with the gradients that travel beside it.
            // Source: Liu 2023, section 3.
            Some(ContextStyle::Ring) => self.tape.temporary(pair + pair),
            // Gradients of q, k and v on both sides of the exchange. Source: Jacobs 2023.
            Some(ContextStyle::AllToAll) => self.tape.temporary(queries + pair),
            None => &mut self.tape,
        };
    }

    /// PyTorch's memory-efficient kernel. A mask becomes a bias of the whole score matrix, one per
    /// sample, and makes Transformers repeat k and v to all heads; without one the kernel groups
    /// heads itself (`enable_gqa`).
    fn efficient(&mut self, q: Id, k: Id, v: Id, out: Id, spec: &Attention, heads: f64) {
        let seq = self.mode.seq;
        let masked =
            spec.masked || self.mode.recipe.padding_mask || spec.window.is_some_and(|w| seq >= w as f64);
        let (k, v) = if masked || spec.bias != AttentionBias::None {
            (self.repeated(k, spec), self.repeated(v, spec))
        } else {
            (k, v)
        };
        let [q, k, v] = [q, k, v].map(|x| self.narrowed(x));
        self.tape.step(&[q, k, v], out);
        for id in [q, k, v, out] {
            self.tape.keep(id);
        }
        // With dropout the generator's state stays where it is.
        let drops = spec.dropout && self.mode.dropout;
        self.statistics(heads, if drops { 0.0 } else { EFFICIENT_RANDOM_STATE });
        let per_sample = Line::per_token(seq * heads);
        let whole = Line::fixed(seq * seq * heads);
        let padded = self.mode.recipe.padding_mask;
        let bias = match spec.bias {
            // Zeros stand for a bias of cross-attention: the first layer's serve all, until a mask
            // is added to them.
            AttentionBias::Shared if padded => per_sample,
            AttentionBias::None if masked => Line::per_token(seq),
            // Made once for all layers; autocast casts it in each.
            AttentionBias::Alibi if self.mode.autocast => per_sample,
            AttentionBias::None | AttentionBias::Alibi | AttentionBias::Shared => Line::ZERO,
            AttentionBias::Relative if padded && !spec.causal => per_sample,
            AttentionBias::Relative => whole,
        };
        let width = self.tape.width(q);
        if width < FP32 {
            // Backward accumulates dq in fp32, of all heads.
            let accumulated = self.tape.elements(q) * FP32;
            self.tape.temporary(accumulated);
        }
        if self.first && spec.bias == AttentionBias::Shared {
            let zeros = self.tape.tensor(whole, width, false);
            self.tape.keep(zeros);
        }
        if bias != Line::ZERO {
            let bias = self.tape.tensor(bias, width, false);
            self.tape.keep(bias);
        }
        if spec.bias == AttentionBias::Relative {
            if spec.causal {
                // The mask that the sum with the bias keeps.
                let mask = self.tape.tensor(Line::fixed(seq * seq), 1.0, false);
                self.tape.keep(mask);
            }
            // The bias's gradient, one per sample and head, then added to that of the layers above.
            self.tape.temporary(per_sample * width);
            self.tape.standing(whole * width);
        }
    }

    /// What a fused kernel keeps beside its tensors: the log-sum-exp of each row and the state of
    /// the random generator, drawn on or not.
    fn statistics(&mut self, heads: f64, random_state: f64) {
        for (elements, width) in [(Line::per_token(heads), FP32), (Line::fixed(random_state), 1.0)] {
            let kept = self.tape.tensor(elements, width, false);
            self.tape.keep(kept);
            self.tape.select(kept);
        }
    }

    /// PyTorch's math fallback runs in fp32, repeats k and v, and keeps the probabilities.
    fn math(&mut self, [q, k, v]: [Id; 3], out: Id, spec: &Attention, heads: f64) {
        let q = self.cast(q, FP32);
        let (k, v) = (self.cast(k, FP32), self.cast(v, FP32));
        let (k, v) = (self.repeated(k, spec), self.repeated(v, spec));
        let probabilities = self.tape.tensor(Line::per_token(heads * self.mode.seq), FP32, true);
        self.tape.step(&[q, k], probabilities);
        for id in [q, k, v, probabilities] {
            self.tape.keep(id);
        }
        self.tape.step(&[probabilities, v], out);
    }

    /// Scores and probabilities in memory, as Transformers writes them.
    fn eager_attention(
        &mut self,
        q: Place,
        k: Place,
        v: Place,
        out: Id,
        spec: &Attention,
        heads: f64,
    ) -> Place {
        let width = if self.mode.autocast { self.mode.compute } else { self.tape.width(q.id) };
        let scores = Line::per_token(heads * self.mode.seq);
        let product = if spec.scores_fp32 { FP32 } else { width };
        let query = self.cast(q.id, product);
        let keys = self.repeated(k.id, spec);
        let keys = self.cast(keys, product);
        let values = self.repeated(v.id, spec);
        let values = self.narrowed(values);
        let [query, keys, values] = [query, keys, values].map(|x| self.folded(x));
        // What the core keeps is made again just before its backward, when it is not kept.
        let core = |reader: &mut Self, id: Id| {
            if reader.mode.core_recomputed {
                let again = reader.tape.bytes(id);
                reader.tape.temporary(again);
            } else {
                reader.tape.keep(id);
            }
        };
        let mut raw = self.tape.tensor(scores, product, true);
        self.tape.step(&[query, keys], raw).workspace();
        self.tape.keep(query);
        self.tape.keep(keys);
        if spec.softcap {
            let capped = self.like(raw);
            self.tape.step(&[raw], capped);
            core(self, capped);
            raw = capped;
        }
        let soft = if spec.softmax_fp32 || self.mode.autocast { FP32 } else { width };
        let extra = if spec.sinks { Line::per_token(heads) } else { Line::ZERO };
        let probabilities = self.tape.tensor(scores + extra, soft, true);
        // Softmax's backward multiplies gradient and output; in fp32 the scores are cast as well.
        let cast = if soft > product { product } else { 0.0 };
        self.tape.step(&[raw], probabilities).temporary(scores * (soft + cast));
        core(self, probabilities);
        if spec.sinks {
            // Where each row's maximum was, subtracted before the softmax.
            let indices = self.tape.tensor(Line::per_token(heads), INT64, false);
            self.tape.keep(indices);
        }
        let tokens = if spec.sinks { self.tape.view(probabilities, scores) } else { probabilities };
        if spec.sinks {
            self.tape.step(&[probabilities], tokens);
        }
        let mut weights = self.cast(tokens, width);
        if spec.dropout && self.mode.dropout {
            weights = self.dropout(weights);
        }
        let attended = self.like(out);
        self.tape.step(&[weights, values], attended).workspace();
        core(self, weights);
        self.tape.keep(values);
        // Transposed back to token-major: a copy, which the projection keeps.
        self.tape.step(&[attended], out);
        Place { id: out, cut: q.cut, origin: Origin::Other }
    }

    /// A batched product folds samples and heads into one dimension, which copies what is laid out
    /// token by token; of a single sample a view will do.
    fn folded(&mut self, x: Id) -> Id {
        if !self.mode.batched {
            return x;
        }
        let out = self.like(x);
        self.tape.step(&[x], out);
        out
    }

    /// Keys or values repeated so that each query head has its own; the same tensor when it has.
    /// A single head is expanded without a copy.
    fn repeated(&mut self, x: Id, spec: &Attention) -> Id {
        if spec.kv_heads >= spec.heads {
            return x;
        }
        let elements = self.tape.elements(x) * (spec.heads as f64 / spec.kv_heads as f64);
        if spec.kv_heads == 1 {
            let x = if spec.broadcast { self.narrowed(x) } else { x };
            let out = self.tape.view(x, elements);
            self.tape.step(&[x], out);
            return out;
        }
        let out = self.tape.tensor(elements, self.tape.width(x), self.tape.grad(x));
        self.tape.step(&[x], out);
        out
    }
}
