//! How often to save, where failures are memoryless. Spot spells are not: there
//! [`Outlook::best_interval`](crate::preemption::Outlook::best_interval) decides.
//!
//! Symbols as in Daly 2006: `delta` the stall of one save, `R` the restart, `M` the mean time
//! between failures, `tau` the work between saves, `Ts` the work of the run.

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use crate::error::{Result, in_range};
use crate::quantity::{Seconds, Usd, UsdPerSecond};

const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// Young's interval: sqrt(2 delta M), good for delta far below M.
///
/// Source: Young 1974, doi 10.1145/361147.361115.
///
/// ```
/// use shardwise::checkpoint::young;
/// use shardwise::Seconds;
/// let s = |x: f64| Seconds::new(x).unwrap();
/// assert_eq!(young(s(60.0), s(10_800.0)).get().round(), 1138.0);
/// ```
#[must_use]
pub fn young(delta: Seconds, m: Seconds) -> Seconds {
    Seconds::of((2.0 * delta.get() * m.get()).sqrt())
}

/// Daly's first-order interval: sqrt(2 delta (M + R)) - delta.
///
/// Source: Daly 2006, doi 10.1016/j.future.2004.11.016.
///
/// ```
/// use shardwise::Seconds;
/// use shardwise::checkpoint::daly_first_order;
/// let s = |x: f64| Seconds::new(x).unwrap();
/// // sqrt(2 x 60 x 11,100) - 60.
/// assert_eq!(daly_first_order(s(60.0), s(300.0), s(10_800.0)).get().round(), 1094.0);
/// ```
#[must_use]
pub fn daly_first_order(delta: Seconds, r: Seconds, m: Seconds) -> Seconds {
    Seconds::of((2.0 * delta.get() * (m + r).get()).sqrt() - delta.get()).max(Seconds::ZERO)
}

/// Daly's higher-order interval: sqrt(2 delta M) (1 + sqrt(delta / 2M) / 3 + (delta / 2M) / 9) -
/// delta below delta = 2M, else M.
///
/// Source: Daly 2006, equation 37.
///
/// ```
/// use shardwise::checkpoint::daly;
/// use shardwise::Seconds;
/// let s = |x: f64| Seconds::new(x).unwrap();
/// assert_eq!(daly(s(60.0), s(10_800.0)).get().round(), 1099.0);
/// assert_eq!(daly(s(60.0), s(10.0)), s(10.0));
/// ```
#[must_use]
pub fn daly(delta: Seconds, m: Seconds) -> Seconds {
    let (d, m) = (delta.get(), m.get());
    if d >= 2.0 * m {
        return Seconds::of(m);
    }
    let x = (d / (2.0 * m)).sqrt();
    Seconds::of((2.0 * d * m).sqrt() * (1.0 + x / 3.0 + x * x / 9.0) - d)
}

/// Expected time of a run: M e^(R/M) (e^((tau + delta) / M) - 1) Ts / tau.
///
/// Source: Daly 2006, equation 20.
#[must_use]
pub fn expected_time(work: Seconds, tau: Seconds, delta: Seconds, r: Seconds, m: Seconds) -> Seconds {
    let m_s = m.get();
    let per_segment = m_s * libm::exp(r / m) * libm::expm1((tau + delta) / m);
    Seconds::of((per_segment * (work / tau)).min(1e13))
}

/// The exact minimum of [`expected_time`]: tau = M (1 + W(-e^(-1 - delta / M))).
///
/// Its derivative vanishes where (tau/M - 1) e^(tau/M - 1) = -e^(-1 - delta/M); W is Lambert's
/// function. Neither the restart nor the wait for capacity moves it: they scale every interval's
/// time alike, so the money of machines is least there too.
///
/// ```
/// use shardwise::checkpoint::{expected_time, optimum, young};
/// use shardwise::Seconds;
/// let s = |x: f64| Seconds::new(x).unwrap();
/// let tau = optimum(s(60.0), s(10_800.0));
/// assert_eq!(format!("{:.1}", tau.get()), "1098.8");
/// let cost = |tau| expected_time(s(1e6), tau, s(60.0), s(300.0), s(10_800.0));
/// assert!(cost(tau) <= cost(tau * 0.99) && cost(tau) <= cost(tau * 1.01));
/// assert!(cost(tau) <= cost(young(s(60.0), s(10_800.0))));
/// ```
#[must_use]
pub fn optimum(delta: Seconds, m: Seconds) -> Seconds {
    m * (1.0 + lambert_w0(-libm::exp(-1.0 - delta / m)))
}

