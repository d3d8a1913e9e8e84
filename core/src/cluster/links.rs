//! The links of chosen machines: inside a domain, inside a node, between nodes.

use crate::error::{Error, ErrorCode, Result, entries};
use crate::{BytesPerSecond, Seconds};

use super::figures::{MOST_GPUS, gb_s, gbit_s};
use super::machines::NetworkSpec;
use super::name_or::NameOr;
use super::resolve::{Choice, MOST_NODES, ranged};
use super::resolved::{Channel, InSwitch, Network};
use super::rows::Link;

/// What joins nodes when neither the shape nor the accelerator says: 25 Gbit/s without RDMA, the
/// least that clouds give to a machine with a GPU worth joining.
const PLAIN_NETWORK: &str = "eth-25";

impl Channel {
    /// A link at its nominal rate, or at another.
    pub(super) fn of(link: &Link, bandwidth: Option<BytesPerSecond>) -> Self {
        let micro = |us: Option<f64>| us.map(|us| Seconds::of(us / 1e6));
        let bandwidth = bandwidth.or(link.bandwidth()).unwrap_or(BytesPerSecond::ZERO);
        Self {
            link: link.id.clone(),
            bandwidth,
            fraction: link.fraction,
            all_to_all_fraction: link.all_to_all_fraction,
            in_switch: link
                .in_switch_fraction
                .map(|fraction| InSwitch { fraction, min_gpus: link.in_switch_min_gpus.unwrap_or(2) }),
            copy_fraction: link.copy_fraction,
            latency: micro(link.latency_us),
            hop: micro(link.hop_us),
            alpha: micro(link.alpha_us),
            sqrt: link.sqrt_us.map(|us| us / 1e6),
            fitted: link.fitted_gb_s.map(gb_s),
        }
    }

    /// The rate for one of `devices` that share it.
    pub(super) fn shared_by(mut self, devices: f64) -> Self {
        self.bandwidth = self.bandwidth / devices;
        self
    }
}

/// GPUs in a domain, the link inside it, and the link between domains of a node.
type Inside = (u32, Option<Channel>, Option<Channel>);

impl<'a> Choice<'a> {
    fn link_row(&self, field: &str, link: &'a NameOr<Link>) -> Result<&'a Link> {
        match link {
            NameOr::Name(id) => self.catalog.link(id).map_err(|e| e.under(field)),
            NameOr::Full(row) => {
                row.check().map_err(|e| e.under(field))?;
                Ok(row)
            }
        }
    }

    /// A link that the accelerator names; only a row in the request can name one that is unknown.
    pub(super) fn part_link(&self, id: &str) -> Result<&'a Link> {
        self.catalog.link(id).map_err(|e| e.under("cluster.accelerator.link"))
    }

    pub(super) fn links(&self) -> Result<Inside> {
        let (part, given, devices) = (self.part, self.given, self.devices());
        let in_node = self.parts_per_node * devices;
        let total = u64::from(self.nodes) * u64::from(in_node);
        let rate = ranged("cluster.link_gb_s", given.link_gb_s, 1e-3, 1e6)?.map(gb_s);
        let wide =
            ranged("cluster.link_domain", given.link_domain.map(f64::from), 1.0, f64::from(MOST_GPUS))?;

        let shape_link = self.shape.and_then(|row| row.link.as_ref());
        let id = shape_link.or(part.link.as_ref()).or(part.pcie.as_ref());
        let row = match &given.link {
            Some(link) => Some(self.link_row("cluster.link", link)?),
            None => id.map(|id| self.part_link(id)).transpose()?,
        };
        if total == 1 || (row.is_none() && rate.is_none()) {
            return Ok((1, None, None));
        }
        // The part's own rate holds for the part's own link; any other has its nominal rate.
        let is_own = given.link.is_none() && row.map(|row| &row.id) == part.link.as_ref();
        let rate = rate.or(if is_own { part.link_bandwidth() } else { None });
        let row = row.ok_or_else(|| missing("cluster.link", "the kind of link"))?;
        if rate.is_none() && row.bandwidth().is_none() {
            return Err(missing("cluster.link_gb_s", "the rate of the link in GB/s"));
        }
        let within = Channel::of(row, rate).shared_by(f64::from(devices));

        let parts = if wide.is_some() {
            given.link_domain
        } else if let Some(domain) = self.shape.and_then(|row| row.domain) {
            Some(domain)
        } else if is_own {
            part.link_domain.or(self.platform.and_then(|row| row.domain))
        } else {
            None
        };
        let domain = parts.map_or(in_node, |parts| parts.saturating_mul(devices));
        let domain = u32::try_from(total.min(u64::from(domain))).unwrap_or(u32::MAX);
        if domain >= in_node {
            return Ok((domain, Some(within.clone()), Some(within)));
        }
        let pcie = match &part.pcie {
            Some(id) => Channel::of(self.part_link(id)?, None).shared_by(f64::from(devices)),
            None => within.clone(),
        };
        Ok((domain, Some(within), Some(pcie)))
    }

