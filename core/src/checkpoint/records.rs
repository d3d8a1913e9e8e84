//! Published sizes, stalls and rates of checkpoints.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

/// A published figure on a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[serde(deny_unknown_fields)]
pub struct CheckpointRecord {
    /// Name of the row.
    pub id: String,
    /// The software or run.
    pub system: String,
    /// The model or its size.
    #[serde(default)]
    pub model: Option<String>,
    /// Size, in GB (10^9 bytes).
    #[serde(default)]
    pub gb: Option<f64>,
    /// Ranks that wrote.
    #[serde(default)]
    pub ranks: Option<u32>,
    /// Synchronous, asynchronous or otherwise.
    #[serde(default)]
    pub mode: Option<String>,
    /// Time of the write, in seconds.
    #[serde(default)]
    pub write_s: Option<f64>,
    /// Time training stood still, in seconds.
    #[serde(default)]
    pub stall_s: Option<f64>,
    /// Rate, in GB/s.
    #[serde(default)]
    pub write_gb_s: Option<f64>,
    /// Where to.
    #[serde(default)]
    pub storage: Option<String>,
    /// Remarks.
    #[serde(default)]
    pub note: Option<String>,
    /// Where it was published.
    pub source: String,
    /// When it was looked up.
    pub as_of: String,
    /// How well it was confirmed.
    pub check: String,
}

/// The published figures this crate carries.
///
/// ```
/// let bloom = shardwise::checkpoint::checkpoint_records().iter().find(|r| r.id == "bloom");
/// assert_eq!(bloom.and_then(|r| r.write_s), Some(40.0));
/// ```
#[must_use]
pub fn checkpoint_records() -> &'static [CheckpointRecord] {
    static RECORDS: OnceLock<Vec<CheckpointRecord>> = OnceLock::new();
    RECORDS.get_or_init(|| {
        crate::read::from_text(include_str!("../../data/checkpoints.json")).unwrap_or_default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_names_source_and_date() {
        assert!(checkpoint_records().len() > 20);
        for r in checkpoint_records() {
            assert!(!r.source.is_empty() && !r.as_of.is_empty() && !r.check.is_empty(), "{}", r.id);
        }
    }
}
