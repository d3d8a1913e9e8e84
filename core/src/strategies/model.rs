//! Models: presets, presets cut down, configs of every family with sizes of their own, dimensions by
//! hand, traced modules.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};

use super::figure::{once_in, pick, rarely};
use crate::workload::{ModelSpec, family_names, preset_config, preset_names};

/// Switches that families read; a family leaves alone what is another's.
const SWITCHES: &[&str] = &[
    "attention_bias",
    "mlp_bias",
    "qkv_bias",
    "use_qkv_bias",
    "use_bias",
    "bias",
    "enable_bias",
    "lm_head_bias",
    "use_sliding_window",
    "qk_layernorm",
    "use_qk_norm",
    "use_parallel_residual",
    "parallel_attn",
    "multi_query",
    "new_decoder_architecture",
    "alibi",
    "norm_topk_prob",
    "rope_interleave",
    "do_layer_norm_before",
    "layer_norm_elementwise_affine",
    "_remove_final_layer_norm",
    "apply_residual_connection_post_layernorm",
    "use_conv_bias",
    "residual_in_fp32",
    "mamba_proj_bias",
    "attn_temperature_tuning",
    "use_bidirectional_attention",
    "tie_word_embeddings",
];

/// Probabilities of dropout, by the names that families give them.
const DROPOUTS: &[&str] = &[
    "attention_dropout",
    "hidden_dropout",
    "hidden_dropout_prob",
    "attention_probs_dropout_prob",
    "resid_pdrop",
    "attn_pdrop",
    "embd_pdrop",
    "dropout",
    "dropout_rate",
    "residual_dropout",
    "embedding_dropout",
];

const ACTIVATIONS: &[&str] = &[
    "silu",
    "swish",
    "gelu",
    "gelu_python",
    "gelu_pytorch_tanh",
    "gelu_new",
    "gelu_fast",
    "relu",
    "relu2",
    "sigmoid",
    "tanh",
];

/// Sizes that every family can take: heads divide the hidden size, key and value heads the heads,
/// no token is given to more experts than there are.
#[derive(Clone, Debug)]
struct Sizes {
    layers: u64,
    heads: u64,
    kv_heads: u64,
    head: u64,
    /// Elements per head where they are given beside the hidden size.
    own_head: Option<u64>,
    ffn: u64,
    vocabulary: u64,
    experts: u64,
    top_k: u64,
    window: Option<u64>,
}

impl Sizes {
    const fn hidden(&self) -> u64 {
        self.heads * self.head
    }
}

fn sizes() -> impl Strategy<Value = Sizes> {
    let layers = prop_oneof![1 => Just(1_u64), 6 => 1_u64..=40, 1 => 40_u64..=200];
    let heads = prop_oneof![3 => (0_u32..=6).prop_map(|i| 1 << i), 1 => 1_u64..=71];
    let head = pick(vec![1_u64, 8, 16, 32, 64, 80, 96, 128, 256]);
    let experts = prop_oneof![2 => Just(8_u64), 1 => 1_u64..=256];
    (
        (layers, heads, any::<Index>(), head, rarely(pick(vec![16_u64, 64, 128, 192]))),
        (1_u64..=32_768, 2_u64..=262_144, experts, any::<Index>(), rarely(1_u64..=8192)),
    )
        .prop_map(|((layers, heads, kv, head, own_head), (ffn, vocabulary, experts, top, window))| {
            let divisors: Vec<u64> = (1..=heads).filter(|d| heads.is_multiple_of(*d)).collect();
            Sizes {
                layers,
                heads,
                kv_heads: divisors.get(kv.index(divisors.len())).copied().unwrap_or(1),
                head,
                own_head,
                ffn,
                vocabulary,
                experts,
                top_k: 1 + top.index(usize::try_from(experts.min(16)).unwrap_or(1)) as u64,
                window,
            }
        })
}

/// One of the models known by name.
pub fn preset() -> BoxedStrategy<ModelSpec> {
    pick(preset_names().collect()).prop_map(ModelSpec::from).boxed()
}

/// A preset's config with fewer layers.
fn shrunk() -> BoxedStrategy<ModelSpec> {
    (pick(preset_names().collect::<Vec<_>>()), 1_u64..=16)
        .prop_map(|(name, layers)| {
            let mut config = preset_config(name).unwrap_or_default();
            shrink(&mut config, layers);
            config.insert("name".to_owned(), json!(format!("{name} of {layers} layers")));
            ModelSpec(Value::Object(config))
        })
        .boxed()
}

fn shrink(config: &mut Map<String, Value>, layers: u64) {
    for (key, value) in config.iter_mut() {
        match (key.as_str(), value) {
            ("num_hidden_layers" | "n_layer" | "n_layers" | "num_layers", Value::Number(given)) => {
                *given = given.as_u64().map_or(layers, |n| n.min(layers)).into();
            }
            ("layer_types", Value::Array(kinds)) => kinds.truncate(usize::try_from(layers).unwrap_or(1)),
            ("text_config", Value::Object(inner)) => shrink(inner, layers),
            _ => {}
        }
    }
}

