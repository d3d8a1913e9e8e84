//! Llama and the families that change a detail of it: Mistral, Qwen, Mixtral; and decoders given
//! by their dimensions.

use super::super::block::{
    Act, Attention, AttentionBias, Block, BlockBuilder, BlockKind, ExpertsKind, INPUT, NormKind, RotaryKind,
    RouterKind, Slot, Split, Stream,
};
use super::super::config::Config;
use super::super::model::Model;
use super::{Stack, embedding, final_norm, gated_mlp, head};
use crate::error::{Error, ErrorCode, Result};

/// The feed-forward half of a layer.
#[derive(Clone, Copy)]
enum Ffn {
    Gated { width: u64, act: Act, bias: bool },
    Plain { width: u64, act: Act, bias: bool },
    Experts { width: u64, experts: u64, top_k: u64, router: RouterKind, shared: u64 },
}

/// What distinguishes the members.
#[derive(Clone, Copy)]
struct Shape {
    hidden: u64,
    heads: u64,
    kv_heads: u64,
    head: u64,
    qkv_bias: bool,
    out_bias: bool,
    qk_norm: bool,
    window: Option<u64>,
    norm: NormKind,
    rotary: bool,
    ffn: Ffn,
}

fn shape(c: &Config<'_>) -> Result<Shape> {
    let hidden = c.int(&["hidden_size"])?;
    let heads = c.int(&["num_attention_heads"])?;
    let kv_heads = c.int_or(&["num_key_value_heads"], heads)?;
    c.divides("num_key_value_heads", kv_heads, heads, "num_attention_heads")?;
    let head = match c.opt(&["head_dim"])? {
        Some(head) => head,
        None => {
            c.divides("num_attention_heads", heads, hidden, "hidden_size")?;
            hidden / heads
        }
    };
    let bias = c.flag(&["attention_bias"], false)?;
    Ok(Shape {
        hidden,
        heads,
        kv_heads,
        head,
        qkv_bias: bias,
        out_bias: bias,
        qk_norm: false,
        window: None,
        norm: NormKind::Rms,
        rotary: true,
        ffn: Ffn::Gated {
            width: c.int_or(&["intermediate_size"], 4 * hidden)?,
            act: act(c, "hidden_act", "silu")?,
            bias: c.flag(&["mlp_bias"], false)?,
        },
    })
}

/// The activation a config names.
pub(super) fn act(c: &Config<'_>, key: &str, default: &str) -> Result<Act> {
    Ok(match c.text(&[key], default)? {
        "silu" | "swish" => Act::Silu,
        "gelu" | "gelu_pytorch_tanh" | "gelu_python" => Act::Gelu,
        "gelu_new" => Act::GeluNew,
        "gelu_fast" => Act::GeluFast,
        "relu" => Act::Relu,
        "relu2" => Act::ReluSquared,
        other => {
            return Err(Error::new(
                c.field(key),
                ErrorCode::UnknownName,
                format!("\"{other}\""),
                "silu, gelu, gelu_pytorch_tanh, gelu_new, gelu_fast, relu or relu2",
            ));
        }
    })
}

fn layer(s: Shape) -> Block {
    let mut b = BlockBuilder::new(BlockKind::Layer, Stream::Main, s.hidden);
    let normed = b.norm(INPUT, s.norm);
    let mut q = b.linear(normed, "q_proj", s.heads * s.head, s.qkv_bias, Split::Column);
    if s.qk_norm {
        q = b.head_norm(q, s.norm, s.head);
    }
    let mut k = b.linear(normed, "k_proj", s.kv_heads * s.head, s.qkv_bias, Split::Column);
    if s.qk_norm {
        k = b.head_norm(k, s.norm, s.head);
    }
    let v = b.linear(normed, "v_proj", s.kv_heads * s.head, s.qkv_bias, Split::Column);
    if s.rotary {
        q = b.rotary(q, RotaryKind::Half, s.head, s.head);
        k = b.rotary(k, RotaryKind::Half, s.head, s.head);
    }
    let attended = b.attention(q, k, v, attention(s));
    let out = b.linear(attended, "o_proj", s.hidden, s.out_bias, Split::Row);
    let x = b.add(INPUT, out);
    let normed = b.norm(x, s.norm);
    let out = feed_forward(&mut b, normed, s);
    b.add(x, out);
    b.finish()
}

