//! The pipeline stages that can be fullest, and the least that must be known of each to find the
//! fullest for any micro-batch and schedule.

use super::instants::Instants;
use super::memo::Memo;
use super::runtime::Outside;
use super::timeline::{Share, Stage, beside};
use crate::layout::Layout;
use crate::quantity::Bytes;
use crate::term::Interval80;
use crate::workload::{Model, Recipe};

/// The stages of a layout that can be fullest: without a pipeline the one; with one, the first (most
/// micro-batches in flight, the embedding), the second, and the last (head and loss).
pub(crate) struct Stages<'a> {
    stages: [Option<(u64, Stage<'a>)>; 3],
    recipe: &'a Recipe,
}

/// Memory of the fullest rank in three figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Figures {
    /// Least memory with which the step runs.
    pub(crate) needed: Bytes,
    /// What the device shows in use.
    pub(crate) device: Bytes,
    /// 80 % interval of the least memory.
    pub(crate) needed_interval80: Interval80<Bytes>,
    /// On the host, for each rank.
    pub(crate) host: Bytes,
    /// On the node's drives, for each rank.
    pub(crate) nvme: Bytes,
}

/// An instant that peaks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Peak {
    /// Which: an index into the instants.
    pub(super) instant: usize,
    /// Bytes of all tensors.
    pub(super) total: f64,
    /// Of those, what stays between steps.
    at_rest: f64,
}

/// A stage for one micro-batch, whatever the schedule.
#[derive(Clone, Copy, Debug)]
struct StagePeaks {
    index: u64,
    /// The fullest instant at which other micro-batches wait, without them.
    waits: Peak,
    /// The fullest of the others.
    rests: Peak,
    /// What a waiting micro-batch keeps, on the device and on the host.
    each: f64,
    host: f64,
}

/// Every stage for one micro-batch, whatever the schedule.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Peaks([Option<StagePeaks>; 3]);

impl<'a> Stages<'a> {
    /// The stages of `layout`; its micro-batch, schedule and chunks are not read.
    pub(crate) fn new<'r: 'a>(
        model: &Model,
        recipe: &'r Recipe,
        layout: &'a Layout,
        seq_len: u64,
        accumulates: bool,
        memo: &mut Memo<'r>,
    ) -> Self {
        let last = layout.pipeline_parallel.max(1) - 1;
        let second = 1.min(last);
        let which = [Some(0), (second < last).then_some(second), (last > 0).then_some(last)];
        let stages = which.map(|index| {
            index.map(|i| {
                let share = share_of(model, layout, i);
                (i, Stage::new(model, recipe, layout, seq_len, accumulates, share, memo))
            })
        });
        Self { stages, recipe }
    }

    /// The peaks for a micro-batch of `samples` sequences.
    pub(crate) fn peaks(&self, samples: f64) -> Peaks {
        Peaks(self.stages.each_ref().map(|stage| {
            stage.as_ref().map(|(index, stage)| {
                let [waits, rests] = peaks_of(&stage.instants(samples, 1.0));
                StagePeaks {
                    index: *index,
                    waits,
                    rests,
                    each: stage.kept(samples),
                    host: stage.offloaded_activations(samples),
                }
            })
        }))
    }

    /// What rests between steps on the fullest stage: no micro-batch needs less.
    pub(crate) fn at_rest(&self) -> Bytes {
        Bytes::of(self.stages.iter().flatten().map(|(_, s)| s.at_rest()).fold(0.0, f64::max))
    }

    /// The stage that is fullest.
    pub(super) fn fullest(
        &self,
        samples: f64,
        layout: &Layout,
        micro_batches: u64,
    ) -> Option<(u64, &Stage<'a>)> {
        let (index, _) = self.peaks(samples).fullest(layout, micro_batches)?;
        self.stages.iter().flatten().find(|(i, _)| *i == index).map(|(i, s)| (*i, s))
    }

