//! The training recipe: method, number formats, kernels, optimizer: what is computed,
//! whatever way it is split. Every field has a
//! default; the defaults are what PyTorch and Transformers do when nothing is asked.

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use super::optimizer::Optimizer;
use super::runtime::Runtime;
use crate::error::{Error, ErrorCode, Result, in_range};
use crate::vocabulary::vocabulary;

vocabulary! {
    /// A number format of stored tensors.
    Dtype {
        /// 32-bit floating point.
        Fp32 = "fp32" | "float32",
        /// 16-bit brain floating point.
        Bf16 = "bf16" | "bfloat16",
        /// 16-bit IEEE floating point.
        Fp16 = "fp16" | "float16",
    } default Fp32
}

impl Dtype {
    /// Bytes of one element.
    #[must_use]
    pub const fn bytes(self) -> f64 {
        match self {
            Self::Fp32 => 4.0,
            Self::Bf16 | Self::Fp16 => 2.0,
        }
    }
}

vocabulary! {
    /// The number format of the matrix multiplications.
    Compute {
        /// 32-bit floating point.
        Fp32 = "fp32",
        /// TF32 tensor cores on 32-bit tensors.
        Tf32 = "tf32",
        /// 16-bit brain floating point.
        Bf16 = "bf16" | "bfloat16",
        /// 16-bit IEEE floating point.
        Fp16 = "fp16" | "float16",
        /// 8-bit floating point with one scale per tensor.
        Fp8 = "fp8",
        /// 8-bit floating point with one scale per block (Blackwell).
        Mxfp8 = "mxfp8",
        /// 4-bit floating point with block scales (Blackwell).
        Nvfp4 = "nvfp4",
    } default Bf16
}

impl Compute {
    /// The format in which activations pass between operations.
    #[must_use]
    pub const fn activations(self) -> Dtype {
        match self {
            Self::Fp32 | Self::Tf32 => Dtype::Fp32,
            Self::Fp16 => Dtype::Fp16,
            Self::Bf16 | Self::Fp8 | Self::Mxfp8 | Self::Nvfp4 => Dtype::Bf16,
        }
    }
}

vocabulary! {
    /// What is trained.
    Method {
        /// Every parameter.
        Full = "full",
        /// Low-rank adapters on a frozen base (Hu 2021).
        Lora = "lora",
        /// Low-rank adapters on a frozen quantised base (Dettmers 2023).
        Qlora = "qlora",
        /// Every parameter, through fake quantisation.
        Qat = "qat",
        /// Low-rank adapters with the base fake-quantised.
        QatLora = "qat_lora",
    } default Full
}

vocabulary! {
    /// The kind of adapter.
    AdapterKind {
        /// `x W + (x A) B`; rsLoRA differs in the scale only, which costs nothing.
        Lora = "lora" | "rslora",
        /// LoRA with a learned magnitude per output (Liu 2024).
        Dora = "dora",
    } default Lora
}

vocabulary! {
    /// How the frozen base of QLoRA is stored.
    BaseQuantization {
        /// 4-bit normal floats, blocks of 64.
        Nf4 = "nf4",
        /// 4-bit floats, blocks of 64.
        Fp4 = "fp4",
        /// 8-bit integers with one scale per row (bitsandbytes LLM.int8).
        Int8 = "int8",
        /// 4-bit integers in groups of 128 (GPTQ).
        GptqInt4 = "gptq_int4",
    } default Nf4
}

vocabulary! {
    /// What quantisation-aware training imitates.
    QatScheme {
        /// 4-bit weights in groups, 16-bit activations.
        Int4WeightOnly = "int4_weight_only",
        /// 8-bit activations per token, 4-bit weights in groups.
        Int8DynamicInt4Weight = "int8_dynamic_int4_weight",
        /// 8-bit floating weights and activations.
        Fp8 = "fp8",
    } default Int8DynamicInt4Weight
}

