//! One way through the operations of a block, telling of each what backward needs: which weights
//! are trained, which inputs want a gradient, what a checkpoint recomputes.

use crate::workload::{AdapterKind, Block, INPUT, Linear, MEMORY, Op, OpKind, Recipe, Slot};

/// A set of slots as bits; slots past the last bit count as members.
#[derive(Clone, Copy)]
pub(super) struct Slots(u128);

impl Slots {
    pub(super) const NONE: Self = Self(0);

    pub(super) const fn has(self, slot: Slot) -> bool {
        slot >= 128 || self.0 >> slot & 1 == 1
    }

    pub(super) const fn with(self, slot: Slot) -> Self {
        if slot >= 128 { self } else { Self(self.0 | 1 << slot) }
    }
}

/// One operation with what backward does about it.
#[expect(clippy::struct_excessive_bools, reason = "five independent facts of one operation")]
#[derive(Clone, Copy)]
pub(super) struct Visit<'a> {
    /// The operation.
    pub op: &'a Op,
    /// Its own weights are trained.
    pub trains: bool,
    /// Its input wants a gradient.
    pub input_gradient: bool,
    /// It carries a low-rank adapter.
    pub adapted: bool,
    /// A checkpoint of the block runs it again.
    pub recomputed: bool,
    /// A checkpoint runs the second half of its adapter again.
    pub adapter_recomputed: bool,
}

/// Parameters of an adapter on a linear.
pub(super) fn adapter_parameters(recipe: &Recipe, l: &Linear) -> u64 {
    let magnitude = if recipe.lora.kind == AdapterKind::Dora { l.outputs } else { 0 };
    recipe.lora.rank * (l.inputs + l.outputs) + magnitude
}

/// The last operation that keeps something for backward. PyTorch's non-reentrant checkpoint stops
/// when that is found again; a linear keeps its input before it runs, so it is not run.
/// Source: PyTorch `torch/utils/checkpoint.py`, `_StopRecomputationError`.
fn last_kept(block: &Block) -> usize {
    block
        .ops
        .iter()
        .rposition(|op| {
            !matches!(op.kind, OpKind::Add | OpKind::View | OpKind::Scale | OpKind::Clamp | OpKind::Upcast)
        })
        .unwrap_or(0)
}

/// Walks the operations. `input_gradient` says whether the block's input wants a gradient (not in
/// the first layer over a frozen embedding); `stops_early` whether checkpoints stop at the last
/// tensor that backward needs.
pub(super) fn walk<'a>(
    block: &'a Block,
    recipe: &'a Recipe,
    input_gradient: bool,
    stops_early: bool,
) -> impl Iterator<Item = Visit<'a>> {
    let frozen = recipe.frozen_base();
    let mut wants = if input_gradient { Slots::NONE.with(INPUT).with(MEMORY) } else { Slots::NONE };
    let last = if stops_early { last_kept(block) } else { usize::MAX };
    block.ops.iter().enumerate().map(move |(i, op)| {
        let inputs = op.inputs.get(..usize::from(op.arity)).unwrap_or_default();
        let input_gradient = inputs.iter().any(|&s| wants.has(s));
        let (trains, adapted) = match &op.kind {
            OpKind::Linear(l) => (!frozen || recipe.saves_module(l.name), recipe.adapts(l.name)),
            OpKind::Lookup(t) | OpKind::Parameter(t) => (!frozen || recipe.saves_module(t.name), false),
            _ => (!frozen && op.kind.parameters() > 0, false),
        };
        if trains
            || adapted
            || input_gradient
            || (matches!(op.kind, OpKind::Lookup(_)) && recipe.kbit_preparation)
        {
            wants = wants.with(op.output);
        }
        let ends_here = i == last && matches!(op.kind, OpKind::Linear(_));
        Visit {
            op,
            trains,
            input_gradient,
            adapted,
            recomputed: i < last || (i == last && (!ends_here || adapted)),
            adapter_recomputed: i < last || (i == last && !ends_here),
        }
    })
}
