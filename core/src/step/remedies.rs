//! What the obvious changes would buy: each is made and the step timed again.

use std::borrow::Cow;

use super::partition::Partition;
use super::report::Remedy;
use super::seconds::StepTimes;
use super::times::{Costs, Setting};
use crate::compute::{Profile, Slice};
use crate::layout::{Layout, Recompute, Reshard, Schedule, Sharding};
use crate::order::sort_by;
use crate::quantity::Seconds;
use crate::workload::{Kernels, LossKernel, OpKind, Optimizer, Recipe};

/// Savings below this share of the step are not worth a line.
const WORTH: f64 = 0.005;

/// Changes that keep the mathematics, each with the time it saves, largest first. Whether memory
/// allows them is another room's question. `costs` are those of the layout as it is: most changes
/// leave them as they are.
pub(super) fn remedies(s: &Setting<'_>, layout: &Layout, now: &StepTimes, costs: &Costs) -> Vec<Remedy> {
    let total = now.total();
    let mut out = Vec::new();
    let mut tell = |change: &'static str, times: &StepTimes| {
        let saves = total - times.total();
        if saves > WORTH * total {
            out.push(Remedy { change: Cow::Borrowed(change), saves: Seconds::of(saves) });
        }
    };
    // No change here moves a block to another stage.
    let stages = Partition::new(s.model, layout.pipeline_parallel, costs.first.is_some());
    let slice = |layout: &Layout| Slice::of(layout, s.batch.seq_len);
    for (change, other) in layouts(layout, now) {
        let same = slice(&other) == slice(layout);
        let times = if same {
            s.times_over(&other, costs, &stages)
        } else {
            s.times_over(&other, &s.costs(&other), &stages)
        };
        tell(change, &times);
    }
    for (change, recipe, touches) in recipes(s.recipe, now) {
        // None of them touches the rates of the parts.
        let other = Setting { recipe: &recipe, profile: Profile::of(&recipe), ..*s };
        let times = match touches {
            Touches::Step => other.times_over(layout, costs, &stages),
            Touches::Loss => other.times_over(layout, &other.costs_of_loss(layout, costs), &stages),
            Touches::Kernels => other.times_over(layout, &other.costs(layout), &stages),
        };
        tell(change, &times);
    }
    if now.data + now.sharded + now.expert + now.tensor + now.context + now.send > 0.0 {
        let mut other = *s;
        other.fabric = s.fabric.with_network(2.0);
        tell("a network between nodes twice as fast", &other.times_over(layout, costs, &stages));
    }
    sort_by(&mut out, |a, b| b.saves.get().total_cmp(&a.saves.get()));
    out
}

/// Other ways to split and schedule.
fn layouts(layout: &Layout, now: &StepTimes) -> Vec<(&'static str, Layout)> {
    let mut out = Vec::new();
    let base = || layout.clone();
    if now.micro_batches >= 2.0 {
        out.push(("a micro-batch twice as large", Layout { micro_batch: 2 * layout.micro_batch, ..base() }));
    }
    if layout.recompute != Recompute::None {
        out.push(("no recompute", Layout { recompute: Recompute::None, ..base() }));
    }
    if now.sharded + now.hidden_sharded > 0.0 {
        let kept = match layout.sharding {
            Sharding::Fsdp2 => Layout { reshard_after_forward: Reshard::Never, ..base() },
            Sharding::HybridShard => Layout { sharding: Sharding::HybridShardZero2, ..base() },
            Sharding::Zero3 => Layout { sharding: Sharding::Zero2, ..base() },
            _ => Layout { sharding: Sharding::ShardGradOp, ..base() },
        };
        out.push(("parameters kept gathered between forward and backward", kept));
    }
    if layout.tensor_parallel > 1 && !layout.sequence_parallel {
        out.push((
            "sequence parallelism beside tensor parallelism",
            Layout { sequence_parallel: true, ..base() },
        ));
    }
    if now.bubble > 0.0 && layout.pipeline_schedule == Schedule::OneFOneB {
        let other = Layout {
            pipeline_schedule: Schedule::Interleaved,
            pipeline_chunks: 2 * layout.pipeline_chunks,
            ..base()
        };
        out.push(("an interleaved schedule with two chunks a rank", other));
    }
    if !layout.offload.is_empty() {
        out.push(("nothing offloaded", Layout { offload: Vec::new(), ..base() }));
    }
    out
}

/// How much of a step a change of the recipe touches.
#[derive(Clone, Copy)]
enum Touches {
    /// Nothing that a block costs by itself.
    Step,
    /// The cost of the blocks with a loss.
    Loss,
    /// The cost of every block.
    Kernels,
}

impl Setting<'_> {
    /// Costs after a change that only blocks with a loss feel.
    fn costs_of_loss(&self, layout: &Layout, costs: &Costs) -> Costs {
        let mut out = costs.clone();
        for (block, cost) in self.model.blocks.iter().zip(&mut out.blocks) {
            if block.ops.iter().any(|op| matches!(op.kind, OpKind::Loss | OpKind::PlainLoss)) {
                *cost = self.cost(layout, block);
            }
        }
        out
    }
}

/// Other kernels and machinery.
fn recipes(recipe: &Recipe, now: &StepTimes) -> Vec<(&'static str, Recipe, Touches)> {
    let mut out = Vec::new();
    if recipe.loss == LossKernel::Eager {
        let fused = Recipe { loss: LossKernel::FusedLinear, ..recipe.clone() };
        out.push(("a fused loss", fused, Touches::Loss));
    }
    if recipe.kernels() == Kernels::Eager {
        let compiled = Recipe { kernels: Some(Kernels::Compiled), ..recipe.clone() };
        out.push(("torch.compile", compiled, Touches::Kernels));
    }
    if recipe.optimizer == Optimizer::Adamw {
        let fused = Recipe { optimizer: Optimizer::AdamwFused, ..recipe.clone() };
        out.push(("a fused optimizer", fused, Touches::Step));
    }
    if now.host > 0.0 {
        let mut graphs = recipe.clone();
        graphs.runtime.cuda_graphs = true;
        out.push(("recorded CUDA graphs", graphs, Touches::Step));
    }
    if let (Some(workers), true) = (recipe.runtime.loader_workers, now.input > 0.0) {
        let mut more = recipe.clone();
        more.runtime.loader_workers = Some(2 * workers);
        out.push(("twice the loader workers", more, Touches::Step));
    }
    out
}
