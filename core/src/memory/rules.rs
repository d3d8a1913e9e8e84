//! What each operation of the vocabulary keeps for backward, per implementation.
//!
//! Source: the modelling code of Transformers 5 and PyTorch 2.15's derivatives, each rule checked
//! against the bytes real PyTorch saves.

mod attention;
mod experts;
mod linear;
mod pointwise;
mod scan;
mod traced;

use super::line::Line;
use super::tape::{BlockBytes, Id, Tape, WeightGrads};
use super::transients::gradients_join;
use crate::layout::{Again, ContextStyle, Layout, RecomputeModule};
use crate::workload::{
    Act, AttentionBias, AttentionKernel, Block, BlockKind, Compute, Framework, Kernels, MEMORY, Method, Op,
    OpKind, Recipe, Slot, Split, Stream,
};

/// Number formats and sizes one rank computes with.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the run")]
pub(super) struct Mode<'a> {
    pub(super) recipe: &'a Recipe,
    /// Bytes of an activation that matrix multiplications take and give.
    pub(super) compute: f64,
    /// Bytes of an element of the residual stream.
    pub(super) residual: f64,
    /// Bytes of a gathered weight, and of its gradient before any reduction.
    pub(super) weight: f64,
    /// `torch.autocast` casts fp32 tensors at use.
    pub(super) autocast: bool,
    /// Whether norms (and biases) are trained.
    pub(super) train_base: bool,
    /// Tokens of a sequence that keys span.
    pub(super) seq: f64,
    /// The micro-batch holds more than one sequence.
    pub(super) batched: bool,
    /// Tensor-parallel ranks.
    pub(super) tp: f64,
    /// Ranks that share the vocabulary.
    pub(super) vocab: f64,
    /// Whether norms and residuals are cut along the sequence.
    pub(super) sequence_parallel: bool,
    /// Routed experts on this rank.
    pub(super) expert_share: f64,
    /// Tokens of this rank's experts as a multiple of the mean.
    pub(super) expert_load: f64,
    /// How the sequence is split, if it is.
    pub(super) context: Option<ContextStyle>,
    /// Dropouts are on.
    pub(super) dropout: bool,
    /// The block's input needs a gradient.
    pub(super) input_grad: bool,
    /// The block's forward runs again in backward: its input is the checkpoint.
    pub(super) recomputed: bool,
    /// Attention's scores and probabilities are computed again in backward (Korthikanti 2022).
    pub(super) core_recomputed: bool,
    /// Parts of a layer that run again in backward.
    pub(super) again: Again,
    /// Gradients of earlier micro-batches are there.
    pub(super) accumulates: bool,
    /// How gradients of weights are stored while backward runs.
    pub(super) weight_grads: WeightGrads,
    /// Operations that come before the unit whose end of backward is looked at.
    pub(super) before_unit: usize,
}

impl<'a> Mode<'a> {
    /// The mode of a recipe under a layout.
    pub(super) fn new(recipe: &'a Recipe, layout: &Layout, seq_len: u64, accumulates: bool) -> Self {
        let compute = recipe.compute.activations().bytes();
        let params = recipe.params().bytes();
        let gathers = layout.sharding.is_fsdp();
        let autocast = recipe.autocasts(gathers);
        let casts_parameters = gathers && !autocast && params > compute;
        let sixteen_bit_engine = layout.sharding.is_zero() || recipe.framework.keeps_master_weights();
        let weight = if casts_parameters || sixteen_bit_engine { compute } else { params };
        let residual = if recipe.kbit_preparation { 4.0 } else { weight };
        Self {
            recipe,
            compute: if autocast { compute } else { compute.min(weight.max(compute)) },
            residual,
            weight,
            autocast,
            train_base: !recipe.frozen_base(),
            seq: seq_len as f64,
            batched: layout.micro_batch > 1,
            tp: layout.tensor_parallel as f64,
            vocab: layout.vocabulary_ranks() as f64,
            sequence_parallel: layout.sequence_parallel,
            expert_share: 1.0 / layout.expert_parallel as f64,
            expert_load: recipe.runtime.expert_load(layout.expert_parallel),
            context: (layout.context_parallel > 1).then_some(layout.context_style),
            dropout: !recipe.no_dropout,
            input_grad: true,
            recomputed: false,
            core_recomputed: layout.recomputes(RecomputeModule::CoreAttn)
                && recipe.framework != Framework::Torchtitan,
            again: Again::of(layout),
            accumulates,
            weight_grads: if gradients_join(recipe, layout, accumulates) {
                WeightGrads::Join
            } else {
                WeightGrads::Stay
            },
            before_unit: 0,
        }
    }

