//! Brute force is the referee: every layout that breaks no rule, each costed as `estimate` does.

use crate::calibrate::Calibration;

use super::engine::{Ground, Outcome, explore};
use super::facts::Facts;
use super::front::Measure;
use super::rules::broken;
use super::{Objective, Search};
use crate::cluster::{Catalog, Cluster};
use crate::layout::{Layout, Offload, Recompute, Schedule, Sharding};
use crate::workload::{Batch, Framework, Method, Model, Recipe};
use crate::{ClusterSpec, ModelSpec, memory, step};

/// Numbers without order, the same every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap_or_default()]
    }

    /// A few of the list, at least one, in its order.
    fn some<T: Copy>(&mut self, of: &[T]) -> Vec<T> {
        let few: Vec<T> = of.iter().copied().filter(|_| self.below(2) == 0).collect();
        if few.is_empty() { vec![self.one(of)] } else { few }
    }
}

struct Case {
    model: Model,
    recipe: Recipe,
    cluster: Cluster,
    batch: Batch,
    search: Search,
}

impl Case {
    fn random(dice: &mut Dice) -> Self {
        let name = dice.one(&["gpt2", "llama-3.1-8b", "llama-2-7b", "qwen3-30b-a3b"]);
        let framework =
            dice.one(&[Framework::Torch, Framework::Megatron, Framework::Torchtitan, Framework::DeepSpeed]);
        let machines =
            dice.one(&["1xH100-SXM-80GB", "4xA100-SXM4-80GB", "8xH100-SXM-80GB", "2x8xA100-SXM4-40GB"]);
        let method = if dice.below(4) == 0 { Method::Lora } else { Method::Full };
        let search = Search {
            shardings: dice.some(Sharding::ALL),
            micro_batches: dice.some(&[1, 2, 4, 8]),
            recompute: dice.some(Recompute::ALL),
            recompute_every: dice.some(&[1, 2, 3]),
            tensor_parallel: dice.some(&[1, 2, 4]),
            pipeline_parallel: dice.some(&[1, 2, 4]),
            pipeline_chunks: dice.some(&[2, 3, 4]),
            context_parallel: dice.some(&[1, 2]),
            expert_parallel: dice.some(&[1, 2, 4]),
            schedules: dice.some(Schedule::ALL),
            offload: if dice.below(4) == 0 { dice.some(Offload::ALL) } else { Vec::new() },
            objective: dice.one(Objective::ALL),
            headroom: dice.one(&[0.0, 0.3, 0.6]),
            any_framework: dice.below(2) == 0,
            ..Search::default()
        };
        Self {
            model: ModelSpec::from(name).resolve("model").unwrap().into_owned(),
            recipe: Recipe { method, framework, ..Recipe::default() },
            cluster: ClusterSpec::from(machines).resolve(Catalog::embedded()).unwrap().0,
            batch: Batch { seq_len: dice.one(&[512, 1024]), global_batch: dice.one(&[16, 24, 64]) },
            search,
        }
    }

    fn facts(&self) -> Facts {
        Facts::new(&self.model, &self.recipe, &self.cluster, &self.batch, self.search.any_framework)
    }

    fn explore(&self, search: &Search) -> Outcome {
        explore(&self.ground(search), &self.facts(), 0)
    }

    fn ground<'a>(&'a self, search: &'a Search) -> Ground<'a> {
        Ground {
            model: &self.model,
            recipe: &self.recipe,
            cluster: &self.cluster,
            batch: self.batch,
            search,
            steps: Some(100.0),
            price: self.cluster.price(crate::PriceKind::OnDemand).map(crate::UsdPerSecond::get),
            calibration: Calibration::default(),
            scale: 1.0,
        }
    }

