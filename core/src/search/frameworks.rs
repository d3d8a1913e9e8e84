//! What each framework runs together, as its current release documents it.

use crate::layout::{Layout, Offload, Recompute, Schedule, Sharding};
use crate::workload::Framework;

/// What one framework can run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Profile {
    /// How the field names it.
    pub name: &'static str,
    /// Sharding strategies it has, in the order in which the search tries them.
    pub shardings: &'static [Sharding],
    /// Pipeline schedules; none where it has no pipeline.
    pub schedules: &'static [Schedule],
    /// Whether it splits tensors.
    pub tensor: bool,
    /// Whether norms and residuals are split along the sequence over its tensor ranks.
    pub sequence: bool,
    /// Whether it recomputes parts of a layer alone.
    pub selective: bool,
    /// Whether it splits sequences.
    pub context: bool,
    /// Whether it spreads experts.
    pub expert: bool,
    /// Whether adapters run beside split tensors and pipelines.
    pub adapters_split: bool,
}

const TORCH: &[Sharding] = &[
    Sharding::Ddp,
    Sharding::Zero1,
    Sharding::Zero2,
    Sharding::Zero3,
    Sharding::FullShard,
    Sharding::ShardGradOp,
    Sharding::NoShard,
    Sharding::Fsdp2,
    Sharding::HybridShard,
];
const FSDP1: &[Sharding] =
    &[Sharding::Ddp, Sharding::FullShard, Sharding::ShardGradOp, Sharding::NoShard, Sharding::HybridShard];
const PIPELINING: &[Schedule] = &[
    Schedule::OneFOneB,
    Schedule::Interleaved,
    Schedule::ZeroBubbleH1,
    Schedule::ZeroBubbleV,
    Schedule::Gpipe,
];

/// What a framework can run.
///
/// Sources, read 2026: PyTorch `torch.distributed` (`fsdp`, `pipelining`, `tensor`); torchtitan
/// `parallelize.py` (DDP runs alone) and its composability table; DeepSpeed `PipelineEngine` (no
/// stage 2 or 3 beside a pipeline); Megatron-Core's parallelism guide and `schedules.py`. Megatron-LM of 2021
/// and what was built on it came before sequence parallelism and selective recomputation (Korthikanti
/// 2022); `DeepSpeed`'s tensor parallelism keeps whole sequences.
///
/// ```
/// use shardwise::layout::Sharding;
/// use shardwise::search::profile;
/// use shardwise::workload::Framework;
/// assert!(!profile(Framework::Megatron).shardings.contains(&Sharding::Fsdp2));
/// ```
#[must_use]
pub const fn profile(framework: Framework) -> Profile {
    const NONE: Profile = Profile {
        name: "",
        shardings: TORCH,
        schedules: &[],
        tensor: false,
        sequence: true,
        selective: true,
        context: false,
        expert: false,
        adapters_split: false,
    };
    match framework {
        Framework::Torch => {
            Profile { name: "PyTorch", schedules: PIPELINING, tensor: true, context: true, ..NONE }
        }
        Framework::Torchtitan => Profile {
            name: "torchtitan",
            shardings: &[Sharding::Ddp, Sharding::Fsdp2],
            schedules: PIPELINING,
            tensor: true,
            context: true,
            expert: true,
            ..NONE
        },
        Framework::Torchtune => Profile {
            name: "torchtune",
            shardings: &[Sharding::Ddp, Sharding::Fsdp2],
            tensor: true,
            context: true,
            ..NONE
        },
        Framework::LitGpt => Profile { name: "LitGPT", shardings: FSDP1, ..NONE },
        Framework::Composer => Profile { name: "Composer", shardings: FSDP1, ..NONE },
        Framework::DeepSpeed => Profile {
            name: "DeepSpeed",
            sequence: false,
            shardings: &[Sharding::Ddp, Sharding::Zero1, Sharding::Zero2, Sharding::Zero3],
            schedules: &[Schedule::OneFOneB],
            tensor: true,
            context: true,
            expert: true,
            ..NONE
        },
        Framework::Megatron => Profile {
            name: "Megatron-Core",
            shardings: &[Sharding::Ddp, Sharding::DistributedOptimizer],
            schedules: &[Schedule::OneFOneB, Schedule::Interleaved],
            tensor: true,
            context: true,
            expert: true,
            adapters_split: true,
            ..NONE
        },
        Framework::Megatron2021 => Profile {
            name: "Megatron-LM of 2021",
            sequence: false,
            selective: false,
            shardings: &[Sharding::Ddp, Sharding::DistributedOptimizer],
            schedules: &[Schedule::OneFOneB, Schedule::Interleaved],
            tensor: true,
            ..NONE
        },
        Framework::MegatronDeepSpeed => Profile {
            name: "Megatron-DeepSpeed",
            sequence: false,
            selective: false,
            shardings: &[Sharding::Ddp, Sharding::Zero1, Sharding::DistributedOptimizer],
            schedules: &[Schedule::OneFOneB],
            tensor: true,
            expert: true,
            ..NONE
        },
        Framework::Jax => Profile {
            name: "JAX",
            shardings: &[Sharding::Ddp, Sharding::Zero1, Sharding::Fsdp2],
            schedules: &[Schedule::Gpipe, Schedule::OneFOneB, Schedule::Interleaved],
            tensor: true,
            context: true,
            expert: true,
            adapters_split: true,
            ..NONE
        },
        Framework::Native => Profile {
            name: "the C and CUDA engine",
            shardings: &[Sharding::Ddp, Sharding::Zero1, Sharding::Zero2, Sharding::Zero3],
            ..NONE
        },
    }
}

