//! Checkpoints: how many bytes are saved, how long training stalls for it, how long loading takes,
//! and how often to save.

mod interval;
mod records;
mod size;
mod write;

pub use interval::{
    Cadence, IntervalCost, TwoLevelPlan, daly, daly_first_order, expected_time, lambert_w0, optimum,
    optimum_for_money, two_level, young,
};
pub use records::{CheckpointRecord, checkpoint_records};
pub use size::{Contents, SavedState, StateFormat};
pub use write::{Asynchronous, Saving, Store, Writer};
