//! How much one optimizer step trains on.

use serde::{Deserialize, Serialize};

use crate::error::{Result, in_range};

/// The batch of one optimizer step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// Tokens of one sequence.
    pub seq_len: u64,
    /// Sequences of one optimizer step, all ranks together.
    pub global_batch: u64,
}

impl Batch {
    /// Checks the ranges.
    pub(crate) fn validate(&self) -> Result<()> {
        in_range("seq_len", self.seq_len as f64, 1.0, 1e8)?;
        in_range("global_batch", self.global_batch as f64, 1.0, 1e9)?;
        Ok(())
    }
}
