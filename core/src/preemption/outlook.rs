//! The distribution of a job's completion time and cost, in closed form.
//!
//! The job is an absorbing chain: its levels are the checkpoints reached, its states the phase of
//! the up spell at hand. A level is left when a segment and its checkpoint end before the phase
//! does; otherwise a down spell, provisioning and restore follow, and the segment begins anew.
//! Within a phase losses are memoryless, so each level is a 4 x 4 matrix of Laplace transforms.
//! Means are exact derivatives (complex step), quantiles come from Euler's inversion.
//!
//! Sources: Neuts, "Matrix-Geometric Solutions in Stochastic Models", 1981; Abate and Whitt,
//! "Numerical inversion of Laplace transforms of probability distributions", 1995.

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use super::availability::{Availability, Start};
use super::crossing::crossing;
use super::regime::{PHASES, Regimes};
use super::transform::{
    C, Column, Matrix, Row, along, diagonal, euler, expc, power, product, real, series, settled,
};
use crate::error::{Result, in_range};
use crate::quantity::{Seconds, count};

/// Exponent from which e^-x is no part of one in double precision.
const LOST: f64 = 36.0;
/// Most checkpoints of a run.
const MOST_SEGMENTS: f64 = 2e4;
/// Most of those that are looked for: what is rounded to whole segments stays below the most.
const MOST_SOUGHT: f64 = 1.9e4;
/// Times beyond 300,000 years: the job does not end.
pub(super) const NEVER: f64 = 1e13;

/// A job that saves its state now and then, and begins again from the last saved state.
///
/// ```
/// use shardwise::preemption::RestartJob;
/// use shardwise::Seconds;
/// let s = |x: f64| Seconds::new(x).unwrap();
/// let job = RestartJob {
///     work: s(86_400.0), interval: s(1800.0), save: s(60.0), restore: s(300.0), provision: s(120.0),
/// };
/// // 120 + 86,400 + 47 saves of 60 s; the end of the work needs none to go on from.
/// assert_eq!(job.undisturbed().get(), 89_340.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RestartJob {
    /// Time of the work itself, in seconds.
    pub work: Seconds,
    /// Work between two checkpoints, in seconds.
    pub interval: Seconds,
    /// Stall of one checkpoint, in seconds; a save cut short is lost.
    pub save: Seconds,
    /// Loading the state and warming up, after every start but the first, in seconds.
    pub restore: Seconds,
    /// From the gang being complete to the job running, at every start, in seconds.
    pub provision: Seconds,
}

impl RestartJob {
    /// Checks every range.
    ///
    /// # Errors
    /// Names the first field outside its range.
    pub fn validate(&self) -> Result<()> {
        in_range("work", self.work.get(), 1.0, 1e10)?;
        let (interval, least) = (self.interval.get(), (self.work.get() / MOST_SEGMENTS).max(1e-3));
        // What divides the work into whole segments may be rounded below the least.
        let rounded = interval < least && interval > least * (1.0 - 1e-9);
        in_range("interval", if rounded { least } else { interval }, least, 1e10)?;
        for (field, time) in [("save", self.save), ("restore", self.restore), ("provision", self.provision)] {
            in_range(field, time.get(), 0.0, 1e10)?;
        }
        Ok(())
    }

    /// Segments that end with a checkpoint: all but the last.
    #[must_use]
    pub fn saves(&self) -> u32 {
        saves(self.work.get(), self.interval.get())
    }

    /// The time it takes when nothing is lost.
    #[must_use]
    pub fn undisturbed(&self) -> Seconds {
        self.provision + self.work + self.save * f64::from(self.saves())
    }

    /// The same job with another checkpoint interval.
    #[must_use]
    pub fn every(self, interval: Seconds) -> Self {
        Self { interval, ..self }
    }
}

/// Shortest interval that a run is asked about.
pub(crate) fn shortest_interval(work: Seconds) -> Seconds {
    (work / MOST_SOUGHT).max(Seconds::of(1e-3))
}

/// Checkpoints within `work`; one that would fall on its end is not made.
pub(super) fn saves(work: f64, interval: f64) -> u32 {
    // Validation keeps the quotient below 2e4.
    let segments = count((work / interval - 1e-9).ceil().max(1.0));
    u32::try_from(segments - 1).unwrap_or(u32::MAX)
}

/// What a second counts: 1 each for time, prices for money.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// Per second that the gang is held.
    pub held: f64,
    /// Per second of waiting for capacity.
    pub waiting: f64,
    /// Per second on machines that are not taken away.
    pub on_demand: f64,
}

