//! The bill of one training run.

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use crate::error::{Result, in_range};
use crate::quantity::{Bytes, Seconds, Usd, UsdPerSecond};
use crate::term::{Term, Terms};

const LEDGER: &str =
    "cost = GPU-hours x price + stall-hours x price + egress GB x price + checkpoint retries";

/// Paid time of the gang, by what it was spent on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct MachineTime {
    /// Steps that arithmetic or memory holds up.
    pub training: Seconds,
    /// Steps waiting for communication, input or stragglers.
    #[serde(default)]
    pub stalled: Seconds,
    /// Training standing still for saves.
    #[serde(default)]
    pub saving: Seconds,
    /// Starts, restores and work done again after losses.
    #[serde(default)]
    pub redone: Seconds,
    /// Held but idle: waiting for the rest of the gang, for people, for data.
    #[serde(default)]
    pub idle: Seconds,
}

impl MachineTime {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> Seconds {
        self.training + self.stalled + self.saving + self.redone + self.idle
    }

    /// Time spent on a given number of tokens, scaled to `factor` as many: saves and losses grow
    /// with the run.
    #[must_use]
    pub fn scaled(&self, factor: f64) -> Self {
        Self {
            training: self.training * factor,
            stalled: self.stalled * factor,
            saving: self.saving * factor,
            redone: self.redone * factor,
            idle: self.idle * factor,
        }
    }
}

/// Data leaving a provider or a region.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Egress {
    /// How much in all.
    pub bytes: Bytes,
    /// Price per GB (10^9 bytes).
    pub per_gb: Usd,
}

/// Data kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Storage {
    /// How much at a time: data set, kept checkpoints, logs.
    pub bytes: Bytes,
    /// For how many months of 730.5 h.
    pub months: f64,
    /// Price per GB (10^9 bytes) and month.
    pub per_gb_month: Usd,
}

/// Starts that failed before the first step: wrong images, bad nodes, out of memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct FailedStarts {
    /// How many are expected.
    pub count: f64,
    /// Time the gang is held in each.
    pub time: Seconds,
}

/// People who look after the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct People {
    /// Hours worked.
    pub hours: f64,
    /// Cost per hour.
    pub per_hour: Usd,
}

/// Evaluations and tuning runs beside the main run.
///
/// ```
/// use shardwise::ledger::Evaluations;
/// use shardwise::{Seconds, Usd, UsdPerSecond};
/// // 700 runs of half an hour on 8 GPUs at 3.5 USD each: about 10 K USD a month, and 2.5 K when
/// // four share a node.
/// let runs = |shared_by| Evaluations {
///     runs: 700.0, time: Seconds::new(1800.0).unwrap(), gpus: 8.0, shared_by,
/// };
/// let price = UsdPerSecond::new(3.5 / 3600.0).unwrap();
/// assert_eq!(runs(1.0).cost(price).get().round(), 9800.0);
/// assert_eq!(runs(4.0).cost(price).get().round(), 2450.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Evaluations {
    /// How many.
    pub runs: f64,
    /// How long each holds its GPUs.
    pub time: Seconds,
    /// GPUs each holds.
    pub gpus: f64,
    /// How many share the GPUs at a time; 1 if each has its own.
    #[serde(default = "one")]
    pub shared_by: f64,
}

fn one() -> f64 {
    1.0
}

impl Evaluations {
    /// What they cost at a price per GPU.
    #[must_use]
    pub fn cost(&self, per_gpu: UsdPerSecond) -> Usd {
        per_gpu * self.time * (self.runs * self.gpus / self.shared_by)
    }
}

