//! Laws of the run: what it may come to when the state is saved and nodes are lost.

use proptest::prelude::*;
use shardwise::api::{
    Checkpointing, EstimateAnswer, EstimateRequest, Faults, LossPolicy, Run, RunOutlook, RunReport,
};
use shardwise::strategies::{estimate_request, faults, word};
use shardwise::{PriceKind, estimate};

use crate::check::{Verdict, alike, holds};

/// A request whose run ends, and what it asks beside.
fn asked(request: &EstimateRequest, run: Run) -> EstimateRequest {
    let (tokens, steps) = (request.run.tokens, request.run.steps);
    let steps = steps.or(if tokens.is_none() { Some(1000.0) } else { None });
    let duplicated = request.run.duplicated;
    EstimateRequest { run: Run { tokens, steps, duplicated, ..run }, ..request.clone() }
}

fn answer(request: &EstimateRequest) -> Result<EstimateAnswer, TestCaseError> {
    estimate(request).map_err(|e| TestCaseError::fail(e.to_string()))
}

fn report(answer: &EstimateAnswer) -> &RunReport {
    answer.run.as_ref().expect("a run was asked for")
}

fn outlook(answer: &EstimateAnswer) -> &RunOutlook {
    report(answer).outlook.as_ref().expect("losses were asked about")
}

/// Requests on nodes few enough for every policy, of runs between a minute and ten years.
fn runs() -> impl Strategy<Value = EstimateRequest> {
    estimate_request().prop_filter("a run that some policy cannot do", |request| {
        let plain = asked(request, Run::default());
        estimate(&plain).is_ok_and(|a| {
            let time = report(&a).time.get();
            a.cluster.nodes <= 64 && (60.0..=3e8).contains(&time)
        })
    })
}

#[test]
fn nothing_lost_and_nothing_saved_is_the_undisturbed_run() {
    holds(8, (runs(), word(PriceKind::ALL)), |(request, price)| {
        let plain = answer(&asked(&request, Run { price, ..Run::default() }))?;
        prop_assert!(report(&plain).outlook.is_none());
        let calm = Faults { per_node_hour: Some(0.0), provision_s: Some(0.0), ..Faults::default() };
        let far = Some(1e7);
        for run in [
            Run { price, deadline_hours: far, ..Run::default() },
            Run { price, faults: Some(calm), deadline_hours: far, ..Run::default() },
        ] {
            let asked = answer(&asked(&request, run))?;
            let ahead = outlook(&asked);
            let time = report(&plain).time.get();
            prop_assert_eq!(ahead.undisturbed.get().to_bits(), time.to_bits());
            prop_assert_eq!(ahead.time.total().get().to_bits(), time.to_bits());
            prop_assert_eq!(ahead.time_spread.p50.get().to_bits(), time.to_bits());
            prop_assert_eq!(ahead.time_spread.p99.get().to_bits(), time.to_bits());
            let cost = report(&plain).cost.as_ref().map(shardwise::Terms::total);
            prop_assert_eq!(cost.is_some(), ahead.cost().is_some());
            if let (Some(a), Some(b)) = (cost, ahead.cost()) {
                prop_assert!(alike(a.get(), b.get()), "{a} {b}");
            }
            prop_assert_eq!(ahead.deadline.map(|d| d.chance), Some(1.0));
        }
        Ok(())
    });
}

/// Policies with the price that each can be had at.
const POLICIES: [(PriceKind, LossPolicy); 6] = [
    (PriceKind::OnDemand, LossPolicy::Wait),
    (PriceKind::OnDemand, LossPolicy::Spares),
    (PriceKind::OnDemand, LossPolicy::Shrink),
    (PriceKind::Spot, LossPolicy::Wait),
    (PriceKind::Spot, LossPolicy::FallBack),
    (PriceKind::Spot, LossPolicy::SpotThenReserved),
];

fn policies() -> impl Strategy<Value = (PriceKind, LossPolicy)> {
    proptest::sample::select(&POLICIES[..])
}

