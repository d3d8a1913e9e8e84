//! One rank's arithmetic rates, reduced from the cluster and the recipe to plain numbers.

use super::efficiency::{self, Part};
use super::gemm::{Gemm, shape_efficiency};
use crate::cluster::Cluster;
use crate::workload::{AttentionKernel, Compute, Framework, Recipe};

/// Share of the nominal memory bandwidth that streaming kernels reach.
/// Source: 0.90 to 0.93 on A100 and H100 class parts (STREAM-like kernels), 0.85 on GDDR; less what
/// short kernels lose at their ends.
const STREAM: f64 = 0.82;
/// Idle time of the device between two kernels of one stream, in seconds.
const GAP: f64 = 2e-6;

/// Rates of one rank. Seconds, bytes per second and FLOP/s throughout.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Machine {
    /// Dense peak of the compute format.
    pub peak: f64,
    /// Rate of large matrix products in the compute format, sustained.
    pub matmul: f64,
    /// The same in the 16-bit (or wider) format that the head and the adapters use.
    pub matmul16: f64,
    /// Rate of the attention kernel with long sequences.
    pub attention: f64,
    /// Whether attention keeps its scores in memory.
    pub unfused_attention: bool,
    /// Multiprocessors.
    pub sms: f64,
    /// Memory bandwidth of streaming kernels.
    pub bandwidth: f64,
    /// Bytes of an activation.
    pub element: f64,
    /// Bytes of an operand of the low-precision products.
    pub operand: f64,
    /// Idle time between kernels.
    pub gap: f64,
    /// Reads of the cast that makes a low-precision operand, in bytes per element; 0 for none.
    pub cast_read: f64,
    /// Writes of that cast.
    pub cast_write: f64,
    /// Share of the best measured rate that training sustains, already in `matmul`.
    pub sustained: f64,
    /// The same, already in `matmul16`.
    pub sustained16: f64,
    /// Factor on the time the host takes to issue work.
    pub host: f64,
}

impl Machine {
    /// The rates of one rank of `cluster` under `recipe`.
    #[must_use]
    pub fn new(cluster: &Cluster, recipe: &Recipe) -> Self {
        let part = efficiency::part(cluster);
        let power = efficiency::power(&part, cluster);
        let (peak, fraction) = format(cluster, &part, recipe.compute);
        let wide = match recipe.compute {
            Compute::Fp8 | Compute::Mxfp8 | Compute::Nvfp4 => Compute::Bf16,
            other => other,
        };
        let (peak16, fraction16) = format(cluster, &part, wide);
        let kernel = kernel(recipe);
        let unfused = matches!(kernel, AttentionKernel::Eager | AttentionKernel::Math);
        let share = efficiency::attention(&part, kernel);
        let (operand, cast_read, cast_write) = match recipe.compute {
            Compute::Fp32 | Compute::Tf32 => (4.0, 0.0, 0.0),
            Compute::Bf16 | Compute::Fp16 => (2.0, 0.0, 0.0),
            // Scales of the tensor itself need a pass for the largest value first.
            Compute::Fp8 => (1.0, 4.0, 2.0),
            Compute::Mxfp8 => (1.0, 2.0, 2.0),
            Compute::Nvfp4 => (0.56, 3.0, 1.2),
        };
        Self {
            peak,
            matmul: peak * fraction * power,
            matmul16: peak16 * fraction16 * power,
            attention: peak16 * share * power,
            unfused_attention: unfused,
            sms: part.multiprocessors,
            bandwidth: cluster.memory_bandwidth.get() * STREAM,
            element: recipe.compute.activations().bytes(),
            operand,
            gap: GAP,
            cast_read,
            cast_write,
            sustained: if operand < 2.0 { part.sustained8 } else { part.sustained16 },
            sustained16: part.sustained16,
            host: 1.0,
        }
    }

    /// Seconds of a product in the compute format.
    #[must_use]
    pub fn product(&self, g: &Gemm) -> f64 {
        self.roof(g, self.matmul, self.operand)
    }

    /// Seconds of a product in the 16-bit format.
    #[must_use]
    pub fn product16(&self, g: &Gemm) -> f64 {
        self.roof(g, self.matmul16, self.element)
    }

    fn roof(&self, g: &Gemm, rate: f64, operand: f64) -> f64 {
        let flops = g.flops();
        if flops <= 0.0 {
            return 0.0;
        }
        (flops / (rate * shape_efficiency(g, self.sms))).max(self.stream(g.bytes(operand, self.element)))
    }

    /// Seconds to move `bytes` through memory.
    #[must_use]
    pub fn stream(&self, bytes: f64) -> f64 {
        bytes / self.bandwidth
    }
}

/// Peak and sustained share of it for large products in a format. A format the part has no units
/// for runs at the next wider one's rate.
fn format(cluster: &Cluster, part: &Part, compute: Compute) -> (f64, f64) {
    let p = &cluster.peaks;
    let of = |x: Option<crate::FlopsPerSecond>| x.map(crate::FlopsPerSecond::get);
    let fp32 = of(p.fp32).unwrap_or(1e13);
    let tf32 = of(p.tf32).unwrap_or(fp32);
    let half = of(p.bf16).or(of(p.fp16)).unwrap_or(tf32);
    let best = cluster.matmul_fraction.unwrap_or(0.7);
    match compute {
        Compute::Fp32 => (fp32, 0.85 * part.sustained16),
        Compute::Tf32 => (tf32, best * part.sustained16),
        Compute::Bf16 => (half, best * part.sustained16),
        Compute::Fp16 => (of(p.fp16).unwrap_or(half), best * part.sustained16),
        Compute::Fp8 | Compute::Mxfp8 | Compute::Nvfp4 => {
            let Some(peak8) = of(p.fp8) else { return (half, best * part.sustained16) };
            // The best of many shapes is a little above what one shape reaches.
            let measured = cluster.measured_fp8.map_or(best, |m| m.get() / peak8 * 0.985);
            match (compute, of(p.fp4)) {
                // Peaks above twice the fp8 rate do not show in training.
                (Compute::Nvfp4, Some(fp4)) => (fp4.min(2.0 * peak8), 0.9 * measured * part.sustained8),
                _ => (peak8, measured * part.sustained8),
            }
        }
    }
}

/// The attention kernel that really runs.
fn kernel(recipe: &Recipe) -> AttentionKernel {
    match (recipe.attention, recipe.framework) {
        // Megatron's default since Transformer Engine has its own kernels.
        (AttentionKernel::Sdpa, Framework::Megatron) => AttentionKernel::Te,
        (AttentionKernel::Sdpa, Framework::Megatron2021 | Framework::MegatronDeepSpeed) => {
            AttentionKernel::Eager
        }
        (AttentionKernel::Sdpa, _) if recipe.padding_mask => AttentionKernel::Efficient,
        // Flash kernels take 16-bit inputs only.
        (other, _) if recipe.compute.activations().bytes() > 2.0 && other != AttentionKernel::Eager => {
            AttentionKernel::Efficient
        }
        (AttentionKernel::Sdpa | AttentionKernel::Ring, _) => AttentionKernel::Flash2,
        (other, _) => other,
    }
}
