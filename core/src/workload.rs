//! What is trained: the model as blocks of operations, and the recipe of the training.
//! Nothing here knows any hardware.

mod block;
mod config;
mod families;
mod model;
mod nvme;
mod optimizer;
mod presets;
mod recipe;
mod runtime;
mod traced;

pub use block::{
    Act, Attention, AttentionBias, Block, BlockBuilder, BlockKind, Experts, ExpertsKind, INPUT, Linear,
    MEMORY, Norm, NormKind, Op, OpKind, Rotary, RotaryKind, Router, RouterKind, Scan, Slot, Split, Stream,
    Table,
};
#[cfg(feature = "proptest")]
pub(crate) use families::names as family_names;
pub use model::{Model, ModelSpec, ModelSummary, ParameterCounts};
pub use nvme::Nvme;
pub use optimizer::Optimizer;
pub(crate) use optimizer::{Home, Temporaries};
pub use presets::{preset_config, preset_names};
pub use recipe::{
    AdapterKind, AttentionKernel, BaseQuantization, Batch, Compute, Dtype, Framework, Kernels, Lora,
    LossKernel, Method, Qat, QatScheme, Recipe, Versions,
};
pub use runtime::{Backend, Compression, Dispatch, Runtime};
pub use traced::{BytesLine, Regimes, TracedBytes, TracedInstant, TracedPart, TracedPeaks};
