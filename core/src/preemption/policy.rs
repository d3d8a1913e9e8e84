//! What is done while the gang is not complete.

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use super::availability::Availability;
use super::outlook::{Outlook, RestartJob, Weights, saves};
use crate::error::{Result, in_range};
use crate::quantity::{Seconds, Usd, UsdPerSecond};

/// What is done while the gang is not complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Policy {
    /// Wait until it is complete again.
    #[default]
    Wait,
    /// Wait so long; then run the rest on machines that are not taken away.
    FallBack {
        /// How long one wait may last, in seconds; 0 falls back at the first loss.
        patience: Seconds,
    },
    /// Run the first part on spot, waiting as need be, the rest on reserved machines.
    SpotThenReserved {
        /// Share of the work done on spot, 0 to 1.
        spot_share: f64,
    },
}

impl Policy {
    /// The work on spot and the work after it.
    pub(super) fn split(self, work: f64) -> (f64, f64) {
        match self {
            Self::SpotThenReserved { spot_share } => {
                let spot = work * spot_share;
                (spot, work - spot)
            }
            _ => (work, 0.0),
        }
    }
}

/// Expected time and money of a job under a policy, and their spread.
#[derive(Clone, Debug)]
pub struct PolicyOutlook {
    /// The part that may be lost; absent when all of it is reserved.
    spot: Option<Outlook>,
    /// The part after it on reserved machines, provisioning and restore included.
    reserved: Seconds,
}

/// Prices of one second of the whole gang.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct GangPrices {
    /// On spot machines.
    pub spot: UsdPerSecond,
    /// On machines that are not taken away: on demand or reserved.
    pub firm: UsdPerSecond,
}

/// The outlook of `job` under `policy`.
///
/// ```
/// use shardwise::preemption::{Availability, Policy, RestartJob, outlook_of};
/// use shardwise::Seconds;
/// let s = |x: f64| Seconds::new(x).unwrap();
/// let job = RestartJob {
///     work: s(86_400.0), interval: s(1800.0), save: s(60.0), restore: s(300.0), provision: s(120.0),
/// };
/// let spot = Availability::memoryless(s(14_400.0), s(3600.0));
/// let wait = outlook_of(&job, &spot, Policy::Wait).unwrap();
/// let half = outlook_of(&job, &spot, Policy::SpotThenReserved { spot_share: 0.5 }).unwrap();
/// let hasty = outlook_of(&job, &spot, Policy::FallBack { patience: s(0.0) }).unwrap();
/// assert!(hasty.expected() < half.expected() && half.expected() < wait.expected());
/// ```
///
/// # Errors
/// If a field is outside its range.
pub fn outlook_of(job: &RestartJob, availability: &Availability, policy: Policy) -> Result<PolicyOutlook> {
    let whole = Outlook::new(job, availability)?;
    Ok(match policy {
        Policy::Wait => PolicyOutlook { spot: Some(whole), reserved: Seconds::ZERO },
        Policy::FallBack { patience } => {
            in_range("policy.patience", patience.get(), 0.0, 1e10)?;
            PolicyOutlook { spot: Some(whole.falling_back(patience)), reserved: Seconds::ZERO }
        }
        Policy::SpotThenReserved { spot_share } => {
            in_range("policy.spot_share", spot_share, 0.0, 1.0)?;
            let (first, rest) = policy.split(job.work.get());
            let tail =
                Seconds::of(rest) + job.save * f64::from(saves(rest, job.interval.get())) + job.provision;
            if rest <= 0.0 {
                PolicyOutlook { spot: Some(whole), reserved: Seconds::ZERO }
            } else if first < 1.0 {
                PolicyOutlook { spot: None, reserved: job.undisturbed() }
            } else {
                let part = RestartJob { work: Seconds::of(first), ..*job };
                let spot = Outlook::new(&part, availability)?.handing_over();
                PolicyOutlook { spot: Some(spot), reserved: tail + job.restore }
            }
        }
    })
}

/// All of the job on the gang of that outlook.
impl From<Outlook> for PolicyOutlook {
    fn from(whole: Outlook) -> Self {
        Self { spot: Some(whole), reserved: Seconds::ZERO }
    }
}

impl PolicyOutlook {
    /// Expected completion time.
    #[must_use]
    pub fn expected(&self) -> Seconds {
        self.reserved + self.spot.as_ref().map_or(Seconds::ZERO, Outlook::expected)
    }

    /// Expected time for which spot machines are held.
    #[must_use]
    pub fn spot_time(&self) -> Seconds {
        self.spot.as_ref().map_or(Seconds::ZERO, Outlook::held)
    }

    /// Expected time on machines that are not taken away.
    #[must_use]
    pub fn firm_time(&self) -> Seconds {
        self.reserved + self.spot.as_ref().map_or(Seconds::ZERO, Outlook::on_demand)
    }

    /// Expected time spent waiting for capacity.
    #[must_use]
    pub fn waiting(&self) -> Seconds {
        self.spot.as_ref().map_or(Seconds::ZERO, Outlook::waiting)
    }

    /// Expected number of losses.
    #[must_use]
    pub fn losses(&self) -> f64 {
        self.spot.as_ref().map_or(0.0, Outlook::losses)
    }

    /// Completion time not exceeded with probability `p`: 0.5, 0.9 and 0.99 are P50, P90 and P99.
    #[must_use]
    pub fn quantile(&self, p: f64) -> Seconds {
        self.reserved + self.spot.as_ref().map_or(Seconds::ZERO, |spot| spot.quantile(p))
    }

    /// Probability that the job has ended `deadline` after it was started.
    #[must_use]
    pub fn probability_by(&self, deadline: Seconds) -> f64 {
        let left = deadline - self.reserved;
        match &self.spot {
            Some(spot) => spot.probability_by(left),
            None if left >= Seconds::ZERO => 1.0,
            None => 0.0,
        }
    }

    /// Expected bill of the machines; nothing is paid while waiting.
    #[must_use]
    pub fn expected_money(&self, prices: GangPrices) -> Usd {
        prices.spot * self.spot_time() + prices.firm * self.firm_time()
    }

    /// Bill of the machines not exceeded with probability `p`.
    #[must_use]
    pub fn money_quantile(&self, prices: GangPrices, p: f64) -> Usd {
        let weights = Weights { held: prices.spot.get(), waiting: 0.0, on_demand: prices.firm.get() };
        let spot = self.spot.as_ref().map_or(0.0, |spot| spot.weighted_quantile(weights, p));
        prices.firm * self.reserved + Usd::of(spot)
    }
}
