//! What FSDP's wrapping by size makes of a block.

use super::weights::BlockWeights;
use crate::layout::{Layout, Sharding, Wrap};
use crate::workload::{Block, BlockKind, Model, OpKind, Recipe};

/// Elements from which `size_based_auto_wrap_policy` makes a module a unit (`min_num_params`).
pub(super) const MIN_UNIT: f64 = 1e8;

/// How a block falls into units, in shares of its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Units {
    /// The unit whose backward is the fullest: with the one gathered ahead of it, the largest.
    pub(super) largest: f64,
    /// The unit of the same block that is gathered ahead of it; none where that is another block's.
    pub(super) ahead: f64,
    /// Units that have been reduced by then.
    pub(super) done: f64,
    /// Parameters in none of its units: they belong to the module around the block.
    pub(super) loose: f64,
    /// Of those, what comes after it in forward: its gradients are there by then.
    pub(super) loose_above: f64,
    /// Whether the block is several units.
    pub(super) several: bool,
    /// Operations of the block that come before it.
    pub(super) before: usize,
}

impl Units {
    /// A block that is one unit.
    pub(super) const WHOLE: Self = Self { largest: 1.0, loose: 0.0, ..Self::NONE };
    /// A block without units.
    pub(super) const NONE: Self =
        Self { largest: 0.0, ahead: 0.0, done: 0.0, loose: 1.0, loose_above: 0.0, several: false, before: 0 };

    /// Modules are visited from the leaves up: a linear weight, then what is left of attention (up to
    /// the projection after it) and of the feed-forward part, then what is left of the layer. Each that
    /// is large enough becomes a unit, the rest passes on to the module around it.
    ///
    /// Source: torch.distributed.fsdp.wrap `_recursive_wrap` and `size_based_auto_wrap_policy`.
    pub(super) fn by_size(block: &Block, weights: &BlockWeights, layout: &Layout) -> Self {
        if layout.wrap != Wrap::Size || !layout.sharding.is_fsdp() {
            return Self::WHOLE;
        }
        if block.traced.is_some() {
            return if weights.base() >= MIN_UNIT { Self::WHOLE } else { Self::NONE };
        }
        let whole: f64 = block.ops.iter().map(|op| op.kind.parameters() as f64).sum();
        let scale = weights.base() / whole.max(1.0);
        // Each unit in forward order, with what was loose when it was found and where it begins.
        let mut units: Vec<(f64, f64, usize)> = Vec::new();
        let mut loose = 0.0;
        let mut left_of = |module: f64, loose: f64, begins: usize| {
            if module >= MIN_UNIT {
                units.push((module, loose, begins));
                return 0.0;
            }
            module
        };
        let (mut module, mut closes, mut begins) = (0.0, false, 0);
        for (at, op) in block.ops.iter().enumerate() {
            let n = op.kind.parameters() as f64 * scale;
            match op.kind {
                OpKind::Linear(_) | OpKind::Experts(_) | OpKind::Lookup(_) => {
                    if module <= 0.0 {
                        begins = at;
                    }
                    module += left_of(n, loose, at);
                    if closes {
                        loose += left_of(module, loose, begins);
                        (module, closes) = (0.0, false);
                    }
                }
                OpKind::Attention(_) => closes = true,
                _ => loose += n,
            }
        }
        loose += left_of(module, loose, begins);
        let loose = left_of(loose, 0.0, 0);
        if units.is_empty() {
            return Self::NONE;
        }
        let base = weights.base().max(1.0);
        let mut fullest = Self { loose: loose / base, several: units.len() > 1, ..Self::NONE };
        let (mut pair, mut ahead, mut done) = (0.0, 0.0, units.iter().map(|u| u.0).sum::<f64>());
        for &(unit, loose_below, before) in &units {
            done -= unit;
            if unit + ahead > pair {
                pair = unit + ahead;
                fullest.largest = unit / base;
                fullest.ahead = ahead / base;
                fullest.done = done / base;
                fullest.loose_above = (loose - loose_below).max(0.0) / base;
                fullest.before = before;
            }
            ahead = unit;
        }
        fullest
    }
}

