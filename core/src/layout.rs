//! One candidate way to split and schedule the work. The recipe says what is computed; the layout
//! how: nothing in it changes the mathematics of the training.

mod again;

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use crate::error::{Error, ErrorCode, Result, in_range};
pub use crate::pipeline::Schedule;
use crate::vocabulary::vocabulary;
pub use again::Again;

vocabulary! {
    /// How model states are spread over the data-parallel ranks.
    Sharding {
        /// One rank, or tensor and pipeline parallelism alone.
        None = "none",
        /// `DistributedDataParallel`: every rank keeps everything.
        Ddp = "ddp",
        /// DeepSpeed stage 1: optimizer states.
        Zero1 = "zero1",
        /// DeepSpeed stage 2: optimizer states and gradients.
        Zero2 = "zero2",
        /// DeepSpeed stage 3: everything.
        Zero3 = "zero3",
        /// FSDP1 `FULL_SHARD`: everything, gathered unit by unit.
        FullShard = "FULL_SHARD" | "fsdp1_full",
        /// FSDP1 `SHARD_GRAD_OP`: as `FULL_SHARD`, kept gathered between forward and backward.
        ShardGradOp = "SHARD_GRAD_OP" | "fsdp1_grad_op",
        /// FSDP1 `HYBRID_SHARD`: `FULL_SHARD` inside a group, replicas across groups.
        HybridShard = "HYBRID_SHARD",
        /// FSDP1 `_HYBRID_SHARD_ZERO2`: `SHARD_GRAD_OP` inside a group, replicas across groups.
        HybridShardZero2 = "_HYBRID_SHARD_ZERO2",
        /// FSDP1 `NO_SHARD`.
        NoShard = "NO_SHARD",
        /// FSDP2 `fully_shard`; with replicas, a 2-D mesh.
        Fsdp2 = "fsdp2",
        /// Megatron-Core's distributed optimizer.
        DistributedOptimizer = "distributed_optimizer" | "megatron_distopt",
    } default Fsdp2
}

impl Sharding {
    /// FSDP1 or FSDP2.
    #[must_use]
    pub const fn is_fsdp(self) -> bool {
        matches!(
            self,
            Self::FullShard
                | Self::ShardGradOp
                | Self::HybridShard
                | Self::HybridShardZero2
                | Self::NoShard
                | Self::Fsdp2
        )
    }

    /// DeepSpeed's ZeRO.
    #[must_use]
    pub const fn is_zero(self) -> bool {
        matches!(self, Self::Zero1 | Self::Zero2 | Self::Zero3)
    }

    /// Whether parameters rest sharded.
    #[must_use]
    pub const fn shards_parameters(self) -> bool {
        matches!(
            self,
            Self::Zero3
                | Self::FullShard
                | Self::ShardGradOp
                | Self::HybridShard
                | Self::HybridShardZero2
                | Self::Fsdp2
        )
    }

    /// Whether anything is sharded at all.
    #[must_use]
    pub const fn shards(self) -> bool {
        !matches!(self, Self::None | Self::Ddp | Self::NoShard)
    }
}

vocabulary! {
    /// How a sequence is split over the context-parallel group.
    ContextStyle {
        /// Keys and values pass around a ring (Liu 2023).
        Ring = "ring",
        /// All-to-all from sequence to heads and back (Jacobs 2023).
        AllToAll = "all_to_all" | "ulysses",
    } default Ring
}

vocabulary! {
    /// Which modules form one unit of FSDP.
    Wrap {
        /// Each layer; embedding, final norm and head together in the root.
        Layers = "layers",
        /// Each layer, the embedding, and the final norm with the head.
        LayersEmbedHead = "layers+embed+head",
        /// Each module of at least 1e8 parameters that are in no smaller unit; the rest in the root
        /// (FSDP1's `size_based_auto_wrap_policy`, Accelerate's `SIZE_BASED_WRAP`). It needs FSDP1 and a
        /// head with a table of its own.
        Size = "size",
        /// The whole model as one unit.
        Model = "model",
    } default Layers
}

