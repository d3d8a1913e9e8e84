//! Routers and routed experts (grouped matrix multiplications).

use super::super::line::Line;
use super::super::tape::Id;
use super::Reader;
use crate::workload::{Experts, ExpertsKind, Framework, Router, RouterKind};

const FP32: f64 = 4.0;
const INT64: f64 = 8.0;

impl Reader<'_, '_> {
    /// Logits, fp32 probabilities over all experts, the chosen weights and their indices.
    pub(super) fn router(&mut self, x: Id, r: &Router) -> Id {
        let m = self.mode;
        // Autocast takes the fp32 copies back.
        let wide = matches!(r.kind, RouterKind::SoftmaxFp32Input | RouterKind::SigmoidFp32Input);
        let width = if wide && !m.autocast { FP32 } else { m.compute };
        let entry = self.cast(x, width);
        let (experts, k) = (r.experts as f64, r.top_k as f64);
        let logits = self.tape.tensor(Line::per_token(experts), width, true);
        self.tape.step(&[entry], logits);
        if m.train_base {
            self.tape.keep(entry);
            self.tape.weight_grad(r.inputs as f64 * experts * m.weight);
        }
        if m.autocast && m.weight > m.compute && self.tape.grad(entry) {
            self.tape.weight_copy(r.inputs as f64 * experts * m.compute);
        }
        if r.kind == RouterKind::SparseMixer {
            return self.drawn(logits, experts, r.top_k);
        }
        let (scored, soft) = match r.kind {
            RouterKind::TopKSoftmax => (k, width),
            RouterKind::SigmoidFp32Input => (experts, width),
            _ => (experts, FP32),
        };
        let probabilities = self.tape.tensor(Line::per_token(scored), soft, true);
        self.tape.step(&[logits], probabilities);
        self.tape.keep(probabilities);
        let indices = self.tape.tensor(Line::per_token(k), INT64, false);
        self.tape.keep(indices);
        let kept_wide = matches!(
            r.kind,
            RouterKind::SoftmaxFp32Weights | RouterKind::SoftmaxFp32Input | RouterKind::SigmoidFp32Input
        );
        let mut weights = self.tape.tensor(Line::per_token(k), soft, true);
        self.tape.step(&[probabilities], weights);
        let normalised = matches!(
            r.kind,
            RouterKind::SoftmaxTopKNormalised | RouterKind::SoftmaxFp32Weights | RouterKind::SigmoidFp32Input
        );
        if normalised {
            let sum = self.tape.tensor(Line::per_token(1.0), FP32, true);
            self.tape.keep(weights);
            self.tape.keep(sum);
        }
        if normalised && kept_wide {
            // The quotient is a tensor of its own, which the experts keep.
            let quotient = self.like(weights);
            self.tape.step(&[weights], quotient);
            weights = quotient;
        }
        if !kept_wide {
            weights = self.cast(weights, m.compute);
        }
        weights
    }

    /// Experts drawn one after the other: each time a mask, a softmax in the logits' type (fp32 under
    /// autocast), the chosen index and its probability.
    fn drawn(&mut self, logits: Id, experts: f64, top_k: u64) -> Id {
        let soft = if self.mode.autocast { FP32 } else { self.tape.width(logits) };
        let weights = self.tape.tensor(Line::per_token(top_k as f64), soft, true);
        for _ in 0..top_k {
            let probabilities = self.tape.tensor(Line::per_token(experts), soft, true);
            self.tape.step(&[logits], probabilities);
            self.tape.keep(probabilities);
            let masks_and_index = self.tape.tensor(Line::per_token(experts + INT64), 1.0, false);
            self.tape.keep(masks_and_index);
            let chosen = self.tape.tensor(Line::per_token(1.0), soft, true);
            self.tape.step(&[probabilities], chosen);
            self.tape.keep(chosen);
            self.tape.step(&[chosen], weights);
        }
        weights
    }

