//! One short function per model family: it reads the config and lists the operations in the order
//! in which the Transformers library runs them. A key that is missing takes the library's default.
//! A new family is a new function here and one line in [`FAMILIES`].

use super::block::{
    Act, Attention, AttentionBias, Block, BlockBuilder, BlockKind, INPUT, NormKind, Slot, Split, Stream,
};
use super::config::Config;
use super::model::{Model, Run};
use crate::error::{Error, ErrorCode, Result};
use crate::quantity::count;
use crate::write::Shown;

mod encoder;
mod gemma;
mod gpt;
mod hybrid;
mod llama;
mod mamba;
mod moe;
mod parallel;
mod phi;
mod relatives;
mod t5;

/// A family: its `model_type` and how to build it.
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) build: fn(&Config<'_>) -> Result<Model>,
}

/// Every known `model_type`, in alphabetical order.
const FAMILIES: &[Family] = &[
    Family { name: "bert", build: encoder::bert },
    Family { name: "bloom", build: gpt::bloom },
    Family { name: "cohere", build: relatives::cohere },
    Family { name: "deepseek_v2", build: moe::deepseek_v2 },
    Family { name: "deepseek_v3", build: moe::deepseek_v3 },
    Family { name: "dimensions", build: llama::dimensions },
    Family { name: "falcon", build: parallel::falcon },
    Family { name: "gemma", build: gemma::gemma },
    Family { name: "gemma2", build: gemma::gemma2 },
    Family { name: "gemma3", build: gemma::gemma3 },
    Family { name: "gemma3_text", build: gemma::gemma3_text },
    Family { name: "glm", build: relatives::glm },
    Family { name: "glm4", build: relatives::glm4 },
    Family { name: "gpt2", build: gpt::gpt2 },
    Family { name: "gpt_neox", build: parallel::gpt_neox },
    Family { name: "gpt_oss", build: moe::gpt_oss },
    Family { name: "gptj", build: parallel::gptj },
    Family { name: "granite", build: relatives::granite },
    Family { name: "llama", build: llama::llama },
    Family { name: "llama4", build: relatives::llama4 },
    Family { name: "llama4_text", build: relatives::llama4_text },
    Family { name: "mamba", build: mamba::mamba },
    Family { name: "mistral", build: llama::mistral },
    Family { name: "mixtral", build: moe::mixtral },
    Family { name: "mpt", build: gpt::mpt },
    Family { name: "nemotron_h", build: hybrid::nemotron_h },
    Family { name: "olmo", build: relatives::olmo },
    Family { name: "olmo2", build: llama::olmo2 },
    Family { name: "olmoe", build: moe::olmoe },
    Family { name: "opt", build: gpt::opt },
    Family { name: "phi", build: phi::phi },
    Family { name: "phi3", build: phi::phi3 },
    Family { name: "phimoe", build: phi::phimoe },
    Family { name: "qwen2", build: llama::qwen2 },
    Family { name: "qwen2_moe", build: moe::qwen2_moe },
    Family { name: "qwen3", build: llama::qwen3 },
    Family { name: "qwen3_moe", build: moe::qwen3_moe },
    Family { name: "roberta", build: encoder::roberta },
    Family { name: "stablelm", build: relatives::stablelm },
    Family { name: "starcoder2", build: gpt::starcoder2 },
    Family { name: "t5", build: t5::t5 },
    Family { name: "vit", build: encoder::vit },
];

pub(super) fn find(model_type: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|f| f.name == model_type)
}

pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|f| f.name)
}

/// Collects the blocks of a model in forward order, merging equal neighbours.
struct Stack {
    blocks: Vec<Block>,
    order: Vec<Run>,
}

impl Stack {
    const fn new() -> Self {
        Self { blocks: Vec::new(), order: Vec::new() }
    }

    /// Takes a block in without running it, and says where it is.
    fn add(&mut self, block: Block) -> usize {
        self.blocks.iter().position(|b| *b == block).unwrap_or_else(|| {
            self.blocks.push(block);
            self.blocks.len() - 1
        })
    }

