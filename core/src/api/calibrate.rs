//! `calibrate`: what a person's own measured runs teach, as a value that later requests take.

use core::fmt;

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use super::estimate::{Resolved, recipe_on};
use super::request::EstimateRequest;
use super::text::plan_name;
use crate::calibrate::{self, Calibration, Learnt, Observation};
use crate::error::{Error, ErrorCode, Result, entries, in_range};
use crate::memory;
use crate::quantity::{Bytes, Seconds};
use crate::step::Setting;
use crate::version::{SCHEMA_VERSION, schema_version, version};

/// Asks what measured runs teach.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CalibrateRequest {
    /// Version of this format.
    #[serde(default = "schema_version")]
    pub schema_version: u32,
    /// What was measured: 1 to 64 runs.
    pub runs: Vec<MeasuredRun>,
}

/// One run: what was asked of it, and what a clock and a memory reading said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MeasuredRun {
    /// The run as a request for an estimate, without a calibration of its own.
    pub estimate: Box<EstimateRequest>,
    /// Seconds of a steady optimizer step.
    #[serde(default)]
    pub step_time: Option<Seconds>,
    /// Peak of tensors on the fullest rank, in bytes, as `torch.cuda.max_memory_allocated` reports it.
    #[serde(default)]
    pub allocated: Option<Bytes>,
}

/// What the runs taught.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct CalibrateAnswer {
    /// Version of this format.
    pub schema_version: u32,
    /// To be given to later requests as it is.
    pub calibration: Calibration,
    /// Each constant with its uncertainty.
    pub constants: Vec<Learnt>,
    /// Root mean square of ln(measured / predicted) of step times with the published values; none
    /// where no time was measured.
    pub before: Option<f64>,
    /// The same with the constants learnt.
    pub after: Option<f64>,
    /// Run by run, measured and predicted.
    pub runs: Vec<Residual>,
    /// In words.
    pub summary: String,
}

/// A run beside its predictions.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Residual {
    /// How a person names the layout.
    pub name: String,
    /// Measured step time.
    pub step_time: Option<Seconds>,
    /// Step time with the published values.
    pub step_time_before: Seconds,
    /// Step time with the constants learnt.
    pub step_time_after: Seconds,
    /// Measured peak of tensors.
    pub allocated: Option<Bytes>,
    /// Peak of tensors as published readings have it.
    pub allocated_before: Bytes,
    /// The same with the factor learnt.
    pub allocated_after: Bytes,
}

