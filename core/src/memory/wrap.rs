//! What FSDP's wrapping by size makes of a block.

use super::weights::BlockWeights;
use crate::layout::{Layout, Wrap};
use crate::workload::{Block, OpKind};

/// Elements from which `size_based_auto_wrap_policy` makes a module a unit (`min_num_params`).
const MIN_UNIT: f64 = 1e8;

/// How a block falls into units: the largest one's share of its parameters, and the share that belongs
/// to the root.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Units {
    pub(super) largest: f64,
    pub(super) loose: f64,
}

impl Units {
    /// A block that is one unit.
    pub(super) const WHOLE: Self = Self { largest: 1.0, loose: 0.0 };
    /// A block of the root.
    pub(super) const NONE: Self = Self { largest: 0.0, loose: 1.0 };

    /// Modules are visited from the leaves up: a linear weight, then what is left of attention (up to
    /// the projection after it) and of the feed-forward part, then what is left of the layer. Each that
    /// is large enough becomes a unit, the rest passes on to the module around it.
    ///
    /// Source: torch.distributed.fsdp.wrap `_recursive_wrap` and `size_based_auto_wrap_policy`.
    pub(super) fn by_size(block: &Block, weights: &BlockWeights, layout: &Layout) -> Self {
        if layout.wrap != Wrap::Size {
            return Self::WHOLE;
        }
        if block.traced.is_some() {
            return if weights.base() >= MIN_UNIT { Self::WHOLE } else { Self::NONE };
        }
        let whole: f64 = block.ops.iter().map(|op| op.kind.parameters() as f64).sum();
        let scale = weights.base() / whole.max(1.0);
        let (mut largest, mut loose) = (0.0_f64, 0.0);
        let mut left_of = |module: f64| {
            if module >= MIN_UNIT {
                largest = largest.max(module);
                return 0.0;
            }
            module
        };
        let (mut module, mut closes) = (0.0, false);
        for op in &block.ops {
            let n = op.kind.parameters() as f64 * scale;
            match op.kind {
                OpKind::Linear(_) | OpKind::Experts(_) | OpKind::Lookup(_) => {
                    module += left_of(n);
                    if closes {
                        loose += left_of(module);
                        (module, closes) = (0.0, false);
                    }
                }
                OpKind::Attention(_) => closes = true,
                _ => loose += n,
            }
        }
        loose += left_of(module);
        let loose = left_of(loose);
        let base = weights.base().max(1.0);
        Self { largest: largest / base, loose: loose / base }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{BlockKind, ModelSpec, Recipe};

    fn layer(preset: &str) -> (Units, f64) {
        let model = ModelSpec(preset.into()).resolve("model").unwrap();
        let block = model.runs().map(|(b, _)| b).find(|b| b.kind == BlockKind::Layer).unwrap();
        let layout = Layout { wrap: Wrap::Size, ..Layout::default() };
        let weights = BlockWeights::of(block, &Recipe::default(), &layout);
        (Units::by_size(block, &weights, &layout), weights.base())
    }

    #[test]
    fn a_layer_of_llama_8b_is_its_feed_forward_part_and_attention_in_the_root() {
        let (units, base) = layer("llama-3.1-8b");
        assert!((units.largest * base - 3.0 * 4096.0 * 14_336.0).abs() < 1.0);
        assert!((units.loose * base - (4096.0 * 4096.0 * 2.5 + 2.0 * 4096.0)).abs() < 1.0);
    }

    #[test]
    fn a_layer_of_llama_70b_is_four_units() {
        let (units, base) = layer("llama-3.1-70b");
        assert!((units.largest * base - 8192.0 * 28_672.0).abs() < 1.0);
        assert!((units.loose * base - 2.0 * 8192.0).abs() < 1.0);
    }
}