    /// Every layout of the space that breaks no rule.
    fn layouts(&self) -> Vec<Layout> {
        use Offload::{Optimizer, OptimizerNvme, Param, ParamNvme};
        let s = &self.search;
        let (facts, gpus) = (self.facts(), self.cluster.gpus());
        let mut offloads = vec![Vec::new()];
        offloads.extend(s.offload.iter().map(|o| vec![*o]));
        // All at once, with what could rest on either side on the host, then on its drives.
        let without = |pair: [(Offload, Offload); 2]| {
            let beaten = |o: &Offload| pair.iter().any(|(x, y)| o == x && s.offload.contains(y));
            s.offload.iter().filter(|o| !beaten(o)).copied().collect::<Vec<_>>()
        };
        let host: Vec<_> =
            s.offload.iter().filter(|o| !matches!(o, ParamNvme | OptimizerNvme)).copied().collect();
        for all in [host, without([(Param, ParamNvme), (Optimizer, OptimizerNvme)])] {
            if all.len() > 1 {
                offloads.push(all);
            }
        }
        let mut out = Vec::new();
        let mut base = Layout::default();
        for &tensor in &s.tensor_parallel {
            for &context in &s.context_parallel {
                for &pipeline in &s.pipeline_parallel {
                    for &expert in &s.expert_parallel {
                        base = Layout {
                            tensor_parallel: tensor,
                            sequence_parallel: tensor > 1 && (s.any_framework || facts.profile.sequence),
                            context_parallel: context,
                            pipeline_parallel: pipeline,
                            expert_parallel: expert,
                            ..base
                        };
                        let data = gpus / (tensor * context * pipeline);
                        for replicas in (1..=data).filter(|r| data % r == 0) {
                            base.data_parallel_replicate = replicas;
                            base.data_parallel_shard = data / replicas;
                            for (sharding, recompute, every) in self.strategies() {
                                (base.sharding, base.recompute) = (sharding, recompute);
                                base.recompute_every = every;
                                for offload in &offloads {
                                    base.offload.clone_from(offload);
                                    self.schedules(&base, &facts, &mut out);
                                }
                            }
                        }
                    }
                }
            }
        }
        out
    }

    /// Strategies, each with what is recomputed and every how many layers.
    fn strategies(&self) -> Vec<(Sharding, Recompute, u64)> {
        let s = &self.search;
        let mut out = Vec::new();
        for &sharding in &s.shardings {
            for &recompute in &s.recompute {
                let every = if recompute == Recompute::Full { &s.recompute_every[..] } else { &[1] };
                out.extend(every.iter().map(|&k| (sharding, recompute, k)));
            }
        }
        out
    }

    fn schedules(&self, base: &Layout, facts: &Facts, out: &mut Vec<Layout>) {
        for &micro_batch in &self.search.micro_batches {
            for &schedule in &self.search.schedules {
                let mut chunks = self.search.pipeline_chunks.clone();
                chunks.extend([1, 2]);
                chunks.sort_unstable();
                chunks.dedup();
                let one = base.pipeline_parallel == 1;
                for pipeline_chunks in chunks {
                    if schedule == Schedule::Interleaved
                        && !one
                        && !self.search.pipeline_chunks.contains(&pipeline_chunks)
                    {
                        continue;
                    }
                    let l = Layout {
                        micro_batch,
                        pipeline_schedule: if one { Schedule::OneFOneB } else { schedule },
                        pipeline_chunks,
                        ..base.clone()
                    };
                    if broken(facts, &l).is_none() && !out.contains(&l) {
                        out.push(l);
                    }
                }
            }
        }
    }

    /// What a layout measures, when it fits.
    fn cost(&self, l: &Layout) -> Option<Measure> {
        let memory = memory::estimate(&self.model, &self.recipe, l, &self.batch);
        let of_rank = |node: Option<crate::Bytes>| node.map(|m| m / f64::from(self.cluster.gpus_per_node));
        let (host, drives) = (of_rank(self.cluster.host_memory), of_rank(self.cluster.nvme));
        if memory.needed > self.cluster.memory * (1.0 - self.search.headroom)
            || host.is_some_and(|h| memory.host.total() > h)
            || drives.is_some_and(|d| memory.nvme.total() > d)
        {
            return None;
        }
        let time = step::estimate(&self.model, &self.recipe, l, &self.batch, &self.cluster).total().get();
        let price = self.cluster.price(crate::PriceKind::OnDemand);
        Some(Measure {
            time,
            money: price.map(|p| p.get() * time * 100.0),
            headroom: (self.cluster.memory - memory.needed).get(),
        })
    }
}

