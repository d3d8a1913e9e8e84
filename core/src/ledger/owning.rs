//! Machines that one owns.

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use crate::error::{Result, in_range};
use crate::quantity::{Seconds, Usd, UsdPerSecond};
use crate::term::{Term, Terms};

const SOURCE: &str = "total cost of ownership";
const YEAR_HOURS: f64 = 8766.0;

/// A cluster of one's own: what it costs to have and to run.
///
/// ```
/// use shardwise::ledger::OnPrem;
/// use shardwise::{Usd, UsdPerSecond};
/// let usd = |x: f64| Usd::new(x).unwrap();
/// // 16 nodes of 8 H200: 3.2 M USD to buy, 28 K USD a day to rent the like. Written off over four
/// // years, with power and a staff of two, it pays from an eighth of the time on: the guides' "above
/// // 60 %" needs rents several times lower.
/// let cluster = OnPrem {
///     capex: usd(3.2e6), years: 4.0, resale: usd(0.0), power_kw: 16.0 * 10.2, pue: 1.3,
///     per_kwh: usd(0.12), idle_power: 0.3, staff_per_year: usd(300_000.0), space_per_year: usd(0.0),
/// };
/// let rent = UsdPerSecond::new(28_000.0 / 86_400.0).unwrap();
/// let use_share = cluster.break_even(rent).unwrap();
/// assert!((use_share - 0.116).abs() < 0.001, "{use_share}");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct OnPrem {
    /// Price of everything bought: nodes, network, racks.
    pub capex: Usd,
    /// Years over which it is written off.
    pub years: f64,
    /// What it fetches after that.
    #[serde(default)]
    pub resale: Usd,
    /// Power of the cluster under load, in kW.
    pub power_kw: f64,
    /// Power drawn from the grid over power of the machines.
    #[serde(default = "usual_pue")]
    pub pue: f64,
    /// Price of a kWh.
    pub per_kwh: Usd,
    /// Share of its power that it draws when idle.
    #[serde(default = "usual_idle")]
    pub idle_power: f64,
    /// People who run it, per year.
    #[serde(default)]
    pub staff_per_year: Usd,
    /// Space, contracts and insurance, per year.
    #[serde(default)]
    pub space_per_year: Usd,
}

fn usual_pue() -> f64 {
    1.3
}
fn usual_idle() -> f64 {
    0.3
}

impl OnPrem {
    /// Checks every range.
    ///
    /// # Errors
    /// Names the first field outside its range.
    pub fn validate(&self) -> Result<()> {
        in_range("capex", self.capex.get(), 0.0, 1e12)?;
        in_range("years", self.years, 0.1, 30.0)?;
        in_range("resale", self.resale.get(), 0.0, self.capex.get())?;
        in_range("power_kw", self.power_kw, 0.0, 1e7)?;
        in_range("pue", self.pue, 1.0, 5.0)?;
        in_range("per_kwh", self.per_kwh.get(), 0.0, 10.0)?;
        in_range("idle_power", self.idle_power, 0.0, 1.0)?;
        in_range("staff_per_year", self.staff_per_year.get(), 0.0, 1e11)?;
        in_range("space_per_year", self.space_per_year.get(), 0.0, 1e11)?;
        Ok(())
    }

    /// Cost of the whole cluster per hour of wall-clock time when it is used for that share of it.
    ///
    /// # Errors
    /// If a field is outside its range.
    pub fn per_hour(&self, use_share: f64) -> Result<Terms<Usd>> {
        self.validate()?;
        in_range("use_share", use_share, 0.0, 1.0)?;
        let full = self.per_kwh * (self.power_kw * self.pue);
        let idle = full * (self.idle_power * (1.0 - use_share));
        Ok(Terms(vec![
            Term::new(
                "write-off",
                (self.capex - self.resale) / (self.years * YEAR_HOURS),
                "(capex - resale) / hours owned",
                SOURCE,
            ),
            Term::new("power in use", full * use_share, "kW x PUE x price x use", SOURCE),
            Term::new("power idle", idle, "kW x PUE x price x idle share x (1 - use)", SOURCE),
            Term::new("staff", self.staff_per_year / YEAR_HOURS, "per year / 8766 h", SOURCE),
            Term::new("space", self.space_per_year / YEAR_HOURS, "per year / 8766 h", SOURCE),
        ]))
    }

    /// Cost of an hour in use at that share of use; the bill of a run uses it like a price.
    ///
    /// # Errors
    /// If a field is outside its range, or the cluster is never used.
    pub fn per_used_time(&self, use_share: f64) -> Result<UsdPerSecond> {
        in_range("use_share", use_share, 1e-3, 1.0)?;
        let hour = Seconds::of(3600.0);
        Ok(UsdPerSecond::of((self.per_hour(use_share)?.total() / use_share).get() / hour.get()))
    }

    /// Share of the time from which owning is cheaper than renting the like at `rent`: fixed cost
    /// / (rent - cost of use). Above 1 it never is.
    ///
    /// # Errors
    /// If a field is outside its range.
    pub fn break_even(&self, rent: UsdPerSecond) -> Result<f64> {
        in_range("rent", rent.get(), 0.0, 1e6)?;
        let fixed = self.per_hour(0.0)?.total().get();
        let slope = self.per_hour(1.0)?.total().get() - fixed;
        let gain = (rent * Seconds::of(3600.0)).get() - slope;
        Ok(if gain > 0.0 { fixed / gain } else { f64::MAX })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_break_even_owning_costs_what_renting_does() -> Result<()> {
        let cluster = OnPrem {
            capex: Usd::of(250_000.0),
            years: 3.0,
            resale: Usd::of(40_000.0),
            power_kw: 10.2,
            pue: 1.4,
            per_kwh: Usd::of(0.15),
            idle_power: 0.3,
            staff_per_year: Usd::of(20_000.0),
            space_per_year: Usd::of(6_000.0),
        };
        let rent = UsdPerSecond::of(24.0 / 3600.0);
        let share = cluster.break_even(rent)?;
        assert!(share > 0.0 && share < 1.0);
        assert!((cluster.per_hour(share)?.total().get() - 24.0 * share).abs() < 1e-9);
        assert!((cluster.per_used_time(share)? / rent - 1.0).abs() < 1e-9);
        Ok(())
    }

    #[test]
    fn rent_that_saves_nothing_is_never_beaten() -> Result<()> {
        let cluster: OnPrem =
            serde_json::from_str(r#"{"capex": 1000, "years": 1, "resale": 0, "power_kw": 1, "per_kwh": 0}"#)
                .unwrap();
        assert!((cluster.pue - 1.3).abs() < 1e-12 && (cluster.idle_power - 0.3).abs() < 1e-12);
        // Use costs nothing more, and neither does the rent: a number all the same.
        assert!(cluster.break_even(UsdPerSecond::ZERO)?.total_cmp(&f64::MAX).is_eq());
        Ok(())
    }
}
