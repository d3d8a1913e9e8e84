//! What blocks keep and weigh, remembered: neighbouring layouts differ in few of the things these
//! depend on.

use std::rc::Rc;

use super::rules::{Mode, interpret};
use super::tape::BlockBytes;
use super::weights::BlockWeights;
use crate::layout::Layout;
use crate::workload::{Block, Recipe};

/// Results for the blocks of one model under one recipe; the model's index of the block names it.
#[derive(Default)]
pub(crate) struct Memo<'a> {
    /// By block, what was asked for last at the end: that is asked for again.
    bytes: Vec<Vec<(Mode<'a>, Rc<BlockBytes>)>>,
    weights: Vec<(usize, [u64; 3], BlockWeights)>,
}

impl<'a> Memo<'a> {
    /// A block's bytes, interpreted at most once.
    pub(super) fn bytes(&mut self, index: usize, block: &Block, mode: &Mode<'a>) -> Rc<BlockBytes> {
        if self.bytes.len() <= index {
            self.bytes.resize_with(index + 1, Vec::new);
        }
        let Some(known) = self.bytes.get_mut(index) else { return Rc::new(interpret(block, mode)) };
        if let Some(at) = known.iter().rposition(|(m, _)| m.same(mode)) {
            let last = known.len() - 1;
            if at < last {
                known.swap(at, last);
            }
        } else {
            known.push((*mode, Rc::new(interpret(block, mode))));
        }
        known.last().map_or_else(|| Rc::new(interpret(block, mode)), |(_, bytes)| Rc::clone(bytes))
    }

    /// A block's weights, counted at most once.
    pub(super) fn weights(
        &mut self,
        index: usize,
        block: &Block,
        recipe: &Recipe,
        layout: &Layout,
    ) -> BlockWeights {
        let degrees = [layout.tensor_parallel, layout.vocabulary_ranks(), layout.expert_parallel];
        let known = self.weights.iter().find(|(i, d, _)| *i == index && *d == degrees);
        if let Some((.., weights)) = known {
            return *weights;
        }
        let weights = BlockWeights::of(block, recipe, layout);
        self.weights.push((index, degrees, weights));
        weights
    }
}
