//! Machines in plain figures: what the rooms to the right read.

use core::fmt;

use serde::Serialize;
use shardwise_derive::ToJson;

use crate::vocabulary::vocabulary;
use crate::{Bytes, BytesPerSecond, FlopsPerSecond, Seconds, UsdPerSecond, Watts};

/// Dense peak rates by compute type; `None` where the part has no such type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Peaks {
    /// fp32 without tensor cores.
    pub fp32: Option<FlopsPerSecond>,
    /// tf32.
    pub tf32: Option<FlopsPerSecond>,
    /// fp16 with fp32 accumulation.
    pub fp16: Option<FlopsPerSecond>,
    /// bf16.
    pub bf16: Option<FlopsPerSecond>,
    /// fp8.
    pub fp8: Option<FlopsPerSecond>,
    /// fp4.
    pub fp4: Option<FlopsPerSecond>,
    /// int8, in operations.
    pub int8: Option<FlopsPerSecond>,
}

impl Peaks {
    /// The same peaks for one of `parts` equal devices.
    pub(super) fn shared_by(self, parts: f64) -> Self {
        let share = |peak: Option<FlopsPerSecond>| peak.map(|peak| peak / parts);
        Self {
            fp32: share(self.fp32),
            tf32: share(self.tf32),
            fp16: share(self.fp16),
            bf16: share(self.bf16),
            fp8: share(self.fp8),
            fp4: share(self.fp4),
            int8: share(self.int8),
        }
    }
}

/// An all-reduce summed by the switch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct InSwitch {
    /// Share of the nominal one-direction rate that its bus bandwidth reaches; may pass 1.
    pub fraction: f64,
    /// Smallest group for which the library uses it.
    pub min_gpus: u32,
}

/// A way for bytes: its nominal rate and what is known of how collectives use it.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Channel {
    /// The link's id in the catalogue (`nvlink4`, `pcie5x16`, `ib-ndr`, `efa-v2`, ...).
    pub link: String,
    /// Nominal rate, one direction: of one GPU inside a node, of one node between nodes.
    pub bandwidth: BytesPerSecond,
    /// Share of it that ring collectives of large messages reach.
    pub fraction: Option<f64>,
    /// The same for all-to-all.
    pub all_to_all_fraction: Option<f64>,
    /// All-reduce in the switch, where the link has it.
    pub in_switch: Option<InSwitch>,
    /// Share that a pinned copy between host and device reaches.
    pub copy_fraction: Option<f64>,
    /// Time of a small collective.
    pub latency: Option<Seconds>,
    /// Time of one hop.
    pub hop: Option<Seconds>,
    /// Constant term of the fitted collective time.
    pub alpha: Option<Seconds>,
    /// Square-root term of the fitted collective time, in seconds per sqrt(byte).
    pub sqrt: Option<f64>,
    /// Bus bandwidth of that fit for endless messages.
    pub fitted: Option<BytesPerSecond>,
}

/// A network between nodes.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Network {
    /// The link, with the rate of all cards of one node together.
    pub channel: Channel,
    /// Cards in a node.
    pub nics: u32,
    /// Nodes that it joins at this rate; a later network of the list joins more.
    pub reach_nodes: u32,
}

vocabulary! {
    /// How machines are paid for.
    PriceKind {
        /// By the hour.
        OnDemand = "on_demand",
        /// By the hour, until the cloud takes them back.
        Spot = "spot",
        /// Committed for one year.
        Reserved1y = "reserved_1y",
        /// Committed for three years.
        Reserved3y = "reserved_3y",
    } default OnDemand
}

/// Prices of one GPU, all from the same offer. `None` is unknown, never free.
#[derive(Clone, Debug, Default, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Prices {
    /// By the hour.
    pub on_demand: Option<UsdPerSecond>,
    /// Spot.
    pub spot: Option<UsdPerSecond>,
    /// Lowest and highest spot price seen over zones or regions.
    pub spot_range: Option<[UsdPerSecond; 2]>,
    /// One-year commitment.
    pub reserved_1y: Option<UsdPerSecond>,
    /// Three-year commitment.
    pub reserved_3y: Option<UsdPerSecond>,
    /// Whose prices: cloud, shape and region, or `given in the request`; empty when unknown.
    pub offer: String,
    /// Where they come from.
    pub source: String,
    /// Their date.
    pub as_of: String,
    /// Where the spot price comes from, where that is another place.
    pub spot_source: Option<String>,
    /// Date of the spot price, where it is another.
    pub spot_as_of: Option<String>,
}

impl Prices {
    /// The price of one GPU under `kind`.
    #[must_use]
    pub const fn per_gpu(&self, kind: PriceKind) -> Option<UsdPerSecond> {
        match kind {
            PriceKind::OnDemand => self.on_demand,
            PriceKind::Spot => self.spot,
            PriceKind::Reserved1y => self.reserved_1y,
            PriceKind::Reserved3y => self.reserved_3y,
        }
    }
}

