//! Faults of what only Rust callers can give: the types of the run's rooms, without a request.
//! `tests/data/library-errors.txt` holds two lines for each case, `TYPE CHANGES` (what differs from
//! a sound value) and what is said.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use shardwise::calibrate::{Observation, calibrate};
use shardwise::checkpoint::{Cadence, SavedState, Saving, Store};
use shardwise::ledger::{
    Bill, Demand, Offer, OnPrem, ServedModel, ServingGpu, ServingLoad, serving_cost, side_by_side,
};
use shardwise::preemption::{
    Availability, Elastic, Outlook, Phase, Policy, RestartJob, SparePool, SpotOutlook, Trace, outlook_of,
    phased,
};
use shardwise::{Error, Seconds, UsdPerSecond};

/// One case.
#[derive(Clone, Debug)]
pub struct Refusal {
    /// The type.
    pub kind: String,
    /// What differs from a sound value, as JSON.
    pub changes: String,
    /// What is said.
    pub said: String,
}

/// The file of the cases.
pub fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/library-errors.txt")
}

/// All cases, in their order.
pub fn refusals() -> io::Result<Vec<Refusal>> {
    let text = fs::read_to_string(path())?;
    let mut cases: Vec<Refusal> = Vec::new();
    for line in text.lines() {
        if let Some(said) = line.strip_prefix("    ") {
            if let Some(case) = cases.last_mut() {
                said.clone_into(&mut case.said);
            }
        } else if let Some((kind, changes)) = line.split_once(' ') {
            let (kind, changes) = (kind.to_owned(), changes.to_owned());
            cases.push(Refusal { kind, changes, said: String::new() });
        }
    }
    Ok(cases)
}

/// The file's text.
pub fn text(cases: &[Refusal]) -> String {
    let blocks: Vec<String> =
        cases.iter().map(|case| format!("{} {}\n    {}\n", case.kind, case.changes, case.said)).collect();
    blocks.concat()
}

/// A sound value of each type.
fn sound(kind: &str) -> Value {
    let job = json!({"work": 1e5, "interval": 3600, "save": 60, "restore": 60, "provision": 60});
    let down = json!({"down": {"mean": 600}});
    match kind {
        "Availability" => json!({"up": {"mean": 1e5}, "down": {"mean": 600}}),
        "Bill" => json!({"gpus": 8, "per_gpu": 0.001, "time": {"training": 3600}}),
        "Cadence" => json!({"steps": 100, "step": 1, "work": 1e5, "delta": 60, "r": 60, "m": 1e5}),
        "Elastic" => {
            json!({"nodes": 4, "least_nodes": 2, "node_mean_up": 1e6, "gang_loss": 0, "refill": 600})
        }
        "Observation" => json!(null),
        "OnPrem" => {
            json!({"capex": 1e6, "years": 4, "power_kw": 10, "per_kwh": 0.2, "use_share": 0.5, "rent": 0.01})
        }
        "Phases" => json!(null),
        "Phase" => json!({"nodes": 2, "job": job, "availability": down}),
        "Policy" => json!({}),
        "Purchase" => {
            json!({"demand": {"hours": 100, "months": 12}, "offer": {"kind": "on_demand", "price": 0.01}})
        }
        "RestartJob" => job,
        "SavedState" => json!({
            "parameters": 1e9, "trainable": 1e9, "weight_bytes": 2, "master_bytes": 4, "optimizer_bytes": 8
        }),
        "Saving" => json!({
            "bytes": 1e10, "nodes": 2, "ranks_per_node": 8, "store": {"node_write": 1e9, "node_read": 1e9}
        }),
        "Serving" => json!({
            "model": {"weights": 16e9, "read_weights": 16e9, "active_parameters": 8e9, "cache_per_token": 131_072},
            "gpu": {"memory": 80e9, "bandwidth": 3e12, "compute": 900e12, "price": 0.001},
            "load": {"prompt": 500, "answer": 300, "batch": 64},
        }),
        "SparePool" => json!({"nodes": 4, "spares": 1, "node_mean_up": 1e6, "repair": 3600}),
        "SpotOutlook" => json!({"nodes": 4}),
        "Store" => json!({"node_write": 1e9, "node_read": 1e9}),
        "Trace" => json!({"steps": [{"at": 0, "nodes": 4}], "length": 1000}),
        _ => panic!("no sound {kind}"),
    }
}

