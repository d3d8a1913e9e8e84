//! The verbs. Each is one request and one answer; every face calls only these.

mod ahead;
mod answer;
mod calibrate;
mod compare;
mod estimate;
mod explain;
mod listing;
mod nearest;
mod open;
mod outlook;
mod outlook_text;
mod pay;
mod plan;
mod reckon;
mod request;
mod run;
mod text;
mod variations;
mod varying;
mod verbs;

pub use crate::search::{Objective, Search, StopReason};
pub use answer::{
    Change, Chosen, EstimateAnswer, Fit, PlanAnswer, PlanLine, PlanWarning, Price, Rejection, RunReport,
    Sensitivity, Verdict,
};
pub use calibrate::{CalibrateAnswer, CalibrateRequest, MeasuredRun, Residual, calibrate};
pub use compare::{CompareAnswer, CompareLine, CompareRequest, Compared, Contender, Unit, compare};
pub use estimate::estimate;
pub use listing::{catalog, describe_model};
pub use outlook::{CheckpointOutlook, Deadline, LossOutlook, OfferLine, RunOutlook, ServingOutlook, Spread};
pub use plan::plan;
pub use request::{CatalogRequest, DescribeModelRequest, EstimateRequest, PlanRequest};
pub use run::{
    Checkpointing, Expenses, Faults, Hazard, LossPolicy, NodeCount, Owned, Run, SaveMode, Serving,
};
pub use verbs::{VERBS, call, call_json, call_text};
