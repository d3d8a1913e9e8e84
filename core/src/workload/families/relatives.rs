//! Dense and routed cousins of Llama that users bring along: `OLMo`, Granite, `StableLM`, Command R,
//! GLM, Llama 4.

use super::super::block::{
    Block, BlockBuilder, BlockKind, GroupWeight, INPUT, NormKind, RotaryKind, RouterKind, Slot, Split, Stream,
};
use super::super::config::Config;
use super::super::model::Model;
use super::gemma::sandwich;
use super::gpt::LAYER_NORM;
use super::llama::{Ffn, Shape, Shared, attend, decoder, feed_forward, uniform};
use super::moe::routing;
use super::{Around, Logits, act, heads, rotated};
use crate::error::Result;

/// `olmo`: norms without weights.
pub(super) fn olmo(c: &Config<'_>) -> Result<Model> {
    let base = Shape::llama(c, heads(c, 4096, 32, None, None)?, 11_008)?.without_mlp_bias();
    let s = Shape { norm: NormKind::LayerPlainFp32, clip: c.has("clip_qkv"), ..base };
    uniform(c, s, 50_304, c.layers(&["num_hidden_layers"], 32)?)
}

/// `granite`: Llama with constants on the embedding, on what joins the residual and on the logits.
pub(super) fn granite(c: &Config<'_>) -> Result<Model> {
    let s = Shape::llama(c, heads(c, 4096, 32, None, None)?, 11_008)?;
    let mut b = BlockBuilder::new(BlockKind::Layer, Stream::Main, s.h.hidden);
    let normed = b.norm(INPUT, s.norm);
    let out = attend(&mut b, normed, s);
    let out = b.scale(out);
    let x = b.add(INPUT, out);
    let normed = b.norm(x, s.norm);
    let out = feed_forward(&mut b, normed, s.h.hidden, s.ffn);
    let out = b.scale(out);
    b.add(x, out);
    let block = b.finish();
    let layers = c.layers(&["num_hidden_layers"], 32)?;
    let around = Around {
        embedding_scaled: true,
        logits: Logits::Scaled,
        ..Around::read(c, s.h.hidden, s.norm, 32_000, false)?.rotary(s.h.head)
    };
    Ok(around.model(|stack| stack.push(block, layers)))
}

/// q, k and v, with norms of each head's own on q and k when asked for.
fn head_normed(b: &mut BlockBuilder, x: Slot, s: Shape, norm: Option<(NormKind, GroupWeight)>) -> [Slot; 3] {
    let mut q = b.linear(x, "q_proj", s.h.q(), s.qkv_bias, Split::Column);
    let mut k = b.linear(x, "k_proj", s.h.kv(), s.qkv_bias, Split::Column);
    let v = b.linear(x, "v_proj", s.h.kv(), s.qkv_bias, Split::Column);
    if let Some((kind, weights)) = norm {
        q = b.head_norms(q, kind, s.h.head, weights);
        k = b.head_norms(k, kind, s.h.head, weights);
    }
    [q, k, v]
}

