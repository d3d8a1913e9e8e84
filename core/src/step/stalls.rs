//! What a rank waits for beside its own work: data, and the slowest of the others.

use super::times::{Setting, StepTimes};
use crate::layout::Layout;

/// Samples a loader worker prepares in a second when nothing is said: packed, tokenised text.
const WORKER_SAMPLES: f64 = 2000.0;
/// Bytes of a stored token.
const TOKEN_BYTES: f64 = 4.0;

/// Data must come as fast as it is used: workers prepare it, the store delivers it.
pub(super) fn input(s: &Setting<'_>, layout: &Layout, x: &mut StepTimes) {
    let runtime = &s.recipe.runtime;
    let Some(workers) = runtime.loader_workers else { return };
    let samples = s.batch.global_batch as f64 / layout.data_parallel() as f64;
    let prepare = samples / (workers as f64 * runtime.worker_samples_per_second.unwrap_or(WORKER_SAMPLES));
    let bytes = runtime.sample_bytes.unwrap_or(TOKEN_BYTES * s.batch.seq_len as f64);
    let read = s.cluster.storage.map_or(0.0, |rate| {
        let node = s.batch.global_batch as f64 * bytes / f64::from(s.cluster.nodes);
        node / rate.get()
    });
    x.input = (prepare.max(read) - x.total()).max(0.0);
}

/// Synchronous ranks wait for the slowest: of `n` with relative spread sigma the largest is expected
/// at `sigma sqrt(2 ln n)` above the mean. Source: extreme values of a normal distribution.
pub(super) fn straggler(s: &Setting<'_>, x: &mut StepTimes) {
    let n = s.cluster.gpus() as f64;
    let Some(jitter) = s.recipe.runtime.jitter else { return };
    if n > 1.0 {
        x.straggler = x.compute() * jitter * (2.0 * libm::log(n)).sqrt();
    }
}
