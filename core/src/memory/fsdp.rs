//! FSDP's units: what each gathers, keeps and reduces, and what belongs to the modules around them.
//!
//! Source: torch.distributed.fsdp `_fully_shard/_fsdp_param_group.py` (`wait_for_unshard` keeps the last
//! gather's buffer; `post_backward` keeps one reduce-scatter input) and FSDP1's `_runtime_utils.py`,
//! PyTorch 2.15, traced.

use super::rules::Mode;
use super::states::{Divisors, States};
use super::timeline::Run;
use super::transients::{Transients, unit_bytes};
use super::weights::BlockWeights;
use super::wrap::{MIN_UNIT, Units};
use crate::layout::{Layout, Offload, Recompute, Reshard, Sharding, Wrap};
use crate::workload::{BlockKind, Dtype, Framework, Recipe};

/// How one layout shards with FSDP. A unit is gathered before its forward and again before its backward,
/// the next one while it runs, and its gradients are reduced afterwards.
pub(super) struct Fsdp<'a> {
    recipe: &'a Recipe,
    layout: &'a Layout,
    divisors: &'a Divisors,
    /// Bytes of a gathered parameter.
    compute: f64,
    /// Bytes of a trained parameter, of its whole gradient, and of that in the reduction.
    trained: f64,
    unsharded: f64,
    reduce: f64,
    /// FSDP1 casts the flat gradient where its type is another, and reduces it into a new shard.
    cast: f64,
    /// Gradients of earlier micro-batches.
    accumulated: f64,
    /// Every micro-batch reduces its gradients.
    syncs: bool,
    /// Gradients end on the host.
    offloaded: bool,
    /// Units stay gathered from forward to backward.
    stays: bool,
}

impl<'a> Fsdp<'a> {
    pub(super) fn new(
        total: &BlockWeights,
        states: &States,
        recipe: &'a Recipe,
        layout: &'a Layout,
        mode: &Mode<'_>,
        divisors: &'a Divisors,
    ) -> Self {
        let frozen = recipe.frozen_base();
        let trained = if frozen { recipe.lora.dtype.bytes() } else { recipe.params().bytes() };
        let unsharded = if frozen { trained.min(mode.compute) } else { mode.compute };
        let reduce = recipe.reduce_dtype.map_or(trained, Dtype::bytes);
        let shard = if layout.sharding == Sharding::NoShard { 0.0 } else { reduce / divisors.parameters };
        // An engine reduces each layer's gradients when they are made.
        let syncs = layout.sync_every_micro_batch || recipe.framework == Framework::Native;
        Self {
            recipe,
            layout,
            divisors,
            compute: mode.compute,
            trained,
            unsharded,
            reduce,
            cast: shard + if reduce > unsharded { reduce } else { 0.0 },
            accumulated: match (mode.accumulates, syncs) {
                (false, _) => 0.0,
                (true, true) => states.gradients,
                // Without reduction between micro-batches the gradients stay whole: FSDP2's in the type
                // of the reduction, FSDP1's as backward makes them.
                (true, false) if layout.sharding == Sharding::Fsdp2 => {
                    total.trainable(recipe) * unsharded.max(reduce)
                }
                (true, false) => total.trainable(recipe) * unsharded,
            },
            syncs,
            offloaded: layout.offloads(Offload::Gradient) || layout.offloads(Offload::Optimizer),
            stays: match layout.sharding {
                Sharding::ShardGradOp | Sharding::HybridShardZero2 => true,
                Sharding::Fsdp2 => layout.reshard_after_forward == Reshard::Never,
                _ => false,
            },
        }
    }

    /// The transients of a stage; fills in the units of its runs.
    pub(super) fn transients(&self, runs: &mut [Run]) -> Transients {
        let two = self.two();
        let recomputes = self.layout.recompute == Recompute::Full;
        let mut x = Transients {
            accumulated: self.accumulated,
            holds_inputs: !two && self.recipe.frozen_base() && self.recipe.torch_before(2, 5) && recomputes,
            ..Transients::default()
        };
        let has_body = self.has_body(runs);
        let (mut root, mut body) = (BlockWeights::default(), BlockWeights::default());
        for run in runs.iter_mut() {
            let units = self.units(run);
            let (outer, outer_gradients) = if has_body && run.kind != BlockKind::Head {
                (&mut body, &mut x.body_gradients)
            } else {
                (&mut root, &mut x.root_gradients)
            };
            // What is left of it belongs to the module around it, beside its own units.
            *outer += (run.weights, run.count * units.loose);
            *outer_gradients += run.count * run.bytes.weight_grads * units.loose;
            if units.largest <= 0.0 {
                run.unit.late = false;
                run.unit.gradients = run.bytes.weight_grads;
                continue;
            }
            self.shape(run, &units);
            x.resident += run.count * run.unit.resident;
            // FSDP2 leaves the buffer behind, FSDP1 gathers the unit anew when backward begins.
            let parameters = unit_bytes(&run.weights, self.recipe, self.compute);
            x.left = if two { parameters * units.largest } else { 0.0 };
            x.ahead = run.unit.gathered;
        }
        x.root = unit_bytes(&root, self.recipe, self.compute);
        if has_body {
            x.body = unit_bytes(&body, self.recipe, self.compute);
            x.body_reduction = x.root + x.root_gradients + self.flat_end(&body, x.body);
            x.body_shard = if self.accumulated <= 0.0 && !self.offloaded {
                body.trainable(self.recipe) * self.trained / self.divisors.parameters
            } else {
                0.0
            };
        }
        if two {
            self.root_of_two(&mut x, &root);
        } else {
            x.root_reduction = self.flat_end(&root, x.root);
            let head_is_a_unit = runs.iter().any(|r| r.kind == BlockKind::Head && r.unit.gathered > 0.0);
            if x.root <= 0.0 {
                // A root without parameters gathers nothing ahead.
                x.ahead = 0.0;
            } else if has_body && !head_is_a_unit {
                x.ahead = x.body;
            }
        }
        if self.layout.sharding == Sharding::NoShard {
            // The cast parameters stay until the next step.
            x.root_reduction += x.root;
        }
        x
    }

