//! Arithmetic, counted exactly. A multiply-add is two FLOPs; only matrix products count, as in
//! PyTorch's own counter.

use super::walk::walk;
use crate::layout::{Again, Recompute};
use crate::workload::{
    Attention, AttentionKernel, Block, BlockKind, Experts, ExpertsKind, Framework, Model, OpKind, Recipe,
};

/// FLOPs of a block or a step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlopCount {
    /// Forward products with weights.
    pub forward: f64,
    /// Backward products that give gradients of inputs.
    pub backward_input: f64,
    /// Backward products that give gradients of weights.
    pub backward_weight: f64,
    /// Forward attention.
    pub attention_forward: f64,
    /// Backward attention, with the scores a fused kernel computes again.
    pub attention_backward: f64,
    /// The same without them: what the mathematics needs.
    pub attention_backward_needed: f64,
    /// What checkpoints run again.
    pub recompute: f64,
}

impl FlopCount {
    /// Forward in all.
    #[must_use]
    pub fn forward_total(&self) -> f64 {
        self.forward + self.attention_forward
    }

    /// Backward as the machine runs it, recompute included.
    #[must_use]
    pub fn backward_total(&self) -> f64 {
        self.backward_input + self.backward_weight + self.attention_backward + self.recompute
    }

    /// Everything the machine runs: the H of HFU.
    #[must_use]
    pub fn hardware(&self) -> f64 {
        self.forward_total() + self.backward_total()
    }

    /// What the mathematics needs: the M of MFU.
    #[must_use]
    pub fn model(&self) -> f64 {
        self.forward_total() + self.backward_input + self.backward_weight + self.attention_backward_needed
    }

    fn add(&mut self, o: &Self, n: f64) {
        self.forward += n * o.forward;
        self.backward_input += n * o.backward_input;
        self.backward_weight += n * o.backward_weight;
        self.attention_forward += n * o.attention_forward;
        self.attention_backward += n * o.attention_backward;
        self.attention_backward_needed += n * o.attention_backward_needed;
        self.recompute += n * o.recompute;
    }
}

/// How to count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FlopRules {
    /// Tokens of a sequence.
    pub seq_len: u64,
    /// Sequences.
    pub sequences: f64,
    /// A causal mask leaves half of the scores (as papers count), instead of all of them (as
    /// PyTorch's counter does).
    pub causal_half: bool,
    /// What checkpoints drop.
    pub recompute: Recompute,
    /// Layers between checkpointed ones.
    pub recompute_every: u64,
    /// What selective recomputation runs again, where a layout names it.
    pub again: Again,
}

/// Whether the framework's checkpoints stop at the last tensor that backward needs.
pub(super) const fn stops_early(recipe: &Recipe) -> bool {
    !matches!(
        recipe.framework,
        Framework::Megatron
            | Framework::Megatron2021
            | Framework::MegatronDeepSpeed
            | Framework::DeepSpeed
            | Framework::Native
    )
}

/// What selective recompute runs again, as shares of a full one: products, traffic, attention.
/// Source: Megatron's `core_attn` runs attention again and nothing else (Korthikanti 2022);
/// torchtitan's per-operation policy keeps attention and every second product.
#[must_use]
pub fn selective(recipe: &Recipe) -> [f64; 3] {
    let unfused = matches!(recipe.attention, AttentionKernel::Eager | AttentionKernel::Math);
    if stops_early(recipe) { [0.5, 1.0, if unfused { 1.0 } else { 0.0 }] } else { [0.0, 0.0, 1.0] }
}

/// Scores of one sequence and head that are computed.
fn scores(a: &Attention, seq: f64, causal_half: bool) -> f64 {
    let window = a.window.map_or(seq, |w| (w as f64).min(seq));
    match (causal_half && a.causal, window < seq) {
        (false, _) => seq * seq,
        (true, false) => 0.5 * seq * seq,
        (true, true) => seq * window - 0.5 * window * window,
    }
}

/// Width of the product that makes both halves of a gated expert.
pub(super) const fn expert_up(e: &Experts) -> u64 {
    match e.kind {
        ExpertsKind::Plain => e.width,
        ExpertsKind::Gated | ExpertsKind::GatedRepeated | ExpertsKind::GatedClamped => 2 * e.width,
    }
}

