//! A small seeded generator, so that a simulation gives the same bytes everywhere.

/// Pseudo-random numbers from a seed: xoshiro256++, its state filled by splitmix64.
///
/// Source: Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021.
///
/// ```
/// use shardwise::preemption::Random;
/// let (mut a, mut b) = (Random::new(7), Random::new(7));
/// assert_eq!(a.uniform(), b.uniform());
/// ```
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// The stream that belongs to `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        let state = [(); 4].map(|()| {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = x;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        Self { state }
    }

    fn next(&mut self) -> u64 {
        let [s0, s1, s2, s3] = self.state;
        let result = s0.wrapping_add(s3).rotate_left(23).wrapping_add(s0);
        let (s2, s3) = (s2 ^ s0, s3 ^ s1);
        self.state = [s0 ^ s3, s1 ^ s2, s2 ^ (s1 << 17), s3.rotate_left(45)];
        result
    }

    /// A generator of its own stream, for one of many runs.
    #[must_use]
    pub fn split(&mut self) -> Self {
        Self::new(self.next())
    }

    /// A number in [0, 1), 53 bits of it random.
    pub fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / 9_007_199_254_740_992.0
    }

    /// An exponential draw of that mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -mean * libm::log1p(-self.uniform())
    }

    /// True with that probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.uniform() < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_draws_have_their_mean() {
        let mut random = Random::new(1);
        let n = 100_000;
        let mean = (0..n).map(|_| random.exponential(3.0)).sum::<f64>() / f64::from(n);
        assert!((mean - 3.0).abs() < 0.05, "{mean}");
    }
}
