//! Llama and the dense families that change a detail of it: Mistral, Qwen, OLMo-2; and decoders
//! given by their dimensions.

use super::super::block::{
    Act, Attention, Block, BlockBuilder, BlockKind, ExpertsKind, INPUT, NormKind, RotaryKind, RouterKind,
    Slot, Split, Stream,
};
use super::super::config::Config;
use super::super::model::Model;
use super::{Around, Heads, act, at, fused_gated_mlp, gated_mlp, head_of, heads, sliding_layers};
use crate::error::Result;

/// What a mixture of experts adds for every token.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Shared {
    None,
    /// A gated network of this width, added to the routed output.
    Added(u64),
    /// The same, run first and weighed by a sigmoid gate of its own (Qwen2-MoE).
    Weighed(u64),
}

/// The feed-forward half of a layer.
#[derive(Clone, Copy)]
pub(super) enum Ffn {
    Gated {
        width: u64,
        act: Act,
        bias: bool,
    },
    /// Gate and up in one projection.
    Fused {
        width: u64,
        act: Act,
    },
    Plain {
        width: u64,
        act: Act,
        bias: bool,
    },
    Experts {
        kind: ExpertsKind,
        width: u64,
        experts: u64,
        top_k: u64,
        router: RouterKind,
        router_bias: bool,
        shared: Shared,
        bias: bool,
    },
}

/// What is normalised between the projections and the rotary embedding.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum QkNorm {
    None,
    /// Each head.
    Head,
    /// The whole projection.
    Whole,
}

/// What distinguishes the members.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) h: Heads,
    pub(super) qkv_bias: bool,
    pub(super) out_bias: bool,
    pub(super) qk_norm: QkNorm,
    pub(super) clip: bool,
    pub(super) rotary: Option<RotaryKind>,
    /// Elements of a head that are rotated.
    pub(super) rotated: u64,
    pub(super) norm: NormKind,
    pub(super) attention: Attention,
    pub(super) ffn: Ffn,
}

impl Shape {
    /// The Llama layer: no biases but those asked for by `attention_bias` and `mlp_bias`.
    #[inline(never)]
    pub(super) fn llama(c: &Config<'_>, h: Heads, ffn: u64) -> Result<Self> {
        let bias = c.flag(&["attention_bias"], false)?;
        let mut attention = h.attention();
        attention.dropout = c.drops(&["attention_dropout"], 0.0)?;
        Ok(Self {
            h,
            qkv_bias: bias,
            out_bias: bias,
            qk_norm: QkNorm::None,
            clip: false,
            rotary: Some(RotaryKind::Half),
            rotated: h.head,
            norm: NormKind::Rms,
            attention,
            ffn: Ffn::Gated {
                width: c.int_or(&["intermediate_size"], ffn)?,
                act: act(c, &["hidden_act"], "silu")?,
                bias: c.flag(&["mlp_bias"], false)?,
            },
        })
    }

    /// The same with no biases at all.
    #[inline(never)]
    pub(super) fn without_biases(mut self) -> Self {
        (self.qkv_bias, self.out_bias) = (false, false);
        self.without_mlp_bias()
    }

    /// The same with no biases in the feed-forward network.
    #[inline(never)]
    pub(super) fn without_mlp_bias(mut self) -> Self {
        if let Ffn::Gated { bias, .. } = &mut self.ffn {
            *bias = false;
        }
        self
    }

    #[inline(never)]
    pub(super) const fn windowed(mut self, window: Option<u64>) -> Self {
        self.attention.window = window;
        self
    }
}

/// Attention up to and with its output projection.
pub(super) fn attend(b: &mut BlockBuilder, x: Slot, s: Shape) -> Slot {
    let normed = |b: &mut BlockBuilder, x| match s.qk_norm {
        QkNorm::None => x,
        QkNorm::Head => b.head_norm(x, s.norm, s.h.head),
        QkNorm::Whole => b.norm(x, s.norm),
    };
    let q = b.linear(x, "q_proj", s.h.q(), s.qkv_bias, Split::Column);
    let mut q = normed(b, q);
    let k = b.linear(x, "k_proj", s.h.kv(), s.qkv_bias, Split::Column);
    let mut k = normed(b, k);
    let mut v = b.linear(x, "v_proj", s.h.kv(), s.qkv_bias, Split::Column);
    if s.clip {
        (q, k, v) = (b.clamp(q), b.clamp(k), b.clamp(v));
    }
    if let Some(kind) = s.rotary {
        q = b.rotary(q, kind, s.h.head, s.rotated);
        k = b.rotary(k, kind, s.h.head, s.rotated);
    }
    if s.attention.sinks {
        b.parameter("sinks", 1, s.h.heads, Split::Column);
    }
    let attended = b.attention(q, k, v, s.attention);
    b.linear(attended, "o_proj", s.h.hidden, s.out_bias, Split::Row)
}

