//! How a gang of nodes comes and goes, by at most twelve figures that a user can know.

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use crate::error::{Error, ErrorCode, Result, in_range};
use crate::quantity::Seconds;

/// A spell may last from a second to about 300 years.
const LONGEST: f64 = 1e10;

/// When the complete gang is there and when it is not.
///
/// ```
/// use shardwise::preemption::{Availability, Spells, Start, Swing};
/// use shardwise::Seconds;
/// let hours = |h: f64| Seconds::new(h * 3600.0).unwrap();
/// let zone = Availability {
///     up: Some(Spells { mean: hours(5.7), scv: 5.8, ..Spells::memoryless(hours(5.7)) }),
///     down: Spells { scv: 3.0, ..Spells::memoryless(hours(1.8)) },
///     swing: Swing::Typical,
///     start: Start::AnyMoment,
///     loss_share: None,
/// };
/// assert!(zone.validate().is_ok());
/// assert!((zone.share_up() - 0.76).abs() < 0.001);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Availability {
    /// Spells with the complete gang; their mean is the reciprocal of the gang's hazard. Absent:
    /// it is never lost.
    #[serde(default)]
    pub up: Option<Spells>,
    /// Spells without it: the wait for capacity, before provisioning.
    pub down: Spells,
    /// How much availability swings between days and between weeks, beyond what the spells' own
    /// scatter brings.
    #[serde(default)]
    pub swing: Swing,
    /// What is known of the moment the job is started.
    #[serde(default)]
    pub start: Start,
    /// Mean share of the gang that one loss takes, in (0, 1]: 1 when the whole gang goes at once.
    #[serde(default)]
    pub loss_share: Option<f64>,
}

/// Lengths of spells. They are heavy-tailed in every recorded trace, so the mean alone misleads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Spells {
    /// Mean length, in seconds.
    pub mean: Seconds,
    /// Squared coefficient of variation: variance over squared mean. 1 for memoryless spells, 2
    /// to 7 in recorded traces.
    #[serde(default = "memoryless_scv")]
    pub scv: f64,
    /// A quarter of the spells are shorter than this, in seconds.
    #[serde(default)]
    pub lower_quartile: Option<Seconds>,
    /// Half of the spells are shorter than this, in seconds.
    #[serde(default)]
    pub median: Option<Seconds>,
    /// A quarter of the spells are longer than this, in seconds.
    #[serde(default)]
    pub upper_quartile: Option<Seconds>,
}

/// How much the share of time with a complete gang differs between one day and another and
/// between one week and another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Swing {
    /// Every spell is drawn afresh: good and bad times are chance alone.
    Independent,
    /// Good and bad times last for days, as in the recorded traces.
    #[default]
    Typical,
    /// Measured over a record of the gang.
    Measured {
        /// Standard deviation of that share between windows of a day (a quarter of the record
        /// where that is shorter).
        day_sd: f64,
        /// The same between windows of a week (half the record where that is shorter).
        week_sd: f64,
        /// Length of the record, in seconds.
        record: Seconds,
    },
}

/// What is known of the moment the job is started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Start {
    /// It falls anywhere: inside a spell, and likelier inside a long one.
    #[default]
    AnyMoment,
    /// The gang has just become complete.
    WithCapacity,
}

fn memoryless_scv() -> f64 {
    1.0
}

impl Spells {
    /// Exponentially distributed spells.
    #[must_use]
    pub fn memoryless(mean: Seconds) -> Self {
        Self { mean, scv: 1.0, lower_quartile: None, median: None, upper_quartile: None }
    }

    /// The known quantiles, as probability and length.
    pub(super) fn quantiles(&self) -> Vec<(f64, f64)> {
        [(0.25, self.lower_quartile), (0.5, self.median), (0.75, self.upper_quartile)]
            .into_iter()
            .filter_map(|(q, length)| Some((q, length?.get())))
            .collect()
    }

