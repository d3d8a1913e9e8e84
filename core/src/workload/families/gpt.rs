//! Decoders in the line of GPT-2: layer norms, biases and a plain feed-forward network.

use super::super::block::{
    Act, AttentionBias, BlockBuilder, BlockKind, INPUT, NormKind, RotaryKind, Slot, Split, Stream,
};
use super::super::config::Config;
use super::super::model::Model;
use super::{Around, Heads, Stack, act, head_of, heads};
use crate::error::Result;

/// Layer norm with weight and bias.
pub(super) const LAYER_NORM: NormKind = NormKind::Layer { bias: true };

/// Heads of equal width that share nothing.
pub(super) fn plain_heads(
    c: &Config<'_>,
    width: [&str; 2],
    number: [&str; 2],
    hidden: u64,
    n: u64,
) -> Result<Heads> {
    let hidden = c.width(&width, hidden)?;
    let heads = c.count(&number, n)?;
    let head = head_of(c, number[0], heads, hidden)?;
    Ok(Heads { hidden, heads, kv_heads: heads, head })
}

/// q, k and v as views of one fused projection.
pub(super) fn fused_qkv(
    b: &mut BlockBuilder,
    x: Slot,
    name: &'static str,
    h: Heads,
    bias: bool,
) -> [Slot; 3] {
    let fused = b.linear(x, name, h.q() + 2 * h.kv(), bias, Split::Column);
    [b.view(fused, h.q()), b.view(fused, h.kv()), b.view(fused, h.kv())]
}

