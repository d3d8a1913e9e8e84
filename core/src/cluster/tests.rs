use std::collections::BTreeSet;

use crate::error::{ErrorCode, Result};
use crate::read::FromJson;
use crate::{Assumption, Bytes};

use super::catalog::embedded_rows;
use super::*;

fn resolve(text: &str) -> Result<(Cluster, Vec<Assumption>)> {
    ClusterSpec::from(text).resolve(Catalog::embedded())
}

/// As the verbs read a request: errors of the reader carry their path.
fn object(json: &str) -> Result<(Cluster, Vec<Assumption>)> {
    read::<ClusterSpec>(json)?.resolve(Catalog::embedded())
}

fn read<T: FromJson>(json: &str) -> Result<T> {
    crate::read::from_text(json)
}

fn assumed<'a>(list: &'a [Assumption], field: &str) -> &'a str {
    list.iter().find(|it| it.field == field).map_or("", |it| it.value.as_str())
}

fn gb_s(channel: Option<&Channel>) -> f64 {
    channel.map_or(0.0, |channel| channel.bandwidth.get() / 1e9)
}

#[test]
fn embedded_files_are_sound() {
    let rows = embedded_rows().unwrap();
    let catalog = Catalog::new(rows.clone()).unwrap();
    assert!(rows.accelerators.len() >= 68 && rows.instances.len() >= 146);
    assert!(rows.links.len() >= 52 && rows.storage.len() >= 44);
    assert_eq!(catalog.rows(), Catalog::embedded().rows());
}

#[test]
fn every_row_has_source_and_date() {
    let rows = embedded_rows().unwrap();
    let dated = |date: &str| {
        let digits = date.bytes().take(4).filter(u8::is_ascii_digit).count();
        digits == 4 && date.bytes().all(|b| b.is_ascii_digit() || b == b'-' || b == b'/')
    };
    // A source is an address, a key of the sources file, or a judgement that says so.
    let known = |source: &str| {
        source.starts_with("https://")
            || source.starts_with("judgement: ")
            || rows.sources.iter().any(|row| row.id == source)
    };
    let mut all: Vec<(&str, &str, &str)> = Vec::new();
    all.extend(rows.accelerators.iter().map(|r| (r.id.as_str(), r.source.as_str(), r.as_of.as_str())));
    all.extend(rows.instances.iter().map(|r| (r.name.as_str(), r.source.as_str(), r.as_of.as_str())));
    all.extend(rows.links.iter().map(|r| (r.id.as_str(), r.source.as_str(), r.as_of.as_str())));
    all.extend(rows.platforms.iter().map(|r| (r.id.as_str(), r.source.as_str(), r.as_of.as_str())));
    all.extend(rows.storage.iter().map(|r| (r.id.as_str(), r.source.as_str(), r.as_of.as_str())));
    all.extend(rows.sources.iter().map(|r| (r.id.as_str(), r.url.as_str(), r.as_of.as_str())));
    for (id, source, date) in all {
        assert!(known(source), "{id}: source `{source}`");
        assert!(dated(date), "{id}: as_of `{date}`");
    }
    for row in &rows.instances {
        let other = row.specs.iter().chain(&row.spot_source);
        assert!(other.map(String::as_str).all(known), "{}", row.name);
        assert!(row.vcpus.is_none() || row.specs.is_some() || row.source == "skypilot", "{}", row.name);
        assert_eq!(row.spot.is_some(), row.spot_basis.is_some(), "{}", row.name);
    }
}

#[test]
fn the_file_of_measured_collectives_has_sources() {
    let text = include_str!("../../data/nccl_fits.json");
    let rows: Vec<serde_json::Value> = serde_json::from_str(text).unwrap();
    assert_eq!(rows.len(), 32);
    for row in &rows {
        assert!(row["source"].as_str().is_some_and(|s| s.starts_with("https://")), "{row}");
        assert!(row["as_of"].is_string() && row["bus_gb_s"].is_number(), "{row}");
    }
}

