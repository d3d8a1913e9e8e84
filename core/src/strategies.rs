//! Strategies of [`proptest`] for whole valid requests, behind the feature `proptest`: for the tests
//! of this crate and of whoever builds on it.
//!
//! Every request drawn is one that its verb answers. What does not go together (a low-rank method
//! for a traced model, a fall-back policy at a firm price) is mended while the request is put together,
//! not drawn again, so nothing is rejected.
//!
//! ```
//! use proptest::strategy::{Strategy, ValueTree};
//! use proptest::test_runner::TestRunner;
//!
//! let mut runner = TestRunner::deterministic();
//! let tree = shardwise::strategies::estimate_request().new_tree(&mut runner).unwrap();
//! let answer = shardwise::estimate(&tree.current()).unwrap();
//! assert!(answer.step.total().get() > 0.0);
//! ```

mod catalog;
mod cluster;
mod figure;
mod layout;
mod model;
mod recipe;
mod request;
mod run;
mod search;

pub use catalog::catalog_rows;
pub use cluster::{cluster, small_cluster};
pub use figure::{figure, pick, word};
pub use layout::{Draft, draft, layout};
pub use model::{config, dimensions, model, preset, traced};
pub use recipe::{recipe, runtime};
pub use request::{
    calibrate_request, calibration, catalog_request, compare_request, describe_model_request,
    estimate_request, plan_request,
};
pub use run::{checkpointing, expenses, faults, owned, run, serving};
pub use search::search;

/// A struct from a strategy of each field. A field without one does not compile.
macro_rules! record {
    (@strategies) => { proptest::strategy::Just(()) };
    (@strategies $first:expr $(, $rest:expr)*) => { ($first, record!(@strategies $($rest),*)) };
    (@names) => { () };
    (@names $first:ident $(, $rest:ident)*) => { ($first, record!(@names $($rest),*)) };
    ($what:ident { $($field:ident: $strategy:expr),+ $(,)? }) => {
        proptest::strategy::Strategy::boxed(proptest::strategy::Strategy::prop_map(
            record!(@strategies $($strategy),+),
            |record!(@names $($field),+)| $what { $($field),+ },
        ))
    };
}
use record;