/// Everything a run is billed for.
///
/// ```
/// use shardwise::ledger::{Bill, MachineTime};
/// use shardwise::{Seconds, UsdPerSecond};
/// let hours = |h: f64| Seconds::new(h * 3600.0).unwrap();
/// // 128 GPUs at 2 USD for 500 h, a tenth of it stalled; 100 saves of 3 min are 5 h, 640 GPU-hours.
/// let bill = Bill::new(
///     128.0,
///     UsdPerSecond::new(2.0 / 3600.0).unwrap(),
///     MachineTime { training: hours(450.0), stalled: hours(50.0), saving: hours(5.0), ..Default::default() },
/// );
/// let lines = bill.lines().unwrap();
/// assert_eq!(lines.get("saving").unwrap().get().round(), 1280.0);
/// assert_eq!(lines.total().get().round(), 129_280.0);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Bill {
    /// GPUs of the gang.
    pub gpus: f64,
    /// Price of one GPU per time.
    pub per_gpu: UsdPerSecond,
    /// Paid time of the gang at that price.
    pub time: MachineTime,
    /// Paid time on dearer machines that are not taken away, after a fall-back.
    #[serde(default)]
    pub firm_time: Seconds,
    /// Price of one such GPU per time.
    #[serde(default)]
    pub firm_per_gpu: UsdPerSecond,
    /// Saves cut short and made again, as time of the gang.
    #[serde(default)]
    pub retried_saves: Seconds,
    /// Starts that failed.
    #[serde(default)]
    pub failed_starts: Option<FailedStarts>,
    /// Data leaving.
    #[serde(default)]
    pub egress: Option<Egress>,
    /// Data kept.
    #[serde(default)]
    pub storage: Option<Storage>,
    /// People.
    #[serde(default)]
    pub people: Option<People>,
    /// Evaluations and tuning runs.
    #[serde(default)]
    pub evaluations: Option<Evaluations>,
}

