//! Decoders whose attention and feed-forward network read the same input and are added together:
//! GPT-NeoX, GPT-J, Falcon.

use super::super::block::{
    AttentionBias, Block, BlockBuilder, BlockKind, INPUT, RotaryKind, Slot, Split, Stream,
};
use super::super::config::Config;
use super::super::model::Model;
use super::gpt::{LAYER_NORM, fused_qkv, plain_heads, plain_mlp};
use super::{Around, Heads, act, rotated};
use crate::error::Result;

/// `gpt_neox`: rotary embedding of part of each head, two norms.
pub(super) fn gpt_neox(c: &Config<'_>) -> Result<Model> {
    let h = plain_heads(c, ["hidden_size"; 2], ["num_attention_heads"; 2], 6144, 64)?;
    let hidden = h.hidden;
    let ffn = c.int_or(&["intermediate_size"], 24_576)?;
    let act = act(c, &["hidden_act"], "gelu")?;
    let bias = c.flag(&["attention_bias"], true)?;
    let dropout = c.drops(&["hidden_dropout"], 0.0)?;
    let rotated = rotated(c, &["rotary_pct"], h.head, 0.25)?;
    let mut attention = h.attention();
    attention.dropout = c.drops(&["attention_dropout"], 0.0)?;

    let mut b = BlockBuilder::new(BlockKind::Layer, Stream::Main, hidden);
    let normed = b.norm(INPUT, LAYER_NORM);
    let [q, k, v] = fused_qkv(&mut b, normed, "query_key_value", h, bias);
    let q = b.rotary(q, RotaryKind::Partial, h.head, rotated);
    let k = b.rotary(k, RotaryKind::Partial, h.head, rotated);
    let attended = b.attention(q, k, v, attention);
    let out = b.linear(attended, "dense", hidden, bias, Split::Row);
    let out = b.dropout(out, dropout);
    let parallel = c.flag(&["use_parallel_residual"], true)?;
    let x = if parallel { INPUT } else { b.add(out, INPUT) };
    let normed = b.norm(x, LAYER_NORM);
    let names = ["dense_h_to_4h", "dense_4h_to_h"];
    let mlp = plain_mlp(&mut b, normed, names, ffn, hidden, act, true);
    let mlp = b.dropout(mlp, dropout);
    if parallel {
        let sum = b.add(mlp, out);
        b.add(sum, INPUT);
    } else {
        b.add(mlp, x);
    }
    let layer = b.finish();

    let layers = c.layers(&["num_hidden_layers"], 44)?;
    let around = Around::read(c, hidden, LAYER_NORM, 50_432, false)?.rotary(rotated);
    Ok(Around { embedding_dropout: dropout, ..around }.model(|stack| stack.push(layer, layers)))
}

/// `gptj`: interleaved rotary embedding from a table of positions, one norm.
pub(super) fn gptj(c: &Config<'_>) -> Result<Model> {
    let h = plain_heads(c, ["n_embd", "hidden_size"], ["n_head", "num_attention_heads"], 4096, 16)?;
    let hidden = h.hidden;
    let ffn = c.opt(&["n_inner"])?.unwrap_or(4 * hidden);
    let act = act(c, &["activation_function"], "gelu_new")?;
    let dropout = c.drops(&["resid_pdrop"], 0.0)?;
    let rotated = c.count(&["rotary_dim"], 64)?;
    c.at_most("rotary_dim", rotated, h.head, "the elements of a head")?;
    let mut attention = h.attention();
    (attention.dropout, attention.scores_fp32) = (c.drops(&["attn_pdrop"], 0.0)?, true);

    let mut b = BlockBuilder::new(BlockKind::Layer, Stream::Main, hidden);
    let normed = b.norm(INPUT, LAYER_NORM);
    let q = b.linear(normed, "q_proj", hidden, false, Split::Column);
    let k = b.linear(normed, "k_proj", hidden, false, Split::Column);
    let v = b.linear(normed, "v_proj", hidden, false, Split::Column);
    let k = b.rotary(k, RotaryKind::Interleaved, h.head, rotated);
    let q = b.rotary(q, RotaryKind::Interleaved, h.head, rotated);
    let attended = b.attention(q, k, v, attention);
    let out = b.linear(attended, "out_proj", hidden, false, Split::Row);
    let out = b.dropout(out, dropout);
    let mlp = plain_mlp(&mut b, normed, ["fc_in", "fc_out"], ffn, hidden, act, true);
    let mlp = b.dropout(mlp, dropout);
    let sum = b.add(out, mlp);
    b.add(sum, INPUT);
    let layer = b.finish();

    let positions = c.int_or(&["n_positions", "max_position_embeddings"], 2048)?;
    let layers = c.layers(&["n_layer", "num_hidden_layers"], 28)?;
    let around = Around {
        // Sines and cosines of every position.
        buffers: positions * rotated,
        embedding_dropout: c.drops(&["embd_pdrop"], 0.0)?,
        head_bias: true,
        max_positions: Some(positions),
        ..Around::read(c, hidden, LAYER_NORM, 50_400, false)?
    };
    Ok(around.model(|stack| stack.push(layer, layers)))
}

