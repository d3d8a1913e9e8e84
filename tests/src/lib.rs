//! Scores shardwise against measured runs. Each kind of corpus has one module that reads its
//! files, asks the planner, and hands the [`score`] what was predicted and what was measured.

pub mod cases;
pub mod conformance;
pub mod document;
pub mod flops;
pub mod library;
pub mod memory;
pub mod oracle;
pub mod params;
mod peers;
pub mod published;
pub mod score;
pub mod spot;
pub mod throughput;

/// The documents whose examples run as tests.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../../docs/memory.md")]
    mod memory {}
    #[doc = include_str!("../../docs/step-time.md")]
    mod step_time {}
    #[doc = include_str!("../../docs/search.md")]
    mod search {}
}
