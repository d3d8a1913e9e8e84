//! What routed experts cost: grouped products, permutation, dispatch.

use super::super::flops::expert_up;
use super::super::gemm::Gemm;
use super::super::profile::{KernelStyle, Pass};
use super::super::walk::Visit;
use super::{Builder, op_parameters};
use crate::workload::{Experts, ExpertsKind};

/// Grouped products of experts reach this share of one large product's rate.
/// Source: open corpus, 0.64 to 1.0.
const GROUPED: f64 = 0.85;
/// Bytes per element of permuting routed tokens, weighting them and permuting them back, each a
/// read and a write at 16 bits, with the indices: eight passes.
const PERMUTE: f64 = 8.0 * 2.0;
/// Passes of separate kernels over those of fused ones. Source: open corpus, 1.2 to 3.2.
const PERMUTE_SEPARATE: f64 = 2.4;
/// GPT-OSS experts written out: two biases, two clamps, scaled sigmoid, plus one, two products and the
/// router's weight, each a kernel (in fp32 in Megatron, in 16 bits in Transformers), in bytes per
/// element of an expert's width at 16 bits. Source: `transformers` `modeling_gpt_oss.py`, Megatron-Core
/// `transformer/moe/experts.py`.
const CLAMPED: Pass = Pass { forward: 48.0, backward: 80.0 };
/// Host time of an expert layer without recorded graphs: its token counts cross to the host.
/// Source: open corpus; small expert layers take as long on the H100 as on the B200.
const EXPERT_HOST: Pass = Pass { forward: 1.75e-3, backward: 2.8e-3 };
impl Builder<'_> {
    pub(super) fn experts(&mut self, v: &Visit<'_>, e: &Experts) {
        let local = (e.experts as f64 / self.slice.ep).max(1.0);
        // The rank with most rows makes the others wait.
        let routed = self.tokens * e.top_k as f64 / self.slice.tp * self.load;
        let (h, w, up) = (e.hidden as f64, e.width as f64, expert_up(e) as f64);
        let m = routed / local;
        self.product(v, &Gemm { m, n: up, k: h, count: local }, v.trains, GROUPED);
        self.product(v, &Gemm { m, n: h, k: w, count: local }, v.trains, GROUPED);
        let p = self.profile;
        let fused = self.recipe.runtime.moe_fused;
        match e.kind {
            ExpertsKind::GatedClamped if !fused => {
                let wide = if p.style == KernelStyle::Transformers { 1.0 } else { 2.0 };
                let chain = Pass { forward: wide * CLAMPED.forward, backward: wide * CLAMPED.backward };
                self.traffic(v, routed * w, chain, 12.0);
            }
            ExpertsKind::Plain => self.traffic(v, routed * w, p.activation, p.pointwise_kernels),
            ExpertsKind::Gated | ExpertsKind::GatedRepeated | ExpertsKind::GatedClamped => {
                self.traffic(v, routed * w, p.activation, p.pointwise_kernels);
                self.traffic(v, routed * w, p.gate, p.pointwise_kernels);
            }
        }
        let permute = if fused { PERMUTE } else { PERMUTE * PERMUTE_SEPARATE };
        self.traffic(v, routed * h, Pass { forward: permute, backward: permute }, 10.0);
        if self.low_precision && self.machine.cast_read > 0.0 {
            self.casts(v, routed * (h + w), routed * (up + h));
        }
        self.own(v, op_parameters(v) / self.slice.ep, true);
        self.cost.routed_bytes += routed * h * self.machine.element;
        self.cost.repeats[2] = f64::from(u8::from(self.again));
        self.cost.top_k = e.top_k as f64;
        if p.style == KernelStyle::Transformers {
            // Transformers loops over the experts in Python.
            self.kernels += 8.0 * local;
        }
        if !fused {
            self.host.forward += EXPERT_HOST.forward;
            self.host.backward += EXPERT_HOST.backward;
        }
    }
}