impl Weights {
    /// Wall-clock time.
    pub const TIME: Self = Self { held: 1.0, waiting: 1.0, on_demand: 1.0 };
}

/// Transform variables of each kind of second, and of each loss.
#[derive(Clone, Copy)]
struct Marks {
    productive: C,
    lost: C,
    waiting: C,
    on_demand_start: C,
    on_demand_productive: C,
    loss: C,
}

/// How long a job takes on a gang that comes and goes, and how widely that scatters.
///
/// ```
/// use shardwise::preemption::{Availability, Outlook, RestartJob};
/// use shardwise::Seconds;
/// let s = |x: f64| Seconds::new(x).unwrap();
/// let job = RestartJob {
///     work: s(86_400.0), interval: s(1800.0), save: s(60.0), restore: s(300.0), provision: s(120.0),
/// };
/// let steady = Outlook::new(&job, &Availability::undisturbed()).unwrap();
/// assert_eq!(steady.expected(), job.undisturbed());
/// // Losses every 4 h on average, an hour until the gang is back.
/// let spot = Outlook::new(&job, &Availability::memoryless(s(14_400.0), s(3600.0))).unwrap();
/// assert_eq!(format!("{:.2}", spot.expected().hours()), "34.09");
/// ```
#[derive(Clone, Debug)]
pub struct Outlook {
    job: RestartJob,
    process: Option<Process>,
    patience: Option<f64>,
    final_save: bool,
}

#[derive(Clone, Debug)]
struct Process {
    up_rates: [f64; PHASES],
    down_rates: [f64; PHASES],
    to_down: Matrix,
    to_up: Matrix,
    start_up: [f64; PHASES],
    start_down: [f64; PHASES],
}

impl Outlook {
    /// The outlook of `job` when it waits for the gang whenever that is not complete.
    ///
    /// # Errors
    /// If a field of either is outside its range.
    pub fn new(job: &RestartJob, availability: &Availability) -> Result<Self> {
        job.validate().map_err(|e| e.under("job"))?;
        availability.validate().map_err(|e| e.under("availability"))?;
        Ok(Self::of(*job, Regimes::of(availability).as_ref(), availability.start))
    }

    pub(super) fn of(job: RestartJob, regimes: Option<&Regimes>, start: Start) -> Self {
        let process = regimes.map(|r| {
            let (start_up, start_down) = match start {
                Start::AnyMoment => r.at_any_moment(),
                Start::WithCapacity => (r.fresh_up(), [0.0; PHASES]),
            };
            Process {
                up_rates: r.up_rates(),
                down_rates: r.down_rates(),
                to_down: real(r.to_down()),
                to_up: real(r.to_up()),
                start_up,
                start_down,
            }
        });
        Self { job, process, patience: None, final_save: false }
    }

    /// The same, but after waiting `patience` for the gang, once, the rest runs on machines that
    /// are not taken away.
    #[must_use]
    pub fn falling_back(mut self, patience: Seconds) -> Self {
        self.patience = Some(patience.get().max(0.0));
        self
    }

    /// The same job on another interval, over the same availability.
    #[must_use]
    pub fn every(mut self, interval: Seconds) -> Self {
        self.job.interval = interval;
        self
    }

    /// The same with a checkpoint at its very end, for what follows elsewhere.
    pub(super) fn handing_over(mut self) -> Self {
        self.final_save = true;
        self
    }

    /// The time it takes when nothing is lost.
    #[must_use]
    pub fn undisturbed(&self) -> Seconds {
        let last = if self.final_save { self.job.save } else { Seconds::ZERO };
        self.job.undisturbed() + last
    }

    /// Expected completion time; `None` when the job would never end (its segments outlast every
    /// spell).
    #[must_use]
    pub fn expected_or_never(&self) -> Option<Seconds> {
        let time = self.mean(Weights::TIME);
        (time < NEVER).then_some(Seconds::of(time))
    }

    /// Expected completion time, at most about 300,000 years.
    #[must_use]
    pub fn expected(&self) -> Seconds {
        self.expected_or_never().unwrap_or(Seconds::of(NEVER))
    }

    /// Expected time for which the gang is held, in seconds: all of it is paid.
    #[must_use]
    pub fn held(&self) -> Seconds {
        Seconds::of(self.mean(Weights { held: 1.0, waiting: 0.0, on_demand: 0.0 }).min(NEVER))
    }