pub(super) fn layer(s: Shape) -> Block {
    let mut b = BlockBuilder::new(BlockKind::Layer, Stream::Main, s.h.hidden);
    let normed = b.norm(INPUT, s.norm);
    let out = attend(&mut b, normed, s);
    let x = b.add(INPUT, out);
    let normed = b.norm(x, s.norm);
    let out = feed_forward(&mut b, normed, s.h.hidden, s.ffn);
    b.add(x, out);
    b.finish()
}

/// The feed-forward half from the normed hidden state on.
pub(super) fn feed_forward(b: &mut BlockBuilder, x: Slot, hidden: u64, ffn: Ffn) -> Slot {
    match ffn {
        Ffn::Gated { width, act, bias } => gated_mlp(b, x, width, hidden, act, bias),
        Ffn::Fused { width, act } => fused_gated_mlp(b, x, width, hidden, act),
        Ffn::Plain { width, act, bias } => {
            let up = b.linear(x, "up_proj", width, bias, Split::Column);
            let up = b.act(up, act);
            b.linear(up, "down_proj", hidden, bias, Split::Row)
        }
        Ffn::Experts { kind, width, experts, top_k, router, router_bias, shared, bias } => {
            let weighed = if let Shared::Weighed(own) = shared {
                Some(gated_mlp(b, x, own, hidden, Act::Silu, bias))
            } else {
                None
            };
            let weights = b.router(x, router, experts, top_k, router_bias);
            let routed = b.experts(x, weights, kind, experts, top_k, width);
            match (shared, weighed) {
                (Shared::Added(own), _) => {
                    let own = gated_mlp(b, x, own, hidden, Act::Silu, bias);
                    b.add(routed, own)
                }
                (_, Some(own)) => {
                    let gate = b.linear(x, "shared_expert_gate", 1, false, Split::Replicated);
                    let gate = b.act(gate, Act::Sigmoid);
                    let own = b.product(gate, own);
                    b.add(routed, own)
                }
                _ => routed,
            }
        }
    }
}

/// A decoder whose layers are all alike.
pub(super) fn uniform(c: &Config<'_>, s: Shape, vocabulary: u64, layers: u64) -> Result<Model> {
    decoder(c, s, vocabulary, layers, vec![layer(s)], &|_| 0)
}

/// A decoder whose layer `i` has the `pick(i)`-th of two shapes.
pub(super) fn mixed(
    c: &Config<'_>,
    shapes: &[Shape; 2],
    vocabulary: u64,
    layers: u64,
    pick: &dyn Fn(u64) -> usize,
) -> Result<Model> {
    let [s, _] = *shapes;
    decoder(c, s, vocabulary, layers, shapes.map(layer).into(), pick)
}

/// The same of layers already built; `s` says what is around them.
pub(super) fn decoder(
    c: &Config<'_>,
    s: Shape,
    vocabulary: u64,
    layers: u64,
    blocks: Vec<Block>,
    pick: &dyn Fn(u64) -> usize,
) -> Result<Model> {
    let mut around = Around::read(c, s.h.hidden, s.norm, vocabulary, false)?;
    if s.rotary.is_some() {
        around = around.rotary(s.rotated);
    }
    Ok(around.model(|stack| stack.alternate(layers, blocks, pick)))
}

/// `llama`.
pub(super) fn llama(c: &Config<'_>) -> Result<Model> {
    let s = Shape::llama(c, heads(c, 4096, 32, None, None)?, 11_008)?;
    uniform(c, s, 32_000, c.layers(&["num_hidden_layers"], 32)?)
}

/// `mistral`: a sliding window in every layer.
pub(super) fn mistral(c: &Config<'_>) -> Result<Model> {
    let s = Shape::llama(c, heads(c, 4096, 32, Some(8), None)?, 14_336)?.without_biases();
    let window = c.opt(&["sliding_window"])?;
    let window = if c.is_null("sliding_window") { None } else { window.or(Some(4096)) };
    uniform(c, s.windowed(window), 32_000, c.layers(&["num_hidden_layers"], 32)?)
}

/// `qwen2`: biases on q, k and v only; its window is off unless asked for.
pub(super) fn qwen2(c: &Config<'_>) -> Result<Model> {
    let s = Shape::llama(c, heads(c, 4096, 32, Some(32), None)?, 22_016)?.without_biases();
    qwen(c, Shape { qkv_bias: true, ..s })
}

