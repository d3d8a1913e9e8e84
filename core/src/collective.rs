//! Seconds of a collective: `n` ranks placed on the tiers of a cluster exchange `S` bytes.

mod fabric;
mod group;

pub use fabric::{Cards, Copies, Fabric, Wire};
pub use group::Group;
