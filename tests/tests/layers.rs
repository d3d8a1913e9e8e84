//! Bytes kept by a layer of every family, against what real PyTorch keeps.

use std::path::{Path, PathBuf};

use serde_json::Value;
use shardwise::Recipe;
use shardwise::layout::Layout;
use shardwise::memory::layer_saved_bytes;
use shardwise::workload::{AttentionKernel, Block, BlockKind, Model, ModelSpec, preset_config};
use shardwise_tests::oracle::{Row, int, rows, text};

/// Generator states and the offsets of grouped products are not modelled.
const SLACK_BYTES: f64 = 1024.0;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/models").join(name)
}

/// The row's model with three layers, of which the last is measured.
fn three_layers(name: &str) -> Model {
    let file = data(&format!("variants/configs/{name}.json"));
    let mut config: Value = match std::fs::read_to_string(file) {
        Ok(text) => serde_json::from_str(&text).unwrap(),
        Err(_) => Value::Object(preset_config(name).unwrap()),
    };
    let key = match config["model_type"].as_str().unwrap() {
        "gpt2" | "gptj" | "bloom" => "n_layer",
        "mpt" => "n_layers",
        "t5" => "num_layers",
        _ => "num_hidden_layers",
    };
    if config["model_type"] == "t5" {
        config["num_decoder_layers"] = 3.into();
    }
    config[key] = 3.into();
    ModelSpec(config).resolve("model").unwrap().into_owned()
}

/// The layers measured: the last, or the last of encoder and of decoder.
fn measured(model: &Model) -> Vec<&Block> {
    let layers: Vec<&Block> = model.runs().map(|(b, _)| b).filter(|b| b.kind == BlockKind::Layer).collect();
    match (model.has_encoder(), layers.as_slice()) {
        (true, [_, encoder, .., decoder]) => vec![encoder, decoder],
        (_, [.., last]) => vec![last],
        _ => Vec::new(),
    }
}

fn recipe(row: &Row) -> Recipe {
    let autocast = !text(row, "autocast").is_empty();
    let params = text(row, "param_dtype");
    let compute = if autocast { text(row, "autocast") } else { params };
    Recipe {
        params_dtype: serde_json::from_value(params.into()).unwrap(),
        compute: serde_json::from_value(compute.into()).unwrap(),
        autocast: Some(autocast),
        attention: if text(row, "attn") == "eager" { AttentionKernel::Eager } else { AttentionKernel::Sdpa },
        ..Recipe::default()
    }
}

#[test]
fn kept_bytes_are_exact_in_every_family() {
    let rows = rows(&data("layer_bytes.csv")).unwrap();
    assert_eq!(rows.len(), 150);
    let layout = Layout::default();
    let wrong: Vec<String> = rows
        .iter()
        .filter_map(|row| {
            let model = three_layers(text(row, "model"));
            let (seq, batch) = (int(row, "seq", 0), int(row, "mb", 0));
            let kept: f64 = measured(&model)
                .iter()
                .map(|b| layer_saved_bytes(b, &recipe(row), &layout, seq, seq * batch).get())
                .sum();
            let expected = int(row, "layer_bytes", 0) as f64;
            ((kept - expected).abs() > SLACK_BYTES).then(|| format!("{row:?}: {kept}"))
        })
        .collect();
    assert_eq!(wrong, Vec::<String>::new());
}
