//! Ranking: rows that fix source, model, accelerator, GPU count, batch, sequence and precision, and
//! differ in layout. Repeats of one layout are merged by their median; pairs closer than 5 % are not
//! ranked; a grid needs at least four distinct layouts.

use std::collections::BTreeMap;

use super::request::Asked;
use super::row::Row;

/// Pairs closer than this cannot be told apart from repeats.
const NOISE: f64 = 0.05;
/// Layouts a grid needs.
const LEAST: usize = 4;

/// One row of a grid.
pub struct Point {
    grid: String,
    layout: String,
    predicted: f64,
    measured: f64,
}

impl Point {
    pub fn new(row: &Row, asked: &Asked, predicted: f64, measured: f64) -> Self {
        let m = &row.model;
        Self {
            grid: format!(
                "{} {} {:?} {:?} {:?} {:?} {} {} {:?} {:?}",
                row.source_id,
                m.name,
                m.layers,
                m.hidden,
                row.inputs.accelerator,
                row.gpus,
                asked.batch.global_batch,
                asked.batch.seq_len,
                row.inputs.compute,
                row.inputs.method,
            ),
            layout: format!("{:?} {:?} {:?}", asked.layout, row.framework, row.inputs.compiled),
            predicted,
            measured,
        }
    }
}

/// Mean over grids.
pub struct Ranking {
    pub grids: usize,
    pub tau: Option<f64>,
    pub regret_pct: Option<f64>,
}

pub fn rank(points: Vec<Point>) -> Ranking {
    let mut grids: BTreeMap<String, BTreeMap<String, Vec<(f64, f64)>>> = BTreeMap::new();
    for p in points {
        grids.entry(p.grid).or_default().entry(p.layout).or_default().push((p.predicted, p.measured));
    }
    let (mut taus, mut regrets) = (Vec::new(), Vec::new());
    for layouts in grids.into_values().filter(|l| l.len() >= LEAST) {
        let merged: Vec<(f64, f64)> = layouts.into_values().map(median).collect();
        let Some(tau) = tau(&merged) else { continue };
        taus.push(tau);
        regrets.push(regret(&merged));
    }
    let mean = |v: &[f64]| (!v.is_empty()).then(|| v.iter().sum::<f64>() / v.len() as f64);
    Ranking { grids: taus.len(), tau: mean(&taus), regret_pct: mean(&regrets) }
}

fn median(mut repeats: Vec<(f64, f64)>) -> (f64, f64) {
    repeats.sort_by(|a, b| a.1.total_cmp(&b.1));
    let n = repeats.len();
    let middle = |f: fn(&(f64, f64)) -> f64| f64::midpoint(f(&repeats[(n - 1) / 2]), f(&repeats[n / 2]));
    (middle(|r| r.0), middle(|r| r.1))
}

/// Concordant less discordant pairs over ranked pairs; none when no pair can be ranked.
fn tau(points: &[(f64, f64)]) -> Option<f64> {
    let (mut agree, mut pairs) = (0.0, 0.0);
    for (i, a) in points.iter().enumerate() {
        for b in &points[i + 1..] {
            if (a.1 / b.1 - 1.0).abs().min((b.1 / a.1 - 1.0).abs()) < NOISE {
                continue;
            }
            pairs += 1.0;
            let product = (a.0 - b.0) * (a.1 - b.1);
            agree += if product > 0.0 {
                1.0
            } else if product < 0.0 {
                -1.0
            } else {
                0.0
            };
        }
    }
    (pairs > 0.0).then(|| agree / pairs)
}

/// Time lost, in per cent, by running what was predicted best.
fn regret(points: &[(f64, f64)]) -> f64 {
    let chosen = points.iter().min_by(|a, b| a.0.total_cmp(&b.0)).map_or(0.0, |p| p.1);
    let best = points.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
    100.0 * (chosen / best - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_ties_are_not_ranked() {
        assert_eq!(tau(&[(1.0, 1.0), (2.0, 1.01)]), None);
        assert_eq!(tau(&[(1.0, 1.0), (2.0, 2.0), (3.0, 1.5)]), Some(1.0 / 3.0));
    }

    #[test]
    fn regret_is_what_the_choice_costs() {
        assert!((regret(&[(1.0, 12.0), (2.0, 10.0)]) - 20.0).abs() < 1e-9);
    }
}
