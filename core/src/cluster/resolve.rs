//! From the words of a request to machines in figures. Whatever the request leaves open is taken
//! from the catalogue, and what the catalogue cannot know is assumed and listed.

use std::borrow::Cow;

use crate::assumption::Assumption;
use crate::error::{Error, ErrorCode, Result, in_range};
use crate::{Bytes, Watts};

use super::catalog::{Catalog, Found};
use super::figures::gb_s;
use super::machines::{ClusterSpec, Machines};
use super::name_or::NameOr;
use super::named::{self, Counts, Named};
use super::resolved::{Channel, Cluster, Network};
use super::rows::{Accelerator, Instance, Platform};

/// Nodes of a cluster, at most.
pub(super) const MOST_NODES: u32 = 1_000_000;
/// GPUs in a node where no usual node is known.
const USUAL_GPUS: u32 = 8;

/// The choice of machines, before the figures are filled in.
pub(super) struct Choice<'a> {
    pub catalog: &'a Catalog,
    pub given: &'a Machines,
    pub part: &'a Accelerator,
    pub shape: Option<&'a Instance>,
    pub platform: Option<&'a Platform>,
    pub nodes: u32,
    pub parts_per_node: u32,
    pub cloud: Option<&'a str>,
    pub region: Option<&'a str>,
    pub assumed: Vec<Assumption>,
}

impl ClusterSpec {
    /// The machines in figures, and what was assumed for everything not given.
    ///
    /// ```
    /// use shardwise::{Catalog, ClusterSpec, PriceKind};
    /// let (cluster, assumed) =
    ///     ClusterSpec::from("8xH100-SXM-80GB").resolve(Catalog::embedded()).unwrap();
    /// assert_eq!(cluster.gpus(), 8);
    /// assert_eq!(cluster.memory.to_string(), "79.10 GiB");
    /// // NVLink 4: 900 GB/s both ways, 450 one way.
    /// assert_eq!(cluster.within_domain.unwrap().bandwidth.to_string(), "450.0 GB/s");
    /// // Median over clouds: p5.48xlarge, 55.04 USD/h for eight.
    /// assert_eq!(cluster.prices.per_gpu(PriceKind::OnDemand).unwrap().to_string(), "6.88 USD/h");
    /// assert!(assumed.iter().any(|a| a.field == "cluster.price"));
    /// ```
    ///
    /// # Errors
    /// A name is unknown, a figure is out of range, or two of them contradict each other. The path
    /// of the error begins with `cluster`.
    pub fn resolve(&self, catalog: &Catalog) -> Result<(Cluster, Vec<Assumption>)> {
        match self {
            Self::Name(text) => {
                let given = Machines::default();
                Choice::of_text(catalog, &given, &named::parse(text)?)?.cluster()
            }
            Self::Full(given) => Choice::of_object(catalog, given)?.cluster(),
        }
    }

    /// The networks that join several such nodes: one node alone resolves to none.
    pub(crate) fn networks_between(&self, catalog: &Catalog) -> Result<Vec<Network>> {
        let several = |choice: Choice<'_>| Choice { nodes: choice.nodes.max(2), ..choice }.cluster();
        let (cluster, _) = match self {
            Self::Name(text) => {
                let given = Machines::default();
                several(Choice::of_text(catalog, &given, &named::parse(text)?)?)?
            }
            Self::Full(given) => several(Choice::of_object(catalog, given)?)?,
        };
        Ok(cluster.networks)
    }
}

impl<'a> Choice<'a> {
    fn of_text(catalog: &'a Catalog, given: &'a Machines, text: &Named<'a>) -> Result<Self> {
        let mut assumed = Vec::with_capacity(6);
        let (cloud, region) = (text.cloud, text.region);
        match catalog.find("cluster", text.name)? {
            Found::Accelerator(part, short) => {
                if short {
                    assumed.push(short_name(part));
                }
                let platform = part.platform.as_ref().and_then(|id| catalog.platform(id));
                let (nodes, parts_per_node) = match text.counts {
                    Counts::None => (1, 1),
                    Counts::Two(nodes, gpus) => (nodes, gpus),
                    Counts::One(gpus) => split(gpus, platform, &mut assumed)?,
                };
                let shape = None;
                let it = Self {
                    catalog,
                    given,
                    part,
                    shape,
                    platform,
                    nodes,
                    parts_per_node,
                    cloud,
                    region,
                    assumed,
                };
                it.checked()
            }
            Found::Instance(rows) => {
                let nodes = match text.counts {
                    Counts::None => 1,
                    Counts::One(nodes) => nodes,
                    Counts::Two(..) => {
                        return Err(Error::new(
                            "cluster",
                            ErrorCode::Conflict,
                            format_args!("two counts before {}", text.name),
                            "one count before a cloud shape: its nodes",
                        ));
                    }
                };
                Self::of_shape(catalog, given, rows, nodes, cloud, region, assumed)?.checked()
            }
        }
    }