const fn attention(s: Shape) -> Attention {
    Attention {
        heads: s.heads,
        kv_heads: s.kv_heads,
        qk_head: s.head,
        v_head: s.head,
        causal: true,
        window: s.window,
        bias: AttentionBias::None,
        dropout: false,
        softcap: false,
        sinks: false,
        cross: false,
        softmax_fp32: true,
        eager_only: false,
        masked: false,
    }
}

fn feed_forward(b: &mut BlockBuilder, x: Slot, s: Shape) -> Slot {
    match s.ffn {
        Ffn::Gated { width, act, bias } => gated_mlp(b, x, width, s.hidden, act, bias),
        Ffn::Plain { width, act, bias } => {
            let up = b.linear(x, "up_proj", width, bias, Split::Column);
            let up = b.act(up, act);
            b.linear(up, "down_proj", s.hidden, bias, Split::Row)
        }
        Ffn::Experts { width, experts, top_k, router, shared } => {
            let weights = b.router(x, router, experts, top_k, false);
            let routed = b.experts(x, weights, ExpertsKind::Gated, experts, top_k, width);
            if shared == 0 {
                return routed;
            }
            let own = gated_mlp(b, x, shared, s.hidden, Act::Silu, false);
            b.add(routed, own)
        }
    }
}

fn model(c: &Config<'_>, s: Shape, layers: &[(Shape, u64)]) -> Result<Model> {
    let vocabulary = c.int(&["vocab_size", "vocab"])?;
    let tied = c.flag(&["tie_word_embeddings", "tied_embeddings"], false)?;
    // Rotary frequencies are kept twice: as used and as first computed.
    let buffers = if s.rotary { 2 * (s.head / 2) } else { 0 };
    let mut stack = Stack::new();
    stack.push(embedding(vocabulary, s.hidden, buffers), 1);
    for &(shape, count) in layers {
        stack.push(layer(shape), count);
    }
    stack.push(final_norm(s.hidden, s.norm), 1);
    stack.push(head(s.hidden, vocabulary, false, tied), 1);
    Ok(stack.finish(s.hidden, vocabulary, tied, c.opt(&["max_position_embeddings"])?))
}

fn layer_count(c: &Config<'_>) -> Result<u64> {
    let n = c.int(&["num_hidden_layers", "layers"])?;
    if n > 10_000 {
        return Err(Error::new(
            c.field("num_hidden_layers"),
            ErrorCode::OutOfRange,
            n,
            "at most 10000 layers",
        ));
    }
    Ok(n)
}

/// `llama` and `mistral`.
pub(super) fn llama(c: &Config<'_>) -> Result<Model> {
    let s = Shape { window: c.opt(&["sliding_window"])?, ..shape(c)? };
    model(c, s, &[(s, layer_count(c)?)])
}

/// `qwen2`: biases on q, k and v only; its window is off unless asked for.
pub(super) fn qwen2(c: &Config<'_>) -> Result<Model> {
    let s = Shape { qkv_bias: true, out_bias: false, ..shape(c)? };
    model(c, s, &[(s, layer_count(c)?)])
}

/// `qwen3`: QK-norm per head.
pub(super) fn qwen3(c: &Config<'_>) -> Result<Model> {
    let base = shape(c)?;
    let s = Shape { qk_norm: true, head: c.int_or(&["head_dim"], 128)?, ..base };
    model(c, s, &[(s, layer_count(c)?)])
}