    /// Whether another mode of the same recipe reads every block alike.
    pub(super) fn same(&self, o: &Self) -> bool {
        let Self {
            recipe: _,
            compute,
            residual,
            weight,
            autocast,
            train_base,
            seq,
            tp,
            vocab,
            sequence_parallel,
            expert_share,
            expert_load,
            context,
            dropout,
            input_grad,
            batched,
            recomputed,
            core_recomputed,
            again,
            accumulates,
            weight_grads,
            before_unit,
        } = *self;
        // What neighbouring layouts differ in comes first.
        let equal = |a: f64, b: f64| a.to_bits() == b.to_bits();
        input_grad == o.input_grad
            && recomputed == o.recomputed
            && accumulates == o.accumulates
            && batched == o.batched
            && sequence_parallel == o.sequence_parallel
            && context == o.context
            && equal(tp, o.tp)
            && equal(vocab, o.vocab)
            && equal(expert_share, o.expert_share)
            && equal(expert_load, o.expert_load)
            && core_recomputed == o.core_recomputed
            && (weight_grads, again, before_unit) == (o.weight_grads, o.again, o.before_unit)
            && equal(compute, o.compute)
            && equal(residual, o.residual)
            && equal(weight, o.weight)
            && equal(seq, o.seq)
            && autocast == o.autocast
            && train_base == o.train_base
            && dropout == o.dropout
    }

    fn fused(&self) -> bool {
        self.recipe.kernels() != Kernels::Eager
    }
}

/// Interprets a block.
pub(super) fn interpret(block: &Block, mode: &Mode<'_>) -> BlockBytes {
    if let Some(part) = &block.traced {
        return traced::bytes(part, mode);
    }
    let mut reader = Reader {
        mode,
        first: block.ops.iter().any(|op| is_relative_table(&op.kind)),
        tape: Tape::with_capacity(4 * block.ops.len() + 8, mode.recipe.on_processor),
        slots: Vec::with_capacity(block.slots.len()),
        products: 0,
        quantised: None,
    };
    reader.run(block)
}

/// A slot of the block on the tape.
#[derive(Clone, Copy)]
struct Place {
    id: Id,
    /// Cut over the tensor-parallel ranks.
    cut: bool,
    /// What made it, where a later rule must know.
    origin: Origin,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Origin {
    Other,
    /// The output of an activation, and the tensor it was made from.
    Activation(Id),
    /// Laid out head by head, so that attention's output must be copied.
    HeadMajor,
    /// The output of a norm.
    Norm,
}

struct Reader<'m, 'a> {
    mode: &'m Mode<'a>,
    /// The block owns the table of relative positions that the layers after it use too.
    first: bool,
    tape: Tape,
    slots: Vec<Place>,
    /// Matrix products so far.
    products: u32,
    /// The last input that was kept in 8 bits: projections of one input share the copy.
    quantised: Option<Id>,
}

impl Reader<'_, '_> {
    fn run(&mut self, block: &Block) -> BlockBytes {
        let m = self.mode;
        let cut = m.sequence_parallel;
        for (slot, info) in block.slots.iter().take(2).enumerate() {
            let elements = self.elements(info.width as f64, cut);
            // The checkpoint is charged as such, the encoder's output once for all its readers.
            let id = if slot == usize::from(MEMORY) || m.recomputed {
                self.tape.borrowed(elements, m.residual, m.input_grad)
            } else {
                self.tape.tensor(elements, m.residual, m.input_grad)
            };
            self.slots.push(Place { id, cut, origin: Origin::Other });
        }
        let input = 0;
        let reads_memory =
            block.ops.iter().any(|op| op.inputs.iter().take(usize::from(op.arity)).any(|&i| i == MEMORY));
        let mut attended = false;
        let mut before_unit = Line::ZERO;
        for (i, op) in block.ops.iter().enumerate() {
            if i == m.before_unit {
                before_unit = self.tape.kept();
            }
            let again = block.kind == BlockKind::Layer && m.again.drops(&op.kind, attended);
            self.tape.recompute(again);
            let first = self.tape.len();
            let place = self.op(block, op);
            self.slots.push(place);
            for &input in op.inputs.iter().take(if again { usize::from(op.arity) } else { 0 }) {
                let Some(start) = self.slots.get(usize::from(input)) else { continue };
                // A fused layer holds the norm before it, which runs again from what it keeps.
                if !(m.fused() && start.origin == Origin::Norm) {
                    self.tape.starts_from(first, start.id);
                }
            }
            attended |= matches!(op.kind, OpKind::Attention(_));
        }
        let output = self.slots.last().map_or(input, |p| p.id);
        let mut bytes = self.tape.finish(
            input,
            output,
            reads_memory.then_some(usize::from(MEMORY)),
            m.weight_grads,
            m.recomputed,
        );
        bytes.before_unit = before_unit;
        if block.kind == BlockKind::Embedding {
            bytes.input = Line::ZERO;
        }
        if m.recomputed && self.first {
            // What the first layer makes for all others leaves its checkpoint with its output: the
            // bias of relative positions, and the zeros of cross-attention.
            for op in &block.ops {
                if let OpKind::Attention(a) = op.kind {
                    bytes.checkpoint += Line::fixed(m.seq * m.seq * a.heads as f64 * m.weight);
                }
            }
        }
        bytes
    }

