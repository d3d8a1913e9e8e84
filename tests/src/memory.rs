//! `accuracy memory`: peak memory against published readings.
//!
//! Each row is compared with the quantity it measured: tensors, the allocator, or the device. Rows
//! that ran out of memory and rows that only say "it ran" are judged by the verdict.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use shardwise::Catalog;
use shardwise::memory::{self, MemoryReport};
use shardwise::workload::Batch;

use crate::published::{int, layout, model, number, recipe, text};
use crate::score::{Score, Scored, round};

const GIB: f64 = 1_073_741_824.0;

/// Rows listed as defective beside a corpus, with the reason.
pub fn defects(file: &Path, corpus: &str) -> BTreeMap<String, String> {
    let path = file.parent().unwrap_or(Path::new(".")).join("defects.csv");
    let Ok(mut reader) = csv::Reader::from_path(path) else { return BTreeMap::new() };
    reader
        .records()
        .filter_map(Result::ok)
        .filter(|r| r.get(0) == Some(corpus))
        .filter_map(|r| Some((r.get(1)?.to_owned(), r.get(2)?.to_owned())))
        .collect()
}

/// Reads a file of one JSON object a line.
pub fn json_lines(file: &Path) -> Result<Vec<Value>, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{}: {e}", file.display()))?;
    text.lines()
        .filter(|l| !l.trim().is_empty())
        .map(|l| serde_json::from_str(l).map_err(|e| e.to_string()))
        .collect()
}

/// Scores every row.
pub fn score(file: &Path) -> Result<Score, String> {
    let defects = defects(file, "memory");
    let mut out = Score::default();
    let (mut ooms, mut false_fits, mut ran, mut false_ooms) = (0_usize, 0_usize, 0_usize, 0_usize);
    let mut tight = 0_usize;
    for row in json_lines(file)? {
        out.rows += 1;
        let id = text(&row, &["id"]).unwrap_or("").to_owned();
        let missing =
            row.pointer("/derived/missing_inputs").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if missing.is_empty() {
            out.complete += 1;
        }
        if let Some(reason) = defects.get(&id) {
            out.skip(format!("defects.csv: {reason}"));
            continue;
        }
        if let Some(first) = missing.first() {
            out.skip(format!("not stated: {}", first.as_str().unwrap_or("")));
            continue;
        }
        let report = match predict(&row) {
            Ok(report) => report,
            Err(reason) => {
                out.skip(reason);
                continue;
            }
        };
        let publisher = text(&row, &["source_title"]).unwrap_or("").chars().take(40).collect::<String>();
        let capacity = capacity(&row);
        // The three-way verdict of the product: "fits" and "does not fit" are claims, "tight" is none.
        let need = &report.needed_interval80;
        let fits = capacity.map(|c| need.high.get() <= c);
        let refused = capacity.map(|c| need.low.get() > c);
        tight += usize::from(fits == Some(false) && refused == Some(false));
        match text(&row, &["kind"]).unwrap_or("") {
            "oom" => {
                let Some(fits) = fits else {
                    out.skip("no capacity stated");
                    continue;
                };
                ooms += 1;
                if fits {
                    false_fits += 1;
                    out.notes.push(format!(
                        "false fit  {id} needs {:.1} of {:.1} GiB",
                        report.needed.get() / GIB,
                        capacity.unwrap_or(0.0) / GIB
                    ));
                }
                out.judged += 1;
            }
            "fits" => {
                let Some(refused) = refused else {
                    out.skip("no capacity stated");
                    continue;
                };
                ran += 1;
                if refused {
                    false_ooms += 1;
                    out.notes.push(format!(
                        "false oom  {id} needs {:.1} of {:.1} GiB",
                        report.needed.get() / GIB,
                        capacity.unwrap_or(0.0) / GIB
                    ));
                }
                out.judged += 1;
            }
            "measured" => {
                if refused == Some(true) {
                    false_ooms += 1;
                    out.notes.push(format!(
                        "false oom  {id} needs {:.1} of {:.1} GiB",
                        report.needed.get() / GIB,
                        capacity.unwrap_or(0.0) / GIB
                    ));
                }
                ran += 1;
                let Some((reading, measured)) = reading(&row) else {
                    out.skip("no reading");
                    continue;
                };
                let (predicted, interval80) = match reading {
                    "peak_allocated_gb" => (report.allocated, report.allocated_interval80),
                    "peak_reserved_gb" => (report.reserved.total(), report.reserved_interval80),
                    // A figure that does not say what it read is what a monitor shows.
                    _ => (report.device.total(), report.device_interval80),
                };
                out.scored.push(Scored {
                    id: format!("{id} [{reading}]"),
                    publisher,
                    predicted: predicted.get() / GIB,
                    measured,
                    interval80: Some((interval80.low.get() / GIB, interval80.high.get() / GIB)),
                });
            }
            other => out.skip(format!("states a {other}, not a measurement")),
        }
    }
    let share = |n: usize, of: usize| if of == 0 { 0.0 } else { round(100.0 * n as f64 / of as f64) };
    out.extra.insert("false_fits_pct".into(), share(false_fits, ooms).into());
    out.extra.insert("false_ooms_pct".into(), share(false_ooms, ran).into());
    out.extra.insert("oom_rows".into(), ooms.into());
    out.extra.insert("tight_pct".into(), share(tight, ooms + ran).into());
    Ok(out)
}

