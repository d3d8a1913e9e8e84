//! `accuracy params`: exact parameter counts against what `transformers` builds.
//!
//! The file is a table of counts as `tests/data/models/param_counts.csv`; each row's model is
//! `configs/NAME.json` beside the file, else a preset of that name. A row's error is the largest
//! over its count columns.

use std::path::Path;

use shardwise::{ModelSpec, ParameterCounts};

use crate::score::{Score, Scored};

/// A count column and the figure it is compared with.
type Column = (&'static str, fn(&ParameterCounts) -> u64);

const COLUMNS: &[Column] = &[
    ("total", |c| c.total),
    ("embedding", |c| c.embedding),
    ("lm_head", |c| c.lm_head),
    ("n_blocks", |c| c.layers),
    ("layer_first", |c| c.layer_first),
    ("layer_last", |c| c.layer_last),
    ("layer_sum", |c| c.layer_sum),
    ("other", |c| c.other),
    ("routed_experts_total", |c| c.routed_experts),
    ("active", |c| c.active),
    ("active_excl_embedding", |c| c.active_excluding_embedding),
    ("buffers", |c| c.buffers),
    ("n_param_tensors", |c| c.tensors),
];

/// The model a row names: a config file beside the table, else a preset.
pub fn model_beside(file: &Path, name: &str) -> Result<ModelSpec, String> {
    let beside = file.parent().unwrap_or(Path::new(".")).join("configs").join(format!("{name}.json"));
    match std::fs::read_to_string(&beside) {
        Ok(text) => {
            serde_json::from_str(&text).map(ModelSpec).map_err(|e| format!("{}: {e}", beside.display()))
        }
        Err(_) => Ok(ModelSpec::from(name)),
    }
}

/// Scores every row of a parameter table.
pub fn score(file: &Path) -> Result<Score, String> {
    let mut reader = csv::Reader::from_path(file).map_err(|e| e.to_string())?;
    let headers = reader.headers().map_err(|e| e.to_string())?.clone();
    let mut out = Score::default();
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
        let counts = model.counts();
        let worst = COLUMNS
            .iter()
            .filter_map(|(column, of)| Some((*column, of(&counts), get(column).parse::<u64>().ok()?)))
            .map(|(column, ours, theirs)| {
                let s = Scored {
                    id: format!("{name} {column}"),
                    publisher: get("family").to_owned(),
                    predicted: ours as f64,
                    measured: theirs as f64,
                    interval80: None,
                };
                (s.error_pct().abs(), s)
            })
            .max_by(|a, b| a.0.total_cmp(&b.0));
        match worst {
            Some((_, s)) => out.scored.push(s),
            None => out.skip("no count column"),
        }
    }
    let exact = out.scored.iter().filter(|s| s.error_pct() == 0.0).count();
    out.extra.insert("exact".to_owned(), exact.into());
    Ok(out)
}
