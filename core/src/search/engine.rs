//! The loops.

use crate::calibrate::Calibration;

use super::ask::{Objective, Search, StopReason};
use super::facts::Facts;
use super::front::{Front, Measure};
use super::rules::Level;
use super::space::{Space, divisors, ranks, splits};
use crate::cluster::Cluster;
use crate::layout::{Layout, Recompute, Schedule, Sharding};
use crate::memory::{Figures, Memo, Peaks, Stages};
use crate::quantity::Bytes;
use crate::step::{Alone, Costs, Partition, Rank, Setting, Timed, defers_weights, interleaves};
use crate::workload::{Batch, Model, Recipe};

/// What the search stands on.
#[derive(Clone, Copy)]
pub(crate) struct Ground<'a> {
    pub(crate) model: &'a Model,
    pub(crate) recipe: &'a Recipe,
    pub(crate) cluster: &'a Cluster,
    pub(crate) batch: Batch,
    pub(crate) search: &'a Search,
    /// Optimizer steps of the run, when it is said how much is trained.
    pub(crate) steps: Option<f64>,
    /// Dollars per second of the whole cluster.
    pub(crate) price: Option<f64>,
    /// What measured runs taught.
    pub(crate) calibration: Calibration,
    /// Tokens of the request's batch over those of this one.
    pub(crate) scale: f64,
}

/// A costed layout.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Point {
    pub(crate) layout: Layout,
    /// Which of the request's clusters.
    pub(crate) cluster: usize,
    pub(crate) memory: Figures,
    /// Seconds of a step.
    pub(crate) step: f64,
    pub(crate) measure: Measure,
}

/// What the search found on one cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// The best of each strategy, recompute and degrees, in the order of the search.
    pub(crate) found: Vec<Point>,
    /// Those that nothing betters in time and memory left.
    pub(crate) front: Front,
    /// For each strategy of which something does not fit, what comes nearest.
    pub(crate) misses: Vec<(Layout, Bytes)>,
    /// Layouts that fit but break the deadline or the budget: the least bad.
    pub(crate) late: Option<Point>,
    /// Layouts looked at.
    pub(crate) seen: u64,
    /// Of those, the ones that fit and were costed in full.
    pub(crate) costed: u64,
    /// Layouts in the space, those that a bound spares included.
    pub(crate) space: u64,
    pub(crate) stop: StopReason,
}

/// Costs every layout of the space.
pub(crate) fn explore(ground: &Ground<'_>, facts: &Facts, cluster: usize) -> Outcome {
    let whole = Whole::new(ground, facts, cluster);
    #[cfg(feature = "rayon")]
    if let Some(out) = whole.at_once() {
        return out;
    }
    whole.in_turn()
}

/// A search with everything that its parts share. Parts are tensor, context and expert degrees: no
/// cost of one is of use to another.
pub(super) struct Whole<'a> {
    ground: &'a Ground<'a>,
    facts: &'a Facts,
    cluster: usize,
    space: Space,
    setting: Setting<'a>,
    stages: Vec<Pipeline>,
    parts: Vec<Layout>,
}

impl<'a> Whole<'a> {
    pub(super) fn new(ground: &'a Ground<'a>, facts: &'a Facts, cluster: usize) -> Self {
        let space = Space::new(facts, ground.search);
        let setting = Setting::new(ground.model, ground.recipe, ground.batch, ground.cluster)
            .calibrated(&ground.calibration);
        let fresh = setting.starts_frozen();
        let stages = space
            .pipeline
            .iter()
            .map(|&degree| Pipeline {
                degree,
                partition: Partition::new(ground.model, degree, fresh),
                schedules: space.schedules(facts, degree),
            })
            .collect();
        let mut parts = Vec::new();
        for &tensor in &space.tensor {
            for &context in &space.context {
                let degrees = space.expert.iter().map(|&expert| ranks(facts, tensor, context, expert));
                parts.extend(degrees.filter(|layout| facts.hold(Level::Ranks, layout)));
            }
        }
        Self { ground, facts, cluster, space, setting, stages, parts }
    }

    /// One part after the other.
    pub(super) fn in_turn(&self) -> Outcome {
        let mut out = Outcome::default();
        for part in &self.parts {
            let limit = self.ground.search.max_candidates - out.seen;
            out.join(self.part(part, limit));
            if out.stop == StopReason::CandidateLimit {
                break;
            }
        }
        out
    }

