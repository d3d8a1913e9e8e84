//! Plans the training of a model before any GPU is rented: how to split it over the machines,
//! whether it fits, how long it takes and what it costs.
//!
//! The crate is pure: no I/O, no clock, no threads. Every face (Rust, WASM, Python) calls the
//! same verbs with the same JSON.
//!
//! ```
//! let request = serde_json::from_str(r#"{
//!     "model": "llama-3.1-8b", "cluster": "8xH100-SXM-80GB", "seq_len": 8192, "global_batch": 64}"#);
//! let answer = shardwise::plan(&request.unwrap()).unwrap();
//! assert!(answer.feasible);
//! println!("{answer}");
//! ```
//!
//! The `guide` says what each figure is made of ([memory](guide::memory), [step time](guide::step_time),
//! [cost of a run](guide::run_cost), [search](guide::search)), how to bring machines and models of your
//! own ([extending](guide::extending)), and how a tool builds on it ([embedding](guide::embedding)).

// Nothing that is read may end in a panic; `unwrap`, `expect` and `panic` are denied in the workspace.
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::string_slice,
        clippy::unreachable,
        clippy::todo,
        clippy::unimplemented,
        clippy::get_unwrap,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::cast_lossless
    )
)]

pub mod api;
mod assumption;
pub mod calibrate;
pub mod checkpoint;
pub mod cluster;
pub mod collective;
pub mod compute;
mod error;
#[cfg(any(doc, doctest))]
pub mod guide;
pub mod layout;
pub mod ledger;
pub mod memory;
mod order;
pub mod pipeline;
pub mod preemption;
mod quantity;
mod read;
pub mod search;
pub mod step;
#[cfg(feature = "proptest")]
pub mod strategies;
mod term;
mod version;
mod vocabulary;
pub mod workload;
mod write;

pub use api::{call, call_json, call_text, compare, estimate, plan};
pub use assumption::Assumption;
pub use cluster::{Catalog, CatalogRows, Cluster, ClusterSpec, Machines, NameOr, PriceKind};
pub use error::{Error, ErrorCode, Fault};
pub use layout::Layout;
pub use quantity::{
    Bytes, BytesPerSecond, Flops, FlopsPerSecond, GIB, MIB, Seconds, Usd, UsdPerSecond, Watts,
};
pub use term::{Interval80, Term, Terms};
pub use version::SCHEMA_VERSION;
pub use workload::{Model, ModelSpec, ModelSummary, ParameterCounts, Recipe, preset_names};
