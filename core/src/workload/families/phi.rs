//! Microsoft's Phi: the parallel layer of Phi-1 and Phi-2, the fused Llama layer of Phi-3 and Phi-4.

use super::super::block::{BlockBuilder, BlockKind, INPUT, NormKind, RotaryKind, RouterKind, Split, Stream};
use super::super::config::Config;
use super::super::model::Model;
use super::gpt::{LAYER_NORM, fused_qkv, plain_mlp};
use super::llama::{Shape, Shared, layer};
use super::moe::routing;
use super::{Around, act, fused_gated_mlp, heads, rotated};
use crate::error::Result;

/// `phi`: attention and feed-forward side by side, biases everywhere.
pub(super) fn phi(c: &Config<'_>) -> Result<Model> {
    let h = heads(c, 2048, 32, None, None)?;
    let hidden = h.hidden;
    let ffn = c.int_or(&["intermediate_size"], 8192)?;
    let act = act(c, &["hidden_act"], "gelu_new")?;
    let dropout = c.drops(&["resid_pdrop"], 0.0)?;
    let rotated = rotated(c, &["partial_rotary_factor"], h.head, 0.5)?;
    let mut attention = h.attention();
    attention.dropout = c.drops(&["attention_dropout"], 0.0)?;

    let mut b = BlockBuilder::new(BlockKind::Layer, Stream::Main, hidden);
    let normed = b.norm(INPUT, LAYER_NORM);
    let mut q = b.linear(normed, "q_proj", h.q(), true, Split::Column);
    let mut k = b.linear(normed, "k_proj", h.kv(), true, Split::Column);
    let v = b.linear(normed, "v_proj", h.kv(), true, Split::Column);
    if c.flag(&["qk_layernorm"], false)? {
        q = b.head_norm(q, LAYER_NORM, h.head);
        k = b.head_norm(k, LAYER_NORM, h.head);
    }
    let q = b.rotary(q, RotaryKind::Partial, h.head, rotated);
    let k = b.rotary(k, RotaryKind::Partial, h.head, rotated);
    let attended = b.attention(q, k, v, attention);
    let out = b.linear(attended, "dense", hidden, true, Split::Row);
    let out = b.dropout(out, dropout);
    let mlp = plain_mlp(&mut b, normed, ["fc1", "fc2"], ffn, hidden, act, true);
    let mlp = b.dropout(mlp, dropout);
    let sum = b.add(out, mlp);
    b.add(sum, INPUT);
    let layer = b.finish();

    let layers = c.layers(&["num_hidden_layers"], 24)?;
    let around = Around {
        embedding_dropout: c.drops(&["embd_pdrop"], 0.0)?,
        head_bias: true,
        ..Around::read(c, hidden, LAYER_NORM, 51_200, false)?.rotary(rotated)
    };
    Ok(around.model(|stack| stack.push(layer, layers)))
}

/// `phi3`: q, k, v and gate, up as views of fused projections.
pub(super) fn phi3(c: &Config<'_>) -> Result<Model> {
    let h = heads(c, 3072, 32, None, None)?;
    let hidden = h.hidden;
    let ffn = c.int_or(&["intermediate_size"], 8192)?;
    let act = act(c, &["hidden_act"], "silu")?;
    let dropout = c.drops(&["resid_pdrop"], 0.0)?;
    let rotated = rotated(c, &["partial_rotary_factor"], h.head, 1.0)?;
    let mut attention = h.attention();
    attention.dropout = c.drops(&["attention_dropout"], 0.0)?;
    attention.window = c.opt(&["sliding_window"])?;

    let mut b = BlockBuilder::new(BlockKind::Layer, Stream::Main, hidden);
    let normed = b.norm(INPUT, NormKind::Rms);
    let [q, k, v] = fused_qkv(&mut b, normed, "qkv_proj", h, false);
    let q = b.rotary(q, RotaryKind::Partial, h.head, rotated);
    let k = b.rotary(k, RotaryKind::Partial, h.head, rotated);
    let attended = b.attention(q, k, v, attention);
    let out = b.linear(attended, "o_proj", hidden, false, Split::Row);
    let out = b.dropout(out, dropout);
    let x = b.add(INPUT, out);
    let normed = b.norm(x, NormKind::Rms);
    let out = fused_gated_mlp(&mut b, normed, ffn, hidden, act);
    let out = b.dropout(out, dropout);
    b.add(x, out);
    let layer = b.finish();

    let layers = c.layers(&["num_hidden_layers"], 32)?;
    let around = Around::read(c, hidden, NormKind::Rms, 32_064, false)?.rotary(rotated);
    Ok(around.model(|stack| stack.push(layer, layers)))
}

/// `phimoe`: the Llama order with layer norms and two experts drawn one after the other.
pub(super) fn phimoe(c: &Config<'_>) -> Result<Model> {
    let base = Shape::llama(c, heads(c, 4096, 32, Some(8), None)?, 6400)?;
    let routing = routing(c, &["num_local_experts"], 16, 2)?;
    let width = c.int_or(&["intermediate_size"], 6400)?;
    let ffn = routing.gated(width, RouterKind::SparseMixer, Shared::None);
    let s = Shape { norm: LAYER_NORM, ffn, ..base.windowed(c.opt(&["sliding_window"])?) };
    let layers = c.layers(&["num_hidden_layers"], 32)?;
    let around = Around {
        head_bias: c.flag(&["lm_head_bias"], false)?,
        ..Around::read(c, s.h.hidden, s.norm, 32_064, false)?.rotary(s.h.head)
    };
    Ok(around.model(|stack| stack.push(layer(s), layers)))
}
