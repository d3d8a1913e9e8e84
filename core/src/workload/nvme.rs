//! How DeepSpeed swaps model states to a node's NVMe drives (ZeRO-Infinity, Rajbhandari 2021).
//!
//! Source: DeepSpeed 0.19 `runtime/swap_tensor` and `runtime/zero/stage3.py`, traced.

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use super::optimizer::Optimizer;
use crate::error::{Result, in_range};

/// Swapping to NVMe, where the layout offloads `param_nvme` or `optimizer_nvme`.
///
/// ```
/// use shardwise::workload::Nvme;
/// let default = Nvme::default();
/// // 70 billion parameters on 8 ranks: tiles of 1e9 parameters pass one by one.
/// assert_eq!(default.tiles(70e9 / 8.0), 9.0);
/// // No whole tile of 1e9 fits into the 1e9 elements that may stay in host memory.
/// assert_eq!(default.in_cpu(70e9 / 8.0), 0.0);
/// assert_eq!(default.in_cpu(0.9e9), 0.9e9);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Nvme {
    /// Pinned buffers for optimizer states, each of one tile in fp32; none means what the pipelining
    /// needs: 4 with Adam, 8 when reads or writes are pipelined, 12 when both are.
    pub buffer_count: Option<u64>,
    /// The next tile is read while the CPU updates this one.
    pub pipeline_read: bool,
    /// The tile before is written while the CPU updates this one.
    pub pipeline_write: bool,
    /// Parameters of a tile; none means 1e9.
    pub sub_group_size: Option<u64>,
    /// Pinned buffers for parameters; none means 5.
    pub param_buffer_count: Option<u64>,
    /// Elements of each; none means 1e8, or the largest tensor's shard.
    pub param_buffer_size: Option<u64>,
    /// Elements of parameters that stay in host memory; none means 1e9.
    pub max_in_cpu: Option<u64>,
    /// What a node's drives read, in GB/s; none means 7.35.
    pub read_gb_s: Option<f64>,
    /// What they write, in GB/s; none means 7.35.
    pub write_gb_s: Option<f64>,
}

/// A whole number, or its default.
fn or(given: Option<u64>, default: f64) -> f64 {
    given.map_or(default, |n| n as f64)
}

impl Nvme {
    /// Most parameters of a tile.
    fn tile(&self) -> f64 {
        or(self.sub_group_size, 1e9).max(1.0)
    }

    /// Tiles in which so many parameters of one rank pass through the CPU.
    #[must_use]
    pub fn tiles(&self, parameters: f64) -> f64 {
        libm::ceil(parameters / self.tile()).max(1.0)
    }

    /// Parameters of the largest tile: it closes with the tensor that fills it.
    pub(crate) fn largest_tile(&self, parameters: f64, largest_tensor: f64) -> f64 {
        self.tile().max(largest_tensor).min(parameters)
    }

    /// Elements of the parameters that stay in host memory: whole tiles only, each filled to the brim
    /// or past it.
    #[must_use]
    pub fn in_cpu(&self, parameters: f64) -> f64 {
        let most = or(self.max_in_cpu, 1e9);
        if parameters <= most {
            return parameters;
        }
        self.tile() * (libm::ceil(most / self.tile()) - 1.0).max(0.0)
    }

    /// Elements that may stay in host memory: their buffer is made whatever stays there.
    pub(crate) fn cpu_buffer(&self, parameters: f64) -> f64 {
        or(self.max_in_cpu, 1e9).min(parameters)
    }

    /// Pinned elements through which parameters pass.
    pub(crate) fn param_buffers(&self, largest_tensor: f64) -> f64 {
        or(self.param_buffer_count, 5.0) * or(self.param_buffer_size, largest_tensor.max(1e8))
    }

    /// Pinned buffers through which optimizer states pass: parameter, gradient and moments of every
    /// tile under way. Real DeepSpeed stops for want of buffers with fewer.
    ///
    /// ```
    /// use shardwise::workload::{Nvme, Optimizer};
    /// let both = Nvme { pipeline_read: true, pipeline_write: true, ..Nvme::default() };
    /// assert_eq!((Nvme::default().needed(Optimizer::Adamw), both.needed(Optimizer::Adamw)), (4.0, 12.0));
    /// ```
    #[must_use]
    pub fn needed(&self, optimizer: Optimizer) -> f64 {
        let tensors = 2.0 + libm::ceil(optimizer.costs().states.bytes(4.0) / 4.0);
        tensors * f64::from(1 + u8::from(self.pipeline_read) + u8::from(self.pipeline_write))
    }

    /// Pinned buffers of optimizer states.
    pub(crate) fn buffers(&self, optimizer: Optimizer) -> f64 {
        or(self.buffer_count, self.needed(optimizer).max(4.0))
    }

    /// Checks the ranges, and that the step has buffers enough.
    pub(crate) fn validate(&self, optimizer: Optimizer) -> Result<()> {
        let count = self.buffer_count.unwrap_or(10_000) as f64;
        in_range("runtime.nvme.buffer_count", count, self.needed(optimizer), 1e4)?;
        for (name, value) in [
            ("runtime.nvme.sub_group_size", self.sub_group_size),
            ("runtime.nvme.param_buffer_count", self.param_buffer_count),
            ("runtime.nvme.param_buffer_size", self.param_buffer_size),
        ] {
            in_range(name, or(value, 1.0), 1.0, 1e13)?;
        }
        in_range("runtime.nvme.max_in_cpu", or(self.max_in_cpu, 0.0), 0.0, 1e13)?;
        in_range("runtime.nvme.read_gb_s", self.read_gb_s.unwrap_or(1.0), 1e-3, 1e4)?;
        in_range("runtime.nvme.write_gb_s", self.write_gb_s.unwrap_or(1.0), 1e-3, 1e4)?;
        Ok(())
    }
}
