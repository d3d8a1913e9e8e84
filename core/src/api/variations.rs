//! The search again, on other machines and for other requests.

use super::answer::Sensitivity;
use super::estimate::Workplace;
use super::plan::Site;
use super::run::{Faults, Run};
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
        let line = site.plain_line(&site.best()?);
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
        let line = site.best().map(|p| site.plain_line(&p));
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
    out.extend(losses(site, best));
    out
}

/// What half and twice the losses of nodes do to the expected bill: on the same machines they change no
/// plan.
fn losses(site: &Site<'_>, best: &Layout) -> Vec<Sensitivity> {
    let (Some(faults), Some(rate)) = (&site.place.run.faults, site.place.per_node_hour()) else {
        return Vec::new();
    };
    let Some(point) = site.best() else { return Vec::new() };
    let mut out = Vec::new();
    for (change, factor) in [("half the losses of nodes", 0.5), ("twice the losses of nodes", 2.0)] {
        let faults = Faults { per_node_hour: Some(rate * factor), ..faults.clone() };
        let run = Run { faults: Some(faults), ..site.place.run.clone() };
        let place = Workplace { run: &run, ..site.place };
        let mut line = site.plain_line(&point);
        // What cannot be looked ahead at is no variation.
        if place.look_ahead_lines(core::slice::from_mut(&mut line), &site.batch).is_ok() {
            out.push(Sensitivity {
                change: change.to_owned(),
                other_plan: &line.layout != best,
                step_time: Some(line.step_time),
                tokens_per_second: Some(line.tokens_per_second),
                cost: line.expected_cost,
                name: Some(line.name),
            });
        }
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
