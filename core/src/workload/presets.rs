//! The models known by name: published configs, one a line, embedded.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde_json::{Map, Value};

use super::model::{Model, from_config};
use crate::error::Result;
use crate::read::parse;

const PRESETS: &str = include_str!("../../data/models/presets.json");

/// A published config, and its blocks once somebody has asked for them.
pub(super) struct Preset {
    config: Map<String, Value>,
    model: OnceLock<Model>,
}

impl Preset {
    /// The model of the preset `name`, read from its config the first time.
    pub(super) fn model(&'static self, name: &str, field: &str) -> Result<&'static Model> {
        if let Some(model) = self.model.get() {
            return Ok(model);
        }
        let model = from_config(name, &self.config, field)?;
        Ok(self.model.get_or_init(|| model))
    }
}

fn presets() -> &'static BTreeMap<String, Preset> {
    static PARSED: OnceLock<BTreeMap<String, Preset>> = OnceLock::new();
    PARSED.get_or_init(|| {
        let Ok(Value::Object(all)) = parse(PRESETS) else { return BTreeMap::new() };
        let object = |(name, value)| match value {
            Value::Object(config) => Some((name, Preset { config, model: OnceLock::new() })),
            _ => None,
        };
        all.into_iter().filter_map(object).collect()
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
    find(name).map(|(_, preset)| preset.config.clone())
}

/// A preset and its own name. A Hub id answers to the preset of its last part:
/// `meta-llama/Llama-3.1-8B` is `llama-3.1-8b`.
pub(super) fn find(name: &str) -> Option<(&'static str, &'static Preset)> {
    let all = presets();
    let own = |n: &str| all.get_key_value(n).map(|(k, v)| (k.as_str(), v));
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
        for (name, preset) in presets() {
            assert!(preset.config.get("model_type").is_some_and(Value::is_string), "{name}");
        }
    }

    #[test]
    fn a_hub_id_finds_its_preset() {
        assert_eq!(find("meta-llama/Llama-3.1-8B").map(|(n, _)| n), Some("llama-3.1-8b"));
        assert_eq!(find("meta-llama/Llama-2-7b-hf").map(|(n, _)| n), Some("llama-2-7b"));
        assert!(find("nobody/nothing").is_none());
    }
}
