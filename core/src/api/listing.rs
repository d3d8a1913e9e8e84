//! The two verbs that tell what is known, and plan nothing.

use super::request::{CatalogRequest, DescribeModelRequest};
use crate::cluster::{Catalog, CatalogRows};
use crate::error::Result;
use crate::version::version;
use crate::workload::ModelSummary;

/// Every row of the catalogue, with those of the user.
///
/// ```
/// use shardwise::api::{CatalogRequest, catalog};
/// let request: CatalogRequest = serde_json::from_str("{}").unwrap();
/// assert!(catalog(&request).unwrap().accelerators.iter().any(|row| row.id == "h100-sxm"));
/// ```
///
/// # Errors
/// A row of the user's own that cannot be, or another version of the format.
pub fn catalog(request: &CatalogRequest) -> Result<CatalogRows> {
    version(request.schema_version)?;
    Catalog::with(&request.catalog).map(|catalog| catalog.rows().clone())
}

/// What a model is made of.
///
/// ```
/// use shardwise::api::{DescribeModelRequest, describe_model};
/// let request: DescribeModelRequest = serde_json::from_str(r#"{"model": "gpt2"}"#).unwrap();
/// assert_eq!(describe_model(&request).unwrap().parameters.total, 124_439_808);
/// ```
///
/// # Errors
/// A model that is not known or cannot be, or another version of the format.
pub fn describe_model(request: &DescribeModelRequest) -> Result<ModelSummary> {
    version(request.schema_version)?;
    Ok(request.model.resolve("model")?.summary())
}