/// Fits the free constants to measured runs.
///
/// ```
/// use shardwise::api::{CalibrateRequest, calibrate};
/// let request: CalibrateRequest = serde_json::from_str(
///     r#"{"runs": [{"estimate": {"model": "llama-3.1-8b", "cluster": "8xH100-SXM-80GB", "seq_len": 4096,
///                                "layout": {"recompute": "full"}}, "step_time": 1.1}]}"#,
/// ).unwrap();
/// let answer = calibrate(&request).unwrap();
/// assert!(answer.after < answer.before);
/// assert!(answer.runs[0].step_time_after > answer.runs[0].step_time_before);
/// ```
///
/// # Errors
/// A run that cannot be read, or of which nothing was measured; its fields are named under `runs[i]`.
pub fn calibrate(request: &CalibrateRequest) -> Result<CalibrateAnswer> {
    version(request.schema_version)?;
    entries("runs", request.runs.len(), 1, 64)?;
    let mut resolved = Vec::new();
    for (i, run) in request.runs.iter().enumerate() {
        resolved.push(run.resolve().map_err(|e| e.entry("runs", i))?);
    }
    let settings: Vec<(&MeasuredRun, &Resolved, Setting<'_>)> = request
        .runs
        .iter()
        .zip(&resolved)
        .map(|(run, r)| (run, r, Setting::new(&r.model, &run.estimate.recipe, r.batch, &r.cluster)))
        .collect();
    let observations: Vec<Observation<'_>> = settings
        .iter()
        .filter_map(|(run, r, setting)| {
            let measured = run.step_time?;
            Some(Observation { setting: *setting, layout: r.layout.clone(), measured })
        })
        .collect();
    let mut answer = CalibrateAnswer {
        schema_version: SCHEMA_VERSION,
        calibration: Calibration::default(),
        constants: Vec::new(),
        before: None,
        after: None,
        runs: Vec::new(),
        summary: String::new(),
    };
    if !observations.is_empty() {
        let fit = calibrate::calibrate(&observations)?;
        answer.calibration = fit.calibration;
        answer.constants = fit.constants;
        (answer.before, answer.after) = (Some(fit.before), Some(fit.after));
        answer.summary = fit.summary;
    }
    let allocated: Vec<Bytes> = settings
        .iter()
        .map(|(run, r, _)| {
            memory::estimate(&r.model, &recipe_on(&run.estimate.recipe, &r.cluster), &r.layout, &r.batch)
                .allocated
        })
        .collect();
    let readings: Vec<(f64, f64)> = settings
        .iter()
        .zip(&allocated)
        .filter_map(|((run, ..), predicted)| Some((run.allocated?.get(), predicted.get())))
        .collect();
    if !readings.is_empty() {
        let factor = calibrate::memory(&readings);
        answer.calibration.allocated = factor.factor;
        if !answer.summary.is_empty() {
            answer.summary.push_str("; ");
        }
        answer.summary.push_str(&readings_told(&factor, readings.len()));
        answer.constants.push(factor);
    }
    for ((run, r, setting), predicted) in settings.iter().zip(allocated) {
        let seconds = |s: &Setting<'_>| Seconds::of(s.times(&r.layout).total());
        answer.runs.push(Residual {
            name: plan_name(&r.layout),
            step_time: run.step_time,
            step_time_before: seconds(setting),
            step_time_after: seconds(&setting.calibrated(&answer.calibration)),
            allocated: run.allocated,
            allocated_before: predicted,
            allocated_after: predicted * answer.calibration.allocated,
        });
    }
    Ok(answer)
}

fn readings_told(c: &Learnt, readings: usize) -> String {
    format!(
        "from {readings} readings: tensors take {:.2} of the memory predicted ({:.2} to {:.2})",
        c.factor, c.low, c.high
    )
}

impl MeasuredRun {
    fn resolve(&self) -> Result<Resolved> {
        if let Some(t) = self.step_time {
            in_range("step_time", t.get(), 1e-6, 1e7)?;
        }
        if let Some(b) = self.allocated {
            in_range("allocated", b.get(), 1e6, 1e15)?;
        }
        if self.step_time.is_none() && self.allocated.is_none() {
            return Err(Error::new(
                "step_time",
                ErrorCode::MissingField,
                "nothing",
                "step_time, allocated or both",
            ));
        }
        if self.estimate.calibration != Calibration::default() {
            let allowed = "none: the fit starts from the published values";
            return Err(Error::new("estimate.calibration", ErrorCode::Conflict, "a calibration", allowed));
        }
        Resolved::new(&self.estimate).map_err(|e| e.under("estimate"))
    }
}

impl fmt::Display for CalibrateAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n", self.summary)?;
        writeln!(f, "{:<12} {:>8} {:>16} {:>8}", "constant", "factor", "80 % interval", "learnt")?;
        for c in &self.constants {
            let interval = format!("{:.2} to {:.2}", c.low, c.high);
            let learnt = format!("{:.0} %", 100.0 * c.learnt);
            writeln!(f, "{:<12} {:>8.3} {interval:>16} {learnt:>8}", c.name, c.factor)?;
        }
        writeln!(f, "\n{:<32} {:>14} {:>14} {:>14}", "run", "measured", "before", "after")?;
        for r in &self.runs {
            if let Some(t) = r.step_time {
                let (t, a, b) =
                    (t.to_string(), r.step_time_before.to_string(), r.step_time_after.to_string());
                writeln!(f, "{:<32} {t:>14} {a:>14} {b:>14}", r.name)?;
            }
            if let Some(m) = r.allocated {
                let (m, a, b) =
                    (m.to_string(), r.allocated_before.to_string(), r.allocated_after.to_string());
                writeln!(f, "{:<32} {m:>14} {a:>14} {b:>14}", r.name)?;
            }
        }
        Ok(())
    }
}
