//! The job run event by event: the referee of the closed forms.

use serde::Serialize;

use super::availability::{Availability, Start};
use super::outlook::{RestartJob, saves};
use super::policy::Policy;
use super::random::Random;
use super::regime::Regimes;
use super::trace::Trace;
use crate::error::Result;
use crate::quantity::Seconds;

/// A stretch of time with or without the complete gang.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// Whether the gang is complete.
    pub up: bool,
    /// How long that lasts.
    pub length: Seconds,
}

/// How one run of a job went.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Finish {
    /// From the start of the job to its end.
    pub time: Seconds,
    /// Of that, while the spot gang was held.
    pub held: Seconds,
    /// Of that, waiting for capacity.
    pub waiting: Seconds,
    /// Of that, on machines that are not taken away.
    pub on_demand: Seconds,
    /// How often the gang was lost.
    pub losses: u32,
}

/// Runs `job` over `spans`, beginning at the first; `None` if they end before the job does.
///
/// The rules: each start pays provisioning once the gang is complete, each but the first also the
/// restore; a checkpoint follows each full interval of work; a loss undoes what was done since the
/// last whole checkpoint.
///
/// ```
/// use shardwise::preemption::{Policy, RestartJob, Span, run_job};
/// use shardwise::Seconds;
/// let s = |x: f64| Seconds::new(x).unwrap();
/// let job = RestartJob {
///     work: s(100.0), interval: s(50.0), save: s(5.0), restore: s(7.0), provision: s(3.0),
/// };
/// // 3 + 50 + 5 saved by 58; the loss at 80 undoes 22 s; back at 90: 3 + 7 + 50 more.
/// let spans = [(true, 80.0), (false, 10.0), (true, 500.0)]
///     .map(|(up, length)| Span { up, length: s(length) });
/// let run = run_job(&job, Policy::Wait, spans).unwrap();
/// assert_eq!(run.time, s(150.0));
/// assert_eq!(run.losses, 1);
/// ```
pub fn run_job(
    job: &RestartJob,
    policy: Policy,
    spans: impl IntoIterator<Item = Span>,
) -> Option<Finish> {
    let (interval, save) = (job.interval.get(), job.save.get());
    let (provision, restore) = (job.provision.get(), job.restore.get());
    let (spot_work, later_work) = policy.split(job.work.get());
    let later = if later_work > 0.0 {
        provision + restore + later_work + save * f64::from(saves(later_work, interval))
    } else {
        0.0
    };
    let closing = if later_work > 0.0 { save } else { 0.0 };
    let count = saves(spot_work, interval);
    let (mut held, mut waiting, mut losses) = (0.0, 0.0, 0);
    let mut saved = 0;
    let mut started = false;
    let end = |held: f64, waiting: f64, on_demand: f64, losses: u32| {
        Some(Finish {
            time: Seconds::of(held + waiting + on_demand),
            held: Seconds::of(held),
            waiting: Seconds::of(waiting),
            on_demand: Seconds::of(on_demand),
            losses,
        })
    };
    if spot_work <= 0.0 {
        return end(0.0, 0.0, later - restore, 0);
    }
    for span in spans {
        let length = span.length.get();
        let start = provision + if started { restore } else { 0.0 };
        if !span.up {
            match policy {
                Policy::FallBack { patience } if length > patience.get() => {
                    let left = spot_work - f64::from(saved) * interval;
                    let rest = start + left + save * f64::from(count - saved);
                    return end(held, waiting + patience.get(), rest, losses);
                }
                _ => waiting += length,
            }
            continue;
        }
        let mut clock = start;
        while clock <= length {
            if saved == count {
                let last = spot_work - f64::from(count) * interval + closing;
                if clock + last <= length {
                    return end(held + clock + last, waiting, later, losses);
                }
                break;
            }
            clock += interval + save;
            if clock <= length {
                saved += 1;
            }
        }
        held += length;
        losses += 1;
        started = true;
    }
    None
}

/// Replays `job` on a recorded trace from `starts` moments spread evenly over it, wrapping around
/// at its end. A run that would need more than `laps` laps is `None`, and so is every run where
/// the gang of `target` nodes is never complete.
///
/// # Errors
/// If a field of `job` is outside its range.
pub fn replay(
    trace: &Trace,
    target: u32,
    job: &RestartJob,
    policy: Policy,
    starts: u32,
    laps: u32,
) -> Result<Vec<Option<Finish>>> {
    job.validate()?;
    let length = trace.length();
    let spans = trace.gang_spans(target);
    let limit = length * f64::from(laps);
    Ok((0..starts)
        .map(|i| {
            let offset = length * ((f64::from(i) + 0.5) / f64::from(starts));
            run_job(job, policy, from_offset(&spans, offset, laps))
                .filter(|finish| finish.time <= limit)
        })
        .collect())
}

/// The spans from `offset` on, for `laps` more laps.
fn from_offset(spans: &[Span], offset: Seconds, laps: u32) -> impl Iterator<Item = Span> {
    let mut before = offset;
    let mut index = 0;
    for (i, span) in spans.iter().enumerate() {
        index = i;
        if before < span.length {
            break;
        }
        before = before - span.length;
    }
    let total = spans.len() * (laps as usize + 1);
    spans.iter().cycle().skip(index).take(total).enumerate().map(move |(i, span)| Span {
        up: span.up,
        length: if i == 0 { span.length - before } else { span.length },
    })
}

/// Runs `job` `runs` times on spells drawn from the model of `availability`, from `seed`. A run
/// that meets `SPELLS` spells without ending is `None`.
///
/// # Errors
/// If a field of either is outside its range.
pub fn simulate(
    job: &RestartJob,
    availability: &Availability,
    policy: Policy,
    runs: u32,
    seed: u64,
) -> Result<Vec<Option<Finish>>> {
    const SPELLS: usize = 200_000;
    job.validate().map_err(|e| e.under("job"))?;
    availability.validate().map_err(|e| e.under("availability"))?;
    let any_moment = availability.start == Start::AnyMoment;
    let Some(regimes) = Regimes::of(availability) else {
        let forever = Span { up: true, length: Seconds::of(1e12) };
        return Ok((0..runs).map(|_| run_job(job, policy, [forever])).collect());
    };
    let mut seeds = Random::new(seed);
    Ok((0..runs)
        .map(|_| {
            let spells = regimes.spells(any_moment, seeds.split()).take(SPELLS);
            let spans = spells.map(|(up, length)| Span { up, length: Seconds::of(length) });
            run_job(job, policy, spans)
        })
        .collect())
}