vocabulary! {
    /// What backward recomputes instead of keeping.
    Recompute {
        /// Nothing.
        None = "none",
        /// The cheap parts of each layer (attention scores, activations; Korthikanti 2022).
        Selective = "selective",
        /// Every layer from its input (Chen 2016).
        Full = "full",
    } default None
}

vocabulary! {
    /// A part of a layer that selective recomputation runs again.
    RecomputeModule {
        /// Scores and probabilities of attention (Korthikanti 2022).
        CoreAttn = "core_attn",
        /// Query, key and value projections and rotary embeddings.
        Qkv = "qkv",
        /// All of attention, its projections too.
        Attention = "attention",
        /// Norms.
        Layernorm = "layernorm",
        /// The activation between the products of the feed-forward network.
        Activation = "activation" | "moe_act",
        /// The feed-forward network or the experts.
        Mlp = "mlp" | "moe",
    } default CoreAttn
}

vocabulary! {
    /// What leaves the device between uses.
    Offload {
        /// Parameters.
        Param = "param",
        /// Gradients.
        Gradient = "gradient",
        /// Optimizer states (the step runs on the CPU).
        Optimizer = "optimizer",
        /// Saved activations.
        Activation = "activation",
        /// Parameters, to the node's NVMe drives (DeepSpeed's ZeRO stage 3; Rajbhandari 2021).
        ParamNvme = "param_nvme",
        /// Optimizer states, to the node's NVMe drives; the step runs on the CPU.
        OptimizerNvme = "optimizer_nvme",
    } default Optimizer
}

impl Offload {
    /// The same, to the node's NVMe drives.
    const fn to_drives(self) -> Option<Self> {
        match self {
            Self::Param | Self::ParamNvme => Some(Self::ParamNvme),
            Self::Optimizer | Self::OptimizerNvme => Some(Self::OptimizerNvme),
            Self::Gradient | Self::Activation => None,
        }
    }

    /// Whether this is how it leaves the device when all that `may` leave does, for `drives` if it can.
    pub(crate) fn rests(self, drives: bool, may: &[Self]) -> bool {
        match self.to_drives() {
            None => true,
            Some(there) if there == self => drives,
            Some(there) => !(drives && may.contains(&there)),
        }
    }
}

vocabulary! {
    /// Whether an FSDP2 unit frees its gathered parameters between forward and backward.
    Reshard {
        /// Yes, but for the root, as PyTorch does unasked.
        Default = "default",
        /// Yes, the root too.
        Always = "always",
        /// No: gathered once, kept to the end of backward.
        Never = "never",
        /// To shards over [`Layout::reshard_within`] ranks (`reshard_after_forward` as a number).
        Node = "node",
    } default Default
}

/// One way to split and schedule the work. Degrees are torchtitan's.
///
/// ```
/// use shardwise::Layout;
/// let l = Layout { data_parallel_shard: 8, micro_batch: 2, ..Layout::default() };
/// assert_eq!((l.data_parallel(), l.world()), (8, 8));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Layout {
    /// How model states are spread.
    pub sharding: Sharding,
    /// Data-parallel replicas that do not share states (DDP ranks, or the outer mesh of HSDP).
    pub data_parallel_replicate: u64,
    /// Data-parallel ranks that share states; 0, or left out of a request, means all ranks that no
    /// other degree takes (for DDP these become replicas).
    #[serde(default = "rest")]
    pub data_parallel_shard: u64,
    /// Tensor-parallel ranks.
    pub tensor_parallel: u64,
    /// Whether norms and residuals are split along the sequence over the tensor ranks.
    pub sequence_parallel: bool,
    /// Whether embedding, head and loss are split by vocabulary over the tensor ranks.
    pub vocab_parallel: bool,
    /// Pipeline stages.
    pub pipeline_parallel: u64,
    /// Order of the micro-batches in the pipeline.
    pub pipeline_schedule: Schedule,
    /// Model chunks per pipeline rank.
    pub pipeline_chunks: u64,
    /// Ranks over which a sequence is split.
    pub context_parallel: u64,
    /// How it is split.
    pub context_style: ContextStyle,
    /// Ranks over which experts are spread (a part of the data-parallel ranks).
    pub expert_parallel: u64,
    /// Sequences a data-parallel rank works on at once.
    pub micro_batch: u64,
    /// What backward recomputes.
    pub recompute: Recompute,
    /// What selective recomputation runs again; empty means `core_attn`.
    pub recompute_modules: Vec<RecomputeModule>,
    /// Recompute every k-th layer only.
    pub recompute_every: u64,
    /// Recomputation's checkpoints are split over the tensor ranks (DeepSpeed's
    /// `partition_activations`).
    pub partition_activations: bool,
    /// What leaves the device between uses.
    pub offload: Vec<Offload>,
    /// FSDP2: whether units are freed between forward and backward.
    pub reshard_after_forward: Reshard,
    /// FSDP2: ranks over which a unit stays sharded between forward and backward under
    /// `reshard_after_forward` = `node`: PyTorch's whole number, as a rule the GPUs of a node.
    pub reshard_within: u64,
    /// FSDP: which modules form a unit.
    pub wrap: Wrap,
    /// DDP: gradients live in the communication buckets.
    pub gradient_as_bucket_view: bool,
    /// Gradients are reduced after every micro-batch, as PyTorch does unless the loop turns it off
    /// (`set_requires_gradient_sync` of FSDP2, `no_sync` of DDP and FSDP1); not only after the last, as trainers do.
    pub sync_every_micro_batch: bool,
}

