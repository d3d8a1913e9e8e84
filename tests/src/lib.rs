//! Scores shardwise against measured runs. Each kind of corpus has one module that reads its
//! files, asks the planner, and hands the [`score`] what was predicted and what was measured.

pub mod oracle;
pub mod params;
pub mod score;
pub mod spot;
