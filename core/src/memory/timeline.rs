//! The instants of a step at which memory can peak, on one rank.

use super::loss::{LossBytes, loss_bytes};
use super::rules::{Mode, interpret};
use super::states::{Divisors, States, base_bytes};
use super::tape::BlockBytes;
use super::weights::BlockWeights;
use crate::layout::{Layout, Offload, Recompute, Reshard, Sharding, Wrap};
use crate::workload::{BlockKind, Dtype, Framework, Model, Recipe, Stream};

/// What is alive at one instant, by part, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Parts {
    pub(super) parameters: f64,
    pub(super) optimizer: f64,
    pub(super) master: f64,
    pub(super) ema: f64,
    pub(super) framework: f64,
    pub(super) inputs: f64,
    pub(super) gradients: f64,
    pub(super) activations: f64,
    pub(super) working: f64,
    pub(super) loss: f64,
    pub(super) gathered: f64,
    pub(super) reduction: f64,
    pub(super) copies: f64,
    pub(super) temporaries: f64,
}

impl Parts {
    pub(super) fn total(&self) -> f64 {
        self.parameters
            + self.optimizer
            + self.master
            + self.ema
            + self.framework
            + self.inputs
            + self.gradients
            + self.activations
            + self.working
            + self.loss
            + self.gathered
            + self.reduction
            + self.copies
            + self.temporaries
    }
}

/// The instants, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Instant {
    ForwardEnd,
    LossBackward,
    HeadBackward,
    TopLayer,
    BottomLayer,
    EmbeddingBackward,
    Reduction,
    OptimizerStep,
    Load,
}

impl Instant {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ForwardEnd => "end of forward",
            Self::LossBackward => "loss backward",
            Self::HeadBackward => "head backward",
            Self::TopLayer => "backward of the last layers",
            Self::BottomLayer => "backward of the first layers",
            Self::EmbeddingBackward => "embedding backward",
            Self::Reduction => "last gradient reduction",
            Self::OptimizerStep => "optimizer step",
            Self::Load => "loading the model",
        }
    }
}

/// A run of equal layers on the rank.
struct Layers {
    bytes: BlockBytes,
    weights: BlockWeights,
    count: f64,
}

/// Everything about a stage that does not depend on the micro-batch.
pub(super) struct Stage<'a> {
    recipe: &'a Recipe,
    layout: &'a Layout,
    layers: Vec<Layers>,
    embedding: Option<(BlockBytes, BlockWeights)>,
    tail: Vec<(BlockBytes, BlockWeights)>,
    total: BlockWeights,
    root: BlockWeights,
    states: States,
    vocabulary: f64,
    hidden: f64,
    seq: f64,
    compute: f64,
    residual: f64,
    /// Micro-batches whose activations wait at once (pipeline).
    in_flight: f64,
    accumulates: bool,
    samples_have_logits: bool,
}

/// Which layers of the stack a pipeline stage holds: `from..to`, and whether it has the ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) first: bool,
    pub(super) last: bool,
    pub(super) in_flight: f64,
}

/// The parts at every instant of a step.
pub(super) type Instants = [(Instant, Parts); 9];

