//! The answer of the memory room.

use std::borrow::Cow;

use serde::Serialize;
use shardwise_derive::ToJson;

use super::interval;
use crate::quantity::Bytes;
use crate::term::{Interval80, Term, Terms};

/// One instant of the step at which memory can peak.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Phase {
    /// Which instant.
    pub name: Cow<'static, str>,
    /// What is alive then, on the fullest rank.
    pub allocated: Terms<Bytes>,
}

/// Peak memory of the fullest rank, as three tools show it.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
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
    /// On the node's NVMe drives, per rank.
    #[serde(skip_serializing_if = "Terms::is_empty")]
    pub nvme: Terms<Bytes>,
}

impl MemoryReport {
    /// The same where tensors take `factor` times what was predicted, as measured runs told.
    #[must_use]
    pub(crate) fn calibrated(mut self, factor: f64) -> Self {
        let more = self.allocated * (factor - 1.0);
        if more == Bytes::ZERO {
            return self;
        }
        let term =
            |amount: Bytes| Term::new("calibration", amount, "(factor - 1) x predicted", "measured runs");
        for phase in &mut self.phases {
            phase.allocated.0.push(term(phase.allocated.total() * (factor - 1.0)));
        }
        self.reserved.0.push(term(more));
        self.device.0.push(term(more));
        self.allocated += more;
        self.needed += more;
        self.allocated_interval80 = interval::around(self.allocated, interval::ALLOCATED);
        self.reserved_interval80 = interval::around(self.reserved.total(), interval::RESERVED);
        self.device_interval80 = interval::around(self.device.total(), interval::DEVICE);
        self.needed_interval80 = interval::around(self.needed, interval::NEEDED);
        self
    }

    /// The terms of the peak.
    #[must_use]
    pub fn peak_terms(&self) -> Option<&Terms<Bytes>> {
        self.phases.get(self.peak).map(|p| &p.allocated)
    }
}
