//! The choices the search has, in the order in which it makes them.

use super::ask::Search;
use super::facts::Facts;
use super::rules::chunks_hold;
use crate::layout::{Layout, Offload, Recompute, Schedule, Sharding};
use crate::order::sort_by;
use crate::pipeline::Chunks;

/// Tensor, context and expert degrees that the search looks at unasked go up to this.
const MOST_RANKS: u64 = 8;
/// Longer sequences than that many tokens a rank are split over more context ranks than these.
const CONTEXT_TOKENS: u64 = 16_384;
/// Expert degrees go further: one expert layer's ranks reach over data and context ranks.
const MOST_EXPERT_RANKS: u64 = 64;
/// Layers of which one is recomputed.
const PER_BLOCK: [u64; 3] = [1, 2, 4];
/// Chunks a rank.
const MOST_CHUNKS: u64 = 8;

/// Every choice, each list in the order of the search.
#[derive(Clone, Debug)]
pub(super) struct Space {
    pub(super) tensor: Vec<u64>,
    pub(super) context: Vec<u64>,
    pub(super) expert: Vec<u64>,
    pub(super) pipeline: Vec<u64>,
    pub(super) shardings: Vec<Sharding>,
    /// What is recomputed, every how many layers.
    pub(super) recompute: Vec<(Recompute, u64)>,
    pub(super) offload: Vec<Vec<Offload>>,
    /// Micro-batches asked for; none when they are open.
    pub(super) micro_batches: Option<Vec<u64>>,
    /// Schedules with their chunks, for a pipeline.
    pub(super) schedules: Vec<(Schedule, u64)>,
}

impl Space {
    pub(super) fn new(facts: &Facts, search: &Search) -> Self {
        let degrees = |asked: &[u64], most: u64| -> Vec<u64> {
            let most = if facts.by_data { 1 } else { most };
            if asked.is_empty() {
                (1..=most).filter(|d| facts.gpus.is_multiple_of(*d)).collect()
            } else {
                // What does not divide the GPUs breaks a rule.
                let mut list = sorted(asked);
                list.retain(|d| facts.gpus.is_multiple_of(*d));
                list
            }
        };
        let micro_batches = (!search.micro_batches.is_empty()).then(|| {
            let mut list = sorted(&search.micro_batches);
            list.retain(|b| facts.batch.global_batch.is_multiple_of(*b));
            list
        });
        let most_experts = if facts.experts.is_empty() { 1 } else { MOST_EXPERT_RANKS };
        Self {
            tensor: degrees(&search.tensor_parallel, MOST_RANKS.min(facts.domain)),
            context: degrees(&search.context_parallel, MOST_RANKS.max(facts.batch.seq_len / CONTEXT_TOKENS)),
            expert: degrees(&search.expert_parallel, most_experts),
            pipeline: degrees(&search.pipeline_parallel, facts.layers.max(1)),
            shardings: strategies(facts, search),
            recompute: recompute(search, facts.layers),
            offload: offloads(&search.offload),
            micro_batches,
            schedules: schedules(search),
        }
    }

    /// Micro-batches that divide a rank's share of the batch, rising: of those asked for, else powers of
    /// two, and what is left of the share when it is halved so often.
    pub(super) fn sizes(&self, share: u64) -> Vec<u64> {
        let mut out: Vec<u64> = match &self.micro_batches {
            Some(asked) => asked.clone(),
            None => (0..31).flat_map(|i| [1 << i, (share >> i).max(1)]).collect(),
        };
        out.retain(|&b| b <= share && share.is_multiple_of(b));
        sorted(&out)
    }

    /// Schedules and chunks that a pipeline of `stages` runs.
    pub(super) fn schedules(&self, facts: &Facts, stages: u64) -> Vec<(Schedule, u64)> {
        if stages <= 1 {
            return vec![(Schedule::OneFOneB, 1)];
        }
        let mut out = self.schedules.clone();
        out.retain(|(s, v)| {
            (facts.any_framework || facts.profile.schedules.contains(s))
                && (*v == 1 || chunks_hold(facts.layers, stages * v))
        });
        out
    }
}

/// Strategies to look at: those asked for, else all that the framework has.
fn strategies(facts: &Facts, search: &Search) -> Vec<Sharding> {
    if !search.shardings.is_empty() {
        return once(&search.shardings);
    }
    let mut all = vec![Sharding::None];
    if facts.any_framework {
        all.extend(Sharding::ALL.iter().filter(|s| **s != Sharding::None));
    } else {
        all.extend(facts.profile.shardings);
    }
    all
}

