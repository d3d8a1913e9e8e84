//! How the program runs beside the mathematics: which optional machinery is on. Every field has a
//! default; answers echo what was assumed.

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use super::nvme::Nvme;
use super::optimizer::Optimizer;
use crate::error::{Result, in_range};
use crate::vocabulary::vocabulary;

vocabulary! {
    /// How tokens travel to their experts.
    Dispatch {
        /// One copy per chosen expert.
        AllToAll = "all_to_all",
        /// One copy per node that holds a chosen expert (`DeepEP`, hybrid dispatch).
        Deduplicated = "deduplicated",
    } default AllToAll
}

vocabulary! {
    /// The library that moves tensors between ranks.
    Backend {
        /// NVIDIA's library; RCCL on AMD parts follows the same algorithms.
        Nccl = "nccl",
        /// AMD's library.
        Rccl = "rccl",
        /// Meta's library over TCP, through host memory.
        Gloo = "gloo",
        /// MPI, as Horovod uses it: through host memory unless the network reads the device.
        Mpi = "mpi" | "horovod",
    } default Nccl
}

vocabulary! {
    /// What is done to gradients before data-parallel ranks exchange them.
    Compression {
        /// Nothing.
        None = "none",
        /// Cast to 16 bits.
        Fp16 = "fp16",
        /// Quantised to 8 bits with block scales.
        Int8 = "int8",
        /// Low-rank factors of rank `compression_rank` (Vogels 2019).
        PowerSgd = "powersgd",
    } default None
}

/// How the program runs.
///
/// ```
/// use shardwise::workload::Runtime;
/// let r: Runtime = serde_json::from_str(r#"{"cuda_graphs": true}"#).unwrap();
/// assert!(r.cuda_graphs && r.loader_workers.is_none());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Runtime {
    /// Kernels are replayed from a recorded graph, so the host cannot be the limit.
    pub cuda_graphs: bool,
    /// How tokens travel to their experts.
    pub moe_dispatch: Dispatch,
    /// Expert traffic runs beside the compute of another micro-batch; none means: under an
    /// interleaved pipeline or `DualPipe`.
    pub moe_overlap: Option<bool>,
    /// Tensor-parallel traffic runs beside the matrix products it belongs to; none means what the
    /// framework does unasked.
    pub tensor_overlap: Option<bool>,
    /// Data-parallel and sharded-parameter traffic runs beside compute; none means what the framework
    /// does unasked.
    pub data_overlap: Option<bool>,
    /// Megatron's parameters rest and travel in 8 bits (`--fp8-param-gather`). Without, Transformer
    /// Engine keeps copies of the layers' weights in 8 bits beside them.
    pub fp8_param_gather: bool,
    /// Routing, permutation and weighting of expert tokens run as few fused kernels, token counts
    /// staying on the device.
    pub moe_fused: bool,
    /// Places per expert as a multiple of the mean load: tokens beyond are dropped, empty places are
    /// padded. None means dropless.
    pub moe_capacity_factor: Option<f64>,
    /// Load of the fullest expert-parallel rank as a multiple of the mean, when no token is dropped;
    /// none means 1.
    pub moe_imbalance: Option<f64>,
    /// Switches of the network sum all-reduces (SHARP).
    pub in_network_reduction: bool,
    /// The communication library.
    pub backend: Backend,
    /// What is done to gradients before they travel.
    pub compression: Compression,
    /// Rank of low-rank compression; none means 4.
    pub compression_rank: Option<u64>,
    /// Loader workers per rank; none means that data is always ready.
    pub loader_workers: Option<u64>,
    /// Samples that one worker prepares in a second; none means 2000 (packed, tokenised text).
    pub worker_samples_per_second: Option<f64>,
    /// Bytes read from storage per sample; none means 4 bytes a token.
    pub sample_bytes: Option<f64>,
    /// Samples that one accelerator decodes in a second, where decoding runs there (`DALI`, nvJPEG): workers
    /// then only read, and the decoder slows the compute beside it.
    pub gpu_decode_samples_per_second: Option<f64>,
    /// Relative spread (standard deviation) of the ranks' compute time; none means 0.
    pub jitter: Option<f64>,
    /// How states are swapped to NVMe drives.
    pub nvme: Nvme,
}

impl Runtime {
    /// Expert rows of the fullest of so many expert-parallel ranks, as a multiple of the mean.
    ///
    /// Source: Fedus 2021, section 2.2 (capacity factor).
    ///
    /// ```
    /// use shardwise::workload::Runtime;
    /// let uneven = Runtime { moe_imbalance: Some(1.5), ..Runtime::default() };
    /// assert_eq!((uneven.expert_load(1), uneven.expert_load(8)), (1.0, 1.5));
    /// let padded = Runtime { moe_capacity_factor: Some(1.25), ..uneven };
    /// assert_eq!((padded.expert_load(1), padded.expert_load(8)), (1.25, 1.25));
    /// ```
    #[must_use]
    pub fn expert_load(&self, expert_parallel: u64) -> f64 {
        match self.moe_capacity_factor {
            Some(capacity) => capacity,
            None if expert_parallel > 1 => self.moe_imbalance.unwrap_or(1.0),
            None => 1.0,
        }
    }

    /// Checks the ranges.
    pub(crate) fn validate(&self, optimizer: Optimizer) -> Result<()> {
        self.nvme.validate(optimizer)?;
        for (name, value, low, high) in [
            ("runtime.compression_rank", self.compression_rank.map(|x| x as f64), 1.0, 4096.0),
            ("runtime.moe_capacity_factor", self.moe_capacity_factor, 0.01, 1000.0),
            ("runtime.moe_imbalance", self.moe_imbalance, 1.0, 1000.0),
            ("runtime.loader_workers", self.loader_workers.map(|x| x as f64), 1.0, 4096.0),
            ("runtime.worker_samples_per_second", self.worker_samples_per_second, 1e-6, 1e9),
            ("runtime.sample_bytes", self.sample_bytes, 0.0, 1e12),
            ("runtime.gpu_decode_samples_per_second", self.gpu_decode_samples_per_second, 1e-6, 1e9),
            ("runtime.jitter", self.jitter, 0.0, 1.0),
        ] {
            if let Some(value) = value {
                in_range(name, value, low, high)?;
            }
        }
        Ok(())
    }
}
