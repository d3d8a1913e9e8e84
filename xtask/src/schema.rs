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

use crate::{Outcome, glossary, typescript};

const GLOSSARY: &str = "docs/glossary.md";

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

/// Every generated file by its path.
fn files(root: &Path) -> Outcome<BTreeMap<String, String>> {
    let contracts = contracts();
    let named: Vec<&str> = contracts.iter().map(|c| c.verb).collect();
    if named != VERBS {
        return Err(format!("the core has the verbs {VERBS:?}, the schema has {named:?}").into());
    }
    let error = printed::<Error>();
    let mut files = BTreeMap::new();
    files.insert("schema/types.ts".to_owned(), typescript::render(&contracts, &error)?);
    files.insert("schema/error.json".to_owned(), text(&error)?);
    for contract in &contracts {
        files.insert(format!("schema/{}.request.json", contract.verb), text(&contract.request)?);
        files.insert(format!("schema/{}.answer.json", contract.verb), text(&contract.answer)?);
    }
    let schemas =
        contracts.iter().flat_map(|c| [&c.request, &c.answer]).chain([&error]).map(Schema::as_value);
    let kept = fs::read_to_string(root.join(GLOSSARY))?;
    let glossary = glossary::rendered(&kept, schemas).ok_or("the glossary has no place for the words")?;
    files.insert(GLOSSARY.to_owned(), glossary);
    Ok(files)
}

fn text(schema: &Schema) -> Outcome<String> {
    Ok(serde_json::to_string_pretty(schema)? + "\n")
}

/// Writes `schema/` and the glossary.
pub fn write(root: &Path) -> Outcome {
    for (path, text) in files(root)? {
        fs::write(root.join(path), text)?;
    }
    Ok(())
}

/// Compares them with the types.
pub fn check(root: &Path) -> Outcome {
    let stale: Vec<String> = files(root)?
        .into_iter()
        .filter(|(path, text)| fs::read_to_string(root.join(path)).ok().as_ref() != Some(text))
        .map(|(path, _)| path)
        .collect();
    if stale.is_empty() {
        println!("schema: as the types say");
        return Ok(());
    }
    Err(format!("stale: {}; run `cargo xtask schema`", stale.join(", ")).into())
}
