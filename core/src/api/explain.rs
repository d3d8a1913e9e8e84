//! Why a plan and not its neighbours, why not another, and what to change first.

use std::borrow::Cow;

use super::answer::{Change, PlanWarning, Rejection};
use super::plan::Site;
use super::text::plan_name;
use crate::error::{Error, ErrorCode, Result, entry};
use crate::layout::{Layout, Recompute, Schedule, Sharding};
use crate::order::sort_by;
use crate::pipeline::Chunks;
use crate::quantity::{Bytes, Seconds, Usd};
use crate::search::{Facts, broken, profile};
use crate::step::{Setting, StepTimes, grown};
use crate::workload::Method;

/// Changes listed for a layout in use.
const CHANGES: usize = 8;

/// What speaks for or against layouts beside the best.
pub(super) struct Explain<'a> {
    pub(super) site: &'a Site<'a>,
    facts: Facts,
    best: &'a Layout,
    times: StepTimes,
    feasible: bool,
}

/// What became of a layout.
enum Judged {
    /// A rule forbids it.
    Forbidden(&'static str, String),
    /// It needs more than there is.
    TooLarge(Bytes),
    /// It runs.
    Runs(Box<StepTimes>),
}

impl<'a> Explain<'a> {
    pub(super) fn new(site: &'a Site<'a>, best: &'a Layout, feasible: bool) -> Self {
        let explain = Self { facts: site.facts(), times: StepTimes::default(), site, best, feasible };
        Self { times: explain.setting().times(best), ..explain }
    }

    fn setting(&self) -> Setting<'a> {
        self.site.place.setting(&self.site.batch)
    }

    fn judge(&self, layout: &Layout) -> Judged {
        if let Some((rule, says)) = broken(&self.facts, layout) {
            return Judged::Forbidden(rule, says);
        }
        let needed = self.site.place.memory(layout, &self.site.batch).needed;
        if needed > self.site.budget() {
            return Judged::TooLarge(needed);
        }
        Judged::Runs(Box::new(self.setting().times(layout)))
    }

    /// One sentence on a layout, led by what it changes.
    fn reject(&self, what: &str, layout: &Layout) -> Rejection {
        let budget = self.site.budget();
        let (mut rule, mut shortfall) = (None, None);
        let reason = match self.judge(layout) {
            Judged::Forbidden(name, says) => {
                rule = Some(Cow::Borrowed(name));
                format!("{what}: {says}")
            }
            Judged::TooLarge(needed) => {
                shortfall = Some(needed - budget);
                format!("{what}: needs {needed} of {budget}")
            }
            Judged::Runs(times) => {
                let (own, best) = (times.total(), self.times.total());
                let share = 100.0 * (own / best - 1.0);
                let (term, by) = grown(&self.times, &times);
                let step = Seconds::of(own);
                if !self.feasible {
                    format!("{what}: {step} a step")
                } else if own > best && by > 0.0 {
                    format!("{what}: {step} a step, {share:.1} % more: {term} + {}", Seconds::of(by))
                } else if own < best {
                    format!("{what}: {step} a step, {:.1} % less, but not what was asked for", -share)
                } else {
                    format!("{what}: {step} a step, the same")
                }
            }
        };
        Rejection { name: plan_name(layout), layout: layout.clone(), reason, shortfall, rule }
    }

    /// The layouts one change away from the best.
    pub(super) fn neighbours(&self) -> Vec<Rejection> {
        self.around(self.best).iter().map(|(what, layout)| self.reject(what, layout)).collect()
    }

    /// The layouts a person asks about.
    pub(super) fn why_not(&self, asked: &[Layout]) -> Result<Vec<Rejection>> {
        asked
            .iter()
            .enumerate()
            .map(|(i, layout)| {
                let layout = self.whole(layout, &entry("why_not", i))?;
                Ok(if &layout == self.best {
                    Rejection {
                        name: plan_name(&layout),
                        layout,
                        reason: "this is the best plan".into(),
                        shortfall: None,
                        rule: None,
                    }
                } else {
                    self.reject(&plan_name(&layout), &layout)
                })
            })
            .collect()
    }

