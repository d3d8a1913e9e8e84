//! How long a save stalls training, and how long a load takes.

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use crate::cluster::Cluster;
use crate::error::{Result, in_range};
use crate::quantity::{Bytes, BytesPerSecond, Seconds};
use crate::term::{Term, Terms};

/// Who writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Writer {
    /// Rank 0 gathers everything and writes it with one thread, as `torch.save` does.
    Single,
    /// Each rank writes its shard.
    #[default]
    Sharded,
}

/// Where checkpoints go.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Store {
    /// What one node can write to it, in bytes per second.
    pub node_write: BytesPerSecond,
    /// What one node can read from it, in bytes per second.
    pub node_read: BytesPerSecond,
    /// What it takes or gives from all nodes together, in bytes per second; absent without limit.
    #[serde(default)]
    pub total: Option<BytesPerSecond>,
    /// Time per save that no bandwidth shortens: planning, opening, metadata, barrier, in seconds.
    #[serde(default)]
    pub latency: Seconds,
}

impl Store {
    /// One rank's serialising and writing of its shard: 1.5 GB/s.
    ///
    /// Source: torchsnapshot, 20 GB by one rank in 13.9 s (NVMe) and 14.5 s (FSx for Lustre).
    pub const RANK_STREAM: BytesPerSecond = BytesPerSecond::of(1.5e9);
    /// `torch.save` by one thread: 0.6 GB/s.
    ///
    /// Source: torchsnapshot's baseline, 20 GB in 32 s (NVMe) and 38 s (FSx for Lustre).
    pub const TORCH_SAVE: BytesPerSecond = BytesPerSecond::of(0.6e9);

    /// NVMe drives of a p4d-class node: 7.35 GB/s and 0.66 s.
    ///
    /// Source: torchsnapshot, 20 GB from 1, 2 and 4 nodes in 3.38, 2.02 and 1.29 s.
    #[must_use]
    pub fn node_nvme() -> Self {
        Self {
            node_write: Cluster::NODE_NVME,
            node_read: Cluster::NODE_NVME,
            total: None,
            latency: Seconds::of(0.66),
        }
    }

    /// A parallel file system in the cloud: 3.2 GB/s per node and 1.3 s.
    ///
    /// Source: torchsnapshot on FSx for Lustre, 20 GB from 1, 2 and 4 nodes in 7.61, 4.61 and
    /// 2.68 s.
    #[must_use]
    pub fn parallel_file_system() -> Self {
        Self {
            node_write: BytesPerSecond::of(3.2e9),
            node_read: BytesPerSecond::of(3.2e9),
            total: None,
            latency: Seconds::of(1.3),
        }
    }

    /// An object store: 0.4 GB/s per node written, twice that read.
    ///
    /// Source: a judgement on 0.3 to 0.5 GB/s per node seen with sharded uploads.
    #[must_use]
    pub fn object_store() -> Self {
        Self {
            node_write: BytesPerSecond::of(0.4e9),
            node_read: BytesPerSecond::of(0.8e9),
            total: None,
            latency: Seconds::of(2.0),
        }
    }

    fn rate(&self, node: BytesPerSecond, nodes: f64) -> BytesPerSecond {
        let all = node * nodes;
        self.total.map_or(all, |total| all.min(total))
    }

    /// Checks every range.
    ///
    /// # Errors
    /// Names the first field outside its range.
    pub fn validate(&self) -> Result<()> {
        in_range("node_write", self.node_write.get(), 1e3, 1e15)?;
        in_range("node_read", self.node_read.get(), 1e3, 1e15)?;
        if let Some(total) = self.total {
            in_range("total", total.get(), 1e3, 1e18)?;
        }
        in_range("latency", self.latency.get(), 0.0, 1e6)?;
        Ok(())
    }
}

/// A snapshot to host memory stalls training; the write from there runs beside it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Asynchronous {
    /// Rate at which one GPU copies to pinned host memory, in bytes per second: about 25e9 over
    /// PCIe 4, 50e9 over PCIe 5.
    pub device_to_host: BytesPerSecond,
    /// Stall besides the copy: state dict, planning, collectives, in seconds.
    #[serde(default)]
    pub setup: Seconds,
}

const SNAPSHOT: &str = "CheckFreq 2021: the snapshot stalls, the persist overlaps";