    /// All parts at once, joined in their order, so that the answer is that of [`Whole::in_turn`]; none
    /// when the limit of candidates was reached, which depends on what came before.
    #[cfg(feature = "rayon")]
    pub(super) fn at_once(&self) -> Option<Outcome> {
        use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
        let limit = self.ground.search.max_candidates;
        let parts: Vec<Outcome> = self.parts.par_iter().map(|part| self.part(part, limit)).collect();
        let mut out = Outcome::default();
        for part in parts {
            out.join(part);
        }
        (out.seen <= limit && out.stop == StopReason::Exhausted).then_some(out)
    }

    fn part(&self, ranks: &Layout, limit: u64) -> Outcome {
        let ground = self.ground;
        let per_rank = |node: Option<Bytes>| node.map(|m| m / f64::from(ground.cluster.gpus_per_node));
        let mut walk = Walk {
            ground,
            facts: self.facts,
            setting: &self.setting,
            budget: ground.cluster.memory * (1.0 - ground.search.headroom),
            host: per_rank(ground.cluster.host_memory),
            nvme: per_rank(ground.cluster.nvme),
            cluster: self.cluster,
            limit,
            best: None,
            out: Outcome::default(),
            costs: Vec::new(),
            alone: Vec::new(),
            room: Vec::new(),
        };
        let (mut layout, mut memo) = (ranks.clone(), Memo::default());
        for pipeline in &self.stages {
            layout.pipeline_parallel = pipeline.degree;
            if self.facts.hold(Level::Pipeline, &layout)
                && walk.pipeline(&self.space, pipeline, &mut layout, &mut memo).is_none()
            {
                break;
            }
        }
        walk.out
    }
}

impl Outcome {
    /// Adds what came after.
    fn join(&mut self, after: Self) {
        self.found.extend(after.found);
        for point in after.front.0 {
            if self.front.wants(&point.measure) {
                self.front.put(point);
            }
        }
        for (layout, needed) in after.misses {
            self.miss(&layout, needed);
        }
        if let Some(late) = after.late {
            self.late(&late.measure, || late.clone());
        }
        self.seen += after.seen;
        self.costed += after.costed;
        self.space += after.space;
        if after.stop == StopReason::CandidateLimit {
            self.stop = after.stop;
        }
    }

    /// Notes a layout that breaks the deadline or the budget.
    fn late(&mut self, measure: &Measure, point: impl FnOnce() -> Point) {
        if self.late.as_ref().is_none_or(|p| measure.weigh(&p.measure, Objective::Time).is_lt()) {
            self.late = Some(point());
        }
    }

    /// Notes a layout that does not fit: of those that need as much, the one that recomputes most at
    /// the smallest micro-batch.
    fn miss(&mut self, layout: &Layout, needed: Bytes) {
        let key = |l: &Layout, needed: Bytes| (needed, core::cmp::Reverse(l.recompute), l.micro_batch);
        let known = self.misses.iter_mut().find(|(l, _)| l.sharding == layout.sharding);
        match known {
            Some(nearest) if key(layout, needed) < key(&nearest.0, nearest.1) => {
                *nearest = (layout.clone(), needed);
            }
            Some(_) => {}
            None => self.misses.push((layout.clone(), needed)),
        }
    }
}

/// A pipeline degree.
struct Pipeline {
    degree: u64,
    partition: Partition,
    schedules: Vec<(Schedule, u64)>,
}

impl Pipeline {
    /// Schedules that run so many micro-batches.
    fn runs(&self, micro_batches: u64) -> u64 {
        self.schedules.iter().filter(|(s, _)| s.runs(self.degree, micro_batches)).count() as u64
    }
}

/// A micro-batch that does not fit. It spares larger ones, as long as gradients accumulate alike and as
/// many micro-batches wait: more sequences at once never need less. It spares itself where states are
/// split among fewer ranks: these never need less either.
#[derive(Clone, Copy)]
struct Spared {
    size: u64,
    accumulates: bool,
    /// It does not fit even with none that waits.
    alone: bool,
}

impl Spared {
    fn covers(&self, pipeline: &Pipeline, size: u64, micro_batches: u64) -> bool {
        // Most schedules hold fewer than twice as many micro-batches as there are stages.
        let p = pipeline.degree as f64;
        let bounded = pipeline.schedules.iter().all(|(s, _)| s.in_flight(p, 1.0, f64::MAX, 0.0) < 2.0 * p);
        let waiting_stays = pipeline.degree == 1 || bounded && micro_batches >= 2 * pipeline.degree;
        self.accumulates == (micro_batches > 1)
            && (size == self.size || size > self.size && (self.alone || waiting_stays))
    }
}