/// The principal branch of Lambert's W: w e^w = x, for x >= -1/e.
///
/// Source: Corless et al. 1996, with the branch-point series near -1/e and Halley's iteration.
///
/// ```
/// use shardwise::checkpoint::lambert_w0;
/// assert!((lambert_w0(1.0) - 0.567_143_290_409_783_8).abs() < 1e-15);
/// assert!((lambert_w0(-0.2) + 0.259_171_101_819_073_8).abs() < 1e-14);
/// ```
#[must_use]
pub fn lambert_w0(x: f64) -> f64 {
    const E: f64 = core::f64::consts::E;
    if x.is_nan() || x < -1.0 / E {
        return -1.0;
    }
    // Near the branch point Halley's steps lose digits that the series keeps.
    let p = (2.0 * (E * x + 1.0).max(0.0)).sqrt();
    if p < 1e-2 {
        return -1.0 + p * (1.0 - p * (1.0 / 3.0 - p * (11.0 / 72.0 - p * 43.0 / 540.0)));
    }
    let mut w =
        if x < 1.0 { -1.0 + p * (1.0 - p * (1.0 / 3.0 - p * 11.0 / 72.0)) } else { libm::log(x).max(0.5) };
    for _ in 0..40 {
        let e = libm::exp(w);
        let f = w * e - x;
        let step = f / (e * (w + 1.0) - (w + 2.0) * f / (2.0 * w + 2.0));
        w -= step;
        if step.abs() < 1e-16 * (1.0 + w.abs()) {
            break;
        }
    }
    w
}

/// The interval with the least money when each save also costs `fee` (requests, egress, storage),
/// machines `price` per time: the minimum of price x time + fee x saves, saves made again included.
///
/// Without a fee it is the [`optimum`].
///
/// ```
/// use shardwise::checkpoint::{optimum, optimum_for_money};
/// use shardwise::{Seconds, Usd, UsdPerSecond};
/// let s = |x: f64| Seconds::new(x).unwrap();
/// let (delta, r, m) = (s(60.0), s(300.0), s(10_800.0));
/// let price = UsdPerSecond::new(0.02).unwrap();
/// let free = optimum_for_money(delta, r, m, price, Usd::ZERO);
/// assert!((free / optimum(delta, m) - 1.0).abs() < 1e-6);
/// // At 72 USD an hour a fee of 5 USD a save is like 250 s more of stall.
/// let dear = optimum_for_money(delta, r, m, price, Usd::new(5.0).unwrap());
/// assert_eq!(dear.get().round(), 2371.0);
/// ```
#[must_use]
pub fn optimum_for_money(delta: Seconds, r: Seconds, m: Seconds, price: UsdPerSecond, fee: Usd) -> Seconds {
    let unit = Seconds::of(1.0);
    let cost = |x: f64| {
        let tau = Seconds::of(libm::exp(x));
        let machines = price * expected_time(unit, tau, delta, r, m);
        machines.get() + fee.get() / tau.get()
    };
    let (mut low, mut high) =
        (libm::log((optimum(delta, m).get() / 4.0).max(1e-9)), libm::log(m.get() * 8.0));
    for _ in 0..80 {
        let (a, b) = (high - GOLDEN * (high - low), low + GOLDEN * (high - low));
        if cost(a) <= cost(b) {
            high = b;
        } else {
            low = a;
        }
    }
    let found = Seconds::of(libm::exp(f64::midpoint(low, high)));
    if fee <= Usd::ZERO { optimum(delta, m) } else { found }
}

/// A save every so many optimizer steps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Cadence {
    /// Steps between two saves.
    pub steps: u32,
    /// Time of one step, in seconds.
    pub step: Seconds,
}

/// What an interval costs against the best.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToJson)]
pub struct IntervalCost {
    /// The interval.
    pub interval: Seconds,
    /// Expected time of the run with it.
    pub time: Seconds,
    /// The best interval.
    pub best: Seconds,
    /// Expected time of the run with that.
    pub best_time: Seconds,
}

impl IntervalCost {
    /// Time lost by not saving at the best interval, as a share of the best time.
    #[must_use]
    pub fn excess(&self) -> f64 {
        self.time / self.best_time - 1.0
    }
}

impl Cadence {
    /// Prices this cadence against the best interval for a run of `work`.
    ///
    /// ```
    /// use shardwise::checkpoint::Cadence;
    /// use shardwise::Seconds;
    /// let s = |x: f64| Seconds::new(x).unwrap();
    /// // Every 500 steps of 12 s, a failure every 3 h: 100 min between saves cost a fifth more.
    /// let rare = Cadence { steps: 500, step: s(12.0) };
    /// let cost = rare.price(s(1e6), s(60.0), s(600.0), s(10_800.0)).unwrap();
    /// assert_eq!(format!("{:.2}", cost.excess()), "0.22");
    /// ```
    ///
    /// # Errors
    /// If a field is outside its range.
    pub fn price(&self, work: Seconds, delta: Seconds, r: Seconds, m: Seconds) -> Result<IntervalCost> {
        in_range("steps", f64::from(self.steps), 1.0, 1e9)?;
        in_range("step", self.step.get(), 1e-6, 1e7)?;
        in_range("work", work.get(), 1.0, 1e10)?;
        in_range("delta", delta.get(), 1e-6, 1e7)?;
        in_range("m", m.get(), 1.0, 1e15)?;
        let interval = self.step * f64::from(self.steps);
        let best = optimum(delta, m);
        Ok(IntervalCost {
            interval,
            time: expected_time(work, interval, delta, r, m),
            best,
            best_time: expected_time(work, best, delta, r, m),
        })
    }
}