/// One way of saving a state of `bytes` from `nodes` x `ranks_per_node` ranks.
///
/// ```
/// use shardwise::checkpoint::{Saving, Store, Writer};
/// use shardwise::{Bytes, BytesPerSecond, Seconds};
/// // BLOOM: 2,464 GB from 48 nodes over GPFS at 61.6 GB/s took 40 s.
/// let gpfs = Store {
///     node_write: BytesPerSecond::new(3e9).unwrap(),
///     node_read: BytesPerSecond::new(3e9).unwrap(),
///     total: BytesPerSecond::new(61.6e9),
///     latency: Seconds::ZERO,
/// };
/// let saving = Saving {
///     bytes: Bytes::new(2464e9).unwrap(), nodes: 48, ranks_per_node: 8, writer: Writer::Sharded,
///     store: gpfs, asynchronous: None,
/// };
/// assert_eq!(format!("{}", saving.stall().total()), "40.00 s");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Saving {
    /// Bytes of the whole checkpoint.
    pub bytes: Bytes,
    /// Nodes that hold a part of it.
    pub nodes: u32,
    /// Ranks on each.
    pub ranks_per_node: u32,
    /// Who writes.
    #[serde(default)]
    pub writer: Writer,
    /// Where it goes.
    pub store: Store,
    /// Absent: training waits for the write.
    #[serde(default)]
    pub asynchronous: Option<Asynchronous>,
}

impl Saving {
    /// Checks every range.
    ///
    /// # Errors
    /// Names the first field outside its range.
    pub fn validate(&self) -> Result<()> {
        in_range("bytes", self.bytes.get(), 1.0, 1e18)?;
        in_range("nodes", f64::from(self.nodes), 1.0, 1e6)?;
        in_range("ranks_per_node", f64::from(self.ranks_per_node), 1.0, 1e3)?;
        self.store.validate().map_err(|e| e.under("store"))?;
        if let Some(a) = self.asynchronous {
            in_range("asynchronous.device_to_host", a.device_to_host.get(), 1e6, 1e15)?;
            in_range("asynchronous.setup", a.setup.get(), 0.0, 1e6)?;
        }
        Ok(())
    }

    fn ranks(&self) -> f64 {
        f64::from(self.nodes) * f64::from(self.ranks_per_node)
    }

    /// Rate of the write: the narrowest of the ranks' streams, the nodes' and the store's.
    #[must_use]
    pub fn write_rate(&self) -> BytesPerSecond {
        match self.writer {
            Writer::Single => self.store.rate(self.store.node_write, 1.0).min(Store::TORCH_SAVE),
            Writer::Sharded => self
                .store
                .rate(self.store.node_write, f64::from(self.nodes))
                .min(Store::RANK_STREAM * self.ranks()),
        }
    }

    /// Time from the state to the finished checkpoint.
    #[must_use]
    pub fn write(&self) -> Terms<Seconds> {
        const SOURCE: &str = "torchsnapshot benchmarks/ddp: time = latency + bytes / rate";
        Terms(vec![
            Term::new("latency", self.store.latency, "per save", SOURCE),
            Term::new(
                "transfer",
                self.bytes / self.write_rate(),
                "bytes / min(ranks x stream, nodes x node rate, store rate)",
                SOURCE,
            ),
        ])
    }

    /// Time for which training stands still.
    #[must_use]
    pub fn stall(&self) -> Terms<Seconds> {
        let Some(a) = self.asynchronous else {
            return self.write();
        };
        let copiers = match self.writer {
            Writer::Single => 1.0,
            Writer::Sharded => self.ranks(),
        };
        Terms(vec![
            Term::new("setup", a.setup, "per save", SNAPSHOT),
            Term::new(
                "device-to-host copy",
                self.bytes / copiers / a.device_to_host,
                "bytes / ranks / copy rate",
                SNAPSHOT,
            ),
        ])
    }

    /// Shortest interval between two saves: an asynchronous write must end before the next begins.
    #[must_use]
    pub fn least_interval(&self) -> Seconds {
        match self.asynchronous {
            None => Seconds::ZERO,
            Some(_) => self.write().total(),
        }
    }

