//! Bytes that one layer keeps for backward, against real PyTorch: exact on every row.
//!
//! `data/corpus/layer_activations.csv` holds differences between a three-layer and a two-layer
//! model; see `data/corpus/README.md`.

use std::path::Path;

use shardwise::ModelSpec;
use shardwise::layout::Recompute;
use shardwise::memory::layer_saved_bytes;
use shardwise::workload::{BlockKind, Method};
use shardwise_tests::oracle::{express, int, rows, text};

#[test]
fn layers_keep_what_pytorch_keeps() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/corpus/layer_activations.csv");
    let mut wrong = Vec::new();
    let (mut kept, mut recomputed) = (0, 0);
    for row in rows(&file).unwrap() {
        let model = ModelSpec::from(text(&row, "model")).resolve("model").unwrap();
        let (recipe, layout, batch) = express(&row).unwrap();
        let (block, _) = model.runs().rfind(|(b, _)| b.kind == BlockKind::Layer).unwrap();
        let tokens = batch.seq_len * int(&row, "mb", 1);
        let ours = layer_saved_bytes(block, &recipe, &layout, batch.seq_len, tokens).get();
        // With recomputation the layer's input is all that lives on.
        let column =
            if layout.recompute == Recompute::Full { "layer_live_bytes" } else { "layer_saved_bytes" };
        let theirs = int(&row, column, 0) as f64;
        if (ours - theirs).abs() > 0.0 {
            wrong.push(format!("{} {}: {ours} instead of {theirs}", text(&row, "model"), text(&row, "attn")));
        }
        if layout.recompute == Recompute::Full { recomputed += 1 } else { kept += 1 }
    }
    assert_eq!(wrong, Vec::<String>::new());
    assert_eq!((kept, recomputed), (44, 14));
}

/// Fake quantisation: within 0.05 % of what autograd keeps under torchao.
#[test]
fn fake_quantised_layers_keep_their_copies() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/corpus/qat_activations.csv");
    let table = rows(&file).unwrap();
    assert_eq!(table.len(), 9);
    for row in table {
        let model = ModelSpec::from(text(&row, "model")).resolve("model").unwrap();
        let (mut recipe, layout, batch) = express(&row).unwrap();
        recipe.method = Method::Qat;
        recipe.qat.scheme = serde_json::from_str(&format!("{:?}", text(&row, "scheme"))).unwrap();
        let (block, _) = model.runs().rfind(|(b, _)| b.kind == BlockKind::Layer).unwrap();
        let ours = layer_saved_bytes(block, &recipe, &layout, batch.seq_len, batch.seq_len).get();
        let theirs = int(&row, "layer_saved_bytes", 0) as f64;
        assert!((ours / theirs - 1.0).abs() < 0.0005, "{row:?}: {ours}");
    }
}
