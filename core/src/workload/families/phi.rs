//! Microsoft's Phi: the parallel layer of Phi-1 and Phi-2, the fused Llama layer of Phi-3 and Phi-4.

use super::super::block::{BlockBuilder, BlockKind, INPUT, NormKind, RotaryKind, Split, Stream};
use super::super::config::Config;
use super::super::model::Model;
use super::gpt::{LAYER_NORM, fused_qkv, plain_mlp};
use super::{Stack, act, embedding, final_norm, head, heads, rotary_buffers, rotated};
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

    let vocabulary = c.int_or(&["vocab_size"], 51_200)?;
    let tied = c.flag(&["tie_word_embeddings"], false)?;
    let mut stack = Stack::new();
    let dropped = c.drops(&["embd_pdrop"], 0.0)?;
    stack.push(embedding(vocabulary, hidden, rotary_buffers(rotated), dropped), 1);
    stack.push(layer, c.layers(&["num_hidden_layers"], 24)?);
    stack.push(final_norm(hidden, LAYER_NORM), 1);
    stack.push(head(hidden, vocabulary, true, tied), 1);
    Ok(stack.finish(hidden, vocabulary, tied, c.opt(&["max_position_embeddings"])?))
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
    let fused = b.linear(normed, "gate_up_proj", 2 * ffn, false, Split::Column);
    let gate = b.view(fused, ffn);
    let up = b.view(fused, ffn);
    let gate = b.act(gate, act);
    let product = b.product(up, gate);
    let out = b.linear(product, "down_proj", hidden, false, Split::Row);
    let out = b.dropout(out, dropout);
    b.add(x, out);
    let layer = b.finish();

    let vocabulary = c.int_or(&["vocab_size"], 32_064)?;
    let tied = c.flag(&["tie_word_embeddings"], false)?;
    let mut stack = Stack::new();
    stack.push(embedding(vocabulary, hidden, rotary_buffers(rotated), false), 1);
    stack.push(layer, c.layers(&["num_hidden_layers"], 32)?);
    stack.push(final_norm(hidden, NormKind::Rms), 1);
    stack.push(head(hidden, vocabulary, false, tied), 1);
    Ok(stack.finish(hidden, vocabulary, tied, c.opt(&["max_position_embeddings"])?))
}
