//! `accuracy throughput`: step times against published runs.
//!
//! Each row's request is made from its `inputs` object and its shape, parallel, batch, network and
//! framework fields alone; the module `request` holds what is assumed for inputs a source does not state.
//! Rows are compared by step time. Rows that publish only TFLOP/s are scored where their framework's
//! FLOP formula is known and left out elsewhere: several are in use. Rows listed in `defects.csv` beside the file are left out under that reason.

mod choice;
mod conventions;
mod grids;
mod held_out;
mod request;
mod row;

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use shardwise::step;

use crate::score::{Score, Scored, quantile, round};
pub use choice::{Choice, choices};
use request::Asked;
use row::Row;

/// A row, its request and its measured step time in seconds.
type Run = (Row, Asked, f64);

/// The rows of a file that can be scored, each with its request and measured step time; the others
/// are counted with their reason.
fn measured_runs(file: &Path, out: &mut Score) -> Result<Vec<Run>, String> {
    let text = std::fs::read_to_string(file).map_err(|e| e.to_string())?;
    let defects = defects(file);
    let mut runs = Vec::new();
    for line in text.lines().filter(|l| !l.trim().is_empty()) {
        out.rows += 1;
        let row: Row = match serde_json::from_str(line) {
            Ok(row) => row,
            Err(e) => {
                out.skip(format!("row cannot be read: {e}"));
                continue;
            }
        };
        if row.check.complete_inputs != Some(true) {
            out.skip("inputs missing");
            continue;
        }
        out.complete += 1;
        if let Some(reason) = defects.get(&row.id) {
            out.skip(format!("defect: {reason}"));
            continue;
        }
        if row.check.flag.is_some() {
            out.skip("flagged as implausible");
            continue;
        }
        let asked = match request::of(&row) {
            Ok(asked) => asked,
            Err(reason) => {
                out.skip(reason);
                continue;
            }
        };
        let tokens = asked.batch.seq_len * asked.batch.global_batch;
        match row.step_seconds(tokens).or_else(|| conventions::step_seconds(&row, &asked)) {
            Some(measured) => runs.push((row, asked, measured)),
            None => out.skip("no speed in tokens/s or seconds"),
        }
    }
    Ok(runs)
}

/// Scores every row of a file of published runs.
pub fn score(file: &Path) -> Result<Score, String> {
    let mut out = Score::default();
    let mut points = Vec::new();
    let mut kinds: BTreeMap<&'static str, Vec<f64>> = BTreeMap::new();
    let runs = measured_runs(file, &mut out)?;
    out.extra.insert("leave_publisher_out".into(), summary(&held_out::errors(&runs)?));
    for (row, asked, measured) in runs {
        let report = step::estimate(&asked.model, &asked.recipe, &asked.layout, &asked.batch, &asked.cluster);
        let predicted = report.total().get();
        let scored = Scored {
            id: row.id.clone(),
            publisher: row.source_family.clone(),
            predicted,
            measured,
            interval80: Some((report.interval80.low.get(), report.interval80.high.get())),
        };
        let kind = if row.model.kind == "moe" { "moe" } else { "dense" };
        kinds.entry(kind).or_default().push(scored.error_pct());
        points.push(grids::Point::new(&row, &asked, predicted, measured));
        out.scored.push(scored);
    }
    let ranking = grids::rank(points);
    out.extra.insert("kendall_tau".into(), json!(ranking.tau.map(round)));
    out.extra.insert("regret_pct".into(), json!(ranking.regret_pct.map(round)));
    out.extra.insert("grids".into(), json!(ranking.grids));
    for kind in ["dense", "moe"] {
        out.extra.insert(kind.into(), summary(kinds.get(kind).map_or(&[], Vec::as_slice)));
    }
    Ok(out)
}

fn summary(errors: &[f64]) -> Value {
    let mut abs: Vec<f64> = errors.iter().map(|e| e.abs()).collect();
    abs.sort_by(f64::total_cmp);
    let bias = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    json!({
        "rows": errors.len(),
        "median_abs_pct": round(quantile(&abs, 0.5)),
        "p90_abs_pct": round(quantile(&abs, 0.9)),
        "bias_pct": round(bias),
    })
}

/// Rows to leave out, with the reason, from `defects.csv` beside the file.
fn defects(file: &Path) -> BTreeMap<String, String> {
    let Ok(mut reader) = csv::Reader::from_path(file.with_file_name("defects.csv")) else {
        return BTreeMap::new();
    };
    reader
        .records()
        .flatten()
        .filter(|r| r.get(0) == Some("throughput"))
        .filter_map(|r| Some((r.get(1)?.to_owned(), r.get(2)?.to_owned())))
        .collect()
}
