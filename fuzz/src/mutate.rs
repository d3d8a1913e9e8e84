//! From one input to the next. Random bytes in JSON are mostly no JSON: a request is changed as a
//! value, a field at a time, with the fields, words and ranges of `schema/`; models with the fields
//! and figures of the presets' configs. One input in eight is still changed byte by byte.

use std::sync::OnceLock;

use serde_json::{Map, Number, Value, json};
use shardwise_tests::shapes::{Shape, Shapes};

use crate::chance::Chance;

/// Figures at which something may break.
const EDGES: &[&str] = &[
    "0",
    "-0.0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "8",
    "16",
    "64",
    "100",
    "1000",
    "4096",
    "65536",
    "1000000",
    "100000000",
    "1000000000",
    "4294967295",
    "4294967296",
    "9007199254740991",
    "9007199254740992",
    "9007199254740993",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "0.5",
    "0.1",
    "0.9",
    "1.5",
    "1e-3",
    "1e-6",
    "1e-12",
    "1e6",
    "1e9",
    "1e12",
    "1e15",
    "1e18",
    "1e100",
    "1e308",
    "1.7976931348623157e308",
    "-1e308",
    "2.2250738585072014e-308",
    "5e-324",
    "-5e-324",
    "1e-300",
];

/// What one input holds.
struct Room {
    shapes: Shapes,
    /// The definition that the whole input has; the request's own where none is named.
    part: Option<&'static str>,
}

impl Room {
    fn root(&self) -> &Value {
        self.part.and_then(|name| self.shapes.named(name)).unwrap_or(self.shapes.root())
    }
}

/// The configs of all presets, by name.
fn configs() -> &'static Map<String, Value> {
    static CONFIGS: OnceLock<Map<String, Value>> = OnceLock::new();
    CONFIGS.get_or_init(|| {
        serde_json::from_str(include_str!("../../core/data/models/presets.json")).expect("presets")
    })
}

/// All that a config may say: each key with a value that some preset has.
fn config_fields() -> &'static [(String, Value)] {
    static FIELDS: OnceLock<Vec<(String, Value)>> = OnceLock::new();
    FIELDS.get_or_init(|| {
        let mut fields: Vec<(String, Value)> = configs()
            .values()
            .filter_map(Value::as_object)
            .flat_map(|config| config.iter().map(|(key, value)| (key.clone(), value.clone())))
            .collect();
        fields.dedup();
        fields
    })
}

macro_rules! mutators {
    ($($(#[$doc:meta])* $name:ident: $verb:literal, $part:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
            static ROOM: OnceLock<Room> = OnceLock::new();
            let room =
                ROOM.get_or_init(|| Room { shapes: Shapes::of($verb).expect($verb), part: $part });
            next(room, data, size, max_size, seed)
        }
    )*};
}

mutators! {
    /// A request for a calibration.
    calibrate: "calibrate", None;
    /// A user's catalogue.
    catalog: "catalog", Some("CatalogRows");
    /// A request for a comparison.
    compare: "compare", None;
    /// A model.
    config: "describe_model", Some("ModelSpec");
    /// A request for an estimate.
    estimate: "estimate", None;
    /// A request for a plan.
    plan: "plan", None;
    /// A run.
    run: "estimate", Some("Run");
    /// A trace of nodes over time.
    trace: "estimate", Some("Trace");
}

/// Byte by byte.
pub fn bytes(data: &mut [u8], size: usize, max_size: usize, _: u32) -> usize {
    libfuzzer_sys::fuzzer_mutate(data, size, max_size)
}

fn next(room: &Room, data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut chance = Chance::new(seed);
    let given = data.get(..size).and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
    let Some(mut value) = given.filter(|_| !chance.once_in(8)) else {
        return libfuzzer_sys::fuzzer_mutate(data, size, max_size);
    };
    for _ in 0..=chance.below(4) {
        change(&room.shapes, room.root(), &mut value, &mut chance);
    }
    let text = value.to_string();
    match data.get_mut(..text.len()).filter(|_| text.len() <= max_size) {
        Some(place) => {
            place.copy_from_slice(text.as_bytes());
            text.len()
        }
        None => libfuzzer_sys::fuzzer_mutate(data, size, max_size),
    }
}

