//! How sure a step time is: the spread of measured over predicted times on similar published runs.

use std::sync::OnceLock;

use serde::Deserialize;
use shardwise_derive::FromJson;

use super::times::Setting;
use crate::cluster::Cluster;
use crate::quantity::Seconds;
use crate::term::Interval80;
use crate::workload::{Model, OpKind};

const RESIDUALS: &str = include_str!("../../data/efficiency/residuals.json");

/// Spread of one class of runs.
#[derive(Debug, Deserialize, FromJson)]
#[serde(deny_unknown_fields)]
struct Residuals {
    class: String,
    low: f64,
    high: f64,
    #[serde(rename = "rows")]
    _rows: u64,
    #[serde(rename = "sources")]
    _sources: u64,
    #[serde(rename = "source")]
    _source: String,
    #[serde(rename = "as_of")]
    _as_of: String,
}

fn spread(class: &str) -> (f64, f64) {
    static ROWS: OnceLock<Vec<Residuals>> = OnceLock::new();
    let rows = ROWS.get_or_init(|| crate::read::from_text(RESIDUALS).unwrap_or_default());
    rows.iter().find(|r| r.class == class).map_or((0.8, 1.3), |r| (r.low, r.high))
}

/// What is known of runs like this one: lower and upper end of their 80 % interval, over the
/// prediction.
pub(super) fn published(model: &Model, cluster: &Cluster) -> (f64, f64) {
    let experts = model.blocks.iter().flat_map(|b| &b.ops).any(|op| matches!(op.kind, OpKind::Experts(_)));
    let fast_link = cluster.within_domain.as_ref().is_some_and(|c| !c.link.starts_with("pcie"));
    let class = match (experts, fast_link) {
        (true, _) => "experts",
        (false, true) => "dense",
        (false, false) => "no fast link",
    };
    spread(class)
}

/// Standard deviations from the middle to either end of an 80 % interval.
pub(super) const EIGHTY: f64 = 1.2816;

/// The 80 % interval of a predicted step time: as measured runs of one's own scatter, else as
/// published ones do.
pub(super) fn interval(s: &Setting<'_>, predicted: f64) -> Interval80<Seconds> {
    let (low, high) = match s.calibration.spread {
        Some(spread) => (libm::exp(-EIGHTY * spread), libm::exp(EIGHTY * spread)),
        None => published(s.model, s.cluster),
    };
    Interval80 { low: Seconds::of(predicted * low), high: Seconds::of(predicted * high) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_has_a_row() {
        for class in ["dense", "experts", "no fast link"] {
            let (low, high) = spread(class);
            assert!(low < 1.0 && high > 1.0 && (low, high) != (0.8, 1.3), "{class}");
        }
    }
}
