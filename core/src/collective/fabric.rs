//! The tiers of a cluster and what the library makes of them.

use super::Group;
use crate::cluster::{Channel, Cluster, Network};
use crate::workload::Backend;

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
    /// Each pair has its own link, so a smaller group sees a smaller part of the rate.
    pub mesh: bool,
}

/// A network between nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cards {
    /// Ranks it joins.
    pub reach: f64,
    /// Rate of one rank when all of a node send, in bytes per second.
    pub rate: f64,
    /// Time of a small collective between two nodes, in seconds.
    pub alpha: f64,
}

/// Networks a fabric knows; clusters with more keep the first and the widest.
const NETWORKS: usize = 3;

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
    /// Networks between nodes, from the one that reaches least; the last reaches all.
    pub networks: [Cards; NETWORKS],
    /// Switches of the network sum all-reduces.
    pub in_network: bool,
}

/// Time of a small collective inside a node where the link says nothing: within a training step,
/// between the 13 us of recorded graphs and the 40 us of eager launches.
/// Source: NCCL sweeps on `NVSwitch`.
const INSIDE_ALPHA: f64 = 20e-6;
/// Approach to the full rate where the link says nothing. Source: fits of NCCL sweeps, 0.008 to
/// 0.025 us per square root of a byte.
const INSIDE_SQRT: f64 = 0.012e-6;
/// Between nodes. Source: as above, 0.016 to 0.025.
const NETWORK_SQRT: f64 = 0.02e-6;
/// Endless messages reach this much more than the best message of a sweep, whose rate the catalogue
/// holds: the square-root term is what lies between. Source: the same fits.
const ENDLESS: f64 = 1.05;
/// Time of a small collective between two nodes with remote memory access, where the network says
/// nothing. Source: NCCL sweeps on `RoCE` and EFA, 54 to 66 us.
const NETWORK_ALPHA: f64 = 60e-6;
/// One more level of a tree of nodes. Source: all-reduce sweeps from 4 to 1024 nodes.
const TREE_LEVEL: f64 = 70e-6;
/// One more step of a ring, to another node and to another device.
/// Source: NCCL `src/graph/tuning.cc`, ring latencies.
const RING_NODE: f64 = 4e-6;
const RING_DEVICE: f64 = 0.6e-6;
/// Handing one message on. Source: as above, base latency with one step.
const SEND_INSIDE: f64 = 8e-6;
const SEND_NETWORK: f64 = 15e-6;

/// Launch of a collective on AMD parts above NVIDIA's. Source: published RCCL sweeps, judged.
const RCCL_LAUNCH: f64 = 10e-6;
/// Rate at which the CPU sums one rank's message, and the time of a small collective. Gloo uses one
/// thread a pair; MPI's libraries vectorise and pipeline. Source: Gloo's and Horovod's published
/// benchmarks, judged.
const GLOO_HOST: f64 = 3e9;
const GLOO_ALPHA: f64 = 200e-6;
const MPI_HOST: f64 = 8e9;
const MPI_ALPHA: f64 = 50e-6;

/// Stands where a cluster names no network: 10 Gbit/s Ethernet shared by a node of eight.
const NO_NETWORK: Cards = Cards { reach: f64::INFINITY, rate: 1.25e9 / 8.0, alpha: 100e-6 };

impl Wire {
    /// The wire as `ranks` of `domain` see it.
    fn among(mut self, ranks: f64, domain: f64) -> Self {
        if self.mesh && ranks > 1.0 && ranks < domain {
            let part = (ranks - 1.0) / (domain - 1.0);
            self.bandwidth *= part;
            self.all_to_all *= part;
        }
        self
    }
}

fn wire(channel: Option<&Channel>) -> Wire {
    let Some(c) = channel else {
        return Wire {
            bandwidth: 1e10,
            all_to_all: 1e10,
            alpha: 2.0 * INSIDE_ALPHA,
            sqrt: INSIDE_SQRT,
            mesh: false,
        };
    };
    let ring = c.fraction.unwrap_or(0.7);
    let nominal = c.bandwidth.get();
    Wire {
        bandwidth: nominal * ring * ENDLESS,
        all_to_all: nominal * c.all_to_all_fraction.unwrap_or(0.9 * ring),
        alpha: c.alpha.or(c.latency).map_or(INSIDE_ALPHA, crate::Seconds::get),
        sqrt: c.sqrt.unwrap_or(INSIDE_SQRT),
        mesh: c.link.starts_with("xgmi") || c.link.starts_with("gaudi"),
    }
}

