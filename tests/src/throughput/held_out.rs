//! What is left of the accuracy when a publisher's rows had no part in the constants. The sustained
//! rates of the catalogue came from this corpus, so they are first set back to one figure for all
//! data-centre parts; then, for each publisher, the free constants are fitted on the rows of the
//! others and that publisher's rows are predicted with them.

use std::collections::BTreeSet;

use shardwise::Seconds;
use shardwise::calibrate::{Calibration, Observation, calibrate};
use shardwise::step::Setting;

use super::Run;

/// Sustained over best rate before any training run was seen: clocks under power limits.
const NEUTRAL: f64 = 0.82;

/// Errors of every run in per cent, each predicted without its publisher.
pub fn errors(runs: &[Run]) -> Result<Vec<f64>, String> {
    let neutral = |run: &Run| -> (f64, f64) {
        let s = setting(run);
        // Consumer boards hold their clocks.
        if s.machine.sustained16 > 0.9 {
            (1.0, 1.0)
        } else {
            (NEUTRAL / s.machine.sustained, NEUTRAL / s.machine.sustained16)
        }
    };
    let publishers: BTreeSet<&str> = runs.iter().map(|r| r.0.source_family.as_str()).collect();
    let mut out = Vec::with_capacity(runs.len());
    for publisher in publishers {
        let others: Vec<Observation<'_>> = runs
            .iter()
            .filter(|r| r.0.source_family != publisher)
            .map(|r| Observation {
                setting: scaled(r, neutral(r)),
                layout: r.1.layout.clone(),
                measured: Seconds::new(r.2).unwrap_or(Seconds::ZERO),
            })
            .collect();
        let factors = if others.is_empty() {
            Calibration::default()
        } else {
            calibrate(&others).map_err(|e| e.to_string())?.calibration
        };
        for run in runs.iter().filter(|r| r.0.source_family == publisher) {
            let predicted = scaled(run, neutral(run)).calibrated(&factors).times(&run.1.layout).total();
            out.push(100.0 * (predicted / run.2 - 1.0));
        }
    }
    Ok(out)
}

fn setting(run: &Run) -> Setting<'_> {
    Setting::new(&run.1.model, &run.1.recipe, run.1.batch, &run.1.cluster)
}

fn scaled(run: &Run, (low, wide): (f64, f64)) -> Setting<'_> {
    let mut s = setting(run);
    s.machine.matmul *= low;
    s.machine.matmul16 *= wide;
    s
}
