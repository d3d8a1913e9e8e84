//! Closed forms of the bubble.

use crate::layout::Schedule;

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
    match schedule {
        Schedule::Gpipe | Schedule::OneFOneB => (p - 1.0) * (f + b + w),
        Schedule::Interleaved => (p - 1.0) * (f + b + w) / v.max(1.0),
        Schedule::ZeroBubbleH1 => (p - 1.0) * (f + b - w).max(0.0),
        Schedule::ZeroBubbleH2 => (p - 1.0) * (f + b - 2.0 * w).max(0.0),
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
