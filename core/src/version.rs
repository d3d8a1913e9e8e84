//! The version that requests, answers and files of catalogue rows carry.

use crate::error::{Error, ErrorCode, Result};

/// Version of requests, answers and catalogue files. It rises when a field changes its meaning.
pub const SCHEMA_VERSION: u32 = 1;

/// What a text that tells no version is read as.
pub(crate) const fn schema_version() -> u32 {
    SCHEMA_VERSION
}

/// Refuses what another version wrote, since its fields may mean something else.
pub(crate) fn version(given: u32) -> Result<()> {
    if given == SCHEMA_VERSION {
        return Ok(());
    }
    Err(Error::new(
        "schema_version",
        ErrorCode::OutOfRange,
        given,
        format!("{SCHEMA_VERSION}, the only version this release reads"),
    ))
}