/// `stablelm`: layer norms, part of each head rotated, perhaps attention and feed-forward in
/// parallel.
pub(super) fn stablelm(c: &Config<'_>) -> Result<Model> {
    let h = heads(c, 2560, 32, Some(32), None)?;
    let base = Shape::llama(c, h, 6912)?.without_biases();
    let rotated = rotated(c, &["partial_rotary_factor"], h.head, 0.25)?;
    let s = Shape { qkv_bias: c.flag(&["use_qkv_bias"], false)?, norm: LAYER_NORM, rotated, ..base };
    let dropout = c.drops(&["hidden_dropout"], 0.0)?;
    let normed_heads = c.flag(&["qk_layernorm"], false)?;
    let norm = normed_heads.then_some((NormKind::Layer { bias: false }, GroupWeight::OwnModules));

    let mut b = BlockBuilder::new(BlockKind::Layer, Stream::Main, h.hidden);
    let normed = b.norm(INPUT, s.norm);
    let [q, k, v] = head_normed(&mut b, normed, s, norm);
    let q = b.rotary(q, RotaryKind::Partial, h.head, rotated);
    let k = b.rotary(k, RotaryKind::Partial, h.head, rotated);
    let attended = b.attention(q, k, v, s.attention);
    let out = b.linear(attended, "o_proj", h.hidden, false, Split::Row);
    let x = b.add(INPUT, out);
    let parallel = c.flag(&["use_parallel_residual"], false)?;
    let normed = if parallel { normed } else { b.norm(x, s.norm) };
    let out = feed_forward(&mut b, normed, h.hidden, s.ffn);
    let out = b.dropout(out, dropout);
    b.add(x, out);
    let block = b.finish();
    decoder(c, s, 50_304, c.layers(&["num_hidden_layers"], 32)?, vec![block], &|_| 0)
}

/// `cohere` (Command R): one norm, attention and feed-forward in parallel, scaled logits.
pub(super) fn cohere(c: &Config<'_>) -> Result<Model> {
    let h = heads(c, 8192, 64, None, None)?;
    let s = Shape { norm: NormKind::LayerUpcast, ..Shape::llama(c, h, 22_528)?.without_mlp_bias() };
    let norm = c.flag(&["use_qk_norm"], false)?.then_some((NormKind::LayerUpcast, GroupWeight::Own));

    let mut b = BlockBuilder::new(BlockKind::Layer, Stream::Main, h.hidden);
    let normed = b.norm(INPUT, s.norm);
    let [q, k, v] = head_normed(&mut b, normed, s, norm);
    let q = b.rotary(q, RotaryKind::Half, h.head, h.head);
    let k = b.rotary(k, RotaryKind::Half, h.head, h.head);
    let attended = b.attention(q, k, v, s.attention);
    let out = b.linear(attended, "o_proj", h.hidden, s.out_bias, Split::Row);
    let mlp = feed_forward(&mut b, normed, h.hidden, s.ffn);
    let x = b.add(INPUT, out);
    b.add(x, mlp);
    let block = b.finish();
    let layers = c.layers(&["num_hidden_layers"], 40)?;
    let around =
        Around { logits: Logits::Scaled, ..Around::read(c, h.hidden, s.norm, 256_000, true)?.rotary(h.head) };
    Ok(around.model(|stack| stack.push(block, layers)))
}

fn glm_shape(c: &Config<'_>) -> Result<Shape> {
    let h = heads(c, 4096, 32, Some(2), Some(128))?;
    let base = Shape::llama(c, h, 13_696)?;
    Ok(Shape {
        qkv_bias: c.flag(&["attention_bias"], true)?,
        out_bias: false,
        rotary: Some(RotaryKind::PartialInterleaved),
        rotated: rotated(c, &["partial_rotary_factor"], h.head, 0.5)?,
        ffn: Ffn::Fused {
            width: c.int_or(&["intermediate_size"], 13_696)?,
            act: act(c, &["hidden_act"], "silu")?,
        },
        ..base
    })
}

/// `glm`: half of each head rotated, gate and up fused.
pub(super) fn glm(c: &Config<'_>) -> Result<Model> {
    uniform(c, glm_shape(c)?, 151_552, c.layers(&["num_hidden_layers"], 40)?)
}

/// `glm4`: the same with norms behind attention and feed-forward too.
pub(super) fn glm4(c: &Config<'_>) -> Result<Model> {
    let s = glm_shape(c)?;
    decoder(c, s, 151_552, c.layers(&["num_hidden_layers"], 40)?, vec![sandwich(s)], &|_| 0)
}

