//! Builds blocks: each method appends one operation and names its output.

use super::{
    Act, Attention, Block, BlockKind, Experts, ExpertsKind, GroupWeight, Linear, Norm, NormKind, Op, OpKind,
    Rotary, RotaryKind, Router, RouterKind, Scan, Slot, SlotInfo, Split, Stream, Table,
};

/// Builds a block operation by operation; a family is a function that calls it.
#[derive(Debug)]
pub struct BlockBuilder {
    block: Block,
}

impl BlockBuilder {
    /// A block whose input has `hidden` elements per token.
    #[must_use]
    pub fn new(kind: BlockKind, stream: Stream, hidden: u64) -> Self {
        let slots =
            vec![SlotInfo { width: hidden, stream }, SlotInfo { width: hidden, stream: Stream::Encoder }];
        Self { block: Block { kind, stream, ops: Vec::new(), slots, buffers: 0, traced: None } }
    }

    fn push(&mut self, kind: OpKind, inputs: &[Slot], width: u64) -> Slot {
        let output = Slot::try_from(self.block.slots.len()).unwrap_or(Slot::MAX);
        let stream = inputs
            .first()
            .and_then(|&i| self.block.slots.get(usize::from(i)))
            .map_or(self.block.stream, |s| s.stream);
        self.block.slots.push(SlotInfo { width, stream });
        let mut places = [output; 3];
        for (place, &input) in places.iter_mut().zip(inputs) {
            *place = input;
        }
        let arity = u8::try_from(inputs.len().min(3)).unwrap_or(3);
        self.block.ops.push(Op { kind, inputs: places, arity, output });
        output
    }

    fn width(&self, slot: Slot) -> u64 {
        self.block.slots.get(usize::from(slot)).map_or(0, |s| s.width)
    }

    /// `x W (+ b)`.
    pub fn linear(&mut self, x: Slot, name: &'static str, outputs: u64, bias: bool, split: Split) -> Slot {
        let inputs = self.width(x);
        let l = Linear { name, inputs, outputs, bias, tied: false, split };
        self.push(OpKind::Linear(l), &[x], outputs)
    }

    /// The head, whose weight may be the embedding's.
    pub fn head(&mut self, x: Slot, vocabulary: u64, bias: bool, tied: bool) -> Slot {
        let inputs = self.width(x);
        let l = Linear { name: "lm_head", inputs, outputs: vocabulary, bias, tied, split: Split::Vocabulary };
        self.push(OpKind::Linear(l), &[x], vocabulary)
    }

    /// Normalises the whole vector.
    pub fn norm(&mut self, x: Slot, kind: NormKind) -> Slot {
        let width = self.width(x);
        let norm = Norm { kind, width, groups: 1, weights: GroupWeight::Shared, split: Split::Replicated };
        self.push(OpKind::Norm(norm), &[x], width)
    }

    /// Normalises each head apart, with one weight for all.
    pub fn head_norm(&mut self, x: Slot, kind: NormKind, head: u64) -> Slot {
        self.head_norms(x, kind, head, GroupWeight::Shared)
    }

    /// Normalises each head apart.
    pub fn head_norms(&mut self, x: Slot, kind: NormKind, head: u64, weights: GroupWeight) -> Slot {
        let width = self.width(x);
        let norm = Norm { kind, width: head, groups: width / head.max(1), weights, split: Split::Column };
        self.push(OpKind::Norm(norm), &[x], width)
    }

    /// Rotary position embedding.
    pub fn rotary(&mut self, x: Slot, kind: RotaryKind, head: u64, rotated: u64) -> Slot {
        let width = self.width(x);
        self.push(OpKind::Rotary(Rotary { kind, heads: width / head.max(1), head, rotated }), &[x], width)
    }

    /// Attention of q over k and v.
    pub fn attention(&mut self, q: Slot, k: Slot, v: Slot, spec: Attention) -> Slot {
        let width = spec.heads * spec.v_head;
        self.push(OpKind::Attention(spec), &[q, k, v], width)
    }

    /// Pointwise activation.
    pub fn act(&mut self, x: Slot, act: Act) -> Slot {
        let width = self.width(x);
        self.push(OpKind::Activation(act), &[x], width)
    }

    /// Elementwise product.
    pub fn product(&mut self, a: Slot, b: Slot) -> Slot {
        let width = self.width(a).max(self.width(b));
        self.push(OpKind::Product, &[a, b], width)
    }

