//! Seconds of a step by what they are spent on.

use crate::compute::Parts;

/// Seconds of one optimizer step of the slowest pipeline rank, by what it waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepTimes {
    /// Forward compute of all micro-batches.
    pub forward: Parts,
    /// Backward compute.
    pub backward: Parts,
    /// Recomputed forward.
    pub recompute: Parts,
    /// Compute lost because the host could not issue it in time.
    pub host: f64,
    /// Slow-down of compute by traffic beside it.
    pub contention: f64,
    /// Exposed tensor-parallel traffic.
    pub tensor: f64,
    /// Exposed context-parallel traffic.
    pub context: f64,
    /// Exposed expert traffic.
    pub expert: f64,
    /// Exposed gathers and reductions of sharded parameters.
    pub sharded: f64,
    /// Exposed data-parallel reductions.
    pub data: f64,
    /// Exposed pipeline sends.
    pub send: f64,
    /// Pipeline fill and drain.
    pub bubble: f64,
    /// Accumulation of gradients over micro-batches.
    pub accumulate: f64,
    /// Optimizer.
    pub optimizer: f64,
    /// Traffic between host and device that nothing hides.
    pub offload: f64,
    /// Waiting for data.
    pub input: f64,
    /// Waiting for the slowest rank.
    pub straggler: f64,
    /// Tensor-parallel traffic that compute hides.
    pub hidden_tensor: f64,
    /// Context-parallel traffic that compute hides.
    pub hidden_context: f64,
    /// Expert traffic that compute hides.
    pub hidden_expert: f64,
    /// Sharded-parameter traffic that compute hides.
    pub hidden_sharded: f64,
    /// Data-parallel traffic that compute hides.
    pub hidden_data: f64,
    /// Pipeline sends that compute hides.
    pub hidden_send: f64,
    /// Micro-batches.
    pub micro_batches: f64,
}

impl StepTimes {
    /// Useful and recomputed compute.
    #[must_use]
    pub fn compute(&self) -> f64 {
        self.forward.total() + self.backward.total() + self.recompute.total()
    }

    /// The step time: the terms of the report in their order, so that the sums are the same to the
    /// last bit.
    #[must_use]
    pub fn total(&self) -> f64 {
        let (f, b) = (&self.forward, &self.backward);
        f.matmul
            + f.attention
            + f.traffic
            + b.matmul
            + b.attention
            + b.traffic
            + self.recompute.total()
            + (f.cast + b.cast)
            + (f.dequantize + b.dequantize)
            + (f.gap + b.gap)
            + self.host
            + self.contention
            + self.tensor
            + self.context
            + self.expert
            + self.sharded
            + self.data
            + self.send
            + self.bubble
            + self.accumulate
            + self.optimizer
            + self.offload
            + self.input
            + self.straggler
    }

    /// The waits that scale with micro-batches.
    pub(super) fn waits(&mut self) -> [&mut f64; 12] {
        [
            &mut self.host,
            &mut self.contention,
            &mut self.tensor,
            &mut self.context,
            &mut self.expert,
            &mut self.sharded,
            &mut self.accumulate,
            &mut self.hidden_tensor,
            &mut self.hidden_context,
            &mut self.hidden_expert,
            &mut self.hidden_sharded,
            &mut self.offload,
        ]
    }

    pub(super) fn scale(&mut self, n: f64) {
        for parts in [&mut self.forward, &mut self.backward, &mut self.recompute] {
            let one = *parts;
            *parts = Parts::default();
            parts.add(&one, n);
        }
        for wait in self.waits() {
            *wait *= n;
        }
    }
}
