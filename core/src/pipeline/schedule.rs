//! The pipeline schedules: the time a rank idles and the micro-batches it holds, in closed form. A
//! new one is a word of the vocabulary and an arm of each function here, which the compiler asks for.

use crate::vocabulary::vocabulary;

vocabulary! {
    /// The order in which a pipeline runs its micro-batches.
    Schedule {
        /// All forwards, then all backwards (Huang 2019).
        Gpipe = "gpipe",
        /// One forward, one backward (Narayanan 2021).
        OneFOneB = "1f1b",
        /// 1F1B over several model chunks per rank (Narayanan 2021).
        Interleaved = "interleaved_1f1b",
        /// Weight gradients fill the bubble, memory of 1F1B (Qi 2024).
        ZeroBubbleH1 = "zero_bubble_h1",
        /// Weight gradients fill the bubble, up to twice the memory of 1F1B (Qi 2024).
        ZeroBubbleH2 = "zero_bubble_h2",
        /// Two chunks in a V per rank (Qi 2024b).
        ZeroBubbleV = "zero_bubble_v",
        /// Two directions at once (DeepSeek-AI 2024).
        DualPipe = "dualpipe",
    } default OneFOneB
}

/// Chunks of the model that a rank holds under a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunks {
    /// One.
    One,
    /// Two.
    Two,
    /// Two or more, as the layout says.
    Several,
}

impl Schedule {
    /// How many chunks a rank holds.
    pub(crate) const fn chunks(self) -> Chunks {
        match self {
            Self::Gpipe | Self::OneFOneB | Self::ZeroBubbleH1 | Self::ZeroBubbleH2 => Chunks::One,
            Self::ZeroBubbleV | Self::DualPipe => Chunks::Two,
            Self::Interleaved => Chunks::Several,
        }
    }

    /// Whether micro-batches go through the pipeline from both ends.
    pub(crate) const fn both_ways(self) -> bool {
        match self {
            Self::DualPipe => true,
            Self::Gpipe
            | Self::OneFOneB
            | Self::Interleaved
            | Self::ZeroBubbleH1
            | Self::ZeroBubbleH2
            | Self::ZeroBubbleV => false,
        }
    }

    /// Whether weight gradients run apart from the rest of backward, to fill the bubble.
    pub(crate) const fn defers_weights(self) -> bool {
        match self {
            Self::ZeroBubbleH1 | Self::ZeroBubbleH2 | Self::ZeroBubbleV | Self::DualPipe => true,
            Self::Gpipe | Self::OneFOneB | Self::Interleaved => false,
        }
    }

    /// Whether it runs so many micro-batches over so many stages.
    ///
    /// Source: Megatron-Core `schedules.py` and `torch.distributed.pipelining`
    /// (`ScheduleInterleaved1F1B`): interleaving goes in rounds; `DualPipe` needs twice as many
    /// micro-batches as stages (DeepSeek-AI 2024).
    pub(crate) const fn runs(self, stages: u64, micro_batches: u64) -> bool {
        match self {
            _ if stages == 1 => true,
            Self::Interleaved => micro_batches.is_multiple_of(stages),
            Self::DualPipe => micro_batches >= 2 * stages && stages.is_multiple_of(2),
            Self::Gpipe | Self::OneFOneB | Self::ZeroBubbleH1 | Self::ZeroBubbleH2 | Self::ZeroBubbleV => {
                true
            }
        }
    }

    /// Micro-batches whose activations stage `i` of `p` holds at once, of `m` in a step, with `v`
    /// chunks a rank.
    ///
    /// Source: Narayanan 2021 section 2.2: `GPipe` all m, 1F1B at most p - i; interleaving adds
    /// (p - 1) / (p v) of that; Qi 2024: H1 as 1F1B, H2 up to 2p - 1, V p; DeepSeek-AI 2024: p + 1.
    pub(crate) fn in_flight(self, p: f64, v: f64, m: f64, i: f64) -> f64 {
        match self {
            Self::Gpipe => m,
            Self::OneFOneB | Self::ZeroBubbleH1 => m.min(p - i),
            Self::Interleaved => m.min((p - i) * (1.0 + (p - 1.0) / (p * v))),
            Self::ZeroBubbleH2 => m.min(2.0 * (p - i) - 1.0),
            Self::ZeroBubbleV => m.min(p),
            Self::DualPipe => m.min(p + 1.0),
        }
    }
}

/// Seconds of one micro-batch on one pipeline rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Stage {
    /// Forward.
    pub forward: f64,
    /// Backward, gradients of inputs (and recompute).
    pub backward_input: f64,
    /// Backward, gradients of weights.
    pub backward_weight: f64,
}

