//! Going on with fewer nodes, and keeping spares.

use nalgebra::{DMatrix, DVector};
use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use super::availability::Start;
use super::hyperexponential::Hyperexponential;
use super::outlook::{NEVER, Outlook, RestartJob};
use super::regime::Regimes;
use crate::error::{Result, in_range};
use crate::quantity::Seconds;

/// Most nodes of an elastic gang: the chain has up to three states per node count.
const MOST_NODES: u32 = 64;
/// Levels solved one by one; beyond, each further segment takes as long as the last.
const LEVELS: u32 = 4000;

/// A gang that goes on with the nodes it has: a loss undoes the work since the last checkpoint and
/// the rest regroups; nodes that come back join at the next checkpoint.
///
/// ```
/// use shardwise::preemption::{Elastic, RestartJob};
/// use shardwise::Seconds;
/// let s = |x: f64| Seconds::new(x).unwrap();
/// let job = RestartJob {
///     work: s(86_400.0), interval: s(1800.0), save: s(60.0), restore: s(300.0), provision: s(120.0),
/// };
/// let gang = Elastic {
///     nodes: 8, least_nodes: 4, node_mean_up: s(200_000.0), gang_loss: 0.1, refill: s(7200.0),
/// };
/// let outlook = gang.outlook(&job).unwrap();
/// let ratio = outlook.expected() / job.undisturbed();
/// assert!(ratio > 1.1 && ratio < 1.2, "{ratio}");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Elastic {
    /// Nodes of the full gang, 1 to 64. The job's work is its time on all of them.
    pub nodes: u32,
    /// Fewest nodes that hold the job.
    pub least_nodes: u32,
    /// Mean time until one node is lost, in seconds; losses are memoryless.
    pub node_mean_up: Seconds,
    /// Probability that a loss takes every node at once, 0 to 1.
    pub gang_loss: f64,
    /// Mean time until one missing node is replaced, in seconds.
    pub refill: Seconds,
}

/// Expected time of an elastic job and its spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToJson)]
pub struct ElasticOutlook {
    undisturbed: Seconds,
    expected: Seconds,
    deviation: Seconds,
    node_time: Seconds,
}

impl ElasticOutlook {
    /// Expected completion time.
    #[must_use]
    pub fn expected(&self) -> Seconds {
        self.expected
    }

    /// Standard deviation of the completion time.
    #[must_use]
    pub fn deviation(&self) -> Seconds {
        self.deviation
    }

    /// Expected sum over nodes of the time each is held: what is paid.
    #[must_use]
    pub fn node_time(&self) -> Seconds {
        self.node_time
    }

    /// Completion time not exceeded with probability `p`: the excess over the undisturbed run taken
    /// as gamma-distributed with its exact mean and deviation.
    #[must_use]
    pub fn quantile(&self, p: f64) -> Seconds {
        let excess = (self.expected - self.undisturbed).get();
        self.undisturbed + Seconds::of(gamma_quantile(excess, self.deviation.get(), p))
    }
}

/// What the chain can be doing.
#[derive(Clone, Copy)]
enum State {
    /// Short of nodes, waiting for the next to come.
    Short(u32),
    /// Regrouping, then working a segment.
    Regroup(u32),
    /// Working a segment straight after the last.
    Going(u32),
}

impl Elastic {
    /// Checks every range.
    ///
    /// # Errors
    /// Names the first field outside its range.
    pub fn validate(&self) -> Result<()> {
        in_range("nodes", f64::from(self.nodes), 1.0, f64::from(MOST_NODES))?;
        in_range("least_nodes", f64::from(self.least_nodes), 1.0, f64::from(self.nodes))?;
        in_range("node_mean_up", self.node_mean_up.get(), 1.0, 1e12)?;
        in_range("gang_loss", self.gang_loss, 0.0, 1.0)?;
        in_range("refill", self.refill.get(), 1.0, 1e10)?;
        Ok(())
    }

