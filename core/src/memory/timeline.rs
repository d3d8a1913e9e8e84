//! The instants of a step at which memory can peak, on one rank.

use std::rc::Rc;

use super::instants::{Fullest, Instant, Instants, Parts, fuller};
use super::loss::{Head, LossBytes, loss_bytes};
use super::memo::Memo;
use super::rules::Mode;
use super::states::{States, base_bytes};
use super::tape::{BlockBytes, WeightGrads};
use super::transients::{Transients, Unit};
use super::weights::BlockWeights;
use super::wrap::Units;
use crate::layout::{Layout, Offload, Recompute};
use crate::workload::{BlockKind, Framework, Model, Recipe, Stream};

/// Equal blocks in a row.
pub(super) struct Run {
    pub(super) kind: BlockKind,
    pub(super) weights: BlockWeights,
    pub(super) bytes: Rc<BlockBytes>,
    pub(super) count: f64,
    /// Whether backward runs its forward again, and whether what was selected is there by then.
    recomputed: bool,
    selective: bool,
    /// Runs between the units of a traced model.
    pub(super) loose: bool,
    /// How it falls into units where they are made by size.
    pub(super) by_size: Units,
    pub(super) traced: bool,
    /// What sharding gathers and reduces of one of them.
    pub(super) unit: Unit,
}

impl Run {
    /// Bytes that one of the blocks keeps from forward to backward, copies of weights apart.
    fn kept(&self, tokens: f64, layout: &Layout) -> f64 {
        let whole = self.bytes.kept.at(tokens) - self.bytes.weight_copies;
        if !self.recomputed {
            return if self.leaves(layout) { 0.0 } else { whole };
        }
        let every = layout.recompute_every as f64;
        (self.checkpoint(tokens, layout) + self.selected(tokens) + whole * (every - 1.0)) / every
    }

    /// Outputs that a checkpoint by operation saves: every second matrix product, and attention.
    ///
    /// Source: torchtitan's `selective_activation_checkpoint_option` "op".
    fn selected(&self, tokens: f64) -> f64 {
        if self.selective { self.bytes.selected.at(tokens) } else { 0.0 }
    }

    /// Of those, what waits beside all that recomputation makes again.
    fn unclaimed(&self, tokens: f64) -> f64 {
        if self.selective { self.bytes.unclaimed.at(tokens) } else { 0.0 }
    }

    /// Whether what one of the blocks keeps waits on the host.
    fn leaves(&self, layout: &Layout) -> bool {
        self.kind == BlockKind::Layer && !self.recomputed && layout.offloads(Offload::Activation)
    }

    /// The input that recomputation starts from, as far as it rests on the device.
    fn checkpoint(&self, tokens: f64, layout: &Layout) -> f64 {
        if layout.offloads(Offload::Activation) {
            return 0.0;
        }
        let ranks = if layout.partition_activations { layout.tensor_parallel as f64 } else { 1.0 };
        self.bytes.checkpoint.at(tokens) / ranks
    }

    /// The end of its backward, where that reduces its gradients: `place` is the instant before, with
    /// its parameters gathered.
    fn reductions(&self, t: f64, place: Parts) -> impl Iterator<Item = Parts> {
        // The gradient of its input, and what waits for the backward of what comes before it.
        let (unit, input) = (&self.unit, self.bytes.input.at(t) + self.bytes.before_unit.at(t));
        let gradients = self.bytes.weight_grads - unit.absent;
        // The parameters are let go, the gradients still whole.
        let gathered = place.gathered - unit.unsharded() - unit.resident;
        let scattered = (unit.reduced > 0.0 && !unit.late).then_some(Parts {
            working: gradients + input,
            gathered,
            reduction: unit.reduced,
            ..place
        });
        let flat = (unit.flat > 0.0).then_some([
            Parts { working: gradients + unit.flat + input, ..place },
            Parts { working: unit.flat + input, gathered, reduction: place.reduction + unit.cast, ..place },
        ]);
        scattered.into_iter().chain(flat.into_iter().flatten())
    }

    /// Copies of weights that one of the blocks keeps from forward to backward.
    fn copies(&self) -> f64 {
        if self.recomputed { 0.0 } else { self.bytes.weight_copies }
    }
}