/// The three generations of Falcon's attention.
#[derive(Clone, Copy, PartialEq)]
enum FalconHeads {
    /// As many key heads as query heads, all views of the fused projection.
    Plain,
    /// One key and one value head, copied out of the fused projection.
    MultiQuery,
    /// Groups; keys and values are copied out for every query head.
    Grouped(u64),
}

#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the config")]
struct Falcon {
    h: Heads,
    kind: FalconHeads,
    norms: u64,
    parallel: bool,
    alibi: bool,
    bias: bool,
    dropout: bool,
    attention_dropout: bool,
}

fn falcon_attention(b: &mut BlockBuilder, x: Slot, f: Falcon) -> Slot {
    let h = f.h;
    let (q, k, v, kv_heads) = match f.kind {
        FalconHeads::Plain => {
            let [q, k, v] = fused_qkv(b, x, "query_key_value", h, f.bias);
            (q, k, v, h.heads)
        }
        FalconHeads::MultiQuery => {
            let fused = b.linear(x, "query_key_value", h.q() + 2 * h.head, f.bias, Split::Column);
            (b.view(fused, h.q()), b.assemble(&[fused], h.head), b.assemble(&[fused], h.head), 1)
        }
        FalconHeads::Grouped(groups) => {
            let fused =
                b.linear(x, "query_key_value", (h.heads + 2 * groups) * h.head, f.bias, Split::Column);
            let mut copy = || b.assemble(&[fused], h.q());
            (copy(), copy(), copy(), h.heads)
        }
    };
    let (q, k) = if f.alibi {
        (q, k)
    } else {
        (b.rotary(q, RotaryKind::Half, h.head, h.head), b.rotary(k, RotaryKind::Half, h.head, h.head))
    };
    let mut spec = Heads { kv_heads, ..h }.attention();
    (spec.masked, spec.softmax_fp32, spec.broadcast) = (true, false, true);
    if f.alibi {
        (spec.bias, spec.dropout) = (AttentionBias::Alibi, f.attention_dropout);
    }
    let attended = b.attention(q, k, v, spec);
    b.linear(attended, "dense", h.hidden, f.bias, Split::Row)
}

fn falcon_layer(c: &Config<'_>, f: Falcon) -> Result<Block> {
    let hidden = f.h.hidden;
    let ffn = c.int_or(&["ffn_hidden_size"], 4 * hidden)?;
    let act = act(c, &["activation"], "gelu")?;
    let names = ["dense_h_to_4h", "dense_4h_to_h"];
    let mut b = BlockBuilder::new(BlockKind::Layer, Stream::Main, hidden);
    let normed = b.norm(INPUT, LAYER_NORM);
    let own = (f.parallel && f.norms == 2).then(|| b.norm(INPUT, LAYER_NORM));
    let out = falcon_attention(&mut b, normed, f);
    if f.parallel {
        let mlp = plain_mlp(&mut b, own.unwrap_or(normed), names, ffn, hidden, act, f.bias);
        let sum = b.add(mlp, out);
        let sum = b.dropout(sum, f.dropout);
        b.add(INPUT, sum);
    } else {
        let out = b.dropout(out, f.attention_dropout);
        let x = b.add(INPUT, out);
        let normed = b.norm(x, LAYER_NORM);
        let mlp = plain_mlp(&mut b, normed, names, ffn, hidden, act, f.bias);
        let mlp = b.dropout(mlp, f.dropout);
        b.add(x, mlp);
    }
    Ok(b.finish())
}

/// `falcon`.
pub(super) fn falcon(c: &Config<'_>) -> Result<Model> {
    let h = plain_heads(c, ["n_embed", "hidden_size"], ["num_attention_heads"; 2], 4544, 71)?;
    let hidden = h.hidden;
    let new = c.flag(&["new_decoder_architecture"], false)?;
    let kind = if new {
        let groups = c.count(&["num_kv_heads"], h.heads)?;
        c.divides("num_kv_heads", groups, h.heads, "num_attention_heads")?;
        FalconHeads::Grouped(groups)
    } else if c.flag(&["multi_query"], true)? {
        FalconHeads::MultiQuery
    } else {
        FalconHeads::Plain
    };
    let f = Falcon {
        h,
        kind,
        norms: c.count(&["num_ln_in_parallel_attn"], if new { 2 } else { 1 })?,
        parallel: c.flag(&["parallel_attn"], true)?,
        alibi: c.flag(&["alibi"], false)?,
        bias: c.flag(&["bias"], false)?,
        dropout: c.drops(&["hidden_dropout"], 0.0)?,
        attention_dropout: c.drops(&["attention_dropout"], 0.0)?,
    };
    let layer = falcon_layer(c, f)?;
    let layers = c.layers(&["num_hidden_layers"], 32)?;
    let mut around = Around::read(c, hidden, LAYER_NORM, 65_024, true)?.rotary(h.head);
    if f.alibi {
        around.max_positions = None;
    }
    Ok(around.model(|stack| stack.push(layer, layers)))
}