/// The plain feed-forward network: `down(act(up(x)))`.
pub(super) fn plain_mlp(
    b: &mut BlockBuilder,
    x: Slot,
    names: [&'static str; 2],
    ffn: u64,
    hidden: u64,
    act: Act,
    bias: bool,
) -> Slot {
    let [up, down] = names;
    let y = b.linear(x, up, ffn, bias, Split::Column);
    let y = b.act(y, act);
    b.linear(y, down, hidden, bias, Split::Row)
}

/// `gpt2`.
pub(super) fn gpt2(c: &Config<'_>) -> Result<Model> {
    let h = plain_heads(c, ["n_embd", "hidden_size"], ["n_head", "num_attention_heads"], 768, 12)?;
    let hidden = h.hidden;
    let ffn = c.opt(&["n_inner"])?.unwrap_or(4 * hidden);
    let act = act(c, &["activation_function"], "gelu_new")?;
    let dropout = c.drops(&["resid_pdrop"], 0.1)?;
    let mut attention = h.attention();
    (attention.dropout, attention.softmax_fp32) = (c.drops(&["attn_pdrop"], 0.1)?, false);

    let mut b = BlockBuilder::new(BlockKind::Layer, Stream::Main, hidden);
    let normed = b.norm(INPUT, LAYER_NORM);
    let [q, k, v] = fused_qkv(&mut b, normed, "c_attn", h, true);
    let attended = b.attention(q, k, v, attention);
    let out = b.linear(attended, "c_proj", hidden, true, Split::Row);
    let out = b.dropout(out, dropout);
    let x = b.add(out, INPUT);
    let normed = b.norm(x, LAYER_NORM);
    let out = plain_mlp(&mut b, normed, ["c_fc", "c_proj"], ffn, hidden, act, true);
    let out = b.dropout(out, dropout);
    b.add(x, out);
    let layer = b.finish();

    let positions = c.int_or(&["n_positions", "max_position_embeddings"], 1024)?;
    let layers = c.layers(&["n_layer", "num_hidden_layers"], 12)?;
    let around = Around {
        positions: Some(positions),
        embedding_dropout: c.drops(&["embd_pdrop"], 0.1)?,
        max_positions: Some(positions),
        ..Around::read(c, hidden, LAYER_NORM, 50_257, true)?
    };
    Ok(around.model(|stack| stack.push(layer, layers)))
}

/// `opt`: separate projections, the query scaled; the smallest but one norms behind instead of
/// before and embeds in a narrower space.
pub(super) fn opt(c: &Config<'_>) -> Result<Model> {
    let h = plain_heads(c, ["hidden_size"; 2], ["num_attention_heads"; 2], 768, 12)?;
    let hidden = h.hidden;
    let ffn = c.int_or(&["ffn_dim"], 3072)?;
    let act = act(c, &["activation_function"], "relu")?;
    let bias = c.flag(&["enable_bias"], true)?;
    let dropout = c.drops(&["dropout"], 0.1)?;
    let before = c.flag(&["do_layer_norm_before"], true)?;
    let norm =
        if c.flag(&["layer_norm_elementwise_affine"], true)? { LAYER_NORM } else { NormKind::LayerPlain };
    let mut attention = h.attention();
    attention.dropout = c.drops(&["attention_dropout"], 0.0)?;

    let mut b = BlockBuilder::new(BlockKind::Layer, Stream::Main, hidden);
    let x = if before { b.norm(INPUT, norm) } else { INPUT };
    let q = b.linear(x, "q_proj", hidden, bias, Split::Column);
    let q = b.scale(q);
    let k = b.linear(x, "k_proj", hidden, bias, Split::Column);
    let v = b.linear(x, "v_proj", hidden, bias, Split::Column);
    let attended = b.attention(q, k, v, attention);
    let out = b.linear(attended, "out_proj", hidden, bias, Split::Row);
    let out = b.dropout(out, dropout);
    let x = b.add(INPUT, out);
    let x = if before { x } else { b.norm(x, norm) };
    let y = if before { b.norm(x, norm) } else { x };
    let out = plain_mlp(&mut b, y, ["fc1", "fc2"], ffn, hidden, act, bias);
    let out = b.dropout(out, dropout);
    let x = b.add(x, out);
    if !before {
        b.norm(x, norm);
    }
    let layer = b.finish();

    let positions = c.int_or(&["max_position_embeddings"], 2048)?;
    let narrow = c.width(&["word_embed_proj_dim"], hidden)?;
    let around = Around::read(c, narrow, norm, 50_272, true)?;
    let mut stack = Stack::new();
    let mut b = BlockBuilder::new(BlockKind::Embedding, Stream::Main, hidden);
    let tokens = b.lookup("embed_tokens", around.vocabulary, narrow, Split::Vocabulary);
    // Two positions in front are kept for padding.
    let places = b.lookup("embed_positions", positions + 2, hidden, Split::Replicated);
    let tokens = if narrow == hidden {
        tokens
    } else {
        b.linear(tokens, "project_in", hidden, false, Split::Replicated)
    };
    b.add(tokens, places);
    stack.push(b.finish(), 1);
    stack.push(layer, c.layers(&["num_hidden_layers"], 12)?);
    let mut b = BlockBuilder::new(BlockKind::FinalNorm, Stream::Main, hidden);
    let normed = before && !c.flag(&["_remove_final_layer_norm"], false)?;
    let x = if normed { b.norm(INPUT, norm) } else { INPUT };
    if narrow != hidden {
        b.linear(x, "project_out", narrow, false, Split::Replicated);
    }
    stack.push(b.finish(), 1);
    stack.push(around.head(), 1);
    Ok(stack.finish(hidden, around.vocabulary, around.tied, Some(positions)))
}

/// `bloom`: linear position biases, a norm behind the embedding, an activation of its own.
pub(super) fn bloom(c: &Config<'_>) -> Result<Model> {
    let h = plain_heads(c, ["n_embed", "hidden_size"], ["n_head", "num_attention_heads"], 64, 8)?;
    let hidden = h.hidden;
    let dropout = c.drops(&["hidden_dropout"], 0.0)?;
    let behind = c.flag(&["apply_residual_connection_post_layernorm"], false)?;
    let mut attention = h.attention();
    attention.dropout = c.drops(&["attention_dropout"], 0.0)?;
    (attention.bias, attention.eager_only) = (AttentionBias::Alibi, true);

    let mut b = BlockBuilder::new(BlockKind::Layer, Stream::Main, hidden);
    let normed = b.norm(INPUT, LAYER_NORM);
    let residual = if behind { normed } else { INPUT };
    let [q, k, v] = fused_qkv(&mut b, normed, "query_key_value", h, true);
    let attended = b.attention(q, k, v, attention);
    let out = b.linear(attended, "dense", hidden, true, Split::Row);
    let out = b.dropout(out, dropout);
    let x = b.add(residual, out);
    let normed = b.norm(x, LAYER_NORM);
    let residual = if behind { normed } else { x };
    let names = ["dense_h_to_4h", "dense_4h_to_h"];
    let out = plain_mlp(&mut b, normed, names, 4 * hidden, hidden, Act::GeluBloom, true);
    let out = b.dropout(out, dropout);
    b.add(residual, out);
    let layer = b.finish();

    let around = Around::read(c, hidden, LAYER_NORM, 250_880, true)?;
    let mut stack = Stack::new();
    let mut b = BlockBuilder::new(BlockKind::Embedding, Stream::Main, hidden);
    let x = b.lookup("embed_tokens", around.vocabulary, hidden, Split::Vocabulary);
    b.norm(x, LAYER_NORM);
    stack.push(b.finish(), 1);
    stack.push(layer, c.layers(&["n_layer", "num_hidden_layers"], 2)?);
    stack.push(around.final_norm(), 1);
    stack.push(around.head(), 1);
    Ok(stack.finish(hidden, around.vocabulary, around.tied, None))
}

/// `mpt`: linear position biases, no biases at all, all in Python.
pub(super) fn mpt(c: &Config<'_>) -> Result<Model> {
    let h = plain_heads(c, ["d_model", "hidden_size"], ["n_heads", "num_attention_heads"], 2048, 16)?;
    let hidden = h.hidden;
    let inner = c.object("attn_config")?;
    let inner = inner.as_ref().map(|(map, path)| Config::new(map, path));
    let (dropout, clip) = match inner {
        Some(inner) => (inner.drops(&["attn_pdrop"], 0.0)?, inner.has("clip_qkv")),
        None => (false, false),
    };
    let norm = NormKind::Layer { bias: false };
    let mut attention = h.attention();
    (attention.bias, attention.eager_only) = (AttentionBias::Alibi, true);
    attention.dropout = dropout;

    let mut b = BlockBuilder::new(BlockKind::Layer, Stream::Main, hidden);
    let normed = b.norm(INPUT, norm);
    let fused = b.linear(normed, "Wqkv", 3 * hidden, false, Split::Column);
    let fused = if clip { b.clamp(fused) } else { fused };
    let [q, k, v] = [(); 3].map(|()| b.view(fused, hidden));
    let attended = b.attention(q, k, v, attention);
    let out = b.linear(attended, "out_proj", hidden, false, Split::Row);
    let out = b.dropout(out, dropout);
    let x = b.add(out, INPUT);
    let normed = b.norm(x, norm);
    let out = plain_mlp(&mut b, normed, ["up_proj", "down_proj"], 4 * hidden, hidden, Act::Gelu, false);
    let out = b.dropout(out, dropout);
    b.add(out, x);
    let layer = b.finish();

    let layers = c.layers(&["n_layers", "num_hidden_layers"], 24)?;
    let around = Around::read(c, hidden, norm, 50_368, true)?;
    let max_positions = Some(c.int_or(&["max_seq_len"], 2048)?);
    Ok(Around { max_positions, ..around }.model(|stack| stack.push(layer, layers)))
}

/// `starcoder2`: grouped queries and rotary positions, else as GPT-2.
pub(super) fn starcoder2(c: &Config<'_>) -> Result<Model> {
    let h = heads(c, 3072, 24, Some(2), None)?;
    let hidden = h.hidden;
    let ffn = c.int_or(&["intermediate_size"], 12_288)?;
    let act = act(c, &["hidden_act"], "gelu_pytorch_tanh")?;
    let bias = c.flag(&["use_bias"], true)?;
    let dropout = c.drops(&["residual_dropout"], 0.0)?;
    let mut attention = h.attention();
    attention.dropout = c.drops(&["attention_dropout"], 0.0)?;
    attention.window = c.opt(&["sliding_window"])?;

    let mut b = BlockBuilder::new(BlockKind::Layer, Stream::Main, hidden);
    let normed = b.norm(INPUT, LAYER_NORM);
    let q = b.linear(normed, "q_proj", h.q(), bias, Split::Column);
    let k = b.linear(normed, "k_proj", h.kv(), bias, Split::Column);
    let v = b.linear(normed, "v_proj", h.kv(), bias, Split::Column);
    let q = b.rotary(q, RotaryKind::Half, h.head, h.head);
    let k = b.rotary(k, RotaryKind::Half, h.head, h.head);
    let attended = b.attention(q, k, v, attention);
    let out = b.linear(attended, "o_proj", hidden, bias, Split::Row);
    let out = b.dropout(out, dropout);
    let x = b.add(INPUT, out);
    let normed = b.norm(x, LAYER_NORM);
    let out = plain_mlp(&mut b, normed, ["c_fc", "c_proj"], ffn, hidden, act, bias);
    let out = b.dropout(out, dropout);
    b.add(x, out);
    let layer = b.finish();

    let layers = c.layers(&["num_hidden_layers"], 30)?;
    let around = Around {
        embedding_dropout: c.drops(&["embedding_dropout"], 0.0)?,
        ..Around::read(c, hidden, LAYER_NORM, 49_152, true)?.rotary(h.head)
    };
    Ok(around.model(|stack| stack.push(layer, layers)))
}