struct Walk<'a> {
    ground: &'a Ground<'a>,
    facts: &'a Facts,
    setting: &'a Setting<'a>,
    budget: Bytes,
    host: Option<Bytes>,
    nvme: Option<Bytes>,
    cluster: usize,
    /// Layouts that may be looked at.
    limit: u64,
    /// Best of the strategy, recompute and degrees at hand.
    best: Option<Point>,
    out: Outcome,
    /// Costs of the blocks by micro-batch, for the ranks at hand.
    costs: Vec<(u64, Costs)>,
    /// The same with their traffic, by micro-batch, recompute, and whether chunks interleave.
    alone: Vec<((u64, Recompute, u64, bool), Alone)>,
    room: Vec<Timed>,
}

/// The search has looked at as many layouts as it may.
type Full = Option<()>;

impl<'a> Walk<'a> {
    /// Strategies, recompute and offload of one pipeline degree.
    fn pipeline(
        &mut self,
        space: &Space,
        pipeline: &Pipeline,
        layout: &mut Layout,
        memo: &mut Memo<'a>,
    ) -> Full {
        let inner = layout.tensor_parallel * layout.context_parallel * layout.pipeline_parallel;
        let data = self.facts.gpus / inner;
        if !self.ground.batch.global_batch.is_multiple_of(data) {
            return Some(());
        }
        let divisors = divisors(data);
        let share = self.ground.batch.global_batch / data;
        let sizes = space.sizes(share);
        let open = self.ground.search.shardings.is_empty();
        let Some(&(schedule, chunks)) = pipeline.schedules.first() else { return Some(()) };
        (layout.pipeline_schedule, layout.pipeline_chunks) = (schedule, chunks);
        for &sharding in &space.shardings {
            // Where no rank shares states every strategy is the same.
            if open && (data * layout.context_parallel > 1) == (sharding == Sharding::None) {
                continue;
            }
            layout.sharding = sharding;
            for &(recompute, every) in &space.recompute {
                (layout.recompute, layout.recompute_every) = (recompute, every);
                self.best = None;
                for offload in &space.offload {
                    layout.offload.clone_from(offload);
                    // Fewer shards never need less: what has no room rules out the rest.
                    let mut room = true;
                    let mut spared = Vec::new();
                    for (replicas, shards) in splits(sharding, &divisors) {
                        (layout.data_parallel_replicate, layout.data_parallel_shard) = (replicas, shards);
                        if !self.facts.hold(Level::Split, layout) {
                            continue;
                        }
                        room = room && self.split(&sizes, pipeline, layout, &mut spared, memo)?;
                        if !room {
                            self.out.space += sizes.iter().map(|b| pipeline.runs(share / b)).sum::<u64>();
                        }
                    }
                }
                self.out.found.extend(self.best.take());
            }
        }
        Some(())
    }

    /// Micro-batches of one split, smallest first. Whether there is room for what rests between
    /// steps.
    fn split(
        &mut self,
        sizes: &[u64],
        pipeline: &Pipeline,
        layout: &Layout,
        spared: &mut Vec<Spared>,
        memo: &mut Memo<'a>,
    ) -> Option<bool> {
        let share = self.ground.batch.global_batch / layout.data_parallel();
        let before = self.out.space;
        let mut candidate = layout.clone();
        let covered =
            |spared: &[Spared], size: u64| spared.iter().any(|s| s.covers(pipeline, size, share / size));
        // What else the stages depend on: whether gradients accumulate, and whether a micro-batch is
        // one sequence.
        for kind in [(true, false), (true, true), (false, false), (false, true)] {
            let of_kind = |size: &u64| (share > *size, *size > 1) == kind;
            let mut sizes = sizes.iter().copied().filter(of_kind).peekable();
            while let Some(size) = sizes.next_if(|&size| covered(spared, size)) {
                self.out.space += pipeline.runs(share / size);
            }
            let Some(&first) = sizes.peek() else { continue };
            let frame = Layout { micro_batch: first, ..layout.clone() };
            let (model, recipe) = (self.ground.model, self.ground.recipe);
            let stages = Stages::new(model, recipe, &frame, self.ground.batch.seq_len, kind.0, memo);
            let factor = self.ground.calibration.allocated;
            let at_rest = stages.at_rest() * factor;
            if at_rest > self.budget {
                self.look()?;
                self.out.miss(&frame, at_rest);
                // The caller counts the whole split.
                self.out.space = before;
                return Some(false);
            }
            for size in sizes {
                candidate.micro_batch = size;
                let micro_batches = share / size;
                if covered(spared, size) {
                    self.out.space += pipeline.runs(micro_batches);
                    continue;
                }
                let peaks = stages.peaks(size as f64);
                if !self.schedules(pipeline, &mut candidate, &stages, &peaks, micro_batches)? {
                    let alone = peaks.least() * factor > self.budget;
                    spared.push(Spared { size, accumulates: micro_batches > 1, alone });
                }
            }
        }
        Some(true)
    }

