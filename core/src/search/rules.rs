//! Named rules: what no machine, model or framework runs, whatever it would cost.

use super::facts::Facts;
use super::frameworks::{apart, kept_on_device};
use crate::layout::{Layout, Sharding, Wrap};
use crate::memory::bars_size;
use crate::pipeline::Chunks;

/// One rule: its name, how it reads, and when it is checked.
#[derive(Clone, Copy)]
pub struct Rule {
    /// By which answers name it.
    pub name: &'static str,
    /// What it demands.
    pub demands: &'static str,
    level: Level,
    /// Whether it is broken.
    broken: fn(&Facts, &Layout) -> bool,
    /// The figure that breaks it, in words.
    says: fn(&Facts, &Layout) -> String,
}

/// The innermost choice of the search that a rule reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// Tensor, context and expert degrees.
    Ranks,
    /// The pipeline degree.
    Pipeline,
    /// Strategy and split of the data-parallel ranks, recompute and offload.
    Split,
    /// Micro-batch, schedule and chunks.
    Schedule,
}

macro_rules! rule {
    ($level:ident, $name:literal, $demands:literal, |$f:pat_param, $l:pat_param| $broken:expr, $says:expr) => {
        Rule {
            name: $name,
            demands: $demands,
            level: Level::$level,
            #[allow(unused_variables)]
            says: |$f, $l| $says,
            broken: |$f, $l| $broken,
        }
    };
}

/// Every rule, in the order in which they are checked.
#[must_use]
pub const fn rules() -> &'static [Rule] {
    RULES
}

const RULES: &[Rule] = &[
    rule!(
        Pipeline,
        "traced",
        "a traced model runs with data parallelism alone",
        |f, l| f.traced
            && l.tensor_parallel * l.context_parallel * l.pipeline_parallel * l.expert_parallel > 1,
        "a traced model is not split but by data".into()
    ),
    rule!(
        Ranks,
        "tensor inside the node",
        "tensor-parallel ranks share the fastest link",
        |f, l| l.tensor_parallel > f.domain || f.domain % l.tensor_parallel != 0 && l.tensor_parallel > 1,
        format!(
            "{} tensor ranks do not fit the {} GPUs that the fastest link joins",
            l.tensor_parallel, f.domain
        )
    ),
    rule!(
        Ranks,
        "heads",
        "tensor ranks divide the query heads",
        |f, l| f.heads.iter().any(|(heads, _)| heads % l.tensor_parallel != 0),
        format!("{} tensor ranks do not divide {} query heads", l.tensor_parallel, first(f, |(h, _)| h))
    ),
    rule!(
        Ranks,
        "key-value heads",
        "tensor ranks divide the key-value heads, or these divide them",
        |f, l| f
            .heads
            .iter()
            .any(|(_, kv)| kv % l.tensor_parallel != 0 && l.tensor_parallel % kv.max(&1) != 0),
        format!(
            "{} tensor ranks do not divide {} key-value heads",
            l.tensor_parallel,
            first(f, |(_, kv)| kv)
        )
    ),
    rule!(
        Ranks,
        "widths",
        "tensor ranks divide the products they share",
        |f, l| f.widths.iter().any(|w| w % l.tensor_parallel != 0),
        format!("{} tensor ranks do not divide every width of the layers", l.tensor_parallel)
    ),
    rule!(
        Ranks,
        "sequence",
        "context ranks take two equal chunks of each sequence",
        |f, l| l.context_parallel > 1 && f.batch.seq_len % (2 * l.context_parallel) != 0,
        format!("{} tokens are not {} equal chunks", f.batch.seq_len, 2 * l.context_parallel)
    ),
    rule!(
        Ranks,
        "whole sequences",
        "scans, encoders and images see whole sequences",
        |f, l| l.context_parallel > 1 && (f.whole_sequences || f.encoder),
        "the model needs whole sequences on a rank".into()
    ),
    rule!(
        Ranks,
        "experts",
        "expert ranks divide the experts",
        |f, l| l.expert_parallel > 1
            && (f.experts.is_empty() || f.experts.iter().any(|e| e % l.expert_parallel != 0)),
        format!(
            "{} expert ranks do not divide {} experts",
            l.expert_parallel,
            f.experts.first().copied().unwrap_or_default()
        )
    ),
    rule!(
        Pipeline,
        "adapters",
        "adapters run with data parallelism alone in this framework",
        |f, l| !f.any_framework
            && f.adapters
            && !f.profile.adapters_split
            && l.tensor_parallel * l.context_parallel * l.pipeline_parallel > 1,
        format!("{} runs adapters with data parallelism alone", f.profile.name)
    ),
    rule!(
        Pipeline,
        "world",
        "degrees divide the GPUs",
        |f, l| f.gpus % (l.tensor_parallel * l.context_parallel * l.pipeline_parallel) != 0,
        format!(
            "{} x {} x {} does not divide {} GPUs",
            l.tensor_parallel, l.context_parallel, l.pipeline_parallel, f.gpus
        )
    ),
    rule!(
        Pipeline,
        "layers",
        "every stage holds a layer",
        |f, l| !each_holds(f.layers, l.pipeline_parallel),
        format!("{} layers leave one of {} stages empty", f.layers, l.pipeline_parallel)
    ),
    rule!(
        Pipeline,
        "encoder",
        "an encoder and its decoder share their stage",
        |f, l| f.encoder && l.pipeline_parallel > 1,
        "an encoder-decoder is not cut into stages".into()
    ),
    rule!(
        Split,
        "units by size",
        "units by size are FSDP1's, of a head with a table of its own",
        |f, l| by_size_beside(f, l).is_some(),
        format!("no units by size beside {}", by_size_beside(f, l).unwrap_or_default())
    ),
    rule!(
        Split,
        "framework",
        "the framework has it",
        |f, l| !f.any_framework && f.profile.lacks(l).is_some(),
        format!(
            "{} has no {}",
            f.profile.name,
            match f.profile.lacks(l) {
                Some("that sharding strategy") => l.sharding.name(),
                Some(what) => what,
                None => "",
            }
        )
    ),
    rule!(
        Split,
        "strategy",
        "the strategy runs beside the other degrees",
        |f, l| !f.any_framework && apart(f.framework, l).is_some(),
        format!("{} does not run beside {}", l.sharding, apart(f.framework, l).unwrap_or_default())
    ),
    rule!(
        Split,
        "replicas",
        "replicas and shards as the strategy has them",
        |_, l| !replicas(l),
        format!(
            "{} has no {} replicas of {} shards",
            l.sharding, l.data_parallel_replicate, l.data_parallel_shard
        )
    ),
    rule!(
        Split,
        "expert group",
        "expert ranks are a part of data, context and tensor ranks",
        |_, l| (l.data_parallel() * l.context_parallel * l.tensor_parallel) % l.expert_parallel != 0,
        format!(
            "{} expert ranks do not divide {}",
            l.expert_parallel,
            l.data_parallel() * l.context_parallel * l.tensor_parallel
        )
    ),
    rule!(
        Split,
        "offload",
        "only what is sharded leaves the device",
        |_, l| kept_on_device(l).is_some(),
        format!("nothing offloads {}", kept_on_device(l).unwrap_or_default())
    ),
    rule!(
        Schedule,
        "batch",
        "data ranks and the micro-batch divide the global batch",
        |f, l| f.batch.global_batch % (l.data_parallel() * l.micro_batch) != 0,
        format!(
            "{} data ranks x micro-batch {} do not divide {} sequences",
            l.data_parallel(),
            l.micro_batch,
            f.batch.global_batch
        )
    ),
    rule!(
        Schedule,
        "schedule",
        "the framework has the schedule",
        |f, l| !f.any_framework
            && l.pipeline_parallel > 1
            && !f.profile.schedules.contains(&l.pipeline_schedule),
        format!("{} has no {}", f.profile.name, l.pipeline_schedule)
    ),
    rule!(
        Schedule,
        "chunks",
        "every chunk of the schedule holds a layer",
        |f, l| !chunks(f.layers, l),
        format!(
            "{} does not run {} chunks a rank over {} stages of {} layers",
            l.pipeline_schedule, l.pipeline_chunks, l.pipeline_parallel, f.layers
        )
    ),
    rule!(
        Schedule,
        "rounds",
        "micro-batches come in rounds where the schedule needs them",
        |f, l| !rounds(f, l),
        format!(
            "{} micro-batches are not rounds of {} stages",
            f.batch.accumulation(l.data_parallel(), l.micro_batch),
            l.pipeline_parallel
        )
    ),
];

