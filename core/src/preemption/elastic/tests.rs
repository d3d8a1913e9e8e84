//! The elastic gang against its rules drawn at random.

use super::*;
use crate::preemption::{Availability, Random};

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

/// The same rules, drawn: each node's loss and return is its own event.
fn drawn(gang: &Elastic, job: &RestartJob, random: &mut Random) -> (f64, f64) {
    let (mut clock, mut node_time) = (job.provision.get(), job.provision.get() * f64::from(gang.nodes));
    let (mut held, mut ready, mut left) = (gang.nodes, 0_u32, job.work.get());
    let mut regroup = false;
    while left > 0.0 {
        while held < gang.least_nodes {
            let wait = random.exponential(gang.refill.get() / f64::from(gang.nodes - held));
            clock += wait;
            node_time += wait * f64::from(held);
            held += 1;
            regroup = true;
        }
        let ahead = if regroup { job.provision.get() + job.restore.get() } else { 0.0 };
        let work = left.min(job.interval.get());
        let save = if work < left { job.save.get() } else { 0.0 };
        let length = ahead + work * f64::from(gang.nodes) / f64::from(held) + save;
        let (mut at, mut lost) = (0.0, false);
        while at < length && !lost {
            let out = f64::from(held) / gang.node_mean_up.get();
            let back = f64::from(gang.nodes - held - ready) / gang.refill.get();
            at += random.exponential(1.0 / (out + back));
            if at < length {
                if random.chance(out / (out + back)) {
                    lost = true;
                } else {
                    ready += 1;
                }
            }
        }
        let spent = at.min(length);
        clock += spent;
        node_time += spent * f64::from(held);
        regroup = lost || ready > 0;
        if lost {
            held = if random.chance(gang.gang_loss) { 0 } else { held - 1 };
        } else {
            left -= work;
        }
        held += ready;
        ready = 0;
    }
    (clock, node_time)
}

#[test]
fn the_chain_agrees_with_drawn_runs() -> Result<()> {
    for (gang_loss, up, least) in [(0.0, 200_000.0, 4), (0.3, 100_000.0, 6), (0.1, 60_000.0, 2)] {
        let gang =
            Elastic { nodes: 8, least_nodes: least, node_mean_up: s(up), gang_loss, refill: s(5400.0) };
        let outlook = gang.outlook(&day())?;
        let mut random = Random::new(11);
        let mut runs: Vec<(f64, f64)> = (0..4000).map(|_| drawn(&gang, &day(), &mut random)).collect();
        let n = runs.len() as f64;
        let mean = runs.iter().map(|r| r.0).sum::<f64>() / n;
        let paid = runs.iter().map(|r| r.1).sum::<f64>() / n;
        runs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let p90 = runs.get(3600).map_or(0.0, |r| r.0);
        assert!((outlook.expected().get() / mean - 1.0).abs() < 0.01, "{} {mean}", outlook.expected().get());
        assert!(
            (outlook.node_time().get() / paid - 1.0).abs() < 0.01,
            "{} {paid}",
            outlook.node_time().get()
        );
        assert!(
            (outlook.quantile(0.9).get() / p90 - 1.0).abs() < 0.02,
            "{} {p90}",
            outlook.quantile(0.9).get()
        );
    }
    Ok(())
}

#[test]
fn shrinking_beats_waiting_when_losses_are_partial() -> Result<()> {
    let gang =
        Elastic { nodes: 8, least_nodes: 4, node_mean_up: s(100_000.0), gang_loss: 0.1, refill: s(7200.0) };
    let waiting = Outlook::new(&day(), &Availability::memoryless(s(12_500.0), s(7200.0)))?;
    assert!(gang.outlook(&day())?.expected() < waiting.expected());
    Ok(())
}

#[test]
fn nodes_that_last_leave_the_run_undisturbed() -> Result<()> {
    let gang = Elastic { nodes: 4, least_nodes: 2, node_mean_up: s(1e12), gang_loss: 0.1, refill: s(60.0) };
    assert!((gang.outlook(&day())?.expected() / day().undisturbed() - 1.0).abs() < 1e-5);
    Ok(())
}

#[test]
fn a_spare_saves_the_wait() -> Result<()> {
    let pool = |spares| SparePool { nodes: 64, spares, node_mean_up: s(2e7), repair: s(172_800.0) };
    let times = [0, 1, 2, 4]
        .iter()
        .map(|&n| Ok(pool(n).outlook(&RestartJob { work: s(3e6), ..day() })?.expected()))
        .collect::<Result<Vec<Seconds>>>()?;
    assert!(times.windows(2).all(|w| matches!(w, [a, b] if b < a)), "{times:?}");
    Ok(())
}

#[test]
fn what_never_ends_holds_its_nodes_for_ever() -> Result<()> {
    let gang = Elastic { nodes: 4, least_nodes: 4, node_mean_up: s(60.0), gang_loss: 0.1, refill: s(60.0) };
    let never = gang.outlook(&RestartJob { interval: s(86_400.0), ..day() })?;
    assert!((never.node_time / never.expected - 4.0).abs() < 1e-12);
    Ok(())
}

#[test]
fn nodes_that_fail_at_once_always_find_the_pool_empty() {
    let pool = SparePool { nodes: 12, spares: 2, node_mean_up: s(1e-310), repair: s(1e4) };
    assert!((pool.caught_short() - 1.0).abs() < 1e-12);
}

#[test]
fn where_no_segment_is_ever_kept_the_time_is_never_and_not_less_than_nought() {
    let job = RestartJob { restore: s(1733.0), provision: s(1841.0), interval: s(731.0), ..day() };
    let mut never = 0;
    // Kept is a segment with chances from 0.98 down to e^-300: beyond 1e-16 the equations are singular
    // in rounding.
    for mean in 1..200 {
        let node_mean_up = s(300_000.0 / f64::from(mean * mean));
        for (nodes, least_nodes) in [(7, 7), (7, 3)] {
            let gang = Elastic { nodes, least_nodes, node_mean_up, gang_loss: 0.3, refill: s(7731.0) };
            let o = gang.outlook(&job).unwrap();
            assert!(o.expected >= o.undisturbed, "{node_mean_up}: {}", o.expected);
            never += u32::from(o.expected.get() >= NEVER);
        }
    }
    assert!(never > 20, "{never}");
}
