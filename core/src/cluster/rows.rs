//! The rows of the catalogue, exactly as its files hold them. A row is read and written by people,
//! so its keys name human units; its methods give quantities. Absent means unknown, never zero.

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use crate::version::SCHEMA_VERSION;

/// Every kind of row: what the catalogue lists, and the form of a file a user brings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct CatalogRows {
    /// Version of this format.
    pub schema_version: u32,
    /// GPUs and other accelerators, by id.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accelerators: Vec<Accelerator>,
    /// Cloud shapes with their prices, by cloud, name and region.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<Instance>,
    /// Links inside and between nodes, by id.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    /// The usual node of each accelerator, by id.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub platforms: Vec<Platform>,
    /// Prices and rates of storage and egress, by id.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub storage: Vec<StorageOffer>,
    /// What the short names in `source` stand for, by id.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
}

impl Default for CatalogRows {
    fn default() -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            accelerators: Vec::new(),
            instances: Vec::new(),
            links: Vec::new(),
            platforms: Vec::new(),
            storage: Vec::new(),
            sources: Vec::new(),
        }
    }
}

/// One accelerator part. Peaks are dense.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Accelerator {
    /// Short name, unique, lower case.
    pub id: String,
    /// Who makes it.
    #[serde(default)]
    pub vendor: String,
    /// The vendor's name for it.
    #[serde(default)]
    pub name: String,
    /// Form factor: SXM5, PCIe, OAM, ...
    #[serde(default)]
    pub form: String,
    /// Year of release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub year: Option<u32>,
    /// The memory on the vendor's label, in GB.
    pub memory_gb: f64,
    /// The memory a framework sees, in GiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usable_gib: Option<f64>,
    /// Devices that a framework sees in one part; 1 when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices: Option<u32>,
    /// Memory bandwidth, in GB/s.
    pub bandwidth_gb_s: f64,
    /// Peak in fp32 without tensor cores, in TFLOP/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fp32_tflops: Option<f64>,
    /// Peak in tf32, in TFLOP/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tf32_tflops: Option<f64>,
    /// Peak in fp16 with fp32 accumulation, in TFLOP/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fp16_tflops: Option<f64>,
    /// Peak in bf16, in TFLOP/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bf16_tflops: Option<f64>,
    /// Peak in fp8, in TFLOP/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fp8_tflops: Option<f64>,
    /// Peak in fp4, in TFLOP/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fp4_tflops: Option<f64>,
    /// Peak in int8, in TOP/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub int8_tops: Option<f64>,
    /// Link to its neighbours, an id of `links`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Rate of that link, both directions together as vendors print it, in GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_bidirectional_gb_s: Option<f64>,
    /// Parts that the link joins, where that is not the whole node (a bridge joins 2).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link_domain: Option<u32>,
    /// PCIe link, an id of `links`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pcie: Option<String>,
    /// Link to the host where that is not PCIe, an id of `links`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_link: Option<String>,
    /// Design power of the part, in W.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tdp_w: Option<f64>,
    /// The best bf16 matrix product measured, in TFLOP/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_bf16_tflops: Option<f64>,
    /// The best fp8 matrix product measured, in TFLOP/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_fp8_tflops: Option<f64>,
    /// Fraction of the peak that large matrix products reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matmul_fraction: Option<f64>,
    /// Where that fraction comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matmul_basis: Option<String>,
    /// The usual node, an id of `platforms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub platform: Option<String>,
    /// Other names it answers to; case, spaces and punctuation do not count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aliases: Vec<String>,
    /// Where the figures come from.
    #[serde(default)]
    pub source: String,
    /// When they were compiled (ISO 8601).
    #[serde(default)]
    pub as_of: String,
    /// How well they were checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// What else a reader must know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// One cloud shape in one region. Prices are US dollars per hour of the whole shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Instance {
    /// The cloud.
    pub cloud: String,
    /// The cloud's name for the shape.
    pub name: String,
    /// Its accelerator, an id or alias of `accelerators`.
    pub gpu: String,
    /// How many of them.
    pub gpus: u32,
    /// Link between them, an id of `links`; the accelerator's own when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
    /// Parts joined by that link, where that is not the whole shape.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<u32>,
    /// Network for traffic between the accelerators of several shapes, an id of `links`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// Network cards behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nics: Option<u32>,
    /// Rate of that network, one direction, in Gbit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_gbit_s: Option<f64>,
    /// Rate the cloud advertises where that counts other cards too, in Gbit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_total_gbit_s: Option<f64>,
    /// Virtual CPUs (hardware threads).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vcpus: Option<u32>,
    /// Host memory, in GiB (clouds that write GB mean GiB).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ram_gib: Option<f64>,
    /// Local NVMe, in GB; 0 where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nvme_gb: Option<f64>,
    /// On-demand price, in USD/h.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_demand: Option<f64>,
    /// Lowest and highest on-demand price over the cloud's regions, in USD/h.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub on_demand_range: Option<[f64; 2]>,
    /// Spot price, in USD/h.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot: Option<f64>,
    /// Lowest and highest spot price seen over zones or regions, in USD/h.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot_range: Option<[f64; 2]>,
    /// How the spot price is known: `published`, `zones` (a snapshot by zone) or `advisor`
    /// (on-demand less the advertised saving).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot_basis: Option<String>,
    /// Source of the spot price, where it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot_source: Option<String>,
    /// Date of the spot price, where it is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spot_as_of: Option<String>,
    /// Price under a one-year commitment, in USD/h.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_1y: Option<f64>,
    /// Price under a three-year commitment, in USD/h.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_3y: Option<f64>,
    /// Price of a block booked ahead, in USD/h (a listing of 2024-12).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity_block: Option<f64>,
    /// Share of spot shapes taken back in a month, lowest and highest, in per cent (2025-06-28).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interruption_pct: Option<[f64; 2]>,
    /// The cloud's region.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// Where the prices come from, an id of `sources` or plain words.
    #[serde(default)]
    pub source: String,
    /// Where virtual CPUs, memory and NVMe come from, where that is another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub specs: Option<String>,
    /// Date of the prices (ISO 8601; a bare year where the day is unknown).
    #[serde(default)]
    pub as_of: String,
    /// What else a reader must know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Given by the user: its price wins over the embedded ones.
    #[serde(skip)]
    pub(super) own: bool,
}

