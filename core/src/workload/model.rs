//! A model: blocks in forward order, and how to get one from what a user has at hand.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shardwise_derive::{FromJson, ToJson};

use super::block::{Block, BlockKind, OpKind};
use super::config::Config;
use super::{families, presets, traced};
use crate::error::{Error, ErrorCode, Result};
use crate::version::SCHEMA_VERSION;
use crate::write::Shown;

/// What a request may say of a model: the name of a preset (`llama-3.1-8b`, or a Hub id whose
/// last part is one), or an object: a Hugging Face config, or dimensions by hand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[serde(transparent)]
pub struct ModelSpec(pub Value);

#[cfg(feature = "schemars")]
impl schemars::JsonSchema for ModelSpec {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ModelSpec".into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "A preset's name (llama-3.1-8b), a Hub id whose last part is one, a Hugging Face config object, or an object of dimensions with model_type \"dimensions\".",
            "type": ["string", "object"],
            "examples": presets::preset_names().collect::<Vec<_>>(),
        })
    }
}

impl From<&str> for ModelSpec {
    fn from(name: &str) -> Self {
        Self(Value::String(name.to_owned()))
    }
}

/// `count` copies of one block, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Index into the model's blocks.
    pub block: usize,
    /// How many.
    pub count: u64,
}

/// A model as the planner sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// What the user called it.
    pub name: String,
    /// Its `model_type`.
    pub family: &'static str,
    /// The distinct blocks.
    pub blocks: Vec<Block>,
    /// The order in which they run.
    pub order: Vec<Run>,
    /// Hidden size of the main stream.
    pub hidden: u64,
    /// Classes of the head: the vocabulary, or a classifier's labels.
    pub vocabulary: u64,
    /// Whether the head shares the embedding's weight.
    pub tied: bool,
    /// Longest sequence the positions allow; none when nothing limits it.
    pub max_positions: Option<u64>,
    /// Tokens per sample are fixed by the input (an image), not by the request.
    pub fixed_tokens: Option<u64>,
}

/// Exact parameter counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct ParameterCounts {
    /// All parameters, shared ones once.
    pub total: u64,
    /// The token (or patch) embedding.
    pub embedding: u64,
    /// The head, also when it shares the embedding's weight.
    pub lm_head: u64,
    /// Layers in the stack (encoder and decoder together).
    pub layers: u64,
    /// The first layer; the decoder's are listed before the encoder's.
    pub layer_first: u64,
    /// The last layer in the same order.
    pub layer_last: u64,
    /// All layers.
    pub layer_sum: u64,
    /// Everything else: positions, final norms, classifiers.
    pub other: u64,
    /// Routed experts, all of them.
    pub routed_experts: u64,
    /// Parameters that one token passes through.
    pub active: u64,
    /// The same without the embedding.
    pub active_excluding_embedding: u64,
    /// Elements of buffers.
    pub buffers: u64,
    /// Parameter tensors.
    pub tensors: u64,
}

/// A model in one line: what a report says about it.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct ModelSummary {
    /// Version of this format.
    pub schema_version: u32,
    /// What the user called it.
    pub name: String,
    /// Its `model_type`.
    pub family: String,
    /// Hidden size.
    pub hidden: u64,
    /// Vocabulary (or classes).
    pub vocabulary: u64,
    /// Whether the head shares the embedding's weight.
    pub tied: bool,
    /// Exact counts.
    pub parameters: ParameterCounts,
}

impl ModelSpec {
    /// The model that is meant. `field` is where the request holds it, for errors.
    ///
    /// # Errors
    /// Unknown names and families, and configs whose figures are missing or contradict each other.
    pub fn resolve(&self, field: &str) -> Result<Cow<'static, Model>> {
        match &self.0 {
            Value::String(name) => {
                let Some((name, preset)) = presets::find(name) else {
                    let known: Vec<&str> = presets::preset_names().collect();
                    return Err(Error::new(
                        field,
                        ErrorCode::UnknownName,
                        format!("\"{name}\""),
                        format!("a preset ({}) or a config object", known.join(", ")),
                    ));
                };
                preset.model(name, field).map(Cow::Borrowed)
            }
            Value::Object(config) => {
                let name = ["_name_or_path", "name"]
                    .iter()
                    .find_map(|k| config.get(*k).and_then(Value::as_str))
                    .filter(|n| !n.is_empty())
                    .or_else(|| config.get("model_type").and_then(Value::as_str))
                    .unwrap_or("model");
                from_config(name, config, field).map(Cow::Owned)
            }
            other => Err(Error::new(
                field,
                ErrorCode::WrongType,
                Shown(other),
                "a preset's name, a Hugging Face config object, or {\"model_type\": \"dimensions\", ...}",
            )),
        }
    }
}

