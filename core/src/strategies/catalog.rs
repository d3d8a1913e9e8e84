//! Rows of one's own: rows of the catalogue with other names and figures.

use proptest::collection::vec;
use proptest::prelude::*;

use super::figure::{pick, rarely};
use crate::cluster::{Accelerator, Instance, Link, Platform, Source, StorageOffer};
use crate::{Catalog, CatalogRows, SCHEMA_VERSION};

/// Half to twice a figure.
fn scale() -> BoxedStrategy<f64> {
    (0.5..=2.0_f64).boxed()
}

/// An accelerator like one of the catalogue, of another size.
pub(super) fn own_accelerator() -> BoxedStrategy<Accelerator> {
    let parts = Catalog::embedded().rows().accelerators.clone();
    (pick(parts), scale(), scale(), rarely(1_u32..=4))
        .prop_map(|(part, memory, rate, devices)| {
            let times = |x: Option<f64>| x.map(|x| x * rate);
            Accelerator {
                id: format!("own-{}", part.id),
                memory_gb: part.memory_gb * memory,
                usable_gib: part.usable_gib.map(|x| x * memory),
                bandwidth_gb_s: part.bandwidth_gb_s * rate,
                fp32_tflops: times(part.fp32_tflops),
                bf16_tflops: times(part.bf16_tflops),
                measured_bf16_tflops: times(part.measured_bf16_tflops),
                link_bidirectional_gb_s: times(part.link_bidirectional_gb_s),
                devices: devices.or(part.devices),
                aliases: vec![format!("my {}", part.id)],
                ..part
            }
        })
        .boxed()
}

/// A link like one of the catalogue with another rate.
pub(super) fn own_link() -> BoxedStrategy<Link> {
    let links = &Catalog::embedded().rows().links;
    let links: Vec<Link> = links.iter().filter(|row| row.bandwidth().is_some()).cloned().collect();
    (pick(links), scale())
        .prop_map(|(link, rate)| Link {
            id: format!("own-{}", link.id),
            gb_s: link.gb_s.map(|x| x * rate),
            port_gbit_s: link.port_gbit_s.map(|x| x * rate),
            latency_us: link.latency_us.map(|x| x * rate),
            ..link
        })
        .boxed()
}

fn own_instance() -> BoxedStrategy<Instance> {
    let rows = Catalog::embedded().rows().instances.clone();
    // Few rows have a price of every kind.
    let rare = rows.iter().filter(|row| row.capacity_block.is_some()).cloned().collect();
    (prop_oneof![3 => pick(rows), 1 => pick(rare)], scale(), any::<bool>())
        .prop_map(|(mut row, price, known)| {
            // A shape that is known keeps its name: the user's price takes its place.
            if !known {
                row.name = format!("own-{}", row.name);
            }
            row.on_demand = row.on_demand.map(|x| x * price);
            row.spot = row.spot.map(|x| x * price);
            row
        })
        .boxed()
}

fn own_platform() -> BoxedStrategy<Platform> {
    let rows = Catalog::embedded().rows().platforms.clone();
    (pick(rows), scale())
        .prop_map(|(row, rate)| Platform {
            id: format!("own-{}", row.id),
            network_gbit_s: row.network_gbit_s * rate,
            ..row
        })
        .boxed()
}

fn own_storage() -> BoxedStrategy<StorageOffer> {
    let rows = Catalog::embedded().rows().storage.clone();
    (pick(rows), scale())
        .prop_map(|(row, price)| StorageOffer {
            id: format!("own-{}", row.id),
            usd_per_gb: row.usd_per_gb.map(|x| x * price),
            usd_per_gb_month: row.usd_per_gb_month.map(|x| x * price),
            ..row
        })
        .boxed()
}

fn own_source() -> BoxedStrategy<Source> {
    pick(Catalog::embedded().rows().sources.clone())
        .prop_map(|row| Source { id: format!("own-{}", row.id), ..row })
        .boxed()
}

/// Rows of one's own, of every kind, that go with those of the catalogue.
///
/// ```
/// use proptest::strategy::{Strategy, ValueTree};
/// let mut runner = proptest::test_runner::TestRunner::deterministic();
/// let rows = shardwise::strategies::catalog_rows().new_tree(&mut runner).unwrap().current();
/// assert!(shardwise::Catalog::embedded().with_overrides(rows).is_ok());
/// ```
pub fn catalog_rows() -> BoxedStrategy<CatalogRows> {
    (
        vec(own_accelerator(), 0..=2),
        vec(own_instance(), 0..=2),
        vec(own_link(), 0..=2),
        vec(own_platform(), 0..=1),
        vec(own_storage(), 0..=1),
        vec(own_source(), 0..=1),
    )
        .prop_map(|(accelerators, instances, links, platforms, storage, sources)| CatalogRows {
            schema_version: SCHEMA_VERSION,
            accelerators,
            instances,
            links,
            platforms,
            storage,
            sources,
        })
        .boxed()
}
