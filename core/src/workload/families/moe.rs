//! Mixtures of experts: Mixtral, Qwen-MoE, `OLMoE`, GPT-OSS, and `DeepSeek` with its latent attention.

use super::super::block::{
    Block, BlockBuilder, BlockKind, ExpertsKind, INPUT, NormKind, RotaryKind, RouterKind, Slot, Split, Stream,
};
use super::super::config::Config;
use super::super::model::Model;
use super::llama::{Ffn, QkNorm, Shape, Shared, decoder, feed_forward, layer, mixed, uniform};
use super::{Around, Heads, act, at, heads, sliding_layers};
use crate::error::Result;

/// Experts and how many of them a token is given to.
pub(super) struct Routing {
    pub(super) experts: u64,
    pub(super) top_k: u64,
}

pub(super) fn routing(c: &Config<'_>, keys: &[&str], experts: u64, top_k: u64) -> Result<Routing> {
    let experts = c.count(keys, experts)?;
    let top_k = c.count(&["num_experts_per_tok"], top_k)?;
    c.at_most("num_experts_per_tok", top_k, experts, keys.first().copied().unwrap_or_default())?;
    Ok(Routing { experts, top_k })
}

impl Routing {
    pub(super) const fn gated(&self, width: u64, router: RouterKind, shared: Shared) -> Ffn {
        Ffn::Experts {
            kind: match router {
                RouterKind::TopKSigmoid => ExpertsKind::GatedRepeated,
                _ => ExpertsKind::Gated,
            },
            width,
            experts: self.experts,
            top_k: self.top_k,
            router,
            router_bias: false,
            shared,
            bias: false,
        }
    }
}

/// Whether the weights of the chosen are made to sum to one.
fn softmax_router(c: &Config<'_>) -> Result<RouterKind> {
    Ok(if c.flag(&["norm_topk_prob"], false)? {
        RouterKind::SoftmaxTopKNormalised
    } else {
        RouterKind::SoftmaxTopK
    })
}

/// `mixtral`.
pub(super) fn mixtral(c: &Config<'_>) -> Result<Model> {
    let s = Shape::llama(c, heads(c, 4096, 32, Some(8), None)?, 14_336)?.without_biases();
    let routing = routing(c, &["num_local_experts", "num_experts"], 8, 2)?;
    let width = c.int_or(&["intermediate_size"], 14_336)?;
    let ffn = routing.gated(width, RouterKind::SoftmaxFp32Weights, Shared::None);
    let s = Shape { ffn, ..s.windowed(c.opt(&["sliding_window"])?) };
    uniform(c, s, 32_000, c.layers(&["num_hidden_layers"], 32)?)
}

/// 1 for layers that are routed, else 0: every `decoder_sparse_step`-th unless listed as dense.
fn qwen_routed(c: &Config<'_>) -> Result<impl Fn(u64) -> usize + use<>> {
    let step = c.count(&["decoder_sparse_step"], 1)?;
    let dense = c.numbers("mlp_only_layers")?.unwrap_or_default();
    Ok(move |i: u64| usize::from((i + 1).is_multiple_of(step) && !dense.contains(&i)))
}

/// `qwen2_moe`: routed experts beside a shared one that a gate weighs.
pub(super) fn qwen2_moe(c: &Config<'_>) -> Result<Model> {
    let base = Shape::llama(c, heads(c, 2048, 16, Some(16), None)?, 5632)?.without_biases();
    let dense = Shape { qkv_bias: c.flag(&["qkv_bias"], true)?, ..base };
    let routing = routing(c, &["num_experts"], 60, 4)?;
    let width = c.int_or(&["moe_intermediate_size"], 1408)?;
    let shared = Shared::Weighed(c.int_or(&["shared_expert_intermediate_size"], 5632)?);
    let sparse = Shape { ffn: routing.gated(width, softmax_router(c)?, shared), ..dense };
    let window = if c.flag(&["use_sliding_window"], false)? {
        c.opt(&["sliding_window"])?.or(Some(4096))
    } else {
        None
    };
    let routed = qwen_routed(c)?;
    let layers = c.layers(&["num_hidden_layers"], 24)?;
    let until = c.count_or_none(&["max_window_layers"], 28)?;
    let sliding = sliding_layers(c, layers, &|i| window.is_some() && i.is_multiple_of(2) && i < until)?;
    let shapes = [dense, sparse, dense.windowed(window), sparse.windowed(window)];
    decoder(c, dense, 151_936, layers, shapes.map(layer).into(), &|i| routed(i) + 2 * at(&sliding, i))
}