    /// A layout of a request, every degree filled in.
    fn whole(&self, layout: &Layout, field: &str) -> Result<Layout> {
        let layout = layout.clone().resolve(self.facts_gpus()).map_err(|e| e.under(field))?;
        let layers = self.site.place.model.layers();
        if layout.pipeline_parallel > layers {
            let allowed = format!("at most the {layers} layers of the model");
            let given = layout.pipeline_parallel;
            return Err(Error::new("pipeline_parallel", ErrorCode::Conflict, given, allowed).under(field));
        }
        Ok(layout)
    }

    fn facts_gpus(&self) -> u64 {
        self.site.place.cluster.gpus()
    }

    /// What to change first about the layout in use.
    pub(super) fn changes(&self, current: Option<&Layout>) -> Result<Vec<Change>> {
        let Some(current) = current else { return Ok(Vec::new()) };
        let current = self.whole(current, "current")?;
        let now = match self.judge(&current) {
            Judged::Runs(times) => Some(times.total()),
            _ => None,
        };
        let price = self.site.place.cluster.price(self.site.place.run.price);
        let mut out = Vec::new();
        let mut options = self.around(&current);
        if self.feasible && &current != self.best {
            options.push((format!("the best plan: {}", plan_name(self.best)), self.best.clone()));
        }
        for (change, layout) in options {
            let Judged::Runs(times) = self.judge(&layout) else { continue };
            let saves = now.map(|now| Seconds::of(now - times.total()));
            if saves.is_some_and(|s| s.get() <= 0.0) {
                continue;
            }
            let over = |s: Seconds| Some(Usd::of(price?.get() * s.get() * self.site.steps()?));
            out.push(Change {
                change,
                layout,
                step_time: Seconds::of(times.total()),
                saves,
                saves_money: saves.and_then(over),
            });
        }
        sort_by(&mut out, |a, b| a.step_time.get().total_cmp(&b.step_time.get()));
        out.truncate(CHANGES);
        Ok(out)
    }

    /// A strategy that was asked for and cannot run.
    pub(super) fn forbidden(&self, sharding: Sharding) -> Option<Rejection> {
        let layout = Layout { sharding, data_parallel_shard: 0, ..Layout::default() };
        let layout = layout.resolve(self.facts_gpus()).ok()?;
        let (rule, says) = broken(&self.facts, &layout)?;
        Some(Rejection {
            name: plan_name(&layout),
            layout,
            reason: says,
            shortfall: None,
            rule: Some(Cow::Borrowed(rule)),
        })
    }