/// How many copies of a token travel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Copies {
    /// Ranks (counted with repeats) a token is meant for.
    pub per_token: f64,
    /// One copy crosses to a node, however many of them sit there.
    pub once_per_node: bool,
    /// One copy goes to a rank, however many of them it holds.
    pub once_per_rank: bool,
}

impl Copies {
    /// Every copy travels.
    pub const EACH: Self = Self { per_token: 1.0, once_per_node: false, once_per_rank: false };
}

/// Of `k` copies spread evenly at random over `n` places, the share that remains when each place gets
/// one: `n (1 - (1 - 1/n)^k) / k`.
fn distinct(n: f64, k: f64) -> f64 {
    if n <= 1.0 || k <= 1.0 { 1.0 } else { n * (1.0 - libm::pow(1.0 - 1.0 / n, k)) / k }
}

impl Fabric {
    /// The tiers of `cluster`.
    #[must_use]
    pub fn new(cluster: &Cluster, backend: Backend) -> Self {
        let fabric = Self::direct(cluster);
        match backend {
            Backend::Nccl if cluster.vendor != "AMD" => fabric,
            Backend::Nccl | Backend::Rccl => fabric.slower_launch(RCCL_LAUNCH),
            Backend::Mpi => fabric.staged(cluster, MPI_HOST, MPI_ALPHA),
            Backend::Gloo => fabric.staged(cluster, GLOO_HOST, GLOO_ALPHA),
        }
    }

    /// Every collective takes so much longer to start.
    fn slower_launch(mut self, extra: f64) -> Self {
        self.inside.alpha += extra;
        self.between.alpha += extra;
        for network in &mut self.networks {
            network.alpha += extra;
        }
        self
    }

    /// Tensors pass through host memory: down the host link, summed by the CPU at `rate` per rank,
    /// over sockets or shared memory, and up again.
    fn staged(mut self, cluster: &Cluster, rate: f64, alpha: f64) -> Self {
        let host =
            cluster.host.as_ref().map_or(rate, |c| c.bandwidth.get() * c.copy_fraction.unwrap_or(0.79));
        let through = 1.0 / (2.0 / host + 1.0 / rate);
        for wire in [&mut self.inside, &mut self.between] {
            wire.bandwidth = wire.bandwidth.min(through);
            wire.all_to_all = wire.all_to_all.min(through);
            wire.alpha += alpha;
        }
        self.in_switch = None;
        for network in &mut self.networks {
            network.rate = network.rate.min(through);
            network.alpha += alpha;
        }
        self.in_network = false;
        self
    }

    /// As a library that reads and writes device memory from the network sees them.
    fn direct(cluster: &Cluster) -> Self {
        let per_node = f64::from(cluster.gpus_per_node);
        let domain = f64::from(cluster.domain).max(1.0);
        let inside = wire(cluster.within_domain.as_ref().or(cluster.within_node.as_ref()));
        let between = wire(cluster.within_node.as_ref().or(cluster.within_domain.as_ref()));
        let in_switch = cluster.within_domain.as_ref().and_then(|c| {
            c.in_switch.map(|s| (c.bandwidth.get() * s.fraction * ENDLESS, f64::from(s.min_gpus)))
        });
        let cards = |n: &Network| {
            let c = &n.channel;
            // Latencies of a port alone are not those of a collective.
            let latency = c.latency.map_or(0.0, crate::Seconds::get);
            Cards {
                reach: f64::from(n.reach_nodes) * per_node,
                rate: c.bandwidth.get() * c.fraction.unwrap_or(0.85) / per_node,
                alpha: if latency < 20e-6 { NETWORK_ALPHA } else { latency },
            }
        };
        let widest = cluster.networks.last().map_or(NO_NETWORK, cards);
        let mut networks = [widest; NETWORKS];
        for (slot, network) in networks.iter_mut().zip(&cluster.networks).take(NETWORKS - 1) {
            *slot = cards(network);
        }
        Self {
            domain: if cluster.within_domain.is_some() { domain } else { per_node },
            node: per_node.max(domain),
            inside,
            between,
            in_switch,
            networks,
            in_network: false,
        }
    }

