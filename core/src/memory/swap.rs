//! What DeepSpeed keeps on the host beside offloaded states, and what it swaps on to the node's drives.
//!
//! Source: DeepSpeed 0.19 (`stage_1_and_2.py`, `stage3.py`, `swap_tensor/`), traced with a file I/O
//! that counts bytes; the traced cases stand in the tests below.

use super::states::{Divisors, States};
use super::weights::BlockWeights;
use crate::layout::{Layout, Offload, Sharding};
use crate::workload::Recipe;

/// Bytes of one rank that pass to the node's drives, and the pinned buffers that they pass through.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Swapped {
    /// On the drives: fp32 parameters, gradients and moments, a file each.
    pub(super) optimizer: f64,
    /// On the drives: parameters in the compute format.
    pub(super) parameters: f64,
    /// On the host, for optimizer states.
    pub(super) optimizer_buffers: f64,
    /// On the host, for parameters: those that stay there too.
    pub(super) parameter_buffers: f64,
}

impl Swapped {
    /// On the drives.
    pub(super) fn total(&self) -> f64 {
        self.optimizer + self.parameters
    }

    /// On the host.
    pub(super) fn buffers(&self) -> f64 {
        self.optimizer_buffers + self.parameter_buffers
    }
}

/// Moves to the host what DeepSpeed's engine offloads with the optimizer, which updates `part`
/// parameters: the fp32 gradients that the CPU reads, and the gradients in the compute format from
/// which they are cast. Stages 1 and 2 pass each tensor through a buffer of the largest on both sides.
///
/// With Adam 18 bytes a parameter on the host, parameters not among them.
pub(super) fn offload_optimizer(s: &mut States, w: &BlockWeights, layout: &Layout, part: f64, width: f64) {
    s.host += s.optimizer + s.master + part * (4.0 + width);
    (s.optimizer, s.master, s.step, s.gradients, s.applied) = (0.0, 0.0, 0.0, 0.0, 0.0);
    s.framework -= s.partition;
    if layout.sharding != Sharding::Zero3 {
        s.host += w.largest_trained * width;
        s.framework += w.largest_trained * width;
    }
}

