//! Encoders: BERT and `RoBERTa` as masked language models, `ViT` as an image classifier.

use super::super::block::{Attention, Block, BlockBuilder, BlockKind, INPUT, NormKind, Slot, Split, Stream};
use super::super::config::Config;
use super::super::model::Model;
use super::gpt::{LAYER_NORM, plain_heads, plain_mlp};
use super::{Heads, Stack, act};
use crate::error::{Error, ErrorCode, Result};

fn bidirectional(h: Heads, dropout: bool) -> Attention {
    let mut spec = h.attention();
    (spec.causal, spec.dropout) = (false, dropout);
    spec
}

fn projections(b: &mut BlockBuilder, x: Slot, names: [&'static str; 3], width: u64, bias: bool) -> [Slot; 3] {
    names.map(|name| b.linear(x, name, width, bias, Split::Column))
}

/// Norms behind attention and feed-forward.
fn bert_layer(h: Heads, ffn: u64, act: super::Act, dropout: bool, attention: Attention) -> Block {
    let mut b = BlockBuilder::new(BlockKind::Layer, Stream::Main, h.hidden);
    let [q, k, v] = projections(&mut b, INPUT, ["query", "key", "value"], h.q(), true);
    let attended = b.attention(q, k, v, attention);
    let out = b.linear(attended, "dense", h.hidden, true, Split::Row);
    let out = b.dropout(out, dropout);
    let x = b.add(out, INPUT);
    let x = b.norm(x, LAYER_NORM);
    let out = plain_mlp(&mut b, x, ["dense"; 2], ffn, h.hidden, act, true);
    let out = b.dropout(out, dropout);
    let x = b.add(out, x);
    b.norm(x, LAYER_NORM);
    b.finish()
}

/// `bert`.
pub(super) fn bert(c: &Config<'_>) -> Result<Model> {
    masked_language_model(c, 30_522, |act| act)
}

/// `roberta`: its head's activation is always GELU.
pub(super) fn roberta(c: &Config<'_>) -> Result<Model> {
    masked_language_model(c, 50_265, |_| super::Act::Gelu)
}

fn masked_language_model(
    c: &Config<'_>,
    vocabulary: u64,
    head_act: impl Fn(super::Act) -> super::Act,
) -> Result<Model> {
    let h = plain_heads(c, ["hidden_size"; 2], ["num_attention_heads"; 2], 768, 12)?;
    let hidden = h.hidden;
    let ffn = c.int_or(&["intermediate_size"], 3072)?;
    let act = act(c, &["hidden_act"], "gelu")?;
    let dropout = c.drops(&["hidden_dropout_prob"], 0.1)?;
    let mut attention = bidirectional(h, c.drops(&["attention_probs_dropout_prob"], 0.1)?);
    attention.softmax_fp32 = false;
    let vocabulary = c.int_or(&["vocab_size"], vocabulary)?;
    let positions = c.int_or(&["max_position_embeddings"], 512)?;
    let types = c.int_or(&["type_vocab_size"], 2)?;
    let tied = c.flag(&["tie_word_embeddings"], true)?;

    let mut stack = Stack::new();
    let mut b = BlockBuilder::new(BlockKind::Embedding, Stream::Main, hidden);
    let x = b.lookup("embed_tokens", vocabulary, hidden, Split::Vocabulary);
    let kinds = b.lookup("token_type_embeddings", types, hidden, Split::Replicated);
    let x = b.add(x, kinds);
    let places = b.lookup("embed_positions", positions, hidden, Split::Replicated);
    let x = b.add(x, places);
    let x = b.norm(x, LAYER_NORM);
    b.dropout(x, dropout);
    // Position and type ids.
    b.buffers(2 * positions);
    stack.push(b.finish(), 1);
    stack.push(bert_layer(h, ffn, act, dropout, attention), c.layers(&["num_hidden_layers"], 12)?);
    let mut b = BlockBuilder::new(BlockKind::FinalNorm, Stream::Main, hidden);
    let x = b.linear(INPUT, "dense", hidden, true, Split::Replicated);
    let x = b.act(x, head_act(act));
    b.norm(x, LAYER_NORM);
    stack.push(b.finish(), 1);
    let mut b = BlockBuilder::new(BlockKind::Head, Stream::Main, hidden);
    let logits = b.head(INPUT, vocabulary, true, tied);
    if !tied {
        // A second bias, which only tying makes one with the head's.
        b.parameter("bias", 1, vocabulary, Split::Vocabulary);
    }
    b.plain_loss(logits);
    stack.push(b.finish(), 1);
    Ok(stack.finish(hidden, vocabulary, tied, Some(positions)))
}

/// Height and width, given as one number or as two.
fn sides(c: &Config<'_>, key: &str, default: u64) -> Result<[u64; 2]> {
    let Ok(Some([height, width])) = c.list(key) else {
        let side = c.count(&[key], default)?;
        return Ok([side, side]);
    };
    match (height.as_u64(), width.as_u64()) {
        (Some(h @ 1..=16_384), Some(w @ 1..=16_384)) => Ok([h, w]),
        _ => Err(Error::new(
            c.field(key),
            ErrorCode::OutOfRange,
            format!("[{height}, {width}]"),
            "one or two whole numbers from 1 to 16384",
        )),
    }
}

/// `vit`: patches in, one class token out.
pub(super) fn vit(c: &Config<'_>) -> Result<Model> {
    let h = plain_heads(c, ["hidden_size"; 2], ["num_attention_heads"; 2], 768, 12)?;
    let hidden = h.hidden;
    let ffn = c.int_or(&["intermediate_size"], 3072)?;
    let act = act(c, &["hidden_act"], "gelu")?;
    let dropout = c.drops(&["hidden_dropout_prob"], 0.0)?;
    let bias = c.flag(&["qkv_bias"], true)?;
    let attention = bidirectional(h, c.drops(&["attention_probs_dropout_prob"], 0.0)?);
    let [height, width] = sides(c, "image_size", 224)?;
    let [patch_height, patch_width] = sides(c, "patch_size", 16)?;
    let patches = (height / patch_height) * (width / patch_width);
    if patches == 0 {
        let given = format!("{patch_height} x {patch_width}");
        let allowed = format!("at most the image, {height} x {width}");
        return Err(Error::new(c.field("patch_size"), ErrorCode::Conflict, given, allowed));
    }
    let pixels = c.count(&["num_channels"], 3)? * patch_height * patch_width;
    let pixels = c.bounded("patch_size", pixels)?;

    let mut stack = Stack::new();
    let mut b = BlockBuilder::new(BlockKind::Embedding, Stream::Main, pixels);
    let x = b.linear(INPUT, "patch_projection", hidden, true, Split::Replicated);
    let class = b.parameter("cls_token", 1, hidden, Split::Replicated);
    let x = b.assemble(&[x, class], hidden);
    let places = b.parameter("position_embeddings", patches + 1, hidden, Split::Replicated);
    let x = b.add(x, places);
    b.dropout(x, dropout);
    stack.push(b.finish(), 1);

    let mut b = BlockBuilder::new(BlockKind::Layer, Stream::Main, hidden);
    let normed = b.norm(INPUT, LAYER_NORM);
    let [q, k, v] = projections(&mut b, normed, ["q_proj", "k_proj", "v_proj"], h.q(), bias);
    let attended = b.attention(q, k, v, attention);
    let out = b.linear(attended, "o_proj", hidden, true, Split::Row);
    let out = b.dropout(out, dropout);
    let x = b.add(out, INPUT);
    let normed = b.norm(x, LAYER_NORM);
    let out = plain_mlp(&mut b, normed, ["fc1", "fc2"], ffn, hidden, act, true);
    let out = b.dropout(out, dropout);
    b.add(out, x);
    stack.push(b.finish(), c.layers(&["num_hidden_layers"], 12)?);
    let mut b = BlockBuilder::new(BlockKind::FinalNorm, Stream::Main, hidden);
    b.norm(INPUT, NormKind::Layer { bias: true });
    stack.push(b.finish(), 1);

    let labels = match c.opt(&["num_labels"])? {
        Some(labels) => labels,
        None => c.object("id2label")?.map_or(2, |(map, _)| u64::try_from(map.len()).unwrap_or(u64::MAX)),
    };
    let mut b = BlockBuilder::new(BlockKind::Head, Stream::Main, hidden);
    let class = b.first(INPUT);
    let logits = b.linear(class, "classifier", labels, true, Split::Replicated);
    b.plain_loss(logits);
    stack.push(b.finish(), 1);
    let mut model = stack.finish(hidden, labels, false, None);
    model.fixed_tokens = Some(patches + 1);
    Ok(model)
}