/// Changes something at or below a place.
fn change(shapes: &Shapes, node: &Value, value: &mut Value, chance: &mut Chance) {
    let forms = shapes.forms(node);
    if chance.once_in(24) {
        *value = any(shapes, node, chance, 3);
        return;
    }
    match value {
        Value::Object(fields) => {
            let shape = forms.iter().find_map(|form| match form {
                Shape::Object(known, required) if fits(shapes, known, required, fields) => Some(*known),
                _ => None,
            });
            match shape {
                Some(known) => change_fields(shapes, known, fields, chance),
                None => change_config(fields, chance),
            }
        }
        Value::Array(items) => {
            let item =
                forms.iter().find_map(|form| if let Shape::List(item) = form { Some(*item) } else { None });
            match chance.below(8) {
                0 if !items.is_empty() => {
                    items.remove(chance.below(items.len()));
                }
                1 | 2 => {
                    let new = match (chance.pick(items), item) {
                        (Some(old), _) if chance.once_in(2) => old.clone(),
                        (_, Some(item)) => any(shapes, item, chance, 2),
                        (old, None) => old.cloned().unwrap_or(json!(1)),
                    };
                    let at = chance.below(items.len() + 1);
                    items.insert(at, new);
                }
                3 if items.len() > 1 => {
                    let (a, b) = (chance.below(items.len()), chance.below(items.len()));
                    items.swap(a, b);
                }
                _ => {
                    let at = chance.below(items.len());
                    if let Some(one) = items.get_mut(at) {
                        match item {
                            Some(item) => change(shapes, item, one, chance),
                            None => *one = scalar(one, chance),
                        }
                    }
                }
            }
        }
        _ if chance.once_in(4)
            || forms.iter().all(|f| matches!(f, Shape::Word(_) | Shape::Flag | Shape::Open)) =>
        {
            *value = any(shapes, node, chance, 3);
        }
        _ => *value = scalar(value, chance),
    }
}

/// Whether an object is of that shape, by its tag where it has one.
fn fits(shapes: &Shapes, known: &Map<String, Value>, required: &[&str], fields: &Map<String, Value>) -> bool {
    required.iter().all(|name| {
        let words = known.get(*name).map(|node| shapes.forms(node));
        match words.as_deref() {
            Some([Shape::Word(words)]) if words.len() == 1 => {
                fields.get(*name).and_then(Value::as_str) == words.first().copied()
            }
            _ => true,
        }
    })
}

fn change_fields(
    shapes: &Shapes,
    known: &Map<String, Value>,
    fields: &mut Map<String, Value>,
    chance: &mut Chance,
) {
    let names: Vec<String> = fields.keys().cloned().collect();
    match chance.below(16) {
        0 => {
            if let Some(name) = chance.pick(&names) {
                fields.remove(name);
            }
        }
        1 if chance.once_in(8) => {
            fields.insert("no_such_field".to_owned(), json!(0));
        }
        1..=6 => {
            let at = chance.below(known.len());
            if let Some((name, node)) = known.iter().nth(at) {
                let new = any(shapes, node, chance, 3);
                fields.insert(name.clone(), new);
            }
        }
        _ => {
            if let Some(name) = chance.pick(&names)
                && let (Some(node), Some(value)) = (known.get(name), fields.get_mut(name))
            {
                change(shapes, node, value, chance);
            }
        }
    }
}

/// Changes a model's config.
fn change_config(fields: &mut Map<String, Value>, chance: &mut Chance) {
    let names: Vec<String> = fields.keys().cloned().collect();
    match chance.below(8) {
        0 => {
            if let Some(name) = chance.pick(&names) {
                fields.remove(name);
            }
        }
        1 | 2 => {
            if let Some((name, value)) = chance.pick(config_fields()) {
                fields.insert(name.clone(), value.clone());
            }
        }
        3 => {
            let at = chance.below(configs().len());
            if let Some(other) = configs().values().nth(at).and_then(Value::as_object) {
                // Another family's config, or its fields over these.
                if chance.once_in(2) {
                    fields.clear();
                }
                fields.extend(other.iter().map(|(name, value)| (name.clone(), value.clone())));
            }
        }
        _ => {
            if let Some(value) = chance.pick(&names).and_then(|name| fields.get_mut(name)) {
                loose(value, chance);
            }
        }
    }
}

/// Changes a value of which no shape is known.
fn loose(value: &mut Value, chance: &mut Chance) {
    match value {
        Value::Object(fields) => change_config(fields, chance),
        Value::Array(items) if !items.is_empty() => {
            let at = chance.below(items.len());
            match chance.below(4) {
                0 => {
                    items.remove(at);
                }
                1 => {
                    let copy = items.get(at).cloned().unwrap_or_default();
                    items.push(copy);
                }
                _ => {
                    if let Some(item) = items.get_mut(at) {
                        loose(item, chance);
                    }
                }
            }
        }
        _ => *value = scalar(value, chance),
    }
}