/// The machines of a run. All figures of an accelerator are those of one device as a framework
/// sees it (a GPU below): one rank.
///
/// GPUs are joined in three tiers: `domain` consecutive GPUs by `within_domain` (`NVLink`; may span
/// nodes in a rack, or join only pairs where there are bridges), the rest of a node by
/// `within_node`, and nodes by `networks`.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Cluster {
    /// The accelerator's id in the catalogue.
    pub accelerator: String,
    /// Who makes it.
    pub vendor: String,
    /// Form factor.
    pub form: String,
    /// Year of release.
    pub year: Option<u32>,
    /// The cloud shape, where one was named.
    pub instance: Option<String>,
    /// The cloud, where one was named or follows from the shape.
    pub cloud: Option<String>,
    /// Its region.
    pub region: Option<String>,
    /// Nodes.
    pub nodes: u32,
    /// GPUs in a node.
    pub gpus_per_node: u32,
    /// Memory a framework sees on one GPU.
    pub memory: Bytes,
    /// Nominal memory bandwidth of one GPU.
    pub memory_bandwidth: BytesPerSecond,
    /// Dense peaks of one GPU.
    pub peaks: Peaks,
    /// Best bf16 matrix product measured on one GPU.
    pub measured_bf16: Option<FlopsPerSecond>,
    /// Best fp8 matrix product measured on one GPU.
    pub measured_fp8: Option<FlopsPerSecond>,
    /// Share of the peak that large matrix products reach.
    pub matmul_fraction: Option<f64>,
    /// Design power of one GPU.
    pub power: Option<Watts>,
    /// Power one GPU is held to, where that is less.
    pub power_cap: Option<Watts>,
    /// GPUs joined by `within_domain`; at least 1, and more than a node where a rack is one domain.
    pub domain: u32,
    /// The fastest link between GPUs, rate of one GPU; `None` where GPUs have no link.
    pub within_domain: Option<Channel>,
    /// The link between domains of one node; equal to `within_domain` where a domain is a node.
    pub within_node: Option<Channel>,
    /// The link between a GPU and its host.
    pub host: Option<Channel>,
    /// Networks between nodes, from the one that reaches least to the one that reaches all.
    pub networks: Vec<Network>,
    /// Memory of one host.
    pub host_memory: Option<Bytes>,
    /// Hardware threads of one host.
    pub vcpus: Option<u32>,
    /// Local NVMe of one node.
    pub nvme: Option<Bytes>,
    /// What one node reads from or writes to the shared store.
    pub storage: Option<BytesPerSecond>,
    /// Share of spot machines of the priced offer taken back in a month, lowest and highest (0 to 1).
    pub interruption: Option<[f64; 2]>,
    /// Prices of one GPU.
    pub prices: Prices,
}

impl Cluster {
    /// What the NVMe drives of a p4d-class node take and give: 7.35 GB/s.
    ///
    /// Source: torchsnapshot, 20 GB from 1, 2 and 4 nodes in 3.38, 2.02 and 1.29 s.
    pub const NODE_NVME: BytesPerSecond = BytesPerSecond::of(7.35e9);

    /// Whether the ranks run on processors, without an accelerator.
    #[must_use]
    pub fn is_processor(&self) -> bool {
        self.form.eq_ignore_ascii_case("cpu")
    }

    /// GPUs in all.
    ///
    /// ```
    /// use shardwise::{Catalog, ClusterSpec};
    /// let (cluster, _) = ClusterSpec::from("2x8xA100-SXM4-80GB").resolve(Catalog::embedded()).unwrap();
    /// assert_eq!(cluster.gpus(), 16);
    /// ```
    #[must_use]
    pub fn gpus(&self) -> u64 {
        u64::from(self.nodes) * u64::from(self.gpus_per_node)
    }

    /// What the whole cluster costs under `kind`; `None` when unknown.
    #[must_use]
    pub fn price(&self, kind: PriceKind) -> Option<UsdPerSecond> {
        self.prices.per_gpu(kind).map(|one| one * self.gpus() as f64)
    }

    /// The network that joins `nodes` nodes: the first whose reach suffices, else the widest.
    #[must_use]
    pub fn network(&self, nodes: u32) -> Option<&Network> {
        self.networks.iter().find(|n| n.reach_nodes >= nodes).or(self.networks.last())
    }

    /// One direction of the network's rate for each GPU of a node, all sending at once.
    #[must_use]
    pub fn network_per_gpu(&self, network: &Network) -> BytesPerSecond {
        network.channel.bandwidth / f64::from(self.gpus_per_node)
    }

    /// The power one GPU may draw.
    #[must_use]
    pub fn power_limit(&self) -> Option<Watts> {
        match (self.power, self.power_cap) {
            (Some(design), Some(cap)) => Some(design.min(cap)),
            (design, cap) => design.or(cap),
        }
    }
}

impl fmt::Display for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nodes > 1 {
            write!(f, "{} x ", self.nodes)?;
        }
        write!(f, "{} x {} ({})", self.gpus_per_node, self.accelerator, self.memory)?;
        if let Some(instance) = &self.instance {
            write!(f, ", {instance}")?;
        }
        Ok(())
    }
}
