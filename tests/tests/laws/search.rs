//! Laws of the search.

use proptest::prelude::*;
use shardwise::api::{EstimateRequest, Objective, PlanAnswer, PlanLine, PlanRequest, Verdict as Fits};
use shardwise::layout::Recompute;
use shardwise::strategies::plan_request;
use shardwise::{estimate, plan};

use crate::check::{alike, holds};

fn answer(request: &PlanRequest) -> Result<PlanAnswer, TestCaseError> {
    plan(request).map_err(|e| TestCaseError::fail(e.to_string()))
}

/// One set of machines, one recipe, one batch: lines of a plan then compare as they stand.
fn one_site() -> impl Strategy<Value = PlanRequest> {
    plan_request().prop_map(|mut request| {
        request.alternatives.clear();
        let s = &mut request.search;
        (s.methods, s.optimizers, s.computes, s.nodes, s.instances) = Default::default();
        s.global_batch_range = None;
        (s.scaling, s.sensitivity) = (false, false);
        request
    })
}

/// What a line is weighed by, least first.
fn weight(line: &PlanLine, objective: Objective) -> f64 {
    match objective {
        Objective::Time => line.step_time.get(),
        Objective::Cost => line.cost.map_or(line.step_time.get(), shardwise::Usd::get),
        Objective::ExpectedCost => line.expected_cost.or(line.cost).map_or(0.0, shardwise::Usd::get),
        Objective::Headroom => -line.headroom.get(),
    }
}

/// Whether one is as good in time, money and memory, and better in one.
fn dominates(a: &PlanLine, b: &PlanLine) -> bool {
    let figures = |l: &PlanLine| {
        [l.step_time.get(), l.cost.map_or(f64::INFINITY, shardwise::Usd::get), -l.headroom.get()]
    };
    let (a, b) = (figures(a), figures(b));
    a.iter().zip(&b).all(|(x, y)| x <= y) && a != b
}

#[test]
fn the_plan_chosen_is_not_beaten_and_the_front_holds_the_best() {
    holds(10, one_site(), |request| {
        let answer = answer(&request)?;
        let objective = request.search.objective;
        for line in &answer.front {
            prop_assert!(
                !answer.front.iter().any(|other| dominates(other, line)),
                "the front: {}",
                line.name
            );
        }
        for line in &answer.ranked {
            prop_assert!(
                answer.front.iter().any(|on| on.layout == line.layout || !dominates(line, on)),
                "{} betters the front",
                line.name
            );
            prop_assert!(
                answer.front.iter().any(|on| {
                    dominates(on, line)
                        || (on.step_time == line.step_time && on.headroom == line.headroom)
                        || on.layout == line.layout
                }),
                "{} is neither on the front nor bettered by it",
                line.name
            );
        }
        if let Some(first) = answer.ranked.first() {
            prop_assert!(answer.feasible);
            prop_assert_eq!(&first.layout, &answer.best.layout);
            if objective != Objective::ExpectedCost {
                let least = weight(first, objective);
                for line in answer.ranked.iter().chain(&answer.front) {
                    prop_assert!(weight(line, objective) >= least, "{} beats {}", line.name, first.name);
                }
            }
            prop_assert!(answer.ranked.iter().chain(&answer.front).all(|l| l.verdict != Fits::DoesNotFit));
        }
        prop_assert!(answer.costed <= answer.candidates && answer.candidates <= answer.brute_force);
        Ok(())
    });
}

#[test]
fn the_plan_chosen_is_the_estimate_of_its_layout() {
    holds(8, one_site(), |request| {
        let answer = answer(&request)?;
        let alone = EstimateRequest {
            schema_version: request.schema_version,
            model: request.model.clone(),
            cluster: request.cluster.clone(),
            seq_len: request.seq_len,
            global_batch: Some(request.global_batch),
            recipe: request.recipe.clone(),
            layout: answer.best.layout.clone(),
            run: request.run.clone(),
            calibration: request.calibration,
            catalog: request.catalog.clone(),
        };
        if request.global_batch.is_multiple_of(alone.layout.data_parallel() * alone.layout.micro_batch) {
            let alone = estimate(&alone).map_err(|e| TestCaseError::fail(e.to_string()))?;
            prop_assert!(alone == answer.best, "an estimate of the plan's layout says something else");
            if let Some(line) = answer.ranked.first() {
                let (listed, own) = (line.step_time.get(), alone.step.total().get());
                prop_assert!(alike(listed, own), "listed {listed} s, estimated {own} s");
                prop_assert!(alike(line.memory.get(), alone.memory.device.total().get()));
                prop_assert_eq!(line.verdict, alone.fit.verdict);
            }
        }
        Ok(())
    });
}

#[test]
fn a_constraint_never_improves() {
    holds(10, (one_site(), 0_u8..8), |(request, which)| {
        let mut free = request;
        free.search.max_candidates = 1_000_000;
        if free.search.objective == Objective::ExpectedCost {
            free.search.objective = Objective::Cost;
        }
        // Without a list there is no first line to compare.
        free.search.list = free.search.list.max(1);
        let objective = free.search.objective;
        let mut bound = free.clone();
        let s = &mut bound.search;
        match which {
            0 => s.headroom = (s.headroom + 0.3).min(0.9),
            1 => s.micro_batches.truncate(1),
            2 => s.shardings.truncate(1),
            3 => s.context_parallel.truncate(1),
            4 => s.expert_parallel.truncate(1),
            5 => s.any_framework = false,
            6 if s.recompute.is_empty() => s.recompute = vec![Recompute::None],
            _ => s.offload.clear(),
        }
        let (free, bound) = (answer(&free)?, answer(&bound)?);
        if bound.feasible {
            prop_assert!(free.feasible, "feasible only with a constraint");
            if let Some((a, b)) = free.ranked.first().zip(bound.ranked.first()) {
                let (a, b) = (weight(a, objective), weight(b, objective));
                prop_assert!(b >= a, "{objective}: {b} with a constraint, {a} without");
            }
        }
        Ok(())
    });
}
