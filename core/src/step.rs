//! One optimizer step: what the ranks compute, what of the communication is exposed, what idles.

mod report;

pub use report::{Remedy, StepReport};
