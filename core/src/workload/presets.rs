//! The models known by name: published configs, one a line, embedded.

use std::sync::OnceLock;

use serde_json::{Map, Value};

use crate::read::parse;

const PRESETS: &str = include_str!("../../data/models/presets.json");

fn presets() -> &'static Map<String, Value> {
    static PARSED: OnceLock<Map<String, Value>> = OnceLock::new();
    PARSED.get_or_init(|| match parse(PRESETS) {
        Ok(Value::Object(all)) => all,
        _ => Map::new(),
    })
}

/// Names of the embedded models, in alphabetical order.
///
/// ```
/// assert!(shardwise::preset_names().any(|name| name == "llama-3.1-8b"));
/// ```
pub fn preset_names() -> impl Iterator<Item = &'static str> {
    presets().keys().map(String::as_str)
}

/// The config of a preset, to start one's own from.
#[must_use]
pub fn preset_config(name: &str) -> Option<Map<String, Value>> {
    find(name).map(|(_, config)| config.clone())
}

/// The config of a preset. A Hub id answers to the preset of its last part:
/// `meta-llama/Llama-3.1-8B` is `llama-3.1-8b`.
pub(super) fn find(name: &str) -> Option<(&'static str, &'static Map<String, Value>)> {
    let all = presets();
    let own = |n: &str| all.get_key_value(n).and_then(|(k, v)| Some((k.as_str(), v.as_object()?)));
    own(name).or_else(|| {
        let tail = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
        let plain = |s: &str| s.trim_end_matches("-hf").trim_start_matches("meta-").to_owned();
        own(&tail).or_else(|| own(&plain(&tail)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_an_object_with_a_model_type() {
        assert!(presets().len() > 50);
        for (name, config) in presets() {
            assert!(config.get("model_type").is_some_and(Value::is_string), "{name}");
        }
    }

    #[test]
    fn a_hub_id_finds_its_preset() {
        assert_eq!(find("meta-llama/Llama-3.1-8B").map(|(n, _)| n), Some("llama-3.1-8b"));
        assert_eq!(find("meta-llama/Llama-2-7b-hf").map(|(n, _)| n), Some("llama-2-7b"));
        assert!(find("nobody/nothing").is_none());
    }
}
