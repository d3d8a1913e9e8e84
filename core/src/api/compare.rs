//! `compare`: answers to two or more requests side by side, line by line.

use core::fmt;
use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use super::answer::{EstimateAnswer, Verdict};
use super::estimate::estimate;
use super::plan::plan;
use super::request::{EstimateRequest, PlanRequest};
use crate::error::{Error, ErrorCode, Result, entries};
use crate::quantity::{Bytes, Seconds, Usd, thousands};
use crate::term::Terms;
use crate::version::{SCHEMA_VERSION, schema_version, version};
use crate::vocabulary::vocabulary;

/// Asks for two to sixteen answers side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CompareRequest {
    /// Version of this format.
    #[serde(default = "schema_version")]
    pub schema_version: u32,
    /// What is compared; the others are held against the first.
    pub requests: Vec<Contender>,
}

/// One request of a comparison: an estimate or a plan, of which the best layout counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Contender {
    /// What the column is called; none means the layout's name.
    pub name: Option<String>,
    /// One given layout.
    pub estimate: Option<Box<EstimateRequest>>,
    /// The best layout.
    pub plan: Option<Box<PlanRequest>>,
}

vocabulary! {
    /// What a line of a comparison counts.
    Unit {
        /// Bytes.
        Bytes = "bytes",
        /// Seconds.
        Seconds = "seconds",
        /// US dollars.
        Usd = "usd",
        /// A count or rate.
        Count = "count",
        /// A share of one.
        Share = "share",
    } default Count
}

/// Answers side by side.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct CompareAnswer {
    /// Version of this format.
    pub schema_version: u32,
    /// What is compared, in the order asked.
    pub compared: Vec<Compared>,
    /// The figures, line by line.
    pub lines: Vec<CompareLine>,
}

/// One column of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Compared {
    /// What it is called.
    pub name: String,
    /// The model.
    pub model: String,
    /// The machines.
    pub cluster: String,
    /// The layout's name.
    pub layout: String,
    /// Whether it fits.
    pub verdict: Verdict,
    /// What binds.
    pub reason: String,
}

/// One figure of each answer. None where an answer has no such figure.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct CompareLine {
    /// What it is; terms of a sum begin with its name and a colon.
    pub name: String,
    /// What it counts.
    pub unit: Unit,
    /// The figures.
    pub values: Vec<Option<f64>>,
    /// Each less the first.
    pub differences: Vec<Option<f64>>,
    /// Each over the first; none where that is zero.
    pub ratios: Vec<Option<f64>>,
}

/// Answers to two or more requests, side by side.
///
/// ```
/// use shardwise::api::{CompareRequest, compare};
/// let request: CompareRequest = serde_json::from_str(
///     r#"{"requests": [
///         {"estimate": {"model": "llama-3.1-8b", "cluster": "8xH100", "seq_len": 4096,
///                       "layout": {"sharding": "fsdp2", "recompute": "full"}}},
///         {"estimate": {"model": "llama-3.1-8b", "cluster": "8xA100-SXM4-80GB", "seq_len": 4096,
///                       "layout": {"sharding": "fsdp2", "recompute": "full"}}}]}"#,
/// ).unwrap();
/// let answer = compare(&request).unwrap();
/// let step = answer.lines.iter().find(|line| line.name == "step time").unwrap();
/// assert!(step.ratios[1].unwrap() > 1.5);
/// ```
///
/// # Errors
/// A request that cannot be read; its fields are named under `requests[i]`.
pub fn compare(request: &CompareRequest) -> Result<CompareAnswer> {
    version(request.schema_version)?;
    entries("requests", request.requests.len(), 2, 16)?;
    let mut compared = Vec::new();
    let mut table = Table { columns: request.requests.len(), lines: Vec::new() };
    for (column, contender) in request.requests.iter().enumerate() {
        let answer = contender.answer().map_err(|e| e.entry("requests", column))?;
        table.fill(column, &answer);
        compared.push(Compared {
            name: contender.name.clone().unwrap_or_else(|| answer.name.clone()),
            model: answer.model.name,
            cluster: answer.cluster.to_string(),
            layout: answer.name,
            verdict: answer.fit.verdict,
            reason: answer.fit.reason,
        });
    }
    Ok(CompareAnswer { schema_version: SCHEMA_VERSION, compared, lines: table.close() })
}

impl Contender {
    fn answer(&self) -> Result<EstimateAnswer> {
        match (&self.estimate, &self.plan) {
            (Some(request), None) => estimate(request).map_err(|e| e.under("estimate")),
            (None, Some(request)) => plan(request).map(|a| a.best).map_err(|e| e.under("plan")),
            (Some(_), Some(_)) => {
                Err(Error::new("", ErrorCode::Conflict, "both estimate and plan", "one of them"))
            }
            (None, None) => Err(Error::new("", ErrorCode::MissingField, "neither", "estimate or plan")),
        }
    }
}

struct Table {
    columns: usize,
    lines: Vec<CompareLine>,
}

impl Table {
    /// Puts a figure into its line. New lines go behind the line last filled, so that terms only one
    /// answer has stand beside its others.
    fn put(&mut self, after: &mut usize, column: usize, name: &str, unit: Unit, value: Option<f64>) {
        let Some(value) = value else { return };
        let known = self.lines.iter().position(|line| line.name == name);
        let at = known.unwrap_or_else(|| {
            let at = (*after).min(self.lines.len());
            let values = vec![None; self.columns];
            let line = CompareLine {
                name: name.to_owned(),
                unit,
                values,
                differences: Vec::new(),
                ratios: Vec::new(),
            };
            self.lines.insert(at, line);
            at
        });
        if let Some(slot) = self.lines.get_mut(at).and_then(|line| line.values.get_mut(column)) {
            *slot = Some(value);
        }
        *after = at + 1;
    }