    /// Counts one more layout, unless that is one too many.
    fn look(&mut self) -> Full {
        if self.out.seen >= self.limit {
            self.out.stop = StopReason::CandidateLimit;
            return None;
        }
        self.out.seen += 1;
        Some(())
    }

    /// Schedules and chunks: all else is settled. Whether any fits.
    fn schedules(
        &mut self,
        pipeline: &Pipeline,
        layout: &mut Layout,
        stages: &Stages<'_>,
        peaks: &Peaks,
        micro_batches: u64,
    ) -> Option<bool> {
        // By what of the schedule a rank's times depend on.
        let mut known: [[Option<Rank>; 2]; 2] = [[None; 2]; 2];
        let mut fits = false;
        for &(schedule, chunks) in &pipeline.schedules {
            if !schedule.runs(pipeline.degree, micro_batches) {
                continue;
            }
            self.look()?;
            self.out.space += 1;
            (layout.pipeline_schedule, layout.pipeline_chunks) = (schedule, chunks);
            let memory = stages.figures(peaks, layout, micro_batches, self.ground.calibration.allocated);
            if memory.needed > self.budget
                || self.host.is_some_and(|host| memory.host > host)
                || self.nvme.is_some_and(|nvme| memory.nvme > nvme)
            {
                self.out.miss(layout, memory.needed);
                continue;
            }
            fits = true;
            let beside = layout.expert_parallel > 1 && interleaves(layout);
            let [joined, deferred] = &mut known;
            let [plain, interleaved] = if defers_weights(layout) { deferred } else { joined };
            let slot = if beside { interleaved } else { plain };
            let rank = match slot {
                Some(rank) => rank,
                None => slot.insert(self.rank(layout, beside, &pipeline.partition)),
            };
            let time = self.setting.scheduled(layout, rank).total();
            self.out.costed += 1;
            self.keep(layout, memory, time);
        }
        Some(fits)
    }

    fn rank(&mut self, layout: &Layout, beside: bool, partition: &Partition) -> Rank {
        let size = layout.micro_batch;
        let at = self.costs.iter().position(|(b, _)| *b == size).unwrap_or_else(|| {
            self.costs.push((size, self.setting.costs(layout)));
            self.costs.len() - 1
        });
        let key = (size, layout.recompute, layout.recompute_every, beside);
        let costs = self.costs.get(at).map(|(_, c)| c);
        let known = self.alone.iter().position(|(k, _)| *k == key).unwrap_or_else(|| {
            if let Some(costs) = costs {
                self.alone.push((key, self.setting.alone(layout, costs)));
            }
            self.alone.len().saturating_sub(1)
        });
        match (costs, self.alone.get(known)) {
            (Some(costs), Some((_, alone))) => {
                self.setting.rank(layout, costs, alone, partition, &mut self.room)
            }
            _ => Rank::default(),
        }
    }

    /// Notes a layout that fits.
    fn keep(&mut self, layout: &Layout, memory: Figures, time: f64) {
        let search = self.ground.search;
        let steps = self.ground.steps.unwrap_or(self.ground.scale);
        let measure = Measure {
            time: time * self.ground.scale,
            money: self.ground.price.map(|price| price * time * steps),
            headroom: (self.ground.cluster.memory - memory.needed).get(),
        };
        let point = || Point { layout: layout.clone(), cluster: self.cluster, memory, step: time, measure };
        let late = search.deadline.is_some_and(|d| time * steps > d.get());
        let dear = search.budget.is_some_and(|b| measure.money.is_none_or(|m| m > b.get()));
        if late || dear {
            self.out.late(&measure, point);
            return;
        }
        if self.out.front.wants(&measure) {
            self.out.front.put(point());
        }
        let known = self.best.as_ref();
        if known.is_none_or(|p| measure.weigh(&p.measure, search.objective).is_lt()) {
            self.best = Some(point());
        }
    }
}