    /// Mean of what is left of a spell seen at a random moment: `E[X^2] / 2 E[X]`.
    ///
    /// ```
    /// use shardwise::preemption::Spells;
    /// use shardwise::Seconds;
    /// let waits = Spells { scv: 3.0, ..Spells::memoryless(Seconds::new(3600.0).unwrap()) };
    /// assert_eq!(waits.residual().get(), 7200.0);
    /// ```
    #[must_use]
    pub fn residual(&self) -> Seconds {
        self.mean * f64::midpoint(1.0, self.scv)
    }

    fn validate(&self) -> Result<()> {
        in_range("mean", self.mean.get(), 1.0, LONGEST)?;
        in_range("scv", self.scv, 0.0, 1000.0)?;
        let mut shorter = 0.0;
        for (field, length) in [
            ("lower_quartile", self.lower_quartile),
            ("median", self.median),
            ("upper_quartile", self.upper_quartile),
        ] {
            if let Some(length) = length {
                shorter = in_range(field, length.get(), shorter, LONGEST)?;
            }
        }
        Ok(())
    }
}

impl Availability {
    /// A gang that is never lost and there from the start.
    #[must_use]
    pub fn undisturbed() -> Self {
        Self {
            up: None,
            down: Spells::memoryless(Seconds::of(1.0)),
            swing: Swing::Independent,
            start: Start::WithCapacity,
            loss_share: None,
        }
    }

    /// Memoryless failures of a gang whose replacement takes `down` on average, as with hardware
    /// faults.
    #[must_use]
    pub fn memoryless(mean_up: Seconds, mean_down: Seconds) -> Self {
        Self {
            up: Some(Spells::memoryless(mean_up)),
            down: Spells::memoryless(mean_down),
            swing: Swing::Independent,
            start: Start::WithCapacity,
            loss_share: None,
        }
    }

    /// Checks every range.
    ///
    /// # Errors
    /// Names the first field outside its range.
    pub fn validate(&self) -> Result<()> {
        if let Some(up) = &self.up {
            up.validate().map_err(|e| e.under("up"))?;
        }
        self.down.validate().map_err(|e| e.under("down"))?;
        if let Some(share) = self.loss_share
            && !(share > 0.0 && share <= 1.0)
        {
            return Err(Error::new("loss_share", ErrorCode::OutOfRange, share, "a number above 0, up to 1"));
        }
        if let Swing::Measured { day_sd, week_sd, record } = self.swing {
            in_range("swing.day_sd", day_sd, 0.0, 0.5)?;
            in_range("swing.week_sd", week_sd, 0.0, 0.5)?;
            in_range("swing.record", record.get(), 60.0, LONGEST)?;
        }
        Ok(())
    }

    /// Share of time with the complete gang.
    #[must_use]
    pub fn share_up(&self) -> f64 {
        match &self.up {
            None => 1.0,
            Some(up) => up.mean / (up.mean + self.down.mean),
        }
    }

    /// Losses of the gang per hour that it is up.
    #[must_use]
    pub fn losses_per_hour(&self) -> f64 {
        self.up.as_ref().map_or(0.0, |up| 1.0 / up.mean.hours())
    }

    /// Everything the model sees, by name, in base units.
    #[must_use]
    pub fn figures(&self) -> Vec<(&'static str, f64)> {
        let mut seen = Vec::new();
        let mut tell = |spells: &Spells, names: [&'static str; 5]| {
            seen.push((names[0], spells.mean.get()));
            seen.push((names[1], spells.scv));
            let quartiles = [spells.lower_quartile, spells.median, spells.upper_quartile];
            for (name, length) in names.into_iter().skip(2).zip(quartiles) {
                seen.extend(length.map(|l| (name, l.get())));
            }
        };
        if let Some(up) = &self.up {
            tell(up, ["up.mean", "up.scv", "up.lower_quartile", "up.median", "up.upper_quartile"]);
        }
        tell(
            &self.down,
            ["down.mean", "down.scv", "down.lower_quartile", "down.median", "down.upper_quartile"],
        );
        if let Swing::Measured { day_sd, week_sd, record } = self.swing {
            seen.extend([("day_sd", day_sd), ("week_sd", week_sd), ("record", record.get())]);
        }
        seen.extend(self.loss_share.map(|share| ("loss_share", share)));
        seen
    }
}
