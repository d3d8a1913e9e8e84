//! Time and money over the number of machines.

use serde::Serialize;
use shardwise_derive::ToJson;

use crate::layout::Layout;
use crate::quantity::{Seconds, Usd};

/// The best plan on so many machines.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct CurvePoint {
    /// Nodes.
    pub nodes: u32,
    /// GPUs.
    pub gpus: u64,
    /// How a person names the layout.
    pub name: String,
    /// The layout.
    pub layout: Layout,
    /// Step time.
    pub step_time: Seconds,
    /// Tokens per second of the whole cluster.
    pub tokens_per_second: f64,
    /// Wall time of the run.
    pub run_time: Option<Seconds>,
    /// Money of the run.
    pub cost: Option<Usd>,
    /// Tokens per second and GPU, over those of the first point.
    pub efficiency: f64,
    /// Tokens per second that each GPU more than at the point before brings, over those of a GPU of
    /// the first point; none at the first.
    pub marginal: Option<f64>,
}

/// The scaling curve.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Scaling {
    /// From few machines to many; counts on which nothing fits are left out.
    pub points: Vec<CurvePoint>,
    /// GPUs at the knee: where the curve lies highest above the line between its ends (Satopaa 2011).
    pub knee: Option<u64>,
    /// GPUs past which the next GPU brings less than half of what the first ones brought each.
    pub half: Option<u64>,
}

/// Fills in what is relative, and finds the knee and the point past which GPUs pay less than half.
pub(crate) fn curve(mut points: Vec<CurvePoint>) -> Scaling {
    let Some(first) = points.first() else { return Scaling::default() };
    let each = first.tokens_per_second / first.gpus as f64;
    let mut before: Option<(u64, f64)> = None;
    let mut half = None;
    for p in &mut points {
        p.efficiency = p.tokens_per_second / p.gpus as f64 / each;
        p.marginal = before.map(|(gpus, rate)| (p.tokens_per_second - rate) / (p.gpus - gpus) as f64 / each);
        if p.marginal.is_some_and(|m| m < 0.5) {
            half = half.or(before.map(|(gpus, _)| gpus));
        }
        before = Some((p.gpus, p.tokens_per_second));
    }
    let knee = knee(&points);
    Scaling { points, knee, half }
}

/// Source: Satopaa 2011 ("Finding a Kneedle in a Haystack"): with both axes scaled to 0..1 the knee
/// of a concave curve is where y - x is largest.
fn knee(points: &[CurvePoint]) -> Option<u64> {
    let (first, last) = (points.first()?, points.last()?);
    let x = |p: &CurvePoint| (p.gpus - first.gpus) as f64 / (last.gpus - first.gpus).max(1) as f64;
    let rise = last.tokens_per_second - first.tokens_per_second;
    let y = |p: &CurvePoint| {
        if rise > 0.0 { (p.tokens_per_second - first.tokens_per_second) / rise } else { 0.0 }
    };
    let above = |p: &CurvePoint| y(p) - x(p);
    let highest = points.iter().reduce(|a, b| if above(b) > above(a) { b } else { a })?;
    (points.len() > 2 && above(highest) > 0.01).then_some(highest.gpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_that_bends_has_a_knee_and_a_half() {
        let point = |gpus: u64, rate: f64| CurvePoint {
            nodes: 1,
            gpus,
            name: String::new(),
            layout: Layout::default(),
            step_time: Seconds::of(1.0),
            tokens_per_second: rate,
            run_time: None,
            cost: None,
            efficiency: 0.0,
            marginal: None,
        };
        let of = |rates: [f64; 4]| curve((0..4_u32).zip(rates).map(|(i, r)| point(8 << i, r)).collect());
        let bent = of([8.0, 16.0, 20.0, 21.0]);
        // The next 16 bring 4, a quarter each; 12 of 13 of the rise is there by 32.
        assert_eq!((bent.knee, bent.half), (Some(32), Some(16)));
        let straight = of([8.0, 16.0, 32.0, 64.0]);
        assert_eq!((straight.knee, straight.half), (None, None));
        assert!((straight.points[3].efficiency - 1.0).abs() < f64::EPSILON);
    }
}
