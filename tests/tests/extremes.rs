//! Every number of every request at the edges of what a number can be, every list long, every text
//! long, and texts that are hardly JSON: answered or refused with a sound error, soon.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};
use shardwise::ErrorCode;
use shardwise_tests::outside::ask;
use shardwise_tests::shapes::{Shape, Shapes, VERBS};

/// Nought and what lies beside it, the ends of what a double tells apart, and the ends of doubles.
const EDGES: [&str; 16] = [
    "0",
    "-0.0",
    "1",
    "-1",
    "0.5",
    "4294967296",
    "9007199254740992",
    "9007199254740993",
    "18446744073709551615",
    "1e18",
    "1e308",
    "-1e308",
    "1.7976931348623157e308",
    "5e-324",
    "-5e-324",
    "2.2250738585072014e-308",
];

/// Those of them at which most formulas would break.
const FEW: [&str; 5] = ["0", "1", "9007199254740992", "1e308", "5e-324"];

/// Far more than any of these takes, in a debug build on a busy machine; a loop without end takes more.
const SOON: Duration = Duration::from_mins(1);

/// A step of the way to a place in a request.
#[derive(Clone, Debug)]
enum Step {
    Field(String),
    /// The first item of a list.
    Item,
}

/// A place of a request, and how to get there.
#[derive(Clone, Debug)]
struct Place {
    steps: Vec<Step>,
    /// For each step, the smallest value of the thing it leads into, if it is not there yet.
    hollows: Vec<Value>,
}