/// A layer of Llama 4: rotated layers see chunks and normalise q and k behind the rotation, the
/// others see everything and scale q by its position.
fn llama4_layer(s: Shape, rotated: bool, normed_heads: bool, tuned: bool) -> Block {
    let mut b = BlockBuilder::new(BlockKind::Layer, Stream::Main, s.h.hidden);
    let normed = b.norm(INPUT, s.norm);
    let [mut q, mut k, v] = head_normed(&mut b, normed, s, None);
    if rotated {
        q = b.rotary(q, RotaryKind::Complex, s.h.head, s.h.head);
        k = b.rotary(k, RotaryKind::Complex, s.h.head, s.h.head);
    }
    if rotated && normed_heads {
        q = b.head_norm(q, NormKind::RmsPlain, s.h.head);
        k = b.head_norm(k, NormKind::RmsPlain, s.h.head);
    }
    if !rotated && tuned {
        q = b.scale(q);
    }
    let mut attention = s.attention;
    // Its eager attention has no cast around the softmax.
    attention.softmax_fp32 = false;
    if !rotated {
        attention.window = None;
    }
    let attended = b.attention(q, k, v, attention);
    let out = b.linear(attended, "o_proj", s.h.hidden, s.out_bias, Split::Row);
    let x = b.add(INPUT, out);
    let normed = b.norm(x, s.norm);
    let out = feed_forward(&mut b, normed, s.h.hidden, s.ffn);
    b.add(x, out);
    b.finish()
}

/// `llama4_text`. The library's own code sends every token through every expert, and its memory is
/// counted so; its arithmetic is counted as training code does it, with the chosen experts.
pub(super) fn llama4_text(c: &Config<'_>) -> Result<Model> {
    let h = heads(c, 5120, 40, Some(8), Some(128))?;
    let base = Shape::llama(c, h, 8192)?;
    let act = act(c, &["hidden_act"], "silu")?;
    let routing = routing(c, &["num_local_experts"], 16, 1)?;
    let width = c.int_or(&["intermediate_size"], 8192)?;
    let chunk = c.opt(&["attention_chunk_size"])?;
    let chunk = if c.is_null("attention_chunk_size") { None } else { chunk.or(Some(8192)) };
    let dense = Ffn::Gated { width: c.int_or(&["intermediate_size_mlp"], 16_384)?, act, bias: false };
    let base = Shape { rotary: Some(RotaryKind::Complex), ..base.windowed(chunk) };
    let sparse = routing.gated(width, RouterKind::TopKSigmoid, Shared::Added(width));
    let layers = c.layers(&["num_hidden_layers"], 48)?;

    let every = c.count(&["interleave_moe_layer_step"], 1)?;
    let listed = c.numbers("moe_layers")?;
    let routed = |i: u64| match &listed {
        Some(list) => list.contains(&i),
        None => (i + 1).is_multiple_of(every),
    };
    let interval = c.count(&["no_rope_layer_interval"], 4)?;
    // Ones are layers that do rotate.
    let flags = c.numbers("no_rope_layers")?.filter(|list| !list.is_empty());
    let turned = |i: u64| match &flags {
        Some(list) => usize::try_from(i).ok().and_then(|i| list.get(i)) != Some(&0),
        None => !(i + 1).is_multiple_of(interval),
    };
    let normed = c.flag(&["use_qk_norm"], true)?;
    let tuned = c.flag(&["attn_temperature_tuning"], true)?;
    let blocks = [(dense, false), (sparse, false), (dense, true), (sparse, true)]
        .map(|(ffn, rotated)| llama4_layer(Shape { ffn, ..base }, rotated, normed, tuned));
    let pick = |i| usize::from(routed(i)) + 2 * usize::from(turned(i));
    decoder(c, base, 202_048, layers, blocks.into(), &pick)
}

/// `llama4`: the language model inside a multimodal config; the vision tower is left out.
pub(super) fn llama4(c: &Config<'_>) -> Result<Model> {
    match c.object("text_config")? {
        Some((map, path)) => llama4_text(&Config::new(map, &path)),
        None => llama4_text(c),
    }
}
