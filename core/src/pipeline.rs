//! Pipeline schedules: the time a rank idles, from the times of its stages.

mod schedule;

pub use schedule::{Stage, bubble};