const fn rest() -> u64 {
    0
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            sharding: Sharding::default(),
            data_parallel_replicate: 1,
            data_parallel_shard: 1,
            tensor_parallel: 1,
            sequence_parallel: false,
            vocab_parallel: true,
            pipeline_parallel: 1,
            pipeline_schedule: Schedule::default(),
            pipeline_chunks: 1,
            context_parallel: 1,
            context_style: ContextStyle::default(),
            expert_parallel: 1,
            micro_batch: 1,
            recompute: Recompute::default(),
            recompute_modules: Vec::new(),
            recompute_every: 1,
            partition_activations: false,
            offload: Vec::new(),
            reshard_after_forward: Reshard::default(),
            reshard_within: 8,
            wrap: Wrap::default(),
            gradient_as_bucket_view: false,
            sync_every_micro_batch: false,
        }
    }
}

impl Layout {
    /// Data-parallel ranks: the model copies that see different samples.
    #[must_use]
    pub const fn data_parallel(&self) -> u64 {
        self.data_parallel_replicate * self.data_parallel_shard
    }

    /// Accelerators the layout occupies.
    #[must_use]
    pub const fn world(&self) -> u64 {
        self.data_parallel() * self.tensor_parallel * self.pipeline_parallel * self.context_parallel
    }

    /// Ranks over which embedding, head and logits are split.
    #[must_use]
    pub const fn vocabulary_ranks(&self) -> u64 {
        if self.vocab_parallel { self.tensor_parallel } else { 1 }
    }

    /// Ranks over which a state that is sharded is spread: context-parallel ranks share it too.
    #[must_use]
    pub const fn shard_ranks(&self) -> u64 {
        self.data_parallel_shard * self.context_parallel
    }

    /// Ranks over which an FSDP2 unit stays sharded between forward and backward, where that is
    /// neither none nor all of those that share it.
    ///
    /// ```
    /// use shardwise::layout::{Layout, Reshard, Sharding};
    /// let l = Layout {
    ///     sharding: Sharding::Fsdp2,
    ///     data_parallel_shard: 64,
    ///     reshard_after_forward: Reshard::Node,
    ///     ..Layout::default()
    /// };
    /// assert_eq!(l.rests_within(), Some(8));
    /// assert_eq!(Layout { data_parallel_shard: 8, ..l }.rests_within(), None);
    /// ```
    #[must_use]
    pub fn rests_within(&self) -> Option<u64> {
        let partly = self.sharding == Sharding::Fsdp2 && self.reshard_after_forward == Reshard::Node;
        (partly && self.reshard_within < self.shard_ranks()).then_some(self.reshard_within)
    }

