//! The tiers of a cluster and what the library makes of them.

use super::Group;
use crate::cluster::{Channel, Cluster};

/// One tier as collectives see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wire {
    /// Bus bandwidth of ring collectives with endless messages, of one rank, in bytes per second.
    pub bandwidth: f64,
    /// The same for all-to-all.
    pub all_to_all: f64,
    /// Time of a small collective, in seconds.
    pub alpha: f64,
    /// Slow approach to the full rate, in seconds per square root of a byte.
    pub sqrt: f64,
}

/// The tiers of a cluster, fastest first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fabric {
    /// Ranks that the fastest link joins.
    pub domain: f64,
    /// Ranks of a node (at least a domain).
    pub node: f64,
    /// Within a domain.
    pub inside: Wire,
    /// Between domains of a node.
    pub between: Wire,
    /// All-reduce in the switch of a domain: bus bandwidth and the smallest group.
    pub in_switch: Option<(f64, f64)>,
    /// Network rate of one rank when all of a node send, in bytes per second.
    pub nic: f64,
    /// Network rate of one rank for a collective of its own (all cards of its node shared by the
    /// members of the group in it).
    pub network_alpha: f64,
    /// Time of one more node, in seconds.
    pub network_hop: f64,
}

/// Inside a node, a collective well embedded in a training step. Source: NCCL sweeps on NVSwitch,
/// 13 us from recorded graphs, 40 us with eager launches.
const INSIDE_ALPHA: f64 = 20e-6;
const INSIDE_SQRT: f64 = 0.012e-6;
const PCIE_ALPHA: f64 = 34e-6;
const PCIE_SQRT: f64 = 0.03e-6;
const NETWORK_SQRT: f64 = 0.02e-6;

fn wire(channel: Option<&Channel>) -> Wire {
    let Some(c) = channel else {
        return Wire { bandwidth: 1e10, all_to_all: 1e10, alpha: PCIE_ALPHA, sqrt: PCIE_SQRT };
    };
    let pcie = c.link.starts_with("pcie");
    let ring = c.fraction.unwrap_or(0.7);
    let nominal = c.bandwidth.get();
    Wire {
        bandwidth: nominal * ring,
        all_to_all: nominal * c.all_to_all_fraction.unwrap_or(0.9 * ring),
        alpha: if pcie { PCIE_ALPHA } else { INSIDE_ALPHA },
        sqrt: if pcie { PCIE_SQRT } else { INSIDE_SQRT },
    }
}

impl Fabric {
    /// The tiers of `cluster`.
    #[must_use]
    pub fn new(cluster: &Cluster) -> Self {
        let per_node = f64::from(cluster.gpus_per_node);
        let domain = f64::from(cluster.domain).max(1.0);
        let inside = wire(cluster.within_domain.as_ref().or(cluster.within_node.as_ref()));
        let between = wire(cluster.within_node.as_ref().or(cluster.within_domain.as_ref()));
        let in_switch = cluster
            .within_domain
            .as_ref()
            .and_then(|c| c.in_switch.map(|s| (c.bandwidth.get() * s.fraction, f64::from(s.min_gpus))));
        let nic = cluster
            .network(cluster.nodes)
            .map_or(1e9, |n| n.channel.bandwidth.get() * n.channel.fraction.unwrap_or(0.85) / per_node);
        Self {
            domain: if cluster.within_domain.is_some() { domain } else { per_node },
            node: per_node.max(domain),
            inside,
            between,
            in_switch,
            nic,
            network_alpha: 60e-6,
            network_hop: 4e-6,
        }
    }

    /// Members of a group in one domain, and how many such clusters of members there are; the wire
    /// inside and the rate across.
    fn place(&self, g: &Group) -> (f64, f64, Wire) {
        let in_domain = g.within(self.domain);
        if in_domain >= g.ranks {
            return (in_domain, 1.0, self.inside);
        }
        let in_node = g.within(self.node);
        (in_node, g.ranks / in_node, if in_node > in_domain { self.between } else { self.inside })
    }

    /// Bandwidth, latency and approach of a ring through a group.
    fn ring(&self, g: &Group) -> Wire {
        let (r, k, inside) = self.place(g);
        if k <= 1.0 {
            return inside;
        }
        let inside_rate = if r > 1.0 { inside.bandwidth } else { f64::INFINITY };
        Wire {
            // A ring enters and leaves a node once: the members in it pool their network shares.
            bandwidth: inside_rate.min(1.05 * self.nic * r),
            all_to_all: self.nic,
            alpha: self.network_alpha + self.network_hop * k,
            sqrt: NETWORK_SQRT,
        }
    }

    /// Seconds to gather `bytes` in all onto each rank of a group (also to reduce and scatter them):
    /// `alpha + c sqrt(S) / 2 + S (n - 1) / n / B`.
    #[must_use]
    pub fn all_gather(&self, bytes: f64, g: &Group) -> f64 {
        if g.ranks <= 1.0 || bytes <= 0.0 {
            return 0.0;
        }
        let w = self.ring(g);
        w.alpha + 0.5 * w.sqrt * bytes.sqrt() + bytes * (g.ranks - 1.0) / g.ranks / w.bandwidth
    }

    /// Seconds to sum `bytes` over a group, all ranks getting the sum:
    /// `alpha + c sqrt(S) + 2 S (n - 1) / n / B`.
    #[must_use]
    pub fn all_reduce(&self, bytes: f64, g: &Group) -> f64 {
        if g.ranks <= 1.0 || bytes <= 0.0 {
            return 0.0;
        }
        let (_, k, _) = self.place(g);
        let mut w = self.ring(g);
        if k <= 1.0 {
            if let Some((rate, least)) = self.in_switch
                && g.ranks >= least
                && g.within(self.domain) >= g.ranks
            {
                w.bandwidth = rate;
            }
        } else {
            // Trees: latency grows with the logarithm of the nodes.
            w.alpha = self.network_alpha + 70e-6 * libm::log2((k / 2.0).max(1.0));
        }
        w.alpha + w.sqrt * bytes.sqrt() + 2.0 * bytes * (g.ranks - 1.0) / g.ranks / w.bandwidth
    }

    /// Seconds of an exchange in which each rank sends `bytes` in equal parts to every rank of the
    /// group. `copies` is how many ranks one token goes to: with `once_per_node` it crosses to a
    /// node once, however many of them sit there.
    #[must_use]
    pub fn all_to_all(&self, bytes: f64, g: &Group, copies: f64, once_per_node: bool) -> f64 {
        if g.ranks <= 1.0 || bytes <= 0.0 {
            return 0.0;
        }
        let (r, k, inside) = self.place(g);
        let local = bytes * (r - 1.0) / r / inside.all_to_all;
        if k <= 1.0 {
            return inside.alpha + local;
        }
        let distinct = if once_per_node && copies > 1.0 {
            k * (1.0 - libm::pow(1.0 - 1.0 / k, copies)) / copies
        } else {
            1.0
        };
        let remote = bytes * distinct * (k - 1.0) / k / self.nic;
        self.network_alpha + self.network_hop * k + local.max(remote)
    }

    /// Seconds to hand `bytes` to a rank at distance `stride`.
    #[must_use]
    pub fn send(&self, bytes: f64, stride: f64) -> f64 {
        if stride < self.domain {
            8e-6 + bytes / self.inside.bandwidth
        } else if stride < self.node {
            15e-6 + bytes / self.between.bandwidth
        } else {
            15e-6 + bytes / self.nic
        }
    }
}
