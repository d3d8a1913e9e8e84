//! FLOP formulas behind published TFLOP/s, by framework. Each reproduces figures of rows that
//! publish a speed as well.

use super::request::Asked;
use super::row::Row;

/// Seconds of a step from a published rate and its framework's formula.
pub fn step_seconds(row: &Row, asked: &Asked) -> Option<f64> {
    let rate = row.measured.tflops_per_gpu? * 1e12 * row.gpus? as f64;
    let name = row.framework.as_deref()?.to_ascii_lowercase();
    let m = &row.model;
    let (layers, hidden, vocab) = (m.layers? as f64, m.hidden? as f64, m.vocab? as f64);
    let (batch, seq) = (asked.batch.global_batch as f64, asked.batch.seq_len as f64);
    let unfused = row.inputs.attention.as_deref() == Some("eager");
    let flops = if name.contains("megatron-deepspeed") || (name.contains("megatron-lm") && unfused) {
        // Narayanan 2021, equation 3: four passes with recompute, three without.
        let passes = if row.inputs.recompute.as_deref() == Some("full") { 96.0 } else { 72.0 };
        passes
            * batch
            * seq
            * layers
            * hidden
            * hidden
            * (1.0 + seq / (6.0 * hidden) + vocab / (16.0 * layers * hidden))
    } else if name.contains("nemo") {
        // Six FLOPs per parameter but the input embedding, whole attention.
        let parameters = asked.model.counts().total as f64 - vocab * hidden;
        batch * seq * (6.0 * parameters + 12.0 * layers * hidden * seq)
    } else {
        return None;
    };
    Some(flops / rate)
}