impl Bill {
    /// A bill for machines alone.
    #[must_use]
    pub fn new(gpus: f64, per_gpu: UsdPerSecond, time: MachineTime) -> Self {
        Self {
            gpus,
            per_gpu,
            time,
            firm_time: Seconds::ZERO,
            firm_per_gpu: UsdPerSecond::ZERO,
            retried_saves: Seconds::ZERO,
            failed_starts: None,
            egress: None,
            storage: None,
            people: None,
            evaluations: None,
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// Names the first field outside its range.
    pub fn validate(&self) -> Result<()> {
        in_range("gpus", self.gpus, 0.0, 1e7)?;
        in_range("per_gpu", self.per_gpu.get(), 0.0, 1e3)?;
        in_range("firm_per_gpu", self.firm_per_gpu.get(), 0.0, 1e3)?;
        for (field, time) in [
            ("time.training", self.time.training),
            ("time.stalled", self.time.stalled),
            ("time.saving", self.time.saving),
            ("time.redone", self.time.redone),
            ("time.idle", self.time.idle),
            ("firm_time", self.firm_time),
            ("retried_saves", self.retried_saves),
        ] {
            in_range(field, time.get(), 0.0, 1e13)?;
        }
        if let Some(f) = self.failed_starts {
            in_range("failed_starts.count", f.count, 0.0, 1e6)?;
            in_range("failed_starts.time", f.time.get(), 0.0, 1e9)?;
        }
        if let Some(e) = self.egress {
            in_range("egress.bytes", e.bytes.get(), 0.0, 1e21)?;
            in_range("egress.per_gb", e.per_gb.get(), 0.0, 1e3)?;
        }
        if let Some(s) = self.storage {
            in_range("storage.bytes", s.bytes.get(), 0.0, 1e21)?;
            in_range("storage.months", s.months, 0.0, 1200.0)?;
            in_range("storage.per_gb_month", s.per_gb_month.get(), 0.0, 1e3)?;
        }
        if let Some(p) = self.people {
            in_range("people.hours", p.hours, 0.0, 1e7)?;
            in_range("people.per_hour", p.per_hour.get(), 0.0, 1e5)?;
        }
        if let Some(e) = self.evaluations {
            in_range("evaluations.runs", e.runs, 0.0, 1e8)?;
            in_range("evaluations.time", e.time.get(), 0.0, 1e9)?;
            in_range("evaluations.gpus", e.gpus, 0.0, 1e6)?;
            in_range("evaluations.shared_by", e.shared_by, 1.0, 1e4)?;
        }
        Ok(())
    }

    /// The bill, line by line.
    ///
    /// # Errors
    /// If a field is outside its range.
    pub fn lines(&self) -> Result<Terms<Usd>> {
        self.validate()?;
        let gang = self.per_gpu * self.gpus;
        let mut lines = Vec::new();
        let mut line = |name: &'static str, amount: Usd, formula: &'static str| {
            if amount != Usd::ZERO {
                lines.push(Term::new(name, amount, formula, LEDGER));
            }
        };
        line("training", gang * self.time.training, "GPUs x hours x price");
        line("stalled", gang * self.time.stalled, "GPUs x stall-hours x price");
        line("saving", gang * self.time.saving, "GPUs x saves x stall x price");
        line("redone", gang * self.time.redone, "GPUs x (starts + restores + work done again) x price");
        line("idle", gang * self.time.idle, "GPUs x idle hours x price");
        line(
            "firm machines",
            self.firm_per_gpu * self.gpus * self.firm_time,
            "GPUs x hours x on-demand or reserved price",
        );
        line("retried saves", gang * self.retried_saves, "GPUs x cut saves x stall x price");
        if let Some(f) = self.failed_starts {
            line("failed starts", gang * f.time * f.count, "starts x GPUs x hours x price");
        }
        if let Some(e) = self.egress {
            line("egress", e.per_gb * (e.bytes.get() / 1e9), "GB x price");
        }
        if let Some(s) = self.storage {
            line("storage", s.per_gb_month * (s.bytes.get() / 1e9 * s.months), "GB x months x price");
        }
        if let Some(e) = self.evaluations {
            line("evaluations", e.cost(self.per_gpu), "runs x GPUs x hours x price / sharing");
        }
        if let Some(p) = self.people {
            line("people", p.per_hour * p.hours, "hours x cost per hour");
        }
        Ok(Terms(lines))
    }
}

/// Tokens left to train on when a share of the data set is duplicated.
///
/// ```
/// use shardwise::ledger::deduplicated;
/// assert_eq!(deduplicated(2e12, 0.25), 1.5e12);
/// ```
#[must_use]
pub fn deduplicated(tokens: f64, duplicated_share: f64) -> f64 {
    tokens * (1.0 - duplicated_share.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_overlapped_away_shows_in_its_line() -> Result<()> {
        // 27 % of the time stalled against 11 %: the same training time in 0.73 / 0.89 of the whole.
        let s = Seconds::of;
        let bill = |stalled: f64| {
            let time = MachineTime {
                training: s(73.0 * 3600.0),
                stalled: s(stalled * 3600.0),
                ..MachineTime::default()
            };
            Bill::new(8.0, UsdPerSecond::of(2.0 / 3600.0), time).lines()
        };
        let (before, after) = (bill(27.0)?, bill(73.0 * 0.11 / 0.89)?);
        assert!((after.total() / before.total() - 0.73 / 0.89).abs() < 1e-9);
        assert_eq!(before.get("training"), after.get("training"));
        Ok(())
    }

    #[test]
    fn every_line_is_there_and_they_add_up() -> Result<()> {
        let s = Seconds::of;
        let time = MachineTime { training: s(3600.0), idle: s(360.0), ..MachineTime::default() };
        let bill = Bill {
            failed_starts: Some(FailedStarts { count: 2.0, time: s(900.0) }),
            egress: Some(Egress { bytes: Bytes::of(1e12), per_gb: Usd::of(0.09) }),
            storage: Some(Storage { bytes: Bytes::of(5e12), months: 2.0, per_gb_month: Usd::of(0.023) }),
            people: Some(People { hours: 10.0, per_hour: Usd::of(80.0) }),
            firm_time: s(1800.0),
            firm_per_gpu: UsdPerSecond::of(1e-3),
            ..Bill::new(8.0, UsdPerSecond::of(5e-4), time)
        };
        let lines = bill.lines()?;
        let hand = 8.0 * 5e-4 * (3600.0 + 360.0 + 1800.0) + 90.0 + 230.0 + 800.0 + 8.0 * 1e-3 * 1800.0;
        assert!((lines.total().get() - hand).abs() < 1e-9);
        let wrong = Bill { gpus: -1.0, ..bill }.lines();
        assert_eq!(wrong.err().map(|e| e.field.clone()), Some("gpus".to_owned()));
        Ok(())
    }
}
