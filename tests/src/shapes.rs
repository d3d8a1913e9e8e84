//! The shapes of requests, from `schema/`: which fields there are, what each may hold, and the
//! smallest value of each.

use serde_json::{Map, Value, json};

/// The shape of one verb's requests.
#[derive(Clone, Debug)]
pub struct Shapes {
    root: Value,
}

/// What a place in a request may hold.
#[derive(Clone, Debug)]
pub enum Shape<'a> {
    /// One of these words.
    Word(Vec<&'a str>),
    /// A whole number.
    Whole,
    /// A number.
    Number,
    /// True or false.
    Flag,
    /// A text.
    Text,
    /// A list, of items of this shape.
    List(&'a Value),
    /// An object: its fields, and those that must be given.
    Object(&'a Map<String, Value>, Vec<&'a str>),
    /// A model: a name or a config, which the schema leaves open.
    Open,
}

/// The verbs with a request of their own.
pub const VERBS: [&str; 6] = ["calibrate", "catalog", "compare", "describe_model", "estimate", "plan"];

impl Shapes {
    /// The shape of a verb's requests; `None` if there is no such verb.
    #[must_use]
    pub fn of(verb: &str) -> Option<Self> {
        let text = match verb {
            "calibrate" => include_str!("../../schema/calibrate.request.json"),
            "catalog" => include_str!("../../schema/catalog.request.json"),
            "compare" => include_str!("../../schema/compare.request.json"),
            "describe_model" => include_str!("../../schema/describe_model.request.json"),
            "estimate" => include_str!("../../schema/estimate.request.json"),
            "plan" => include_str!("../../schema/plan.request.json"),
            _ => return None,
        };
        serde_json::from_str(text).ok().map(|root| Self { root })
    }

    /// The whole request.
    #[must_use]
    pub fn root(&self) -> &Value {
        &self.root
    }

    /// The definition of that name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Value> {
        self.root.get("$defs")?.get(name)
    }

    /// What stands behind a reference.
    fn follow<'a>(&'a self, mut node: &'a Value) -> &'a Value {
        while let Some(name) = node.get("$ref").and_then(Value::as_str) {
            let Some(next) = name.strip_prefix("#/$defs/").and_then(|name| self.named(name)) else { break };
            node = next;
        }
        node
    }

    /// Every form a place may take; null is left out.
    #[must_use]
    pub fn forms<'a>(&'a self, node: &'a Value) -> Vec<Shape<'a>> {
        let node = self.follow(node);
        if let Some(list) = ["oneOf", "anyOf"].iter().find_map(|key| node.get(*key)?.as_array()) {
            let forms: Vec<Shape<'a>> = list.iter().flat_map(|one| self.forms(one)).collect();
            let words: Vec<&str> = forms
                .iter()
                .filter_map(|form| match form {
                    Shape::Word(words) => Some(words.iter().copied()),
                    _ => None,
                })
                .flatten()
                .collect();
            let mut rest: Vec<Shape<'a>> =
                forms.into_iter().filter(|form| !matches!(form, Shape::Word(_))).collect();
            if !words.is_empty() {
                rest.push(Shape::Word(words));
            }
            return rest;
        }
        if let Some(word) = node.get("const").and_then(Value::as_str) {
            return vec![Shape::Word(vec![word])];
        }
        if let Some(words) = node.get("enum").and_then(Value::as_array) {
            return vec![Shape::Word(words.iter().filter_map(Value::as_str).collect())];
        }
        let types: Vec<&str> = match node.get("type") {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(several)) => several.iter().filter_map(Value::as_str).collect(),
            _ => return vec![Shape::Open],
        };
        let forms = types.into_iter().filter_map(|name| match name {
            "integer" => Some(Shape::Whole),
            "number" => Some(Shape::Number),
            "boolean" => Some(Shape::Flag),
            "string" => Some(Shape::Text),
            "array" => node.get("items").map(Shape::List),
            "object" => Some(match node.get("properties").and_then(Value::as_object) {
                Some(fields) => Shape::Object(fields, required(node)),
                None => Shape::Open,
            }),
            _ => None,
        });
        forms.collect()
    }

    /// A small value of that shape which the core reads, its optional fields left out.
    #[must_use]
    pub fn smallest(&self, node: &Value) -> Value {
        if let Some(default) = node.get("default").filter(|d| !d.is_null()) {
            return default.clone();
        }
        let forms = self.forms(node);
        // An object shows more than a name that the catalogue may not know.
        let form = forms.iter().find(|form| matches!(form, Shape::Object(..))).or(forms.first());
        match form {
            Some(Shape::Word(words)) => words.first().map_or(Value::Null, |word| json!(word)),
            Some(Shape::Whole | Shape::Number) => json!(1),
            Some(Shape::Flag) => json!(true),
            Some(Shape::Text) => json!("x"),
            Some(Shape::List(item)) => {
                let least = self.follow(node).get("minItems").and_then(Value::as_u64).unwrap_or(1);
                Value::Array((0..least.max(1)).map(|_| self.smallest(item)).collect())
            }
            Some(Shape::Object(fields, required)) => Value::Object(
                required
                    .iter()
                    .filter_map(|name| Some(((*name).to_owned(), self.smallest(fields.get(*name)?))))
                    .collect(),
            ),
            Some(Shape::Open) => json!("gpt2"),
            None => Value::Null,
        }
    }
}

fn required(node: &Value) -> Vec<&str> {
    node.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect()
}