/// `qwen3_moe`: every layer routed unless listed as dense.
pub(super) fn qwen3_moe(c: &Config<'_>) -> Result<Model> {
    let base = shape(c)?;
    let dense = Shape { qk_norm: true, ..base };
    let router = if c.flag(&["norm_topk_prob"], false)? {
        RouterKind::SoftmaxTopKNormalised
    } else {
        RouterKind::SoftmaxTopK
    };
    let sparse = Shape {
        ffn: Ffn::Experts {
            width: c.int_or(&["moe_intermediate_size"], 768)?,
            experts: c.int_or(&["num_experts", "num_local_experts"], 128)?,
            top_k: c.int_or(&["num_experts_per_tok"], 8)?,
            router,
            shared: 0,
        },
        ..dense
    };
    let step = c.int_or(&["decoder_sparse_step"], 1)?;
    let listed = c.list("mlp_only_layers")?.unwrap_or_default();
    let layers: Vec<(Shape, u64)> = (0..layer_count(c)?)
        .map(|i| {
            let routed = (i + 1) % step == 0 && !listed.iter().any(|v| v.as_u64() == Some(i));
            (if routed { sparse } else { dense }, 1)
        })
        .collect();
    model(c, sparse, &layers)
}

/// `mixtral`.
pub(super) fn mixtral(c: &Config<'_>) -> Result<Model> {
    let base = shape(c)?;
    let s = Shape {
        window: c.opt(&["sliding_window"])?,
        ffn: Ffn::Experts {
            width: c.int_or(&["intermediate_size"], 14_336)?,
            experts: c.int_or(&["num_local_experts"], 8)?,
            top_k: c.int_or(&["num_experts_per_tok"], 2)?,
            router: RouterKind::SoftmaxFp32Weights,
            shared: 0,
        },
        ..base
    };
    model(c, s, &[(s, layer_count(c)?)])
}

/// A decoder given by its dimensions alone.
pub(super) fn dimensions(c: &Config<'_>) -> Result<Model> {
    let hidden = c.int(&["hidden"])?;
    let heads = c.int(&["heads"])?;
    let kv_heads = c.int_or(&["kv_heads"], heads)?;
    c.divides("kv_heads", kv_heads, heads, "heads")?;
    let head = match c.opt(&["head_dim"])? {
        Some(head) => head,
        None => {
            c.divides("heads", heads, hidden, "hidden")?;
            hidden / heads
        }
    };
    let gated = c.flag(&["gated_mlp"], true)?;
    let bias = c.flag(&["biases"], !gated)?;
    let width = match c.opt(&["ffn"])? {
        Some(width) => width,
        None if c.has("moe_ffn") => c.int(&["moe_ffn"])?,
        None => 4 * hidden,
    };
    let dense = if gated {
        Ffn::Gated { width, act: Act::Silu, bias }
    } else {
        Ffn::Plain { width, act: Act::Gelu, bias }
    };
    let s = Shape {
        hidden,
        heads,
        kv_heads,
        head,
        qkv_bias: bias,
        out_bias: bias,
        qk_norm: c.flag(&["qk_norm"], false)?,
        window: c.opt(&["sliding_window"])?,
        norm: if gated { NormKind::Rms } else { NormKind::Layer { bias: true } },
        rotary: c.flag(&["rotary"], gated)?,
        ffn: dense,
    };
    let layers = layer_count(c)?;
    let Some(experts) = c.opt(&["experts"])? else {
        return model(c, s, &[(s, layers)]);
    };
    let moe_width = c.int_or(&["moe_ffn"], width)?;
    let routed = Shape {
        ffn: Ffn::Experts {
            width: moe_width,
            experts,
            top_k: c.int_or(&["top_k"], 2)?,
            router: RouterKind::SoftmaxTopKNormalised,
            shared: moe_width * c.opt_from(&["shared_experts"], 0)?.unwrap_or(0),
        },
        ..s
    };
    let first_dense = c.opt_from(&["dense_layers"], 0)?.unwrap_or(0).min(layers);
    model(c, routed, &[(s, first_dense), (routed, layers - first_dense)])
}
