//! What a checkpoint of a model under a recipe holds.

use super::states::base_bytes;
use super::weights::BlockWeights;
use crate::checkpoint::SavedState;
use crate::layout::{Layout, Sharding};
use crate::workload::{Dtype, Model, Recipe};

/// The state that training goes on from, over all ranks together.
///
/// ```
/// use shardwise::checkpoint::Contents;
/// use shardwise::layout::Sharding;
/// use shardwise::{ModelSpec, Recipe, memory::saved_state};
/// let model = ModelSpec::from("llama-3.1-8b").resolve("model").unwrap();
/// // fp32 parameters and AdamW's two moments: 12 bytes each.
/// let state = saved_state(&model, &Recipe::default(), Sharding::Fsdp2);
/// assert_eq!(state.bytes(Contents::Resume).total().get(), 12.0 * 8_030_261_248.0);
/// // 16-bit engines save 2 + 4 + 8.
/// let state = saved_state(&model, &Recipe::default(), Sharding::Zero3);
/// assert_eq!(state.bytes(Contents::Resume).total().get(), 14.0 * 8_030_261_248.0);
/// ```
#[must_use]
pub fn saved_state(model: &Model, recipe: &Recipe, sharding: Sharding) -> SavedState {
    let whole = Layout::default();
    let mut w = BlockWeights::default();
    for (block, copies) in model.runs() {
        w += (BlockWeights::of(block, recipe, &whole), copies as f64);
    }
    let trainable = w.trainable(recipe);
    let engine = sharding.is_zero() || recipe.framework.keeps_master_weights();
    let width = if engine { recipe.compute.activations() } else { recipe.params() }.bytes();
    let trained = if !engine && recipe.frozen_base() { recipe.lora.dtype.bytes() } else { width };
    let (master_bytes, moments_of) = if engine { (4.0, Dtype::Fp32.bytes()) } else { (0.0, trained) };
    let base = w.base();
    SavedState {
        parameters: base + if recipe.frozen_base() { w.adapters } else { 0.0 },
        trainable,
        frozen_bytes: if base > 0.0 { base_bytes(&w, recipe, width) / base } else { width },
        weight_bytes: trained,
        master_bytes,
        optimizer_bytes: recipe.optimizer.costs().states.bytes(moments_of),
    }
}
