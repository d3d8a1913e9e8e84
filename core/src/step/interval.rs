//! How sure a step time is: the spread of measured over predicted times on similar published runs.

use std::sync::OnceLock;

use serde::Deserialize;
use shardwise_derive::FromJson;

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

/// The 80 % interval of a predicted step time.
pub(super) fn interval(model: &Model, cluster: &Cluster, predicted: f64) -> Interval80<Seconds> {
    let experts = model.blocks.iter().flat_map(|b| &b.ops).any(|op| matches!(op.kind, OpKind::Experts(_)));
    let fast_link = cluster.within_domain.as_ref().is_some_and(|c| !c.link.starts_with("pcie"));
    let class = match (experts, fast_link) {
        (true, _) => "experts",
        (false, true) => "dense",
        (false, false) => "no fast link",
    };
    let (low, high) = spread(class);
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
