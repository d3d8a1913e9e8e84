//! Machines: strings of every form, and objects with links, networks and prices of one's own.

use proptest::collection::vec;
use proptest::prelude::*;

use super::catalog::{own_accelerator, own_link};
use super::figure::{figure, once_in, pick, rarely};
use super::record;
use crate::cluster::{Accelerator, Instance, Link, NetworkSpec, PriceSpec};
use crate::{Catalog, ClusterSpec, Machines, NameOr};

const USUAL_GPUS: u32 = 8;

/// Nodes, few likelier than many.
fn nodes(most: u32) -> BoxedStrategy<u32> {
    prop_oneof![3 => Just(1), 4 => 1..=most.min(8), 1 => 1..=most].boxed()
}

fn per_node(most: u32) -> BoxedStrategy<u32> {
    let usual: Vec<u32> = [1, 2, 4, 8].into_iter().filter(|n| *n <= most).collect();
    prop_oneof![4 => pick(usual), 1 => 1..=most].boxed()
}

/// Parts of the usual node.
fn usual(part: &Accelerator) -> u32 {
    let platform = part.platform.as_ref().and_then(|id| Catalog::embedded().platform(id));
    platform.map_or(USUAL_GPUS, |row| row.gpus_per_node)
}

fn accelerators() -> Vec<Accelerator> {
    Catalog::embedded().rows().accelerators.clone()
}

fn instances() -> Vec<Instance> {
    Catalog::embedded().rows().instances.clone()
}

fn link_ids(kinds: &[&str]) -> Vec<String> {
    let rows = &Catalog::embedded().rows().links;
    rows.iter().filter(|row| kinds.contains(&row.kind.as_str())).map(|row| row.id.clone()).collect()
}

/// `H100`, `8xH100`, `2x8xH100`, by any of a part's names.
fn by_part(most_nodes: u32, most_gpus: u32) -> BoxedStrategy<ClusterSpec> {
    let name = pick(accelerators()).prop_flat_map(|part| {
        let mut names = part.aliases.clone();
        names.push(part.id.clone());
        (Just(usual(&part)), pick(names))
    });
    (name, 0_u8..3, nodes(most_nodes), per_node(most_gpus))
        .prop_map(move |((usual, name), form, nodes, gpus)| {
            let text = match form {
                0 => name,
                // Past the usual node, whole ones.
                1 if nodes > 1 && usual <= most_gpus => format!("{}x{name}", nodes * usual),
                1 => format!("{}x{name}", gpus.min(usual)),
                _ => format!("{nodes} x {gpus} X {name}"),
            };
            ClusterSpec::from(text.as_str())
        })
        .boxed()
}

/// `p5.48xlarge`, `aws:4 x p5.48xlarge@us-east-1`, `aws:2x8xh100-sxm`.
fn by_offer(most_nodes: u32, most_gpus: u32) -> BoxedStrategy<ClusterSpec> {
    let rows: Vec<Instance> = instances().into_iter().filter(|row| row.gpus <= most_gpus).collect();
    (pick(rows), nodes(most_nodes), any::<[bool; 4]>())
        .prop_map(|(row, nodes, [cloud, region, shape, one])| {
            let cloud = if cloud || !shape { format!("{}:", row.cloud) } else { String::new() };
            let region = row.region.filter(|_| region).map(|place| format!("@{place}")).unwrap_or_default();
            let what = match (shape, one) {
                (true, true) => row.name,
                (true, false) => format!("{nodes}x{}", row.name),
                (false, _) => format!("{nodes}x{}x{}", row.gpus, row.gpu),
            };
            ClusterSpec::from([cloud, what, region].concat().as_str())
        })
        .boxed()
}

fn link(kinds: &'static [&'static str]) -> BoxedStrategy<NameOr<Link>> {
    let own = own_link().prop_map(|row| NameOr::Full(Box::new(row)));
    prop_oneof![3 => pick(link_ids(kinds)).prop_map(NameOr::Name), 1 => own].boxed()
}

fn network() -> BoxedStrategy<NetworkSpec> {
    let drawn = record!(NetworkSpec {
        link: prop_oneof![1 => Just(None), 2 => link(&["inter"]).prop_map(Some)],
        node_gb_s: rarely(figure(1e-4..=1e6)),
        nic_gbit_s: rarely(figure(1e-3..=1e6)),
        nics: rarely(1_u32..=16),
        reach_nodes: rarely(1_u32..=64),
    });
    drawn
        .prop_map(|mut network| {
            // Where both are given they agree.
            if let (Some(_), Some(nic)) = (network.node_gb_s, network.nic_gbit_s) {
                let node = nic / 8.0 * f64::from(network.nics.unwrap_or(1));
                network.node_gb_s = Some(node).filter(|node| (1e-4..=1e6).contains(node));
            }
            network
        })
        .boxed()
}