#[test]
fn a_higher_hazard_is_never_faster_or_cheaper() {
    let rates = (1e-6..=0.05_f64, 1.0..=10.0_f64);
    holds(
        8,
        (runs(), policies(), rates, 60.0..=7200.0_f64),
        |(request, (price, policy), (rate, times), every)| {
            let with = |rate: f64| {
                let faults = Faults { per_node_hour: Some(rate), policy, ..Faults::default() };
                let saves = Checkpointing { interval_s: Some(every), ..Checkpointing::default() };
                answer(&asked(
                    &request,
                    Run { price, faults: Some(faults), checkpoint: Some(saves), ..Run::default() },
                ))
            };
            let (few, many) = (with(rate)?, with(rate * times)?);
            let (a, b) = (outlook(&few), outlook(&many));
            let (t, u) = (a.time.total().get(), b.time.total().get());
            // Falling back sooner may end sooner: it is paid for in money.
            prop_assert!(policy == LossPolicy::FallBack || u >= t * 0.999, "{policy}: {u} s after {t}");
            // Unless what it falls back to is the cheaper.
            let dearer = few.cluster.price(PriceKind::Spot) > few.cluster.price(PriceKind::OnDemand);
            if let (Some(m), Some(n)) = (a.cost(), b.cost()) {
                let cheaper = policy == LossPolicy::FallBack && dearer;
                prop_assert!(cheaper || n.get() >= m.get() * 0.999, "{policy}: {n} after {m}");
            }
            Ok(())
        },
    );
}

fn in_order(ahead: &RunOutlook) -> Verdict {
    let t = &ahead.time_spread;
    prop_assert!(t.p50 <= t.p90 && t.p90 <= t.p99, "{t:?}");
    if let Some(c) = &ahead.cost_spread {
        prop_assert!(c.p50.get() <= c.p90.get() && c.p90.get() <= c.p99.get(), "{c:?}");
    }
    if let Some(d) = &ahead.deadline {
        prop_assert!((0.0..=1.0).contains(&d.chance), "{d:?}");
    }
    Ok(())
}

#[test]
fn losses_only_add_and_quantiles_are_in_order() {
    holds(8, (runs(), faults()), |(request, faults)| {
        let spot = matches!(faults.policy, LossPolicy::FallBack | LossPolicy::SpotThenReserved);
        let price = if spot { PriceKind::Spot } else { PriceKind::OnDemand };
        let faults = Faults { trace: None, ..faults };
        let run = Run { price, faults: Some(faults), deadline_hours: Some(1000.0), ..Run::default() };
        let plain = answer(&asked(&request, Run { price, ..Run::default() }))?;
        let answer = answer(&asked(&request, run))?;
        let ahead = outlook(&answer);
        in_order(ahead)?;
        let (with, without) = (ahead.time.total().get(), report(&plain).time.get());
        prop_assert!(with >= without * (1.0 - 1e-9), "{with} s with losses, {without} s without");
        prop_assert!(ahead.time.0.iter().all(|t| t.amount.get() >= 0.0), "{:?}", ahead.time);
        if let Some(ledger) = &ahead.ledger {
            prop_assert!(ledger.0.iter().all(|t| t.amount.get() >= 0.0), "{ledger:?}");
        }
        Ok(())
    });
}

#[test]
fn the_checkpoint_interval_found_is_a_minimum_from_both_sides() {
    holds(5, (runs(), 0.001..=0.2_f64, any::<bool>(), 1.2..=4.0_f64), |(request, rate, spot, factor)| {
        let price = if spot { PriceKind::Spot } else { PriceKind::OnDemand };
        let with = |interval_s: Option<f64>| {
            let faults = Faults { per_node_hour: Some(rate), ..Faults::default() };
            let saves = Checkpointing { interval_s, ..Checkpointing::default() };
            answer(&asked(
                &request,
                Run { price, faults: Some(faults), checkpoint: Some(saves), ..Run::default() },
            ))
        };
        let best = with(None)?;
        let ahead = outlook(&best);
        let checkpoint = ahead.checkpoint.as_ref().expect("saves were asked about");
        prop_assert!(checkpoint.excess > -0.001, "{}", checkpoint.excess);
        for interval in [checkpoint.interval.get() / factor, checkpoint.interval.get() * factor] {
            if !(0.1..=1e9).contains(&interval) {
                continue;
            }
            let other = with(Some(interval))?;
            let (a, b) = (outlook(&other).time.total().get(), ahead.time.total().get());
            prop_assert!(a >= b * 0.999, "{interval} s: {a}, best {b}");
        }
        Ok(())
    });
}
