//! The laws: what must hold of every answer, over requests drawn at random.
//!
//! Cases are drawn from a fixed seed, so a run is repeated exactly. `LAWS_CASES=100` draws a hundred
//! times as many, `LAWS_SEED=7` others. That a search finds what brute force finds is beside the
//! search, in `core/src/search/tests.rs`.

mod answers;
mod boundary;
mod case;
mod check;
mod coverage;
mod long;
mod memory;
mod run;
mod search;
mod step;
mod wires;
