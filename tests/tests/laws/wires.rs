//! Laws of collectives.

use proptest::prelude::*;
use shardwise::collective::{Fabric, Group};
use shardwise::strategies::{cluster, word};
use shardwise::workload::Backend;
use shardwise::{Catalog, Cluster};

use crate::check::holds;

const LARGE: f64 = 1e15;

/// The bandwidth term of a time `a + c sqrt(S) + S / B` at `S`: its second difference at `S`, `4 S` and
/// `9 S` is free of the other two.
fn bandwidth_term(time: impl Fn(f64) -> f64, bytes: f64) -> f64 {
    let second = time(9.0 * bytes) - 2.0 * time(4.0 * bytes) + time(bytes);
    second / 2.0
}

fn fabrics() -> impl Strategy<Value = (Cluster, Fabric, Group)> {
    (cluster(), word(Backend::ALL), 2_u32..=64, 0_u32..=4).prop_map(|(spec, backend, ranks, stride)| {
        let (cluster, _) = spec.resolve(Catalog::embedded()).expect("valid machines");
        let fabric = Fabric::new(&cluster, backend);
        (cluster, fabric, Group::new(f64::from(ranks), f64::from(1 << stride)))
    })
}

#[test]
fn a_ring_all_reduce_is_a_reduce_scatter_and_an_all_gather() {
    holds(200, fabrics(), |(_, mut fabric, group)| {
        // Not a ring: sums in a switch, and the tree of two nodes.
        fabric.in_switch = None;
        fabric.in_network = false;
        let nodes = group.ranks / group.within(fabric.node);
        if nodes > 1.0 && nodes <= 2.0 {
            return Ok(());
        }
        let reduce = bandwidth_term(|s| fabric.all_reduce(s, &group), LARGE);
        let gather = bandwidth_term(|s| fabric.all_gather(s, &group), LARGE);
        prop_assert!((reduce / (2.0 * gather) - 1.0).abs() < 1e-6, "{reduce} {gather}");
        Ok(())
    });
}

#[test]
fn the_bandwidth_term_stays_when_bytes_and_bandwidth_scale_together() {
    holds(200, (fabrics(), 0.01..=100.0_f64), |((_, fabric, group), k)| {
        let scaled = fabric.slowed(1.0 / k);
        for (name, time) in [
            ("all-reduce", (|f, s, g| Fabric::all_reduce(f, s, g)) as fn(&Fabric, f64, &Group) -> f64),
            ("all-gather", |f, s, g| f.all_gather(s, g)),
            ("all-to-all", |f, s, g| f.all_to_all(s, g)),
            ("send", |f, s, g| f.send(s, g.stride)),
        ] {
            let before = bandwidth_term(|s| time(&fabric, s, &group), LARGE);
            let now = bandwidth_term(|s| time(&scaled, s, &group), LARGE * k);
            prop_assert!((now / before - 1.0).abs() < 1e-6, "{name}: {before} {now}");
        }
        Ok(())
    });
}

#[test]
fn collectives_take_longer_the_more_they_carry_and_never_less_on_a_slower_wire() {
    holds(200, (fabrics(), 1.0..=1e12_f64, 1.0..=10.0_f64), |((_, fabric, group), bytes, times)| {
        for time in [Fabric::all_reduce, Fabric::all_gather, Fabric::all_to_all] {
            let t = time(&fabric, bytes, &group);
            prop_assert!(t > 0.0 && t.is_finite());
            prop_assert!(time(&fabric, bytes * times, &group) >= t);
            prop_assert!(time(&fabric.slowed(times), bytes, &group) >= t);
        }
        Ok(())
    });
}
