//! Matrix multiplications with a weight, plain, adapted, quantised.

use super::super::line::Line;
use super::super::tape::Id;
use super::{Origin, Place, Reader};
use crate::workload::{AdapterKind, Dtype, Linear, Method, QatScheme, Split};

const FP32: f64 = 4.0;

impl Reader<'_, '_> {
    /// `x W`. Keeps x when the weight is trained; under autocast an fp32 x is first cast, each
    /// linear making its own copy, and the cast weight is kept for the input's gradient.
    pub(super) fn linear(&mut self, x: Place, l: &Linear) -> Place {
        let m = self.mode;
        let (shards, cut_out) = match l.split {
            Split::Column => (m.tp, m.tp > 1.0),
            Split::Vocabulary => (m.vocab, m.vocab > 1.0),
            Split::Row => (m.tp, m.sequence_parallel),
            Split::Replicated => (1.0, x.cut),
        };
        let weights = l.inputs as f64 * l.outputs as f64 / shards;
        let trained = m.train_base || m.recipe.saves_module(l.name);
        let adapted = m.recipe.adapts(l.name);
        let fake = m.fake_quantised() && l.name != "lm_head";
        let weight = fake.then(|| self.fake_weight(weights, trained));
        let entry = if fake { self.fake_input(x.id) } else { x.id };
        let taken = self.cast(entry, m.compute);
        let needs = self.tape.grad(taken) || trained || adapted;
        let out = self.tape.tensor(self.elements(l.outputs as f64, cut_out), m.compute, needs);
        match weight {
            Some(w) => self.tape.step(&[taken, w], out),
            None => self.tape.step(&[taken], out),
        };
        self.tape.workspace();
        // A product with a bias is another kernel (`addmm`), which the policy does not name.
        self.products += u32::from(!l.bias);
        if !l.bias && self.products % 2 == 1 {
            self.tape.select(out);
        }
        if let Some(w) = weight
            && !m.autocast
            && self.tape.grad(taken)
        {
            self.tape.keep(w);
        }
        if trained {
            if m.eight_bit() && l.name != "lm_head" {
                if self.quantised != Some(taken) {
                    let quantised = self.tape.tensor(self.tape.elements(taken), 1.0, false);
                    self.tape.recompute_with(quantised, taken);
                    self.tape.keep(quantised);
                    self.quantised = Some(taken);
                }
            } else {
                self.tape.keep(taken);
            }
            if !fake {
                self.tape.weight_grad(weights * m.weight);
            }
            if l.bias {
                let columns = l.outputs as f64 / shards;
                self.tape.weight_grad(columns * m.weight).columns(columns);
            }
        }
        if m.autocast && m.weight > m.compute && self.tape.grad(taken) {
            self.tape.weight_copy(weights * m.compute);
        }
        if m.recipe.method == Method::Qlora && !trained && l.name != "lm_head" {
            self.tape.temporary(Line::fixed(weights * m.compute));
        }
        let id = if adapted { self.adapter(x.id, taken, out, l) } else { out };
        Place { id, cut: cut_out, origin: Origin::Other }
    }

    /// The weight as fake quantisation leaves it, a tensor of its own. Rounding in fp32 keeps a copy
    /// of what it rounds (integers), or three and a narrow one (8-bit floats), and two scales a group.
    ///
    /// Source: torchao 0.18 `FakeQuantizedLinear` and its fake quantisers, saved tensors of real
    /// PyTorch (`tests/data/corpus/qat_activations.csv`).
    fn fake_weight(&mut self, weights: f64, trained: bool) -> Id {
        let m = self.mode;
        let qat = &m.recipe.qat;
        let out = self.tape.tensor(Line::fixed(weights), m.weight, trained);
        // The gradient passes through the rounding in fp32.
        self.tape.step(&[], out).temporary(Line::fixed(weights * FP32));
        let narrow = m.weight.min(FP32);
        let kept = match qat.scheme {
            QatScheme::Int8DynamicInt4Weight => FP32 + 2.0 * FP32 / qat.group.unwrap_or(32) as f64,
            QatScheme::Int4WeightOnly => FP32 + 2.0 * FP32 / qat.group.unwrap_or(128) as f64,
            QatScheme::Fp8 if narrow < FP32 => 3.0 * FP32 + narrow,
            QatScheme::Fp8 => 3.0 * FP32,
        };
        let copies = self.tape.tensor(Line::fixed(weights * kept), 1.0, false);
        self.tape.keep(copies);
        if trained {
            self.tape.weight_grad(weights * m.weight);
        }
        out
    }

    /// The input as fake quantisation leaves it, each linear layer making its own.
    fn fake_input(&mut self, x: Id) -> Id {
        let scheme = self.mode.recipe.qat.scheme;
        if scheme == QatScheme::Int4WeightOnly {
            return x;
        }
        let elements = self.tape.elements(x);
        let out = self.like(x);
        self.tape.step(&[x], out).temporary(elements * FP32);
        let fp32 = if scheme == QatScheme::Fp8 { 3.0 } else { 1.0 };
        let wide = self.tape.tensor(elements * fp32, FP32, false);
        self.tape.keep(wide);
        // The scale and the zero point of each token.
        let scales = self.tape.tensor(Line::per_token(2.0), FP32, false);
        self.tape.keep(scales);
        if scheme == QatScheme::Fp8 {
            self.tape.keep(x);
            if self.tape.width(x) < FP32 {
                let narrow = self.tape.tensor(elements, self.tape.width(x), false);
                self.tape.keep(narrow);
            }
        }
        out
    }

    /// `W x + (x A) B`: with fp32 adapters beside 16-bit activations each adapted linear keeps its
    /// own fp32 copy of the input.
    fn adapter(&mut self, x: Id, taken: Id, base: Id, l: &Linear) -> Id {
        let m = self.mode;
        let lora = &m.recipe.lora;
        // Where parameters are cast before a layer uses them, its adapters are cast with the rest.
        let casts = m.weight < m.recipe.params().bytes();
        let weight = if casts { m.weight.min(lora.dtype.bytes()) } else { lora.dtype.bytes() };
        let dtype = if m.autocast { m.compute } else { weight };
        let rank = lora.rank as f64;
        let mut entry = if m.autocast {
            taken
        } else if (self.tape.width(x) - dtype).abs() < f64::EPSILON {
            x
        } else {
            self.cast(taken, dtype)
        };
        if lora.dropout {
            entry = self.dropout(entry);
        }
        let down = self.tape.tensor(Line::per_token(rank), dtype, true);
        self.tape.step(&[entry], down).workspace();
        self.tape.keep(entry);
        self.tape.weight_grad(rank * l.inputs as f64 * weight);
        if m.autocast && lora.dtype == Dtype::Fp32 {
            self.tape.weight_copy(rank * l.inputs as f64 * m.compute);
        }
        let up = self.tape.tensor(self.tape.elements(base), dtype, true);
        self.tape.step(&[down], up).workspace();
        self.tape.keep(down);
        self.tape.weight_grad(rank * l.outputs as f64 * weight);
        if m.autocast && lora.dtype == Dtype::Fp32 {
            self.tape.weight_copy(rank * l.outputs as f64 * m.compute);
        }
        let scaled = self.like(up);
        self.tape.step(&[up], scaled);
        let sum = self.tape.tensor(self.tape.elements(base), dtype.max(m.compute), true);
        self.tape.step(&[base, scaled], sum).passes();
        if lora.kind == AdapterKind::Dora {
            // The magnitude scales the whole output, which is kept for its gradient.
            self.tape.keep(sum);
        }
        self.cast(sum, m.compute)
    }
}