    /// Whether something named leaves the device, for the host or for its drives.
    #[must_use]
    pub fn offloads(&self, what: Offload) -> bool {
        self.offload.contains(&what) || self.swaps(what)
    }

    /// Whether it rests on the node's NVMe drives.
    ///
    /// ```
    /// use shardwise::layout::{Layout, Offload};
    /// let l = Layout { offload: vec![Offload::OptimizerNvme], ..Layout::default() };
    /// assert!(l.swaps(Offload::Optimizer) && l.offloads(Offload::Optimizer));
    /// assert!(!l.offloads(Offload::Param));
    /// ```
    #[must_use]
    pub fn swaps(&self, what: Offload) -> bool {
        what.to_drives().is_some_and(|drives| self.offload.contains(&drives))
    }

    /// Whether selective recomputation runs a part of the layers again.
    #[must_use]
    pub fn recomputes(&self, module: RecomputeModule) -> bool {
        let unsaid = self.recompute_modules.is_empty() && module == RecomputeModule::CoreAttn;
        self.recompute == Recompute::Selective && (unsaid || self.recompute_modules.contains(&module))
    }

    /// The layout with its data-parallel degrees filled in for `gpus` accelerators.
    ///
    /// # Errors
    /// Degrees out of range, or whose product is not `gpus`.
    pub fn resolve(mut self, gpus: u64) -> Result<Self> {
        if self.data_parallel_shard == 0 {
            self.data_parallel_shard = 1;
            self.in_ranges()?;
            let rest = gpus / self.world();
            if self.sharding.shards() {
                self.data_parallel_shard = rest.max(1);
            } else {
                self.data_parallel_replicate *= rest.max(1);
            }
        }
        self.validate()?;
        if self.world() == gpus {
            return Ok(self);
        }
        Err(Error::new(
            "data_parallel_shard",
            ErrorCode::Conflict,
            format!(
                "replicate {} x shard {} x tensor {} x pipeline {} x context {} = {}",
                self.data_parallel_replicate,
                self.data_parallel_shard,
                self.tensor_parallel,
                self.pipeline_parallel,
                self.context_parallel,
                self.world()
            ),
            format!("degrees whose product is the {gpus} accelerators of the cluster"),
        ))
    }

    /// Checks the ranges of the degrees.
    fn in_ranges(&self) -> Result<()> {
        for (name, degree) in [
            ("data_parallel_replicate", self.data_parallel_replicate),
            ("data_parallel_shard", self.data_parallel_shard),
            ("tensor_parallel", self.tensor_parallel),
            ("pipeline_parallel", self.pipeline_parallel),
            ("pipeline_chunks", self.pipeline_chunks),
            ("context_parallel", self.context_parallel),
            ("expert_parallel", self.expert_parallel),
            ("micro_batch", self.micro_batch),
            ("recompute_every", self.recompute_every),
        ] {
            in_range(name, degree as f64, 1.0, 1e6)?;
        }
        // One rank would hold all: that is `never`.
        in_range("reshard_within", self.reshard_within as f64, 2.0, 1e6)?;
        if self.world() > 10_000_000 {
            return Err(Error::new(
                "data_parallel_shard",
                ErrorCode::OutOfRange,
                self.world(),
                "a product of degrees of at most 10000000",
            ));
        }
        Ok(())
    }

    /// Checks the degrees, each by itself and together.
    pub(crate) fn validate(&self) -> Result<()> {
        self.in_ranges()?;
        if let Some(within) = self.rests_within()
            && !self.shard_ranks().is_multiple_of(within)
        {
            return Err(Error::new(
                "reshard_within",
                ErrorCode::Conflict,
                within,
                format!("a divisor of the {} ranks that share parameters", self.shard_ranks()),
            ));
        }
        let sharing = self.data_parallel() * self.context_parallel * self.tensor_parallel;
        if self.expert_parallel > 1 && !sharing.is_multiple_of(self.expert_parallel) {
            return Err(Error::new(
                "expert_parallel",
                ErrorCode::Conflict,
                self.expert_parallel,
                format!("a divisor of the {sharing} data x context x tensor ranks"),
            ));
        }
        Ok(())
    }
}
