//! `accuracy flops`: arithmetic against PyTorch's own counter (attention counted in full), forward
//! and backward. A row's error is the larger of the two.

use std::path::Path;

use serde_json::json;
use shardwise::Recipe;
use shardwise::compute::{FlopRules, step_flops};
use shardwise::layout::{Again, Recompute};

use crate::params::model_beside;
use crate::score::{Score, Scored};

/// Scores every row of a table of counted FLOPs.
pub fn score(file: &Path) -> Result<Score, String> {
    let mut reader = csv::Reader::from_path(file).map_err(|e| e.to_string())?;
    let headers = reader.headers().map_err(|e| e.to_string())?.clone();
    let mut out = Score::default();
    let mut exact = 0_usize;
    for record in reader.records() {
        let record = record.map_err(|e| e.to_string())?;
        let get =
            |name: &str| headers.iter().position(|h| h == name).and_then(|i| record.get(i)).unwrap_or("");
        out.rows += 1;
        out.complete += 1;
        let name = get("model");
        let model = match model_beside(file, name)?.resolve("model") {
            Ok(model) => model,
            Err(e) => {
                out.skip(format!("{}: {}", e.field, e.given));
                continue;
            }
        };
        let mut request = json!({ "attention": if get("attn_impl") == "eager" { "eager" } else { "sdpa" } });
        let rank: u64 = get("lora_r").parse().unwrap_or(0);
        if rank > 0 {
            let targets = match get("lora_targets") {
                "all" => json!(["all-linear"]),
                _ => json!(["q_proj", "k_proj", "v_proj", "o_proj"]),
            };
            request["method"] = json!("lora");
            request["lora"] = json!({ "rank": rank, "targets": targets });
        }
        let recipe: Recipe = serde_json::from_value(request).map_err(|e| e.to_string())?;
        let rules = FlopRules {
            seq_len: get("seq").parse().map_err(|e| format!("seq: {e}"))?,
            sequences: get("batch").parse().map_err(|e| format!("batch: {e}"))?,
            causal_half: false,
            recompute: if get("ckpt") == "none" { Recompute::None } else { Recompute::Full },
            recompute_every: 1,
            again: Again::default(),
        };
        let count = step_flops(&model, &recipe, &rules);
        let worst = [("fwd", count.forward_total()), ("bwd", count.backward_total())]
            .into_iter()
            .filter_map(|(column, ours)| {
                let s = Scored {
                    id: format!("{name} {} {} {column}", get("attn_impl"), get("ckpt")),
                    publisher: get("family").to_owned(),
                    predicted: ours,
                    measured: get(column).parse().ok()?,
                    interval80: None,
                };
                Some(s)
            })
            .max_by(|a, b| a.error_pct().abs().total_cmp(&b.error_pct().abs()));
        if let Some(s) = worst {
            exact += usize::from(s.error_pct() == 0.0);
            out.scored.push(s);
        }
    }
    out.extra.insert("exact".to_owned(), exact.into());
    Ok(out)
}