fn prices() -> BoxedStrategy<PriceSpec> {
    let price = || rarely(figure(0.0..=1e3));
    record!(PriceSpec {
        on_demand: proptest::option::weighted(0.75, figure(0.01..=1e3)),
        spot: proptest::option::weighted(0.75, figure(0.01..=1e3)),
        reserved_1y: price(),
        reserved_3y: price(),
        source: rarely(Just("an offer".to_owned())),
        as_of: rarely(Just("2026-11-30".to_owned())),
    })
}

fn machines(most_nodes: u32, most_gpus: u32) -> BoxedStrategy<ClusterSpec> {
    let part = prop_oneof![
        3 => pick(accelerators()).prop_map(|part| NameOr::Name(part.id)),
        1 => own_accelerator().prop_map(|part| NameOr::Full(Box::new(part))),
    ];
    let drawn = record!(Machines {
        accelerator: part.prop_map(Some),
        instance: Just(None),
        cloud: Just(None),
        region: Just(None),
        nodes: prop_oneof![1 => Just(None), 3 => nodes(most_nodes).prop_map(Some)],
        gpus_per_node: per_node(most_gpus).prop_map(Some),
        usable_gib: rarely(figure(0.1..=100_000.0)),
        power_cap_w: rarely(figure(10.0..=10_000.0)),
        link: rarely(link(&["intra", "rack"])),
        link_gb_s: rarely(figure(0.001..=1e6)),
        link_domain: rarely(pick(vec![1_u32, 2, 4, 8, 72, 65_536])),
        networks: prop_oneof![1 => Just(Vec::new()), 1 => vec(network(), 1..=3)],
        host_memory_gib: rarely(figure(0.1..=1e6)),
        vcpus: rarely(1_u32..=65_536),
        nvme_gb: rarely(figure(0.0..=1e7)),
        storage_gb_s: rarely(figure(0.001..=1e6)),
        price: rarely(prices()),
    });
    let shapes: Vec<Instance> = instances().into_iter().filter(|row| row.gpus <= most_gpus).collect();
    (drawn, rarely(pick(shapes)), any::<[bool; 3]>(), link(&["intra"]))
        .prop_map(|(mut drawn, shape, [place, both, usual], own)| {
            if let Some(shape) = shape {
                drawn.accelerator = both.then(|| NameOr::Name(shape.gpu.clone()));
                drawn.gpus_per_node = drawn.gpus_per_node.filter(|_| both || !usual);
                if place {
                    drawn.cloud = Some(shape.cloud);
                    drawn.region = shape.region;
                }
                drawn.instance = Some(shape.name);
            }
            // A rate is of some kind of link.
            if drawn.link_gb_s.is_some() && drawn.link.is_none() {
                drawn.link = Some(own);
            }
            // Some network reaches all nodes.
            if let Some(last) = drawn.networks.last_mut() {
                last.reach_nodes = None;
            }
            ClusterSpec::Full(Box::new(drawn))
        })
        .boxed()
}

fn of(most_nodes: u32, most_gpus: u32) -> BoxedStrategy<ClusterSpec> {
    prop_oneof![
        2 => by_part(most_nodes, most_gpus),
        2 => by_offer(most_nodes, most_gpus),
        3 => machines(most_nodes, most_gpus),
    ]
    .boxed()
}

/// Machines of the catalogue or of one's own, to a few thousand accelerators.
///
/// ```
/// use proptest::strategy::{Strategy, ValueTree};
/// let mut runner = proptest::test_runner::TestRunner::deterministic();
/// let machines = shardwise::strategies::cluster().new_tree(&mut runner).unwrap().current();
/// assert!(machines.resolve(shardwise::Catalog::embedded()).is_ok());
/// ```
pub fn cluster() -> BoxedStrategy<ClusterSpec> {
    once_in(8).prop_flat_map(|large| of(if large { 512 } else { 8 }, 16)).boxed()
}

/// Machines of at most 16 accelerators as the catalogue counts them, so that a search ends soon.
pub fn small_cluster() -> BoxedStrategy<ClusterSpec> {
    of(2, 8).boxed()
}