/// FLOPs of one block. `input_gradient` is false only for the first layer over a frozen embedding.
#[must_use]
pub fn block_flops(block: &Block, recipe: &Recipe, rules: &FlopRules, input_gradient: bool) -> FlopCount {
    let seq = rules.seq_len as f64;
    let tokens = seq * rules.sequences;
    let mut c = FlopCount::default();
    let (mut layer_recompute, mut attention_recompute) = (0.0, 0.0);
    let (mut again, mut attended) = (0.0, false);
    if let Some(part) = &block.traced {
        c.forward = part.flops(tokens);
        c.backward_weight = c.forward * part.trained();
        c.backward_input = c.forward;
        layer_recompute = if part.unit { c.forward } else { 0.0 };
    }
    for v in walk(block, recipe, input_gradient, stops_early(recipe)) {
        let weights = match v.op.kind {
            OpKind::Linear(l) => {
                if v.adapted {
                    let r = recipe.lora.rank as f64;
                    let (down, up) =
                        (2.0 * tokens * r * l.inputs as f64, 2.0 * tokens * r * l.outputs as f64);
                    c.forward += down + up;
                    c.backward_weight += down + up;
                    c.backward_input += up + if v.input_gradient { down } else { 0.0 };
                    layer_recompute += if v.recomputed { down } else { 0.0 };
                    layer_recompute += if v.adapter_recomputed { up } else { 0.0 };
                }
                l.inputs * l.outputs
            }
            OpKind::Router(r) => r.inputs * r.experts,
            OpKind::Experts(e) => e.top_k * e.hidden * (expert_up(&e) + e.width),
            OpKind::Scan(s) if s.heads > 0 => s.convolved() * s.taps,
            OpKind::Scan(s) => s.inner * (s.steering() + s.rank + s.taps),
            OpKind::Attention(a) => {
                let cells = scores(&a, seq, rules.causal_half) * rules.sequences * a.heads as f64;
                let (qk, pv) = (2.0 * cells * a.qk_head as f64, 2.0 * cells * a.v_head as f64);
                let needed = if v.input_gradient { 2.0 * (qk + pv) } else { 0.0 };
                let fused = !a.eager_only
                    && !matches!(recipe.attention, AttentionKernel::Eager | AttentionKernel::Math);
                attended = true;
                c.attention_forward += qk + pv;
                again += if rules.again.runs(&v.op.kind, attended) { qk + pv } else { 0.0 };
                c.attention_backward_needed += needed;
                // A fused kernel multiplies q and k once more to find the scores again.
                c.attention_backward += needed + if fused && v.input_gradient { qk } else { 0.0 };
                if v.recomputed {
                    attention_recompute += qk + pv;
                }
                continue;
            }
            _ => continue,
        };
        // Tokens that find no place with their expert are not computed.
        let placed = match v.op.kind {
            OpKind::Experts(_) => recipe.runtime.moe_capacity_factor.unwrap_or(1.0).min(1.0),
            _ => 1.0,
        };
        let product = 2.0 * tokens * placed * weights as f64;
        c.forward += product;
        c.backward_weight += if v.trains { product } else { 0.0 };
        c.backward_input += if v.input_gradient { product } else { 0.0 };
        layer_recompute += if v.recomputed { product } else { 0.0 };
        again += if rules.again.runs(&v.op.kind, attended) { product } else { 0.0 };
    }
    let every = rules.recompute_every.max(1) as f64;
    if rules.again.is_named() {
        c.recompute = if block.kind == BlockKind::Layer { again / every } else { 0.0 };
        return c;
    }
    let shares = match (block.kind, rules.recompute) {
        (BlockKind::Layer, Recompute::Full) => [1.0; 3],
        (BlockKind::Layer, Recompute::Selective) => selective(recipe),
        _ => [0.0; 3],
    };
    let [products, _, attention] = shares.map(|s| s / every);
    c.recompute = products * layer_recompute + attention * attention_recompute;
    c
}

/// FLOPs of the whole model.
///
/// ```
/// use shardwise::compute::{FlopRules, step_flops};
/// use shardwise::{Model, ModelSpec, Recipe};
/// let model = ModelSpec::from("llama-2-7b").resolve("model").unwrap();
/// let rules = FlopRules {
///     seq_len: 2048,
///     sequences: 1.0,
///     causal_half: false,
///     recompute: Default::default(),
///     recompute_every: 1,
///     again: Default::default(),
/// };
/// let c = step_flops(&model, &Recipe::default(), &rules);
/// assert_eq!(c.forward_total(), 29_261_612_187_648.0);
/// assert_eq!(c.backward_total(), 59_622_736_003_072.0);
/// ```
#[must_use]
pub fn step_flops(model: &Model, recipe: &Recipe, rules: &FlopRules) -> FlopCount {
    let mut total = FlopCount::default();
    let rules = FlopRules { seq_len: model.fixed_tokens.unwrap_or(rules.seq_len), ..*rules };
    // Over a frozen embedding nothing wants a gradient before the first adapter.
    let mut input_gradient = !recipe.frozen_base() || recipe.kbit_preparation;
    for (block, n) in model.runs() {
        if !input_gradient && block.kind == BlockKind::Layer {
            total.add(&block_flops(block, recipe, &rules, false), 1.0);
            total.add(&block_flops(block, recipe, &rules, true), n as f64 - 1.0);
            input_gradient = true;
        } else {
            total.add(&block_flops(block, recipe, &rules, input_gradient), n as f64);
        }
    }
    total
}