/// `qwen3_moe`: QK-norm per head, no shared expert.
pub(super) fn qwen3_moe(c: &Config<'_>) -> Result<Model> {
    let base = Shape::llama(c, heads(c, 2048, 32, Some(4), None)?, 6144)?.without_mlp_bias();
    let window = if c.flag(&["use_sliding_window"], false)? {
        c.opt(&["sliding_window"])?.or(Some(4096))
    } else {
        None
    };
    let dense = Shape { qk_norm: QkNorm::Head, ..base.windowed(window) };
    let routing = routing(c, &["num_experts", "num_local_experts"], 128, 8)?;
    let width = c.int_or(&["moe_intermediate_size"], 768)?;
    let sparse = Shape { ffn: routing.gated(width, softmax_router(c)?, Shared::None), ..dense };
    mixed(c, &[dense, sparse], 151_936, c.layers(&["num_hidden_layers"], 24)?, &qwen_routed(c)?)
}

/// `olmoe`: QK-norm over the whole projection.
pub(super) fn olmoe(c: &Config<'_>) -> Result<Model> {
    let s = Shape::llama(c, heads(c, 2048, 16, None, None)?, 2048)?;
    let routing = routing(c, &["num_experts", "num_local_experts"], 64, 8)?;
    let width = c.int_or(&["intermediate_size"], 2048)?;
    let ffn = routing.gated(width, softmax_router(c)?, Shared::None);
    let s = Shape { qk_norm: QkNorm::Whole, clip: c.has("clip_qkv"), ffn, ..s };
    uniform(c, s, 50_304, c.layers(&["num_hidden_layers"], 16)?)
}

/// `gpt_oss`: sinks, every other layer sliding, clamped experts with biases.
pub(super) fn gpt_oss(c: &Config<'_>) -> Result<Model> {
    let h = heads(c, 2880, 64, Some(8), Some(64))?;
    let base = Shape::llama(c, h, 2880)?;
    let routing = routing(c, &["num_local_experts", "num_experts"], 128, 4)?;
    let bias = c.flag(&["attention_bias"], true)?;
    let mut attention = base.attention;
    (attention.sinks, attention.eager_only, attention.softmax_fp32) = (true, true, false);
    let s = Shape {
        qkv_bias: bias,
        out_bias: bias,
        rotary: Some(RotaryKind::Chunked),
        norm: NormKind::RmsUpcast,
        attention,
        ffn: Ffn::Experts {
            kind: ExpertsKind::GatedClamped,
            width: c.int_or(&["intermediate_size"], 2880)?,
            experts: routing.experts,
            top_k: routing.top_k,
            router: RouterKind::TopKSoftmax,
            router_bias: true,
            shared: Shared::None,
            bias: false,
        },
        ..base
    };
    let window = c.opt(&["sliding_window"])?.or(Some(128));
    let layers = c.layers(&["num_hidden_layers"], 36)?;
    let sliding = sliding_layers(c, layers, &|i| i.is_multiple_of(2))?;
    mixed(c, &[s, s.windowed(window)], 201_088, layers, &|i| at(&sliding, i))
}

/// Multi-head latent attention (DeepSeek-V2, section 2.1): keys and values come from a latent of
/// `kv_rank` elements, queries from one of `q_rank` or straight from the hidden state.
#[derive(Clone, Copy)]
struct Latent {
    hidden: u64,
    heads: u64,
    q_rank: Option<u64>,
    kv_rank: u64,
    nope: u64,
    rope: u64,
    v_head: u64,
    bias: bool,
    rotary: RotaryKind,
    dropout: bool,
}

fn latent(c: &Config<'_>, hidden: u64, heads: u64) -> Result<Latent> {
    let q_rank = c.opt_width(&["q_lora_rank"])?;
    Ok(Latent {
        hidden: c.width(&["hidden_size"], hidden)?,
        heads: c.count(&["num_attention_heads"], heads)?,
        q_rank: if c.is_null("q_lora_rank") { None } else { q_rank.or(Some(1536)) },
        kv_rank: c.width(&["kv_lora_rank"], 512)?,
        nope: c.count(&["qk_nope_head_dim"], 128)?,
        rope: c.count(&["qk_rope_head_dim"], 64)?,
        v_head: c.count(&["v_head_dim"], 128)?,
        bias: c.flag(&["attention_bias"], false)?,
        rotary: RotaryKind::Complex,
        dropout: c.drops(&["attention_dropout"], 0.0)?,
    })
}