/// Another value of the same kind, mostly.
fn scalar(value: &Value, chance: &mut Chance) -> Value {
    if chance.once_in(12) {
        return match chance.below(6) {
            0 => Value::Null,
            1 => json!("x"),
            2 => json!([]),
            3 => json!({}),
            4 => json!(true),
            _ => number(chance),
        };
    }
    match value {
        Value::Bool(flag) => json!(!flag),
        Value::Number(old) => nearby(old, chance),
        Value::String(text) => {
            let mut chars: Vec<char> = text.chars().collect();
            let at = chance.below(chars.len() + 1);
            match chance.below(4) {
                0 if at < chars.len() => {
                    chars.remove(at);
                }
                1 => chars.insert(
                    at,
                    *chance
                        .pick(&['x', '0', ':', '@', '-', 'é', '\u{1f600}', '"', '\\', '\0'])
                        .unwrap_or(&'x'),
                ),
                2 => chars.truncate(at),
                _ => {
                    if let Some(c) = chars.get_mut(at) {
                        *c = char::from(32 + chance.below(95) as u8);
                    }
                }
            }
            json!(chars.into_iter().collect::<String>())
        }
        _ => number(chance),
    }
}

fn nearby(old: &Number, chance: &mut Chance) -> Value {
    if let Some(n) = old.as_u64() {
        return match chance.below(9) {
            0 => json!(n.wrapping_add(1)),
            1 => json!(n.saturating_sub(1)),
            2 => json!(n.saturating_mul(2)),
            3 => json!(n / 2),
            4 => json!(n ^ (1 << chance.below(64))),
            5 => json!(chance.below(17)),
            6 => json!(1_u64 << chance.below(24)),
            _ => number(chance),
        };
    }
    let x = old.as_f64().unwrap_or_default();
    let new = match chance.below(7) {
        0 => x * 2.0,
        1 => x / 2.0,
        2 => -x,
        3 => x * 10_f64.powi(chance.below(40) as i32 - 20),
        4 => f64::from_bits(x.to_bits() ^ (1 << chance.below(64))),
        5 => f64::from_bits(chance.bits()),
        _ => return number(chance),
    };
    Number::from_f64(new).map_or_else(|| number(chance), Value::Number)
}

fn number(chance: &mut Chance) -> Value {
    chance.pick(EDGES).and_then(|text| serde_json::from_str(text).ok()).unwrap_or(json!(0))
}

/// Any value that the place may hold, its numbers small, round or extreme.
fn any(shapes: &Shapes, node: &Value, chance: &mut Chance, deep: usize) -> Value {
    if chance.once_in(16) {
        return Value::Null;
    }
    let forms = shapes.forms(node);
    match chance.pick(&forms) {
        Some(Shape::Word(words)) => chance.pick(words).map_or(Value::Null, |word| json!(word)),
        Some(Shape::Flag) => json!(chance.once_in(2)),
        Some(Shape::Whole) => match chance.below(4) {
            0 => number(chance),
            1 => json!(chance.below(17)),
            _ => json!(1_u64 << chance.below(20)),
        },
        Some(Shape::Number) => match chance.below(4) {
            0 => number(chance),
            1 => json!(chance.below(101) as f64 / 100.0),
            2 => json!(chance.below(1000)),
            _ => json!(10_f64.powi(chance.below(25) as i32 - 9)),
        },
        Some(Shape::Text) => {
            let known = [
                "H100",
                "8xA100",
                "2x8xH100",
                "p5.48xlarge",
                "gpt2",
                "x",
                "",
                "aws",
                "us-east-1",
                "nvlink4",
                "2024-01-01",
                "all-linear",
                "any",
            ];
            chance.pick(&known).map_or(Value::Null, |word| json!(word))
        }
        Some(Shape::List(item)) if deep > 0 => {
            Value::Array((0..chance.below(4)).map(|_| any(shapes, item, chance, deep - 1)).collect())
        }
        Some(Shape::Object(fields, required)) => fields
            .iter()
            .filter_map(|(name, node)| {
                let must = required.contains(&name.as_str());
                let value = if deep == 0 {
                    must.then(|| shapes.smallest(node))
                } else {
                    (must || chance.once_in(5)).then(|| any(shapes, node, chance, deep - 1))
                };
                Some((name.clone(), value?))
            })
            .collect::<Map<_, _>>()
            .into(),
        Some(Shape::Open) => {
            let at = chance.below(configs().len());
            match configs().iter().nth(at) {
                Some((name, _)) if chance.once_in(2) => json!(name),
                Some((_, config)) => config.clone(),
                None => Value::Null,
            }
        }
        _ => json!([]),
    }
}