    /// Runs a block that was taken in.
    fn repeat(&mut self, index: usize, count: u64) {
        match self.order.last_mut() {
            Some(run) if run.block == index => run.count += count,
            _ if count > 0 => self.order.push(Run { block: index, count }),
            _ => {}
        }
    }

    fn push(&mut self, block: Block, count: u64) {
        if count > 0 {
            let index = self.add(block);
            self.repeat(index, count);
        }
    }

    /// Runs one of several blocks in each of `layers` layers: the `pick(i)`-th in layer `i`.
    fn alternate(&mut self, layers: u64, blocks: Vec<Block>, pick: &dyn Fn(u64) -> usize) {
        let known: Vec<usize> = blocks.into_iter().map(|block| self.add(block)).collect();
        for i in 0..layers {
            if let Some(&index) = known.get(pick(i)) {
                self.repeat(index, 1);
            }
        }
        self.drop_unused();
    }

    /// Forgets blocks that no layer runs, so that `blocks` holds only what the model is made of.
    fn drop_unused(&mut self) {
        for index in (0..self.blocks.len()).rev() {
            if !self.order.iter().any(|run| run.block == index) {
                self.blocks.remove(index);
                for run in &mut self.order {
                    run.block -= usize::from(run.block > index);
                }
            }
        }
    }

    fn finish(self, hidden: u64, vocabulary: u64, tied: bool, max_positions: Option<u64>) -> Model {
        Model {
            name: String::new(),
            family: "",
            blocks: self.blocks,
            order: self.order,
            hidden,
            vocabulary,
            tied,
            max_positions,
            fixed_tokens: None,
        }
    }
}

/// What a decoder does to its logits before the loss.
#[derive(Clone, Copy, PartialEq)]
enum Logits {
    Plain,
    /// Multiplied by a constant.
    Scaled,
    /// Soft-capped.
    Capped,
}

/// What is around the layers of a decoder: embedding, final norm, head and loss.
#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of some family's code")]
struct Around {
    hidden: u64,
    vocabulary: u64,
    tied: bool,
    norm: NormKind,
    /// Elements of buffers that belong to no layer (rotary frequencies).
    buffers: u64,
    /// Learned positions, added to the embedding.
    positions: Option<u64>,
    embedding_scaled: bool,
    embedding_dropout: bool,
    head_bias: bool,
    logits: Logits,
    max_positions: Option<u64>,
}

impl Around {
    /// Reads the vocabulary and whether the head is tied; the rest is at its plainest.
    #[inline(never)]
    fn read(c: &Config<'_>, hidden: u64, norm: NormKind, vocabulary: u64, tied: bool) -> Result<Self> {
        Ok(Self {
            hidden,
            vocabulary: c.int_or(&["vocab_size", "vocab"], vocabulary)?,
            tied: c.flag(&["tie_word_embeddings", "tied_embeddings"], tied)?,
            norm,
            buffers: 0,
            positions: None,
            embedding_scaled: false,
            embedding_dropout: false,
            head_bias: false,
            logits: Logits::Plain,
            max_positions: c.opt(&["max_position_embeddings"])?,
        })
    }

    /// The same with the frequencies of rotary embeddings of so many elements.
    #[inline(never)]
    const fn rotary(mut self, rotated: u64) -> Self {
        self.buffers += rotary_buffers(rotated);
        self
    }

    /// The model, its layers pushed by the caller.
    fn model(self, layers: impl FnOnce(&mut Stack)) -> Model {
        let mut stack = self.below();
        layers(&mut stack);
        self.above(stack)
    }

    fn below(self) -> Stack {
        let mut stack = Stack::new();
        stack.push(self.embedding(), 1);
        stack
    }

    #[inline(never)]
    fn above(self, mut stack: Stack) -> Model {
        stack.push(self.final_norm(), 1);
        stack.push(self.head(), 1);
        stack.finish(self.hidden, self.vocabulary, self.tied, self.max_positions)
    }