    fn of_shape(
        catalog: &'a Catalog,
        given: &'a Machines,
        rows: &'a [Instance],
        nodes: u32,
        cloud: Option<&'a str>,
        region: Option<&'a str>,
        mut assumed: Vec<Assumption>,
    ) -> Result<Self> {
        let fits = |row: &&Instance| is(cloud, Some(&row.cloud)) && is(region, row.region.as_ref());
        let own = rows.iter().any(|row| row.own && fits(&row));
        let among = || rows.iter().filter(fits).filter(move |row| row.own || !own);
        let Some(shape) = among().min_by(|a, b| a.price_rank().total_cmp(&b.price_rank())) else {
            let places: Vec<String> = rows.iter().map(Instance::place).collect();
            return Err(elsewhere(cloud, region, &places));
        };
        if region.is_none() && among().nth(1).is_some() {
            let place = shape.region.clone().unwrap_or_default();
            assumed.push(Assumption::new("cluster.region", place, "its cheapest on-demand price"));
        }
        let part = catalog.accelerator(&shape.gpu).map_err(|e| e.under("cluster.instance"))?;
        let platform = part.platform.as_ref().and_then(|id| catalog.platform(id));
        Ok(Self {
            catalog,
            given,
            part,
            shape: Some(shape),
            platform,
            nodes,
            parts_per_node: shape.gpus,
            cloud: Some(&shape.cloud),
            region: shape.region.as_deref(),
            assumed,
        })
    }

    fn of_object(catalog: &'a Catalog, given: &'a Machines) -> Result<Self> {
        let (cloud, region) = (given.cloud.as_deref(), given.region.as_deref());
        let nodes = given.nodes.unwrap_or(1);
        let mut it = if let Some(name) = &given.instance {
            let rows = catalog.instances(name).map_err(|e| e.under("cluster.instance"))?;
            Self::of_shape(catalog, given, rows, nodes, cloud, region, Vec::with_capacity(4))?
        } else {
            let Some(part) = &given.accelerator else {
                let allowed = "an accelerator or an instance";
                let (field, code) = ("cluster.accelerator", ErrorCode::MissingField);
                return Err(Error::new(field, code, "nothing", allowed));
            };
            let (part, assumed) = Self::part(catalog, part)?;
            let platform = part.platform.as_ref().and_then(|id| catalog.platform(id));
            let (shape, parts_per_node) = (None, usual(platform));
            Self { catalog, given, part, shape, platform, nodes, parts_per_node, cloud, region, assumed }
        };
        if let (Some(part), Some(_)) = (&given.accelerator, it.shape) {
            let (part, assumed) = Self::part(catalog, part)?;
            it.part = part;
            it.assumed.extend(assumed);
        }
        if let Some(gpus) = given.gpus_per_node {
            it.parts_per_node = gpus;
        } else if it.shape.is_none() {
            let many = it.parts_per_node.to_string();
            it.assumed.push(Assumption::new("cluster.gpus_per_node", many, "the usual node"));
        }
        it.checked()
    }

    fn part(
        catalog: &'a Catalog,
        part: &'a NameOr<Accelerator>,
    ) -> Result<(&'a Accelerator, Vec<Assumption>)> {
        const FIELD: &str = "cluster.accelerator";
        match part {
            NameOr::Full(row) => {
                row.check().map_err(|e| e.under(FIELD))?;
                Ok((row, Vec::new()))
            }
            NameOr::Name(name) => match catalog.find(FIELD, name)? {
                Found::Accelerator(part, false) => Ok((part, Vec::new())),
                Found::Accelerator(part, true) => Ok((part, vec![short_name(part)])),
                Found::Instance(_) => Err(Error::new(
                    FIELD,
                    ErrorCode::UnknownName,
                    format_args!("\"{name}\""),
                    "an accelerator; a cloud shape is named in `instance`",
                )),
            },
        }
    }

    fn checked(self) -> Result<Self> {
        in_range("cluster.nodes", f64::from(self.nodes), 1.0, f64::from(MOST_NODES))?;
        in_range("cluster.gpus_per_node", f64::from(self.parts_per_node), 1.0, 1024.0)?;
        Ok(self)
    }

    /// Devices a framework sees in one part.
    pub(super) fn devices(&self) -> u32 {
        self.part.devices.unwrap_or(1).max(1)
    }

    pub(super) fn assume(
        &mut self,
        field: &'static str,
        value: impl Into<String>,
        why: impl Into<Cow<'static, str>>,
    ) {
        self.assumed.push(Assumption::new(field, value, why));
    }

