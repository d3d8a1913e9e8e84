//! The collective model against published NCCL and RCCL sweeps (`tests/data/hardware`).

use shardwise::ClusterSpec;
use shardwise::cluster::{Catalog, Machines};
use shardwise::collective::{Fabric, Group};
use shardwise::workload::Backend;

/// One series of measurements.
struct Series {
    gpu: &'static str,
    link: &'static str,
    /// The cluster, its nodes left to the row.
    machines: &'static str,
}

const SERIES: &[Series] = &[
    Series { gpu: "A100-SXM", link: "NVLink3/NVSwitch", machines: r#"{"accelerator": "a100-sxm-80"}"# },
    Series {
        gpu: "A100-SXM4-80GB",
        link: "EFA v1 4x100Gbps (p4de)",
        machines: r#"{"accelerator": "a100-sxm-80", "networks": [{"link": "efa-v1"}]}"#,
    },
    Series { gpu: "H100-SXM5", link: "NVLink4/NVSwitch (NVLS)", machines: r#"{"accelerator": "h100-sxm"}"# },
    Series { gpu: "H200-SXM", link: "NVLink4/NVSwitch (NVLS)", machines: r#"{"accelerator": "h200-sxm"}"# },
    Series { gpu: "H200-SXM", link: "NVLink4/NVSwitch (ring)", machines: r#"{"accelerator": "h200-sxm"}"# },
    Series { gpu: "B200-SXM", link: "NVLink5/NVSwitch (NVLS)", machines: r#"{"accelerator": "b200"}"# },
    Series {
        gpu: "H100-SXM5",
        link: "8x400Gbps RDMA per node (DGX-class)",
        machines: r#"{"accelerator": "h100-sxm"}"#,
    },
    Series {
        gpu: "H100-SXM5",
        link: "8x400Gbps IB (NVLSTree, NVIDIA)",
        machines: r#"{"accelerator": "h100-sxm"}"#,
    },
    Series {
        gpu: "H200-SXM",
        link: "RoCE GPUDirect RDMA 8x400Gbps (a3-ultragpu)",
        machines: r#"{"accelerator": "h200-sxm", "networks": [{"link": "gcp-roce"}]}"#,
    },
    Series {
        gpu: "H100-SXM5",
        link: "GPUDirect-TCPXO 8x200Gbps (a3-megagpu)",
        machines: r#"{"accelerator": "h100-sxm", "networks": [{"link": "tcpxo"}]}"#,
    },
    Series {
        gpu: "H100-SXM5",
        link: "GPUDirect-TCPX 4x200Gbps (a3-highgpu)",
        machines: r#"{"accelerator": "h100-sxm", "networks": [{"link": "tcpx"}]}"#,
    },
    Series {
        gpu: "B200-SXM",
        link: "EFA v4 8x400Gbps + NVLink5",
        machines: r#"{"accelerator": "b200", "networks": [{"link": "efa-v4"}]}"#,
    },
    Series { gpu: "GB200", link: "NVL72 NVLink5 single rack", machines: r#"{"accelerator": "gb200"}"# },
    Series { gpu: "GB200", link: "2 NVL72 racks + Quantum IB", machines: r#"{"accelerator": "gb200"}"# },
    Series { gpu: "RTX 5090", link: "PCIe 5 x16 through host", machines: r#"{"accelerator": "rtx-5090"}"# },
    Series { gpu: "V100-SXM2-32GB", link: "NVLink2 mesh", machines: r#"{"accelerator": "v100-sxm2-32"}"# },
    Series { gpu: "MI300X", link: "xGMI full mesh", machines: r#"{"accelerator": "mi300x"}"# },
    Series {
        gpu: "A100-SXM4-40GB",
        link: "RoCE 16x100Gbps (OCI BM.GPU.B4.8)",
        machines: r#"{"accelerator": "a100-sxm-40", "networks": [{"link": "roce-100", "node_gb_s": 200}]}"#,
    },
];

/// Below this size the launch of the benchmark itself is what is measured: 40 us, where a step that
/// runs on has 16.
const LEAST_BYTES: f64 = 1_048_576.0;

fn predicted(series: &Series, nodes: u32, per_node: u32, ranks: f64, collective: &str, bytes: f64) -> f64 {
    let mut machines: Machines = serde_json::from_str(series.machines).expect("a cluster");
    machines.nodes = Some(nodes);
    machines.gpus_per_node = Some(per_node);
    let (cluster, _) = ClusterSpec::Full(Box::new(machines)).resolve(Catalog::embedded()).expect("known");
    let fabric = Fabric::new(&cluster, Backend::Nccl);
    let group = Group::new(ranks, 1.0);
    match collective {
        "all_reduce" => fabric.all_reduce(bytes, &group),
        _ => fabric.all_gather(bytes, &group),
    }
}

#[test]
fn sweeps() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/data/hardware/nccl_measurements.csv");
    let mut reader = csv::Reader::from_path(file).expect("the table");
    let headers = reader.headers().expect("headers").clone();
    let mut errors: Vec<f64> = Vec::new();
    for record in reader.records() {
        let record = record.expect("a row");
        let get = |name: &str| {
            headers.iter().position(|h| h == name).and_then(|i| record.get(i)).unwrap_or_default()
        };
        let number = |name: &str| get(name).parse::<f64>().ok();
        let Some(at) = SERIES.iter().position(|s| s.gpu == get("gpu") && s.link == get("link")) else {
            continue;
        };
        let (Some(bytes), Some(time)) = (number("bytes"), number("time_us")) else { continue };
        let collective = get("collective");
        if bytes < LEAST_BYTES || !matches!(collective, "all_reduce" | "all_gather" | "reduce_scatter") {
            continue;
        }
        let (nodes, per_node) =
            (number("nodes").unwrap_or(1.0) as u32, number("gpus_per_node").unwrap_or(8.0) as u32);
        let ranks = f64::from(nodes * per_node);
        let found = predicted(&SERIES[at], nodes, per_node, ranks, collective, bytes) * 1e6;
        errors.push((found / time - 1.0).abs());
    }
    errors.sort_by(f64::total_cmp);
    let (median, p90) = (errors[errors.len() / 2], errors[errors.len() * 9 / 10]);
    println!("{} points, median {:.1} %, p90 {:.1} %", errors.len(), 100.0 * median, 100.0 * p90);
    assert!(errors.len() > 290, "{} points", errors.len());
    // Two-parameter lines fitted to each series miss by 8 to 28 %.
    assert!(median < 0.06, "median {median}");
    assert!(p90 < 0.21, "p90 {p90}");
}
