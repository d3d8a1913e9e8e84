//! What a run may come to, asked through the verbs: properties that hold whatever the figures.

use serde_json::{Value, json};
use shardwise_tests::cases::claims;

fn estimate(run: &Value) -> Value {
    let request = json!({
        "model": "llama-3.1-8b", "cluster": "4 x p5.48xlarge", "seq_len": 4096, "global_batch": 256,
        "layout": {"sharding": "fsdp2", "recompute": "full"}, "run": run,
    });
    let text = shardwise::call("estimate", &request.to_string()).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn number(answer: &Value, path: &str) -> f64 {
    answer.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} in {answer}"))
}

const EXPECTED: &str = "/run/outlook/time/total";
const COST: &str = "/run/outlook/ledger/total";

#[test]
fn faults_of_the_run_name_their_field() {
    for (run, field) in [
        (json!({"duplicated": 2.0, "tokens": 1e9}), "run.duplicated"),
        (json!({"tokens": 1e9, "faults": {"per_node_hour": -1.0}}), "run.faults.per_node_hour"),
        (
            json!({"tokens": 1e9, "faults": {"per_node_hour": 0.1, "hazard": "base"}}),
            "run.faults.per_node_hour",
        ),
        (json!({"tokens": 1e9, "faults": {"policy": "fall_back"}}), "run.faults.policy"),
        (json!({"tokens": 1e9, "faults": {"policy": "pray"}}), "run.faults.policy"),
        (json!({"tokens": 1e9, "price": "spot", "faults": {"firm_price": "spot"}}), "run.faults.firm_price"),
        (
            json!({"tokens": 1e9, "checkpoint": {"interval_s": 60, "every_steps": 5}}),
            "run.checkpoint.every_steps",
        ),
        (json!({"tokens": 1e9, "checkpoint": {"size_gb": 0.0}}), "run.checkpoint.size_gb"),
        (
            json!({"tokens": 1.0, "steps": null, "faults": {}, "checkpoint": {"store": 1}}),
            "run.checkpoint.store",
        ),
        (json!({"steps": 1e17, "faults": {}}), "run.steps"),
        (json!({"faults": {}}), "run.tokens"),
        (json!({"tokens": 1e9, "owned": {"capex_usd": 1.0}}), "run.owned.utilisation"),
        (json!({"tokens": 1e9, "owned": {"capex_usd": 1.0, "utilisation": 0.0}}), "run.owned.utilisation"),
        (json!({"tokens": 1e9, "expenses": {"egress_gb": -1}}), "run.expenses.egress_gb"),
        (json!({"serving": {"bits": 0}}), "run.serving.bits"),
    ] {
        let request = json!({"model": "gpt2", "cluster": "2x8xH100", "seq_len": 1024, "run": run});
        let error = shardwise::call("estimate", &request.to_string()).unwrap_err();
        assert_eq!(error.field, field, "{error}");
        assert!(!error.allowed.is_empty());
    }
}

#[test]
fn comparisons_name_what_they_cannot_read() {
    let one = json!({"model": "gpt2", "cluster": "8xH100", "seq_len": 1024});
    let bad = json!({"model": "gpt2", "cluster": "8xH100", "seq_len": 0});
    for (request, field) in [
        (json!({"requests": [{"estimate": one}]}), "requests"),
        (json!({"requests": [{"estimate": one}, {}]}), "requests[1]"),
        (json!({"requests": [{"estimate": one}, {"estimate": bad}]}), "requests[1].estimate.seq_len"),
    ] {
        let error = shardwise::call("compare", &request.to_string()).unwrap_err();
        assert_eq!(error.field, field, "{error}");
    }
    let text =
        shardwise::call("compare", &json!({"requests": [{"estimate": one}, {"estimate": one}]}).to_string());
    let answer: Value = serde_json::from_str(&text.unwrap()).unwrap();
    for line in answer["lines"].as_array().unwrap() {
        assert_eq!(line["values"][0], line["values"][1]);
        assert_eq!(line["differences"][1].as_f64(), Some(0.0), "{line}");
    }
}

#[test]
fn every_worked_case_answers() {
    let claims = claims().unwrap();
    assert_eq!(claims.len(), 25);
    let mut answered = 0;
    for claim in claims {
        assert!(claim.sum.len() > 20, "{}", claim.id);
        answered += usize::from(claim.answer().unwrap().is_some());
    }
    assert_eq!(answered, 24);
}

