//! What losing machines does to a run: spot evictions and hardware faults, how long it then takes,
//! how widely that scatters, and what the policies against it buy.
//!
//! - [`Availability`] describes a gang of nodes by at most twelve figures that a user can know;
//!   [`Trace::describe`] reads them off a recorded availability trace.
//! - [`Outlook`] answers in closed form: an absorbing chain over the job's segments under a
//!   two-regime phase-type model of the spells.
//! - [`replay`] and [`simulate`] run the job event by event, on a trace or on drawn spells; the
//!   tests hold the closed forms to them.
//! - [`Policy`] says what is done while nodes are missing.

mod availability;
mod crossing;
mod elastic;
mod engine;
mod hazard;
mod hyperexponential;
mod outlook;
mod phases;
mod policy;
mod random;
mod regime;
mod trace;
mod transform;

pub use availability::{Availability, Spells, Start, Swing};
pub use elastic::{Elastic, ElasticOutlook, SparePool};
pub use engine::{Finish, Span, replay, run_job, simulate};
pub use hazard::{
    FailureRecord, Fleet, SpotOutlook, SpotZone, expected_effective_time, failure_records, gang_mean_up,
    hazard_of_monthly_share, mean_time_between_failures, notice, spot_zones,
};
pub(crate) use outlook::shortest_interval;
pub use outlook::{Outlook, RestartJob, Weights};
pub(crate) use phases::probability_of;
pub use phases::{Phase, PhasedOutlook, phased};
pub use policy::{GangPrices, Policy, PolicyOutlook, outlook_of};
pub use random::Random;
pub use trace::{Trace, TraceStep, quantile};