    /// Tokens gathered by expert, two grouped products, the activation between them, and the
    /// weighting of the outputs.
    pub(super) fn experts(&mut self, x: Id, weights: Id, e: &Experts) -> Id {
        let m = self.mode;
        let library = matches!(m.recipe.framework, Framework::Torch | Framework::DeepSpeed) && !m.fused();
        if e.kind == ExpertsKind::GatedRepeated && library {
            return self.repeated_experts(x, weights, e);
        }
        let k = e.top_k as f64 * m.expert_load;
        let copies = |width: f64| Line::per_token(k * width);
        let hidden = e.hidden as f64;
        let width = e.width as f64 / m.tp;
        let owned = e.experts as f64 * m.expert_share;
        let grad_bytes = m.weight;
        // Autocast does not know grouped products: they run in the weights' own type.
        let inner = if m.autocast { m.residual } else { m.compute };
        // Source: grouped_mm_experts_forward: the permutation, its inverse and the token indices.
        let tables = if e.kind == ExpertsKind::GatedClamped { 4.0 } else { 3.0 };
        let entry = self.cast(x, inner);
        let gathered = self.tape.tensor(copies(hidden), inner, true);
        // The gradient of a gather is added into zeros, out of place.
        let zeros = self.tape.bytes(entry);
        self.tape.step(&[entry], gathered).temporary(zeros);
        let index = self.tape.tensor(Line::per_token(tables * k), INT64, false);
        self.tape.keep(index);
        // Where each expert's tokens end, 32-bit.
        let ends = self.tape.tensor(Line::fixed(owned), FP32, false);
        self.tape.keep(ends);
        let up_width = if e.kind == ExpertsKind::Plain { width } else { 2.0 * width };
        let up = self.tape.tensor(copies(up_width), inner, true);
        self.tape.step(&[gathered], up);
        if m.train_base {
            self.tape.keep(gathered);
            self.tape.weight_grad(owned * hidden * up_width * grad_bytes);
        }
        let product = self.tape.tensor(copies(width), inner, true);
        match e.kind {
            ExpertsKind::Gated | ExpertsKind::GatedRepeated => {
                let act = self.tape.tensor(copies(width), inner, true);
                let (gate, other) = (self.tape.view(up, copies(width)), self.tape.view(up, copies(width)));
                // Backward joins the halves' gradients into one new tensor.
                self.tape.step(&[up], gate).passes();
                self.tape.step(&[up], other);
                self.tape.step(&[gate], act);
                self.tape.keep(gate);
                self.tape.step(&[act, other], product);
                if !m.fused() {
                    self.tape.keep(act);
                }
                self.tape.keep(other);
            }
            ExpertsKind::GatedClamped => {
                // Clamped halves, then (up + 1) (gate sigmoid(alpha gate)).
                let part = copies(width);
                let (gate, other) = (self.tape.view(up, part), self.tape.view(up, part));
                self.tape.step(&[up], gate);
                self.tape.step(&[up], other);
                let [clamped, raised, scaled, sigmoid, glu] =
                    [(); 5].map(|()| self.tape.tensor(part, inner, true));
                self.tape.step(&[gate], clamped);
                self.tape.keep(gate);
                self.tape.step(&[other], raised);
                self.tape.step(&[clamped], scaled);
                self.tape.step(&[scaled], sigmoid);
                self.tape.keep(sigmoid);
                self.tape.step(&[clamped, sigmoid], glu);
                self.tape.keep(clamped);
                self.tape.step(&[raised, glu], product);
                self.tape.keep(raised);
                self.tape.keep(glu);
            }
            ExpertsKind::Plain => {
                self.tape.step(&[up], product);
                self.tape.keep(up);
            }
        }
        let down = self.tape.tensor(copies(hidden), inner, true);
        self.tape.step(&[product], down);
        if m.train_base {
            self.tape.keep(product);
            self.tape.weight_grad(owned * hidden * width * grad_bytes);
        }
        let weighted = self.tape.tensor(copies(hidden), inner.max(self.tape.width(weights)), true);
        // The gradient of the weights is a sum over the products.
        let products = self.tape.bytes(weighted);
        self.tape.step(&[down, weights], weighted).temporary(products);
        self.tape.keep(down);
        self.tape.keep(weights);
        let ordered = self.like(weighted);
        self.tape.step(&[weighted], ordered).temporary(products);
        // The sum over a token's experts gives every one of them the same gradient.
        let out = self.tape.tensor(self.tape.elements(x), inner, true);
        self.tape.step(&[ordered], out).passes();
        out
    }

    /// Every token for every expert, scaled by its score before the two batched products.
    ///
    /// Source: `Llama4TextMoe` and `Llama4TextExperts`, Transformers 5.
    fn repeated_experts(&mut self, x: Id, weights: Id, e: &Experts) -> Id {
        let m = self.mode;
        let owned = e.experts as f64 * m.expert_share;
        let (hidden, width) = (e.hidden as f64, e.width as f64 / m.tp);
        let copies = |width: f64| Line::per_token(owned * width);
        let own = self.tape.width(x);
        let repeated = self.tape.tensor(copies(hidden), own, true);
        self.tape.step(&[x], repeated);
        let scaled = self.tape.tensor(copies(hidden), own, true);
        let products = self.tape.bytes(scaled);
        self.tape.step(&[repeated, weights], scaled).temporary(products);
        self.tape.keep(repeated);
        self.tape.keep(weights);
        let gathered = self.cast(scaled, m.compute);
        let up = self.tape.tensor(copies(2.0 * width), m.compute, true);
        self.batched_weight(gathered, up, owned * hidden * 2.0 * width);
        let (gate, other) = (self.tape.view(up, copies(width)), self.tape.view(up, copies(width)));
        // Backward joins the halves' gradients into one new tensor.
        self.tape.step(&[up], gate).passes();
        self.tape.step(&[up], other);
        let act = self.tape.tensor(copies(width), m.compute, true);
        self.tape.step(&[gate], act);
        self.tape.keep(gate);
        let product = self.tape.tensor(copies(width), m.compute, true);
        self.tape.step(&[other, act], product);
        self.tape.keep(act);
        self.tape.keep(other);
        let down = self.tape.tensor(copies(hidden), m.compute, true);
        self.batched_weight(product, down, owned * hidden * width);
        let out = self.tape.tensor(self.tape.elements(x), m.compute, true);
        self.tape.step(&[down], out).passes();
        out
    }

    /// A batched product with weights of so many elements.
    fn batched_weight(&mut self, input: Id, out: Id, elements: f64) {
        let m = self.mode;
        self.tape.step(&[input], out);
        if m.train_base {
            self.tape.keep(input);
            self.tape.weight_grad(elements * m.weight);
        }
        if m.autocast && m.weight > m.compute {
            self.tape.weight_copy(elements * m.compute);
        }
    }
}
