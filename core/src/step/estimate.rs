//! From times to a report.

use std::borrow::Cow;

use super::report::StepReport;
use super::seconds::StepTimes;
use super::times::Setting;
use crate::cluster::Cluster;
use crate::compute::{FlopRules, step_flops};
use crate::layout::{Again, Layout};
use crate::quantity::{Flops, Seconds};
use crate::term::{Term, Terms};
use crate::workload::{Batch, Model, Recipe};

/// A line of the report: name, formula, source and how to read it from the times.
type Line = (&'static str, &'static str, &'static str, fn(&StepTimes) -> f64);

const TIME: &[Line] = &[
    ("forward matmul", "sum of 2 m n k / (peak x sustained x shape)", "NVIDIA matmul guide", |t| {
        t.forward.matmul
    }),
    ("forward attention", "2 b a s^2 / 2 (d_qk + d_v) / rate", "Dao 2023; Shah 2024", |t| {
        t.forward.attention
    }),
    ("forward memory-bound", "bytes / (bandwidth x 0.82)", "counts of reads and writes", |t| {
        t.forward.traffic
    }),
    ("backward matmul", "two products for each of forward's", "Narayanan 2021", |t| t.backward.matmul),
    ("backward attention", "2.5 x forward FLOPs at 0.85 of its rate", "Dao 2023", |t| t.backward.attention),
    ("backward memory-bound", "bytes / (bandwidth x 0.82)", "counts of reads and writes", |t| {
        t.backward.traffic
    }),
    ("recompute", "forward of checkpointed layers", "Chen 2016; Korthikanti 2022", |t| t.recompute.total()),
    (
        "casts",
        "bytes read and written by low-precision casts / bandwidth",
        "Transformer Engine; torchao",
        |t| t.forward.cast + t.backward.cast,
    ),
    ("dequantise", "2.6 B per parameter at 0.3 of the bandwidth", "Dettmers 2023", |t| {
        t.forward.dequantize + t.backward.dequantize
    }),
    ("kernel gaps", "2 us per kernel", "stream order", |t| t.forward.gap + t.backward.gap),
    ("host", "launches slower than the device", "kernel counts", |t| t.host),
    ("contention", "0.25 x the shorter of compute and traffic", "measured", |t| t.contention),
    (
        "tensor parallel",
        "exposed gathers, scatters and all-reduces of hidden states",
        "Korthikanti 2022",
        |t| t.tensor,
    ),
    ("context parallel", "exposed ring of keys and values", "Liu 2023", |t| t.context),
    ("expert parallel", "exposed all-to-all of routed tokens", "Lepikhin 2020", |t| t.expert),
    ("sharded parameters", "exposed gathers and reductions by unit", "Zhao 2023; Rajbhandari 2020", |t| {
        t.sharded
    }),
    ("data parallel", "exposed gradient reduction and parameter gather", "Rajbhandari 2020", |t| t.data),
    ("pipeline sends", "exposed point-to-point", "Narayanan 2021", |t| t.send),
    ("pipeline bubble", "fill and drain of the schedule", "Narayanan 2021; Qi 2024", |t| t.bubble),
    ("gradient accumulation", "bytes per parameter and micro-batch / bandwidth", "framework code", |t| {
        t.accumulate
    }),
    ("optimizer", "bytes per owned parameter / bandwidth", "framework code", |t| t.optimizer),
    ("offload", "bytes over the host link", "Ren 2021", |t| t.offload),
    ("input", "slower of loader and storage, less the step", "loader rates", |t| t.input),
    ("straggler", "compute x jitter x sqrt(2 ln n)", "extreme values", |t| t.straggler),
];

const HIDDEN: &[Line] = &[
    ("tensor parallel", "behind matrix products", "Korthikanti 2022", |t| t.hidden_tensor),
    ("context parallel", "behind attention", "Liu 2023", |t| t.hidden_context),
    ("expert parallel", "behind another chunk", "DeepSeek-AI 2024", |t| t.hidden_expert),
    ("sharded parameters", "behind the unit before", "Zhao 2023", |t| t.hidden_sharded),
    ("data parallel", "behind backward and forward", "Li 2020; Rajbhandari 2020", |t| t.hidden_data),
    ("pipeline sends", "behind compute", "Narayanan 2021", |t| t.hidden_send),
];

fn terms(lines: &'static [Line], t: &StepTimes) -> Terms<Seconds> {
    Terms(
        lines
            .iter()
            .filter_map(|(name, formula, source, of)| {
                let amount = of(t);
                (amount > 0.0).then(|| Term::new(*name, Seconds::of(amount), *formula, *source))
            })
            .collect(),
    )
}

/// The term that takes longer after a change by most, and by how many seconds.
pub(crate) fn grown(before: &StepTimes, after: &StepTimes) -> (&'static str, f64) {
    TIME.iter()
        .map(|(name, .., of)| (*name, of(after) - of(before)))
        .fold(("", 0.0), |worst, one| if one.1 > worst.1 { one } else { worst })
}

/// What one optimizer step takes and where the time goes.
#[must_use]
pub fn estimate(
    model: &Model,
    recipe: &Recipe,
    layout: &Layout,
    batch: &Batch,
    cluster: &Cluster,
) -> StepReport {
    Setting::new(model, recipe, *batch, cluster).report(layout)
}

impl Setting<'_> {
    /// Standard deviation of ln(measured / predicted) of published runs like this one.
    #[must_use]
    pub fn spread(&self) -> f64 {
        let (low, high) = super::interval::published(self.model, self.cluster);
        libm::log(high / low) / (2.0 * super::interval::EIGHTY)
    }

    /// The report of one layout.
    #[must_use]
    pub fn report(&self, layout: &Layout) -> StepReport {
        let costs = self.costs(layout);
        let times = self.times_with(layout, &costs);
        let rules = FlopRules {
            seq_len: self.batch.seq_len,
            sequences: self.batch.global_batch as f64,
            causal_half: true,
            recompute: layout.recompute,
            recompute_every: layout.recompute_every,
            again: Again::of(layout),
        };
        let flops = step_flops(self.model, self.recipe, &rules);
        let seconds = times.total();
        let peak = self.machine.peak * layout.world() as f64 * seconds;
        StepReport {
            time: terms(TIME, &times),
            hidden: terms(HIDDEN, &times),
            model_flops: Flops::of(flops.model()),
            hardware_flops: Flops::of(flops.hardware()),
            tokens: self.batch.seq_len as f64 * self.batch.global_batch as f64,
            mfu: flops.model() / peak,
            hfu: flops.hardware() / peak,
            bottleneck: bottleneck(&times),
            remedies: super::remedies::remedies(self, layout, &times, &costs),
            interval80: super::interval::interval(self, seconds),
        }
    }
}

