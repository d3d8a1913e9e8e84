//! The guide: what each figure is made of, and how to build on the crate. These are the pages of
//! `docs/`; their examples run as tests.

#[doc = include_str!("../docs/memory.md")]
pub mod memory {}

#[doc = include_str!("../docs/step-time.md")]
pub mod step_time {}

#[doc = include_str!("../docs/run-cost.md")]
pub mod run_cost {}

#[doc = include_str!("../docs/search.md")]
pub mod search {}

#[doc = include_str!("../docs/extending.md")]
pub mod extending {}

#[doc = include_str!("../docs/embedding.md")]
pub mod embedding {}