    /// Sum.
    pub fn add(&mut self, a: Slot, b: Slot) -> Slot {
        let width = self.width(a);
        self.push(OpKind::Add, &[a, b], width)
    }

    /// Times a constant.
    pub fn scale(&mut self, x: Slot) -> Slot {
        let width = self.width(x);
        self.push(OpKind::Scale, &[x], width)
    }

    /// Soft cap of the values.
    pub fn softcap(&mut self, x: Slot) -> Slot {
        let width = self.width(x);
        self.push(OpKind::Softcap, &[x], width)
    }

    /// Dropout, when the family's probability is above zero.
    pub fn dropout(&mut self, x: Slot, on: bool) -> Slot {
        if !on {
            return x;
        }
        let width = self.width(x);
        self.push(OpKind::Dropout, &[x], width)
    }

    /// Values clamped in place.
    pub fn clamp(&mut self, x: Slot) -> Slot {
        let width = self.width(x);
        self.push(OpKind::Clamp, &[x], width)
    }

    /// A cast to fp32.
    pub fn upcast(&mut self, x: Slot) -> Slot {
        let width = self.width(x);
        self.push(OpKind::Upcast, &[x], width)
    }

    /// The first token of each sequence, a view; what follows sees one vector a sequence.
    pub fn first(&mut self, x: Slot) -> Slot {
        let width = self.width(x);
        let y = self.push(OpKind::View, &[x], width);
        if let Some(slot) = self.block.slots.get_mut(usize::from(y)) {
            slot.stream = Stream::Sequence;
        }
        y
    }

    /// A view of `width` elements of x.
    pub fn view(&mut self, x: Slot, width: u64) -> Slot {
        self.push(OpKind::View, &[x], width)
    }

    /// A new tensor of `width` elements copied from the inputs.
    pub fn assemble(&mut self, parts: &[Slot], width: u64) -> Slot {
        self.push(OpKind::Assemble, parts, width)
    }

    /// Expert choice; the output holds the weights.
    pub fn router(&mut self, x: Slot, kind: RouterKind, experts: u64, top_k: u64, bias: bool) -> Slot {
        let inputs = self.width(x);
        self.push(OpKind::Router(Router { kind, inputs, experts, top_k, bias }), &[x], top_k)
    }

    /// The routed experts.
    pub fn experts(
        &mut self,
        x: Slot,
        weights: Slot,
        kind: ExpertsKind,
        experts: u64,
        top_k: u64,
        width: u64,
    ) -> Slot {
        let hidden = self.width(x);
        self.push(OpKind::Experts(Experts { kind, experts, top_k, hidden, width }), &[x, weights], hidden)
    }

    /// State-space mixer over the two halves of the input projection.
    pub fn scan(&mut self, x: Slot, gate: Slot, scan: Scan) -> Slot {
        self.push(OpKind::Scan(scan), &[x, gate], scan.inner)
    }

    /// Looks each token up in a table.
    pub fn lookup(&mut self, name: &'static str, rows: u64, width: u64, split: Split) -> Slot {
        self.push(OpKind::Lookup(Table { name, rows, width, split, tied: false }), &[], width)
    }

    /// Looks each token up in a table that belongs to another block.
    pub fn tied_lookup(&mut self, name: &'static str, rows: u64, width: u64, split: Split) -> Slot {
        self.push(OpKind::Lookup(Table { name, rows, width, split, tied: true }), &[], width)
    }

    /// A loose parameter; its slot has no elements per token.
    pub fn parameter(&mut self, name: &'static str, rows: u64, width: u64, split: Split) -> Slot {
        self.push(OpKind::Parameter(Table { name, rows, width, split, tied: false }), &[], 0)
    }

    /// The language-model loss over the logits.
    pub fn loss(&mut self, logits: Slot) {
        self.push(OpKind::Loss, &[logits], 0);
    }

    /// Cross-entropy on the logits as they are.
    pub fn plain_loss(&mut self, logits: Slot) {
        self.push(OpKind::PlainLoss, &[logits], 0);
    }

    /// Elements of buffers the block holds.
    pub fn buffers(&mut self, elements: u64) {
        self.block.buffers += elements;
    }

    /// The finished block.
    #[must_use]
    pub fn finish(self) -> Block {
        self.block
    }
}