    /// Expected time and spread, from an absorbing chain over (checkpoints left, nodes held) that
    /// begins with all nodes. When in a segment a loss falls, nodes that came back by its mean
    /// moment count as there.
    ///
    /// # Errors
    /// If a field is outside its range. That segments so outlast the nodes that it never ends is an
    /// answer.
    pub fn outlook(&self, job: &RestartJob) -> Result<ElasticOutlook> {
        self.validate().map_err(|e| e.under("elastic"))?;
        job.validate().map_err(|e| e.under("job"))?;
        let interval = job.interval.get();
        let count = job.saves();
        let last = job.work.get() - f64::from(count) * interval;
        let steady = self.stage(job, interval, job.save.get());
        let ending = self.stage(job, last, 0.0);
        let (Some(steady), Some(ending)) = (steady, ending) else {
            return Ok(self.never(job));
        };
        let zero = Moments::zero(steady.size());
        let mut now = ending.back(&zero);
        let mut step = zero;
        let solved = count.min(LEVELS);
        for _ in 0..solved {
            let next = steady.back(&now);
            step = next.less(&now);
            now = next;
        }
        let beyond = f64::from(count - solved);
        let start = self.index(State::Going(self.nodes));
        let at = |v: &DVector<f64>| v.get(start).copied().unwrap_or(0.0);
        let (mean, second) = (at(&now.mean), at(&now.second));
        let variance = (second - mean * mean).max(0.0) * (1.0 + beyond / f64::from(solved.max(1)));
        let expected = mean + beyond * at(&step.mean) + job.provision.get();
        // So far from its end rounding may turn even the sign.
        if !expected.is_finite() || expected.abs() > NEVER {
            return Ok(self.never(job));
        }
        Ok(ElasticOutlook {
            undisturbed: job.undisturbed(),
            expected: Seconds::of(expected),
            deviation: Seconds::of(variance.sqrt()),
            node_time: Seconds::of(
                at(&now.node_time)
                    + beyond * at(&step.node_time)
                    + job.provision.get() * f64::from(self.nodes),
            ),
        })
    }

    /// Segments outlast every spell of too many nodes: an answer, with times of 300,000 years.
    fn never(&self, job: &RestartJob) -> ElasticOutlook {
        ElasticOutlook {
            undisturbed: job.undisturbed(),
            expected: Seconds::of(NEVER),
            deviation: Seconds::ZERO,
            node_time: Seconds::of(NEVER * f64::from(self.nodes)),
        }
    }

    fn index(&self, state: State) -> usize {
        let (least, kinds) = (self.least_nodes, self.nodes - self.least_nodes + 1);
        (match state {
            State::Short(k) => k,
            State::Regroup(k) => least + (k - least),
            State::Going(k) => least + kinds + (k - least),
        }) as usize
    }

    /// The equations of one level whose segment is `work` at full speed plus `save`.
    fn stage(&self, job: &RestartJob, work: f64, save: f64) -> Option<Stage> {
        let size = (self.least_nodes + 2 * (self.nodes - self.least_nodes + 1)) as usize;
        let mut stage = Stage::empty(size);
        for k in 0..self.least_nodes {
            let wait = self.refill.get() / f64::from(self.nodes - k);
            let next = if k + 1 == self.least_nodes { State::Regroup(k + 1) } else { State::Short(k + 1) };
            let row = self.index(State::Short(k));
            stage.add(
                row,
                &Outcome { time: wait, square: 2.0 * wait * wait, held: k, stays: true },
                &[(self.index(next), 1.0)],
            );
        }
        for k in self.least_nodes..=self.nodes {
            let full = f64::from(self.nodes) / f64::from(k);
            for (state, ahead) in
                [(State::Regroup(k), job.provision.get() + job.restore.get()), (State::Going(k), 0.0)]
            {
                let length = ahead + work * full + save;
                let rate = f64::from(k) / self.node_mean_up.get();
                let kept = libm::exp(-rate * length);
                let row = self.index(state);
                // Mean and mean square of the moment of a loss, given that it falls within.
                let lost = 1.0 - kept;
                if lost > 1e-15 {
                    let time = 1.0 / rate - length * kept / lost;
                    let square = 2.0 * time / rate - length * length * kept / lost;
                    let mut to = Vec::new();
                    for (left, p) in [(k - 1, 1.0 - self.gang_loss), (0, self.gang_loss)] {
                        for (back, share) in self.returned(k, time) {
                            let held = left + back;
                            let next = if held < self.least_nodes {
                                State::Short(held)
                            } else {
                                State::Regroup(held)
                            };
                            to.push((self.index(next), lost * p * share));
                        }
                    }
                    stage.add(row, &Outcome { time, square, held: k, stays: true }, &to);
                }
                let to: Vec<(usize, f64)> = self
                    .returned(k, length)
                    .map(|(back, share)| {
                        let next = if back == 0 { State::Going(k) } else { State::Regroup(k + back) };
                        (self.index(next), kept * share)
                    })
                    .collect();
                stage.add(
                    row,
                    &Outcome { time: length, square: length * length, held: k, stays: false },
                    &to,
                );
            }
        }
        stage.solve()
    }

