//! The laws: what must hold of every answer, over requests drawn at random.
//!
//! Cases are drawn from a fixed seed, so a run is repeated exactly. `LAWS_CASES=100` draws a hundred
//! times as many, `LAWS_SEED=7` others. `docs/laws.md` lists the laws and the figures of long runs.

mod answers;
mod check;