impl<'a> Stage<'a> {
    pub(super) fn new(
        model: &Model,
        recipe: &'a Recipe,
        layout: &'a Layout,
        seq_len: u64,
        accumulates: bool,
        share: Share,
    ) -> Self {
        let mode = Mode::new(recipe, layout, seq_len);
        let per_block: Vec<BlockWeights> =
            model.blocks.iter().map(|b| BlockWeights::of(b, recipe, layout)).collect();
        let mut layers: Vec<Layers> = Vec::with_capacity(model.order.len());
        let mut embedding = None;
        let mut tail = Vec::new();
        let mut total = BlockWeights::default();
        let mut root = BlockWeights::default();
        let mut at = 0;
        // Below the first trainable parameter no gradient flows; with adapters and recomputation
        // the input is made to require one (enable_input_require_grads).
        let frozen = recipe.frozen_base();
        let reads_gradient = !frozen || layout.recompute != Recompute::None || recipe.kbit_preparation;
        let mut seen_layer = false;
        for run in &model.order {
            let (Some(block), Some(&weights)) = (model.blocks.get(run.block), per_block.get(run.block))
            else {
                continue;
            };
            match block.kind {
                BlockKind::Layer => {
                    let (start, end) = (at, at + run.count);
                    at = end;
                    let mut here = end.min(share.to).saturating_sub(start.max(share.from));
                    if here == 0 {
                        continue;
                    }
                    total += (weights, here as f64);
                    // What runs between the units of a traced model belongs to the root.
                    let loose = block.traced.as_ref().is_some_and(|part| !part.unit);
                    if loose {
                        root += (weights, here as f64);
                    }
                    let weights = if loose { BlockWeights::default() } else { weights };
                    if !seen_layer && frozen && !reads_gradient {
                        let first = Mode { input_grad: false, ..mode };
                        layers.push(Layers { bytes: interpret(block, &first), weights, count: 1.0 });
                        here -= 1;
                    }
                    seen_layer = true;
                    if here > 0 {
                        layers.push(Layers { bytes: interpret(block, &mode), weights, count: here as f64 });
                    }
                }
                BlockKind::Embedding => {
                    if share.first {
                        total += (weights, 1.0);
                        root += (weights, 1.0);
                        let m = Mode { input_grad: frozen && reads_gradient, ..mode };
                        embedding = Some((interpret(block, &m), weights));
                    }
                }
                BlockKind::FinalNorm | BlockKind::Head => {
                    let mid = block.kind == BlockKind::FinalNorm && block.stream == Stream::Encoder;
                    if share.last && !mid || mid && share.first {
                        total += (weights, run.count as f64);
                        root += (weights, run.count as f64);
                        tail.push((interpret(block, &mode), weights));
                    }
                }
            }
        }
        let mut states = States::of(&total, recipe, layout);
        if layout.offloads(Offload::Activation) {
            states.host += 0.0;
        }
        Self {
            recipe,
            layout,
            layers,
            embedding,
            tail,
            total,
            root,
            states,
            vocabulary: model.vocabulary as f64 / layout.vocabulary_ranks() as f64,
            hidden: model.hidden as f64,
            seq: seq_len as f64,
            compute: mode.compute,
            residual: mode.residual,
            in_flight: share.in_flight,
            accumulates,
            samples_have_logits: share.last,
        }
    }

    pub(super) const fn recipe(&self) -> &Recipe {
        self.recipe
    }

    pub(super) const fn layout(&self) -> &Layout {
        self.layout
    }

    pub(super) const fn states(&self) -> &States {
        &self.states
    }

    /// Ranks that share one checkpoint.
    fn checkpoint_ranks(&self) -> f64 {
        if self.layout.partition_activations { self.layout.tensor_parallel as f64 } else { 1.0 }
    }

    /// Bytes a layer keeps from forward to backward.
    fn kept(&self, l: &BlockBytes, tokens: f64) -> f64 {
        let whole = l.kept.at(tokens);
        match self.layout.recompute {
            _ if l.pinned => whole,
            Recompute::None | Recompute::Selective => whole,
            Recompute::Full => {
                let every = self.layout.recompute_every as f64;
                let point = if self.layout.offloads(Offload::Activation) {
                    0.0
                } else {
                    l.input.at(tokens) / self.checkpoint_ranks()
                };
                (point + whole * (every - 1.0)) / every
            }
        }
    }

    /// LitGPT puts the whole model on every device before it shards it: whole, its shard, and the
    /// head on its way.
    fn load(&self) -> Parts {
        if self.recipe.framework != Framework::LitGpt || !self.layout.sharding.shards_parameters() {
            return Parts::default();
        }
        let whole = base_bytes(&self.total, self.recipe, self.recipe.params().bytes());
        Parts {
            parameters: whole * (1.0 + 1.0 / self.layout.shard_ranks() as f64),
            temporaries: self.total.tables / 2.0 * self.recipe.params().bytes(),
            ..Parts::default()
        }
    }

