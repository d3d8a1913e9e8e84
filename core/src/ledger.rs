//! Money: the bill of a training run line by line, ways of getting machines side by side, and what
//! the result costs to serve. All amounts are US dollars; prices come dated from the catalogue or
//! from the user, whose own win.

mod bill;
mod owning;
mod purchase;
mod serving;

pub use bill::{Bill, Egress, Evaluations, FailedStarts, MachineTime, People, Storage, deduplicated};
pub use owning::OnPrem;
pub use purchase::{Demand, Offer, OfferCost, break_even_hours, side_by_side};
pub use serving::{
    BreakEven, ServedModel, ServingCost, ServingGpu, ServingLoad, qat_break_even, serving_cost,
};