    fn embedding(self) -> Block {
        let mut b = BlockBuilder::new(BlockKind::Embedding, Stream::Main, self.hidden);
        let mut x = b.lookup("embed_tokens", self.vocabulary, self.hidden, Split::Vocabulary);
        if let Some(positions) = self.positions {
            let places = b.lookup("embed_positions", positions, self.hidden, Split::Replicated);
            x = b.add(x, places);
        }
        if self.embedding_scaled {
            x = b.scale(x);
        }
        b.dropout(x, self.embedding_dropout);
        b.buffers(self.buffers);
        b.finish()
    }

    fn final_norm(self) -> Block {
        let mut b = BlockBuilder::new(BlockKind::FinalNorm, Stream::Main, self.hidden);
        b.norm(INPUT, self.norm);
        b.finish()
    }

    fn head(self) -> Block {
        let mut b = BlockBuilder::new(BlockKind::Head, Stream::Main, self.hidden);
        let logits = b.head(INPUT, self.vocabulary, self.head_bias, self.tied);
        let logits = match self.logits {
            Logits::Plain => logits,
            Logits::Scaled => b.scale(logits),
            Logits::Capped => b.softcap(logits),
        };
        b.loss(logits);
        b.finish()
    }
}

/// Elements of the rotary frequencies, which are kept twice: as used and as first computed.
const fn rotary_buffers(rotated: u64) -> u64 {
    2 * rotated.div_ceil(2)
}

/// Whether each layer has a sliding window: as the config lists it, else as `default` says.
fn sliding_layers(c: &Config<'_>, layers: u64, default: &dyn Fn(u64) -> bool) -> Result<Vec<bool>> {
    let Some(listed) = c.list("layer_types")? else {
        return Ok((0..layers).map(default).collect());
    };
    let kinds: Vec<bool> = listed
        .iter()
        .map(|kind| match kind.as_str() {
            Some("sliding_attention") => Ok(true),
            Some("full_attention") => Ok(false),
            _ => Err(Error::new(
                c.field("layer_types"),
                ErrorCode::UnknownName,
                Shown(kind),
                "sliding_attention or full_attention for each layer",
            )),
        })
        .collect::<Result<_>>()?;
    if u64::try_from(kinds.len()).is_ok_and(|n| n == layers) {
        return Ok(kinds);
    }
    Err(Error::new(
        c.field("layer_types"),
        ErrorCode::Conflict,
        format!("{} entries", kinds.len()),
        format!("one for each of the {layers} layers"),
    ))
}

/// 1 where layer `i` of such a list is sliding, else 0.
fn at(list: &[bool], i: u64) -> usize {
    usize::try_from(i).ok().and_then(|i| list.get(i)).map_or(0, |&sliding| usize::from(sliding))
}

/// The gated feed-forward network: `down(act(gate(x)) * up(x))`.
fn gated_mlp(b: &mut BlockBuilder, x: Slot, ffn: u64, hidden: u64, act: Act, bias: bool) -> Slot {
    let gate = b.linear(x, "gate_proj", ffn, bias, Split::Column);
    let gate = b.act(gate, act);
    let up = b.linear(x, "up_proj", ffn, bias, Split::Column);
    let product = b.product(gate, up);
    b.linear(product, "down_proj", hidden, bias, Split::Row)
}

/// The same with gate and up as views of one projection.
fn fused_gated_mlp(b: &mut BlockBuilder, x: Slot, ffn: u64, hidden: u64, act: Act) -> Slot {
    let fused = b.linear(x, "gate_up_proj", 2 * ffn, false, Split::Column);
    let gate = b.view(fused, ffn);
    let up = b.view(fused, ffn);
    let gate = b.act(gate, act);
    let product = b.product(up, gate);
    b.linear(product, "down_proj", hidden, false, Split::Row)
}

