//! Norms, activations, products, dropout and rotary embeddings.

use super::super::line::Line;
use super::super::tape::Id;
use super::{Origin, Place, Reader, python_activation};
use crate::workload::{Act, Norm, NormKind, Rotary, RotaryKind};

const FP32: f64 = 4.0;

impl Reader<'_, '_> {
    pub(super) fn norm(&mut self, x: Id, n: &Norm, parameters: f64) -> Id {
        let m = self.mode;
        let trained = m.train_base;
        let weight = parameters * m.weight;
        let groups = self.tape.elements(x).per_token / n.width as f64;
        let grad = self.tape.grad(x) || trained;
        if let NormKind::Layer { .. } | NormKind::LayerPlain | NormKind::LayerPlainFp32 = n.kind {
            // aten's kernel keeps its input and two fp32 statistics; autocast runs it in fp32.
            let entry = self.tape.width(x);
            let wide = n.kind == NormKind::LayerPlainFp32;
            let input = if m.autocast || wide { self.cast(x, FP32) } else { x };
            let out = self.tape.tensor(self.tape.elements(x), self.tape.width(input), grad);
            self.tape.step(&[input], out);
            self.tape.keep(input);
            let stats = self.tape.tensor(Line::per_token(2.0 * groups), FP32, false);
            self.tape.keep(stats);
            if trained {
                self.tape.weight_grad(weight);
            }
            return if wide { self.cast(out, entry) } else { out };
        }
        if m.fused() {
            let out = self.tape.tensor(self.tape.elements(x), m.compute, grad);
            self.tape.step(&[x], out);
            self.tape.keep(x);
            let stats = self.tape.tensor(Line::per_token(groups), FP32, false);
            self.tape.keep(stats);
            if trained {
                self.tape.weight_grad(weight);
            }
            return out;
        }
        let entry = self.tape.width(x);
        let wide = self.cast(x, FP32);
        // Cohere subtracts the mean twice, once for the variance and once for the output.
        let centred = n.kind == NormKind::LayerUpcast;
        let mut moved = [wide; 2];
        if centred {
            for m in &mut moved {
                *m = self.like(wide);
                self.tape.step(&[wide], *m);
            }
        }
        let [squared, spread] = moved;
        let scale = self.tape.tensor(Line::per_token(groups), FP32, self.tape.grad(x));
        // Gradient of the mean square: the mean's, x, 2 x, and their product.
        let copy = self.tape.bytes(wide);
        self.tape.step(&[squared], scale).temporary(copy * 3.0);
        self.tape.keep(squared);
        self.tape.keep(scale);
        // T5 multiplies its input itself, not the fp32 copy.
        let factor = if n.kind == NormKind::RmsT5 { x } else { spread };
        let normed = self.tape.tensor(self.tape.elements(x), FP32, self.tape.grad(x));
        self.tape.step(&[factor, scale], normed).temporary(copy);
        self.tape.keep(factor);
        self.tape.keep(scale);
        match n.kind {
            NormKind::RmsPlain => self.cast(normed, entry),
            NormKind::RmsUpcast | NormKind::RmsOffset | NormKind::LayerUpcast => {
                let out = self.tape.tensor(self.tape.elements(x), FP32, grad);
                self.tape.step(&[normed], out);
                if trained {
                    self.tape.keep(normed);
                    let products = self.tape.bytes(normed);
                    self.tape.weight_grad(weight).temporary(products).columns(n.width as f64);
                }
                // One plus the weight, or its fp32 copy.
                let copied = match n.kind {
                    NormKind::RmsOffset => n.width as f64,
                    NormKind::LayerUpcast if m.weight < FP32 => parameters,
                    _ => 0.0,
                };
                if copied > 0.0 {
                    let constant = self.tape.tensor(Line::fixed(copied), FP32, false);
                    self.tape.keep(constant);
                }
                self.cast(out, entry)
            }
            _ => {
                let cast = self.cast(normed, entry);
                let out = self.tape.tensor(self.tape.elements(x), entry.max(m.weight), grad);
                self.tape.step(&[cast], out);
                if trained {
                    self.tape.keep(cast);
                    // The product with the output's gradient, before it is summed over tokens.
                    let products = self.tape.bytes(cast);
                    self.tape.weight_grad(weight).temporary(products).columns(n.width as f64);
                }
                out
            }
        }
    }

