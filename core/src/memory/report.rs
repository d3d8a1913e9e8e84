//! The answer of the memory room.

use std::borrow::Cow;

use serde::Serialize;

use crate::quantity::Bytes;
use crate::term::{Interval80, Terms};

/// One instant of the step at which memory can peak.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Phase {
    /// Which instant.
    pub name: Cow<'static, str>,
    /// What is alive then, on the fullest rank.
    pub allocated: Terms<Bytes>,
}

/// Peak memory of the fullest rank, as three tools show it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct MemoryReport {
    /// The instants of a step in order, each with what is alive.
    pub phases: Vec<Phase>,
    /// The phase that peaks: an index into `phases`.
    pub peak: usize,
    /// Pipeline stage of the fullest rank.
    pub stage: u64,
    /// Peak of tensors, as `torch.cuda.max_memory_allocated` reports it.
    pub allocated: Bytes,
    /// What the allocator holds at that peak, as `torch.cuda.max_memory_reserved`.
    pub reserved: Terms<Bytes>,
    /// What the device shows in use, as `nvidia-smi`.
    pub device: Terms<Bytes>,
    /// 80 % interval of the peak of tensors.
    pub allocated_interval80: Interval80<Bytes>,
    /// 80 % interval of what the allocator holds.
    pub reserved_interval80: Interval80<Bytes>,
    /// 80 % interval of the device reading.
    pub device_interval80: Interval80<Bytes>,
    /// Least memory with which the step still runs: tensors, context and communicators, without
    /// what the allocator can give back.
    pub needed: Bytes,
    /// 80 % interval of that need: below a device's memory the step fits, above it it does not, and
    /// in between it may.
    pub needed_interval80: Interval80<Bytes>,
    /// Host memory per rank.
    pub host: Terms<Bytes>,
}

impl MemoryReport {
    /// The terms of the peak.
    #[must_use]
    pub fn peak_terms(&self) -> Option<&Terms<Bytes>> {
        self.phases.get(self.peak).map(|p| &p.allocated)
    }
}