    /// Expected time spent waiting for capacity.
    #[must_use]
    pub fn waiting(&self) -> Seconds {
        Seconds::of(self.mean(Weights { held: 0.0, waiting: 1.0, on_demand: 0.0 }).min(NEVER))
    }

    /// Expected time on machines that are not taken away.
    #[must_use]
    pub fn on_demand(&self) -> Seconds {
        Seconds::of(self.mean(Weights { held: 0.0, waiting: 0.0, on_demand: 1.0 }).min(NEVER))
    }

    /// Expected number of times the gang is lost; as many as seconds where the run does not end.
    #[must_use]
    pub fn losses(&self) -> f64 {
        if self.mean(Weights::TIME) >= NEVER {
            return NEVER;
        }
        let zero = C::new(0.0, 0.0);
        let marks = Marks {
            productive: zero,
            lost: zero,
            waiting: zero,
            on_demand_start: zero,
            on_demand_productive: zero,
            loss: C::new(1.0, STEP),
        };
        (self.transform(&marks).im / STEP).clamp(0.0, NEVER)
    }

    /// Expected time for which the gang is held beyond the undisturbed run: starts, restores and
    /// work done again. Negative where a fall-back takes over part of the work.
    #[must_use]
    pub fn redone(&self) -> Seconds {
        self.held() - self.undisturbed()
    }

    /// Mean of the weighted time.
    #[must_use]
    pub fn mean(&self, weights: Weights) -> f64 {
        let base = self.base(weights);
        if self.process.is_none() {
            return base + self.atoms(weights).first().map_or(0.0, |a| a.0);
        }
        if self.hopeless() {
            return NEVER;
        }
        let excess = -self.excess(weights, C::new(0.0, STEP)).im / STEP;
        if excess.is_finite() { base + excess } else { NEVER }
    }

    /// Whether a start after a loss and its first segment outlast the longest kind of spell so far that
    /// the chance of their being kept is lost in rounding, and nothing but waiting is done: the run never ends.
    fn hopeless(&self) -> bool {
        let job = &self.job;
        let segment = (job.provision + job.restore + job.interval.min(job.work) + job.save).get();
        let rate =
            self.process.as_ref().map_or(0.0, |p| p.up_rates.into_iter().fold(f64::INFINITY, f64::min));
        self.patience.is_none() && rate * segment > LOST
    }

    /// The checkpoint interval with the least mean of the weighted time: money with prices for
    /// weights, time with [`Weights::TIME`]. Where saving is free it is the shortest tried.
    ///
    /// The interval is looked for on a logarithmic grid from a tenth of the save (at least
    /// the work's 19,000th part) to the whole work, then refined by golden section. Saves fall on
    /// whole intervals, so the cost has small steps; the search follows its trend, in which the
    /// work divides into whole segments.
    #[must_use]
    pub fn best_interval(&self, weights: Weights) -> Seconds {
        let work = self.job.work.get();
        if self.process.is_none() {
            return self.job.work;
        }
        let low = libm::log((self.job.save.get() / 10.0).max(shortest_interval(self.job.work).get()));
        let high = libm::log(work);
        // Equal segments: the interval is the work over a whole number.
        let cost = |x: f64| {
            let segments = (work / libm::exp(x)).round().max(1.0);
            self.clone().every(Seconds::of(work / segments)).mean(weights)
        };
        let step = (high - low) / f64::from(GRID);
        let mut best = (f64::INFINITY, high);
        for i in 0..=GRID {
            let x = high - step * f64::from(i);
            let c = cost(x);
            if c < best.0 {
                best = (c, x);
            }
        }
        let (mut a, mut b) = (best.1 - step, (best.1 + step).min(high));
        for _ in 0..24 {
            let (x, y) = (b - GOLDEN * (b - a), a + GOLDEN * (b - a));
            let (cx, cy) = (cost(x), cost(y));
            for (c, at) in [(cx, x), (cy, y)] {
                if c < best.0 {
                    best = (c, at);
                }
            }
            if cx <= cy {
                b = y;
            } else {
                a = x;
            }
        }
        let segments = (work / libm::exp(best.1)).round().max(1.0);
        Seconds::of(work / segments)
    }