    /// The same tiers with every exchange taking `factor` times as long.
    #[must_use]
    pub fn slowed(mut self, factor: f64) -> Self {
        for wire in [&mut self.inside, &mut self.between] {
            wire.bandwidth /= factor;
            wire.all_to_all /= factor;
            wire.alpha *= factor;
            wire.sqrt *= factor;
        }
        self.in_switch = self.in_switch.map(|(rate, least)| (rate / factor, least));
        for network in &mut self.networks {
            network.rate /= factor;
            network.alpha *= factor;
        }
        self
    }

    /// Members of a group in one domain, and how many such clusters of members there are; the wire
    /// inside and the rate across.
    fn place(&self, g: &Group) -> (f64, f64, Wire) {
        let in_domain = g.within(self.domain);
        if in_domain >= g.ranks {
            return (in_domain, 1.0, self.inside.among(g.ranks, self.domain));
        }
        let in_node = g.within(self.node);
        let wire = if in_node > in_domain { self.between } else { self.inside.among(in_domain, self.domain) };
        (in_node, g.ranks / in_node, wire)
    }

    /// The same tiers with every network between nodes `factor` times as fast.
    #[must_use]
    pub fn with_network(mut self, factor: f64) -> Self {
        for network in &mut self.networks {
            network.rate *= factor;
        }
        self
    }

    /// The first network that joins all of a group.
    fn network(&self, g: &Group) -> Cards {
        let [first, .., widest] = self.networks;
        let span = g.ranks * g.stride;
        self.networks.into_iter().find(|n| n.reach >= span).unwrap_or(if first.reach >= span {
            first
        } else {
            widest
        })
    }