fn best(out: &Outcome, objective: Objective) -> Option<&super::Point> {
    out.found.iter().reduce(|a, b| if b.measure.weigh(&a.measure, objective).is_lt() { b } else { a })
}

#[test]
fn brute_force_agrees() {
    let mut dice = Dice(7);
    let (mut feasible, mut most) = (0, 0);
    for i in 0..2000 {
        let case = Case::random(&mut dice);
        let out = case.explore(&case.search);
        let layouts = case.layouts();
        most = most.max(layouts.len());
        assert_eq!(out.space, layouts.len() as u64, "case {i}: {:?}", case.search);
        let objective = case.search.objective;
        let costed: Vec<(&Layout, Measure)> =
            layouts.iter().filter_map(|l| Some((l, case.cost(l)?))).collect();
        let referee = costed.iter().reduce(|a, b| if b.1.weigh(&a.1, objective).is_lt() { b } else { a });
        let found = best(&out, objective);
        assert_eq!(found.map(|p| p.measure), referee.map(|(_, m)| *m), "case {i}: {:?}", case.search);
        assert_eq!(out.costed, costed.len() as u64, "case {i}: a bound spared what fits");
        if let Some(p) = found {
            feasible += 1;
            // The very figures of a single estimate.
            assert_eq!(case.cost(&p.layout), Some(p.measure), "case {i}");
        }
        // Nothing on the front betters another, and nothing costed betters the front.
        for p in &out.front.0 {
            assert!(!out.front.0.iter().any(|o| o.measure.dominates(&p.measure)), "case {i}");
            assert!(!costed.iter().any(|(_, m)| m.dominates(&p.measure)), "case {i}");
        }
        assert_eq!(out.front.0.is_empty(), costed.is_empty());
    }
    assert!(feasible > 500 && most > 100, "{feasible} of the cases fit, the largest has {most} layouts");
}

#[test]
fn a_constraint_never_improves() {
    let mut dice = Dice(11);
    for _ in 0..400 {
        let case = Case::random(&mut dice);
        let objective = case.search.objective;
        let free = case.explore(&case.search);
        let mut bound = case.search.clone();
        match dice.below(8) {
            0 => bound.headroom = 0.7,
            1 => bound.micro_batches.truncate(1),
            2 => bound.shardings.truncate(1),
            3 => bound.recompute.truncate(1),
            5 => bound.recompute_every.truncate(1),
            6 => bound.any_framework = false,
            4 => bound.deadline = best(&free, objective).map(|p| crate::Seconds::of(90.0 * p.measure.time)),
            _ => bound.pipeline_parallel.truncate(1),
        }
        if let Some(p) = best(&case.explore(&bound), objective) {
            let least = best(&free, objective).map_or(p.measure, |p| p.measure);
            assert!(!p.measure.weigh(&least, objective).is_lt());
        }
    }
}

#[test]
fn the_limit_of_candidates_is_kept() {
    let case = Case::random(&mut Dice(3));
    let search = Search { max_candidates: 5, any_framework: true, ..Search::default() };
    let out = case.explore(&search);
    assert_eq!((out.seen, out.stop), (5, super::StopReason::CandidateLimit));
}

#[cfg(feature = "rayon")]
#[test]
fn all_cores_give_the_answer_of_one() {
    use super::engine::Whole;
    let mut dice = Dice(5);
    for i in 0..200 {
        let mut case = Case::random(&mut dice);
        if dice.below(4) == 0 {
            case.search.max_candidates = 1 + dice.below(40);
        }
        let (ground, facts) = (case.ground(&case.search), case.facts());
        let whole = Whole::new(&ground, &facts, 0);
        let one = whole.in_turn();
        // Where the limit binds the cores are not asked.
        if let Some(all) = whole.at_once() {
            assert_eq!(all, one, "case {i}");
        } else {
            assert_eq!(one.stop, super::StopReason::CandidateLimit, "case {i}");
        }
        assert_eq!(explore(&ground, &facts, 0), one, "case {i}");
    }
}
