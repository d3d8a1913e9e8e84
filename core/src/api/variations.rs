//! The search again, on other machines and for other requests.

use super::answer::Sensitivity;
use super::plan::Site;
use super::text::plan_name;
use crate::cluster::{Cluster, Network};
use crate::layout::Layout;
use crate::search::{CurvePoint, Scaling, curve};
use crate::workload::Batch;

/// Machines more than given that the curve goes on to.
const BEYOND: u32 = 4;

/// The best plan on 1, 2, 4, ... nodes of the kind, up to four times as many as given. `networks` join
/// them where the request names one node only.
pub(super) fn scaling(site: &Site<'_>, networks: &[Network]) -> Scaling {
    let given = site.place.cluster.nodes;
    let mut counts: Vec<u32> =
        (0..31).map(|i| 1_u32 << i).take_while(|n| *n <= given.saturating_mul(BEYOND)).collect();
    if let Err(at) = counts.binary_search(&given) {
        counts.insert(at, given);
    }
    let points = counts.into_iter().filter_map(|nodes| {
        let mut cluster = Cluster { nodes, ..site.place.cluster.clone() };
        if nodes > 1 && cluster.networks.is_empty() {
            networks.clone_into(&mut cluster.networks);
        }
        let site = site.on(&cluster);
        let line = site.line(&site.best()?, false);
        Some(CurvePoint {
            nodes,
            gpus: cluster.gpus(),
            name: line.name,
            layout: line.layout,
            step_time: line.step_time,
            tokens_per_second: line.tokens_per_second,
            run_time: line.run_time,
            cost: line.cost,
            efficiency: 1.0,
            marginal: None,
        })
    });
    curve(points.collect())
}

/// What a network half and twice as fast, half and twice the batch, and half the price do to the
/// plan.
pub(super) fn sensitivity(site: &Site<'_>, best: &Layout) -> Vec<Sensitivity> {
    let mut out = Vec::new();
    let mut tell = |change: &str, site: &Site<'_>| {
        let line = site.best().map(|p| site.line(&p, false));
        out.push(Sensitivity {
            change: change.to_owned(),
            other_plan: line.as_ref().is_none_or(|l| &l.layout != best),
            step_time: line.as_ref().map(|l| l.step_time),
            tokens_per_second: line.as_ref().map(|l| l.tokens_per_second),
            cost: line.as_ref().and_then(|l| l.cost),
            name: line.map(|l| plan_name(&l.layout)),
        });
    };
    for (change, factor) in [("a network half as fast", 0.5), ("a network twice as fast", 2.0)] {
        let mut cluster = site.place.cluster.clone();
        for network in &mut cluster.networks {
            network.channel.bandwidth = network.channel.bandwidth * factor;
        }
        if cluster.nodes > 1 {
            tell(change, &site.on(&cluster));
        }
    }
    let batch = site.batch;
    let mut other = |change: &str, global_batch: u64| {
        let batch = Batch { global_batch, ..batch };
        tell(change, &Site { batch, ..*site });
    };
    if batch.global_batch.is_multiple_of(2) {
        other("half the global batch", batch.global_batch / 2);
    }
    other("twice the global batch", batch.global_batch.saturating_mul(2));
    let mut cluster = site.place.cluster.clone();
    let prices = &mut cluster.prices;
    for price in [&mut prices.on_demand, &mut prices.spot, &mut prices.reserved_1y, &mut prices.reserved_3y] {
        *price = price.map(|p| p * 0.5);
    }
    if cluster.price(site.place.run.price).is_some() {
        tell("half the price", &site.on(&cluster));
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::api::{PlanRequest, plan};

    /// One node has no network of its own; the curve must not take the second to be joined by none.
    #[test]
    fn a_point_of_the_curve_is_the_plan_on_as_many_machines() {
        let on = |cluster: &str| {
            let request: PlanRequest = serde_json::from_str(&format!(
                r#"{{"model": "llama-3.1-8b", "cluster": "{cluster}", "seq_len": 8192, "global_batch": 64,
                     "search": {{"scaling": true}}}}"#,
            ))
            .unwrap();
            plan(&request).unwrap()
        };
        let curve = on("8xH100-SXM-80GB").scaling.unwrap();
        let two = on("2x8xH100-SXM-80GB").best;
        let point = curve.points.iter().find(|p| p.nodes == 2).unwrap();
        assert_eq!((&point.layout, point.step_time), (&two.layout, two.step.time.total()));
    }
}
