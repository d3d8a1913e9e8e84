//! Ways of getting machines, side by side.

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use super::owning::OnPrem;
use crate::error::{Result, in_range};
use crate::quantity::{Seconds, Usd, UsdPerSecond};

/// Hours of a mean month.
const MONTH_HOURS: f64 = 730.5;

/// What is needed in a month.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Demand {
    /// Undisturbed hours of the gang that the work takes in a month, at most 730.5.
    pub hours: f64,
    /// For how many months.
    pub months: f64,
}

/// One way of getting the gang.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Offer {
    /// Paid while held, never taken away.
    OnDemand {
        /// Price of the gang per time.
        price: UsdPerSecond,
    },
    /// Paid while held; may be taken away.
    Spot {
        /// Price of the gang per time.
        price: UsdPerSecond,
        /// Hours paid per undisturbed hour: [`held`](crate::preemption::Outlook::held) over the
        /// undisturbed time.
        paid_per_hour: f64,
        /// Hours of wall-clock time per undisturbed hour.
        time_per_hour: f64,
    },
    /// Paid for every hour of the term, used or not.
    Reserved {
        /// Price of the gang per time.
        price: UsdPerSecond,
        /// Months to which one is bound at least.
        term_months: f64,
    },
    /// Owned.
    OnPrem {
        /// The cluster.
        cluster: OnPrem,
    },
}

/// What one way costs.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
pub struct OfferCost {
    /// Which: its place in the list asked.
    pub offer: usize,
    /// Cost over the months of the demand, the remainder of a term included.
    pub total: Usd,
    /// Wall-clock hours a month that the work takes.
    pub hours: f64,
    /// Whether the work fits into the month; if not, the machines are too few.
    pub fits: bool,
}

impl OfferCost {
    /// Cost of a month.
    #[must_use]
    pub fn per_month(&self, demand: &Demand) -> Usd {
        self.total / demand.months
    }
}

/// The cost of each offer for the same demand, in the order given.
///
/// ```
/// use shardwise::ledger::{Demand, Offer, side_by_side};
/// use shardwise::UsdPerSecond;
/// let hourly = |usd: f64| UsdPerSecond::new(usd / 3600.0).unwrap();
/// // A node of 180 USD an hour, 12 h a day, is 65.7 K USD a month; a reservation at 42 K wins.
/// let demand = Demand { hours: 365.25, months: 1.0 };
/// let offers = [
///     Offer::OnDemand { price: hourly(180.0) },
///     Offer::Reserved { price: hourly(42_000.0 / 730.5), term_months: 1.0 },
/// ];
/// let costs = side_by_side(&demand, &offers).unwrap();
/// assert_eq!(costs[0].total.get().round(), 65_745.0);
/// assert_eq!(costs[1].total.get().round(), 42_000.0);
/// ```
///
/// # Errors
/// If a field is outside its range.
pub fn side_by_side(demand: &Demand, offers: &[Offer]) -> Result<Vec<OfferCost>> {
    in_range("demand.hours", demand.hours, 0.0, MONTH_HOURS)?;
    in_range("demand.months", demand.months, 0.01, 360.0)?;
    offers
        .iter()
        .enumerate()
        .map(|(i, offer)| cost(demand, i, offer).map_err(|e| e.entry("offers", i)))
        .collect()
}

fn cost(demand: &Demand, index: usize, offer: &Offer) -> Result<OfferCost> {
    let month = Seconds::of(demand.hours * 3600.0);
    let (total, hours) = match offer {
        Offer::OnDemand { price } => {
            in_range("price", price.get(), 0.0, 1e6)?;
            (*price * month * demand.months, demand.hours)
        }
        Offer::Spot { price, paid_per_hour, time_per_hour } => {
            in_range("price", price.get(), 0.0, 1e6)?;
            in_range("paid_per_hour", *paid_per_hour, 0.0, 1e6)?;
            in_range("time_per_hour", *time_per_hour, 0.0, 1e6)?;
            (*price * month * (demand.months * paid_per_hour), demand.hours * time_per_hour)
        }
        Offer::Reserved { price, term_months } => {
            in_range("price", price.get(), 0.0, 1e6)?;
            in_range("term_months", *term_months, 0.0, 360.0)?;
            let bound = demand.months.max(*term_months);
            (*price * Seconds::of(MONTH_HOURS * 3600.0) * bound, demand.hours)
        }
        Offer::OnPrem { cluster } => {
            let per_hour = cluster.per_hour(demand.hours / MONTH_HOURS)?.total();
            (per_hour * (MONTH_HOURS * demand.months), demand.hours)
        }
    };
    Ok(OfferCost { offer: index, total, hours, fits: hours <= MONTH_HOURS })
}

/// Hours a month from which a reservation is cheaper than paying on demand.
///
/// ```
/// use shardwise::ledger::break_even_hours;
/// use shardwise::UsdPerSecond;
/// let hourly = |usd: f64| UsdPerSecond::new(usd / 3600.0).unwrap();
/// assert_eq!(break_even_hours(hourly(180.0), hourly(90.0)), Some(365.25));
/// assert_eq!(break_even_hours(hourly(1.0), hourly(2.0)), None);
/// ```
#[must_use]
pub fn break_even_hours(on_demand: UsdPerSecond, reserved: UsdPerSecond) -> Option<f64> {
    let hours = MONTH_HOURS * (reserved / on_demand);
    (hours.is_finite() && hours <= MONTH_HOURS).then_some(hours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spot_pays_until_its_lost_time_eats_the_discount() -> Result<()> {
        let demand = Demand { hours: 300.0, months: 1.0 };
        let firm = UsdPerSecond::of(10.0 / 3600.0);
        let total = |paid: f64| -> Result<(f64, f64)> {
            let offers = [
                Offer::OnDemand { price: firm },
                Offer::Spot { price: firm * 0.35, paid_per_hour: paid, time_per_hour: 2.0 },
            ];
            let costs = side_by_side(&demand, &offers)?;
            Ok((costs[0].total.get(), costs[1].total.get()))
        };
        let (firm_cost, cheap) = total(1.2)?;
        assert!(cheap < 0.45 * firm_cost);
        let (firm_cost, even) = total(1.0 / 0.35)?;
        assert!((even / firm_cost - 1.0).abs() < 1e-9);
        Ok(())
    }

    #[test]
    fn a_term_binds_beyond_the_need() -> Result<()> {
        let reserved = Offer::Reserved { price: UsdPerSecond::of(1.0), term_months: 12.0 };
        let costs = side_by_side(&Demand { hours: 700.0, months: 3.0 }, &[reserved])?;
        assert!((costs[0].total.get() - 12.0 * MONTH_HOURS * 3600.0).abs() < 1e-3);
        Ok(())
    }

    #[test]
    fn months_add_up() -> Result<()> {
        let offers = [
            Offer::OnDemand { price: UsdPerSecond::of(1e-3) },
            Offer::Spot { price: UsdPerSecond::of(1e-3), paid_per_hour: 1.0, time_per_hour: 1.0 },
            Offer::Reserved { price: UsdPerSecond::of(1e-3), term_months: 1.0 },
        ];
        let of = |months: f64| side_by_side(&Demand { hours: 100.0, months }, &offers);
        for (three, one) in of(3.0)?.iter().zip(of(1.0)?) {
            assert!((three.total / one.total - 3.0).abs() < 1e-12);
        }
        Ok(())
    }
}