    /// Bandwidth, latency and approach of a ring through a group.
    fn ring(&self, g: &Group) -> Wire {
        let (r, k, inside) = self.place(g);
        if k <= 1.0 {
            return inside;
        }
        let inside_rate = if r > 1.0 { inside.bandwidth } else { f64::INFINITY };
        let network = self.network(g);
        Wire {
            // A ring enters and leaves a node once: the members in it pool their network shares.
            bandwidth: inside_rate.min(ENDLESS * network.rate * r),
            all_to_all: network.rate,
            alpha: network.alpha + k * (RING_NODE + (r - 1.0) * RING_DEVICE),
            sqrt: NETWORK_SQRT,
            mesh: false,
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
        let (r, k, inside) = self.place(g);
        let mut w = self.ring(g);
        if k <= 1.0 {
            if let Some((rate, least)) = self.in_switch
                && g.ranks >= least
                && g.within(self.domain) >= g.ranks
            {
                w.bandwidth = rate;
            }
        } else {
            // A tree of two nodes sends the message once each way, where a ring passes it almost twice.
            let network = self.network(g);
            if k <= 2.0 || self.in_network {
                // So does a sum in the network's switches, whatever the nodes.
                let across = ENDLESS * network.rate * r * 2.0 * (g.ranks - 1.0) / g.ranks;
                let summed = self.in_switch.filter(|_| self.in_network).map(|(rate, _)| rate);
                w.bandwidth =
                    across.min(if r > 1.0 { summed.unwrap_or(inside.bandwidth) } else { f64::INFINITY });
            }
            // Trees: latency grows with the logarithm of the nodes.
            w.alpha = network.alpha + TREE_LEVEL * libm::log2((k / 2.0).max(1.0));
        }
        w.alpha + w.sqrt * bytes.sqrt() + 2.0 * bytes * (g.ranks - 1.0) / g.ranks / w.bandwidth
    }

    /// Seconds of an exchange in which each rank sends `bytes` in equal parts to every rank of the
    /// group.
    #[must_use]
    pub fn all_to_all(&self, bytes: f64, g: &Group) -> f64 {
        self.dispatch(bytes, g, &Copies::EACH)
    }

    /// Seconds of an exchange in which each rank sends `bytes` of tokens, each to several ranks.
    #[must_use]
    pub fn dispatch(&self, bytes: f64, g: &Group, copies: &Copies) -> f64 {
        if g.ranks <= 1.0 || bytes <= 0.0 {
            return 0.0;
        }
        let (r, k, inside) = self.place(g);
        let per_rank = if copies.once_per_rank { distinct(g.ranks, copies.per_token) } else { 1.0 };
        let local = bytes * per_rank * (r - 1.0) / r / inside.all_to_all;
        if k <= 1.0 {
            return inside.alpha + local;
        }
        let per_node = if copies.once_per_node { distinct(k, copies.per_token) } else { per_rank };
        let network = self.network(g);
        let remote = bytes * per_node * (k - 1.0) / k / network.rate;
        network.alpha + k * RING_NODE + local.max(remote)
    }

    /// Seconds to hand `bytes` to a rank at distance `stride`.
    #[must_use]
    pub fn send(&self, bytes: f64, stride: f64) -> f64 {
        if stride < self.domain {
            SEND_INSIDE + bytes / self.inside.bandwidth
        } else if stride < self.node {
            SEND_NETWORK + bytes / self.between.bandwidth
        } else {
            SEND_NETWORK + bytes / self.network(&Group::new(2.0, stride)).rate
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Catalog, ClusterSpec};

    fn fabric(text: &str, backend: Backend) -> Fabric {
        let (cluster, _) = ClusterSpec::from(text).resolve(Catalog::embedded()).unwrap();
        Fabric::new(&cluster, backend)
    }

    const LARGE: f64 = 1e9;

    #[test]
    fn libraries_that_pass_through_the_host_are_slower() {
        let group = Group::new(16.0, 1.0);
        let of = |b| fabric("2x8xA100-SXM4-80GB", b).all_reduce(LARGE, &group);
        assert!(of(Backend::Nccl) < of(Backend::Rccl));
        assert!(of(Backend::Rccl) < of(Backend::Mpi) && of(Backend::Mpi) < of(Backend::Gloo));
    }

    #[test]
    fn a_pair_on_a_mesh_has_one_link() {
        let f = fabric("8xMI300X", Backend::Rccl);
        let rate =
            |n: f64| LARGE * (n - 1.0) / n / (f.all_gather(LARGE, &Group::new(n, 1.0)) - f.inside.alpha);
        assert!(rate(8.0) > 4.0 * rate(2.0));
        // On a switch all see the same.
        let f = fabric("8xH100-SXM-80GB", Backend::Nccl);
        let rate =
            |n: f64| LARGE * (n - 1.0) / n / (f.all_gather(LARGE, &Group::new(n, 1.0)) - f.inside.alpha);
        assert!((rate(8.0) / rate(2.0) - 1.0).abs() < 0.1);
    }

    #[test]
    fn one_copy_a_node_crosses_less() {
        let f = fabric("4x8xH100-SXM-80GB", Backend::Nccl);
        let group = Group::new(32.0, 1.0);
        let copies = Copies { per_token: 8.0, once_per_node: true, once_per_rank: false };
        let each = Copies { per_token: 8.0, ..Copies::EACH };
        // Of 8 copies over 4 nodes 4 (1 - (3/4)^8) = 3.6 remain.
        assert!((distinct(4.0, 8.0) - 3.5995 / 8.0).abs() < 1e-4);
        assert!(f.dispatch(LARGE, &group, &copies) < 0.6 * f.dispatch(LARGE, &group, &each));
    }

    #[test]
    fn a_summing_network_halves_the_traffic() {
        let plain = fabric("8x8xH100-SXM-80GB", Backend::Nccl);
        let summing = Fabric { in_network: true, ..plain };
        let group = Group::new(64.0, 1.0);
        let ratio = summing.all_reduce(8e9, &group) / plain.all_reduce(8e9, &group);
        // Measured 480 against 345 to 378 GB/s of bus bandwidth.
        assert!((0.70..0.85).contains(&ratio), "{ratio}");
    }

    #[test]
    fn a_small_group_stays_on_the_near_network() {
        let text = r#"{"accelerator": "h100-sxm", "nodes": 16, "networks": [
            {"link": "ib-ndr", "nics": 8, "reach_nodes": 4}, {"link": "eth-100-tcp", "nics": 1, "node_gb_s": 12.5}]}"#;
        let spec: ClusterSpec = serde_json::from_str(text).unwrap();
        let (cluster, _) = spec.resolve(Catalog::embedded()).unwrap();
        let f = Fabric::new(&cluster, Backend::Nccl);
        let near = f.all_gather(LARGE, &Group::new(32.0, 1.0));
        assert!(f.all_gather(LARGE, &Group::new(128.0, 1.0)) > 10.0 * near);
    }
}