    /// Layouts one change away on the same GPUs, with the change in words.
    fn around(&self, l: &Layout) -> Vec<(String, Layout)> {
        let gpus = self.facts_gpus();
        let sequence = profile(self.site.place.recipe.framework).sequence;
        let mut out: Vec<(String, Layout)> = Vec::new();
        let mut degrees = |what: &str, now: u64, set: fn(&mut Layout, u64)| {
            for next in [now * 2, now / 2] {
                if next == 0 || next == now {
                    continue;
                }
                let mut other = l.clone();
                set(&mut other, next);
                other.sequence_parallel =
                    other.tensor_parallel > 1 && (l.sequence_parallel || l.tensor_parallel == 1 && sequence);
                let inner = other.tensor_parallel * other.pipeline_parallel * other.context_parallel;
                refit(&mut other, gpus / inner.max(1));
                if other.pipeline_parallel == 1 || l.pipeline_parallel == 1 {
                    (other.pipeline_schedule, other.pipeline_chunks) = (Schedule::OneFOneB, 1);
                }
                out.push((format!("{what} {next} instead of {now}"), other));
            }
        };
        degrees("tensor parallelism", l.tensor_parallel, |l, n| l.tensor_parallel = n);
        degrees("pipeline parallelism", l.pipeline_parallel, |l, n| l.pipeline_parallel = n);
        degrees("context parallelism", l.context_parallel, |l, n| l.context_parallel = n);
        if self.site.place.model.counts().routed_experts > 0 {
            degrees("expert parallelism", l.expert_parallel, |l, n| l.expert_parallel = n);
        }
        degrees("micro-batch", l.micro_batch, |l, n| l.micro_batch = n);
        for &recompute in Recompute::ALL.iter().filter(|r| **r != l.recompute) {
            out.push((
                format!("{recompute} recompute instead of {}", l.recompute),
                Layout { recompute, recompute_every: 1, ..l.clone() },
            ));
        }
        if l.recompute == Recompute::Full {
            for every in [l.recompute_every * 2, l.recompute_every / 2] {
                if every > 0 && every <= self.site.place.model.layers() {
                    out.push((
                        format!("recompute of one layer in {every} instead of one in {}", l.recompute_every),
                        Layout { recompute_every: every, ..l.clone() },
                    ));
                }
            }
        }
        let strategies = profile(self.site.place.recipe.framework).shardings;
        for &sharding in strategies.iter().filter(|s| **s != l.sharding && l.data_parallel() > 1) {
            let mut other = Layout { sharding, ..l.clone() };
            refit(&mut other, l.data_parallel());
            out.push((format!("{sharding} instead of {}", l.sharding), other));
        }
        if l.sharding == Sharding::Fsdp2 && l.data_parallel_shard > 1 {
            let (r, s) = (l.data_parallel_replicate * 2, l.data_parallel_shard / 2);
            let other = Layout { data_parallel_replicate: r, data_parallel_shard: s, ..l.clone() };
            out.push((format!("{r} replicas of {s} shards"), other));
        }
        if l.pipeline_parallel > 1 {
            for &schedule in profile(self.site.place.recipe.framework).schedules {
                let chunks = if schedule.chunks() == Chunks::One { 1 } else { 2 };
                if schedule != l.pipeline_schedule {
                    let other = Layout { pipeline_schedule: schedule, pipeline_chunks: chunks, ..l.clone() };
                    out.push((format!("{schedule} instead of {}", l.pipeline_schedule), other));
                }
            }
        }
        out
    }

    /// Source: `McCandlish` 2018 (the critical batch); Kaplan 2020, equations 1.6 and 5.3 for its
    /// size: `L = ((N_c / N)^(a_N / a_D) + D_c / D)^a_D`, `B = B* / L^(1 / a_B)`.
    pub(super) fn warnings(&self) -> Vec<PlanWarning> {
        let p = &self.site.place;
        let counts = p.model.counts();
        let parameters = counts.total.saturating_sub(counts.embedding) as f64;
        if p.recipe.method != Method::Full
            || p.model.fixed_tokens.is_some()
            || p.model.is_traced()
            || parameters <= 0.0
        {
            return Vec::new();
        }
        let data = p.run.tokens.map_or(0.0, |d| 5.4e13 / d);
        let loss = libm::pow(libm::pow(8.8e13 / parameters, 0.076 / 0.095) + data, 0.095);
        let critical = 2.1e8 / libm::pow(loss, 1.0 / 0.21);
        let given = self.site.batch.seq_len as f64 * self.site.batch.global_batch as f64;
        if given <= critical {
            return Vec::new();
        }
        let millions = |x: f64| x / 1e6;
        vec![PlanWarning {
            says: format!(
                "{:.1} million tokens a batch are past the critical batch of about {:.1} million at the \
                 end of training: each step is worth {:.0} % of what its tokens could teach. A batch that \
                 many times smaller trains on as many tokens with the learning rate divided by the square \
                 root of that (Adam)",
                millions(given),
                millions(critical),
                100.0 / (1.0 + given / critical)
            ),
            source: Cow::Borrowed("McCandlish 2018; Kaplan 2020, section 5; Malladi 2022 for the rate"),
        }]
    }
}

/// Splits `ranks` data-parallel ranks as the strategy has them.
fn refit(l: &mut Layout, ranks: u64) {
    let replicas = match l.sharding {
        Sharding::HybridShard | Sharding::HybridShardZero2 => l.data_parallel_replicate.max(2),
        Sharding::Fsdp2 => l.data_parallel_replicate,
        s if s.shards() => 1,
        Sharding::None => 1,
        _ => ranks,
    };
    l.data_parallel_replicate = if ranks.is_multiple_of(replicas.max(1)) { replicas } else { 1 };
    l.data_parallel_shard =
        if l.sharding == Sharding::None { 1 } else { ranks / l.data_parallel_replicate.max(1) };
}
