//! A recorded availability trace and what a user would know of it.

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use super::availability::{Availability, Spells, Start, Swing};
use super::engine::Span;
use crate::error::{Error, ErrorCode, Result, entries, in_range};
use crate::quantity::{Seconds, count};

/// From `at` on, `nodes` nodes are there, until the next step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TraceStep {
    /// Seconds since the trace began.
    pub at: Seconds,
    /// Nodes available from then on.
    pub nodes: u32,
}

/// Nodes available over time, as a step function. Before the first step no node is there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// When the number of nodes changed, in order of time; at most 100,000.
    steps: Vec<TraceStep>,
    /// Seconds recorded.
    length: Seconds,
}

/// Windows are laid at this many moments, spread evenly, to measure their scatter.
const WINDOWS: u32 = 2000;
const MOST_STEPS: usize = 100_000;
const DAY: f64 = 86_400.0;

impl Trace {
    /// A trace of `length` whose steps are in order of time. Before the first step no node is
    /// there.
    ///
    /// # Errors
    /// If the steps are out of order or outside the length.
    pub fn new(steps: Vec<TraceStep>, length: Seconds) -> Result<Self> {
        let trace = Self { steps, length };
        trace.validate()?;
        Ok(trace)
    }

    /// Checks what was read.
    ///
    /// # Errors
    /// If the steps are too many, out of order or outside the length.
    pub fn validate(&self) -> Result<()> {
        let Self { steps, length } = self;
        in_range("length", length.get(), 1.0, 1e10)?;
        entries("steps", steps.len(), 0, MOST_STEPS)?;
        let mut before = 0.0;
        for (i, step) in steps.iter().enumerate() {
            let at = step.at.get();
            if !(at >= before && at <= length.get()) {
                return Err(Error::new(
                    format!("steps[{i}].at"),
                    ErrorCode::OutOfRange,
                    at,
                    format!("a time from {before} to {}, in order", length.get()),
                ));
            }
            before = at;
        }
        Ok(())
    }

    /// How long the trace is.
    #[must_use]
    pub fn length(&self) -> Seconds {
        self.length
    }

    /// Alternating spans with and without at least `target` nodes, from the beginning to the end.
    #[must_use]
    pub fn gang_spans(&self, target: u32) -> Vec<Span> {
        let mut spans: Vec<Span> = Vec::new();
        let mut push = |up: bool, length: Seconds| {
            if length.get() <= 0.0 {
                return;
            }
            match spans.last_mut() {
                Some(last) if last.up == up => last.length += length,
                _ => spans.push(Span { up, length }),
            }
        };
        let (mut nodes, mut since) = (0, Seconds::ZERO);
        for step in &self.steps {
            push(nodes >= target, step.at - since);
            (nodes, since) = (step.nodes, step.at);
        }
        push(nodes >= target, self.length - since);
        spans
    }

    /// Share of time with at least `target` nodes.
    #[must_use]
    pub fn share_up(&self, target: u32) -> f64 {
        let up: Seconds = self.gang_spans(target).iter().filter(|span| span.up).map(|span| span.length).sum();
        up / self.length
    }

    /// What a user could know of a gang of `target` nodes on this trace, in at most twelve
    /// figures. The trace is read as a ring. `None` if the gang is never complete.
    #[must_use]
    pub fn describe(&self, target: u32) -> Option<Availability> {
        let mut ring = self.gang_spans(target);
        if ring.len() > 1 && ring.first().map(|s| s.up) == ring.last().map(|s| s.up) {
            let last = ring.pop()?;
            ring.first_mut()?.length += last.length;
        }
        let lengths = |up: bool| -> Vec<f64> {
            ring.iter().filter(|span| span.up == up).map(|span| span.length.get()).collect()
        };
        let (up, down) = (lengths(true), lengths(false));
        if up.is_empty() {
            return None;
        }
        if down.is_empty() {
            return Some(Availability { start: Start::AnyMoment, ..Availability::undisturbed() });
        }
        let length = self.length.get();
        Some(Availability {
            up: Some(spells(up, true)),
            down: spells(down, false),
            swing: Swing::Measured {
                day_sd: self.scatter(target, DAY.min(length / 4.0)),
                week_sd: self.scatter(target, (7.0 * DAY).min(length / 2.0)),
                record: self.length,
            },
            start: Start::AnyMoment,
            loss_share: self.loss_share(target),
        })
    }

    /// Standard deviation of the share of time with the gang between windows of that length.
    fn scatter(&self, target: u32, window: f64) -> f64 {
        let length = self.length.get();
        let mut marks = vec![(0.0, 0.0)];
        let (mut at, mut up) = (0.0, 0.0);
        for span in self.gang_spans(target) {
            at += span.length.get();
            up += if span.up { span.length.get() } else { 0.0 };
            marks.push((at, up));
        }
        let up_until = |t: f64| {
            let (laps, t) = ((t / length).floor(), t % length);
            let i = marks.partition_point(|m| m.0 <= t);
            let (a, b) = (marks.get(i.wrapping_sub(1)), marks.get(i));
            let within = match (a, b) {
                (Some(a), Some(b)) => a.1 + (b.1 - a.1) * (t - a.0) / (b.0 - a.0),
                (Some(a), None) => a.1,
                _ => 0.0,
            };
            laps * up + within
        };
        let shares: Vec<f64> = (0..WINDOWS)
            .map(|i| {
                let t = length * f64::from(i) / f64::from(WINDOWS);
                (up_until(t + window) - up_until(t)) / window
            })
            .collect();
        let (_, variance) = moments(&shares);
        variance.sqrt()
    }

    /// Mean share of the gang taken by one loss.
    fn loss_share(&self, target: u32) -> Option<f64> {
        let falls: Vec<f64> = self
            .steps
            .windows(2)
            .filter_map(|pair| match pair {
                [a, b] if b.nodes < a.nodes => {
                    Some((f64::from(a.nodes - b.nodes) / f64::from(target.max(1))).min(1.0))
                }
                _ => None,
            })
            .collect();
        (!falls.is_empty()).then(|| moments(&falls).0)
    }
}

/// Mean and variance.
fn moments(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    (mean, values.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n)
}

fn spells(mut lengths: Vec<f64>, with_quartiles: bool) -> Spells {
    crate::order::sort_by(&mut lengths, f64::total_cmp);
    let (mean, variance) = moments(&lengths);
    let at = |q: f64| Some(Seconds::of(quantile(&lengths, q)));
    Spells {
        mean: Seconds::of(mean),
        scv: variance / (mean * mean),
        lower_quartile: at(0.25).filter(|_| with_quartiles),
        median: at(0.5),
        upper_quartile: at(0.75).filter(|_| with_quartiles),
    }
}

/// The quantile of sorted values, linear between neighbours.
///
/// ```
/// use shardwise::preemption::quantile;
/// assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.75), 3.0);
/// ```
#[must_use]
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    let position = q.clamp(0.0, 1.0) * sorted.len().saturating_sub(1) as f64;
    let below = usize::try_from(count(position)).unwrap_or_default();
    let low = sorted.get(below).copied().unwrap_or(0.0);
    let high = sorted.get(below + 1).copied().unwrap_or(low);
    low + (high - low) * (position - below as f64)
}