/// What binds, in words: the largest group of terms, and its share of the step.
fn bottleneck(t: &StepTimes) -> Cow<'static, str> {
    let all =
        |part: fn(&crate::compute::Parts) -> f64| part(&t.forward) + part(&t.backward) + part(&t.recompute);
    let groups = [
        ("matrix products", all(|p| p.matmul)),
        ("attention", all(|p| p.attention)),
        ("memory bandwidth (norms, activations, casts, loss)", all(|p| p.traffic + p.cast + p.dequantize)),
        ("the host: kernels are issued too slowly", t.host + all(|p| p.gap)),
        ("tensor-parallel traffic", t.tensor),
        ("context-parallel traffic", t.context),
        ("expert traffic", t.expert),
        ("gathers and reductions of sharded parameters", t.sharded + t.contention),
        ("data-parallel traffic", t.data),
        ("the pipeline's bubble and sends", t.bubble + t.send),
        ("the optimizer and gradient accumulation", t.optimizer + t.accumulate),
        ("traffic with the host", t.offload),
        ("data loading", t.input),
        ("the slowest rank", t.straggler),
    ];
    let worst = groups.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
    match worst {
        Some((name, seconds)) if t.total() > 0.0 => {
            format!("{name}: {:.0} % of the step", 100.0 * seconds / t.total()).into()
        }
        _ => Cow::Borrowed("nothing"),
    }
}
