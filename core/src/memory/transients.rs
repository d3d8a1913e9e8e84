//! What sharding adds for a moment: gathered units, unsharded gradients, reduction buffers.

use super::fsdp::Fsdp;
use super::rules::Mode;
use super::states::{Divisors, States, base_bytes};
use super::timeline::Run;
use super::weights::BlockWeights;
use crate::layout::{Layout, Offload, Sharding};
use crate::workload::{BlockKind, Dtype, Framework, Recipe};

/// One block as sharding sees it, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Unit {
    /// Its parameters gathered; 0 when it belongs to the root unit, which stays gathered.
    pub(super) gathered: f64,
    /// Its parameters when they stay gathered from forward to its backward.
    pub(super) resident: f64,
    /// Input of its reduce-scatter, kept until the next unit's.
    pub(super) reduced: f64,
    /// FSDP1: the one tensor that its gradients are copied into when all are made.
    pub(super) flat: f64,
    /// FSDP1: that tensor in the type of the reduction, and the shard that comes of it.
    pub(super) cast: f64,
    /// Its gradients, once its backward is over.
    pub(super) gradients: f64,
    /// Of a block's gradients, those that are not there at the end of its fullest unit's backward.
    pub(super) absent: f64,
    /// Shards of the gradients of its units that are reduced by then.
    pub(super) done: f64,
    /// The unit of the same block that is gathered ahead of the fullest.
    pub(super) ahead: f64,
    /// None of its inputs wants a gradient, so that `FSDP2` meets no hook at the end of its backward: its
    /// parameters stay gathered and its gradients whole until the whole backward is over.
    ///
    /// Source: torch.distributed.fsdp `_fully_shard/_fsdp_param_group.py`
    /// (`_register_post_backward_hook`) and `_fsdp_state.py` (`_root_post_backward_final_callback`).
    pub(super) late: bool,
    /// Its gradients, once they are reduced.
    pub(super) reduced_gradients: f64,
}

impl Unit {
    /// What its own gather adds: the shards that it is gathered from are let go.
    pub(super) fn unsharded(&self) -> f64 {
        (self.gathered - self.resident).max(0.0)
    }
}

/// What of the sharding does not belong to one block.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Transients {
    /// The root unit, gathered from forward to the end of backward.
    pub(super) root: f64,
    /// What is in no other unit, where that is a unit around layers and embedding: gathered while they
    /// run, let go in between.
    pub(super) body: f64,
    /// Its gradients, whole until its backward is over, and their shard.
    pub(super) body_gradients: f64,
    pub(super) body_shard: f64,
    /// The end of its backward, beside the root.
    pub(super) body_reduction: f64,
    /// The root unit as it is gathered anew for backward, where forward lets it go: the buffer of the
    /// gather, the parameters copied out of it, and the shards they come from if those are larger.
    pub(super) root_again: f64,
    /// Units that stay gathered between forward and backward.
    pub(super) resident: f64,
    /// Gather buffer of the last unit at the end of forward.
    pub(super) left: f64,
    /// The same, or the last unit gathered ahead, while the loss runs backward.
    pub(super) ahead: f64,
    /// The root's gradients, whole until the end of backward.
    pub(super) root_gradients: f64,
    /// The same with the input of their reduction.
    pub(super) root_reduction: f64,
    /// Gradients that are there before backward: of earlier micro-batches, or never freed.
    pub(super) accumulated: f64,
    /// Bucket of gradients on their way, during backward.
    pub(super) bucket: f64,
    /// Flattened gradients at the end of backward.
    pub(super) flattened: f64,
    /// Inputs of finished layers and their gradients stay to the end of backward.
    pub(super) holds_inputs: bool,
}

/// Whether every weight gradient is added to one that is there already and freed at once, instead
/// of staying until its block is done.
pub(super) fn gradients_join(recipe: &Recipe, layout: &Layout, accumulates: bool) -> bool {
    let in_buckets = layout.sharding == Sharding::Ddp && layout.gradient_as_bucket_view;
    let gathers = layout.sharding.is_fsdp();
    // DeepSpeed's stages 2 and 3 move each gradient to the bucket.
    let moved = matches!(layout.sharding, Sharding::Zero2 | Sharding::Zero3);
    !gathers && (accumulates || in_buckets || moved || recipe.keep_gradients || recipe.optimizer_in_backward)
}

