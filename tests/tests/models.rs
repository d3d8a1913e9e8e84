//! Models: exact counts against what Transformers builds, and configs that mean harm.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};
use shardwise::ModelSpec;
use shardwise_tests::params;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/models").join(name)
}

/// Every count column of every row, at least so many, equals the library's.
fn assert_exact(file: &Path, least: usize) {
    let score = params::score(file).unwrap();
    assert!(score.rows >= least, "only {} rows", score.rows);
    assert_eq!(score.skipped, BTreeMap::new());
    let wrong: Vec<String> = score
        .scored
        .iter()
        .filter(|s| s.error_pct() != 0.0)
        .map(|s| format!("{}: {} instead of {}", s.id, s.predicted, s.measured))
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!(score.scored.len(), score.rows);
}

#[test]
fn presets_are_exact() {
    assert_exact(&data("param_counts.csv"), 58);
}

#[test]
fn other_sizes_options_and_defaults_are_exact() {
    assert_exact(&data("variants/param_counts.csv"), 204);
}

#[test]
fn every_family_is_counted() {
    let unknown = ModelSpec(json!({"model_type": "?"})).resolve("model").unwrap_err();
    let (known, _) = unknown.allowed.trim_start_matches("one of ").split_once(';').unwrap();
    let presets = shardwise::preset_names().filter_map(shardwise::workload::preset_config);
    let counted: Vec<Value> =
        presets.chain(variants()).filter_map(|c| c.get("model_type").cloned()).collect();
    // Dimensions by hand are no library's family.
    let families = known.split(", ").filter(|family| *family != "dimensions");
    let bare: Vec<&str> = families.filter(|family| !counted.contains(&json!(family))).collect();
    assert!(bare.is_empty(), "families without a config whose parameters the library counted: {bare:?}");
}

#[test]
fn presets_counted_as_variants_agree() {
    let mut reader = csv::Reader::from_path(data("variants/param_counts.csv")).unwrap();
    let presets: Vec<&str> = shardwise::preset_names().collect();
    let mut seen = 0;
    for row in reader.deserialize::<BTreeMap<String, String>>() {
        let row = row.unwrap();
        let name = row["model"].trim_end_matches("-text");
        if presets.contains(&name) {
            let counts = ModelSpec::from(name).resolve("model").unwrap().counts();
            assert_eq!(counts.total.to_string(), row["total"], "{name}");
            assert_eq!(counts.buffers.to_string(), row["buffers"], "{name}");
            seen += 1;
        }
    }
    assert!(seen >= 45, "{seen}");
}

fn variants() -> Vec<Map<String, Value>> {
    let folder = data("variants/configs");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    files.iter().map(|f| serde_json::from_str(&std::fs::read_to_string(f).unwrap()).unwrap()).collect()
}

/// The config resolves and its figures can be taken, or the error says what is wrong where.
fn assert_answered(config: Map<String, Value>) {
    let shown = Value::Object(config.clone()).to_string();
    match ModelSpec(Value::Object(config)).resolve("model") {
        Ok(model) => {
            let c = model.counts();
            assert!(c.total >= c.active && c.total >= c.layer_sum, "{shown}");
        }
        Err(e) => {
            assert!(e.field.starts_with("model"), "{shown}: {e}");
            assert!(!e.allowed.is_empty(), "{shown}");
        }
    }
}

#[test]
fn one_hostile_value_is_answered() {
    let hostile = [
        json!(0),
        json!(-1),
        json!(1),
        json!(7),
        json!(10_000),
        json!(16_384),
        json!(1_048_576),
        json!(100_000_000),
        json!(u64::MAX),
        json!(1e300),
        json!(0.5),
        json!("x"),
        json!(true),
        json!(null),
        json!([]),
        json!([1e9, "x", null]),
        json!({}),
        json!({"partial_rotary_factor": 7}),
    ];
    for config in variants() {
        for key in config.keys() {
            for value in &hostile {
                let mut changed = config.clone();
                changed.insert(key.clone(), value.clone());
                assert_answered(changed);
            }
        }
    }
}

