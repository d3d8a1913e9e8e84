//! Which blocks the stages of a pipeline hold.

use super::times::Timed;
use crate::workload::{BlockKind, Model};

/// The distinct stages of a pipeline: how many of each distinct block of the model they hold.
#[derive(Clone, Debug)]
pub(crate) struct Partition {
    /// Rows of `width` counts: one for all stages together, then one for each distinct stage.
    counts: Vec<f64>,
    width: usize,
}

impl Partition {
    /// Layers in order over `stages` stages, the embedding with the first, norm and head with the
    /// last. With `fresh` the first layer is counted apart, after the model's blocks.
    pub(crate) fn new(model: &Model, stages: u64, fresh: bool) -> Self {
        let width = model.blocks.len() + usize::from(fresh);
        let layers = model.layers() as f64;
        let p = stages as f64;
        // Frameworks count embedding and head as layers when only that makes the stages even.
        let counted = |extra: f64| p > 1.0 && (layers + extra) % p == 0.0 && layers % p != 0.0;
        let (head_weight, start_weight) = if counted(1.0) {
            (1.0, 0.0)
        } else if counted(2.0) {
            (1.0, 1.0)
        } else {
            (0.0, 0.0)
        };
        let per_stage = (layers + head_weight + start_weight) / p;
        let mut out = Self { counts: vec![0.0; width], width };
        let mut stage = vec![0.0; width];
        let mut room = per_stage - start_weight;
        let mut fresh = fresh;
        let mut left = p;
        for run in &model.order {
            let Some(block) = model.blocks.get(run.block) else { continue };
            let mut n = run.count as f64;
            if block.kind != BlockKind::Layer {
                out.put(&mut stage, run.block, n);
                continue;
            }
            if fresh {
                fresh = false;
                out.put(&mut stage, width - 1, 1.0);
                room -= 1.0;
                n -= 1.0;
            }
            while n > 0.0 {
                if room < 0.5 && left > 1.0 {
                    out.close(&mut stage);
                    left -= 1.0;
                    room += per_stage;
                }
                let whole = room.round().max(1.0);
                let take = if left > 1.0 { n.min(whole) } else { n };
                out.put(&mut stage, run.block, take);
                room -= take;
                n -= take;
            }
        }
        out.close(&mut stage);
        out
    }

    /// Puts so many blocks into a stage, and into the whole.
    fn put(&mut self, stage: &mut [f64], block: usize, n: f64) {
        for row in [stage, self.counts.as_mut_slice()] {
            if let Some(count) = row.get_mut(block) {
                *count += n;
            }
        }
    }

    /// Ends a stage: kept unless one like it is there.
    fn close(&mut self, stage: &mut [f64]) {
        if !self.stages().any(|known| known == &*stage) {
            self.counts.extend_from_slice(stage);
        }
        stage.fill(0.0);
    }

    fn stages(&self) -> impl Iterator<Item = &[f64]> {
        self.counts.chunks_exact(self.width.max(1)).skip(1)
    }

    /// All stages together.
    pub(super) fn all(&self) -> &[f64] {
        self.counts.get(..self.width).unwrap_or_default()
    }

    /// The stage that takes longest; of equals the first.
    pub(super) fn slowest(&self, blocks: &[Timed]) -> Option<&[f64]> {
        let mut slowest: Option<(&[f64], f64)> = None;
        for stage in self.stages() {
            let time = stage.iter().zip(blocks).map(|(n, t)| n * (t.forward + t.backward)).sum::<f64>();
            if slowest.is_none_or(|(_, longest)| time > longest) {
                slowest = Some((stage, time));
            }
        }
        slowest.map(|(stage, _)| stage)
    }
}