    /// Elements per token of a tensor of `width`, on this rank.
    fn elements(&self, width: f64, cut: bool) -> Line {
        Line::per_token(if cut { width / self.mode.tp } else { width })
    }

    fn place(&self, slot: Slot) -> Place {
        self.slots.get(usize::from(slot)).copied().unwrap_or(Place {
            id: 0,
            cut: false,
            origin: Origin::Other,
        })
    }

    fn input(&self, op: &Op, i: usize) -> Place {
        self.place(op.inputs.get(i).copied().unwrap_or_default())
    }

    /// Any of the tensors needs a gradient.
    fn any_grad(&self, ids: &[Id]) -> bool {
        ids.iter().any(|&i| self.tape.grad(i))
    }

    /// A new tensor like `like`, of another width in bytes, by a step that keeps nothing.
    fn cast(&mut self, x: Id, width: f64) -> Id {
        if (self.tape.width(x) - width).abs() < f64::EPSILON {
            return x;
        }
        let out = self.tape.tensor(self.tape.elements(x), width, self.tape.grad(x));
        self.tape.step(&[x], out);
        out
    }

    fn like(&mut self, x: Id) -> Id {
        self.tape.tensor(self.tape.elements(x), self.tape.width(x), self.tape.grad(x))
    }

    fn op(&mut self, block: &Block, op: &Op) -> Place {
        let width = block.slots.get(usize::from(op.output)).map_or(0, |s| s.width) as f64;
        let x = self.input(op, 0);
        let other = |id| Place { id, cut: x.cut, origin: Origin::Other };
        match op.kind {
            OpKind::Linear(l) => self.linear(x, &l),
            OpKind::Norm(n) => {
                let id = self.norm(x.id, &n, op.kind.parameters() as f64);
                Place { origin: Origin::Norm, ..other(id) }
            }
            OpKind::Rotary(r) => self.rotary(x, &r),
            OpKind::Attention(a) => self.attention(op, &a),
            OpKind::Activation(act) => self.activation(x, act),
            OpKind::Product => self.product(x, self.input(op, 1)),
            OpKind::Add => {
                let y = self.input(op, 1).id;
                let grad = self.any_grad(&[x.id, y]);
                let width = self.tape.width(x.id).max(self.tape.width(y));
                let out = self.tape.tensor(self.tape.elements(x.id), width, grad);
                self.tape.step(&[x.id, y], out).passes();
                other(out)
            }
            OpKind::Scale => {
                let out = self.like(x.id);
                self.tape.step(&[x.id], out);
                other(out)
            }
            OpKind::Softcap => {
                let out = self.like(x.id);
                self.tape.step(&[x.id], out);
                self.tape.keep(out);
                let scaled = self.like(out);
                self.tape.step(&[out], scaled);
                other(scaled)
            }
            OpKind::Dropout if self.mode.dropout => other(self.dropout(x.id)),
            OpKind::View => {
                let sequence =
                    block.slots.get(usize::from(op.output)).is_some_and(|s| s.stream == Stream::Sequence);
                let per_token = if sequence { width / self.mode.seq } else { width };
                let id = self.tape.view(x.id, self.elements(per_token, x.cut));
                self.tape.step(&[x.id], id);
                Place { id, ..x }
            }
            OpKind::Assemble => {
                let ids: Vec<Id> = (0..usize::from(op.arity)).map(|i| self.input(op, i).id).collect();
                let grad = self.any_grad(&ids);
                let out = self.tape.tensor(self.elements(width, x.cut), self.tape.width(x.id), grad);
                self.tape.step(&ids, out);
                Place { id: out, cut: x.cut, origin: Origin::HeadMajor }
            }
            OpKind::Router(r) => other(self.router(x.id, &r)),
            OpKind::Experts(e) => other(self.experts(x.id, self.input(op, 1).id, &e)),
            OpKind::Scan(s) => self.scan(x, self.input(op, 1), &s),
            OpKind::Lookup(t) => {
                let m = self.mode;
                let trained = m.train_base;
                let cut = m.sequence_parallel;
                let out =
                    self.tape.tensor(self.elements(t.width as f64, cut), m.residual, trained || m.input_grad);
                let rows = if t.split == Split::Vocabulary { t.rows as f64 / m.vocab } else { t.rows as f64 };
                self.tape.step(&[], out);
                if trained {
                    self.tape.weight_grad(rows * t.width as f64 * m.weight);
                }
                Place { id: out, cut, origin: Origin::Other }
            }
            OpKind::Parameter(t) => {
                let out = self.tape.borrowed(Line::ZERO, self.mode.weight, self.mode.train_base);
                self.tape.step(&[], out);
                if self.mode.train_base {
                    self.tape.weight_grad(t.rows as f64 * t.width as f64 * self.mode.weight);
                }
                if is_relative_table(&op.kind) {
                    // The bucket of each pair of positions, 64-bit.
                    let pairs = Line::fixed(self.mode.seq * self.mode.seq);
                    let buckets = self.tape.tensor(pairs, 8.0, false);
                    self.tape.keep(buckets);
                }
                Place { id: out, ..x }
            }
            OpKind::Clamp => {
                // In place, so autograd keeps a copy of what was there.
                let out = self.like(x.id);
                self.tape.step(&[x.id], out);
                let before = self.like(x.id);
                self.tape.keep(before);
                other(out)
            }
            OpKind::Upcast => other(self.cast(x.id, 4.0)),
            OpKind::Dropout | OpKind::Loss | OpKind::PlainLoss => x,
        }
    }
}

/// The table from which a stack's first layer makes the bias of all its layers (T5).
fn is_relative_table(kind: &OpKind) -> bool {
    matches!(kind, OpKind::Parameter(t) if t.name == "relative_attention_bias")
}

/// Which attention code runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kernel {
    Flash,
    Efficient,
    Math,
    Eager,
}