    fn two(&self) -> bool {
        self.layout.sharding == Sharding::Fsdp2
    }

    /// Between forward and backward a unit may rest in larger shards: its share of them.
    fn partly(&self) -> f64 {
        self.layout.rests_within().map_or(0.0, |ranks| 1.0 / ranks as f64)
    }

    /// The units of a block. What runs between the units of a traced model belongs to the root.
    fn units(&self, run: &Run) -> Units {
        match self.layout.wrap {
            Wrap::Layers if run.kind == BlockKind::Layer && !run.loose => Units::WHOLE,
            Wrap::LayersEmbedHead => Units::WHOLE,
            Wrap::Size => run.by_size,
            Wrap::Layers | Wrap::Model => Units::NONE,
        }
    }

    /// Modules by size do not end at a layer: what is left of all but the head may be a unit too, which
    /// differs from the root only where it is let go after forward.
    fn has_body(&self, runs: &[Run]) -> bool {
        let lets_go = !self.stays && self.layout.sharding != Sharding::NoShard;
        let inside = runs.iter().filter(|r| r.kind != BlockKind::Head);
        let around: f64 = inside.map(|r| r.count * r.weights.base() * r.by_size.loose).sum();
        let by_size = self.layout.wrap == Wrap::Size && !runs.iter().any(|r| r.traced);
        by_size && lets_go && around >= MIN_UNIT
    }

    /// Fills in what a block's units gather, reduce and leave.
    fn shape(&self, run: &mut Run, units: &Units) {
        let parameters = unit_bytes(&run.weights, self.recipe, self.compute);
        let whole = run.bytes.weight_grads;
        // The unit of the head is wrapped by hand, so as to stay.
        let ends = run.kind != BlockKind::Layer && run.kind != BlockKind::Embedding;
        let unit = &mut run.unit;
        unit.absent = whole * (1.0 - units.largest - units.loose_above);
        if self.stays || ends && self.layout.wrap == Wrap::LayersEmbedHead {
            unit.resident = parameters * (1.0 - units.loose);
        } else {
            unit.gathered = parameters * units.largest;
            unit.ahead = parameters * units.ahead;
            unit.resident = unit.gathered * self.partly();
        }
        let trained = run.weights.trainable(self.recipe) * units.largest;
        if self.two() {
            unit.reduced = trained * self.reduce;
        } else {
            unit.flat = trained * self.unsharded;
            unit.cast = trained * self.cast;
        }
        unit.late &= self.two();
        if self.accumulated <= 0.0 && !self.offloaded {
            let experts = run.weights.experts / run.weights.base().max(1.0);
            let share = (1.0 - experts) / self.divisors.parameters + experts / self.divisors.experts;
            unit.reduced_gradients = whole * share * self.trained / self.unsharded;
        }
        unit.done = unit.reduced_gradients * units.done;
        unit.gradients = if unit.late && (self.accumulated <= 0.0 || self.syncs) {
            whole
        } else {
            unit.reduced_gradients * (1.0 - units.loose) + whole * units.loose
        };
    }

    /// The end of a flat unit's backward: parameters, gradients and the flat one they are copied into;
    /// then that one, its cast and its shard.
    fn flat_end(&self, unit: &BlockWeights, gathered: f64) -> f64 {
        let trained = unit.trainable(self.recipe);
        (gathered + 2.0 * trained * self.unsharded).max(trained * (self.unsharded + self.cast))
    }

    fn root_of_two(&self, x: &mut Transients, root: &BlockWeights) {
        if matches!(self.layout.reshard_after_forward, Reshard::Always | Reshard::Node) {
            x.root_again = x.root * (2.0 + self.partly());
        }
        if x.left <= 0.0 {
            // The buffer of the only gather.
            x.left = x.root;
        }
        x.root_reduction = root.trainable(self.recipe) * (self.unsharded + self.reduce);
    }
}