/// `qwen3`: QK-norm per head.
pub(super) fn qwen3(c: &Config<'_>) -> Result<Model> {
    let s = Shape::llama(c, heads(c, 4096, 32, Some(32), Some(128))?, 22_016)?.without_mlp_bias();
    qwen(c, Shape { qk_norm: QkNorm::Head, ..s })
}

/// The upper layers may slide.
fn qwen(c: &Config<'_>, s: Shape) -> Result<Model> {
    let window = if c.flag(&["use_sliding_window"], false)? {
        c.opt(&["sliding_window"])?.or(Some(4096))
    } else {
        None
    };
    let first = c.count_or_none(&["max_window_layers"], 28)?;
    let layers = c.layers(&["num_hidden_layers"], 32)?;
    let sliding = sliding_layers(c, layers, &|i| window.is_some() && i >= first)?;
    mixed(c, &[s, s.windowed(window)], 151_936, layers, &|i| at(&sliding, i))
}

/// `olmo2`: norms behind attention and feed-forward, QK-norm over the whole projection.
pub(super) fn olmo2(c: &Config<'_>) -> Result<Model> {
    let s = Shape {
        qk_norm: QkNorm::Whole,
        norm: NormKind::RmsUpcast,
        ..Shape::llama(c, heads(c, 4096, 32, None, None)?, 11_008)?.without_mlp_bias()
    };
    let mut b = BlockBuilder::new(BlockKind::Layer, Stream::Main, s.h.hidden);
    let out = attend(&mut b, INPUT, s);
    let out = b.norm(out, s.norm);
    let x = b.add(INPUT, out);
    let out = feed_forward(&mut b, x, s.h.hidden, s.ffn);
    let out = b.norm(out, s.norm);
    b.add(x, out);
    let block = b.finish();
    let layers = c.layers(&["num_hidden_layers"], 32)?;
    decoder(c, s, 50_304, layers, vec![block], &|_| 0)
}

/// A decoder given by its dimensions alone.
pub(super) fn dimensions(c: &Config<'_>) -> Result<Model> {
    let hidden = c.required("hidden", c.opt_width(&["hidden"])?)?;
    let heads = c.required("heads", c.opt_count(&["heads"])?)?;
    let kv_heads = c.count(&["kv_heads"], heads)?;
    c.divides("kv_heads", kv_heads, heads, "heads")?;
    let head = match c.opt_count(&["head_dim"])? {
        Some(head) => head,
        None => head_of(c, "heads", heads, hidden)?,
    };
    let h = Heads { hidden, heads, kv_heads, head };
    let gated = c.flag(&["gated_mlp"], true)?;
    let bias = c.flag(&["biases"], !gated)?;
    let width = match c.opt(&["ffn"])? {
        Some(width) => width,
        None => c.int_or(&["moe_ffn"], 4 * hidden)?,
    };
    let mut attention = h.attention();
    attention.window = c.opt(&["sliding_window"])?;
    let qk_norm = if c.flag(&["qk_norm"], false)? { QkNorm::Head } else { QkNorm::None };
    let s = Shape {
        h,
        qkv_bias: bias,
        out_bias: bias,
        qk_norm,
        clip: false,
        rotary: c.flag(&["rotary"], gated)?.then_some(RotaryKind::Half),
        rotated: head,
        norm: if gated { NormKind::Rms } else { NormKind::Layer { bias: true } },
        attention,
        ffn: if gated {
            Ffn::Gated { width, act: Act::Silu, bias }
        } else {
            Ffn::Plain { width, act: Act::Gelu, bias }
        },
    };
    let given = c.layers(&["layers"], 1)?;
    let layers = c.required("layers", c.has("layers").then_some(given))?;
    let vocabulary = c.required("vocab", c.opt(&["vocab_size", "vocab"])?)?;
    let Some(experts) = c.opt_count(&["experts"])? else {
        return uniform(c, s, vocabulary, layers);
    };
    let top_k = c.count(&["top_k"], 2.min(experts))?;
    c.at_most("top_k", top_k, experts, "experts")?;
    let width = c.int_or(&["moe_ffn"], width)?;
    let shared = c.count_or_none(&["shared_experts"], 0)?;
    let routed = Shape {
        ffn: Ffn::Experts {
            kind: ExpertsKind::Gated,
            width,
            experts,
            top_k,
            router: RouterKind::SoftmaxTopKNormalised,
            router_bias: false,
            shared: if shared == 0 { Shared::None } else { Shared::Added(shared * width) },
            bias: false,
        },
        ..s
    };
    let dense = c.count_or_none(&["dense_layers"], 0)?.min(layers);
    mixed(c, &[s, routed], vocabulary, layers, &|i| usize::from(i >= dense))
}