/// Which code `kernel` ends up in for this attention: PyTorch's flash kernel takes neither a mask
/// tensor nor fp32, and a family without a fused path runs eagerly.
pub(super) fn kernel_of(spec: &crate::workload::Attention, mode: &Mode<'_>) -> Kernel {
    let masked = spec.masked
        || mode.recipe.padding_mask
        || spec.bias != AttentionBias::None
        || spec.window.is_some_and(|w| mode.seq >= w as f64);
    match mode.recipe.attention {
        AttentionKernel::Eager => Kernel::Eager,
        AttentionKernel::Math => Kernel::Math,
        AttentionKernel::Efficient => Kernel::Efficient,
        AttentionKernel::Sdpa if spec.eager_only => Kernel::Eager,
        // Flash takes neither masks nor fp32 nor values narrower than keys.
        AttentionKernel::Sdpa if masked || mode.compute > 2.0 || spec.qk_head != spec.v_head => {
            Kernel::Efficient
        }
        // No flash kernel adds a learnt bias.
        _ if matches!(spec.bias, AttentionBias::Relative | AttentionBias::Shared) => Kernel::Efficient,
        _ => Kernel::Flash,
    }
}

impl Mode<'_> {
    /// Whether fake quantisation wraps the linear layers.
    pub(super) fn fake_quantised(&self) -> bool {
        matches!(self.recipe.method, Method::Qat | Method::QatLora)
    }

    /// Linear layers keep their input in 8 bits: fused layers and engines do; torchao's keep it in 16
    /// and cast it again (`float8_linear.py` saves `input_hp`).
    pub(super) fn eight_bit(&self) -> bool {
        let r = self.recipe;
        matches!(r.compute, Compute::Fp8 | Compute::Mxfp8 | Compute::Nvfp4)
            && (r.kernels() == Kernels::Fused
                || matches!(r.framework, Framework::Megatron | Framework::Native))
    }
}

/// Elementwise tensors that a Python-written activation keeps beside its output, in elements.
pub(super) const fn python_activation(act: Act) -> usize {
    match act {
        Act::GeluNew => 4,
        Act::GeluFast => 7,
        _ => 0,
    }
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Recompute;
    use crate::workload::ModelSpec;

    #[test]
    fn what_runs_again_starts_from_the_residual_stream() {
        let model = ModelSpec("llama-3.1-8b".into()).resolve("model").unwrap();
        let block = model.runs().map(|(b, _)| b).find(|b| b.kind == BlockKind::Layer).unwrap();
        let layout = Layout {
            recompute: Recompute::Selective,
            recompute_modules: vec![
                RecomputeModule::Attention,
                RecomputeModule::Layernorm,
                RecomputeModule::Mlp,
            ],
            ..Layout::default()
        };
        let recipe = Recipe { framework: Framework::DeepSpeed, ..Recipe::default() };
        let bytes = interpret(block, &Mode::new(&recipe, &layout, 32, false));
        // The input of each of the two norms, in 16 bits; everything else is made again from them.
        assert_eq!(bytes.kept, Line::per_token(2.0 * 2.0 * 4096.0));
    }
}