#[test]
fn every_id_alias_and_shape_resolves() {
    let catalog = Catalog::embedded();
    for row in &catalog.rows().accelerators {
        for name in core::iter::once(&row.id).chain(&row.aliases) {
            for text in [name.clone(), name.to_uppercase(), format!("2x{name}"), format!("NVIDIA {name}")] {
                let (cluster, _) = resolve(&text).unwrap();
                assert_eq!(cluster.accelerator, row.id, "{text}");
                assert!(cluster.memory.gib() > 7.0, "{text}");
            }
        }
    }
    for row in &catalog.rows().instances {
        let place = row.region.as_ref().map(|r| format!("@{r}")).unwrap_or_default();
        let (cluster, _) = resolve(&format!("{}:3x{}{place}", row.cloud, row.name)).unwrap();
        assert_eq!(cluster.accelerator, row.gpu);
        assert_eq!(cluster.instance.as_ref(), Some(&row.name));
        assert_eq!((cluster.nodes, &cluster.region), (3, &row.region));
        assert!(cluster.network(3).is_some_and(|n| n.channel.bandwidth.get() > 0.0), "{}", row.name);
    }
}

#[test]
fn published_device_names_resolve() {
    for (name, id) in [
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm-80"),
        ("A100-SXM4-40GB", "a100-sxm-40"),
        ("Tesla V100-SXM2-32GB", "v100-sxm2-32"),
        ("Tesla T4", "t4"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("NVIDIA L40S", "l40s"),
        ("NVIDIA GH200 480GB", "gh200-96"),
        ("AMD Instinct MI300X", "mi300x"),
        ("RTX PRO 6000", "rtx-pro-6000-bw"),
        ("Gaudi2", "gaudi2"),
    ] {
        assert_eq!(Catalog::embedded().accelerator(name).unwrap().id, id, "{name}");
    }
}

#[test]
fn order_of_rows_changes_nothing() {
    let catalog = Catalog::embedded();
    let mut rows = catalog.rows().clone();
    rows.accelerators.reverse();
    rows.instances.rotate_left(57);
    rows.links.reverse();
    rows.platforms.rotate_left(5);
    rows.storage.reverse();
    rows.sources.reverse();
    let other = Catalog::new(rows).unwrap();
    assert_eq!(catalog.rows(), other.rows());
    for text in ["16xH100", "p5.48xlarge", "a2-highgpu-8g", "4xL4", "8xB200", "gcp:8xH100", "MI250X"] {
        let spec = ClusterSpec::from(text);
        assert_eq!(spec.resolve(catalog), spec.resolve(&other), "{text}");
    }
}

#[test]
fn the_answer_given_back_changes_nothing() {
    let catalog = Catalog::embedded();
    let json = serde_json::to_string(catalog.rows()).unwrap();
    let rows: CatalogRows = serde_json::from_str(&json).unwrap();
    assert_eq!(&rows, catalog.rows());
    let same = catalog.with_overrides(rows).unwrap();
    assert_eq!(serde_json::to_string(same.rows()).unwrap(), json);
}

#[test]
fn gpus_fill_nodes_of_the_usual_size() {
    for (text, nodes, gpus) in [
        ("H100", 1, 1),
        ("4xH100", 1, 4),
        ("64xH100", 8, 8),
        ("2x4xH100", 2, 4),
        ("128xGH200", 32, 4),
        ("72xGB200", 18, 4),
        ("16xRTX-4090", 2, 8),
        ("4 x p5.48xlarge", 4, 8),
    ] {
        let (cluster, list) = resolve(text).unwrap();
        assert_eq!((cluster.nodes, cluster.gpus_per_node), (nodes, gpus), "{text}");
        let split = text.starts_with(|c: char| c.is_ascii_digit()) && nodes > 1;
        let stated = text.contains("2x4x") || text.contains("p5");
        assert_eq!(assumed(&list, "cluster.nodes").is_empty(), !split || stated, "{text}");
    }
    let fault = resolve("12xH100").unwrap_err();
    assert_eq!(fault.field, "cluster");
    assert!(fault.allowed.contains("(8, 16)"), "{fault}");
}

#[test]
fn links_of_well_known_machines() {
    // Vendors print both directions: NVLink 3 has 600 GB/s, NVLink 4 900, NVLink 5 1800.
    for (text, domain, inside, link) in [
        ("8xA100", 8, 300.0, "nvlink3"),
        ("8xH100", 8, 450.0, "nvlink4"),
        ("8xB200", 8, 900.0, "nvlink5"),
        ("144xGB200", 72, 900.0, "nvl72"),
        ("8xH800", 8, 200.0, "nvlink4-h800"),
        ("8xL4", 8, 31.5, "pcie4x16"),
        ("8xMI300X", 8, 448.0, "xgmi-mi300x"),
    ] {
        let (cluster, _) = resolve(text).unwrap();
        let within = cluster.within_domain.as_ref();
        assert_eq!(cluster.domain, domain, "{text}");
        assert!((gb_s(within) - inside).abs() < 1e-9, "{text}");
        assert_eq!(within.map(|c| c.link.as_str()), Some(link), "{text}");
        assert_eq!(cluster.within_node, cluster.within_domain, "{text}");
    }
    // Bridges join pairs; the rest of the node is PCIe.
    let (cluster, _) = resolve("Standard_NC96ads_A100_v4").unwrap();
    assert_eq!((cluster.domain, cluster.gpus_per_node), (2, 4));
    assert!((gb_s(cluster.within_domain.as_ref()) - 300.0).abs() < 1e-9);
    assert!((gb_s(cluster.within_node.as_ref()) - 31.5).abs() < 1e-9);
    // One GPU has no neighbour.
    let (cluster, _) = resolve("H100").unwrap();
    assert_eq!((cluster.domain, &cluster.within_domain), (1, &None));
    assert!((gb_s(cluster.host.as_ref()) - 63.0).abs() < 1e-9);
}

#[test]
fn networks_of_well_known_machines() {
    for (text, link, node, nics) in [
        ("16xH100", "ib-ndr", 400.0, 8),
        ("2x4xH100", "ib-ndr", 200.0, 4),
        ("16xA100", "ib-hdr", 200.0, 8),
        ("2 x p4d.24xlarge", "efa-v1", 50.0, 4),
        ("2 x p5.48xlarge", "efa-v2", 400.0, 32),
        // The 200 Gbit/s for the host are not the GPUs'.
        ("2 x a3-highgpu-8g", "tcpx", 100.0, 4),
        ("2x8H100.80S.176V", "ib-ndr", 400.0, 8),
    ] {
        let (cluster, list) = resolve(text).unwrap();
        let network = cluster.network(2).unwrap();
        assert!((network.channel.bandwidth.get() / 1e9 - node).abs() < 1e-6, "{text}");
        assert_eq!((network.channel.link.as_str(), network.nics), (link, nics), "{text}");
        let published = text.contains("p4d") || text.contains("p5") || text.contains("a3-");
        assert_eq!(assumed(&list, "cluster.networks").is_empty(), published, "{text}");
    }
    assert!(resolve("8xH100").unwrap().0.networks.is_empty());
}

#[test]
fn devices_of_one_part_share_its_figures() {
    let (cluster, list) = resolve("4xMI250X").unwrap();
    assert_eq!((cluster.gpus_per_node, cluster.domain), (8, 8));
    assert_eq!(cluster.memory, Bytes::from_gib(64.0));
    assert!((cluster.peaks.bf16.unwrap().get() / 1e12 - 191.5).abs() < 1e-9);
    assert_eq!(assumed(&list, "cluster.gpus_per_node"), "8");
}

#[test]
fn prices_come_from_one_named_offer() {
    let hour = |price: Option<crate::UsdPerSecond>| price.map(|p| p.get() * 3600.0);
    let near = |price: Option<crate::UsdPerSecond>, usd: f64| (hour(price).unwrap() - usd).abs() < 1e-9;
    let (cluster, list) = resolve("8xH100").unwrap();
    // Each cloud at its cheapest: 1.99, 2.95, 6.88, 11.06, 11.06; the third is the median.
    assert_eq!(cluster.prices.offer, "aws p5.48xlarge us-east-1");
    assert!(near(cluster.prices.on_demand, 55.04 / 8.0));
    assert!(near(cluster.prices.spot, 17.63 / 8.0));
    assert!(near(cluster.price(PriceKind::OnDemand), 55.04));
    assert_eq!(cluster.prices.reserved_1y, None);
    assert_eq!(cluster.prices.as_of, "2026-07-20");
    assert_eq!(assumed(&list, "cluster.price"), "6.88 USD/h a GPU (aws p5.48xlarge us-east-1, 2026-07-20)");
    // A cloud or region narrows the offers.
    let (cluster, _) = resolve("gcp:8xH100@us-east4").unwrap();
    assert_eq!(cluster.prices.offer, "gcp a3-highgpu-8g us-east4");
    assert!(near(cluster.prices.reserved_3y, 38.894 / 8.0));
    // Two GPUs of a shape of eight cost two eighths; no offer is no price, never zero.
    assert!(near(resolve("a2-highgpu-8g@us-east4").unwrap().0.prices.on_demand, 31.4748 / 8.0));
    let (cluster, list) = resolve("8xMI355X").unwrap();
    assert_eq!(cluster.price(PriceKind::OnDemand), None);
    assert_eq!(assumed(&list, "cluster.price"), "unknown");
    assert_eq!(resolve("a4-highgpu-8g").unwrap().0.price(PriceKind::Spot), None);
}

#[test]
fn a_shape_without_region_is_priced_where_it_is_cheapest() {
    let (cluster, list) = resolve("a2-highgpu-8g").unwrap();
    assert_eq!(cluster.region.as_deref(), Some("us-central1"));
    assert_eq!(assumed(&list, "cluster.region"), "us-central1");
    assert_eq!(assumed(&resolve("p5.48xlarge").unwrap().1, "cluster.region"), "");
}

#[test]
fn short_names_are_read_and_said() {
    let (cluster, list) = resolve("A100").unwrap();
    assert_eq!(cluster.accelerator, "a100-sxm-80");
    assert_eq!(assumed(&list, "cluster.accelerator"), "a100-sxm-80 (A100 SXM4, 80 GB)");
    for whole in ["A100-SXM4-80GB", "a100-sxm-80", "B200", "L4", "A10"] {
        assert_eq!(assumed(&resolve(whole).unwrap().1, "cluster.accelerator"), "", "{whole}");
    }
}

#[test]
fn unknown_names_are_answered_with_the_nearest() {
    for (text, field, near) in [
        ("8xH1000", "cluster", "h100-sxm"),
        ("A100-SXM4-81GB", "cluster", "a100-sxm-80"),
        ("p5.48xlarg", "cluster", "p5.48xlarge"),
        ("aws:8xMI300X", "cluster.cloud", "azure Standard_ND96isr_MI300X_v5 eastus2"),
        ("p5.48xlarge@mars", "cluster.region", "us-east-1"),
    ] {
        let fault = resolve(text).unwrap_err();
        assert_eq!((fault.field.as_str(), fault.code), (field, ErrorCode::UnknownName), "{text}");
        assert!(fault.allowed.contains(near), "{text}: {fault}");
    }
    let fault = resolve("2x8xp5.48xlarge").unwrap_err();
    assert_eq!(fault.code, ErrorCode::Conflict);
}

#[test]
fn an_object_states_every_figure() {
    let (cluster, list) = object(
        r#"{"accelerator": "H100-SXM-80GB", "nodes": 4, "gpus_per_node": 8, "usable_gib": 75,
            "power_cap_w": 500, "link_gb_s": 225, "link_domain": 4, "host_memory_gib": 512, "vcpus": 96,
            "nvme_gb": 0, "storage_gb_s": 2, "networks": [
              {"link": "roce-400", "nics": 8, "reach_nodes": 2}, {"link": "eth-100-tcp", "node_gb_s": 12.5}],
            "price": {"on_demand": 2.5, "spot": 1.0}}"#,
    )
    .unwrap();
    assert_eq!(list, []);
    assert_eq!(cluster.memory.to_string(), "75.00 GiB");
    assert_eq!(cluster.power_limit().unwrap().to_string(), "500 W");
    assert_eq!((cluster.domain, cluster.gpus()), (4, 32));
    assert!((gb_s(cluster.within_domain.as_ref()) - 225.0).abs() < 1e-9);
    assert!((gb_s(cluster.within_node.as_ref()) - 63.0).abs() < 1e-9);
    let rate = |nodes| cluster.network(nodes).unwrap().channel.bandwidth.get() / 1e9;
    assert!((rate(2) - 400.0).abs() < 1e-9 && (rate(4) - 12.5).abs() < 1e-9);
    assert_eq!(cluster.nvme, Some(Bytes::ZERO));
    assert_eq!(cluster.price(PriceKind::OnDemand).unwrap().to_string(), "80.00 USD/h");
    assert_eq!(cluster.price(PriceKind::Reserved3y), None);
}

