//! One optimizer step: what the ranks compute, what of the communication is exposed, what idles.

mod estimate;
mod interval;
mod remedies;
mod report;
mod stalls;
mod states;
mod times;

pub use estimate::estimate;
pub use report::{Remedy, StepReport};
pub use times::{Costs, Setting, StepTimes};
