//! Laws of whole answers: every valid request has one, without NaN or infinity, and its parts add up.

use proptest::test_runner::TestCaseError;
use serde_json::Value;
use shardwise::api::{EstimateAnswer, EstimateRequest, PlanRequest};
use shardwise::strategies::{
    calibrate_request, catalog_request, compare_request, describe_model_request, estimate_request,
    plan_request,
};

use crate::check::{Verdict, alike, holds};

/// Every number is finite, and every sum is that of its terms.
fn sound(value: &Value, path: &str) -> Result<(), String> {
    match value {
        // The writer has no word for NaN and infinity: it writes null where a number must be.
        Value::Number(n) => match n.as_f64() {
            Some(x) if x.is_finite() => Ok(()),
            _ => Err(format!("{path} is {n}")),
        },
        Value::Array(list) => {
            list.iter().enumerate().try_for_each(|(i, v)| sound(v, &format!("{path}[{i}]")))
        }
        Value::Object(map) => {
            if let (Some(total), Some(Value::Array(terms))) = (map.get("total"), map.get("terms")) {
                let total = total.as_f64().ok_or_else(|| format!("{path}.total is {total}"))?;
                let mut sum = 0.0;
                for term in terms {
                    sum += term["amount"].as_f64().ok_or_else(|| format!("{path}: {term}"))?;
                }
                let scale: f64 = terms.iter().filter_map(|t| t["amount"].as_f64()).map(f64::abs).sum();
                if (sum - total).abs() > 1e-9 * scale {
                    return Err(format!("{path}: {total} is not the sum {sum}"));
                }
            }
            map.iter().try_for_each(|(k, v)| sound(v, &format!("{path}.{k}")))
        }
        Value::Null | Value::Bool(_) | Value::String(_) => Ok(()),
    }
}

/// An answer by a verb, as JSON.
fn answer(verb: &str, request: &impl serde::Serialize) -> Result<Value, TestCaseError> {
    let text = serde_json::to_string(request).expect("a request is JSON");
    let answer = shardwise::call(verb, &text).map_err(|e| TestCaseError::fail(e.to_string()))?;
    let value: Value = serde_json::from_str(&answer).expect("an answer is JSON");
    sound(&value, "answer").map_err(TestCaseError::fail)?;
    Ok(value)
}

/// What holds of every estimate.
pub fn estimate_is_sound(request: &EstimateRequest) -> Verdict {
    let answer: EstimateAnswer = match shardwise::estimate(request) {
        // How long a part takes on another number of nodes no strategy knows beforehand.
        Err(e) if e.field.starts_with("run.node_counts[") && e.given.contains("a part of") => return Ok(()),
        answer => answer.map_err(|e| TestCaseError::fail(e.to_string()))?,
    };
    let value = serde_json::to_value(&answer).expect("an answer is JSON");
    sound(&value, "answer").map_err(TestCaseError::fail)?;
    let fail = |what: &str| Err(TestCaseError::fail(what.to_owned()));
    let m = &answer.memory;
    let peak = m.peak_terms().expect("a phase that peaks").total();
    if !alike(peak.get(), m.allocated.get()) {
        return fail(&format!("allocated {} is not its peak {peak}", m.allocated));
    }
    if m.phases.iter().any(|p| p.allocated.total() > m.allocated * (1.0 + 1e-9)) {
        return fail("a phase is above the peak");
    }
    for (name, amount, low, high) in [
        ("allocated", m.allocated, m.allocated_interval80.low, m.allocated_interval80.high),
        ("reserved", m.reserved.total(), m.reserved_interval80.low, m.reserved_interval80.high),
        ("device", m.device.total(), m.device_interval80.low, m.device_interval80.high),
        ("needed", m.needed, m.needed_interval80.low, m.needed_interval80.high),
    ] {
        if !(low <= amount && amount <= high) {
            return fail(&format!("{name}: {low} {amount} {high}"));
        }
    }
    let s = &answer.step;
    if s.total().get() <= 0.0 || s.time.0.iter().chain(&s.hidden.0).any(|t| t.amount.get() < 0.0) {
        return fail("a time below nought");
    }
    if !(s.interval80.low <= s.total() && s.total() <= s.interval80.high) {
        return fail("a step time outside its interval");
    }
    Ok(())
}

/// What holds of every plan.
pub fn plan_is_sound(request: &PlanRequest) -> Verdict {
    answer("plan", request).map(|_| ())
}

#[test]
fn every_estimate_is_sound() {
    holds(100, estimate_request(), |request| estimate_is_sound(&request));
}

#[test]
fn every_plan_is_sound() {
    holds(8, plan_request(), |request| plan_is_sound(&request));
}

#[test]
fn every_other_answer_is_sound() {
    holds(100, describe_model_request(), |request| answer("describe_model", &request).map(|_| ()));
    holds(5, catalog_request(), |request| answer("catalog", &request).map(|_| ()));
    holds(4, compare_request(), |request| answer("compare", &request).map(|_| ()));
    holds(6, calibrate_request(), |request| answer("calibrate", &request).map(|_| ()));
}