/// Every key of sizes, under every family's name for it.
fn keys(s: &Sizes) -> Map<String, Value> {
    let mut map = Map::new();
    let all: &[(&[&str], u64)] = &[
        (&["num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers"], s.layers),
        (&["hidden_size", "n_embd", "n_embed", "d_model"], s.hidden()),
        (&["num_attention_heads", "n_head", "n_heads", "num_heads"], s.heads),
        (&["num_key_value_heads", "num_kv_heads"], s.kv_heads),
        (&["d_kv", "qk_nope_head_dim", "v_head_dim"], s.own_head.unwrap_or(s.head)),
        (&["rotary_dim"], s.head.div_ceil(2)),
        (&["intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "d_ff"], s.ffn),
        (&["moe_intermediate_size", "shared_expert_intermediate_size"], s.ffn.div_ceil(4)),
        (&["intermediate_size_mlp", "moe_shared_expert_intermediate_size"], s.ffn.div_ceil(2)),
        (&["vocab_size", "num_labels"], s.vocabulary),
        (&["num_experts", "num_local_experts", "n_routed_experts"], s.experts),
        (&["num_experts_per_tok"], s.top_k),
    ];
    for (names, value) in all {
        for name in *names {
            map.insert((*name).to_owned(), json!(value));
        }
    }
    if let Some(head) = s.own_head {
        map.insert("head_dim".to_owned(), json!(head));
    }
    if let Some(window) = s.window {
        map.insert("sliding_window".to_owned(), json!(window));
        map.insert("attention_chunk_size".to_owned(), json!(window));
    }
    map
}

/// What only some families read.
#[derive(Clone, Debug)]
struct Traits {
    switches: Vec<Option<bool>>,
    dropouts: Vec<Option<f64>>,
    activation: Option<&'static str>,
    gated: bool,
    step: u64,
    dense: u64,
    positions: Option<u64>,
    partial: Option<f64>,
    latent: Option<u64>,
    letters: Vec<usize>,
    nested: bool,
}

fn traits() -> impl Strategy<Value = Traits> {
    let switches = vec(rarely(any::<bool>()), SWITCHES.len());
    let dropouts = vec(rarely(pick(vec![0.0, 0.1, 1.0])), DROPOUTS.len());
    (
        (switches, dropouts, rarely(pick(ACTIVATIONS.to_vec())), any::<bool>(), 1_u64..=4, 0_u64..=3),
        (
            rarely(1_u64..=100_000),
            rarely(0.0..=1.0_f64),
            rarely(1_u64..=2048),
            vec(0_usize..4, 1..=8),
            once_in(3),
        ),
    )
        .prop_map(
            |(
                (switches, dropouts, activation, gated, step, dense),
                (positions, partial, latent, letters, nested),
            )| Traits {
                switches,
                dropouts,
                activation,
                gated,
                step,
                dense,
                positions,
                partial,
                latent,
                letters,
                nested,
            },
        )
}

impl Traits {
    fn write(&self, family: &str, s: &Sizes, map: &mut Map<String, Value>) {
        let mut put = |key: &str, value: Value| {
            map.insert(key.to_owned(), value);
        };
        for (key, given) in SWITCHES.iter().zip(&self.switches) {
            if let Some(given) = given {
                put(key, json!(given));
            }
        }
        for (key, given) in DROPOUTS.iter().zip(&self.dropouts) {
            if let Some(given) = given {
                put(key, json!(given));
            }
        }
        if let Some(name) = self.activation {
            for key in
                ["hidden_act", "hidden_activation", "activation_function", "activation", "mlp_hidden_act"]
            {
                put(key, json!(name));
            }
            put(
                "feed_forward_proj",
                json!(if self.gated { format!("gated-{name}") } else { name.to_owned() }),
            );
        }
        for key in ["decoder_sparse_step", "interleave_moe_layer_step", "no_rope_layer_interval"] {
            put(key, json!(self.step));
        }
        for key in ["first_k_dense_replace", "n_shared_experts", "max_window_layers"] {
            put(key, json!(self.dense));
        }
        if let Some(positions) = self.positions {
            for key in ["max_position_embeddings", "n_positions", "max_seq_len"] {
                put(key, json!(positions));
            }
        }
        if let Some(factor) = self.partial {
            put("partial_rotary_factor", json!(factor));
        }
        if let Some(rank) = self.latent {
            for key in ["q_lora_rank", "kv_lora_rank", "moe_latent_size", "word_embed_proj_dim"] {
                put(key, json!(rank));
            }
        } else if self.gated {
            put("q_lora_rank", Value::Null);
        }
        match family {
            "nemotron_h" => {
                let kinds = ["mamba", "attention", "mlp", "moe"];
                let at = |i: u64| self.letters.iter().cycle().nth(usize::try_from(i).unwrap_or(0));
                let layers: Vec<&str> = (0..s.layers).filter_map(|i| kinds.get(*at(i)?).copied()).collect();
                put("layers_block_type", json!(layers));
            }
            "vit" => {
                let patch = 4 + 4 * self.step;
                put("patch_size", json!(patch));
                put("image_size", json!(patch * (1 + self.dense) * self.step));
            }
            _ if self.letters.len() == 1 => {
                let kinds: Vec<&str> = (0..s.layers)
                    .map(|i| if i.is_multiple_of(2) { "sliding_attention" } else { "full_attention" })
                    .collect();
                put("layer_types", json!(kinds));
            }
            _ => {}
        }
    }
}

/// A config of any family, with sizes of its own.
///
/// ```
/// use proptest::strategy::{Strategy, ValueTree};
/// let mut runner = proptest::test_runner::TestRunner::deterministic();
/// let config = shardwise::strategies::config().new_tree(&mut runner).unwrap().current();
/// assert!(config.resolve("model").unwrap().counts().total > 0);
/// ```
pub fn config() -> BoxedStrategy<ModelSpec> {
    let families: Vec<&'static str> = family_names().filter(|name| *name != "dimensions").collect();
    (pick(families), sizes(), traits())
        .prop_map(|(family, sizes, traits)| {
            let mut map = keys(&sizes);
            traits.write(family, &sizes, &mut map);
            if traits.nested && matches!(family, "gemma3" | "llama4") {
                let mut outer = Map::new();
                outer.insert("text_config".to_owned(), Value::Object(map));
                map = outer;
            }
            map.insert("model_type".to_owned(), json!(family));
            ModelSpec(Value::Object(map))
        })
        .boxed()
}

/// A decoder by its dimensions, dense or of experts.
pub fn dimensions() -> BoxedStrategy<ModelSpec> {
    let switches = vec(any::<bool>(), 6);
    (sizes(), switches, 0_u64..=3)
        .prop_map(|(s, switches, few)| {
            let on = |i: usize| switches.get(i).copied().unwrap_or_default();
            let mut spec = json!({
                "model_type": "dimensions",
                "layers": s.layers, "hidden": s.hidden(), "heads": s.heads, "kv_heads": s.kv_heads,
                "ffn": s.ffn, "vocab": s.vocabulary,
                "gated_mlp": on(0), "biases": on(1), "qk_norm": on(2), "rotary": on(3), "tied_embeddings": on(4),
            });
            let mut put = |key: &str, value: u64| {
                if let Some(map) = spec.as_object_mut() {
                    map.insert(key.to_owned(), json!(value));
                }
            };
            if let Some(head) = s.own_head {
                put("head_dim", head);
            }
            if let Some(window) = s.window {
                put("sliding_window", window);
            }
            if on(5) {
                for (key, value) in [
                    ("experts", s.experts),
                    ("top_k", s.top_k),
                    ("moe_ffn", s.ffn.div_ceil(8)),
                    ("shared_experts", few),
                    ("dense_layers", few),
                ] {
                    put(key, value);
                }
            }
            ModelSpec(spec)
        })
        .boxed()
}

/// A traced module of a few parts.
pub fn traced() -> BoxedStrategy<ModelSpec> {
    let part = (any::<(bool, bool)>(), 0_u64..=10_000_000, 0.0..=1.0_f64, 1_u64..=4096, 0_u64..=200);
    (vec(part, 1..=8), prop_oneof![Just(1_u64), 1_u64..=4096])
        .prop_map(|(parts, tokens)| {
            let parts: Vec<Value> = parts
                .into_iter()
                .enumerate()
                .map(|(i, ((unit, input_free), parameters, share, width, kernels))| {
                    // Any share of the parameters, cut to a whole number of them.
                    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
                    let some = (parameters as f64 * share) as u64;
                    let bytes = |per_element: f64| {
                        let kept = 2.0 * width as f64 * per_element;
                        let peaks = json!({
                            "kept": [0.0, kept],
                            "forward": [[1024.0, 1.5 * kept, 0, 1, kept / 8.0, 0, 0, 0, 0]],
                            "backward": [[0, 2.0 * kept, some, 0, 0, width, 0, 0, 1]],
                        });
                        json!({
                            "whole": peaks, "recomputed": peaks, "held": [0.0, 4.0],
                            "traffic": [0.0, 3.0 * kept], "traffic_backward": [0.0, 6.0 * kept],
                        })
                    };
                    json!({
                        "name": format!("part.{i}"), "unit": unit, "input_free": input_free,
                        "parameters": parameters, "frozen": some,
                        "tensors": 1 + parameters / 1_000_000, "largest": some, "buffers": kernels,
                        "products": [[1.0, width, width, 1.0]], "kernels": kernels,
                        "regimes": { "fp32": bytes(4.0), "autocast": bytes(3.0), "bf16": bytes(2.0) },
                    })
                })
                .collect();
            ModelSpec(json!({ "model_type": "traced", "name": "traced", "tokens": tokens, "parts": parts }))
        })
        .boxed()
}

/// Any model.
pub fn model() -> BoxedStrategy<ModelSpec> {
    prop_oneof![3 => preset(), 2 => shrunk(), 6 => config(), 3 => dimensions(), 1 => traced()].boxed()
}