fn first(f: &Facts, of: fn((u64, u64)) -> u64) -> u64 {
    f.heads.first().copied().map_or(0, of)
}

/// What keeps the layout's units by size from being made.
fn by_size_beside(f: &Facts, l: &Layout) -> Option<&'static str> {
    (l.wrap == Wrap::Size).then(|| bars_size(l.sharding, f.hides_table)).flatten()
}

/// Whether chunks of a schedule are never empty: frameworks count the embedding and the head as a layer
/// each where that makes the chunks even, so that the ends may hold these alone.
///
/// Sources: Megatron-Core `account_for_embedding_in_pipeline_split`; torchtitan `input_weight` and
/// `output_weight`, a layer each.
pub(super) const fn chunks_hold(layers: u64, parts: u64) -> bool {
    each_holds(layers, parts) || each_holds(layers + 2, parts)
}

/// Whether an even split with padding at the end leaves no part empty.
pub(super) const fn each_holds(layers: u64, parts: u64) -> bool {
    parts >= 1 && parts <= layers && layers.div_ceil(parts) * (parts - 1) < layers
}

const fn replicas(l: &Layout) -> bool {
    let (r, s) = (l.data_parallel_replicate, l.data_parallel_shard);
    match l.sharding {
        Sharding::None => r == 1 && s == 1,
        Sharding::Ddp | Sharding::NoShard => s == 1,
        Sharding::HybridShard | Sharding::HybridShardZero2 => r > 1 && s > 1,
        Sharding::Fsdp2 => r == 1 || s > 1,
        _ => r == 1,
    }
}

const fn chunks(layers: u64, l: &Layout) -> bool {
    let v = l.pipeline_chunks;
    if l.pipeline_parallel == 1 {
        return v == 1;
    }
    match l.pipeline_schedule.chunks() {
        Chunks::Several => v > 1 && chunks_hold(layers, l.pipeline_parallel * v),
        Chunks::Two => v == 2 && chunks_hold(layers, l.pipeline_parallel * v),
        Chunks::One => v == 1,
    }
}

fn rounds(f: &Facts, l: &Layout) -> bool {
    let micro_batches = f.batch.accumulation(l.data_parallel(), l.micro_batch);
    l.pipeline_schedule.runs(l.pipeline_parallel, micro_batches)
}

impl Facts {
    /// Whether every rule of this level holds.
    pub(super) fn hold(&self, level: Level, layout: &Layout) -> bool {
        RULES.iter().filter(|r| r.level == level).all(|r| !(r.broken)(self, layout))
    }
}

/// The first rule that a layout breaks, with its figure.
pub(crate) fn broken(facts: &Facts, layout: &Layout) -> Option<(&'static str, String)> {
    RULES.iter().find_map(|r| (r.broken)(facts, layout).then(|| (r.name, (r.says)(facts, layout))))
}

impl core::fmt::Debug for Rule {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: {}", self.name, self.demands)
    }
}