/// Intervals of light saves (to a peer's memory or a local drive) and full ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, ToJson)]
pub struct TwoLevelPlan {
    /// Work between two light saves.
    pub near: Seconds,
    /// Work between two full saves.
    pub far: Seconds,
    /// Share of time lost to saves and to work done again, to first order.
    pub lost: f64,
}

/// The best pair of intervals when a share `recoverable` of failures can be recovered from the
/// light level: each level is Young's for its own failures, sqrt(2 d M / p) for
/// light saves of stall d, sqrt(2 D M / (1 - p)) for full ones of stall D; lost: sqrt(2 p d / M) +
/// sqrt(2 (1 - p) D / M).
///
/// Source: Vaidya 1995, "A case for two-level distributed recovery schemes"; Moody et al. 2010
/// (SCR).
///
/// ```
/// use shardwise::checkpoint::two_level;
/// use shardwise::Seconds;
/// let s = |x: f64| Seconds::new(x).unwrap();
/// // Full saves of 60 s alone against light ones of 3 s that help in 80 % of failures, every 3 h.
/// let one = two_level(s(60.0), s(60.0), 0.0, s(10_800.0));
/// let two = two_level(s(3.0), s(60.0), 0.8, s(10_800.0));
/// assert!(two.lost < 0.7 * one.lost);
/// assert_eq!((two.near.get().round(), two.far.get().round()), (285.0, 2546.0));
/// assert!((two.lost - 0.068_222).abs() < 1e-6);
/// ```
#[must_use]
pub fn two_level(near_delta: Seconds, far_delta: Seconds, recoverable: f64, m: Seconds) -> TwoLevelPlan {
    let p = recoverable.clamp(0.0, 1.0);
    let interval = |delta: Seconds, share: f64| {
        if share > 0.0 { young(delta, m / share).min(Seconds::of(1e13)) } else { Seconds::of(1e13) }
    };
    let lost = |delta: Seconds, share: f64| (2.0 * share * (delta / m)).sqrt();
    TwoLevelPlan {
        near: interval(near_delta, p),
        far: interval(far_delta, 1.0 - p),
        lost: lost(near_delta, p) + lost(far_delta, 1.0 - p),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preemption::{Availability, Outlook, RestartJob};

    fn s(x: f64) -> Seconds {
        Seconds::of(x)
    }

    #[test]
    fn the_optimum_is_a_minimum_from_both_sides() {
        for delta in [0.5, 60.0, 3000.0] {
            for m in [600.0, 10_800.0, 1e6] {
                let best = optimum(s(delta), s(m));
                let cost = |tau: Seconds| expected_time(s(1e6), tau, s(delta), s(300.0), s(m)).get();
                assert!(cost(best) <= cost(best * 0.98) && cost(best) <= cost(best * 1.02), "{delta} {m}");
                let near = daly(s(delta), s(m));
                assert!(
                    delta > m || cost(near) / cost(best) < 1.01,
                    "{delta} {m}: Daly {near}, exact {best}"
                );
            }
        }
    }

    #[test]
    fn daly_and_the_chain_agree_on_memoryless_failures() -> Result<()> {
        // Daly charges the restart to a spell of its own failures; a restart may fail likewise here.
        let (delta, r, m, tau) = (s(30.0), s(400.0), s(20_000.0), s(1500.0));
        let job = RestartJob { work: s(1.5e6), interval: tau, save: delta, restore: r, provision: s(0.0) };
        let chain = Outlook::new(&job, &Availability::memoryless(m, s(1.0)))?;
        let daly = expected_time(job.work, tau, delta, r, m);
        assert!((chain.expected() / daly - 1.0).abs() < 0.002, "{} {daly}", chain.expected());
        Ok(())
    }

    #[test]
    fn lambert_inverts_its_definition() {
        for w in [-0.999, -0.9, -0.5, -0.1, 0.1, 1.0, 3.0] {
            let back = lambert_w0(w * libm::exp(w));
            assert!((back - w).abs() < 1e-9, "{w} {back}");
        }
    }
}