#[test]
fn node_counts_of_the_cluster_throughout_change_nothing() {
    let faults = json!({"per_node_hour": 0.01, "wait_s": 1800.0});
    let run = |counts: Value| json!({"tokens": 5e9, "checkpoint": {"interval_s": 900}, "faults": faults, "node_counts": counts});
    let plain = estimate(&run(json!([])));
    let whole = estimate(&run(json!([{"nodes": 4, "share": 1.0}])));
    for path in [EXPECTED, COST, "/run/outlook/time_spread/p90"] {
        let (a, b) = (number(&plain, path), number(&whole, path));
        assert!((a / b - 1.0).abs() < 1e-9, "{path}: {a} {b}");
    }
}

#[test]
fn fewer_nodes_for_a_part_take_longer_and_shards_grow() {
    let run = |counts: Value| json!({"tokens": 5e9, "node_counts": counts});
    let whole = estimate(&run(json!([{"nodes": 4, "share": 1.0}])));
    let grown = estimate(&run(json!([{"nodes": 2, "share": 0.5}, {"nodes": 4, "share": 0.5}])));
    assert!(number(&grown, EXPECTED) > 1.4 * number(&whole, EXPECTED));
    // Half as many nodes for about twice as long: the bill hardly moves.
    let money = number(&grown, COST) / number(&whole, COST);
    assert!((0.85..1.1).contains(&money), "{money}");
    let needed = |i: usize| number(&grown, &format!("/run/outlook/phases/{i}/needed"));
    assert!(needed(0) > needed(1));
}

#[test]
fn a_trace_and_the_figures_it_shows_say_the_same() {
    // Twenty hours with four nodes, four without the last, over and over.
    let steps: Vec<Value> = (0..40)
        .flat_map(|i| {
            let day = f64::from(i) * 86_400.0;
            [json!({"at": day, "nodes": 4}), json!({"at": day + 72_000.0, "nodes": 3})]
        })
        .collect();
    let trace = json!({"steps": steps, "length": 40.0 * 86_400.0});
    let measured = shardwise::preemption::Trace::new(
        serde_json::from_value(trace["steps"].clone()).unwrap(),
        shardwise::Seconds::new(40.0 * 86_400.0).unwrap(),
    )
    .unwrap()
    .describe(4)
    .unwrap();
    let run = |faults: Value| json!({"tokens": 5e9, "price": "spot", "faults": faults});
    let traced = estimate(&run(json!({"trace": trace})));
    let told = estimate(&run(json!({"availability": measured})));
    assert_eq!(number(&traced, EXPECTED).to_bits(), number(&told, EXPECTED).to_bits());
    let mean = number(&traced, "/run/outlook/losses/mean_up");
    assert!((mean / 72_000.0 - 1.0).abs() < 1e-9, "{mean}");
    let zone = estimate(&run(json!({"zone": "aws-us-east-2b-v100-x16"})));
    assert!(number(&zone, EXPECTED) > number(&traced, EXPECTED));
}

#[test]
fn the_best_interval_of_a_run_of_decades_is_one_that_ends() {
    // Work of some 65 years, a loss every 125 days: a segment as long as hundreds of spells is never
    // finished, though e^-190 is lost in rounding.
    let request = json!({
        "model": "llama-3.1-8b", "cluster": "2x8xH100", "seq_len": 3, "global_batch": 256,
        "layout": {"sharding": "fsdp2", "recompute": "full"},
        "run": {"tokens": 5e11, "checkpoint": {"interval_s": 900}, "faults": {}},
    });
    let answer: Value =
        serde_json::from_str(&shardwise::call("estimate", &request.to_string()).unwrap()).unwrap();
    let best = number(&answer, "/run/outlook/checkpoint/best_interval");
    let mean_up = number(&answer, "/run/outlook/losses/mean_up");
    assert!(best < mean_up / 10.0, "{best} of {mean_up}");
    let excess = number(&answer, "/run/outlook/checkpoint/excess");
    // The best is sought among at most 10,000 saves, a run may have 19,000.
    assert!((-0.01..0.5).contains(&excess), "{excess}");
}

#[test]
fn a_run_whose_starts_outlast_every_spell_does_not_end() {
    let request = json!({
        "model": "gpt2", "cluster": "4x8xH100", "seq_len": 1024,
        "run": {
            "tokens": 1e9, "price": "spot", "deadline_hours": 100,
            "faults": {"policy": "spares", "trace": {"steps": [
                {"at": 1e-300, "nodes": 12}, {"at": 1e-300, "nodes": 12}, {"at": 9, "nodes": 2},
            ], "length": 4096}},
        },
    });
    let answer: Value =
        serde_json::from_str(&shardwise::call("estimate", &request.to_string()).unwrap()).unwrap();
    let outlook = &answer["run"]["outlook"];
    assert_eq!(outlook["ends"], json!(false));
    // As many losses as the seconds of a run without an end: a number.
    assert!(outlook["losses"]["expected"].as_f64().unwrap() >= 1e13);
}