impl Transients {
    /// The gradient of a table that two blocks share is there once: what a block of the root does not
    /// make by itself is not among the root's.
    pub(super) fn share_root(&mut self, unit: &Unit, shared: f64) {
        if unit.gathered + unit.resident == 0.0 {
            self.root_gradients = (self.root_gradients - shared).max(0.0);
        }
    }

    /// The transients of a stage; fills in the units of its runs.
    pub(super) fn of(
        runs: &mut [Run],
        total: &BlockWeights,
        states: &States,
        recipe: &Recipe,
        layout: &Layout,
        mode: &Mode<'_>,
    ) -> Self {
        let d = Divisors::of(layout);
        // Without shards FSDP1 still casts each unit's parameters when its turn comes.
        let casts = layout.sharding == Sharding::NoShard && mode.weight < recipe.params().bytes();
        let shards = layout.sharding.is_fsdp() && layout.sharding.shards_parameters() && d.parameters > 1.0;
        if shards || casts {
            return Fsdp::new(total, states, recipe, layout, mode, &d).transients(runs);
        }
        // Gradients of micro-batches that are not reduced lie outside the buckets that the last one's
        // views are in.
        let apart = layout.gradient_as_bucket_view && !layout.sync_every_micro_batch;
        let accumulated = match (mode.accumulates, recipe.keep_gradients) {
            (true, _) if layout.sharding == Sharding::Ddp && apart => states.framework,
            (false, false) => 0.0,
            _ => states.gradients,
        };
        let whole = Self { accumulated, ..Self::default() };
        let joins = gradients_join(recipe, layout, mode.accumulates);
        for run in runs.iter_mut() {
            run.unit.gradients = if joins { 0.0 } else { run.bytes.weight_grads };
        }
        if layout.offloads(Offload::Param) && layout.sharding != Sharding::Zero3 {
            // Layers come from the host one after the other.
            for run in runs.iter_mut().filter(|r| r.kind == BlockKind::Layer) {
                run.unit.gathered = unit_bytes(&run.weights, recipe, mode.compute);
            }
            let ends = runs.iter().filter(|r| r.kind != BlockKind::Layer);
            let root = ends.map(|r| r.count * unit_bytes(&r.weights, recipe, mode.compute)).sum();
            return Self { root, ..whole };
        }
        match layout.sharding {
            _ if recipe.framework == Framework::Native => whole,
            Sharding::Zero1 | Sharding::Zero2 | Sharding::Zero3 => {
                Self::zero(runs, total, states, layout, mode, whole)
            }
            _ => whole,
        }
    }

    /// DeepSpeed's bucket of gradients on their way, and the parameters stage 3 has gathered.
    ///
    /// Source: DeepSpeed 0.19 (`stage_1_and_2.py`, `stage3.py`), traced: the bucket is allocated
    /// whole with the first gradient; stage 1 keeps every gradient to the end, where the largest
    /// one is flattened too; stage 3 keeps up to `stage3_max_live_parameters` gathered, in any case
    /// the largest tensor.
    fn zero(
        runs: &mut [Run],
        total: &BlockWeights,
        states: &States,
        layout: &Layout,
        mode: &Mode<'_>,
        whole: Self,
    ) -> Self {
        let bucket = mode.compute * BUCKET;
        if layout.sharding == Sharding::Zero1 {
            for run in runs.iter_mut() {
                run.unit.reduced = 0.0;
            }
            let kept = if mode.accumulates { states.gradients + bucket } else { 0.0 };
            let reduction = if mode.accumulates { 0.0 } else { bucket };
            return Self {
                accumulated: kept,
                bucket: reduction,
                flattened: 2.0 * mode.compute * total.largest_trained,
                ..whole
            };
        }
        if layout.sharding == Sharding::Zero2 {
            return Self { bucket, ..whole };
        }
        let live = mode.compute * MAX_LIVE.min(total.base()).max(total.largest);
        Self { root: live, accumulated: 0.0, ..whole }
    }
}

/// DeepSpeed's `reduce_bucket_size` and `stage3_max_live_parameters`, in elements, by default.
pub(super) const BUCKET: f64 = 5e8;
const MAX_LIVE: f64 = 1e9;

/// Bytes of a unit's parameters once gathered: compute type, a quantised base as it is stored.
pub(super) fn unit_bytes(w: &BlockWeights, recipe: &Recipe, compute: f64) -> f64 {
    let base = base_bytes(w, recipe, compute);
    let adapters = (w.adapters + w.saved)
        * if recipe.frozen_base() {
            recipe.lora.dtype.bytes().min(compute.max(Dtype::Bf16.bytes()))
        } else {
            compute
        };
    base + adapters
}