    /// How many of the missing nodes are back after `time`, with their probabilities.
    fn returned(&self, held: u32, time: f64) -> impl Iterator<Item = (u32, f64)> {
        let missing = self.nodes - held;
        let p = -libm::expm1(-time / self.refill.get());
        let mut choose = 1.0;
        (0..=missing).map(move |back| {
            if back > 0 {
                choose *= f64::from(missing - back + 1) / f64::from(back);
            }
            let share =
                choose * libm::pow(p, f64::from(back)) * libm::pow(1.0 - p, f64::from(missing - back));
            (back, share)
        })
    }
}

struct Outcome {
    time: f64,
    square: f64,
    held: u32,
    /// Whether the level stays the same (a loss or a wait) or one segment is done.
    stays: bool,
}

/// Mean and mean square of the time left, and mean node-time left, by state.
struct Moments {
    mean: DVector<f64>,
    second: DVector<f64>,
    node_time: DVector<f64>,
}

impl Moments {
    fn zero(size: usize) -> Self {
        let zero = DVector::zeros(size);
        Self { mean: zero.clone(), second: zero.clone(), node_time: zero }
    }

    fn less(&self, other: &Self) -> Self {
        Self {
            mean: &self.mean - &other.mean,
            second: &self.second - &other.second,
            node_time: &self.node_time - &other.node_time,
        }
    }
}

struct Stage {
    same: DMatrix<f64>,
    next: DMatrix<f64>,
    /// Probability-weighted times of outcomes that stay and that go on.
    same_time: DMatrix<f64>,
    next_time: DMatrix<f64>,
    time: DVector<f64>,
    square: DVector<f64>,
    node_time: DVector<f64>,
    /// (I - same)^-1.
    inverse: DMatrix<f64>,
}

impl Stage {
    fn empty(size: usize) -> Self {
        let (m, v) = (DMatrix::zeros(size, size), DVector::zeros(size));
        Self {
            same: m.clone(),
            next: m.clone(),
            same_time: m.clone(),
            next_time: m.clone(),
            time: v.clone(),
            square: v.clone(),
            node_time: v,
            inverse: m,
        }
    }

    fn size(&self) -> usize {
        self.time.len()
    }

    fn add(&mut self, row: usize, outcome: &Outcome, to: &[(usize, f64)]) {
        let (moves, times) = if outcome.stays {
            (&mut self.same, &mut self.same_time)
        } else {
            (&mut self.next, &mut self.next_time)
        };
        for &(column, p) in to {
            for (matrix, amount) in [(&mut *moves, p), (&mut *times, p * outcome.time)] {
                if let Some(sum) = matrix.get_mut((row, column)) {
                    *sum += amount;
                }
            }
            for (vector, amount) in [
                (&mut self.time, p * outcome.time),
                (&mut self.square, p * outcome.square),
                (&mut self.node_time, p * outcome.time * f64::from(outcome.held)),
            ] {
                if let Some(sum) = vector.get_mut(row) {
                    *sum += amount;
                }
            }
        }
    }

    fn solve(mut self) -> Option<Self> {
        let size = self.size();
        self.inverse = (DMatrix::identity(size, size) - &self.same).try_inverse()?;
        Some(self)
    }

    /// The moments one level up, given those of the level below.
    fn back(&self, below: &Moments) -> Moments {
        let mean = &self.inverse * (&self.time + &self.next * &below.mean);
        let node_time = &self.inverse * (&self.node_time + &self.next * &below.node_time);
        let cross = (&self.same_time * &mean + &self.next_time * &below.mean) * 2.0;
        let second = &self.inverse * (&self.square + cross + &self.next * &below.second);
        Moments { mean, second, node_time }
    }
}