/// What keeps units by size from being made, in words: `FSDP2` refuses a list of layers, which is always
/// large enough; and a shared table in a unit of `FSDP1` leaves the head a shard of it.
///
/// Sources: torch.distributed.fsdp `_fully_shard/_fsdp_init.py` (containers without a forward) with
/// Accelerate's `fsdp2_prepare_auto_wrap_policy`; `_flat_param.py` (`_use_sharded_views`), run on tied
/// Llama, OPT and GPT-2: "size mismatch, got input (512), mat (512x2048), vec (32833536)".
pub(crate) fn bars_size(sharding: Sharding, hides_table: bool) -> Option<&'static str> {
    match sharding {
        Sharding::Fsdp2 => Some("FSDP2, which takes no list of layers for a unit"),
        _ if sharding.is_fsdp() && hides_table => Some("a table that head and embedding share"),
        _ => None,
    }
}

/// Whether units by size would hide a shared table from the head: in one of the embedding's, or in that
/// of the module around both layers and embedding.
pub(crate) fn hides_shared_table(model: &Model, recipe: &Recipe) -> bool {
    if !model.tied {
        return false;
    }
    let layout = Layout { sharding: Sharding::FullShard, wrap: Wrap::Size, ..Layout::default() };
    let mut around = 0.0;
    for (block, count) in model.runs().filter(|(b, _)| b.kind != BlockKind::Head) {
        let weights = BlockWeights::of(block, recipe, &layout);
        let units = Units::by_size(block, &weights, &layout);
        if block.kind == BlockKind::Embedding && units.largest > 0.0 {
            return true;
        }
        around += weights.base() * units.loose * count as f64;
    }
    around >= MIN_UNIT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::ModelSpec;

    fn layer(preset: &str) -> (Units, f64) {
        let model = ModelSpec(preset.into()).resolve("model").unwrap();
        let block = model.runs().map(|(b, _)| b).find(|b| b.kind == BlockKind::Layer).unwrap();
        let layout = Layout { sharding: Sharding::FullShard, wrap: Wrap::Size, ..Layout::default() };
        let weights = BlockWeights::of(block, &Recipe::default(), &layout);
        (Units::by_size(block, &weights, &layout), weights.base())
    }

    fn hides(preset: &str) -> bool {
        let model = ModelSpec(preset.into()).resolve("model").unwrap();
        hides_shared_table(&model, &Recipe::default())
    }

    #[test]
    fn a_layer_of_llama_8b_is_its_feed_forward_part_and_attention_around_it() {
        let (units, base) = layer("llama-3.1-8b");
        assert!((units.largest * base - 3.0 * 4096.0 * 14_336.0).abs() < 1.0);
        assert!((units.loose * base - (4096.0 * 4096.0 * 2.5 + 2.0 * 4096.0)).abs() < 1.0);
        assert_eq!((units.ahead, units.done, units.several), (0.0, 0.0, false));
    }

    #[test]
    fn a_layer_of_llama_70b_is_four_units_of_which_two_of_a_size_are_the_fullest() {
        let (units, base) = layer("llama-3.1-70b");
        let product = 8192.0 * 28_672.0;
        assert!((units.largest * base - product).abs() < 1.0);
        // The second product of the feed-forward part: the first is gathered ahead, the last is reduced.
        assert!((units.ahead * base - product).abs() < 1.0);
        assert!((units.done * base - product).abs() < 1.0);
        assert!((units.loose * base - 2.0 * 8192.0).abs() < 1.0);
        assert!(units.several && units.before > 0);
    }

    #[test]
    fn a_shared_table_is_hidden_by_its_own_unit_or_by_the_one_around_the_layers() {
        // 128,256 x 2048 is a unit; GPT-2's table is not, but all of GPT-2 has 1.24e8 parameters.
        assert!(hides("llama-3.2-1b") && hides("gpt2"));
        // A head of its own; and a model that is small enough for the root: 12 x 12 h^2 + 50,257 h.
        assert!(!hides("llama-3.1-8b"));
        let mut config = crate::workload::preset_config("gpt2").unwrap();
        config.insert("n_embd".into(), 384.into());
        let small = ModelSpec(config.into()).resolve("model").unwrap();
        assert!(small.tied && !hides_shared_table(&small, &Recipe::default()));
    }

    #[test]
    fn units_by_size_are_made_by_fsdp1() {
        assert_eq!(bars_size(Sharding::FullShard, false), None);
        assert!(bars_size(Sharding::FullShard, true).is_some());
        assert!(bars_size(Sharding::Fsdp2, false).is_some());
        assert_eq!(bars_size(Sharding::Zero3, true), None);
    }
}
