//! What was taken for granted because the request did not say.

use core::fmt;
use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use shardwise_derive::ToJson;

/// One thing that was assumed for a field that was not given. Every answer lists them, so that a
/// reader can state the thing and ask again.
///
/// ```
/// use shardwise::Assumption;
/// let it = Assumption::new("cluster.nodes", "2", "a node of this accelerator holds 8");
/// assert_eq!(it.to_string(), "cluster.nodes = 2 (a node of this accelerator holds 8)");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Assumption {
    /// Path of the field that was not given, as in `cluster.nodes`.
    pub field: Cow<'static, str>,
    /// What was taken for it, with its unit.
    pub value: String,
    /// Why that value.
    pub why: Cow<'static, str>,
}

impl Assumption {
    /// The assumption that `field` is `value`, because of `why`.
    pub fn new(
        field: impl Into<Cow<'static, str>>,
        value: impl Into<String>,
        why: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self { field: field.into(), value: value.into(), why: why.into() }
    }
}

impl fmt::Display for Assumption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} = {} ({})", self.field, self.value, self.why)
    }
}
