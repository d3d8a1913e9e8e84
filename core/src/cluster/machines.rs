//! How a request describes machines.

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use super::name_or::NameOr;
use super::rows::{Accelerator, Link};

/// The machines of a request: a string or a [`Machines`] object.
///
/// Strings read `[CLOUD:][NODES x][GPUS x]NAME[@REGION]`:
///
/// | text | meaning |
/// | --- | --- |
/// | `H100` | one GPU |
/// | `8xH100-SXM-80GB` | eight GPUs, one node |
/// | `64xH100` | eight nodes of the usual eight |
/// | `2x8xA100-SXM4-80GB` | two nodes of eight |
/// | `p5.48xlarge` | one cloud shape |
/// | `4 x p5.48xlarge@us-east-1` | four of them, priced in that region |
/// | `aws:8xH100` | eight GPUs at that cloud's price |
///
/// Case, spaces and punctuation in names do not count.
pub type ClusterSpec = NameOr<Machines>;

/// Machines in full. Every field but the accelerator or instance may be left out; what was assumed
/// for it is listed in the answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Machines {
    /// The accelerator: an id or alias of the catalogue, or a row of one's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accelerator: Option<NameOr<Accelerator>>,
    /// A cloud shape of the catalogue, in place of or beside the accelerator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The cloud whose prices count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud: Option<String>,
    /// The region whose prices count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Nodes; 1 when absent.
    #[cfg_attr(feature = "schemars", schemars(range(min = 1, max = 1_000_000)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u32>,
    /// Accelerators in a node; the shape's or the usual node's when absent.
    #[cfg_attr(feature = "schemars", schemars(range(min = 1, max = 1024)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpus_per_node: Option<u32>,
    /// Memory a framework sees on one GPU, in GiB.
    #[cfg_attr(feature = "schemars", schemars(range(min = 0.1, max = 100_000.0)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usable_gib: Option<f64>,
    /// Power each accelerator is held to, in W.
    #[cfg_attr(feature = "schemars", schemars(range(min = 10.0, max = 10_000.0)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_cap_w: Option<f64>,
    /// The link between accelerators: an id of the catalogue, or a row of one's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<NameOr<Link>>,
    /// Its rate for one accelerator, one direction, in GB/s.
    #[cfg_attr(feature = "schemars", schemars(range(min = 0.001, max = 1_000_000.0)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_gb_s: Option<f64>,
    /// Accelerators it joins: 2 for bridges, 72 for a rack; the node when absent.
    #[cfg_attr(feature = "schemars", schemars(range(min = 1, max = 65_536)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_domain: Option<u32>,
    /// Networks between nodes, from the one that reaches least to the one that reaches all.
    #[cfg_attr(feature = "schemars", schemars(length(max = 8)))]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<NetworkSpec>,
    /// Memory of one host, in GiB.
    #[cfg_attr(feature = "schemars", schemars(range(min = 0.1, max = 1_000_000.0)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_memory_gib: Option<f64>,
    /// Hardware threads of one host.
    #[cfg_attr(feature = "schemars", schemars(range(min = 1, max = 65_536)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<u32>,
    /// Local NVMe of one node, in GB; 0 where there is none.
    #[cfg_attr(feature = "schemars", schemars(range(min = 0.0, max = 10_000_000.0)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvme_gb: Option<f64>,
    /// What one node reads from or writes to the shared store, in GB/s.
    #[cfg_attr(feature = "schemars", schemars(range(min = 0.001, max = 1_000_000.0)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_gb_s: Option<f64>,
    /// Prices of one's own, in USD per accelerator and hour; they replace the catalogue's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub price: Option<PriceSpec>,
}

/// A network between nodes. Give its rate by node, by card, or leave it to the link's own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct NetworkSpec {
    /// The kind of network: an id of the catalogue's links (`ib-ndr`, `roce-400`, `efa-v2`,
    /// `eth-100-tcp`, ...), or a row of one's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<NameOr<Link>>,
    /// Rate of one node, one direction, in GB/s.
    #[cfg_attr(feature = "schemars", schemars(range(min = 0.0001, max = 1_000_000.0)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_gb_s: Option<f64>,
    /// Rate of one card, one direction, in Gbit/s.
    #[cfg_attr(feature = "schemars", schemars(range(min = 0.001, max = 1_000_000.0)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nic_gbit_s: Option<f64>,
    /// Cards in a node.
    #[cfg_attr(feature = "schemars", schemars(range(min = 1, max = 1024)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nics: Option<u32>,
    /// Nodes joined at this rate; all of them when absent.
    #[cfg_attr(feature = "schemars", schemars(range(min = 1, max = 1_000_000)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reach_nodes: Option<u32>,
}

/// Prices in USD per accelerator and hour. Absent means unknown.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct PriceSpec {
    /// By the hour.
    #[cfg_attr(feature = "schemars", schemars(range(min = 0.0, max = 1_000_000.0)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_demand: Option<f64>,
    /// Spot.
    #[cfg_attr(feature = "schemars", schemars(range(min = 0.0, max = 1_000_000.0)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot: Option<f64>,
    /// One-year commitment.
    #[cfg_attr(feature = "schemars", schemars(range(min = 0.0, max = 1_000_000.0)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_1y: Option<f64>,
    /// Three-year commitment.
    #[cfg_attr(feature = "schemars", schemars(range(min = 0.0, max = 1_000_000.0)))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_3y: Option<f64>,
    /// Where they come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Their date (ISO 8601).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub as_of: Option<String>,
}