/// What is predicted for one row, opened, beside what the row says.
pub fn explain(file: &Path, id: &str) -> Result<String, String> {
    let rows = json_lines(file)?;
    let row = rows.iter().find(|r| text(r, &["id"]) == Some(id)).ok_or("no such row")?;
    let report = predict(row)?;
    Ok(format!("{}\n{}\n{}\n{}", row["inputs"], row["model"], row["measured"], opened(&report)))
}

/// A report with every term.
pub fn opened(report: &MemoryReport) -> String {
    let mut out = String::new();
    for phase in &report.phases {
        out += &format!("{} = {}\n", phase.name, phase.allocated.total());
        for t in &phase.allocated.0 {
            out += &format!("    {:<26} {}\n", t.name, t.amount);
        }
    }
    for t in &report.device.0 {
        out += &format!("device: {:<26} {}\n", t.name, t.amount);
    }
    out
}

/// The measured quantity and its figure in GiB.
fn reading(row: &Value) -> Option<(&'static str, f64)> {
    let named = text(row, &["derived", "compare_field"]);
    let field = ["peak_allocated_gb", "peak_reserved_gb", "nvidia_smi_gb", "unspecified_peak_gb"]
        .into_iter()
        .find(|f| named == Some(*f) || named.is_none() && number(row, &["measured", f]).is_some())?;
    let value = number(row, &["measured", field])?;
    // The unit is part of the reading: decimal gigabytes where the source says so.
    let decimal =
        text(row, &["measured", "unit_note"]).is_some_and(|n| n.to_ascii_lowercase().contains("decimal gb"));
    (value > 0.0).then_some((field, if decimal { value * 1e9 / GIB } else { value }))
}

/// Memory of the accelerator a framework can use, in bytes.
fn capacity(row: &Value) -> Option<f64> {
    text(row, &["inputs", "accelerator"])
        .and_then(|id| Catalog::embedded().accelerator(id).ok())
        .and_then(|a| a.usable_memory())
        .map(shardwise::Bytes::get)
        .or_else(|| number(row, &["gpu_mem_gb"]).map(|g| g * GIB))
}

fn predict(row: &Value) -> Result<MemoryReport, String> {
    let model = model(row)?.resolve("model").map_err(|e| format!("model: {e}"))?;
    let recipe = recipe(row)?;
    let layout = layout(row)?;
    let seq_len = int(row, &["model", "seq_len"]).ok_or("seq_len not stated")?;
    let accumulation = int(row, &["grad_accum"]).unwrap_or(1).max(1);
    let batch = Batch { seq_len, global_batch: layout.data_parallel() * layout.micro_batch * accumulation };
    // A log of one pipeline stage is compared with that stage.
    Ok(match int(row, &["measured", "components_gb", "pipeline_stage"]) {
        Some(stage) => memory::estimate_stage(&model, &recipe, &layout, &batch, stage),
        None => memory::estimate(&model, &recipe, &layout, &batch),
    })
}