/// A gang with spare nodes standing by: a failed node is swapped at once while a spare is left.
///
/// ```
/// use shardwise::preemption::SparePool;
/// use shardwise::Seconds;
/// // 16 nodes with a failure per node every 250 days, repaired in 2 days, one spare: one failure
/// // in nine finds the spare gone.
/// let s = |days: f64| Seconds::new(days * 86_400.0).unwrap();
/// let pool = SparePool { nodes: 16, spares: 1, node_mean_up: s(250.0), repair: s(2.0) };
/// assert!((pool.caught_short() - 0.128 / 1.128).abs() < 1e-12);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SparePool {
    /// Nodes the job runs on.
    pub nodes: u32,
    /// Nodes standing by.
    pub spares: u32,
    /// Mean time until one node fails, in seconds.
    pub node_mean_up: Seconds,
    /// Mean time until a failed node is back, in seconds.
    pub repair: Seconds,
}

impl SparePool {
    /// Checks every range.
    ///
    /// # Errors
    /// Names the first field outside its range.
    pub fn validate(&self) -> Result<()> {
        in_range("nodes", f64::from(self.nodes), 1.0, 1e6)?;
        in_range("spares", f64::from(self.spares), 0.0, 1e4)?;
        in_range("node_mean_up", self.node_mean_up.get(), 1.0, 1e12)?;
        in_range("repair", self.repair.get(), 1.0, 1e10)?;
        Ok(())
    }

    /// Probability that a failure finds no spare: Erlang's loss formula with the offered load
    /// a = nodes x repair / mean time to failure, B(0) = 1, B(s) = a B(s-1) / (s + a B(s-1)).
    ///
    /// Source: Erlang 1917.
    #[must_use]
    pub fn caught_short(&self) -> f64 {
        let load = f64::from(self.nodes) * (self.repair / self.node_mean_up);
        // a B / (s + a B), also for a load without bound.
        (1..=self.spares).fold(1.0, |b, s| 1.0 / (1.0 + f64::from(s) / (load * b)))
    }

    /// The outlook of `job`, whose provisioning is the detection and the swap: a failure that finds
    /// no spare waits for the first repair.
    ///
    /// # Errors
    /// If a field is outside its range.
    pub fn outlook(&self, job: &RestartJob) -> Result<Outlook> {
        self.validate().map_err(|e| e.under("spare_pool"))?;
        job.validate().map_err(|e| e.under("job"))?;
        let mean = self.node_mean_up.get() / f64::from(self.nodes);
        let wait = self.repair.get() / f64::from(self.spares + 1);
        let regimes = Regimes {
            up: Hyperexponential { p_short: 1.0, short: mean, long: mean },
            // A swap does not wait: its phase ends at once.
            down: Hyperexponential { p_short: 1.0 - self.caught_short(), short: 1e-6, long: wait },
            strength: 0.0,
            turnover: 0.5,
        };
        Ok(Outlook::of(*job, Some(&regimes), Start::WithCapacity))
    }
}

/// The quantile of a gamma variable of that mean and deviation; the mean where nothing scatters.
///
/// Source: Wilson and Hilferty 1931, the cube root of a gamma variable as normal.
pub(super) fn gamma_quantile(mean: f64, deviation: f64, p: f64) -> f64 {
    if mean <= 0.0 || deviation <= 0.0 {
        return mean;
    }
    let shape = (mean / deviation) * (mean / deviation);
    let root = (1.0 - 1.0 / (9.0 * shape) + normal_quantile(p) / (3.0 * shape.sqrt())).max(0.0);
    mean * root * root * root
}

/// The normal quantile, to 4.5e-4.
///
/// Source: Abramowitz and Stegun 26.2.23.
fn normal_quantile(p: f64) -> f64 {
    let tail = p.min(1.0 - p).max(1e-12);
    let t = (-2.0 * libm::log(tail)).sqrt();
    let z = t
        - (2.515_517 + t * (0.802_853 + t * 0.010_328))
            / (1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308)));
    if p < 0.5 { -z } else { z }
}

#[cfg(test)]
mod tests;
