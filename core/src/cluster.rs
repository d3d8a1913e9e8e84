//! Where a run takes place: accelerators, the links between them, nodes, clouds and their prices.
//!
//! [`Catalog`] holds the embedded facts, each row with its source and date. A request names its
//! machines with a [`ClusterSpec`] (`"8xH100-SXM-80GB"`, `"4 x p5.48xlarge"`, or an object);
//! [`ClusterSpec::resolve`](NameOr::resolve) turns it into a [`Cluster`], plain figures that the
//! rooms to the right read, and lists what it had to assume.

mod catalog;
mod figures;
mod links;
mod lookup;
mod machines;
mod name_or;
mod named;
mod offers;
mod resolve;
mod resolved;
mod rows;
mod table;
#[cfg(test)]
mod tests;

pub use catalog::Catalog;
pub use machines::{ClusterSpec, Machines, NetworkSpec, PriceSpec};
pub use name_or::NameOr;
pub use resolved::{Channel, Cluster, InSwitch, Network, Peaks, PriceKind, Prices};
pub use rows::{Accelerator, CatalogRows, Instance, Link, Platform, Source, StorageOffer};