    /// The figures. An option may be `None` for what nobody published.
    fn cluster(mut self) -> Result<(Cluster, Vec<Assumption>)> {
        let (part, given) = (self.part, self.given);
        let devices = self.devices();
        let share = f64::from(devices);
        if devices > 1 {
            let value = (self.parts_per_node * devices).to_string();
            let why = "a framework sees several devices in each part; figures are of one device";
            self.assume("cluster.gpus_per_node", value, why);
        }
        let offer = match self.shape {
            Some(shape) => Some(shape),
            None => self.median_offer()?,
        };
        let memory = self.memory(share)?;
        let (domain, within_domain, within_node) = self.links()?;
        let networks = self.networks(domain)?;
        let host = part.host_link.as_ref().or(part.pcie.as_ref());
        let host = match host {
            Some(id) => Some(Channel::of(self.part_link(id)?, None).shared_by(share)),
            None => None,
        };
        let prices = self.prices(offer)?;
        let (host_memory, vcpus, nvme) = self.host(offer)?;
        let cap = ranged("cluster.power_cap_w", given.power_cap_w, 10.0, 10_000.0)?;
        let storage = ranged("cluster.storage_gb_s", given.storage_gb_s, 1e-3, 1e6)?;
        let cluster = Cluster {
            accelerator: part.id.clone(),
            vendor: part.vendor.clone(),
            form: part.form.clone(),
            year: part.year,
            instance: self.shape.map(|row| row.name.clone()),
            cloud: self.cloud.map(str::to_owned),
            region: self.region.map(str::to_owned),
            nodes: self.nodes,
            gpus_per_node: self.parts_per_node * devices,
            memory,
            memory_bandwidth: part.bandwidth() / share,
            peaks: part.peaks().shared_by(share),
            measured_bf16: part.measured_bf16().map(|rate| rate / share),
            measured_fp8: part.measured_fp8().map(|rate| rate / share),
            matmul_fraction: part.matmul_fraction,
            power: part.power().map(|power| power / share),
            power_cap: cap.map(|power| Watts::of(power / share)),
            domain,
            within_domain,
            within_node,
            host,
            networks,
            host_memory,
            vcpus,
            nvme,
            storage: storage.map(gb_s),
            interruption: offer
                .and_then(|row| row.interruption_pct)
                .map(|[low, high]| [low / 100.0, high / 100.0]),
            prices,
        };
        Ok((cluster, self.assumed))
    }

    fn memory(&mut self, share: f64) -> Result<Bytes> {
        if let Some(gib) = ranged("cluster.usable_gib", self.given.usable_gib, 0.1, 100_000.0)? {
            return Ok(Bytes::from_gib(gib));
        }
        if let Some(usable) = self.part.usable_memory() {
            return Ok(usable / share);
        }
        let label = self.part.label_memory() / share;
        self.assume("cluster.usable_gib", label.to_string(), "the label read as decimal GB");
        Ok(label)
    }
}

/// Whether a wish, if there is one, is met. Case does not count.
pub(super) fn is(wanted: Option<&str>, found: Option<&String>) -> bool {
    wanted.is_none_or(|wanted| found.is_some_and(|found| found.eq_ignore_ascii_case(wanted)))
}

/// Nothing like it is offered in that region, or by that cloud.
#[cold]
pub(super) fn elsewhere(cloud: Option<&str>, region: Option<&str>, places: &[String]) -> Error {
    let (field, wanted) = match region {
        Some(region) => ("cluster.region", region),
        None => ("cluster.cloud", cloud.unwrap_or_default()),
    };
    let allowed = ["one of: ", &places.join(", ")].concat();
    Error::new(field, ErrorCode::UnknownName, format_args!("\"{wanted}\""), allowed)
}

/// A figure of the request, if given, in its range.
pub(super) fn ranged(field: &str, value: Option<f64>, low: f64, high: f64) -> Result<Option<f64>> {
    match value {
        Some(value) => in_range(field, value, low, high).map(Some),
        None => Ok(None),
    }
}

fn short_name(part: &Accelerator) -> Assumption {
    let value = format!("{} ({} {}, {} GB)", part.id, part.name, part.form, part.memory_gb);
    Assumption::new("cluster.accelerator", value, "the name alone fits several parts")
}

fn usual(platform: Option<&Platform>) -> u32 {
    platform.map_or(USUAL_GPUS, |row| row.gpus_per_node)
}

/// Splits GPUs over nodes of the usual size.
fn split(gpus: u32, platform: Option<&Platform>, assumed: &mut Vec<Assumption>) -> Result<(u32, u32)> {
    let usual = usual(platform);
    if gpus <= usual {
        return Ok((1, gpus));
    }
    if !gpus.is_multiple_of(usual) {
        let below = gpus / usual * usual;
        let allowed = format!(
            "a multiple of the {usual} in the usual node ({below}, {}), or NODES x GPUS x NAME",
            below.saturating_add(usual)
        );
        return Err(Error::new(
            "cluster",
            ErrorCode::OutOfRange,
            format_args!("{gpus} accelerators"),
            allowed,
        ));
    }
    let nodes = gpus / usual;
    let why = format!("a usual node holds {usual} of them");
    assumed.push(Assumption::new("cluster.nodes", nodes.to_string(), why));
    Ok((nodes, usual))
}
