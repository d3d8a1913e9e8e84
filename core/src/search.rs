//! The search: every layout that the machines, the model and the framework allow, costed by the same
//! formulas as a single estimate, and what is worth knowing of them.
//!
//! What depends on few degrees is computed once for them: blocks for (tensor, context, expert,
//! micro-batch), the slowest rank for a split of the states, and only fill and drain for a schedule.

mod ask;
mod engine;
mod facts;
mod frameworks;
mod front;
mod rules;
mod scaling;
mod space;

pub use ask::{Objective, Search, StopReason};
pub(crate) use engine::{Ground, Outcome, Point, explore};
pub(crate) use facts::Facts;
pub use frameworks::{Profile as FrameworkProfile, profile};
pub(crate) use rules::broken;
pub use rules::{Rule, rules};
pub(crate) use scaling::curve;
pub use scaling::{CurvePoint, Scaling};

#[cfg(test)]
mod tests;
