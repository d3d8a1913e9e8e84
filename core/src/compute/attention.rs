//! Time of attention on one rank: fused kernels by a measured share of the 16-bit peak, unfused
//! ones as two batched products and the traffic of the scores.

use super::gemm::Gemm;
use super::machine::Machine;
use super::profile::Pass;
use crate::workload::Attention;

/// Backward does five products for the forward's two. Source: Dao 2023, section 3.1.
pub(super) const FLASH_BACKWARD: f64 = 2.5;
/// Backward reaches this share of the forward's rate. Source: Dao 2023 and Shah 2024, figures of
/// forward and backward rates.
const BACKWARD_RATE: f64 = 0.85;
/// Queries at which a fused kernel reaches half of its rate.
const RAMP: f64 = 256.0;
/// Rate at heads of 64 relative to heads of 128. Source: Dao 2023, figures 5 and 6.
const SMALL_HEAD: f64 = 0.8;

/// How much of attention one rank does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Sequences times heads of the rank.
    pub batch_heads: f64,
    /// Queries per sequence on the rank.
    pub queries: f64,
    /// Keys a query can see at most.
    pub keys: f64,
    /// Share of the score matrix that the mask leaves.
    pub visible: f64,
}

impl Work {
    /// A rank's share: `sequences` of `seq` tokens, heads cut by `tp`, queries by `cp`.
    pub(super) fn new(a: &Attention, sequences: f64, seq: f64, tp: f64, cp: f64) -> Self {
        let window = a.window.map_or(seq, |w| (w as f64).min(seq));
        Self {
            batch_heads: sequences * (a.heads as f64 / tp).max(1.0),
            queries: seq / cp,
            keys: window,
            // A window is full but for the first tokens; a causal triangle is half.
            visible: if !a.causal {
                1.0
            } else if window < seq {
                1.0 - 0.5 * window / seq
            } else {
                0.5
            },
        }
    }

    /// Score elements, mask not applied.
    fn scores(&self) -> f64 {
        self.batch_heads * self.queries * self.keys
    }
}

/// Seconds of a fused kernel, forward and backward.
pub(super) fn fused(a: &Attention, w: &Work, machine: &Machine) -> Pass {
    let heads = (a.qk_head + a.v_head) as f64;
    let head = if a.qk_head <= 64 { SMALL_HEAD } else { 1.0 };
    let rate = machine.attention * head * w.queries / (w.queries + RAMP);
    let forward = 2.0 * w.scores() * w.visible * heads / rate;
    let softcap = if a.softcap { 1.15 } else { 1.0 };
    Pass { forward: forward * softcap, backward: forward * softcap * FLASH_BACKWARD / BACKWARD_RATE }
}

/// Seconds of attention with scores in memory: whole products, whatever the mask.
pub(super) fn unfused(a: &Attention, w: &Work, scores: Pass, machine: &Machine) -> Pass {
    let (qk, v) = (a.qk_head as f64, a.v_head as f64);
    let product = |k: f64| Gemm { m: w.queries, n: w.keys, k, count: w.batch_heads };
    let elements = w.scores();
    let half = machine.element / 2.0;
    let gemms = machine.product16(&product(qk)) + machine.product16(&product(v).input_gradient());
    let back = 2.0 * gemms;
    Pass {
        forward: gemms + machine.stream(elements * scores.forward * half),
        backward: back + machine.stream(elements * scores.backward * half),
    }
}