/// One kind of link. Rates are one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Link {
    /// Short name, unique.
    #[serde(default)]
    pub id: String,
    /// `intra` (in a node), `rack`, `inter` (between nodes), `host`, or `hop` (constants of the
    /// communication library).
    #[serde(default)]
    pub kind: String,
    /// The field's name for it.
    #[serde(default)]
    pub name: String,
    /// What the rates are per: `gpu`, `port`, `node` or `hop`.
    #[serde(default)]
    pub per: String,
    /// Nominal rate, one direction, in GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gb_s: Option<f64>,
    /// Nominal rate of a port, in Gbit/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_gbit_s: Option<f64>,
    /// Best bus bandwidth measured, in GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_gb_s: Option<f64>,
    /// Share of the nominal rate that ring collectives of large messages reach.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fraction: Option<f64>,
    /// The same for all-to-all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all_to_all_fraction: Option<f64>,
    /// The same for an all-reduce that the switch sums.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_switch_fraction: Option<f64>,
    /// Smallest group for which the library lets the switch sum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_switch_min_gpus: Option<u32>,
    /// The share that a pinned copy between host and device reaches.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copy_fraction: Option<f64>,
    /// Time of a small collective, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_us: Option<f64>,
    /// Time of one hop, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hop_us: Option<f64>,
    /// Constant term of the fitted collective time, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alpha_us: Option<f64>,
    /// Square-root term of the fitted collective time, in microseconds per sqrt(byte).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sqrt_us: Option<f64>,
    /// Bus bandwidth of the fit for endless messages, in GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fitted_gb_s: Option<f64>,
    /// What was fitted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fit: Option<String>,
    /// Where the figures come from.
    #[serde(default)]
    pub source: String,
    /// When they were compiled (ISO 8601).
    #[serde(default)]
    pub as_of: String,
    /// How well they were checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// What else a reader must know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The usual node of a class of accelerators: how many parts it holds and how nodes are joined.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Platform {
    /// Short name, unique.
    pub id: String,
    /// What it is.
    #[serde(default)]
    pub name: String,
    /// Parts in a node.
    pub gpus_per_node: u32,
    /// Parts that the fast link joins, where that reaches past the node (a rack of 72).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub domain: Option<u32>,
    /// Network between nodes, an id of `links`.
    pub network: String,
    /// Network cards in a node.
    pub nics: u32,
    /// Their rate together, one direction, in Gbit/s.
    pub network_gbit_s: f64,
    /// Where this comes from.
    #[serde(default)]
    pub source: String,
    /// When it was compiled (ISO 8601).
    #[serde(default)]
    pub as_of: String,
    /// How well it was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// What else a reader must know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// One storage product, egress tariff or measured store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StorageOffer {
    /// Short name, unique.
    pub id: String,
    /// `egress`, `object`, `file`, `block`, or `perf` (a measured store without price).
    #[serde(default)]
    pub kind: String,
    /// Who offers it.
    #[serde(default)]
    pub provider: String,
    /// The provider's name for it.
    #[serde(default)]
    pub product: String,
    /// Price of moving a GB, in USD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_per_gb: Option<f64>,
    /// Price of keeping a GB for a month, in USD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_per_gb_month: Option<f64>,
    /// Rate, in GB/s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gb_s: Option<f64>,
    /// What that rate is per: `client`, `node`, `volume`, `disk`, `tib` or `tb` kept, `total`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub per: Option<String>,
    /// Where the figures come from, an id of `sources` or plain words.
    #[serde(default)]
    pub source: String,
    /// Their date (ISO 8601; a bare year where the day is unknown).
    #[serde(default)]
    pub as_of: String,
    /// How well they were checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check: Option<String>,
    /// What else a reader must know.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// What a short name in a row's `source` stands for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Short name, unique.
    pub id: String,
    /// Address.
    pub url: String,
    /// Licence of the data.
    pub licence: String,
    /// Date of the data (ISO 8601).
    pub as_of: String,
    /// What was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}
