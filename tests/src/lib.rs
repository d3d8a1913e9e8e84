//! Scores shardwise against measured runs. Each kind of corpus has one module that reads its
//! files, asks the planner, and hands the [`score`] what was predicted and what was measured.

pub mod cases;
pub mod conformance;
pub mod document;
pub mod flops;
pub mod library;
pub mod memory;
pub mod oracle;
pub mod outside;
pub mod params;
mod peers;
pub mod published;
pub mod score;
pub mod shapes;
pub mod spot;
pub mod throughput;

/// The front page, whose Rust example runs as a test.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
mod readme {}
