//! Two exponential phases that share the mean and spread of a spell length.

/// A spell is short (mean `short`) with probability `p_short`, else long (mean `long`).
/// Lengths in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Hyperexponential {
    pub(super) p_short: f64,
    pub(super) short: f64,
    pub(super) long: f64,
}

/// Shares of short spells, and ratios of their mean to the mean of all, tried before the best pair is
/// refined.
const GRID: u32 = 40;
/// How a miss of the second moment weighs against misses of quantiles: a third in the moment as much as
/// 0.1 in a probability, about the sampling error of either over a few dozen spells.
const MOMENT_WEIGHT: f64 = 0.1;
/// The short mean is at least this share of the mean of all.
const LEAST_RATIO: f64 = 0.01;

impl Hyperexponential {
    /// Keeps the mean, and meets the second moment and the given quantiles (probability, length) with
    /// the least squares of log-moment and probabilities: spells with an upper bound have no two phases
    /// that meet both, and the time that a checkpoint can use hangs on the quantiles.
    ///
    /// Without quantiles the squared variation `scv` is met exactly by phases of equal load ("balanced
    /// means"). Spells more regular than exponential ones (`scv <= 1`) are taken as exponential, the
    /// cautious side.
    ///
    /// Source: Whitt, "Approximating a point process by a renewal process, I", 1982, for balanced means.
    pub(super) fn fit(mean: f64, scv: f64, quantiles: &[(f64, f64)]) -> Self {
        if scv <= 1.0 + 1e-9 {
            return Self { p_short: 1.0, short: mean, long: mean };
        }
        if quantiles.is_empty() {
            let p = f64::midpoint(1.0, ((scv - 1.0) / (scv + 1.0)).sqrt());
            return Self { p_short: p, short: mean / (2.0 * p), long: mean / (2.0 * (1.0 - p)) };
        }
        let miss = |x: f64, y: f64| {
            let law = Self::keeping_mean(mean, x, y);
            let d = libm::log((1.0 + law.scv(mean)) / (1.0 + scv));
            let quantiles: f64 = quantiles
                .iter()
                .map(|&(q, length)| {
                    let d = 1.0 - law.survival(length) - q;
                    d * d
                })
                .sum();
            quantiles + MOMENT_WEIGHT * d * d
        };
        let step = 1.0 / f64::from(GRID);
        let mut best = (f64::INFINITY, 0.5, 0.5);
        let consider = |x: f64, y: f64, best: &mut (f64, f64, f64)| {
            let (x, y) = (x.clamp(0.0, 1.0), y.clamp(0.0, 1.0));
            let e = miss(x, y);
            if e < best.0 {
                *best = (e, x, y);
            }
        };
        for i in 0..=GRID {
            for j in 0..=GRID {
                consider(f64::from(i) * step, f64::from(j) * step, &mut best);
            }
        }
        let mut reach = step;
        while reach > 1e-7 {
            let (before, x, y) = best;
            for (dx, dy) in [
                (1.0, 0.0),
                (-1.0, 0.0),
                (0.0, 1.0),
                (0.0, -1.0),
                (1.0, 1.0),
                (-1.0, -1.0),
                (1.0, -1.0),
                (-1.0, 1.0),
            ] {
                consider(x + dx * reach, y + dy * reach, &mut best);
            }
            if best.0 >= before {
                reach /= 2.0;
            }
        }
        Self::keeping_mean(mean, best.1, best.2)
    }

    /// The law of that mean at a point of the unit square: `x` sets the share of short spells, `y` the
    /// logarithm of their mean.
    fn keeping_mean(mean: f64, x: f64, y: f64) -> Self {
        let p_short = 0.001 + 0.998 * x;
        let short = mean * libm::exp(libm::log(LEAST_RATIO) * (1.0 - y));
        Self { p_short, short, long: (mean - p_short * short) / (1.0 - p_short) }
    }

    /// Squared coefficient of variation.
    fn scv(&self, mean: f64) -> f64 {
        let second = self.p_short * self.short * self.short + (1.0 - self.p_short) * self.long * self.long;
        2.0 * second / (mean * mean) - 1.0
    }

    /// Probability that a spell lasts longer than `length`.
    pub(super) fn survival(&self, length: f64) -> f64 {
        self.p_short * libm::exp(-length / self.short) + (1.0 - self.p_short) * libm::exp(-length / self.long)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_kept_whatever_the_quantiles() {
        for quantiles in [&[][..], &[(0.5, 1800.0)], &[(0.25, 600.0), (0.5, 1200.0), (0.75, 9000.0)]] {
            let law = Hyperexponential::fit(5000.0, 4.5, quantiles);
            let mean = law.p_short * law.short + (1.0 - law.p_short) * law.long;
            assert!((mean / 5000.0 - 1.0).abs() < 1e-9, "{law:?}");
        }
        assert!((Hyperexponential::fit(5000.0, 4.5, &[]).scv(5000.0) / 4.5 - 1.0).abs() < 1e-9);
    }

    #[test]
    fn reachable_figures_are_met() {
        let truth = Hyperexponential { p_short: 0.7, short: 1500.0, long: 12_000.0 };
        let mean = 0.7 * 1500.0 + 0.3 * 12_000.0;
        let quantiles = [900.0, 2500.0, 7000.0].map(|t| (1.0 - truth.survival(t), t));
        let law = Hyperexponential::fit(mean, truth.scv(mean), &quantiles);
        assert!((law.scv(mean) / truth.scv(mean) - 1.0).abs() < 1e-3, "{law:?}");
        assert!((law.p_short - 0.7).abs() < 1e-2 && (law.long / 12_000.0 - 1.0).abs() < 1e-2, "{law:?}");
    }

    #[test]
    fn regular_spells_are_taken_as_exponential() {
        let law = Hyperexponential::fit(100.0, 0.3, &[(0.5, 90.0)]);
        assert_eq!((law.short, law.long), (100.0, 100.0));
    }
}