    pub(super) fn rotary(&mut self, x: Place, r: &Rotary) -> Place {
        // cos and sin are shared by all layers, so nothing is kept here ...
        // Under autocast they have the residual stream's type, and so has the product.
        let m = self.mode;
        let entry = self.tape.width(x.id);
        let width = if m.autocast && !m.fused() { entry.max(m.residual) } else { entry };
        let id = self.tape.tensor(self.tape.elements(x.id), width, self.tape.grad(x.id));
        // Backward fills the rotated halves into zeros of full size.
        let copy = self.tape.bytes(id);
        self.tape.step(&[x.id], id).temporary(copy * 2.0);
        // ... unless each layer spreads them over pairs anew, for q and k apart or for both at once.
        let spread = match r.kind {
            RotaryKind::Interleaved => 2.0,
            RotaryKind::PartialInterleaved => 1.0,
            _ => 0.0,
        };
        if spread > 0.0 && !self.mode.fused() {
            let angles = self.tape.tensor(Line::fixed(spread * m.seq * r.rotated as f64), width, false);
            self.tape.keep(angles);
        }
        let origin = match r.kind {
            RotaryKind::Partial | RotaryKind::PartialInterleaved if !self.mode.fused() => Origin::HeadMajor,
            _ => Origin::Other,
        };
        Place { id, cut: x.cut, origin }
    }

    pub(super) fn activation(&mut self, x: Place, act: Act) -> Place {
        let out = self.like(x.id);
        let python = if self.mode.fused() { 0 } else { python_activation(act) };
        if python > 0 {
            return Place { id: self.python_gelu(x.id, act), cut: x.cut, origin: Origin::Other };
        }
        self.tape.step(&[x.id], out);
        match act {
            Act::Relu | Act::Sigmoid | Act::Tanh => self.tape.keep(out),
            Act::ReluSquared => {
                self.tape.keep(out);
                let squared = self.like(out);
                self.tape.step(&[out], squared);
                return Place { id: squared, cut: x.cut, origin: Origin::Other };
            }
            _ => self.tape.keep(x.id),
        }
        Place { id: out, cut: x.cut, origin: Origin::Activation(x.id) }
    }

    /// A GELU written as PyTorch expressions. `pow` runs in fp32 under autocast, and so does all
    /// that follows from it.
    fn python_gelu(&mut self, x: Id, act: Act) -> Id {
        let wide = if self.mode.autocast { FP32 } else { self.tape.width(x) };
        let n = self.tape.elements(x);
        let grad = self.tape.grad(x);
        let inner = if act == Act::GeluFast {
            // 0.5 x (1 + tanh(c x (1 + k x x))): the products keep x, c x, k x and 1 + k x x.
            let kx = self.like(x);
            self.tape.step(&[x], kx);
            let kxx = self.like(x);
            self.tape.step(&[kx, x], kxx);
            self.tape.keep(kx);
            self.tape.keep(x);
            let one = self.like(kxx);
            self.tape.step(&[kxx], one);
            let cx = self.like(x);
            self.tape.step(&[x], cx);
            let inner = self.like(one);
            self.tape.step(&[cx, one], inner);
            self.tape.keep(cx);
            self.tape.keep(one);
            inner
        } else {
            let base = self.cast(x, wide);
            let cube = self.tape.tensor(n, wide, grad);
            self.tape.step(&[base], cube);
            self.tape.keep(base);
            let inner = self.tape.tensor(n, wide, grad);
            self.tape.step(&[x, cube], inner).passes();
            inner
        };
        let tanh = self.like(inner);
        self.tape.step(&[inner], tanh);
        self.tape.keep(tanh);
        let one = self.like(tanh);
        self.tape.step(&[tanh], one).passes();
        let half = self.like(x);
        self.tape.step(&[x], half);
        let out = self.like(one);
        self.tape.step(&[half, one], out);
        self.tape.keep(half);
        self.tape.keep(one);
        out
    }

    pub(super) fn product(&mut self, a: Place, b: Place) -> Place {
        let grad = self.any_grad(&[a.id, b.id]);
        let width = self.tape.width(a.id).max(self.tape.width(b.id));
        let elements = if self.tape.elements(a.id).per_token >= self.tape.elements(b.id).per_token {
            self.tape.elements(a.id)
        } else {
            self.tape.elements(b.id)
        };
        let out = self.tape.tensor(elements, width, grad);
        self.tape.step(&[a.id, b.id], out);
        for (mine, other) in [(a, b), (b, a)] {
            if self.tape.grad(other.id) {
                // A fused kernel keeps the activation's input and computes it again.
                match mine.origin {
                    Origin::Activation(from) if self.mode.fused() => self.tape.keep(from),
                    _ => self.tape.keep(mine.id),
                }
            }
        }
        Place { id: out, cut: a.cut, origin: Origin::Other }
    }

    pub(super) fn dropout(&mut self, x: Id) -> Id {
        let out = self.like(x);
        self.tape.step(&[x], out);
        let mask = self.tape.tensor(self.tape.elements(x), 1.0, false);
        self.tape.keep(mask);
        out
    }
}
