//! Pipeline schedules: the time a rank idles, from the times of its stages.

mod schedule;

pub(crate) use schedule::Chunks;
pub use schedule::{Schedule, Stage, bubble};