impl Profile {
    /// What of `layout` the framework does not run, in words; none when it runs all of it.
    pub(super) fn lacks(&self, l: &Layout) -> Option<&'static str> {
        [
            (l.tensor_parallel > 1 && !self.tensor, "tensor parallelism"),
            (l.context_parallel > 1 && !self.context, "context parallelism"),
            (l.expert_parallel > 1 && !self.expert, "expert parallelism"),
            (l.sequence_parallel && l.tensor_parallel > 1 && !self.sequence, "sequence parallelism"),
            (l.recompute == Recompute::Selective && !self.selective, "selective recomputation"),
            (l.pipeline_parallel > 1 && self.schedules.is_empty(), "pipelines"),
            (
                l.sharding != Sharding::None && !self.shardings.contains(&family(l.sharding)),
                "that sharding strategy",
            ),
        ]
        .into_iter()
        .find(|(lacking, _)| *lacking)
        .map(|(_, what)| what)
    }
}

/// A framework that has the one has the other.
const fn family(s: Sharding) -> Sharding {
    if matches!(s, Sharding::HybridShardZero2) { Sharding::HybridShard } else { s }
}

/// What a strategy does not run beside, in words.
///
/// Sources: DeepSpeed `PipelineEngine` ("ZeRO-2 and ZeRO-3 are incompatible with pipeline
/// parallelism"); torchtitan ("DDP has not supported > 1D parallelism"); PyTorch: FSDP1 does not
/// compose with `torch.distributed.pipelining` and the context-parallel mesh; Accelerate runs
/// DeepSpeed as the only dimension.
pub(super) fn apart(framework: Framework, l: &Layout) -> Option<&'static str> {
    let (tensor, context) = (l.tensor_parallel > 1, l.context_parallel > 1);
    let pipeline = l.pipeline_parallel > 1;
    let torch = matches!(
        framework,
        Framework::Torch
            | Framework::Torchtitan
            | Framework::Torchtune
            | Framework::LitGpt
            | Framework::Composer
    );
    match l.sharding {
        Sharding::Zero2 | Sharding::Zero3 if pipeline => Some("a pipeline"),
        Sharding::Zero1 | Sharding::Zero2 | Sharding::Zero3 if torch && (tensor || context || pipeline) => {
            Some("tensor, context or pipeline parallelism")
        }
        Sharding::Zero3 if tensor => Some("tensor parallelism"),
        Sharding::Ddp if torch && (tensor || context || pipeline) => {
            Some("tensor, context or pipeline parallelism")
        }
        Sharding::FullShard
        | Sharding::ShardGradOp
        | Sharding::HybridShard
        | Sharding::HybridShardZero2
        | Sharding::NoShard
            if context || pipeline =>
        {
            Some("context or pipeline parallelism")
        }
        _ => None,
    }
}

/// What is offloaded that nothing can offload under the layout's strategy, in words.
///
/// Sources: DeepSpeed ZeRO-Offload (optimizer from stage 1, parameters in stage 3; stages 1 and 2 take
/// `nvme` for `cpu`); PyTorch
/// `CPUOffloadPolicy` and `CPUOffload` (all states of FSDP).
pub(super) fn kept_on_device(l: &Layout) -> Option<&'static str> {
    let sharded = l.sharding.shards();
    let three = l.sharding == Sharding::Zero3 || l.sharding.is_fsdp() && l.sharding.shards_parameters();
    let swapped = l.swaps(Offload::Optimizer) || l.swaps(Offload::Param);
    [
        (swapped && l.sharding != Sharding::Zero3, "to NVMe drives but ZeRO stage 3"),
        (l.offloads(Offload::Optimizer) && !sharded, "optimizer states that are not sharded"),
        (l.offloads(Offload::Param) && !three, "parameters that are not sharded"),
        (l.offloads(Offload::Gradient) && !sharded, "gradients that are not sharded"),
    ]
    .into_iter()
    .find(|(lacking, _)| *lacking)
    .map(|(_, what)| what)
}