    /// Memory of the fullest rank under the schedule of `layout`, tensors taking `factor` times what is
    /// predicted.
    pub(crate) fn figures(&self, peaks: &Peaks, layout: &Layout, micro_batches: u64, factor: f64) -> Figures {
        let (index, peak) = peaks.fullest(layout, micro_batches).unwrap_or_default();
        let outside = Outside::of(peak.total, peak.at_rest, self.recipe, layout);
        let (states, nvme) =
            self.stages.iter().flatten().find(|(i, _)| *i == index).map_or((0.0, 0.0), |(_, s)| {
                let s = s.states();
                (s.host + s.swapped.buffers(), s.swapped.total())
            });
        let each = peaks.0.iter().flatten().find(|s| s.index == index).map_or(0.0, |s| s.host);
        let activations = each * in_flight(layout, micro_batches, index).max(1.0);
        let more = Bytes::of(peak.total) * (factor - 1.0);
        let device = Bytes::of(outside.device(peak.total)) + more;
        let needed = Bytes::of(outside.needed(peak.total)) + more;
        Figures {
            needed,
            needed_interval80: super::interval::around(needed, super::interval::NEEDED),
            device,
            host: Bytes::of(states + activations),
            nvme: Bytes::of(nvme),
        }
    }
}

impl Peaks {
    /// What no schedule needs less than: no other micro-batch waits.
    pub(crate) fn least(&self) -> Bytes {
        Bytes::of(self.0.iter().flatten().fold(0.0, |most, s| most.max(s.waits.total).max(s.rests.total)))
    }

    fn fullest(&self, layout: &Layout, micro_batches: u64) -> Option<(u64, Peak)> {
        let mut fullest: Option<(u64, Peak)> = None;
        for stage in self.0.iter().flatten() {
            let waiting = beside(in_flight(layout, micro_batches, stage.index)) * stage.each;
            let peak = later(&stage.waits, waiting, &stage.rests);
            if fullest.is_none_or(|(_, best)| peak.total > best.total) {
                fullest = Some((stage.index, peak));
            }
        }
        fullest
    }
}

/// The fuller of an instant at which others wait and one at which none does.
fn later(waits: &Peak, waiting: f64, rests: &Peak) -> Peak {
    let waits = Peak { total: waits.total + waiting, ..*waits };
    if waits.total >= rests.total { waits } else { *rests }
}

/// The fullest instant at which other micro-batches wait, without them, and the fullest of the rest.
fn peaks_of(instants: &Instants) -> [Peak; 2] {
    let mut out = [Peak::default(); 2];
    for (i, (instant, parts)) in instants.iter().enumerate() {
        let [waits, rests] = &mut out;
        let best = if instant.waits() { waits } else { rests };
        let total = parts.alone();
        if total > best.total {
            *best = Peak { instant: i, total, at_rest: parts.at_rest() };
        }
    }
    out
}

/// The fullest instant.
pub(super) fn peak_of(instants: &Instants) -> Peak {
    let [waits, rests] = peaks_of(instants);
    let waiting = instants.get(waits.instant).map_or(0.0, |(_, parts)| parts.waiting);
    later(&waits, waiting, &rests)
}

/// The layers of a stage: an even split, the embedding on the first and the head on the last.
pub(super) fn share_of(model: &Model, layout: &Layout, stage: u64) -> Share {
    let (layers, p) = (model.layers(), layout.pipeline_parallel.max(1));
    let per = layers.div_ceil(p);
    Share {
        from: (stage * per).min(layers),
        to: ((stage + 1) * per).min(layers),
        first: stage == 0,
        last: stage + 1 == p,
    }
}

/// Micro-batches whose activations a stage holds at once.
pub(super) fn in_flight(layout: &Layout, m: u64, stage: u64) -> f64 {
    if layout.pipeline_parallel <= 1 {
        return 1.0;
    }
    let (p, m, i) = (layout.pipeline_parallel as f64, m as f64, stage as f64);
    let v = layout.pipeline_chunks.max(1) as f64;
    layout.pipeline_schedule.in_flight(p, v, m, i)
}