/// All places at which `wanted` holds.
fn places(shapes: &Shapes, wanted: &dyn Fn(&Shape<'_>) -> bool) -> Vec<Place> {
    fn walk(
        shapes: &Shapes,
        node: &Value,
        here: &Place,
        wanted: &dyn Fn(&Shape<'_>) -> bool,
        out: &mut Vec<Place>,
    ) {
        for form in shapes.forms(node) {
            if wanted(&form) {
                out.push(here.clone());
            }
            let mut step = |step: Step, hollow: Value, below: &Value| {
                let mut place = here.clone();
                place.steps.push(step);
                place.hollows.push(hollow);
                walk(shapes, below, &place, wanted, out);
            };
            match form {
                Shape::Object(fields, required) => {
                    let hollow: Map<String, Value> = required
                        .iter()
                        .filter_map(|name| Some(((*name).to_owned(), shapes.smallest(fields.get(*name)?))))
                        .collect();
                    for (name, below) in fields {
                        step(Step::Field(name.clone()), Value::Object(hollow.clone()), below);
                    }
                }
                Shape::List(below) => step(Step::Item, json!([shapes.smallest(below)]), below),
                _ => {}
            }
        }
    }
    let mut out = Vec::new();
    let here = Place { steps: Vec::new(), hollows: Vec::new() };
    walk(shapes, shapes.root(), &here, wanted, &mut out);
    out
}

/// The request with another value in that place; what leads there is made where it is missing.
fn with(base: &Value, place: &Place, new: &Value) -> Value {
    fn put(at: &mut Value, steps: &[Step], hollows: &[Value], new: &Value) {
        let ([step, steps @ ..], [hollow, hollows @ ..]) = (steps, hollows) else {
            *at = new.clone();
            return;
        };
        match step {
            Step::Field(name) => {
                // A variant's tag stands in its hollow: another variant makes way.
                let own = hollow.as_object().into_iter().flatten();
                let other = own
                    .into_iter()
                    .any(|(key, tag)| tag.is_string() && key == "kind" && at.get(key) != Some(tag));
                if !at.is_object() || other {
                    *at = hollow.clone();
                }
                if let Some(fields) = at.as_object_mut() {
                    put(fields.entry(name).or_insert(Value::Null), steps, hollows, new);
                }
            }
            Step::Item => {
                if at.as_array().is_none_or(Vec::is_empty) {
                    *at = hollow.clone();
                }
                if let Some(first) = at.as_array_mut().and_then(|items| items.first_mut()) {
                    put(first, steps, hollows, new);
                }
            }
        }
    }
    let mut out = base.clone();
    put(&mut out, &place.steps, &place.hollows, new);
    out
}

/// Small requests that are answered, so that a change is seen by the formulas and not by the door.
fn bases(verb: &str) -> Vec<Value> {
    let estimate = json!({
        "model": "gpt2", "cluster": {"accelerator": "H100", "nodes": 2}, "seq_len": 128, "run": {"steps": 100},
    });
    let plan = json!({
        "model": "gpt2", "cluster": {"accelerator": "H100", "nodes": 2}, "seq_len": 128, "global_batch": 32,
        "search": {"max_candidates": 5, "list": 1}, "run": {"steps": 100},
    });
    match verb {
        "estimate" => {
            let mut lossy = estimate.clone();
            lossy["run"] = json!({"steps": 1000, "price": "spot", "faults": {}, "checkpoint": {}});
            vec![estimate, lossy]
        }
        "plan" => vec![plan],
        "compare" => vec![json!({"requests": [{"estimate": estimate}, {"plan": plan}]})],
        "calibrate" => vec![json!({"runs": [{"estimate": estimate, "step_time": 0.1, "allocated": 2e9}]})],
        "describe_model" => vec![json!({"model": "gpt2"})],
        "catalog" => vec![json!({})],
        _ => Vec::new(),
    }
}

fn edges(texts: &[&str]) -> Vec<Value> {
    texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect()
}

/// What only one verb asks is tried with that verb; what several share, with the first of them.
fn tried(verb: &str, wanted: &dyn Fn(&Shape<'_>) -> bool) -> Vec<Place> {
    let shapes = Shapes::of(verb).unwrap();
    let inside = |place: &Place, names: &[&str]| {
        place.steps.iter().any(|step| matches!(step, Step::Field(name) if names.contains(&name.as_str())))
    };
    let mut places = places(&shapes, wanted);
    match verb {
        // An estimate's own fields, and those that it shares with a plan, are tried as an estimate.
        "compare" | "calibrate" => places.retain(|place| !inside(place, &["estimate", "plan"])),
        "plan" => {
            places.retain(|place| !inside(place, &["catalog", "expenses", "owned", "serving", "cluster"]));
        }
        _ => {}
    }
    places
}

/// Whether a field speaks of losses or saves, which take long to look ahead at.
fn ahead(place: &Place) -> bool {
    place
        .steps
        .iter()
        .any(|step| matches!(step, Step::Field(name) if name == "faults" || name == "checkpoint"))
}

fn every_number(verb: &str) {
    let (mut asked, mut answered) = (0, 0);
    let bases = bases(verb);
    let (Some(plain), Some(lossy)) = (bases.first(), bases.last()) else { return };
    for place in tried(verb, &|shape| matches!(shape, Shape::Whole | Shape::Number)) {
        let (base, edges) = if ahead(&place) { (lossy, edges(&FEW)) } else { (plain, edges(&EDGES)) };
        for edge in edges {
            asked += 1;
            answered += u32::from(ask(verb, &with(base, &place, &edge).to_string()).is_ok());
        }
    }
    assert!(asked >= 16 && answered > 0 && answered < asked, "{verb}: {answered} of {asked} answered");
}

#[test]
fn every_number_of_an_estimate() {
    every_number("estimate");
}

#[test]
fn every_number_of_a_plan() {
    every_number("plan");
}

#[test]
fn every_number_of_a_comparison_a_calibration_and_a_catalogue() {
    for verb in ["compare", "calibrate", "catalog"] {
        every_number(verb);
    }
}

/// Every figure of every preset's config, and of an object of dimensions.
#[test]
fn every_number_of_a_config() {
    let presets: Map<String, Value> =
        serde_json::from_str(include_str!("../../core/data/models/presets.json")).unwrap();
    let mut families: Vec<&str> = Vec::new();
    let mut asked = 0;
    for config in presets.values() {
        let family = config["model_type"].as_str().unwrap();
        if families.contains(&family) {
            continue;
        }
        families.push(family);
        for (key, value) in config.as_object().unwrap().iter().filter(|(_, v)| v.is_number()) {
            for edge in edges(&FEW).iter().chain([&json!(value.as_f64().unwrap() + 1.0), &Value::Null]) {
                let mut changed = config.clone();
                changed[key] = edge.clone();
                let request = json!({"model": changed, "cluster": "8xH100", "seq_len": 64});
                let _ = ask("estimate", &request.to_string());
                asked += 1;
            }
        }
    }
    assert!(families.len() >= 15 && asked >= 500, "{} families, {asked} asked", families.len());
}

/// A list of many thousand items, wherever a list may stand; a text of a million letters, wherever a
/// text may stand.
#[test]
fn long_lists_and_texts_take_no_time() {
    let long = json!("x".repeat(1_000_000));
    for verb in VERBS {
        let shapes = Shapes::of(verb).unwrap();
        let base = bases(verb).swap_remove(0);
        for place in tried(verb, &|shape| matches!(shape, Shape::List(_))) {
            soon(verb, &place, &with(&base, &place, &list_of(&shapes, &place, 10_000)));
        }
        for place in tried(verb, &|shape| matches!(shape, Shape::Text)) {
            soon(verb, &place, &with(&base, &place, &long));
        }
    }
}

/// A list of `many` small items, as that place takes them.
fn list_of(shapes: &Shapes, place: &Place, many: usize) -> Value {
    let mut node = vec![shapes.root()];
    for step in &place.steps {
        node = node
            .into_iter()
            .flat_map(|node| shapes.forms(node))
            .filter_map(|form| match (form, step) {
                (Shape::Object(fields, _), Step::Field(name)) => fields.get(name),
                (Shape::List(item), Step::Item) => Some(item),
                _ => None,
            })
            .collect();
    }
    let item = node.into_iter().flat_map(|node| shapes.forms(node)).find_map(|form| match form {
        Shape::List(item) => Some(shapes.smallest(item)),
        _ => None,
    });
    let number = item.as_ref().is_some_and(Value::is_number);
    // Numbers differ, so that none is dropped as a repeat.
    let items = (1..=many).map(|i| if number { json!(i) } else { item.clone().unwrap_or_default() });
    Value::Array(items.collect())
}

fn soon(verb: &str, place: &Place, request: &Value) {
    let text = request.to_string();
    if text.len() > 8 << 20 {
        assert_eq!(ask(verb, &text).unwrap_err().code, ErrorCode::OutOfRange);
        return;
    }
    let start = Instant::now();
    let _ = ask(verb, &text);
    let took = start.elapsed();
    assert!(took < SOON, "{verb}: {:?} took {took:?}", place.steps);
}

#[test]
fn texts_that_are_hardly_json() {
    let many = 5 << 20;
    let texts = [
        " ".repeat(many),
        "[".repeat(many),
        "{\"a\":".repeat(many / 5),
        "1".repeat(many),
        format!("0.{}1", "0".repeat(many)),
        format!("1e{}", "9".repeat(many)),
        format!("1e-{}", "9".repeat(many)),
        format!("{{\"seq_len\": {}}}", "7".repeat(many)),
        format!("{{\"seq_len\": 0.{}e-300}}", "7".repeat(many)),
        format!("\"{}\"", "\\u00e9".repeat(many / 6)),
        format!("\"{}", "\u{1f600}".repeat(many / 4)),
        format!("{{\"{}\": 1}}", "k".repeat(many)),
        many_keys(many / 16),
        format!("{{\"model\": [{}0]}}", "0,".repeat(many / 2)),
        format!("{{\"model\": \"{}\"}}", "llama".repeat(many / 5)),
        format!("{{\"cluster\": \"{}H100\"}}", "8x".repeat(many / 2)),
        "\u{feff}{}".to_owned(),
        "\0".to_owned(),
    ];
    for (verb, text) in
        ["plan", "describe_model"].into_iter().flat_map(|verb| texts.iter().map(move |t| (verb, t)))
    {
        let start = Instant::now();
        let shown: String = text.chars().take(40).collect();
        assert!(ask(verb, text).is_err(), "{verb}: {shown}");
        let took = start.elapsed();
        assert!(took < SOON, "{verb}: {shown} took {took:?}");
    }
    let error = ask("plan", &" ".repeat((8 << 20) + 1)).unwrap_err();
    assert_eq!(error.code, ErrorCode::OutOfRange);
}

/// An object with so many fields that nobody knows.
fn many_keys(many: usize) -> String {
    let mut text = String::from("{");
    for i in 0..many {
        text.push_str(&format!("\"k{i:08}\": 1,"));
    }
    text + "\"z\": 1}"
}
