//! Matrix multiplications with a weight, plain, adapted, quantised.

use super::super::kernels::GEMM_WORKSPACE;
use super::super::line::Line;
use super::super::tape::Id;
use super::{Origin, Place, Reader};
use crate::workload::{AdapterKind, Dtype, Linear, Method, Split};

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
        let taken = self.cast(x.id, m.compute);
        let needs = self.tape.grad(taken) || trained || adapted;
        let out = self.tape.tensor(self.elements(l.outputs as f64, cut_out), m.compute, needs);
        self.tape.step(&[taken], out).temporary(GEMM_WORKSPACE);
        if trained {
            if m.eight_bit() && l.name != "lm_head" {
                let quantised = self.tape.tensor(self.tape.elements(taken), 1.0, false);
                self.tape.keep(quantised);
            } else {
                self.tape.keep(taken);
            }
            self.tape.weight_grad(weights * m.weight);
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

    /// `W x + (x A) B`: with fp32 adapters beside 16-bit activations each adapted linear keeps its
    /// own fp32 copy of the input.
    fn adapter(&mut self, x: Id, taken: Id, base: Id, l: &Linear) -> Id {
        let m = self.mode;
        let lora = &m.recipe.lora;
        let dtype = if m.autocast { m.compute } else { lora.dtype.bytes() };
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
        self.tape.step(&[entry], down).temporary(GEMM_WORKSPACE);
        self.tape.keep(entry);
        self.tape.weight_grad(rank * l.inputs as f64 * lora.dtype.bytes());
        if m.autocast && lora.dtype == Dtype::Fp32 {
            self.tape.weight_copy(rank * l.inputs as f64 * m.compute);
        }
        let up = self.tape.tensor(self.tape.elements(base), dtype, true);
        self.tape.step(&[down], up).temporary(GEMM_WORKSPACE);
        self.tape.keep(down);
        self.tape.weight_grad(rank * l.outputs as f64 * lora.dtype.bytes());
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