    /// Host memory that snapshots need on each node: one copy of the node's share.
    #[must_use]
    pub fn host_memory(&self) -> Bytes {
        match (self.asynchronous, self.writer) {
            (None, Writer::Sharded) => Bytes::ZERO,
            // Rank 0 gathers the whole state before it writes.
            (_, Writer::Single) => self.bytes,
            (Some(_), Writer::Sharded) => self.bytes / f64::from(self.nodes),
        }
    }

    /// Time to load the state again, from the store through the nodes.
    #[must_use]
    pub fn load(&self) -> Seconds {
        let rate = self
            .store
            .rate(self.store.node_read, f64::from(self.nodes))
            .min(Store::RANK_STREAM * self.ranks());
        self.store.latency + self.bytes / rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checkpoint::checkpoint_records;

    /// torchsnapshot's table: 20 GB from 1, 8, 16 and 32 ranks on nodes of eight, to NVMe and to
    /// FSx for Lustre, each within 10 %.
    #[test]
    fn torchsnapshot_times_are_met() {
        let mut seen = 0;
        for record in checkpoint_records().iter().filter(|r| r.id.starts_with("torchsnapshot")) {
            let (Some(ranks), Some(gb), Some(seconds)) = (record.ranks, record.gb, record.write_s) else {
                panic!("{} lacks a figure", record.id);
            };
            let store =
                if record.id.contains("local") { Store::node_nvme() } else { Store::parallel_file_system() };
            let saving = Saving {
                bytes: Bytes::of(gb * 1e9),
                nodes: ranks.div_ceil(8),
                ranks_per_node: ranks.min(8),
                writer: Writer::Sharded,
                store,
                asynchronous: None,
            };
            let got = saving.stall().total().get();
            assert!((got / seconds - 1.0).abs() < 0.10, "{}: {got} s, measured {seconds} s", record.id);
            seen += 1;
        }
        assert_eq!(seen, 8);
    }

    /// One thread's `torch.save` of an 11 B model with its AdamW states takes the "up to 30 min"
    /// of the legacy path only where the store is slower than the thread; at 0.6 GB/s it is 4 min.
    #[test]
    fn a_single_writer_is_bound_by_its_thread() {
        let saving = Saving {
            bytes: Bytes::of(20e9),
            nodes: 4,
            ranks_per_node: 8,
            writer: Writer::Single,
            store: Store::node_nvme(),
            asynchronous: None,
        };
        assert!((saving.stall().total().get() - 34.0).abs() < 2.0);
        assert_eq!(saving.host_memory(), Bytes::of(20e9));
    }

    /// PyTorch DCP on a 7 B model: 148.8 s synchronous, 6.3 s asynchronous. The sync time implies
    /// the store's rate; the copy alone would take 0.4 s on 8 GPUs, the rest is set-up.
    #[test]
    fn asynchronous_saving_leaves_the_copy_and_the_setup() {
        let s = Seconds::of;
        let store = Store {
            node_write: BytesPerSecond::of(84e9 / 148.8),
            node_read: BytesPerSecond::of(1e9),
            total: None,
            latency: Seconds::ZERO,
        };
        let sync = Saving {
            bytes: Bytes::of(84e9),
            nodes: 1,
            ranks_per_node: 8,
            writer: Writer::Sharded,
            store,
            asynchronous: None,
        };
        assert!((sync.stall().total().get() - 148.8).abs() < 1e-6);
        let with = Asynchronous { device_to_host: BytesPerSecond::of(25e9), setup: s(5.9) };
        let apart = Saving { asynchronous: Some(with), ..sync };
        assert!((apart.stall().total().get() / 6.3 - 1.0).abs() < 0.01);
        assert_eq!(apart.least_interval(), sync.stall().total());
        assert_eq!(apart.host_memory(), Bytes::of(84e9));
    }

    #[test]
    fn a_faster_store_is_never_slower() {
        let at = |gb_s: f64| {
            Saving {
                bytes: Bytes::of(1e12),
                nodes: 16,
                ranks_per_node: 8,
                writer: Writer::Sharded,
                store: Store { total: Some(BytesPerSecond::of(gb_s * 1e9)), ..Store::parallel_file_system() },
                asynchronous: None,
            }
            .stall()
            .total()
        };
        assert!(at(1.0) > at(10.0) && at(10.0) > at(40.0) && at(100.0) == at(1000.0));
    }
}
