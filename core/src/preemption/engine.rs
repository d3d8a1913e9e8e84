//! The job run event by event: the referee of the closed forms.

use serde::Serialize;
use shardwise_derive::ToJson;

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
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToJson)]
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
/// Neighbours of one kind are one span.
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
pub fn run_job(job: &RestartJob, policy: Policy, spans: impl IntoIterator<Item = Span>) -> Option<Finish> {
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
    let mut spans = spans.into_iter().peekable();
    while let Some(span) = spans.next() {
        let mut length = span.length.get();
        while let Some(more) = spans.next_if(|next| next.up == span.up) {
            length += more.length.get();
        }
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
            run_job(job, policy, from_offset(&spans, offset, laps)).filter(|finish| finish.time <= limit)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preemption::{GangPrices, Outlook, Spells, Swing, TraceStep, outlook_of, quantile};
    use crate::quantity::UsdPerSecond;

    fn s(x: f64) -> Seconds {
        Seconds::of(x)
    }

    fn day() -> RestartJob {
        RestartJob {
            work: s(86_400.0),
            interval: s(1800.0),
            save: s(60.0),
            restore: s(300.0),
            provision: s(120.0),
        }
    }

    fn zone() -> Availability {
        Availability {
            up: Some(Spells { scv: 4.5, ..Spells::memoryless(s(7200.0)) }),
            down: Spells { scv: 3.0, ..Spells::memoryless(s(5400.0)) },
            swing: Swing::Typical,
            start: Start::AnyMoment,
            loss_share: None,
        }
    }

    struct Drawn {
        mean: f64,
        error: f64,
        quantiles: [f64; 3],
        held: f64,
        losses: f64,
        money: Vec<f64>,
    }

    fn drawn(availability: &Availability, policy: Policy) -> Result<Drawn> {
        let runs: Vec<Finish> =
            simulate(&day(), availability, policy, 4000, 5)?.into_iter().flatten().collect();
        let n = runs.len() as f64;
        assert!(n > 3999.0);
        let mut times: Vec<f64> = runs.iter().map(|f| f.time.get()).collect();
        times.sort_by(f64::total_cmp);
        let mean = times.iter().sum::<f64>() / n;
        let variance = times.iter().map(|t| (t - mean) * (t - mean)).sum::<f64>() / n;
        let mut money: Vec<f64> = runs.iter().map(|f| f.held.get() + 2.5 * f.on_demand.get()).collect();
        money.sort_by(f64::total_cmp);
        Ok(Drawn {
            mean,
            error: (variance / n).sqrt(),
            quantiles: [0.5, 0.9, 0.99].map(|q| quantile(&times, q)),
            held: runs.iter().map(|f| f.held.get()).sum::<f64>() / n,
            losses: runs.iter().map(|f| f64::from(f.losses)).sum::<f64>() / n,
            money,
        })
    }

    #[test]
    fn the_chain_agrees_with_drawn_runs_under_every_policy() -> Result<()> {
        let prices = GangPrices { spot: UsdPerSecond::of(1.0), firm: UsdPerSecond::of(2.5) };
        for availability in [zone(), Availability::memoryless(s(14_400.0), s(3600.0))] {
            for policy in [
                Policy::Wait,
                Policy::FallBack { patience: s(3600.0) },
                Policy::FallBack { patience: s(0.0) },
                Policy::SpotThenReserved { spot_share: 0.4 },
            ] {
                let runs = drawn(&availability, policy)?;
                let chain = outlook_of(&day(), &availability, policy)?;
                let off = (chain.expected().get() - runs.mean).abs();
                assert!(off < 4.0 * runs.error, "{policy:?}: {} {}", chain.expected().get(), runs.mean);
                for (q, t) in [0.5, 0.9, 0.99].into_iter().zip(runs.quantiles) {
                    let ratio = chain.quantile(q).get() / t;
                    assert!((ratio - 1.0).abs() < 0.06, "{policy:?} P{q}: {ratio}");
                    assert!((chain.probability_by(s(t)) - q).abs() < 0.025, "{policy:?} P{q}");
                }
                assert!((chain.spot_time().get() - runs.held).abs() < 0.03 * runs.held + 30.0, "{policy:?}");
                assert!((chain.losses() - runs.losses).abs() < 0.04 * runs.losses + 0.03, "{policy:?}");
                let p90 = quantile(&runs.money, 0.9);
                assert!((chain.money_quantile(prices, 0.9).get() / p90 - 1.0).abs() < 0.05, "{policy:?}");
                let bill = runs.money.iter().sum::<f64>() / runs.money.len() as f64;
                assert!((chain.expected_money(prices).get() / bill - 1.0).abs() < 0.03, "{policy:?}");
            }
        }
        Ok(())
    }

    #[test]
    fn no_hazard_gives_the_undisturbed_run_exactly() -> Result<()> {
        let outlook = Outlook::new(&day(), &Availability::undisturbed())?;
        assert_eq!(outlook.expected(), day().undisturbed());
        assert_eq!(outlook.quantile(0.99), day().undisturbed());
        assert!((outlook.probability_by(day().undisturbed()) - 1.0).abs() < 1e-15);
        let trace = Trace::new(vec![TraceStep { at: s(0.0), nodes: 4 }], s(100_000.0))?;
        for finish in replay(&trace, 4, &day(), Policy::Wait, 7, 2)? {
            assert_eq!(finish.map(|f| f.time), Some(day().undisturbed()));
        }
        assert_eq!(trace.describe(4).map(|a| a.up), Some(None));
        Ok(())
    }

    #[test]
    fn a_higher_hazard_never_ends_sooner_nor_costs_less() -> Result<()> {
        let mut before = (0.0, 0.0);
        for mean in [1e7, 1e6, 1e5, 3e4, 1e4, 5e3] {
            let outlook = Outlook::new(&day(), &Availability::memoryless(s(mean), s(1800.0)))?;
            let now = (outlook.expected().get(), outlook.held().get());
            assert!(now.0 > before.0 && now.1 > before.1);
            before = now;
        }
        Ok(())
    }

    #[test]
    fn the_best_interval_is_a_minimum_from_both_sides() -> Result<()> {
        let outlook = Outlook::new(&day(), &zone())?;
        let best = outlook.best_interval(crate::preemption::Weights::TIME);
        let at = |factor: f64| outlook.clone().every(best * factor).expected();
        assert!(at(1.0) < at(0.6) && at(1.0) < at(1.6), "{best}");
        Ok(())
    }

    #[test]
    fn a_job_that_outlasts_every_spell_never_ends() -> Result<()> {
        let hopeless = RestartJob { interval: s(80_000.0), ..day() };
        let outlook = Outlook::new(&hopeless, &Availability::memoryless(s(600.0), s(600.0)))?;
        assert_eq!(outlook.expected_or_never(), None);
        Ok(())
    }

    /// Whatever is within its range gives a finite answer in order: undisturbed <= P50 <= P90.
    #[test]
    fn extremes_give_finite_answers_in_order() -> Result<()> {
        for up in [1.0, 1e4, 1e10] {
            for down in [1.0, 1e7] {
                for (scv, swing) in [
                    (0.0, Swing::Independent),
                    (5.0, Swing::Typical),
                    (1000.0, Swing::Measured { day_sd: 0.5, week_sd: 1e-6, record: s(60.0) }),
                ] {
                    let spells = |mean: f64| Spells {
                        scv,
                        median: Some(s(mean / 3.0)),
                        ..Spells::memoryless(s(mean))
                    };
                    let availability = Availability {
                        up: Some(spells(up)),
                        down: spells(down),
                        swing,
                        start: Start::AnyMoment,
                        loss_share: None,
                    };
                    let job = RestartJob { work: s(20_000.0), ..day() };
                    let outlook = Outlook::new(&job, &availability)?;
                    let times = [outlook.undisturbed(), outlook.quantile(0.5), outlook.quantile(0.9)];
                    let context = format!("up {up} down {down} scv {scv}: {times:?}");
                    assert!(times.iter().all(|t| t.get().is_finite()), "{context}");
                    assert!(times.windows(2).all(|w| w[0].get() <= w[1].get() * (1.0 + 1e-6)), "{context}");
                    assert!(outlook.expected() >= outlook.undisturbed(), "{context}");
                    assert!(outlook.deviation(crate::preemption::Weights::TIME).is_finite(), "{context}");
                    assert!(outlook.losses().is_finite() && outlook.held().get().is_finite(), "{context}");
                }
            }
        }
        Ok(())
    }

    #[test]
    fn reserved_machines_start_load_and_finish() {
        let job = RestartJob {
            work: s(100.0),
            interval: s(25.0),
            save: s(5.0),
            restore: s(7.0),
            provision: s(3.0),
        };
        let spans = [Span { up: true, length: s(1e4) }];
        let run = run_job(&job, Policy::SpotThenReserved { spot_share: 0.5 }, spans).unwrap();
        // On spot 3 + 50 with two saves of 5, the second for the other machines: 3 + 7 + 50 with one.
        assert_eq!((run.held, run.on_demand, run.time), (s(63.0), s(65.0), s(128.0)));
    }
}