/// Moves on to the drives what the layout swaps.
///
/// Optimizer states leave with their fp32 gradients, `16 P` bytes of `P` parameters with Adam; the
/// host keeps `buffer_count` pinned buffers of the largest tile, and the gradients in the compute format.
/// Parameters leave `buffer_count` pinned buffers, one for all the whole tensors of the largest
/// tile, and one for `max_in_cpu` elements.
pub(super) fn swap(
    s: &mut States,
    w: &BlockWeights,
    recipe: &Recipe,
    layout: &Layout,
    d: &Divisors,
    part: f64,
    width: f64,
) {
    let nvme = &recipe.runtime.nvme;
    if layout.swaps(Offload::Optimizer) {
        let tile = nvme.largest_tile(part, w.largest_trained / d.parameters);
        s.swapped.optimizer = s.host - part * width;
        s.host = part * width;
        s.swapped.optimizer_buffers = 4.0 * tile * nvme.buffers(recipe.optimizer);
    }
    if layout.offloads(Offload::Param) {
        if layout.swaps(Offload::Param) {
            let shard = w.largest / d.parameters;
            let tile = nvme.largest_tile(part, shard);
            let elements = s.parameters / width;
            let out =
                if nvme.in_cpu(elements) < elements { (tile * d.parameters).min(w.base()) } else { 0.0 };
            let held = nvme.cpu_buffer(elements) + nvme.param_buffers(shard) + out;
            s.swapped.parameters = s.parameters;
            s.swapped.parameter_buffers = held * width;
        } else {
            s.host += s.parameters;
        }
        s.parameters = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use crate::layout::{Layout, Offload, Recompute, Sharding};
    use crate::memory::{MemoryReport, estimate};
    use crate::workload::{Batch, Compute, Dtype, Framework, ModelSpec, Nvme, Recipe};

    /// One of eight ranks of a real step: llama-3.2-1b, ZeRO on bf16, one sequence of 2048 tokens.
    fn traced(sharding: Sharding, offload: &[Offload], nvme: Nvme) -> MemoryReport {
        let model = ModelSpec::from("llama-3.2-1b").resolve("model").unwrap();
        let mut recipe = Recipe {
            framework: Framework::DeepSpeed,
            params_dtype: Some(Dtype::Bf16),
            compute: Compute::Bf16,
            drop_logits: true,
            ..Recipe::default()
        };
        recipe.runtime.nvme = nvme;
        let layout = Layout {
            sharding,
            data_parallel_shard: 8,
            recompute: Recompute::Full,
            offload: offload.to_vec(),
            ..Layout::default()
        };
        estimate(&model, &recipe, &layout, &Batch { seq_len: 2048, global_batch: 8 })
    }

    /// Bytes on the host, where the real step had so many.
    fn host(sharding: Sharding, offload: &[Offload], nvme: Nvme, real: f64) {
        let predicted = traced(sharding, offload, nvme).host.total().get();
        assert!((predicted / real - 1.0).abs() < 0.01, "{predicted} for {real}");
    }

    #[test]
    fn the_host_holds_what_real_deepspeed_puts_there() {
        // DeepSpeed 0.19.8 under PyTorch 2.15, November 2026: bytes of all tensors on the host.
        use Offload::{Optimizer, OptimizerNvme, Param, ParamNvme};
        let small = || Nvme { sub_group_size: Some(30_000_000), ..Nvme::default() };
        let ahead = Nvme { pipeline_read: true, ..small() };
        let both = Nvme { pipeline_write: true, ..ahead.clone() };
        host(Sharding::Zero1, &[Optimizer], small(), 3_305_918_976.0);
        host(Sharding::Zero2, &[Optimizer], small(), 3_305_918_976.0);
        host(Sharding::Zero3, &[Optimizer], small(), 2_780_582_400.0);
        host(Sharding::Zero3, &[Optimizer, Param], small(), 3_089_536_000.0);
        host(Sharding::Zero3, &[OptimizerNvme], Nvme::default(), 2_780_582_400.0);
        host(Sharding::Zero3, &[OptimizerNvme], small(), 834_290_176.0);
        host(Sharding::Zero3, &[OptimizerNvme], ahead, 1_359_626_752.0);
        host(Sharding::Zero3, &[OptimizerNvme], both, 1_884_963_328.0);
        let params = |max_in_cpu, sub_group_size| Nvme {
            max_in_cpu: Some(max_in_cpu),
            sub_group_size: Some(sub_group_size),
            param_buffer_count: Some(40),
            param_buffer_size: Some(40_000_000),
            ..Nvme::default()
        };
        let swapped = [OptimizerNvme, ParamNvme];
        host(Sharding::Zero3, &swapped, params(0, 30_000_000), 4_568_015_360.0);
        host(Sharding::Zero3, &swapped, params(60_000_000, 30_000_000), 4_688_015_360.0);
        host(Sharding::Zero3, &swapped, params(100_000_000, 1_000_000_000), 8_660_599_808.0);
    }

    #[test]
    fn the_drives_hold_sixteen_bytes_a_parameter_and_two() {
        let report = traced(Sharding::Zero3, &[Offload::OptimizerNvme], Nvme::default());
        let of = |name| report.nvme.get(name).map_or(0.0, crate::quantity::Bytes::get);
        // Real files: 2,454,817,792 bytes; gradients of tensors below 1 MiB a rank stay in memory.
        assert!((of("optimizer states") / 2_454_817_792.0 - 1.0).abs() < 0.01);
        assert!(report.nvme.get("parameters").is_none());
        let both = super::Swapped { optimizer: 16.0, parameters: 2.0, ..super::Swapped::default() };
        assert!((both.total() - 18.0).abs() < 1e-12);
    }

    #[test]
    fn the_device_holds_the_same_wherever_the_states_are() {
        use Offload::{Optimizer, OptimizerNvme};
        let [host, drives] = [Optimizer, OptimizerNvme]
            .map(|offload| traced(Sharding::Zero3, &[offload], Nvme::default()).allocated);
        assert_eq!(host, drives);
        for (sharding, offload, real) in [
            (Sharding::Zero3, vec![Optimizer], 6_647_954_708.0),
            (Sharding::Zero3, vec![Optimizer, Offload::Param], 6_343_195_412.0),
            (Sharding::Zero2, vec![Optimizer], 6_317_322_512.0),
            (Sharding::Zero1, vec![Optimizer], 7_519_283_984.0),
        ] {
            let report = traced(sharding, &offload, Nvme::default());
            let off = report.allocated.get() / real - 1.0;
            assert!(off.abs() < 0.005, "{sharding} {offload:?} {off}");
        }
    }
}
