//! What a process holds on the device beyond its tensors: allocator slack, the CUDA context,
//! library workspaces, communicators. Each is a line of its own in the report.

use crate::layout::Layout;
use crate::quantity::GIB;
use crate::workload::{Framework, Recipe};

/// Bytes outside the tensors, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Outside {
    /// Blocks the caching allocator holds but no tensor uses at the peak.
    pub(super) cached: f64,
    /// CUDA context and library workspaces.
    pub(super) context: f64,
    /// Buffers of the communicators.
    pub(super) communicators: f64,
}

/// Context and workspaces, in GiB. Kernels load lazily from PyTorch 2.1 on; before, every kernel
/// of the libraries sat on the device (measured 1.3 on a V100 in 2022, 1.8 under PyTorch 1.10).
const CONTEXT_GIB: f64 = 0.75;
const CONTEXT_EAGER_GIB: f64 = 1.4;

/// NCCL's channel buffers per communicator, in GiB (NCCL user guide: buffers of 4 MiB per channel,
/// peer and direction, for up to 32 channels; readings of 8-GPU nodes).
const COMMUNICATOR_GIB: f64 = 0.55;

/// Share of the transient memory that the allocator holds beyond it at the peak, and of the memory
/// at rest. Source: medians of reserved over allocated in published readings that give both.
const SLACK_TRANSIENT: f64 = 0.12;
const SLACK_STATIC: f64 = 0.01;
/// Added where parameters are gathered and freed on streams of their own, each with its own pool.
const SLACK_STREAMS: f64 = 0.10;
/// The allocator before PyTorch 1.11 splits blocks of any size, which fragments more.
const SLACK_SPLITTING: f64 = 0.06;

/// Share of the cached blocks that the allocator cannot give back when memory runs out, because a
/// tensor sits in the same segment.
const UNRETURNED: f64 = 0.5;

impl Outside {
    /// Beside `total` bytes of tensors, of which `at_rest` stay between steps.
    pub(super) fn of(total: f64, at_rest: f64, recipe: &Recipe, layout: &Layout) -> Self {
        // No device context, no NCCL, no caching allocator: gloo's buffers are the tensors.
        if recipe.on_processor {
            return Self::default();
        }
        let transient = (total - at_rest).max(0.0);
        let streams = if layout.sharding.shards_parameters() { SLACK_STREAMS } else { 0.0 };
        let old = recipe.torch_before(1, 11);
        let splitting = if old { SLACK_SPLITTING } else { 0.0 };
        let groups = [
            layout.data_parallel() * layout.context_parallel,
            layout.tensor_parallel,
            layout.pipeline_parallel,
            layout.context_parallel,
            layout.expert_parallel,
        ];
        // An engine without PyTorch's kernel libraries has a leaner context.
        let context = if recipe.framework == Framework::Native {
            CONTEXT_GIB / 2.0
        } else if recipe.torch_before(2, 1) {
            CONTEXT_EAGER_GIB
        } else {
            CONTEXT_GIB
        };
        // Such an engine takes what it needs once.
        let caches = if recipe.framework == Framework::Native { 0.0 } else { 1.0 };
        let cached =
            transient * (SLACK_TRANSIENT + streams + splitting) + at_rest * (SLACK_STATIC + splitting);
        Self {
            cached: cached * caches,
            context: context * GIB,
            communicators: groups.into_iter().filter(|&n| n > 1).count() as f64 * COMMUNICATOR_GIB * GIB,
        }
    }

    /// Least memory of a step whose tensors peak at `total`: the allocator gives back the rest.
    pub(super) fn needed(&self, total: f64) -> f64 {
        total + self.cached * UNRETURNED + self.context + self.communicators
    }

    /// What the device shows in use.
    pub(super) fn device(&self, total: f64) -> f64 {
        total + self.cached + self.context + self.communicators
    }
}