fn attend_latent(b: &mut BlockBuilder, x: Slot, l: Latent) -> Slot {
    let head = l.nope + l.rope;
    let q = if let Some(rank) = l.q_rank {
        let down = b.linear(x, "q_a_proj", rank, l.bias, Split::Replicated);
        let down = b.norm(down, NormKind::Rms);
        b.linear(down, "q_b_proj", l.heads * head, false, Split::Column)
    } else {
        b.linear(x, "q_proj", l.heads * head, false, Split::Column)
    };
    let q_pass = b.view(q, l.heads * l.nope);
    let q_rot = b.view(q, l.heads * l.rope);
    let compressed = b.linear(x, "kv_a_proj_with_mqa", l.kv_rank + l.rope, l.bias, Split::Replicated);
    let kv = b.view(compressed, l.kv_rank);
    let k_rot = b.view(compressed, l.rope);
    let kv = b.norm(kv, NormKind::Rms);
    let q_rot = b.rotary(q_rot, l.rotary, l.rope, l.rope);
    let k_rot = b.rotary(k_rot, l.rotary, l.rope, l.rope);
    let q = b.assemble(&[q_pass, q_rot], l.heads * head);
    let kv = b.linear(kv, "kv_b_proj", l.heads * (l.nope + l.v_head), false, Split::Column);
    let k_pass = b.view(kv, l.heads * l.nope);
    let v = b.view(kv, l.heads * l.v_head);
    let k = b.assemble(&[k_pass, k_rot], l.heads * head);
    let h = Heads { hidden: l.hidden, heads: l.heads, kv_heads: l.heads, head };
    let mut spec = h.attention();
    (spec.v_head, spec.dropout) = (l.v_head, l.dropout);
    let attended = b.attention(q, k, v, spec);
    b.linear(attended, "o_proj", l.hidden, l.bias, Split::Row)
}

fn latent_layer(l: Latent, ffn: Ffn, buffers: u64) -> Block {
    let mut b = BlockBuilder::new(BlockKind::Layer, Stream::Main, l.hidden);
    let normed = b.norm(INPUT, NormKind::Rms);
    let out = attend_latent(&mut b, normed, l);
    let x = b.add(INPUT, out);
    let normed = b.norm(x, NormKind::Rms);
    let out = feed_forward(&mut b, normed, l.hidden, ffn);
    b.add(x, out);
    b.buffers(buffers);
    b.finish()
}

fn deepseek(
    c: &Config<'_>,
    l: Latent,
    layers: u64,
    dense: u64,
    blocks: Vec<Block>,
    vocabulary: u64,
) -> Result<Model> {
    let around = Around::read(c, l.hidden, NormKind::Rms, vocabulary, false)?.rotary(l.rope);
    Ok(around.model(|stack| stack.alternate(layers, blocks, &|i| usize::from(i >= dense))))
}

/// The experts every token passes through, as one network.
fn shared(c: &Config<'_>, width: u64, default: u64) -> Result<Shared> {
    let shared = c.count_or_none(&["n_shared_experts"], default)?;
    Ok(if shared == 0 { Shared::None } else { Shared::Added(shared * width) })
}

/// `deepseek_v2`.
pub(super) fn deepseek_v2(c: &Config<'_>) -> Result<Model> {
    let l = latent(c, 4096, 32)?;
    let act = act(c, &["hidden_act"], "silu")?;
    let mlp_bias = c.flag(&["mlp_bias"], false)?;
    let width = c.int_or(&["moe_intermediate_size"], 1407)?;
    let routing = routing(c, &["n_routed_experts", "num_experts"], 64, 6)?;
    let dense = Ffn::Gated { width: c.int_or(&["intermediate_size"], 11_008)?, act, bias: mlp_bias };
    let mut sparse = routing.gated(width, RouterKind::SoftmaxFp32Input, shared(c, width, 2)?);
    if let Ffn::Experts { bias, .. } = &mut sparse {
        *bias = mlp_bias;
    }
    let blocks = vec![latent_layer(l, dense, 0), latent_layer(l, sparse, 0)];
    let first = c.count_or_none(&["first_k_dense_replace"], 0)?;
    deepseek(c, l, c.layers(&["num_hidden_layers"], 32)?, first, blocks, 102_400)
}

/// `deepseek_v3`: sigmoid scores whose correction bias is a buffer.
pub(super) fn deepseek_v3(c: &Config<'_>) -> Result<Model> {
    let interleaved = c.flag(&["rope_interleave"], true)?;
    let rotary = if interleaved { RotaryKind::Chunked } else { RotaryKind::Half };
    let l = Latent { rotary, ..latent(c, 7168, 128)? };
    let act = act(c, &["hidden_act"], "silu")?;
    let width = c.int_or(&["moe_intermediate_size"], 2048)?;
    let routing = routing(c, &["n_routed_experts", "num_local_experts"], 256, 8)?;
    let dense = Ffn::Gated { width: c.int_or(&["intermediate_size"], 18_432)?, act, bias: false };
    let sparse = routing.gated(width, RouterKind::SigmoidFp32Input, shared(c, width, 1)?);
    let blocks = vec![latent_layer(l, dense, 0), latent_layer(l, sparse, routing.experts)];
    let first = c.count_or_none(&["first_k_dense_replace"], 3)?;
    deepseek(c, l, c.layers(&["num_hidden_layers"], 61)?, first, blocks, 129_280)
}
