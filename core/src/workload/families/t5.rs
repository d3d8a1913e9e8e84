//! T5 and its descendants (Flan-T5): an encoder, and a decoder that attends to it.

use super::super::block::{
    AttentionBias, Block, BlockBuilder, BlockKind, INPUT, MEMORY, NormKind, Slot, Split, Stream,
};
use super::super::config::Config;
use super::super::model::Model;
use super::{Heads, Stack, act_named};
use crate::error::{Error, ErrorCode, Result};

const NORM: NormKind = NormKind::RmsT5;

#[derive(Clone, Copy)]
struct T5 {
    h: Heads,
    ffn: u64,
    gated: bool,
    act: super::Act,
    buckets: u64,
    dropout: bool,
}

/// Attention over `memory`, from the hidden state to the residual sum.
fn attend(b: &mut BlockBuilder, x: Slot, memory: Option<Slot>, t: T5, causal: bool) -> Slot {
    let mut spec = t.h.attention();
    (spec.causal, spec.dropout, spec.softmax_fp32) = (causal, t.dropout, false);
    // Cross-attention has a position bias too, but it is all zeros and shared by the layers.
    spec.cross = memory.is_some();
    spec.bias = if spec.cross { AttentionBias::Shared } else { AttentionBias::Relative };
    let normed = b.norm(x, NORM);
    let source = memory.unwrap_or(normed);
    let q = b.linear(normed, "q", t.h.q(), false, Split::Column);
    let k = b.linear(source, "k", t.h.q(), false, Split::Column);
    let v = b.linear(source, "v", t.h.q(), false, Split::Column);
    let attended = b.attention(q, k, v, spec);
    let out = b.linear(attended, "o", t.h.hidden, false, Split::Row);
    let out = b.dropout(out, t.dropout);
    b.add(x, out)
}

/// A layer; the first of each stack owns the table of relative positions.
fn layer(t: T5, stream: Stream, first: bool) -> Block {
    let decoder = stream == Stream::Main;
    let mut b = BlockBuilder::new(BlockKind::Layer, stream, t.h.hidden);
    if first {
        b.parameter("relative_attention_bias", t.buckets, t.h.heads, Split::Column);
    }
    let x = attend(&mut b, INPUT, None, t, decoder);
    let x = if decoder { attend(&mut b, x, Some(MEMORY), t, false) } else { x };
    let normed = b.norm(x, NORM);
    let inner = if t.gated {
        let gate = b.linear(normed, "wi_0", t.ffn, false, Split::Column);
        let gate = b.act(gate, t.act);
        let up = b.linear(normed, "wi_1", t.ffn, false, Split::Column);
        b.product(gate, up)
    } else {
        let up = b.linear(normed, "wi", t.ffn, false, Split::Column);
        b.act(up, t.act)
    };
    let inner = b.dropout(inner, t.dropout);
    let out = b.linear(inner, "wo", t.h.hidden, false, Split::Row);
    let out = b.dropout(out, t.dropout);
    b.add(x, out);
    b.finish()
}

fn final_norm(t: T5, stream: Stream) -> Block {
    let mut b = BlockBuilder::new(BlockKind::FinalNorm, stream, t.h.hidden);
    let x = b.norm(INPUT, NORM);
    b.dropout(x, t.dropout);
    b.finish()
}

fn embedding(t: T5, stream: Stream, vocabulary: u64) -> Block {
    let mut b = BlockBuilder::new(BlockKind::Embedding, stream, t.h.hidden);
    let x = if stream == Stream::Encoder {
        b.lookup("embed_tokens", vocabulary, t.h.hidden, Split::Vocabulary)
    } else {
        b.tied_lookup("embed_tokens", vocabulary, t.h.hidden, Split::Vocabulary)
    };
    b.dropout(x, t.dropout);
    b.finish()
}

/// `t5`. The head shares the embedding's weight whatever the config says; what
/// `tie_word_embeddings` decides is whether the head's input is scaled.
pub(super) fn t5(c: &Config<'_>) -> Result<Model> {
    let hidden = c.width(&["d_model", "hidden_size"], 512)?;
    let heads = c.count(&["num_heads", "num_attention_heads"], 8)?;
    let head = c.count(&["d_kv", "head_dim"], 64)?;
    let projection = c.text(&["feed_forward_proj"], "relu")?;
    let (gated, name) = match projection.split_once('-') {
        Some(("gated", "gelu")) => (true, "gelu_new"),
        Some(("gated", name)) => (true, name),
        None => (false, projection),
        Some(_) => {
            return Err(Error::new(
                c.field("feed_forward_proj"),
                ErrorCode::UnknownName,
                format!("\"{projection}\""),
                "an activation, or gated- and an activation, as relu or gated-gelu",
            ));
        }
    };
    let t = T5 {
        h: Heads { hidden, heads, kv_heads: heads, head },
        ffn: c.int_or(&["d_ff"], 2048)?,
        gated,
        act: act_named(&c.field("feed_forward_proj"), name)?,
        buckets: c.count(&["relative_attention_num_buckets"], 32)?,
        dropout: c.drops(&["dropout_rate"], 0.1)?,
    };
    let encoder = c.layers(&["num_layers", "num_hidden_layers"], 6)?;
    let decoder = c.layers(&["num_decoder_layers"], encoder)?;
    let vocabulary = c.int_or(&["vocab_size"], 32_128)?;
    let mut stack = Stack::new();
    for (stream, layers) in [(Stream::Encoder, encoder), (Stream::Main, decoder)] {
        stack.push(embedding(t, stream, vocabulary), 1);
        stack.push(layer(t, stream, true), 1);
        stack.push(layer(t, stream, false), layers - 1);
        stack.push(final_norm(t, stream), 1);
    }
    let mut b = BlockBuilder::new(BlockKind::Head, Stream::Main, hidden);
    let scaled = c.flag(&["tie_word_embeddings"], true)?;
    let x = if scaled { b.scale(INPUT) } else { INPUT };
    let logits = b.head(x, vocabulary, false, true);
    b.plain_loss(logits);
    stack.push(b.finish(), 1);
    Ok(stack.finish(hidden, vocabulary, true, None))
}
