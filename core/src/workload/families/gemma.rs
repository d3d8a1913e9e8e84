//! Gemma: norms that multiply by one plus the weight, an embedding scaled by the root of its width,
//! and from the second generation on four norms a layer and sliding windows.

use super::super::block::{Act, Block, BlockBuilder, BlockKind, INPUT, NormKind, Stream};
use super::super::config::Config;
use super::super::model::Model;
use super::llama::{Ffn, QkNorm, Shape, attend, feed_forward, layer};
use super::{Around, Logits, act, at, heads, rotary_buffers, sliding_layers};
use crate::error::Result;

fn shape(c: &Config<'_>, hidden: u64, n: u64, kv: u64, ffn: u64, act: Act) -> Result<Shape> {
    let base = Shape::llama(c, heads(c, hidden, n, Some(kv), Some(256))?, ffn)?;
    let ffn = Ffn::Gated { width: c.int_or(&["intermediate_size"], ffn)?, act, bias: false };
    Ok(Shape { norm: NormKind::RmsOffset, ffn, ..base })
}

/// Embedding scaled by a buffer, `rotary_sets` sets of rotary frequencies, perhaps capped logits.
fn around(
    c: &Config<'_>,
    s: Shape,
    vocabulary: u64,
    tied: bool,
    rotary_sets: u64,
    capped: bool,
) -> Result<Around> {
    let around = Around::read(c, s.h.hidden, s.norm, vocabulary, true)?;
    Ok(Around {
        tied,
        buffers: rotary_sets * rotary_buffers(s.h.head) + 1,
        embedding_scaled: true,
        logits: if capped { Logits::Capped } else { Logits::Plain },
        ..around
    })
}

/// `gemma`: the Llama order.
pub(super) fn gemma(c: &Config<'_>) -> Result<Model> {
    // The released configs say "gelu" and mean its tanh form; both are one kernel.
    let s = shape(c, 3072, 16, 16, 24_576, act(c, &["hidden_act"], "gelu_pytorch_tanh")?)?;
    let layers = c.layers(&["num_hidden_layers"], 28)?;
    let tied = c.flag(&["tie_word_embeddings"], true)?;
    Ok(around(c, s, 256_000, tied, 1, false)?.model(|stack| stack.push(layer(s), layers)))
}

/// Norms before and behind attention and feed-forward.
pub(super) fn sandwich(s: Shape) -> Block {
    let mut b = BlockBuilder::new(BlockKind::Layer, Stream::Main, s.h.hidden);
    let normed = b.norm(INPUT, s.norm);
    let out = attend(&mut b, normed, s);
    let out = b.norm(out, s.norm);
    let x = b.add(INPUT, out);
    let normed = b.norm(x, s.norm);
    let out = feed_forward(&mut b, normed, s.h.hidden, s.ffn);
    let out = b.norm(out, s.norm);
    b.add(x, out);
    b.finish()
}

/// A cap that is on unless the config says null.
fn capped(c: &Config<'_>, key: &str, default: bool) -> Result<bool> {
    if c.is_null(key) {
        return Ok(false);
    }
    Ok(c.number(&[key], if default { 1.0 } else { 0.0 })? > 0.0)
}

/// `gemma2`: soft caps, every other layer sliding.
pub(super) fn gemma2(c: &Config<'_>) -> Result<Model> {
    let mut s = shape(c, 2304, 8, 4, 9216, act(c, &["hidden_activation"], "gelu_pytorch_tanh")?)?;
    s.attention.softcap = capped(c, "attn_logit_softcapping", true)?;
    s.attention.eager_only = true;
    let window = c.opt(&["sliding_window"])?.or(Some(4096));
    let layers = c.layers(&["num_hidden_layers"], 26)?;
    let sliding = sliding_layers(c, layers, &|i| i.is_multiple_of(2))?;
    let tied = c.flag(&["tie_word_embeddings"], true)?;
    let softcap = capped(c, "final_logit_softcapping", true)?;
    Ok(around(c, s, 256_000, tied, 1, softcap)?.model(|stack| {
        stack.alternate(layers, vec![sandwich(s), sandwich(s.windowed(window))], &|i| at(&sliding, i));
    }))
}

/// `gemma3_text`: QK-norm, five of six layers sliding with rotary frequencies of their own.
pub(super) fn gemma3_text(c: &Config<'_>) -> Result<Model> {
    let tied = c.flag(&["tie_word_embeddings"], true)?;
    gemma3_decoder(c, tied)
}

fn gemma3_decoder(c: &Config<'_>, tied: bool) -> Result<Model> {
    let mut s = shape(c, 2304, 8, 4, 9216, act(c, &["hidden_activation"], "gelu_pytorch_tanh")?)?;
    s.qk_norm = QkNorm::Head;
    s.attention.causal = !c.flag(&["use_bidirectional_attention"], false)?;
    let window = c.opt(&["sliding_window"])?.or(Some(4096));
    let layers = c.layers(&["num_hidden_layers"], 26)?;
    let pattern = c.count(&["sliding_window_pattern"], 6)?;
    let sliding = sliding_layers(c, layers, &|i| !(i + 1).is_multiple_of(pattern))?;
    let kinds = u64::from(sliding.contains(&true)) + u64::from(sliding.contains(&false));
    let softcap = capped(c, "final_logit_softcapping", false)?;
    Ok(around(c, s, 262_208, tied, kinds, softcap)?.model(|stack| {
        stack.alternate(layers, vec![sandwich(s), sandwich(s.windowed(window))], &|i| at(&sliding, i));
    }))
}

/// `gemma3`: the language model inside a multimodal config; the vision tower is left out.
pub(super) fn gemma3(c: &Config<'_>) -> Result<Model> {
    let tied = c.flag(&["tie_word_embeddings"], true)?;
    match c.object("text_config")? {
        Some((map, path)) => gemma3_decoder(&Config::new(map, &path), tied),
        None => gemma3_decoder(c, tied),
    }
}
