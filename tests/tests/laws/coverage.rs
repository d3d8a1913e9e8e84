//! The strategies reach everything a request can say: each field and each word of the schema of
//! requests is in one of the samples. A new field or word that no strategy draws fails here.

use std::collections::BTreeSet;
use std::path::Path;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use serde_json::Value;
use shardwise::strategies::{
    calibrate_request, catalog_request, compare_request, estimate_request, model, plan_request,
};

use crate::check::stream;

/// A request's schema.
struct Schema(Value);

impl Schema {
    fn of(verb: &str) -> Self {
        let file = format!("../schema/{verb}.request.json");
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        Self(serde_json::from_str(&std::fs::read_to_string(file).expect("a schema")).expect("JSON"))
    }

    /// What a reference stands for, with the name it goes by.
    fn target<'a>(&'a self, schema: &'a Value, name: &str) -> (&'a Value, String) {
        match schema["$ref"].as_str().and_then(|to| to.strip_prefix("#/$defs/")) {
            Some(name) => (&self.0["$defs"][name], name.to_owned()),
            None => (schema, name.to_owned()),
        }
    }

    /// Every field and word that a schema knows.
    fn all(&self, schema: &Value, name: &str, out: &mut BTreeSet<String>) {
        let (schema, name) = self.target(schema, name);
        for word in words(schema) {
            out.insert(format!("{name}={word}"));
        }
        for (field, inner) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{name}.{field}");
            if out.insert(path.clone()) {
                self.all(inner, &path, out);
            }
        }
        for key in ["items", "anyOf", "oneOf", "prefixItems"] {
            match &schema[key] {
                Value::Array(list) => list.iter().for_each(|inner| self.all(inner, &name, out)),
                Value::Object(_) => self.all(&schema[key], &name, out),
                _ => {}
            }
        }
    }

    /// The fields and words that a value uses.
    fn used(&self, schema: &Value, name: &str, value: &Value, out: &mut BTreeSet<String>) {
        let (schema, name) = self.target(schema, name);
        if let Some(text) = value.as_str()
            && words(schema).any(|word| word == text)
        {
            out.insert(format!("{name}={text}"));
        }
        for (field, inner) in schema["properties"].as_object().into_iter().flatten() {
            if let Some(value) = value.get(field).filter(|v| !v.is_null()) {
                let path = format!("{name}.{field}");
                self.used(inner, &path, value, out);
                out.insert(path);
            }
        }
        for key in ["anyOf", "oneOf"] {
            for inner in schema[key].as_array().into_iter().flatten() {
                self.used(inner, &name, value, out);
            }
        }
        if schema["items"].is_object() {
            for value in value.as_array().into_iter().flatten() {
                self.used(&schema["items"], &name, value, out);
            }
        }
    }
}

/// The words that a schema allows by itself.
fn words(schema: &Value) -> impl Iterator<Item = &str> {
    let listed = schema["enum"].as_array().into_iter().flatten();
    listed.chain(schema.get("const")).filter_map(Value::as_str)
}

/// What of the schema, or of these definitions in it, is in none of so many samples.
fn missing<S: Strategy>(verb: &str, samples: u32, of: &S, only: &[&str]) -> Vec<String>
where
    S::Value: serde::Serialize,
{
    let schema = Schema::of(verb);
    let (mut all, mut used) = (BTreeSet::new(), BTreeSet::new());
    schema.all(&schema.0, verb, &mut all);
    let mut runner = stream(0);
    for _ in 0..samples {
        let value = of.new_tree(&mut runner).expect("a sample").current();
        let value = serde_json::to_value(value).expect("a request is JSON");
        schema.used(&schema.0, verb, &value, &mut used);
    }
    assert!(all.len() > 30, "{} fields and words of {verb}", all.len());
    let within = |name: &&String| {
        let owner = name.split(['.', '=']).next().unwrap_or_default();
        only.is_empty() || only.contains(&owner)
    };
    all.difference(&used).filter(within).cloned().collect()
}

#[test]
fn every_field_and_word_of_a_request_is_drawn() {
    let nothing: Vec<String> = Vec::new();
    assert_eq!(missing("estimate", 12000, &estimate_request(), &[]), nothing);
    assert_eq!(missing("catalog", 4000, &catalog_request(), &[]), nothing);
    // What these are made of beside estimates.
    assert_eq!(missing("plan", 300, &plan_request(), &["plan", "Search", "Objective"]), nothing);
    assert_eq!(missing("calibrate", 30, &calibrate_request(), &["calibrate", "MeasuredRun"]), nothing);
    assert_eq!(missing("compare", 30, &compare_request(), &["compare", "Contender"]), nothing);
}

#[test]
fn every_family_is_drawn() {
    let mut runner = stream(0);
    let mut seen = BTreeSet::new();
    for _ in 0..3000 {
        let spec = model().new_tree(&mut runner).expect("a sample").current();
        seen.insert(spec.resolve("model").expect("a valid model").family);
    }
    // The error of a family that does not exist lists those that do.
    let unknown = shardwise::ModelSpec(serde_json::json!({"model_type": "no such family"}));
    let fault = unknown.resolve("model").expect_err("no such family");
    let known = fault.allowed.split(';').next().and_then(|t| t.strip_prefix("one of ")).expect("a list");
    let missing: Vec<&str> = known.split(", ").filter(|name| !seen.contains(name)).collect();
    assert!(missing.is_empty(), "never drawn: {missing:?}");
    assert!(seen.contains("traced"));
}