#[test]
fn an_object_may_hold_a_part_of_its_own() {
    let (cluster, list) = object(
        r#"{"accelerator": {"id": "x1", "memory_gb": 64, "bandwidth_gb_s": 2000, "bf16_tflops": 500},
            "gpus_per_node": 2, "link": {"id": "ring", "gb_s": 100}}"#,
    )
    .unwrap();
    assert_eq!((cluster.accelerator.as_str(), cluster.gpus()), ("x1", 2));
    assert_eq!(assumed(&list, "cluster.usable_gib"), "59.60 GiB");
    assert_eq!(assumed(&list, "cluster.price"), "unknown");
    assert!((gb_s(cluster.within_domain.as_ref()) - 100.0).abs() < 1e-9);
    // A shape with another card in it keeps the shape's host and network.
    let (cluster, _) =
        object(r#"{"instance": "p5.48xlarge", "accelerator": "h200-sxm", "nodes": 2}"#).unwrap();
    assert_eq!((cluster.accelerator.as_str(), cluster.gpus()), ("h200-sxm", 16));
    assert_eq!(cluster.network(2).unwrap().channel.link, "efa-v2");
}

#[test]
fn faults_in_an_object_name_their_field() {
    for (json, field, code) in [
        (r#"{"nodes": 2}"#, "cluster.accelerator", ErrorCode::MissingField),
        (r#"{"accelerator": "h100-sxm", "nodes": 0}"#, "cluster.nodes", ErrorCode::OutOfRange),
        (r#"{"accelerator": "h100-sxm", "nodes": 2000000}"#, "cluster.nodes", ErrorCode::OutOfRange),
        (
            r#"{"accelerator": "h100-sxm", "gpus_per_node": 0}"#,
            "cluster.gpus_per_node",
            ErrorCode::OutOfRange,
        ),
        (r#"{"accelerator": "h100-sxm", "usable_gib": -1}"#, "cluster.usable_gib", ErrorCode::OutOfRange),
        (
            r#"{"accelerator": "h100-sxm", "price": {"spot": -1}}"#,
            "cluster.price.spot",
            ErrorCode::OutOfRange,
        ),
        (r#"{"accelerator": "h100-sxm", "link": "nvlnk4"}"#, "cluster.link", ErrorCode::UnknownName),
        (r#"{"accelerator": "p5.48xlarge"}"#, "cluster.accelerator", ErrorCode::UnknownName),
        (r#"{"instance": "h100"}"#, "cluster.instance", ErrorCode::UnknownName),
        (
            r#"{"accelerator": {"id": "x", "memory_gb": 0, "bandwidth_gb_s": 1}}"#,
            "cluster.accelerator.memory_gb",
            ErrorCode::OutOfRange,
        ),
        (
            r#"{"accelerator": {"id": "x", "memory_gb": 1, "bandwidth_gb_s": 1, "pcie": "pcie9"}}"#,
            "cluster.accelerator.link",
            ErrorCode::UnknownName,
        ),
        (
            r#"{"accelerator": "h100-sxm", "nodes": 2, "networks": [{"nics": 8, "nic_gbit_s": 400, "node_gb_s": 50}]}"#,
            "cluster.networks[0].node_gb_s",
            ErrorCode::Conflict,
        ),
        (
            r#"{"accelerator": "h100-sxm", "nodes": 4, "networks": [{"reach_nodes": 2}]}"#,
            "cluster.networks",
            ErrorCode::Conflict,
        ),
    ] {
        let fault = object(json).unwrap_err();
        assert_eq!((fault.field.as_str(), fault.code), (field, code), "{json}: {fault}");
    }
    // The reader's own errors keep the path too, which an untagged enum would lose.
    for (json, field) in [
        (r#"{"accelerator": {"id": "x", "memory_gb": "80", "bandwidth_gb_s": 1}}"#, "accelerator.memory_gb"),
        (r#"{"accelerator": "h100", "networks": [{"nics": 8}, {"nix": 8}]}"#, "networks[1].nix"),
        (r#"{"accelerator": "h100", "nodes": 1.5}"#, "nodes"),
    ] {
        assert_eq!(object(json).unwrap_err().field, field, "{json}");
    }
}

#[test]
fn rows_of_a_user_win() {
    let own: CatalogRows = read(
        r#"{"accelerators": [{"id": "h100-sxm", "memory_gb": 80, "usable_gib": 70, "bandwidth_gb_s": 3000, "aliases": ["H100", "A100"]}],
            "instances": [{"cloud": "mine", "name": "rack", "gpu": "H100", "gpus": 8, "on_demand": 8}]}"#,
    )
    .unwrap();
    let catalog = Catalog::embedded().with_overrides(own).unwrap();
    let resolve = |text: &str| ClusterSpec::from(text).resolve(&catalog).unwrap().0;
    assert_eq!(resolve("A100").memory.to_string(), "70.00 GiB");
    assert_eq!(resolve("A100-SXM4-80GB").accelerator, "a100-sxm-80");
    // The user's own offer is the price, whatever the clouds ask.
    assert_eq!(resolve("8xH100").prices.offer, "mine rack");
    assert_eq!(resolve("rack").price(PriceKind::OnDemand).unwrap().to_string(), "8.00 USD/h");

    for (json, field) in [
        (
            r#"{"accelerators": [{"id": "x", "memory_gb": 1e300, "bandwidth_gb_s": 1}]}"#,
            "catalog.accelerators[x].memory_gb",
        ),
        (
            r#"{"accelerators": [{"id": "x", "memory_gb": 1, "bandwidth_gb_s": 1, "link": "warp"}]}"#,
            "catalog.accelerators[x].link",
        ),
        (
            r#"{"accelerators": [{"id": "x", "memory_gb": 1, "bandwidth_gb_s": 1, "aliases": ["h100-sxm"]}]}"#,
            "catalog.accelerators",
        ),
        (
            r#"{"instances": [{"cloud": "c", "name": "n", "gpu": "warp", "gpus": 8}]}"#,
            "catalog.instances[n].gpu",
        ),
    ] {
        let fault = Catalog::embedded().with_overrides(read(json).unwrap()).unwrap_err();
        assert_eq!(fault.field, field, "{fault}");
    }
}

#[test]
fn the_table_shows_every_row() {
    let rows = Catalog::embedded().rows();
    let text = rows.to_string();
    for id in rows.accelerators.iter().map(|row| &row.id).chain(rows.instances.iter().map(|row| &row.name)) {
        assert!(text.contains(id.as_str()), "{id}");
    }
    let widths: BTreeSet<usize> =
        text.lines().skip(1).take(rows.accelerators.len() + 1).map(|line| line.chars().count()).collect();
    assert_eq!(widths.len(), 1, "columns are aligned: {widths:?}");
}

#[test]
fn no_text_panics_and_no_figure_is_wild() {
    // Source of the generator: Knuth's MMIX linear congruence.
    let mut state = 1_u64;
    let mut next = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let pieces = [
        "8",
        "x",
        "2",
        "999999",
        "4294967295",
        " ",
        "@",
        ":",
        "H100",
        "p5.48xlarge",
        "MI250X",
        "gb200",
        "us-east-1",
        "aws",
        "gcp",
        "\u{d7}",
        "\u{e9}",
        "nvidia",
        "-",
        "",
        "16",
        "*",
        "a2-highgpu-8g",
        "L4",
    ];
    let mut read = 0;
    for _ in 0..3_000 {
        let text: String = (0..=next(5)).map(|_| pieces[next(pieces.len())]).collect();
        let Ok((cluster, _)) = resolve(&text) else { continue };
        read += 1;
        assert!(cluster.memory.get() > 0.0 && cluster.memory_bandwidth.get() > 0.0, "{text}");
        let networks = cluster.networks.iter().map(|network| &network.channel);
        for channel in cluster.within_domain.iter().chain(&cluster.within_node).chain(networks) {
            assert!(channel.bandwidth.get().is_finite() && channel.bandwidth.get() > 0.0, "{text}");
        }
        assert!(u64::from(cluster.domain) <= cluster.gpus() && cluster.domain > 0, "{text}");
        for kind in PriceKind::ALL {
            assert!(cluster.price(*kind).is_none_or(|price| price.get() > 0.0), "{text}");
        }
    }
    assert!(read > 200, "only {read} of the texts were machines");
}

#[cfg(feature = "schemars")]
#[test]
fn the_schema_says_string_or_object_with_limits() {
    let schema = schemars::schema_for!(ClusterSpec).to_value();
    assert_eq!(schema["anyOf"][0]["type"], "string");
    assert_eq!(schema["anyOf"][1]["$ref"], "#/$defs/Machines");
    let machines = &schema["$defs"]["Machines"];
    assert_eq!(machines["additionalProperties"], false);
    assert_eq!(machines["properties"]["nodes"]["maximum"], 1_000_000);
    assert!(machines["properties"]["accelerator"]["description"].is_string());
}