vocabulary! {
    /// Whose training loop runs: it decides which states are kept and how communication is issued.
    Framework {
        /// PyTorch's own optimizers with DDP or FSDP, Transformers models.
        Torch = "torch" | "hf" | "accelerate",
        /// DeepSpeed's 16-bit engine with flat fp32 partitions.
        DeepSpeed = "deepspeed",
        /// Megatron-Core: fp32 main parameters and gradients, fused kernels.
        Megatron = "megatron",
        /// Megatron-LM of 2021-22: unfused attention, no overlap.
        Megatron2021 = "megatron_2021",
        /// Megatron-DeepSpeed of 2021-22: the same under DeepSpeed's engine, whose fp32 gradients
        /// exist only during the optimizer step.
        MegatronDeepSpeed = "megatron_deepspeed",
        /// torchtitan: compiled PyTorch with FSDP2.
        Torchtitan = "torchtitan",
        /// torchtune: PyTorch recipes with its own models.
        Torchtune = "torchtune",
        /// LitGPT: Lightning Fabric with its own models.
        LitGpt = "litgpt",
        /// Composer / LLM Foundry: FSDP1 with its own models.
        Composer = "composer",
        /// JAX programs compiled by XLA (`MaxText`, Levanter, Pax).
        Jax = "jax",
        /// Engines written in C and CUDA (llm.c, llm.q).
        Native = "native",
    } default Torch
}

impl Framework {
    /// 16-bit parameters with fp32 main copies in the optimizer, whatever `params_dtype` says.
    #[must_use]
    pub const fn keeps_master_weights(self) -> bool {
        matches!(self, Self::DeepSpeed | Self::Megatron | Self::Megatron2021 | Self::MegatronDeepSpeed)
    }
}

vocabulary! {
    /// Which implementation of norms, activations and rotary embeddings runs.
    Kernels {
        /// One PyTorch kernel per operation, as Transformers writes them.
        Eager = "eager",
        /// Hand-fused kernels (Liger, Unsloth, Transformer Engine, Megatron).
        Fused = "fused",
        /// `torch.compile`.
        Compiled = "compiled",
    } default Eager
}

vocabulary! {
    /// The attention kernel.
    AttentionKernel {
        /// Scores and probabilities in memory.
        Eager = "eager",
        /// PyTorch's choice: flash where it can run, else memory-efficient.
        Sdpa = "sdpa",
        /// PyTorch's memory-efficient kernel.
        Efficient = "efficient",
        /// PyTorch's math fallback.
        Math = "math",
        /// The first flash-attention kernels.
        Flash1 = "flash1",
        /// FlashAttention-2.
        Flash2 = "flash2" | "flash",
        /// FlashAttention-3.
        Flash3 = "flash3",
        /// cuDNN through Transformer Engine.
        Te = "te",
        /// FlexAttention.
        Flex = "flex",
        /// Ring attention over the context-parallel group.
        Ring = "ring",
        /// Block-sparse patterns.
        BlockSparse = "block_sparse",
    } default Sdpa
}

vocabulary! {
    /// How the cross-entropy is computed.
    LossKernel {
        /// Transformers' own: logits cast to fp32, log-softmax in PyTorch.
        Eager = "eager",
        /// A fused cross-entropy kernel on whole logits.
        Fused = "fused",
        /// A fused kernel that reads the logits in the compute type and writes their gradient over
        /// them (Unsloth, flash-attention's cross-entropy).
        FusedInPlace = "fused_in_place",
        /// Head and cross-entropy fused, logits never whole (Liger).
        FusedLinear = "fused_linear",
        /// Head and loss run chunk by chunk (`loss_chunks`).
        HeadChunked = "head_chunked",
        /// Whole logits, loss chunk by chunk.
        Chunked = "chunked",
        /// Each tensor rank holds its share of the vocabulary.
        VocabParallel = "vocab_parallel",
        /// `torch.compile`d cross-entropy.
        Compiled = "compiled",
    } default Eager
}

/// Low-rank adapters. `alpha` only scales the update: it costs neither memory nor time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Lora {
    /// Kind of adapter.
    pub kind: AdapterKind,
    /// Rank, 1 to 65,536.
    pub rank: u64,
    /// Linear layers that get an adapter: module names as `q_proj`, or the one word `all-linear`
    /// (every linear layer but the head).
    pub targets: Vec<String>,
    /// Format of the adapters. PEFT keeps them in fp32 by default.
    pub dtype: Dtype,
    /// Whether the adapters' dropout is above zero.
    pub dropout: bool,
    /// Modules trained in full beside the adapters, as `embed_tokens`, `lm_head`.
    pub modules_to_save: Vec<String>,
}