pub(super) fn from_config(name: &str, map: &Map<String, Value>, field: &str) -> Result<Model> {
    let config = Config::new(map, field);
    let given = config.text(&["model_type"], "")?;
    if given == "traced" {
        let mut model = traced::read(map, field)?;
        name.clone_into(&mut model.name);
        return Ok(model);
    }
    let Some(family) = families::find(given) else {
        return Err(Error::new(
            config.field("model_type"),
            ErrorCode::UnknownName,
            format!("\"{given}\""),
            format!(
                "one of {}; any other decoder can be given by hand as {{\"model_type\": \"dimensions\", \
                 \"layers\": .., \"hidden\": .., \"heads\": .., \"kv_heads\": .., \"ffn\": .., \"vocab\": .., \
                 \"gated_mlp\": true, \"tied_embeddings\": false}}",
                families::names().collect::<Vec<_>>().join(", ")
            ),
        ));
    };
    let mut model = (family.build)(&config)?;
    model.check(field)?;
    name.clone_into(&mut model.name);
    model.family = family.name;
    Ok(model)
}

/// Larger models are taken for mistakes, and counts stay far inside a `u64`.
const MOST_PARAMETERS: u64 = 1_000_000_000_000_000;

impl Model {
    fn check(&self, field: &str) -> Result<()> {
        // One block fits a u64 by the bounds of the fields; all of them together may not.
        let total: u128 = self.runs().map(|(b, n)| u128::from(b.parameters()) * u128::from(n)).sum();
        if total <= u128::from(MOST_PARAMETERS) {
            return Ok(());
        }
        let allowed = format!("a model of at most {MOST_PARAMETERS} parameters");
        Err(Error::new(field, ErrorCode::OutOfRange, format!("{total} parameters"), allowed))
    }

    /// The blocks in forward order, each with its number of copies.
    #[must_use]
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = (&Block, u64)> {
        self.order.iter().filter_map(|run| self.blocks.get(run.block).map(|b| (b, run.count)))
    }

    /// Layers of the stack, encoder and decoder together.
    #[must_use]
    pub fn layers(&self) -> u64 {
        self.runs().filter(|(b, _)| b.kind == BlockKind::Layer).map(|(_, n)| n).sum()
    }

    /// Whether it was traced rather than built from a config.
    #[must_use]
    pub fn is_traced(&self) -> bool {
        self.blocks.iter().any(|b| b.traced.is_some())
    }

    /// Whether an encoder feeds the main stream.
    #[must_use]
    pub fn has_encoder(&self) -> bool {
        self.runs().any(|(b, _)| b.kind == BlockKind::Layer && b.stream == super::Stream::Encoder)
    }

    /// Exact counts.
    ///
    /// ```
    /// let model = shardwise::ModelSpec::from("llama-3.1-8b").resolve("model").unwrap();
    /// assert_eq!(model.counts().total, 8_030_261_248);
    /// ```
    #[must_use]
    pub fn counts(&self) -> ParameterCounts {
        let mut c = ParameterCounts::default();
        for (block, n) in self.runs() {
            let p = block.parameters();
            c.total += n * p;
            c.active += n * block.active_parameters();
            c.routed_experts += n * block.expert_parameters();
            c.buffers += n * block.buffers;
            c.tensors += n * block.parameter_tensors();
            if block.kind == BlockKind::Layer {
                c.layers += n;
                c.layer_sum += n * p;
            }
            for op in &block.ops {
                match op.kind {
                    OpKind::Lookup(t) if t.name == "embed_tokens" => c.embedding += op.kind.parameters(),
                    OpKind::Linear(l) if l.name == "patch_projection" => {
                        c.embedding += op.kind.parameters();
                        debug_assert!(!l.tied);
                    }
                    OpKind::Linear(l) if l.name == "lm_head" => {
                        c.lm_head += l.inputs * l.outputs + u64::from(l.bias) * l.outputs;
                    }
                    _ => {}
                }
            }
        }
        let layers = || self.runs().map(|(b, _)| b).filter(|b| b.kind == BlockKind::Layer);
        let encoder = |b: &&Block| b.stream == super::Stream::Encoder;
        c.layer_first = layers().find(|b| !encoder(b)).map_or(0, Block::parameters);
        c.layer_last = layers().rfind(encoder).or_else(|| layers().next_back()).map_or(0, Block::parameters);
        let own_head: u64 = self
            .runs()
            .flat_map(|(b, _)| &b.ops)
            .filter(|op| matches!(op.kind, OpKind::Linear(l) if l.name == "lm_head" && !l.tied))
            .map(|op| op.kind.parameters())
            .sum();
        c.other = c.total.saturating_sub(c.embedding + own_head + c.layer_sum);
        c.active_excluding_embedding = c.active.saturating_sub(c.embedding);
        c
    }

    /// What a report says about the model.
    #[must_use]
    pub fn summary(&self) -> ModelSummary {
        ModelSummary {
            schema_version: SCHEMA_VERSION,
            name: self.name.clone(),
            family: self.family.to_owned(),
            hidden: self.hidden,
            vocabulary: self.vocabulary,
            tied: self.tied,
            parameters: self.counts(),
        }
    }
}
