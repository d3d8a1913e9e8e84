//! Two exponential phases that share the mean and spread of a spell length.

/// A spell is short (mean `short`) with probability `p_short`, else long (mean `long`).
/// Lengths in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Hyperexponential {
    pub(super) p_short: f64,
    pub(super) short: f64,
    pub(super) long: f64,
}

/// Shares of short spells tried before the best is refined.
const GRID: u32 = 200;
const GOLDEN: f64 = 0.618_033_988_749_894_9;
/// Rounds of golden-section refinement: 0.618^40 is below 1e-8 of the bracket.
const REFINE: u32 = 40;

impl Hyperexponential {
    /// Matches mean and squared coefficient of variation exactly and the given quantiles
    /// (probability, length) as nearly as the one remaining parameter allows.
    ///
    /// With `m` the mean, `c2` the squared variation and `p` the share of short spells, the means
    /// `m -+ m sqrt((c2-1)/2) (p/(1-p))^(-+1/2)` keep both moments for every `p`.
    /// Spells more regular than exponential ones (`c2 <= 1`) are taken as exponential, the
    /// cautious side. Without quantiles the phases carry equal load ("balanced means").
    ///
    /// Source: Whitt, "Approximating a point process by a renewal process, I", 1982.
    pub(super) fn fit(mean: f64, scv: f64, quantiles: &[(f64, f64)]) -> Self {
        if scv <= 1.0 + 1e-9 {
            return Self { p_short: 1.0, short: mean, long: mean };
        }
        // The short mean must stay above zero: p > (c2-1)/(c2+1).
        let least = (scv - 1.0) / (scv + 1.0);
        if quantiles.is_empty() {
            let p = f64::midpoint(1.0, least.sqrt());
            return Self { p_short: p, short: mean / (2.0 * p), long: mean / (2.0 * (1.0 - p)) };
        }
        let at = |x: f64| Self::keeping_moments(mean, scv, least + (1.0 - least) * x);
        let miss = |x: f64| {
            let law = at(x);
            quantiles
                .iter()
                .map(|&(q, length)| {
                    let d = 1.0 - law.survival(length) - q;
                    d * d
                })
                .sum::<f64>()
        };
        let step = 1.0 / f64::from(GRID);
        let mut best = (f64::INFINITY, 0.5);
        for i in 1..GRID {
            let x = f64::from(i) * step;
            let e = miss(x);
            if e < best.0 {
                best = (e, x);
            }
        }
        let (mut low, mut high) = ((best.1 - step).max(1e-3 * step), (best.1 + step).min(1.0 - 1e-3 * step));
        for _ in 0..REFINE {
            let (a, b) = (high - GOLDEN * (high - low), low + GOLDEN * (high - low));
            if miss(a) <= miss(b) {
                high = b;
            } else {
                low = a;
            }
        }
        at(f64::midpoint(low, high))
    }

    fn keeping_moments(mean: f64, scv: f64, p: f64) -> Self {
        let spread = mean * ((scv - 1.0) / 2.0).sqrt();
        Self {
            p_short: p,
            short: mean - ((1.0 - p) / p).sqrt() * spread,
            long: mean + (p / (1.0 - p)).sqrt() * spread,
        }
    }

    /// Probability that a spell lasts longer than `length`.
    pub(super) fn survival(&self, length: f64) -> f64 {
        self.p_short * libm::exp(-length / self.short) + (1.0 - self.p_short) * libm::exp(-length / self.long)
    }

    #[cfg(test)]
    fn moments(&self) -> (f64, f64) {
        let q = 1.0 - self.p_short;
        let mean = self.p_short * self.short + q * self.long;
        let second = 2.0 * (self.p_short * self.short * self.short + q * self.long * self.long);
        (mean, second / (mean * mean) - 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_both_moments_whatever_the_quantiles() {
        for quantiles in [&[][..], &[(0.5, 1800.0)], &[(0.25, 600.0), (0.5, 1200.0), (0.75, 9000.0)]] {
            let law = Hyperexponential::fit(5000.0, 4.5, quantiles);
            let (mean, scv) = law.moments();
            assert!((mean / 5000.0 - 1.0).abs() < 1e-9, "{law:?}");
            assert!((scv / 4.5 - 1.0).abs() < 1e-9, "{law:?}");
        }
    }

    #[test]
    fn a_reachable_median_is_met() {
        let law = Hyperexponential::fit(5000.0, 4.5, &[(0.5, 1800.0)]);
        assert!((law.survival(1800.0) - 0.5).abs() < 1e-4, "{law:?}");
    }

    #[test]
    fn regular_spells_are_taken_as_exponential() {
        let law = Hyperexponential::fit(100.0, 0.3, &[(0.5, 90.0)]);
        assert_eq!((law.short, law.long), (100.0, 100.0));
    }
}