impl Default for Lora {
    fn default() -> Self {
        Self {
            kind: AdapterKind::Lora,
            rank: 16,
            targets: vec!["all-linear".to_owned()],
            dtype: Dtype::Fp32,
            dropout: false,
            modules_to_save: Vec::new(),
        }
    }
}

/// Quantisation-aware training.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Qat {
    /// What is imitated.
    pub scheme: QatScheme,
    /// Elements per weight scale; none means the scheme's usual (32 for int8-dynamic int4-weight,
    /// 128 for int4 weight-only, one scale per row for fp8).
    pub group: Option<u64>,
}

/// Releases of the libraries that train. None means the newest known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Versions {
    /// PyTorch, as `2.4.1`.
    pub torch: Option<String>,
    /// Transformers, as `4.45.2`.
    pub transformers: Option<String>,
}

/// Major and minor release of a version text.
fn release(text: &str) -> Option<(u64, u64)> {
    let mut parts = text.split(['.', '+', 'a', 'b', 'r', 'd']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn before(version: Option<&str>, major: u64, minor: u64) -> bool {
    version.and_then(release).is_some_and(|v| v < (major, minor))
}

/// The training recipe.
///
/// ```
/// use shardwise::Recipe;
/// let recipe: Recipe = serde_json::from_str(r#"{"optimizer": "adamw_fused"}"#).unwrap();
/// assert_eq!(recipe.compute.name(), "bf16");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Recipe {
    /// What is trained.
    pub method: Method,
    /// Adapters, for the LoRA methods.
    pub lora: Lora,
    /// How a quantised base is stored, for QLoRA.
    pub base_quantization: BaseQuantization,
    /// Whether QLoRA's scales are quantised again; none means yes.
    pub double_quantization: Option<bool>,
    /// Whether the base went through PEFT's `prepare_model_for_kbit_training`, which lifts norms and
    /// embeddings to fp32.
    pub kbit_preparation: bool,
    /// Fake quantisation, for the QAT methods.
    pub qat: Qat,
    /// Whose training loop runs.
    pub framework: Framework,
    /// Format the parameters are stored in; none means fp32 for full training (mixed precision)
    /// and the compute format for a frozen base.
    pub params_dtype: Option<Dtype>,
    /// Format of the matrix multiplications.
    pub compute: Compute,
    /// Whether `torch.autocast` casts fp32 parameters at use; none means: when parameters are
    /// fp32, compute is not, and no FSDP mixed-precision policy does it instead.
    pub autocast: Option<bool>,
    /// Format in which gradients are reduced across data-parallel ranks; none means fp32 under
    /// FSDP mixed precision, else the parameters' format.
    pub reduce_dtype: Option<Dtype>,
    /// Implementation of norms, activations and rotary embeddings; none means fused where the
    /// framework brings its own (Megatron-Core, native engines), else eager.
    pub kernels: Option<Kernels>,
    /// Attention kernel.
    pub attention: AttentionKernel,
    /// Cross-entropy implementation.
    pub loss: LossKernel,
    /// Chunks of a chunked loss; none means 8.
    pub loss_chunks: Option<u64>,
    /// Whether the script drops the logits before backward.
    pub drop_logits: bool,
    /// Optimizer.
    pub optimizer: Optimizer,
    /// Whether each gradient is applied and freed during backward.
    pub optimizer_in_backward: bool,
    /// Releases of the libraries, where memory depends on them.
    pub versions: Versions,
    /// Gradients stay allocated between steps (`zero_grad(set_to_none=False)`).
    pub keep_gradients: bool,
    /// Keeps an exponential moving average of the parameters.
    pub ema: bool,
    /// Batches carry a padding mask (which switches PyTorch's flash kernel off).
    pub padding_mask: bool,
    /// Dropout probabilities of the model's config are set to zero.
    pub no_dropout: bool,
    /// How the program runs beside the mathematics.
    pub runtime: Runtime,
    /// Runs on processors, without an accelerator's context, libraries and allocator: what the
    /// machines say, so no part of a request.
    #[serde(skip)]
    pub on_processor: bool,
}

impl Recipe {
    /// Checks what types cannot: ranges and contradictions.
    pub(crate) fn validate(&self) -> Result<()> {
        self.runtime.validate(self.optimizer)?;
        in_range("lora.rank", self.lora.rank as f64, 1.0, 65_536.0)?;
        if let Some(chunks) = self.loss_chunks {
            in_range("loss_chunks", chunks as f64, 1.0, 1e6)?;
        }
        if let Some(group) = self.qat.group {
            in_range("qat.group", group as f64, 1.0, 1e6)?;
        }
        for (field, version) in
            [("versions.torch", &self.versions.torch), ("versions.transformers", &self.versions.transformers)]
        {
            if let Some(text) = version.as_ref().filter(|text| release(text).is_none()) {
                let given = format!("\"{text}\"");
                return Err(Error::new(field, ErrorCode::OutOfRange, given, "a release as 2.4 or 2.4.1"));
            }
        }
        if self.autocast == Some(true) && matches!(self.compute, Compute::Fp32 | Compute::Tf32) {
            return Err(Error::new(
                "autocast",
                ErrorCode::Conflict,
                "true with compute in fp32",
                "autocast only with a 16-bit or smaller compute format",
            ));
        }
        if self.runtime.fp8_param_gather && !self.transformer_engine_eight_bit() {
            return Err(Error::new(
                "runtime.fp8_param_gather",
                ErrorCode::Conflict,
                format!("true with {} under {}", self.compute, self.framework),
                "8-bit parameters only with compute in fp8 or mxfp8 under megatron",
            ));
        }
        Ok(())
    }

    /// Whether Transformer Engine multiplies in 8 bits from one micro-batch to the next.
    pub(crate) fn transformer_engine_eight_bit(&self) -> bool {
        self.framework == Framework::Megatron && matches!(self.compute, Compute::Fp8 | Compute::Mxfp8)
    }

    /// Whether PyTorch is declared older than this release.
    #[must_use]
    pub fn torch_before(&self, major: u64, minor: u64) -> bool {
        before(self.versions.torch.as_deref(), major, minor)
    }

    /// Whether Transformers is declared older than this release.
    #[must_use]
    pub fn transformers_before(&self, major: u64, minor: u64) -> bool {
        before(self.versions.transformers.as_deref(), major, minor)
    }

    /// Whether the base model's weights are frozen.
    #[must_use]
    pub fn frozen_base(&self) -> bool {
        matches!(self.method, Method::Lora | Method::Qlora | Method::QatLora)
    }

    /// Whether `torch.autocast` casts fp32 tensors at use. `policy` says that a mixed-precision
    /// policy of FSDP casts parameters instead.
    #[must_use]
    pub fn autocasts(&self, policy: bool) -> bool {
        let sixteen_bit = self.compute.activations() != Dtype::Fp32;
        self.autocast.unwrap_or(
            sixteen_bit && self.params() == Dtype::Fp32 && !policy && !self.framework.keeps_master_weights(),
        )
    }

    /// Whether an adapter sits on the linear layer of that name.
    #[must_use]
    pub fn adapts(&self, name: &str) -> bool {
        self.frozen_base()
            && self.lora.targets.iter().any(|t| t == name || (t == "all-linear" && name != "lm_head"))
            && !self.saves_module(name)
    }

    /// Whether the module of that name is trained in full beside the adapters.
    #[must_use]
    pub fn saves_module(&self, name: &str) -> bool {
        self.frozen_base() && self.lora.modules_to_save.iter().any(|t| t == name)
    }

    /// Which implementation of norms, activations and rotary embeddings runs.
    #[must_use]
    pub const fn kernels(&self) -> Kernels {
        match (self.kernels, self.framework) {
            (Some(given), _) => given,
            (None, Framework::Megatron | Framework::Native) => Kernels::Fused,
            (None, _) => Kernels::Eager,
        }
    }

    /// The format the parameters are stored in.
    #[must_use]
    pub fn params(&self) -> Dtype {
        self.params_dtype.unwrap_or(if self.frozen_base() { self.compute.activations() } else { Dtype::Fp32 })
    }
}

/// How many sequences of what length one optimizer step sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Tokens per sequence.
    pub seq_len: u64,
    /// Sequences per optimizer step, all ranks together.
    pub global_batch: u64,
}

impl Batch {
    /// Micro-batches a data-parallel rank runs per step.
    #[must_use]
    pub fn accumulation(&self, data_parallel: u64, micro_batch: u64) -> u64 {
        self.global_batch.div_ceil((data_parallel * micro_batch).max(1)).max(1)
    }
}