/// Everything about a stage that depends neither on the size of the micro-batch nor on the schedule.
pub(super) struct Stage<'a> {
    recipe: &'a Recipe,
    layout: &'a Layout,
    /// In forward order.
    runs: Vec<Run>,
    total: BlockWeights,
    states: States,
    transients: Transients,
    head: Head,
    seq: f64,
    /// Bytes of one sequence as the model takes it.
    sample: f64,
    /// The gradient of a table that embedding and head share, when both are here.
    tied: f64,
    /// The embedding's share is added to the head's in place: autocast has cast the latter, so that
    /// nothing else holds it.
    sums_in_place: bool,
}

/// Which layers of the stack a pipeline stage holds: `from..to`, and whether it has the ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Share {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) first: bool,
    pub(super) last: bool,
}

impl<'a> Stage<'a> {
    pub(super) fn new<'r: 'a>(
        model: &Model,
        recipe: &'r Recipe,
        layout: &'a Layout,
        seq_len: u64,
        accumulates: bool,
        share: Share,
        memo: &mut Memo<'r>,
    ) -> Self {
        let seq_len = model.fixed_tokens.unwrap_or(seq_len);
        let mode = Mode::new(recipe, layout, seq_len, accumulates);
        let mut runs: Vec<Run> = Vec::with_capacity(model.order.len() + 1);
        let (mut total, mut at) = (BlockWeights::default(), 0);
        // Below the first trainable parameter no gradient flows; with adapters and recomputation
        // the input is made to require one (enable_input_require_grads).
        let frozen = recipe.frozen_base();
        let flows = !frozen || layout.recompute != Recompute::None || recipe.kbit_preparation;
        let mut lowest = true;
        let mut sample = 0.0;
        for run in &model.order {
            let Some(block) = model.blocks.get(run.block) else { continue };
            let (kind, encoder) = (block.kind, block.stream == Stream::Encoder);
            let here = match kind {
                BlockKind::Layer => {
                    let (start, end) = (at, at + run.count);
                    at = end;
                    end.min(share.to).saturating_sub(start.max(share.from))
                }
                BlockKind::Embedding => run.count * u64::from(share.first),
                BlockKind::FinalNorm if encoder => run.count * u64::from(share.first),
                BlockKind::FinalNorm | BlockKind::Head => run.count * u64::from(share.last),
            };
            if here == 0 {
                continue;
            }
            let weights = memo.weights(run.block, block, recipe, layout);
            total += (weights, here as f64);
            if kind == BlockKind::Embedding && model.fixed_tokens.is_some() {
                // Pixels, in the type of the weights.
                let pixels = block.slots.first().map_or(0, |s| s.width) as f64;
                sample = pixels * (seq_len.saturating_sub(1)) as f64 * mode.weight;
            }
            let layer = kind == BlockKind::Layer;
            let mut push = |input_grad: bool, count: u64| {
                if count > 0 {
                    let part = block.traced.as_ref();
                    let late = part.map_or(kind == BlockKind::Embedding || !input_grad, |p| p.input_free);
                    let selective = saves_by_operation(recipe, layout);
                    let recomputed = layer && (layout.recompute == Recompute::Full || selective);
                    let by_size = Units::by_size(block, &weights, layout);
                    // Units of the same block are reduced one after the other.
                    let weight_grads = if by_size.several { WeightGrads::Join } else { mode.weight_grads };
                    let mode =
                        Mode { input_grad, recomputed, weight_grads, before_unit: by_size.before, ..mode };
                    runs.push(Run {
                        kind,
                        weights,
                        bytes: memo.bytes(run.block, block, &mode),
                        count: count as f64,
                        recomputed,
                        selective,
                        loose: part.is_some_and(|part| !part.unit),
                        by_size,
                        traced: part.is_some(),
                        unit: Unit { late, ..Unit::default() },
                    });
                }
            };
            match kind {
                BlockKind::Embedding => push(frozen && flows, here),
                BlockKind::Layer if lowest && !flows => {
                    push(false, 1);
                    push(true, here - 1);
                }
                _ => push(true, here),
            }
            lowest &= !layer;
        }
        // What every decoder layer reads belongs to the encoder's last block.
        let decodes = runs.len();
        if model.has_encoder() && share.last {
            let position = runs.iter().position(|r| r.kind == BlockKind::FinalNorm);
            if let Some(run) = position.filter(|&p| p + 1 < decodes).and_then(|p| runs.get_mut(p)) {
                let output = run.bytes.output;
                Rc::make_mut(&mut run.bytes).kept += output;
            }
        }
        let states = States::of(&total, recipe, layout);
        let mut transients = Transients::of(&mut runs, &total, &states, recipe, layout, &mode);
        let both = model.tied && share.first && share.last && !frozen;
        let table = if both { share_table(&mut runs, &mut transients, mode.weight) } else { 0.0 };
        Self {
            recipe,
            layout,
            runs,
            total,
            states,
            transients,
            head: Head::of(model, layout, &mode, share.last),
            seq: seq_len as f64,
            sample,
            tied: table,
            sums_in_place: mode.autocast,
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

    /// What waits on the host between forward and backward.
    pub(super) fn offloaded_activations(&self, samples: f64) -> f64 {
        if !self.layout.offloads(Offload::Activation) {
            return 0.0;
        }
        let t = samples * self.seq / self.layout.context_parallel as f64;
        self.runs
            .iter()
            .filter(|r| r.kind == BlockKind::Layer)
            .map(|r| r.count * if r.recomputed { r.bytes.checkpoint.at(t) } else { r.bytes.kept.at(t) })
            .sum()
    }

    /// `LitGPT` puts the whole model on every device before it shards it: whole, its shard, and the
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

    /// What is alive at every instant, for `tokens` tokens of a micro-batch.
    fn resting(&self, samples: f64, tokens: f64) -> Parts {
        let s = &self.states;
        // Token ids and labels, and the mask when there is one, eight bytes each.
        let ids = if self.sample > 0.0 {
            samples * (self.sample + 8.0)
        } else if self.runs.iter().any(|r| r.traced) {
            // Traced with all else.
            0.0
        } else {
            tokens * if self.recipe.padding_mask { 24.0 } else { 16.0 }
        };
        Parts {
            parameters: s.parameters,
            optimizer: s.optimizer,
            master: s.master,
            ema: s.ema,
            framework: s.framework + self.total.buffers * 4.0,
            inputs: ids,
            gradients: self.transients.accumulated,
            ..Parts::default()
        }
    }

    /// Bytes that rest between steps.
    pub(super) fn at_rest(&self) -> f64 {
        self.resting(0.0, 0.0).at_rest()
    }

    /// Bytes that one micro-batch of `samples` sequences keeps while it waits for its backward.
    pub(super) fn kept(&self, samples: f64) -> f64 {
        let t = samples * self.seq / self.layout.context_parallel as f64;
        self.runs.iter().map(|r| r.count * r.kept(t, self.layout)).sum()
    }

    /// The parts of every instant for a micro-batch of `samples` sequences, of which `in_flight`
    /// wait at once.
    pub(super) fn instants(&self, samples: f64, in_flight: f64) -> Instants {
        let t = samples * self.seq / self.layout.context_parallel as f64;
        let x = &self.transients;
        let resting = self.resting(samples, t);
        let loss = loss_bytes(self.recipe, &self.head, samples, t);
        let sum = |of: &dyn Fn(&Run) -> f64| self.runs.iter().map(|r| r.count * of(r)).sum::<f64>();
        let all = self.kept(samples);
        // Other micro-batches of the pipeline wait with all they keep.
        let waiting = beside(in_flight) * all;
        let forward = Parts {
            activations: all,
            waiting,
            // Autocast remembers its copies until the forward is over, also of what is recomputed,
            // but only of trained weights.
            copies: sum(&|r| {
                if self.recipe.frozen_base() { r.copies() } else { r.bytes.weight_copies }
            }),
            gathered: x.root + x.resident + x.left,
            loss: loss.forward,
            ..resting
        };
        let copies = sum(&Run::copies);
        let mut loss_backward =
            Parts { copies, loss: loss.backward, gathered: x.root + x.resident + x.ahead, ..forward };
        if x.root_again > 0.0 {
            let gathered = x.resident + x.root_again;
            let again = Parts { copies, gathered, loss: loss.between, ..forward };
            loss_backward = fuller(loss_backward, again);
        }
        let forward = self.fullest_forward(t, forward);
        let mut fullest = Fullest::default();
        let above =
            self.backward(t, &Parts { activations: all, waiting, copies, ..resting }, &loss, &mut fullest);
        let reduction = Parts {
            gradients: resting.gradients + above - x.root_gradients - x.body_gradients + x.body_shard,
            reduction: x.root_reduction + x.bucket + x.flattened,
            inputs: resting.inputs + sum(&|r| r.bytes.held.at(t)),
            gathered: sum(&|r| if r.unit.late { r.unit.unsharded() + r.unit.resident } else { 0.0 }),
            loss: loss.held,
            ..resting
        };
        let around =
            Parts { gradients: reduction.gradients - x.body_shard, reduction: x.body_reduction, ..reduction };
        let reduction = fuller(self.late_reductions(reduction), around);
        let step = Parts {
            gradients: self.states.applied,
            temporaries: self.states.step,
            loss: 0.0,
            reduction: 0.0,
            gathered: 0.0,
            ..reduction
        };
        [
            (Instant::ForwardEnd, forward),
            (Instant::LossBackward, loss_backward),
            (Instant::HeadBackward, fullest.head.1),
            (Instant::TopLayer, fullest.top.1),
            (Instant::BottomLayer, fullest.bottom.1),
            (Instant::EmbeddingBackward, fullest.embedding.1),
            (Instant::Reduction, reduction),
            (Instant::OptimizerStep, step),
            (Instant::Load, self.load()),
        ]
    }

    /// The end of forward, or an instant inside a part of a traced model that is fuller.
    fn fullest_forward(&self, t: f64, end: Parts) -> Parts {
        let (mut fullest, mut below) = (end, 0.0);
        for run in self.runs.iter().filter(|r| r.traced) {
            let inside = Parts { activations: below, working: run.bytes.forward.at(t), ..end };
            fullest = fuller(fullest, inside);
            below += run.count * run.kept(t, self.layout);
        }
        fullest
    }

    /// The last reduction of the root, or that of a unit which `FSDP2` reduces after it, if fuller.
    fn late_reductions(&self, root: Parts) -> Parts {
        let (mut fullest, mut at) = (root, root);
        for Run { count, unit, .. } in self.runs.iter().filter(|r| r.unit.late) {
            at.gathered -= count * (unit.unsharded() + unit.resident);
            at.reduction = unit.reduced;
            fullest = fuller(fullest, at);
            at.gradients -= count * (unit.gradients - unit.reduced_gradients);
        }
        fullest
    }

    /// Walks the runs backwards and notes the fullest instants; gives the bytes of the gradients
    /// that are there at the end. `at` holds what all blocks keep.
    fn backward(&self, t: f64, at: &Parts, loss: &LossBytes, fullest: &mut Fullest) -> f64 {
        let x = &self.transients;
        let mut below = *at;
        let (mut above, mut held_above) = (0.0, 0.0);
        let (mut reduced, mut bucket) = (0.0, 0.0);
        let (mut seen_layer, mut in_place) = (false, self.sums_in_place);
        let mut resident = x.resident;
        for (i, run) in self.runs.iter().enumerate().rev() {
            let kept = run.kept(t, self.layout);
            // A traced part's checkpoint is its output, which the parts after it have used by now.
            let input = if run.recomputed && !run.traced {
                run.checkpoint(t, self.layout) + run.unclaimed(t)
            } else {
                0.0
            };
            let backward = if run.kind == BlockKind::Head && !loss.whole {
                loss.gradient + run.bytes.input.at(t) + run.bytes.weight_grads
            } else {
                run.bytes.backward.at(t)
            };
            // What the next block kept comes back from the host while this one runs.
            let fetched = if run.leaves(self.layout) { run.bytes.kept.at(t) } else { 0.0 };
            // Before PyTorch 2.5, FSDP1's hooks on frozen units hold each layer's input and its
            // gradient to the end of backward (measured on 2.4: 64 + 64 + 64 t h against 66 + 64).
            let held = if x.holds_inputs && run.kind == BlockKind::Layer {
                kept + run.bytes.input.at(t)
            } else {
                0.0
            };
            let beneath = self.runs.get(..i).unwrap_or_default().iter().rev();
            let beneath = beneath.map(|r| r.unit.gathered).find(|&bytes| bytes > 0.0).unwrap_or_default();
            // The head is outside the unit around the layers, which is the next to be gathered.
            let (around, beneath) = match run.kind {
                BlockKind::Head if x.body > 0.0 => (x.root, x.body),
                _ => (x.root + x.body, beneath),
            };
            let n = run.count;
            // The first gradient brings the bucket that all go through.
            if run.weights.trainable(self.recipe) > 0.0 {
                bucket = x.bucket;
            }
            for k in positions(n) {
                let next = if run.unit.ahead > 0.0 {
                    run.unit.ahead
                } else if k + 1.0 < n {
                    run.unit.gathered
                } else {
                    beneath
                };
                let place = Parts {
                    activations: below.activations - (k + 1.0) * kept + held_above + (k + 1.0) * held,
                    copies: below.copies - (k + 1.0) * run.copies(),
                    working: backward + input + fetched,
                    gradients: at.gradients + above + k * run.unit.gradients + run.unit.done,
                    gathered: around + resident - k * run.unit.resident + run.unit.unsharded() + next,
                    reduction: bucket + if k > 0.0 { run.unit.reduced } else { reduced },
                    loss: loss.held,
                    ..*at
                };
                fullest.note(run.kind, seen_layer || k > 0.0, place);
                for own in run.reductions(t, place) {
                    fullest.note(run.kind, seen_layer || k > 0.0, own);
                }
            }
            if run.kind == BlockKind::Embedding && self.tied > 0.0 && !in_place {
                // The gradients of the shared table so far and from this block, and their sum.
                let gradients = at.gradients + above + 2.0 * self.tied;
                let (gathered, reduction) = (x.root + resident, bucket + reduced);
                let place = Parts { gradients, gathered, reduction, loss: loss.held, ..*at };
                fullest.note(run.kind, true, Parts { activations: 0.0, copies: 0.0, ..place });
            }
            in_place &= run.kind != BlockKind::Embedding;
            below.activations -= n * kept;
            below.copies -= n * run.copies();
            above += n * run.unit.gradients;
            held_above += n * held;
            if run.unit.late {
                resident += n * run.unit.unsharded();
            } else {
                resident -= n * run.unit.resident;
                // Of what belongs to the root nothing is reduced yet.
                if run.unit.gathered + run.unit.resident > 0.0 {
                    reduced = run.unit.reduced;
                }
            }
            seen_layer |= run.kind == BlockKind::Layer;
        }
        above
    }
}

/// The gradient of a table that embedding and head share is there once, and waits for all its parts;
/// gives its bytes.
fn share_table(runs: &mut [Run], transients: &mut Transients, width: f64) -> f64 {
    let table = runs.first().map_or(0.0, |r| r.weights.tables) * width;
    for run in runs {
        match run.kind {
            BlockKind::Head => run.unit.gradients = run.bytes.weight_grads,
            BlockKind::Embedding => {
                let shared = table.min(run.unit.gradients);
                run.unit.gradients -= shared;
                transients.share_root(&run.unit, shared);
            }
            _ => {}
        }
    }
    table
}

/// Micro-batches that wait beside the one at work.
pub(super) fn beside(in_flight: f64) -> f64 {
    (in_flight - 1.0).max(0.0)
}

/// Whether a layer runs again in backward but for the outputs that were worth saving, as torchtitan's
/// selective checkpoint has it; elsewhere selective recomputation concerns the core of attention only.
pub(super) fn saves_by_operation(recipe: &Recipe, layout: &Layout) -> bool {
    layout.recompute == Recompute::Selective && recipe.framework == Framework::Torchtitan
}

/// Of a run of `n` equal blocks, those whose backward can be the fullest, counted from the top: its
/// neighbours differ for the first two and the last two.
fn positions(n: f64) -> impl Iterator<Item = f64> {
    let candidates = [0.0, 1.0, n - 2.0, n - 1.0];
    (0..4_usize).filter_map(move |i| {
        let k = *candidates.get(i)?;
        (k >= 0.0 && k < n && !candidates.iter().take(i).any(|&c| c >= k)).then_some(k)
    })
}
