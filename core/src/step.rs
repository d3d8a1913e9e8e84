//! One optimizer step: what the ranks compute, what of the communication is exposed, what idles.

mod estimate;
mod interval;
mod partition;
mod remedies;
mod report;
mod seconds;
mod stalls;
mod states;
mod swap;
mod times;

pub use estimate::estimate;
pub(crate) use estimate::grown;
pub(crate) use partition::Partition;
pub use report::{Remedy, StepReport};
pub use seconds::StepTimes;
pub(crate) use times::{Alone, Rank, Timed, defers_weights, interleaves};
pub use times::{Costs, Setting};