    /// Standard deviation of the weighted time.
    #[must_use]
    pub fn deviation(&self, weights: Weights) -> f64 {
        let mean = self.mean(weights) - self.base(weights);
        if self.process.is_none() || mean <= 0.0 || mean >= NEVER {
            return 0.0;
        }
        // E[X^2] = -d/ds E[X e^(-sX)] at 0, by a one-sided difference of exact derivatives.
        let d = 1e-4 / mean;
        let g = |s: f64| -self.excess(weights, C::new(s, STEP / mean)).im / (STEP / mean);
        let second = (3.0 * g(0.0) - 4.0 * g(d) + g(2.0 * d)) / (2.0 * d);
        (second - mean * mean).max(0.0).sqrt()
    }

    /// Probability that the job has ended `deadline` after it was started.
    #[must_use]
    pub fn probability_by(&self, deadline: Seconds) -> f64 {
        self.probability_within(Weights::TIME, deadline.get())
    }

    /// Completion time that is not exceeded with probability `p`.
    #[must_use]
    pub fn quantile(&self, p: f64) -> Seconds {
        Seconds::of(self.weighted_quantile(Weights::TIME, p))
    }

    /// Weighted time that is not exceeded with probability `p`.
    #[must_use]
    pub fn weighted_quantile(&self, weights: Weights, p: f64) -> f64 {
        let base = self.base(weights);
        let mean = self.mean(weights);
        if mean >= NEVER {
            return NEVER;
        }
        let p = p.clamp(0.0, 0.999_999);
        if self.process.is_none() || self.probability_within(weights, base) >= p {
            return if self.process.is_none() { mean } else { base };
        }
        // At least wide enough to be told from nothing beside the base, or it would never grow.
        let least = 1e-9 * base.max(1.0);
        let (mut low, mut high) = (base, base + 2.0 * (mean - base).max(least));
        let over = |limit: f64| self.probability_within(weights, limit) - p;
        let (mut below, mut above) = (over(low), over(high));
        while above < 0.0 && high < NEVER {
            (low, below) = (high, above);
            high = base + 2.0 * (high - base);
            above = over(high);
        }
        crossing((low, below), (high, above), over)
    }

    /// Probability that the weighted time stays within `limit`.
    #[must_use]
    pub fn probability_within(&self, weights: Weights, limit: f64) -> f64 {
        let x = limit - self.base(weights);
        if x < 0.0 {
            return 0.0;
        }
        let atoms = self.atoms(weights);
        let reached: f64 = atoms.iter().filter(|a| a.0 <= x).map(|a| a.1).sum();
        let spread = 1.0 - atoms.iter().map(|a| a.1).sum::<f64>();
        if x == 0.0 || spread < 1e-12 {
            return reached.min(1.0);
        }
        let tail = euler(x, |s| {
            let lumps: C = atoms.iter().map(|&(at, weight)| expc(-s * at) * weight).sum();
            (C::new(spread, 0.0) - (self.excess(weights, s) - lumps)) / s
        });
        (reached + spread - tail).clamp(0.0, 1.0)
    }

    /// The least weighted time: the undisturbed run on the cheaper of the two kinds.
    fn base(&self, weights: Weights) -> f64 {
        self.undisturbed().get() * self.cheaper(weights)
    }

    fn cheaper(&self, weights: Weights) -> f64 {
        if self.patience.is_some() { weights.held.min(weights.on_demand) } else { weights.held }
    }

    /// Lumps of probability in the excess over the base: (where, how much).
    fn atoms(&self, weights: Weights) -> Vec<(f64, f64)> {
        let run = self.undisturbed().get();
        let cheaper = self.cheaper(weights);
        let unlost = (weights.held - cheaper) * run;
        let Some(process) = &self.process else {
            return vec![(unlost, 1.0)];
        };
        let kept =
            process.start_up.iter().zip(process.up_rates).map(|(p, rate)| p * libm::exp(-rate * run)).sum();
        let mut atoms = vec![(unlost, kept)];
        if let Some(patience) = self.patience {
            let gone = process
                .start_down
                .iter()
                .zip(process.down_rates)
                .map(|(p, rate)| p * libm::exp(-rate * patience))
                .sum();
            atoms.push((weights.waiting * patience + (weights.on_demand - cheaper) * run, gone));
        }
        atoms
    }

    /// E[exp(-s X)] of the excess X over the base.
    fn excess(&self, weights: Weights, s: C) -> C {
        let cheaper = self.cheaper(weights);
        self.transform(&Marks {
            productive: s * (weights.held - cheaper),
            lost: s * weights.held,
            waiting: s * weights.waiting,
            on_demand_start: s * weights.on_demand,
            on_demand_productive: s * (weights.on_demand - cheaper),
            loss: C::new(1.0, 0.0),
        })
    }

