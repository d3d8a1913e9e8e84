//! The verbs. Each is one request and one answer; every face calls only these.

mod answer;
mod estimate;
mod plan;
mod request;
mod text;
mod verbs;

pub use answer::{
    EstimateAnswer, Fit, PlanAnswer, PlanLine, Price, Rejection, RunReport, StopReason, Verdict,
};
pub use estimate::estimate;
pub use plan::plan;
pub use request::{
    CatalogRequest, DescribeModelRequest, EstimateRequest, Objective, PlanRequest, Run, SCHEMA_VERSION,
    Search,
};
pub use verbs::{VERBS, call, call_json, call_text};
