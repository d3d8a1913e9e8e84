//! The contract of every verb, from the core's types: JSON Schema and TypeScript.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};
use shardwise::api::{
    CalibrateAnswer, CalibrateRequest, CatalogRequest, CompareAnswer, CompareRequest, DescribeModelRequest,
    EstimateAnswer, EstimateRequest, PlanAnswer, PlanRequest, VERBS,
};
use shardwise::{CatalogRows, Error, ModelSummary};

use crate::{Outcome, typescript};

/// The schemas of one verb.
pub struct Contract {
    pub verb: &'static str,
    pub request: Schema,
    pub answer: Schema,
}

fn contract<Request: JsonSchema, Answer: JsonSchema>(verb: &'static str) -> Contract {
    Contract {
        verb,
        request: SchemaSettings::draft2020_12()
            .for_deserialize()
            .into_generator()
            .into_root_schema_for::<Request>(),
        answer: printed::<Answer>(),
    }
}

/// The schema of what the core prints.
fn printed<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}

fn contracts() -> Vec<Contract> {
    vec![
        contract::<CalibrateRequest, CalibrateAnswer>("calibrate"),
        contract::<CatalogRequest, CatalogRows>("catalog"),
        contract::<CompareRequest, CompareAnswer>("compare"),
        contract::<DescribeModelRequest, ModelSummary>("describe_model"),
        contract::<EstimateRequest, EstimateAnswer>("estimate"),
        contract::<PlanRequest, PlanAnswer>("plan"),
    ]
}

/// Every generated file by its name.
fn files() -> Outcome<BTreeMap<String, String>> {
    let contracts = contracts();
    let named: Vec<&str> = contracts.iter().map(|c| c.verb).collect();
    if named != VERBS {
        return Err(format!("the core has the verbs {VERBS:?}, the schema has {named:?}").into());
    }
    let error = printed::<Error>();
    let mut files = BTreeMap::new();
    files.insert("types.ts".to_owned(), typescript::render(&contracts, &error)?);
    files.insert("error.json".to_owned(), text(&error)?);
    for contract in &contracts {
        files.insert(format!("{}.request.json", contract.verb), text(&contract.request)?);
        files.insert(format!("{}.answer.json", contract.verb), text(&contract.answer)?);
    }
    Ok(files)
}

fn text(schema: &Schema) -> Outcome<String> {
    Ok(serde_json::to_string_pretty(schema)? + "\n")
}

/// Writes `schema/`.
pub fn write(root: &Path) -> Outcome {
    for (name, text) in files()? {
        fs::write(root.join("schema").join(name), text)?;
    }
    Ok(())
}

/// Compares `schema/` with the types.
pub fn check(root: &Path) -> Outcome {
    let stale: Vec<String> = files()?
        .into_iter()
        .filter(|(name, text)| fs::read_to_string(root.join("schema").join(name)).ok().as_ref() != Some(text))
        .map(|(name, _)| name)
        .collect();
    if stale.is_empty() {
        println!("schema: as the types say");
        return Ok(());
    }
    Err(format!("schema/ is stale ({}); run `cargo xtask schema`", stale.join(", ")).into())
}