    /// The parts of every instant for a micro-batch of `samples` sequences.
    #[expect(clippy::too_many_lines, reason = "one instant after the other, as a step runs")]
    pub(super) fn instants(&self, samples: f64) -> Instants {
        let cp = self.layout.context_parallel as f64;
        let t = samples * self.seq / cp;
        let s = &self.states;
        let recomputes = self.layout.recompute == Recompute::Full;
        let fsdp = Transients::of(self);
        let all: f64 = self.layers.iter().map(|l| l.count * self.kept(&l.bytes, t)).sum();
        let tail_kept: f64 = self.tail.iter().map(|(b, _)| b.kept.at(t)).sum();
        let embed_kept = self.embedding.as_ref().map_or(0.0, |(b, _)| b.kept.at(t));
        let loss = if self.samples_have_logits {
            loss_bytes(
                self.recipe,
                t * self.vocabulary,
                self.hidden * self.compute,
                t,
                self.vocabulary,
                self.hidden,
            )
        } else {
            LossBytes { kept: 0.0, forward: 0.0, backward: 0.0, held: 0.0, gradient: 0.0 }
        };
        // Other micro-batches of the pipeline wait with all they keep.
        let waiting = (self.in_flight - 1.0).max(0.0) * (all + embed_kept + tail_kept);
        let accumulated = fsdp.accumulated;
        let resting = Parts {
            parameters: s.parameters,
            optimizer: s.optimizer,
            master: s.master,
            ema: s.ema,
            framework: s.framework + self.total.buffers * 4.0,
            // Token ids and labels, eight bytes each.
            inputs: 16.0 * t,
            gradients: accumulated,
            ..Parts::default()
        };
        let copies: f64 = self.layers.iter().map(|l| l.count * l.bytes.weight_copies).sum::<f64>()
            + self.tail.iter().map(|(b, _)| b.weight_copies).sum::<f64>();
        let kept_copies =
            if recomputes { self.tail.iter().map(|(b, _)| b.weight_copies).sum::<f64>() } else { copies };
        let forward = Parts {
            activations: all + embed_kept + tail_kept + waiting,
            copies,
            gathered: fsdp.root_at_loss + fsdp.resident,
            loss: loss.forward,
            ..resting
        };
        let at_loss = Parts {
            gathered: fsdp.root_at_loss + fsdp.resident + fsdp.at_loss,
            copies: kept_copies,
            ..forward
        };
        let loss_backward = Parts { loss: loss.backward, ..at_loss };
        let tail_grads: f64 = self.tail.iter().map(|(b, _)| b.weight_grads).sum();
        let head = Parts { loss: loss.gradient + loss.held, working: tail_grads, ..at_loss };
        let mut top = Parts::default();
        let mut bottom = Parts::default();
        // Gradients that are there already are added to in place.
        let fresh = if resting.gradients > 0.0 { 0.0 } else { 1.0 };
        let (mut below, mut above) = (all + embed_kept, 0.0);
        let root_grads = tail_grads * fsdp.root_gradient_share * fresh;
        let mut held_above = 0.0;
        let last_run = self.layers.len().saturating_sub(1);
        for (i, run) in self.layers.iter().enumerate().rev() {
            let l = &run.bytes;
            let kept = self.kept(l, t);
            let input = if recomputes && !l.pinned { l.input.at(t) } else { 0.0 };
            let backward = l.backward.at(t);
            let copies_of = |n: f64| if recomputes { l.weight_copies } else { n * l.weight_copies };
            let copies_below: f64 = if recomputes {
                0.0
            } else {
                self.layers.iter().take(i).map(|r| r.count * r.bytes.weight_copies).sum()
            };
            let grads_each = fsdp.layer_gradients(run) * fresh;
            // Before PyTorch 2.5, FSDP1's hooks on frozen units hold each layer's input and its
            // gradient to the end of backward (measured on 2.4: 64 + 64 + 64 t h against 66 + 64).
            let held = if fsdp.holds_inputs { kept + l.input.at(t) } else { 0.0 };
            let place = |layers_below: f64, layers_above: f64, first: bool, last: bool| Parts {
                activations: below - (layers_above + 1.0) * kept
                    + waiting
                    + held_above
                    + (layers_above + 1.0) * held,
                working: backward + input,
                gradients: resting.gradients + root_grads + above + layers_above * grads_each,
                gathered: fsdp.root + fsdp.resident + if last { fsdp.backward_bottom } else { fsdp.backward },
                reduction: if first { 0.0 } else { fsdp.reduction },
                copies: copies_of(layers_below) + copies_below,
                loss: loss.held,
                ..resting
            };
            let n = run.count;
            let many = n > 1.5;
            let highest = place(n, 0.0, i == last_run, i == 0 && !many);
            let lowest = place(1.0, n - 1.0, i == last_run && !many, i == 0);
            // From the second layer on, the one above is still being reduced.
            let second = if many { place(n - 1.0, 1.0, false, i == 0 && n < 2.5) } else { lowest };
            if i == last_run {
                top = if second.total() > highest.total() { second } else { highest };
            }
            for p in [highest, second, lowest] {
                if p.total() > bottom.total() {
                    bottom = p;
                }
            }
            below -= n * kept;
            above += n * grads_each;
            held_above += n * held;
        }
        let stream = t * self.hidden * self.residual;
        let embed_grads = self.embedding.as_ref().map_or(0.0, |(b, _)| b.weight_grads);
        let embedding = Parts {
            working: stream + embed_grads,
            gradients: resting.gradients + root_grads + above,
            gathered: fsdp.root + fsdp.resident,
            reduction: fsdp.reduction,
            loss: loss.held,
            ..resting
        };
        let reduction = Parts {
            gradients: resting.gradients + above,
            reduction: fsdp.root_reduction,
            loss: loss.held,
            ..resting
        };
        let step = Parts { gradients: s.gradients, temporaries: s.step, ..resting };
        [
            (Instant::ForwardEnd, forward),
            (Instant::LossBackward, loss_backward),
            (Instant::HeadBackward, head),
            (Instant::TopLayer, top),
            (Instant::BottomLayer, bottom),
            (Instant::EmbeddingBackward, embedding),
            (Instant::Reduction, reduction),
            (Instant::OptimizerStep, step),
            (Instant::Load, self.load()),
        ]
    }
}