impl Stage {
    /// Forward and backward.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.forward + self.backward_input + self.backward_weight
    }
}

/// Seconds a rank idles in one step because the pipeline fills and drains, for `p` ranks of mean
/// stage time `mean`, `v` chunks a rank and `m` micro-batches.
///
/// Sources: `GPipe` and 1F1B `(p - 1) t`, interleaved `(p - 1) t / v` (Narayanan 2021, section 2.2);
/// H1 `(p - 1)(F + B - W)`, H2 `(p - 1)(F + B - 2 W)` (Qi 2024, table 1); V: eight chains (`zero_bubble_v`);
/// `DualPipe` `(p / 2 - 1)(F + 2 B - W)`: with whole backwards B + W, (F&B) + (B + W) - 3 W
/// (DeepSeek-AI 2024, table 2).
///
/// ```
/// use shardwise::layout::Schedule;
/// use shardwise::pipeline::{Stage, bubble};
/// let t = Stage { forward: 1.0, backward_input: 1.0, backward_weight: 1.0 };
/// assert_eq!(bubble(Schedule::OneFOneB, 4.0, 1.0, 8.0, &t), 9.0);
/// assert_eq!(bubble(Schedule::Interleaved, 4.0, 3.0, 8.0, &t), 3.0);
/// assert_eq!(bubble(Schedule::ZeroBubbleH1, 4.0, 1.0, 8.0, &t), 3.0);
/// assert_eq!(bubble(Schedule::ZeroBubbleH2, 4.0, 1.0, 8.0, &t), 0.0);
/// assert_eq!(bubble(Schedule::ZeroBubbleV, 4.0, 2.0, 8.0, &t), 1.5);
/// assert_eq!(bubble(Schedule::DualPipe, 4.0, 2.0, 8.0, &t), 2.0);
/// ```
#[must_use]
pub fn bubble(schedule: Schedule, p: f64, v: f64, m: f64, mean: &Stage) -> f64 {
    if p <= 1.0 {
        return 0.0;
    }
    let (f, b, w) = (mean.forward, mean.backward_input, mean.backward_weight);
    // Fill and drain of a pipeline in which so many weight gradients have a place; with few
    // micro-batches there are only those of the ones before the last.
    let filled = |places: f64| ((p - 1.0) * (f + b) - (m - 1.0).min(places).max(0.0) * w).max(0.0);
    match schedule {
        Schedule::Gpipe | Schedule::OneFOneB => (p - 1.0) * (f + b + w),
        Schedule::Interleaved => (p - 1.0) * (f + b + w) / v.max(1.0),
        Schedule::ZeroBubbleH1 => filled(p - 1.0),
        Schedule::ZeroBubbleH2 => filled(2.0 * (p - 1.0)),
        Schedule::ZeroBubbleV => zero_bubble_v(p, m, mean),
        Schedule::DualPipe => (p / 2.0 - 1.0).max(0.0) * (f + 2.0 * b - w).max(0.0),
    }
}

/// What a step of the V schedule takes longer than its work, all ranks ending together, as the norm of
/// all gradients demands. With the times `f`, `b`, `w` of one of a rank's two chunks it is the longest
/// of the chains that can bind: backwards handed along the ranks, `(p - 1) b`, where `w <= f <= b`;
/// forwards, weight gradients or the drain where these take longer; and fill and drain of a pipeline
/// with fewer micro-batches than `2 p - 1`.
///
/// Source: Qi 2024b (building block of V-ZB), in the order of PyTorch's `ScheduleZBVZeroBubble`; the
/// chains were read off an event simulation of that order, which is the referee in the tests: equal
/// for every `f`, `b`, `w` from `2 p - 1` micro-batches on, for `w <= f <= b` whatever their number.
fn zero_bubble_v(p: f64, m: f64, mean: &Stage) -> f64 {
    let (f, b, w) = (mean.forward / 2.0, mean.backward_input / 2.0, mean.backward_weight / 2.0);
    let n = p - 1.0;
    let missing = (2.0 * p - 1.0 - m).max(0.0);
    let fill = 2.0 * (p - m).max(0.0) * f - 2.0 * (m - p).clamp(0.0, n) * w;
    [
        n * b + missing * (b - w),
        2.0 * n * b + fill,
        n * f + (n - 1.0) * (f - b),
        b + (n - 1.0) * w,
        f + (n - 1.0) * w,
        2.0 * n * f - n * b - w,
        n * f + (n - 1.0) * f + b - 2.0 * n * w,
        2.0 * n * (f - w) - w,
    ]
    .into_iter()
    .fold(0.0, f64::max)
}
