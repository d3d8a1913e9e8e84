//! What number formats and adapters cost beside the products: casts, dequantisation, fake
//! quantisation, low-rank adapters.

use super::super::profile::Pass;
use super::super::walk::{Visit, adapter_parameters};
use super::Builder;
use crate::workload::{AdapterKind, BaseQuantization, Linear, Method, QatScheme, Split};

/// NF4 to 16 bits: half a byte read with its scales, two written.
const DEQUANTIZE: f64 = 2.6;
/// Look-up tables and odd strides hold dequantisation to this share of the streaming rate.
/// Source: open corpus, 0.26 to 0.34.
const DEQUANTIZE_RATE: f64 = 0.30;

impl Builder<'_> {
    /// Casts of a low-precision product's operands.
    pub(super) fn casts(&mut self, v: &Visit<'_>, inputs: f64, outputs: f64) {
        let per = self.machine.cast_read + self.machine.cast_write;
        let forward = self.machine.stream(per * inputs);
        self.cost.forward.cast += forward;
        self.cost.backward.cast += self.machine.stream(per * outputs);
        self.again(v, |parts| parts.cast += forward);
    }

    /// A low-rank adapter: skinny products, whose traffic counts. From ranks of some hundreds on their
    /// arithmetic takes longer; by how much is booked with the products.
    pub(super) fn adapter(&mut self, v: &Visit<'_>, l: &Linear) {
        let [a, b, c, d] = self.profile.adapter;
        let (k, n) = match l.split {
            Split::Row => (l.inputs as f64 / self.slice.tp, l.outputs as f64),
            Split::Column => (l.inputs as f64, l.outputs as f64 / self.slice.tp),
            _ => (l.inputs as f64, l.outputs as f64),
        };
        let pass = Pass { forward: a * (k + b * n), backward: c * (k + d * n) };
        self.traffic(v, self.tokens, pass, 4.0);
        let machine = self.machine;
        let beyond = |multiplied: f64, traffic: f64| {
            let arithmetic = 2.0 * self.tokens * multiplied / machine.matmul16;
            (arithmetic - machine.stream(self.tokens * machine.element / 2.0 * traffic)).max(0.0)
        };
        let rank = self.recipe.lora.rank as f64;
        let (down, up) = (rank * k, rank * n);
        let inputs = up + if v.input_gradient { down } else { 0.0 };
        let forward = beyond(down + up, pass.forward);
        let backward = beyond(inputs + down + up, pass.backward);
        self.cost.forward.matmul += forward;
        self.cost.backward.matmul += backward;
        self.again(v, |parts| parts.matmul += forward);
        let trained = adapter_parameters(self.recipe, l) as f64;
        self.cost.dense += trained;
        self.cost.trained_dense += trained;
        if self.recipe.lora.kind == AdapterKind::Dora {
            // Weight plus its update is formed and its rows' norms taken: B A written (2 B), both
            // read and the sum written (6 B), the sum read in fp32 (4 B).
            self.traffic(
                v,
                l.inputs as f64 * l.outputs as f64 / self.cut(l.split),
                Pass { forward: 12.0, backward: 0.0 },
                4.0,
            );
        }
    }

    /// Dequantisation of a frozen base, or fake quantisation of a trained one.
    pub(super) fn quantization(&mut self, v: &Visit<'_>, l: &Linear, parameters: f64) {
        if l.name == "lm_head" {
            return;
        }
        match self.recipe.method {
            Method::Qlora => {
                let stored = match self.recipe.base_quantization {
                    BaseQuantization::Nf4 | BaseQuantization::Fp4 | BaseQuantization::GptqInt4 => 0.5625,
                    BaseQuantization::Int8 => 1.0,
                };
                let time = self.machine.stream(parameters * DEQUANTIZE) / DEQUANTIZE_RATE;
                self.cost.quantized += parameters;
                self.cost.quantized_bytes += parameters * stored;
                self.cost.forward.dequantize += time;
                self.cost.backward.dequantize += time;
                self.again(v, |parts| parts.dequantize += time);
                self.kernels(v, 2.0);
            }
            Method::Qat | Method::QatLora => {
                let (weight, token) = fake_quantization(self.recipe.qat.scheme);
                let k = if l.split == Split::Row { l.inputs as f64 / self.slice.tp } else { l.inputs as f64 };
                let forward =
                    self.machine.stream(parameters * weight.forward + self.tokens * k * token.forward);
                self.cost.forward.cast += forward;
                self.cost.backward.cast +=
                    self.machine.stream(parameters * weight.backward + self.tokens * k * token.backward);
                self.again(v, |parts| parts.cast += forward);
                self.kernels(v, 8.0);
            }
            Method::Full | Method::Lora => {}
        }
    }
}

/// Bytes of fake quantisation per weight and per activation. Source: the passes of torchao's
/// `FakeQuantize`: range, scale, round and clamp, back to float, each a kernel in fp32; backward
/// masks the clamped.
const fn fake_quantization(scheme: QatScheme) -> (Pass, Pass) {
    const NONE: Pass = Pass { forward: 0.0, backward: 0.0 };
    const CHAIN: Pass = Pass { forward: 40.0, backward: 8.0 };
    match scheme {
        QatScheme::Int4WeightOnly => (CHAIN, NONE),
        QatScheme::Int8DynamicInt4Weight | QatScheme::Fp8 => (CHAIN, CHAIN),
    }
}