/// What sharding adds for a moment: gathered units, reduction buffers, unsharded gradients.
#[derive(Clone, Copy, Debug, Default)]
struct Transients {
    /// The root unit, gathered from forward to the end of backward.
    root: f64,
    /// What of it is gathered while the loss runs.
    root_at_loss: f64,
    /// Units that stay gathered between forward and backward.
    resident: f64,
    /// The last layer's gather buffer while the loss runs.
    at_loss: f64,
    /// Gathered units while a layer's backward runs.
    backward: f64,
    /// The same in the first layer, with nothing left to prefetch.
    backward_bottom: f64,
    /// Input of the previous unit's reduce-scatter.
    reduction: f64,
    /// The root's gradients on their way to shards.
    root_reduction: f64,
    /// Share of the tail's gradients that stay whole until the root is reduced.
    root_gradient_share: f64,
    /// Unsharded gradients between micro-batches that are not reduced.
    accumulated: f64,
    /// Inputs of finished layers and their gradients stay to the end of backward.
    holds_inputs: bool,
    /// Ranks a reduced gradient is divided by, and its width over the unsharded one.
    shards: f64,
    experts: f64,
    gradient_ratio: f64,
}

impl Transients {
    fn of(stage: &Stage<'_>) -> Self {
        let (recipe, layout) = (stage.recipe, stage.layout);
        let d = Divisors::of(layout);
        let whole = Self {
            root_gradient_share: 1.0,
            shards: 1.0,
            experts: 1.0,
            gradient_ratio: 1.0,
            accumulated: if stage.accumulates || recipe.keep_gradients {
                stage.states.gradients
            } else {
                0.0
            },
            ..Self::default()
        };
        let unit =
            stage.layers.iter().fold(0.0_f64, |m, l| m.max(unit_bytes(&l.weights, recipe, stage.compute)));
        let trained_unit = stage.layers.iter().fold(0.0_f64, |m, l| m.max(l.weights.trainable(recipe)));
        let root = unit_bytes(&stage.root, recipe, stage.compute);
        let trained_root = stage.root.trainable(recipe);
        let params = recipe.params().bytes();
        let reduce = recipe
            .reduce_dtype
            .unwrap_or(if recipe.frozen_base() { recipe.lora.dtype } else { recipe.params() })
            .bytes();
        let gathers = layout.sharding.shards_parameters() && layout.sharding.is_fsdp() && d.parameters > 1.0;
        if !gathers {
            return match layout.sharding {
                Sharding::Zero1 | Sharding::Zero2 | Sharding::Zero3 => Self::zero(stage, &d, whole),
                _ => whole,
            };
        }
        let two = layout.sharding == Sharding::Fsdp2;
        let trained_width = if recipe.frozen_base() { recipe.lora.dtype.bytes() } else { params };
        let unsharded_width =
            if recipe.frozen_base() { trained_width.min(stage.compute) } else { stage.compute };
        let resident = match layout.sharding {
            Sharding::ShardGradOp | Sharding::HybridShardZero2 => true,
            Sharding::Fsdp2 => layout.reshard_after_forward == Reshard::Never,
            _ => false,
        };
        let all = unit_bytes(&stage.total, recipe, stage.compute);
        let whole_model = layout.wrap == Wrap::Model;
        let apart = layout.wrap == Wrap::LayersEmbedHead;
        let ends = stage.tail.iter().fold(0.0, |sum, (_, w)| sum + unit_bytes(w, recipe, stage.compute));
        let next = if whole_model { 0.0 } else { unit };
        let frozen = recipe.frozen_base();
        Self {
            root: if whole_model {
                all
            } else if apart {
                0.0
            } else {
                root
            },
            root_at_loss: if whole_model {
                all
            } else if apart {
                ends
            } else {
                root
            },
            resident: if resident { all - root } else { 0.0 },
            at_loss: if resident || apart { 0.0 } else { next },
            backward: if resident { 0.0 } else { 2.0 * next },
            backward_bottom: if resident { 0.0 } else { next },
            reduction: if two { trained_unit * reduce } else { 0.0 },
            root_reduction: trained_root * (unsharded_width + reduce),
            root_gradient_share: 1.0,
            accumulated: if stage.accumulates {
                if layout.sync_every_micro_batch {
                    stage.states.gradients
                } else {
                    stage.total.trainable(recipe) * trained_width.max(reduce)
                }
            } else {
                0.0
            },
            holds_inputs: !two && frozen && recipe.torch_before(2, 5) && layout.recompute == Recompute::Full,
            shards: d.parameters,
            experts: d.experts,
            gradient_ratio: trained_width / unsharded_width,
        }
    }