#[test]
fn every_figure_at_its_bound_is_answered() {
    for config in variants() {
        for bounds in [[16_384, 16_384], [1_048_576, 16_384], [100_000_000, 16_384], [1_048_576, 4096]] {
            for layers in [1, 10_000] {
                let mut changed = config.clone();
                for (key, value) in &mut changed {
                    let k = key.as_str();
                    if value.is_u64() {
                        let narrow = ["head", "expert", "patch", "channels", "image", "top", "kv", "num_ln"];
                        let is_layers = k.contains("layer") && !k.contains("layers_");
                        let high = if narrow.iter().any(|n| k.contains(n)) { bounds[1] } else { bounds[0] };
                        *value = json!(if is_layers { layers } else { high });
                    }
                }
                assert_answered(changed);
            }
        }
    }
}

/// What the error says for one changed key of a preset-like config.
fn complaint(config: &Value) -> String {
    ModelSpec(config.clone()).resolve("model").unwrap_err().to_string()
}

#[test]
fn errors_name_field_given_and_allowed() {
    let cases = [
        (
            json!({"model_type": "llama", "num_attention_heads": 0}),
            "model.num_attention_heads: got 0; allowed: a whole number from 1 to 16384",
        ),
        (
            json!({"model_type": "llama", "num_hidden_layers": 1_000_000_000}),
            "model.num_hidden_layers: got 1000000000; allowed: a whole number from 1 to 10000",
        ),
        (
            json!({"model_type": "gpt2", "activation_function": "softplus"}),
            "model.activation_function: got \"softplus\"; allowed: silu, gelu, gelu_pytorch_tanh, gelu_new, gelu_fast, relu, relu2, sigmoid or tanh",
        ),
        (
            json!({"model_type": "t5", "feed_forward_proj": "double-gelu"}),
            "model.feed_forward_proj: got \"double-gelu\"; allowed: an activation, or gated- and an activation, as relu or gated-gelu",
        ),
        (
            json!({"model_type": "mixtral", "num_experts_per_tok": 9}),
            "model.num_experts_per_tok: got 9; allowed: at most num_local_experts = 8",
        ),
        (
            json!({"model_type": "gemma3", "text_config": {"hidden_size": "wide"}}),
            "model.text_config.hidden_size: got \"wide\"; allowed: a whole number from 1 to 1048576",
        ),
        (
            json!({"model_type": "gemma2", "num_hidden_layers": 2, "layer_types": ["full_attention"]}),
            "model.layer_types: got 1 entries; allowed: one for each of the 2 layers",
        ),
        (
            json!({"model_type": "vit", "image_size": 8}),
            "model.patch_size: got 16 x 16; allowed: at most the image, 8 x 8",
        ),
        (
            json!({"model_type": "llama", "hidden_size": 1_000_000, "num_attention_heads": 1000, "head_dim": 1000, "intermediate_size": 100_000_000, "num_hidden_layers": 10_000}),
            "allowed: a model of at most 1000000000000000 parameters",
        ),
        (
            json!({"model_type": "mixtral", "hidden_size": 1_048_576, "num_attention_heads": 16_384, "num_key_value_heads": 16_384, "head_dim": 16_384, "intermediate_size": 100_000_000, "num_local_experts": 16_384, "num_experts_per_tok": 16_384, "num_hidden_layers": 10_000, "vocab_size": 100_000_000}),
            "allowed: a model of at most 1000000000000000 parameters",
        ),
        (
            json!({"model_type": "deepseek_v2", "hidden_size": 1_048_576, "moe_intermediate_size": 100_000_000, "n_routed_experts": 16_384, "n_shared_experts": 16_384, "num_hidden_layers": 10_000}),
            "allowed: a model of at most 1000000000000000 parameters",
        ),
    ];
    for (config, text) in cases {
        let said = complaint(&config);
        assert!(said.ends_with(text), "{said}");
    }
}
