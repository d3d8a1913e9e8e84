//! What a rank waits for beside its own work: data, and the slowest of the others.

use super::seconds::StepTimes;
use super::times::{CONTENTION, Setting};
use crate::layout::Layout;

/// Samples a loader worker prepares in a second when nothing is said: packed, tokenised text.
const WORKER_SAMPLES: f64 = 2000.0;
/// Bytes of a stored token.
const TOKEN_BYTES: f64 = 4.0;

/// Data must come as fast as it is used: workers prepare it, or read it and the device decodes it; the
/// store delivers it. What a decoder on the device takes from the compute beside it is lost too.
pub(super) fn input(s: &Setting<'_>, layout: &Layout, x: &mut StepTimes) {
    let runtime = &s.recipe.runtime;
    let samples = s.batch.global_batch as f64 / layout.data_parallel() as f64;
    let decode = runtime.gpu_decode_samples_per_second.map(|rate| samples / rate);
    if runtime.loader_workers.is_none() && decode.is_none() {
        return;
    }
    let prepare = match (decode, runtime.loader_workers) {
        (Some(decode), _) => decode,
        (None, Some(workers)) => {
            samples / (workers as f64 * runtime.worker_samples_per_second.unwrap_or(WORKER_SAMPLES))
        }
        (None, None) => 0.0,
    };
    let bytes = runtime.sample_bytes.unwrap_or(TOKEN_BYTES * s.batch.seq_len as f64);
    let read = s.cluster.storage.map_or(0.0, |rate| {
        let node = s.batch.global_batch as f64 * bytes / f64::from(s.cluster.nodes);
        node / rate.get()
    });
    let slowed = decode.map_or(0.0, |decode| CONTENTION * decode.min(x.compute()));
    x.input = slowed + (prepare.max(read) - x.total() - slowed).max(0.0);
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

#[cfg(test)]
mod tests {
    use crate::layout::Layout;
    use crate::step::Setting;
    use crate::workload::{Batch, ModelSpec, Recipe, Runtime};
    use crate::{Catalog, ClusterSpec};

    fn input(runtime: Runtime) -> f64 {
        let model = ModelSpec::from("llama-3.2-1b").resolve("model").unwrap();
        let recipe = Recipe { runtime, ..Recipe::default() };
        let (cluster, _) = ClusterSpec::from("8xH100-SXM-80GB").resolve(Catalog::embedded()).unwrap();
        let batch = Batch { seq_len: 4096, global_batch: 64 };
        let layout = Layout { data_parallel_shard: 8, ..Layout::default() };
        Setting::new(&model, &recipe, batch, &cluster).times(&layout).input
    }

    #[test]
    fn data_that_comes_in_time_costs_nothing_and_a_decoder_a_share() {
        let workers = |n, rate| Runtime {
            loader_workers: Some(n),
            worker_samples_per_second: Some(rate),
            ..Runtime::default()
        };
        assert_eq!(input(workers(8, 1000.0)).to_bits(), 0.0_f64.to_bits());
        // Eight samples at one a second and worker take longer than the step.
        let (one, two) = (input(workers(1, 1.0)), input(workers(2, 1.0)));
        assert!(one > 6.0 && one > two && two > 2.0, "{one} {two}");
        let decoder = |rate| Runtime { gpu_decode_samples_per_second: Some(rate), ..Runtime::default() };
        // Eight samples at a thousand a second beside the step: a quarter of eight milliseconds.
        assert!((input(decoder(1000.0)) - 0.002).abs() < 1e-9);
        assert!(input(decoder(1.0)) > 6.0);
    }
}