/// What is recomputed, and every how many layers: whole layers alone have the choice.
fn recompute(search: &Search, layers: u64) -> Vec<(Recompute, u64)> {
    let kinds = if search.recompute.is_empty() { Recompute::ALL.to_vec() } else { once(&search.recompute) };
    let mut every =
        if search.recompute_every.is_empty() { PER_BLOCK.to_vec() } else { sorted(&search.recompute_every) };
    every.retain(|k| *k == 1 || *k <= layers);
    let mut out = Vec::new();
    for kind in kinds {
        if kind == Recompute::Full {
            out.extend(every.iter().map(|k| (kind, *k)));
        } else {
            out.push((kind, 1));
        }
    }
    out
}

fn schedules(search: &Search) -> Vec<(Schedule, u64)> {
    let open = [Schedule::OneFOneB, Schedule::Interleaved, Schedule::ZeroBubbleH1];
    let of: Vec<Schedule> =
        if search.schedules.is_empty() { open.to_vec() } else { search.schedules.clone() };
    let mut out = Vec::new();
    for schedule in of {
        match schedule.chunks() {
            Chunks::One => out.push((schedule, 1)),
            Chunks::Two => out.push((schedule, 2)),
            Chunks::Several if search.pipeline_chunks.is_empty() => {
                out.extend((2..=MOST_CHUNKS).map(|v| (schedule, v)));
            }
            Chunks::Several => {
                let given = sorted(&search.pipeline_chunks);
                out.extend(given.into_iter().filter(|v| *v > 1).map(|v| (schedule, v)));
            }
        }
    }
    out
}

/// Nothing, each thing that may leave alone, and all of them.
fn offloads(may: &[Offload]) -> Vec<Vec<Offload>> {
    let may = once(may);
    let mut out = vec![Vec::new()];
    out.extend(may.iter().map(|o| vec![*o]));
    // All of them, on the host where they may be and on its drives where they may be.
    for drives in [false, true] {
        let mut all = may.clone();
        all.retain(|o| o.rests(drives, &may));
        if all.len() > 1 && !out.contains(&all) {
            out.push(all);
        }
    }
    out
}

/// Ways to split data-parallel ranks into replicas and shards, most shards first. `divisors` are
/// those of the ranks, rising.
pub(super) fn splits(sharding: Sharding, divisors: &[u64]) -> impl Iterator<Item = (u64, u64)> {
    let many = matches!(sharding, Sharding::Fsdp2 | Sharding::HybridShard | Sharding::HybridShardZero2);
    let ranks = divisors.last().copied().unwrap_or(1);
    let count = if many { divisors.len() } else { 1 };
    let shards = sharding.shards();
    divisors.iter().take(count).map(move |&d| if shards { (d, ranks / d) } else { (ranks, 1) })
}

/// The divisors of a number, rising.
pub(super) fn divisors(n: u64) -> Vec<u64> {
    let mut out: Vec<u64> = (1..=n).take_while(|d| d * d <= n).filter(|d| n.is_multiple_of(*d)).collect();
    let large: Vec<u64> = out.iter().rev().map(|d| n / d).filter(|d| d * d > n).collect();
    out.extend(large);
    out
}

/// One layout of few words: what the rules may be asked about a choice of ranks.
pub(super) fn ranks(facts: &Facts, tensor: u64, context: u64, expert: u64) -> Layout {
    Layout {
        tensor_parallel: tensor,
        sequence_parallel: tensor > 1 && (facts.any_framework || facts.profile.sequence),
        context_parallel: context,
        expert_parallel: expert,
        ..Layout::default()
    }
}

/// A list without repeats, in its order.
fn once<T: Copy + PartialEq>(list: &[T]) -> Vec<T> {
    let mut out = Vec::new();
    for item in list {
        if !out.contains(item) {
            out.push(*item);
        }
    }
    out
}

fn sorted(list: &[u64]) -> Vec<u64> {
    let mut list = list.to_vec();
    sort_by(&mut list, Ord::cmp);
    list.dedup();
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::Search;
    use crate::workload::{Batch, ModelSpec, Recipe};
    use crate::{Catalog, ClusterSpec};

    #[test]
    fn micro_batches_are_powers_of_two_and_what_halving_leaves() {
        let model = ModelSpec::from("llama-3.2-1b").resolve("model").unwrap();
        let (cluster, _) = ClusterSpec::from("8xH100-SXM-80GB").resolve(Catalog::embedded()).unwrap();
        let batch = Batch { seq_len: 4096, global_batch: 96 };
        let facts = Facts::new(&model, &Recipe::default(), &cluster, &batch, false);
        let space = Space::new(&facts, &Search::default());
        assert_eq!(space.sizes(12), [1, 2, 3, 4, 6, 12]);
        assert_eq!(space.sizes(8), [1, 2, 4, 8]);
        assert_eq!(space.sizes(7), [1, 7]);
        let asked = Search { micro_batches: vec![3, 1, 5], ..Search::default() };
        assert_eq!(Space::new(&facts, &asked).sizes(12), [1, 3]);
    }
}
