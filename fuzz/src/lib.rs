//! What the fuzz targets share: how an input becomes a request, what must hold of the answer
//! ([`shardwise_tests::outside`]), and how one input becomes the next ([`mutate`]).

mod chance;
pub mod mutate;

use serde_json::{Value, json};
use shardwise_tests::outside::ask;

/// Candidates that a search may look at here, so that an execution takes milliseconds.
const CANDIDATES: u64 = 400;

/// Declares a target: what becomes of the input, and how the next one is made.
#[macro_export]
macro_rules! target {
    ($run:path, $mutate:path) => {
        libfuzzer_sys::fuzz_target!(|data: &[u8]| $run(data));
        libfuzzer_sys::fuzz_mutator!(|data: &mut [u8], size: usize, max_size: usize, seed: u32| {
            $mutate(data, size, max_size, seed)
        });
    };
}

fn text(data: &[u8]) -> Option<&str> {
    core::str::from_utf8(data).ok()
}

fn parsed(data: &[u8]) -> Option<Value> {
    serde_json::from_slice(data).ok()
}

/// The input is a request.
pub fn request(verb: &str, data: &[u8]) {
    if let Some(text) = text(data) {
        let _ = ask(verb, text);
    }
}

/// The input is a request for a plan; the search is kept short.
pub fn plan(data: &[u8]) {
    let Some(mut request) = parsed(data) else { return request("plan", data) };
    short(&mut request);
    let _ = ask("plan", &request.to_string());
}

/// The input is a request for a comparison; each search in it is kept short.
pub fn compare(data: &[u8]) {
    let Some(mut request) = parsed(data) else { return request("compare", data) };
    for one in request.get_mut("requests").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(plan) = one.get_mut("plan") {
            short(plan);
        }
    }
    let _ = ask("compare", &request.to_string());
}

fn short(plan: &mut Value) {
    let Some(fields) = plan.as_object_mut() else { return };
    let search = fields.entry("search").or_insert_with(|| json!({}));
    if let Some(search) = search.as_object_mut() {
        let most = search.entry("max_candidates").or_insert(json!(CANDIDATES));
        if most.as_u64().is_some_and(|most| most > CANDIDATES) {
            *most = json!(CANDIDATES);
        }
    }
}

/// The input is a model: a name, a config.json or dimensions by hand. It is described, and
/// estimated both whole and with adapters.
pub fn config(data: &[u8]) {
    let Some(model) = parsed(data) else { return request("describe_model", data) };
    if ask("describe_model", &json!({ "model": model }).to_string()).is_err() {
        return;
    }
    for recipe in [json!({}), json!({"method": "lora", "kernels": "fused", "optimizer": "muon"})] {
        let layout = json!({"tensor_parallel": 2, "recompute": "selective"});
        let request = json!({
            "model": model, "cluster": "2x8xH100", "seq_len": 512, "recipe": recipe, "layout": layout,
        });
        let _ = ask("estimate", &request.to_string());
    }
}

/// The input is the text that names a cluster.
pub fn cluster(data: &[u8]) {
    if let Some(text) = text(data) {
        let request = json!({"model": "gpt2", "cluster": text, "seq_len": 128, "run": {"steps": 10}});
        let _ = ask("estimate", &request.to_string());
    }
}

/// The input is a user's catalogue. It is read, and its first parts and shapes are used.
pub fn catalog(data: &[u8]) {
    let Some(rows) = parsed(data) else { return request("catalog", data) };
    if ask("catalog", &json!({ "catalog": rows }).to_string()).is_err() {
        return;
    }
    for table in ["accelerators", "instances"] {
        let Some(id) = rows.get(table).and_then(|rows| rows.get(0)?.get("id")?.as_str()) else { continue };
        for (cluster, run) in [
            (id.to_owned(), json!({"steps": 5})),
            (format!("3x{id}"), json!({"offers": true, "tokens": 1e6})),
        ] {
            let request =
                json!({"model": "gpt2", "cluster": cluster, "seq_len": 256, "run": run, "catalog": rows});
            let _ = ask("estimate", &request.to_string());
        }
    }
}

/// The input is a run: tokens, prices, checkpoints, faults, expenses, machines of one's own.
pub fn run(data: &[u8]) {
    let Some(run) = parsed(data) else { return };
    let request = json!({"model": "gpt2", "cluster": "4x8xH100", "seq_len": 1024, "run": run});
    let _ = ask("estimate", &request.to_string());
}

/// The input is a trace of nodes over time, under every policy.
pub fn trace(data: &[u8]) {
    let Some(trace) = parsed(data) else { return };
    for policy in ["wait", "fall_back", "spot_then_reserved", "shrink", "spares"] {
        let run = json!({
            "tokens": 1e9, "price": "spot", "deadline_hours": 100,
            "faults": {"policy": policy, "trace": trace},
        });
        let request = json!({"model": "gpt2", "cluster": "4x8xH100", "seq_len": 1024, "run": run});
        let _ = ask("estimate", &request.to_string());
    }
}

/// The input is JSON text or not: it is read as `serde_json` reads it, or refused as it refuses it.
pub fn json_text(data: &[u8]) {
    let Some(text) = text(data) else { return };
    match (serde_json::from_str::<Value>(text), shardwise::call("catalog", text)) {
        (Err(fault), answer) => {
            let error = answer.expect_err("what serde_json cannot read");
            assert_eq!(error.code, shardwise::ErrorCode::Syntax, "{error}");
            // Bad escapes, and numbers too large, are refused too, but told otherwise.
            let said: String = fault.to_string().chars().take(120).collect();
            let otherwise = [&error.given, &said]
                .iter()
                .any(|text| text.contains("escape") || text.starts_with("number out of range"));
            assert!(otherwise || error.given.starts_with(&said), "{} for {said}", error.given);
        }
        (Ok(value), Err(error)) => {
            assert_ne!(error.code, shardwise::ErrorCode::Syntax, "{error} for {value}");
            shardwise_tests::outside::sound(&error, text);
        }
        (Ok(_), Ok(_)) => {}
    }
    // Of a value in the wrong place the error says what was read.
    let Ok(value) = serde_json::from_str::<Value>(text) else { return };
    let error = shardwise::call("describe_model", &format!(r#"{{"model": [{text}]}}"#));
    if let Err(error) = error {
        let shown = json!([value]).to_string();
        let said: String = shown.chars().take(120).collect();
        assert!(error.given.starts_with(&said), "{} for {said}", error.given);
    }
}