    pub(super) fn networks(&mut self, domain: u32) -> Result<Vec<Network>> {
        if !self.given.networks.is_empty() {
            return self.given_networks();
        }
        if self.nodes == 1 {
            return Ok(Vec::new());
        }
        let crosses = u64::from(domain) < u64::from(self.nodes) * u64::from(self.parts_per_node);
        let (id, rate, nics) = self.usual_network();
        let network =
            Network { channel: Channel::of(self.part_link(id)?, Some(rate)), nics, reach_nodes: self.nodes };
        let published = self.shape.is_some_and(|row| row.network.is_some());
        if crosses && !published {
            let value = format!("{id}, {rate} a node");
            let why = match self.platform {
                Some(row) if id == row.network => row.name.clone(),
                _ => "no network is published for it".to_owned(),
            };
            self.assume("cluster.networks", value, why);
        }
        Ok(vec![network])
    }

    /// The network of the shape, else of the usual node scaled to as many cards as accelerators.
    fn usual_network(&self) -> (&'a str, BytesPerSecond, u32) {
        if let Some(row) = self.shape
            && let (Some(id), Some(rate)) = (&row.network, row.network_gbit_s)
        {
            return (id, gbit_s(rate), row.nics.unwrap_or(1));
        }
        match self.platform {
            Some(row) if self.shape.is_none_or(|shape| shape.gpus >= row.gpus_per_node) => {
                let wanted = u64::from(row.nics) * u64::from(self.parts_per_node);
                let nics = wanted.div_ceil(u64::from(row.gpus_per_node.max(1))).max(1);
                let nics = u32::try_from(nics).unwrap_or(u32::MAX);
                let one = gbit_s(row.network_gbit_s) / f64::from(row.nics.max(1));
                (&row.network, one * f64::from(nics), nics)
            }
            _ => (PLAIN_NETWORK, gbit_s(25.0), 1),
        }
    }

    fn given_networks(&self) -> Result<Vec<Network>> {
        let mut networks = Vec::with_capacity(self.given.networks.len());
        entries("cluster.networks", self.given.networks.len(), 0, 8)?;
        for (i, spec) in self.given.networks.iter().enumerate() {
            let network = self.given_network(spec);
            networks.push(network.map_err(|e| e.entry("cluster.networks", i))?);
        }
        crate::order::sort_by(&mut networks, |a, b| a.reach_nodes.cmp(&b.reach_nodes));
        match networks.last() {
            Some(last) if last.reach_nodes < self.nodes => Err(Error::new(
                "cluster.networks",
                ErrorCode::Conflict,
                format_args!("a reach of {} nodes", last.reach_nodes),
                format!("one network that reaches all {} nodes", self.nodes),
            )),
            _ => Ok(networks),
        }
    }

    /// Errors are relative to the network.
    fn given_network(&self, spec: &'a NetworkSpec) -> Result<Network> {
        let nics = ranged("nics", spec.nics.map(f64::from), 1.0, 1024.0)?;
        let node = ranged("node_gb_s", spec.node_gb_s, 1e-4, 1e6)?;
        let nic = ranged("nic_gbit_s", spec.nic_gbit_s, 1e-3, 1e6)?;
        ranged("reach_nodes", spec.reach_nodes.map(f64::from), 1.0, f64::from(MOST_NODES))?;
        let (usual, usual_rate, usual_nics) = self.usual_network();
        let row = match &spec.link {
            Some(link) => self.link_row("link", link)?,
            None => self.catalog.link(usual)?,
        };
        let cards = spec.nics.unwrap_or(1);
        let rate = match (node, nic, &spec.link) {
            (Some(node), Some(nic), _) => {
                let sum = gbit_s(nic) * nics.unwrap_or(1.0);
                if ((sum / gb_s(node)) - 1.0).abs() > 0.01 {
                    let allowed = format!("{sum}: {cards} cards of {nic} Gbit/s, or one of the two");
                    return Err(Error::new("node_gb_s", ErrorCode::Conflict, node, allowed));
                }
                gb_s(node)
            }
            (Some(node), None, _) => gb_s(node),
            (None, Some(nic), _) => gbit_s(nic) * nics.unwrap_or(1.0),
            // A link that counts by node has the rate of all its cards.
            (None, None, Some(_)) => {
                let one = row.bandwidth().ok_or_else(|| missing("node_gb_s", "a rate in GB/s"))?;
                if row.per == "node" { one } else { one * nics.unwrap_or(1.0) }
            }
            (None, None, None) => usual_rate,
        };
        let nics = if spec.link.is_none() && spec.nics.is_none() { usual_nics } else { cards };
        let reach_nodes = spec.reach_nodes.unwrap_or(self.nodes);
        Ok(Network { channel: Channel::of(row, Some(rate)), nics, reach_nodes })
    }
}

#[cfg_attr(feature = "origins", track_caller)]
fn missing(field: &str, allowed: &str) -> Error {
    Error::new(field, ErrorCode::MissingField, "nothing", allowed)
}
