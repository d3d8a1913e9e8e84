//! Swapping model states to a node's NVMe drives and back: what it adds to a step.

use crate::cluster::Cluster;
use crate::workload::Nvme;

/// Rates of a node's drives as one rank sees them, in bytes per second: all ranks swap at once.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drives {
    pub(super) read: f64,
    pub(super) write: f64,
}

impl Drives {
    pub(super) fn of(nvme: &Nvme, cluster: &Cluster) -> Self {
        let rate = |given: Option<f64>| {
            given.map_or(Cluster::NODE_NVME.get(), |gb| gb * 1e9) / f64::from(cluster.gpus_per_node)
        };
        Self { read: rate(nvme.read_gb_s), write: rate(nvme.write_gb_s) }
    }

    /// Rate at which a rank's parameters come to the device over `link`, of which the share `swapped`
    /// is read from the drives on the way.
    pub(super) fn fetch(&self, link: f64, swapped: f64) -> f64 {
        1.0 / (swapped / link.min(self.read) + (1.0 - swapped) / link)
    }
}

/// An optimizer step in tiles, each read, updated on the CPU and written back, in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tiles {
    pub(super) count: f64,
    pub(super) read: f64,
    pub(super) update: f64,
    pub(super) write: f64,
}

impl Tiles {
    /// Seconds of all tiles: `n (r + c + w)`; with reads ahead `r + (n - 1) max(r, c + w) + c + w`; with
    /// writes behind `r + c + (n - 1) max(w, r + c) + w`; with both
    /// `r + c + w + (n - 1) max(r, c, w)`.
    ///
    /// Source: DeepSpeed's `pipelined_optimizer_swapper.py`; Rajbhandari 2021, section 5.2.2.
    pub(super) fn seconds(&self, ahead: bool, behind: bool) -> f64 {
        let (r, c, w) = (self.read, self.update, self.write);
        let each = match (ahead, behind) {
            (false, false) => r + c + w,
            (true, false) => r.max(c + w),
            (false, true) => w.max(r + c),
            (true, true) => r.max(c).max(w),
        };
        (r + c + w) + (self.count - 1.0) * each
    }
}

/// Seconds beside the update itself of `p` parameters whose states lie on the drives: their tiles, and
/// the fp32 gradients, which are written while the last backward still runs but for the last buffer.
///
/// Read are 4 bytes each of parameter, gradient and moments, written back all but the gradient.
pub(super) fn optimizer(
    nvme: &Nvme,
    drives: &Drives,
    p: f64,
    moments: f64,
    update: f64,
    backward: f64,
) -> f64 {
    let n = nvme.tiles(p);
    let tiles = Tiles {
        count: n,
        read: (8.0 + moments) * p / drives.read / n,
        update: update / n,
        write: (4.0 + moments) * p / drives.write / n,
    };
    let gradients = 4.0 * p / drives.write;
    let late = gradients / n + (gradients - gradients / n - backward).max(0.0);
    tiles.seconds(nvme.pipeline_read, nvme.pipeline_write) - update + late
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pipelined_hides_behind_the_slowest() {
        let tiles = Tiles { count: 4.0, read: 3.0, update: 2.0, write: 2.0 };
        let all =
            [(false, false), (true, false), (false, true), (true, true)].map(|(r, w)| tiles.seconds(r, w));
        assert_eq!(all.map(crate::Seconds::of), [28.0, 19.0, 22.0, 16.0].map(crate::Seconds::of));
    }

    #[test]
    fn a_billion_parameters_through_one_gigabyte_a_second() {
        // 16 GB read, 12 GB written, and 4 GB of gradients that no backward hides.
        let drives = Drives { read: 1e9, write: 1e9 };
        assert!((optimizer(&Nvme::default(), &drives, 1e9, 8.0, 1.0, 0.0) - 32.0).abs() < 1e-9);
        // Ten tiles: nine tenths of the gradients leave during a backward of 10 s.
        let tenths = Nvme { sub_group_size: Some(100_000_000), ..Nvme::default() };
        assert!((optimizer(&tenths, &drives, 1e9, 8.0, 1.0, 10.0) - 28.4).abs() < 1e-9);
    }

    #[test]
    fn what_stays_in_memory_is_not_read() {
        let drives = Drives { read: 1e9, write: 1e9 };
        assert!((drives.fetch(2e10, 0.0) / 2e10 - 1.0).abs() < 1e-12);
        assert!((drives.fetch(2e10, 1.0) / 1e9 - 1.0).abs() < 1e-12);
    }
}