/// The value with some fields changed.
fn merged(mut value: Value, changes: &Value) -> Value {
    match (&mut value, changes) {
        (Value::Object(fields), Value::Object(changes)) if !changes.contains_key("kind") => {
            for (name, change) in changes {
                let field = fields.entry(name).or_insert(Value::Null);
                *field = merged(field.take(), change);
            }
            value
        }
        _ => changes.clone(),
    }
}

fn read<T: DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).unwrap_or_else(|e| panic!("{e}: {value}"))
}

/// Takes a field out, for what is not part of the type.
fn taken<T: DeserializeOwned>(value: &mut Value, field: &str) -> T {
    read(&value.as_object_mut().unwrap().remove(field).unwrap())
}

/// What the library says of the sound value of a type with these changes.
pub fn refused(kind: &str, changes: &str) -> Error {
    let changes: Value = serde_json::from_str(changes).unwrap();
    let mut v = merged(sound(kind), &changes);
    let job = || read::<RestartJob>(&sound("RestartJob"));
    match kind {
        "Availability" => read::<Availability>(&v).validate().unwrap_err(),
        "Bill" => read::<Bill>(&v).lines().unwrap_err(),
        "Cadence" => {
            let [work, delta, r, m] = ["work", "delta", "r", "m"].map(|f| taken::<Seconds>(&mut v, f));
            read::<Cadence>(&v).price(work, delta, r, m).unwrap_err()
        }
        "Elastic" => {
            let given = changes.get("job").map(|_| taken(&mut v, "job"));
            read::<Elastic>(&v).outlook(&given.unwrap_or_else(job)).unwrap_err()
        }
        "Observation" => calibrate(&[] as &[Observation<'_>]).unwrap_err(),
        "OnPrem" => {
            let (share, rent): (f64, UsdPerSecond) = (taken(&mut v, "use_share"), taken(&mut v, "rent"));
            let owned: OnPrem = read(&v);
            let each = [
                owned.validate().err(),
                owned.per_used_time(share).err(),
                owned.per_hour(share).err(),
                owned.break_even(rent).err(),
            ];
            // An hour of a cluster that is never used has a price, an hour of its use has none.
            let at = usize::from(changes.get("use_share").is_some_and(|s| s.as_f64() > Some(1.0))) * 2;
            each.into_iter().skip(at).flatten().next().unwrap()
        }
        "Phase" => phased(&[read::<Phase>(&v)]).unwrap_err(),
        "Phases" => phased(&[]).unwrap_err(),
        "Policy" => outlook_of(&job(), &read(&sound("Availability")), read::<Policy>(&v)).unwrap_err(),
        "Purchase" => {
            side_by_side(&taken::<Demand>(&mut v, "demand"), &[taken::<Offer>(&mut v, "offer")]).unwrap_err()
        }
        "RestartJob" => Outlook::new(&read(&v), &read(&sound("Availability"))).unwrap_err(),
        "SavedState" => read::<SavedState>(&v).validate().unwrap_err(),
        "Saving" => read::<Saving>(&v).validate().unwrap_err(),
        "Serving" => serving_cost(
            &taken::<ServedModel>(&mut v, "model"),
            &taken::<ServingGpu>(&mut v, "gpu"),
            &taken::<ServingLoad>(&mut v, "load"),
        )
        .unwrap_err(),
        "SparePool" => read::<SparePool>(&v).validate().unwrap_err(),
        "SpotOutlook" => SpotOutlook::Base.availability(taken(&mut v, "nodes")).unwrap_err(),
        "Store" => read::<Store>(&v).validate().unwrap_err(),
        "Trace" => read::<Trace>(&v).validate().unwrap_err(),
        _ => panic!("no {kind}"),
    }
}
