//! One short function per model family: it reads the config and lists the operations.
//! A new family is a new function here and one line in [`FAMILIES`].

use super::block::{Block, BlockBuilder, BlockKind, INPUT, NormKind, Slot, Split, Stream};
use super::config::Config;
use super::model::{Model, Run};
use crate::error::Result;

mod llama;

/// A family: its `model_type` and how to build it.
pub(super) struct Family {
    pub(super) name: &'static str,
    pub(super) build: fn(&Config<'_>) -> Result<Model>,
}

/// Every known `model_type`, in alphabetical order.
const FAMILIES: &[Family] = &[
    Family { name: "dimensions", build: llama::dimensions },
    Family { name: "llama", build: llama::llama },
    Family { name: "mistral", build: llama::llama },
    Family { name: "mixtral", build: llama::mixtral },
    Family { name: "qwen2", build: llama::qwen2 },
    Family { name: "qwen3", build: llama::qwen3 },
    Family { name: "qwen3_moe", build: llama::qwen3_moe },
];

pub(super) fn find(model_type: &str) -> Option<&'static Family> {
    FAMILIES.iter().find(|f| f.name == model_type)
}

pub(super) fn names() -> impl Iterator<Item = &'static str> {
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

    fn push(&mut self, block: Block, count: u64) {
        if count == 0 {
            return;
        }
        let index = self.blocks.iter().position(|b| *b == block).unwrap_or_else(|| {
            self.blocks.push(block);
            self.blocks.len() - 1
        });
        match self.order.last_mut() {
            Some(run) if run.block == index => run.count += count,
            _ => self.order.push(Run { block: index, count }),
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

/// A plain token embedding. `buffers` are elements that belong to no layer (rotary frequencies).
fn embedding(vocabulary: u64, hidden: u64, buffers: u64) -> Block {
    let mut b = BlockBuilder::new(BlockKind::Embedding, Stream::Main, hidden);
    b.lookup("embed_tokens", vocabulary, hidden, Split::Vocabulary);
    b.buffers(buffers);
    b.finish()
}

/// The norm after the last layer.
fn final_norm(hidden: u64, kind: NormKind) -> Block {
    let mut b = BlockBuilder::new(BlockKind::FinalNorm, Stream::Main, hidden);
    b.norm(INPUT, kind);
    b.finish()
}

/// Head and loss.
fn head(hidden: u64, vocabulary: u64, bias: bool, tied: bool) -> Block {
    let mut b = BlockBuilder::new(BlockKind::Head, Stream::Main, hidden);
    let logits = b.head(INPUT, vocabulary, bias, tied);
    b.loss(logits);
    b.finish()
}

/// Where a layer list says "full attention" or "sliding".
type LayerOf<'a> = dyn Fn(Option<u64>) -> Block + 'a;

/// Pushes `layers` layers of which every `pattern`-th sees the whole sequence and the others a
/// window, unless the config lists the types itself.
fn push_windowed(
    stack: &mut Stack,
    c: &Config<'_>,
    layers: u64,
    window: Option<u64>,
    pattern: u64,
    layer: &LayerOf<'_>,
) -> Result<()> {
    let listed = c.list("layer_types")?;
    for i in 0..layers {
        let sliding = match listed.and_then(|l| l.get(usize::try_from(i).unwrap_or(usize::MAX))) {
            Some(kind) => kind.as_str() == Some("sliding_attention"),
            None => pattern > 0 && (i + 1) % pattern != 0,
        };
        stack.push(layer(window.filter(|_| sliding)), 1);
    }
    Ok(())
}

/// The gated feed-forward network: `down(act(gate(x)) * up(x))`.
fn gated_mlp(b: &mut BlockBuilder, x: Slot, ffn: u64, hidden: u64, act: super::Act, bias: bool) -> Slot {
    let gate = b.linear(x, "gate_proj", ffn, bias, Split::Column);
    let gate = b.act(gate, act);
    let up = b.linear(x, "up_proj", ffn, bias, Split::Column);
    let product = b.product(gate, up);
    b.linear(product, "down_proj", hidden, bias, Split::Row)
}