    fn transform(&self, marks: &Marks) -> C {
        let one = C::new(1.0, 0.0);
        let Some(process) = &self.process else {
            return one;
        };
        let job = &self.job;
        let (provision, restore) = (job.provision.get(), job.restore.get());
        let (work, interval, save) = (job.work.get(), job.interval.get(), job.save.get());
        let kept = |length: f64, factor: C| {
            diagonal(process.up_rates.map(|rate| factor * libm::exp(-rate * length)))
        };
        // The spell ends within `length`, after a time that is lost.
        let cut = |length: f64| {
            diagonal(process.up_rates.map(|rate| {
                let z = marks.lost + rate;
                marks.loss * (one - expc(-z * length)) * rate / z
            }))
        };
        // Waiting ends with the gang back, or with patience gone.
        let (back, gone) = match self.patience {
            None => {
                (process.down_rates.map(|r| C::new(r, 0.0) / (marks.waiting + r)), [C::new(0.0, 0.0); PHASES])
            }
            Some(patience) => (
                process.down_rates.map(|r| {
                    let z = marks.waiting + r;
                    (one - expc(-z * patience)) * r / z
                }),
                process.down_rates.map(|r| expc(-(marks.waiting + r) * patience)),
            ),
        };
        let waited = product(&diagonal(back), &process.to_up);
        let returns = product(&process.to_down, &waited);
        let leaves = process.to_down * Column::from(gone);
        let restart = provision + restore;
        let again = kept(restart, expc(-marks.lost * restart));
        let again_cut = cut(restart);

        // First start: provisioning alone. Its time belongs to the undisturbed run, so when it is
        // cut short, only the restore of the next try is extra.
        let on_demand_rest = |left: f64| {
            expc(
                -marks.on_demand_productive
                    * (left + save * f64::from(saves(left, interval)) + self.closing()),
            )
        };
        let from_down = Row::from(process.start_down.map(|p| C::new(p, 0.0)));
        let mut total = (from_down * Column::from(gone)).x
            * expc(-marks.on_demand_productive * provision)
            * on_demand_rest(work);
        let first = Row::from(process.start_up.map(|p| C::new(p, 0.0))) + along(&from_down, &waited);
        let Some(settle) = settled(&product(&returns, &again_cut)) else {
            return C::new(f64::NAN, f64::NAN);
        };
        let missed = along(&along(&first, &cut(provision)), &settle);
        let again_first = kept(restart, expc(-marks.lost * restore - marks.productive * provision));
        let mut level = along(&first, &kept(provision, expc(-marks.productive * provision)))
            + along(&along(&missed, &returns), &again_first);
        total += (missed * leaves).x
            * expc(-marks.on_demand_start * restore - marks.on_demand_productive * provision)
            * on_demand_rest(work);

        let leave_start = expc(-marks.on_demand_start * restart);
        let stage = |length: f64| {
            let lost = cut(length);
            let kept = kept(length, expc(-marks.productive * length));
            let visits = settled(&product(&returns, &(product(&again, &lost) + again_cut)))?;
            let into_down = product(&lost, &visits);
            let once_more = product(&product(&into_down, &returns), &product(&again, &kept));
            Some((kept + once_more, into_down * leaves))
        };
        let count = saves(work, interval);
        let last = work - f64::from(count) * interval;
        let (Some((step, exit)), Some((ending, exit_last))) =
            (stage(interval + save), stage(last + self.closing()))
        else {
            return C::new(f64::NAN, f64::NAN);
        };
        if self.patience.is_some() {
            // The exit after i of `count` segments leaves the rest of them to firm machines.
            let firm = expc(-marks.on_demand_productive * (interval + save));
            let (whole, exits) = series(&step, firm, count);
            total += (along(&level, &exits) * exit).x * leave_start * firm * on_demand_rest(last);
            level = along(&level, &whole);
            total += (level * exit_last).x * leave_start * on_demand_rest(last);
        } else {
            level = along(&level, &power(step, count));
        }
        total + (level * ending).sum()
    }

    fn closing(&self) -> f64 {
        if self.final_save { self.job.save.get() } else { 0.0 }
    }
}

/// Intervals tried before the best is refined.
const GRID: u32 = 48;
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// Complex step of exact derivatives: its square vanishes beside any probability.
const STEP: f64 = 1e-40;