/// Sizes of attention: hidden size, query heads, key and value heads, elements per head.
#[derive(Clone, Copy)]
#[expect(clippy::struct_field_names, reason = "the field's words")]
struct Heads {
    hidden: u64,
    heads: u64,
    kv_heads: u64,
    head: u64,
}

impl Heads {
    const fn q(self) -> u64 {
        self.heads * self.head
    }

    const fn kv(self) -> u64 {
        self.kv_heads * self.head
    }

    /// Causal attention over these heads with nothing special.
    #[inline(never)]
    const fn attention(self) -> Attention {
        Attention {
            heads: self.heads,
            kv_heads: self.kv_heads,
            qk_head: self.head,
            v_head: self.head,
            causal: true,
            window: None,
            bias: AttentionBias::None,
            dropout: false,
            softcap: false,
            sinks: false,
            cross: false,
            broadcast: false,
            softmax_fp32: true,
            scores_fp32: false,
            eager_only: false,
            masked: false,
        }
    }
}

/// The usual keys; `head` is the default of `head_dim`, none being `hidden / heads`, and
/// `kv_heads` that of `num_key_value_heads`, none being all.
#[inline(never)]
fn heads(c: &Config<'_>, hidden: u64, heads: u64, kv_heads: Option<u64>, head: Option<u64>) -> Result<Heads> {
    let hidden = c.width(&["hidden_size"], hidden)?;
    let heads = c.count(&["num_attention_heads"], heads)?;
    // A null there means all heads, an absent key the family's default.
    let default = if c.is_null("num_key_value_heads") { heads } else { kv_heads.unwrap_or(heads) };
    let kv_heads = c.count(&["num_key_value_heads"], default)?;
    c.divides("num_key_value_heads", kv_heads, heads, "num_attention_heads")?;
    let default = if c.is_null("head_dim") { None } else { head };
    let head = match c.opt_count(&["head_dim"])?.or(default) {
        Some(head) => head,
        None => head_of(c, "num_attention_heads", heads, hidden)?,
    };
    Ok(Heads { hidden, heads, kv_heads, head })
}

/// Elements per head when all heads together are as wide as the hidden state.
#[inline(never)]
fn head_of(c: &Config<'_>, key: &str, heads: u64, hidden: u64) -> Result<u64> {
    c.divides(key, heads, hidden, "the hidden size")?;
    Ok(hidden / heads)
}

/// Elements of a head that are rotated: `partial_rotary_factor` of them, given within the rotary
/// parameters or beside them.
#[inline(never)]
fn rotated(c: &Config<'_>, keys: &[&str], head: u64, default: f64) -> Result<u64> {
    let mut factor = c.fraction(keys, default)?;
    for nested in ["rope_parameters", "rope_scaling"] {
        if let Some((map, path)) = c.object(nested)? {
            factor = Config::new(map, &path).fraction(&["partial_rotary_factor"], factor)?;
        }
    }
    // Heads have at most 2^14 elements, so the product is exact enough to be cut like the library.
    Ok(count(head as f64 * factor))
}

/// The activation a config names.
#[inline(never)]
fn act(c: &Config<'_>, keys: &[&str], default: &str) -> Result<Act> {
    act_named(&c.field(keys.first().copied().unwrap_or_default()), c.text(keys, default)?)
}

fn act_named(field: &str, name: &str) -> Result<Act> {
    Ok(match name {
        "silu" | "swish" => Act::Silu,
        "gelu" | "gelu_pytorch_tanh" | "gelu_python" => Act::Gelu,
        "gelu_new" | "gelu_python_tanh" => Act::GeluNew,
        "gelu_fast" => Act::GeluFast,
        "relu" => Act::Relu,
        "relu2" => Act::ReluSquared,
        "sigmoid" => Act::Sigmoid,
        "tanh" => Act::Tanh,
        other => {
            return Err(Error::new(
                field,
                ErrorCode::UnknownName,
                format!("\"{other}\""),
                "silu, gelu, gelu_pytorch_tanh, gelu_new, gelu_fast, relu, relu2, sigmoid or tanh",
            ));
        }
    })
}