    /// DeepSpeed's buckets and gathered parameters.
    fn zero(stage: &Stage<'_>, d: &Divisors, whole: Self) -> Self {
        // Source: DeepSpeed defaults: reduce_bucket_size 5e8 elements, stage3_max_live_parameters 1e9.
        const BUCKET: f64 = 5e8;
        const MAX_LIVE: f64 = 1e9;
        let n = stage.total.trainable(stage.recipe);
        let bucket = stage.compute * BUCKET.min(n);
        match stage.layout.sharding {
            Sharding::Zero1 => {
                Self { reduction: bucket + 2.0 * stage.compute * stage.total.largest, ..whole }
            }
            Sharding::Zero2 => Self { reduction: bucket, shards: d.gradients, experts: d.experts, ..whole },
            _ => {
                let live = stage.compute * MAX_LIVE.min(stage.total.base());
                Self {
                    resident: live.max(stage.compute * stage.root.largest),
                    reduction: bucket,
                    shards: d.gradients,
                    experts: d.experts,
                    ..whole
                }
            }
        }
    }

    /// Bytes that the gradients of one finished layer occupy.
    fn layer_gradients(&self, l: &Layers) -> f64 {
        if l.weights.base() <= 0.0 {
            return 0.0;
        }
        let experts = l.weights.experts / l.weights.base();
        let share = (1.0 - experts) / self.shards + experts / self.experts;
        l.bytes.weight_grads * share * self.gradient_ratio
    }
}

/// Bytes of a unit's parameters once gathered: compute type, a quantised base as it is stored.
fn unit_bytes(w: &BlockWeights, recipe: &Recipe, compute: f64) -> f64 {
    let base = base_bytes(w, recipe, compute);
    let adapters = (w.adapters + w.saved)
        * if recipe.frozen_base() {
            recipe.lora.dtype.bytes().min(compute.max(Dtype::Bf16.bytes()))
        } else {
            compute
        };
    base + adapters
}