    fn fill(&mut self, column: usize, answer: &EstimateAnswer) {
        let mut rows: Vec<(Cow<'_, str>, Unit, Option<f64>)> = Vec::new();
        let row = |name: &'static str, unit: Unit, value: Option<f64>| (Cow::Borrowed(name), unit, value);
        let bytes = |x: Bytes| Some(x.get());
        let seconds = |x: Seconds| Some(x.get());
        rows.push(row("memory on the device", Unit::Bytes, bytes(answer.memory.device.total())));
        if let Some(peak) = answer.memory.peak_terms() {
            terms(&mut rows, "memory: ", Unit::Bytes, peak, Bytes::get);
        }
        rows.push(row("headroom", Unit::Bytes, bytes(answer.fit.headroom)));
        rows.push(row("step time", Unit::Seconds, seconds(answer.step.total())));
        terms(&mut rows, "step: ", Unit::Seconds, &answer.step.time, Seconds::get);
        rows.push(row("tokens per second", Unit::Count, Some(answer.step.tokens_per_second())));
        rows.push(row("MFU", Unit::Share, Some(answer.step.mfu)));
        if let Some(run) = &answer.run {
            rows.push(row("run time", Unit::Seconds, seconds(run.time)));
            let cost = run.cost.as_ref().map(|c| c.total().get());
            rows.push(row("run cost", Unit::Usd, cost));
            if let Some(ahead) = &run.outlook {
                rows.push(row("expected time", Unit::Seconds, seconds(ahead.time.total())));
                terms(&mut rows, "time: ", Unit::Seconds, &ahead.time, Seconds::get);
                let s = ahead.time_spread;
                rows.push(row("time P50", Unit::Seconds, seconds(s.p50)));
                rows.push(row("time P90", Unit::Seconds, seconds(s.p90)));
                rows.push(row("time P99", Unit::Seconds, seconds(s.p99)));
                rows.push(row("chance of the deadline", Unit::Share, ahead.deadline.map(|d| d.chance)));
                let interval = ahead.checkpoint.as_ref().map(|c| c.interval.get());
                rows.push(row("checkpoint interval", Unit::Seconds, interval));
                rows.push(row("expected cost", Unit::Usd, ahead.cost().map(Usd::get)));
                if let Some(ledger) = &ahead.ledger {
                    terms(&mut rows, "cost: ", Unit::Usd, ledger, Usd::get);
                }
                let s = ahead.cost_spread;
                rows.push(row("cost P50", Unit::Usd, s.map(|s| s.p50.get())));
                rows.push(row("cost P90", Unit::Usd, s.map(|s| s.p90.get())));
                rows.push(row("cost P99", Unit::Usd, s.map(|s| s.p99.get())));
            }
        }
        if let Some(serving) = &answer.serving {
            rows.push(row("memory when served", Unit::Bytes, bytes(serving.memory)));
            let million = serving.per_million.map(Usd::get);
            rows.push(row("cost of a million tokens served", Unit::Usd, million));
        }
        let mut after = 0;
        for (name, unit, value) in rows {
            self.put(&mut after, column, &name, unit, value);
        }
    }

    fn close(mut self) -> Vec<CompareLine> {
        for line in &mut self.lines {
            let first = line.values.first().copied().flatten();
            let against = |of: fn(f64, f64) -> f64| {
                line.values
                    .iter()
                    .map(|v| v.zip(first).map(|(v, f)| of(v, f)).filter(|x| x.is_finite()))
                    .collect()
            };
            let (differences, ratios) = (against(|v, f| v - f), against(|v, f| v / f));
            line.differences = differences;
            line.ratios = ratios;
        }
        self.lines
    }
}

fn terms<'a, Q: Copy>(
    rows: &mut Vec<(Cow<'a, str>, Unit, Option<f64>)>,
    prefix: &str,
    unit: Unit,
    of: &'a Terms<Q>,
    get: fn(Q) -> f64,
) {
    for term in &of.0 {
        rows.push((Cow::Owned([prefix, &term.name].concat()), unit, Some(get(term.amount))));
    }
}

impl Unit {
    fn show(self, value: f64) -> String {
        match self {
            Self::Bytes => Bytes::of(value).to_string(),
            Self::Seconds => Seconds::of(value).to_string(),
            Self::Usd => Usd::of(value).to_string(),
            Self::Count => thousands(value),
            Self::Share => format!("{:.1} %", 100.0 * value),
        }
    }
}

impl fmt::Display for CompareAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, c) in self.compared.iter().enumerate() {
            writeln!(f, "{}. {}: {} on {}, {}: {}", i + 1, c.name, c.model, c.cluster, c.layout, c.reason)?;
        }
        write!(f, "\n{:<32}", "")?;
        for i in 0..self.compared.len() {
            write!(f, " {:>14}", i + 1)?;
            if i > 0 {
                write!(f, " {:>9}", "against 1")?;
            }
        }
        writeln!(f)?;
        for line in &self.lines {
            write!(f, "{:<32}", line.name)?;
            for (i, value) in line.values.iter().enumerate() {
                write!(f, " {:>14}", value.map_or_else(|| "-".to_owned(), |v| line.unit.show(v)))?;
                if i > 0 {
                    let ratio = line.ratios.get(i).copied().flatten();
                    write!(f, " {:>9}", ratio.map_or_else(String::new, |r| format!("x {r:.2}")))?;
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
