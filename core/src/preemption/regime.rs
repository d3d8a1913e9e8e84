//! Good and bad times: spells whose lengths are drawn from the same four phases, mixed
//! differently in two regimes that last for many spells.
//!
//! Recorded spot capacity has weeks in which nearly every spell is short. Drawing spells
//! independently, even from the recorded lengths themselves, misses the mean completion time of a
//! day's work by up to 17 % and its ninetieth percentile by up to 39 %, because availability over
//! days scatters up to twice as widely as independent spells allow. Two regimes with one strength and
//! one persistence, met at two window lengths, reproduce the scatter of the recorded one-node zones
//! from 3 h to 8 days within about a tenth.

use nalgebra::{SMatrix, SVector};

use super::availability::{Availability, Swing};
use super::hyperexponential::Hyperexponential;
use super::random::Random;

/// Phases of a spell: short and long in the good regime, short and long in the bad.
pub(super) const PHASES: usize = 4;
type Matrix8 = SMatrix<f64, 8, 8>;
type Vector8 = SVector<f64, 8>;

/// Strength and persistence met in the recorded one-node zones, rounded: fits lie at 0.3 to 0.7
/// and 0.003 to 0.03.
const TYPICAL: (f64, f64) = (0.5, 0.01);
const DAY: f64 = 86_400.0;

/// An alternating process of up and down spells modulated by two regimes. Regimes change only
/// between a down spell and the next up spell, each with equal probability in either direction.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Regimes {
    pub(super) up: Hyperexponential,
    pub(super) down: Hyperexponential,
    /// How far the mixing of short and long differs between regimes, 0 (not at all) to 1.
    pub(super) strength: f64,
    /// Probability that a regime ends with a cycle of up and down.
    pub(super) turnover: f64,
}

impl Regimes {
    /// The process that `availability` describes; `None` where the gang is never lost.
    pub(super) fn of(availability: &Availability) -> Option<Self> {
        let up = availability.up.as_ref()?;
        let down = &availability.down;
        let mut regimes = Self {
            up: Hyperexponential::fit(up.mean.get(), up.scv, &up.quantiles()),
            down: Hyperexponential::fit(down.mean.get(), down.scv, &down.quantiles()),
            strength: 0.0,
            turnover: 0.5,
        };
        match availability.swing {
            Swing::Independent => {}
            Swing::Typical => (regimes.strength, regimes.turnover) = TYPICAL,
            Swing::Measured { day_sd, week_sd, record } => {
                let windows =
                    [(DAY.min(record.get() / 4.0), day_sd), ((7.0 * DAY).min(record.get() / 2.0), week_sd)];
                regimes.meet(&windows);
            }
        }
        Some(regimes)
    }

    /// Sets strength and turnover so that the scatter between windows comes nearest, in squared
    /// logarithms, to the measured one.
    fn meet(&mut self, windows: &[(f64, f64)]) {
        const STRENGTHS: u32 = 10;
        const TURNOVERS: u32 = 12;
        let (longest, shortest) = (libm::log(0.002), libm::log(0.5));
        let miss = |x: f64, y: f64| {
            let trial = Self { strength: x, turnover: libm::exp(y), ..self.clone() };
            windows
                .iter()
                .filter(|(_, sd)| *sd > 0.0)
                .map(|&(window, sd)| {
                    let d = libm::log(trial.scatter(window).max(1e-9) / sd);
                    d * d
                })
                .sum::<f64>()
        };
        let mut best = (miss(0.0, shortest), 0.0, shortest);
        let consider = |x: f64, y: f64, best: &mut (f64, f64, f64)| {
            let (x, y) = (x.clamp(0.0, 1.0), y.clamp(longest, shortest));
            let e = miss(x, y);
            if e < best.0 - 1e-12 {
                *best = (e, x, y);
            }
        };
        for i in 1..=STRENGTHS {
            for j in 0..=TURNOVERS {
                let y = longest + (shortest - longest) * f64::from(j) / f64::from(TURNOVERS);
                consider(f64::from(i) / f64::from(STRENGTHS), y, &mut best);
            }
        }
        let (mut dx, mut dy) = (0.05, 0.23);
        while dx > 0.002 {
            let (before, x, y) = best;
            for (a, b) in [(dx, 0.0), (-dx, 0.0), (0.0, dy), (0.0, -dy)] {
                consider(x + a, y + b, &mut best);
            }
            if best.0 >= before {
                dx /= 2.0;
                dy /= 2.0;
            }
        }
        (self.strength, self.turnover) = (best.1, libm::exp(best.2));
    }

    /// Probability that a spell is long in the good and in the bad regime, for up and for down
    /// spells. Their average over both is the unconditional one.
    fn long(&self) -> ([f64; 2], [f64; 2]) {
        let apart = |p_short: f64| {
            let long = 1.0 - p_short;
            (long, self.strength * long.min(p_short))
        };
        let ((u, du), (d, dd)) = (apart(self.up.p_short), apart(self.down.p_short));
        ([u + du, u - du], [d - dd, d + dd])
    }

    /// Rate at which each up phase ends, per second.
    pub(super) fn up_rates(&self) -> [f64; PHASES] {
        let (a, b) = (1.0 / self.up.short, 1.0 / self.up.long);
        [a, b, a, b]
    }

    /// Rate at which each down phase ends, per second.
    pub(super) fn down_rates(&self) -> [f64; PHASES] {
        let (a, b) = (1.0 / self.down.short, 1.0 / self.down.long);
        [a, b, a, b]
    }

    /// Probability of the down phase (column) that follows an up phase (row).
    pub(super) fn to_down(&self) -> [[f64; PHASES]; PHASES] {
        let (_, [good, bad]) = self.long();
        let (g, b) = ([1.0 - good, good, 0.0, 0.0], [0.0, 0.0, 1.0 - bad, bad]);
        [g, g, b, b]
    }

    /// Probability of the up phase (column) that follows a down phase (row).
    pub(super) fn to_up(&self) -> [[f64; PHASES]; PHASES] {
        let ([good, bad], _) = self.long();
        let (stay, turn) = (1.0 - self.turnover, self.turnover);
        let mix = |g: f64, b: f64| [g * (1.0 - good), g * good, b * (1.0 - bad), b * bad];
        let (g, b) = (mix(stay, turn), mix(turn, stay));
        [g, g, b, b]
    }

    /// Probability of each up phase at the start of an up spell.
    pub(super) fn fresh_up(&self) -> [f64; PHASES] {
        let ([good, bad], _) = self.long();
        [(1.0 - good) / 2.0, good / 2.0, (1.0 - bad) / 2.0, bad / 2.0]
    }

    /// Probability of each up and each down phase at a random moment: phases are met in
    /// proportion to the time spent in them.
    pub(super) fn at_any_moment(&self) -> ([f64; PHASES], [f64; PHASES]) {
        let (_, [good, bad]) = self.long();
        let fresh_down = [(1.0 - good) / 2.0, good / 2.0, (1.0 - bad) / 2.0, bad / 2.0];
        let weigh = |fresh: [f64; PHASES], rates: [f64; PHASES]| {
            let mut time = fresh;
            for (t, rate) in time.iter_mut().zip(rates) {
                *t /= rate;
            }
            time
        };
        let up = weigh(self.fresh_up(), self.up_rates());
        let down = weigh(fresh_down, self.down_rates());
        let cycle: f64 = up.iter().chain(&down).sum();
        (up.map(|t| t / cycle), down.map(|t| t / cycle))
    }

    /// Standard deviation of the share of time up between windows of that length.
    ///
    /// For a stationary chain with generator Q, distribution pi and the indicator f of its up
    /// states, Var[integral of f over t] = 2 (pi f)^T [t D - D^2 (I - e^(Qt))] f with the
    /// deviation matrix D = (1 pi - Q)^-1 - 1 pi.
    ///
    /// Source: Coolen-Schrijner and van Doorn, "The deviation matrix of a continuous-time Markov
    /// chain", 2002.
    pub(super) fn scatter(&self, window: f64) -> f64 {
        let (pi_up, pi_down) = self.at_any_moment();
        let pi = Vector8::from_iterator(pi_up.into_iter().chain(pi_down));
        let mut q = Matrix8::zeros();
        let moves =
            [(self.up_rates(), self.to_down(), 0, PHASES), (self.down_rates(), self.to_up(), PHASES, 0)];
        let mut put = |row: usize, column: usize, rate: f64| {
            if let Some(place) = q.get_mut((row, column)) {
                *place = rate;
            }
        };
        for (rates, to, from, onto) in moves {
            for (i, (rate, row)) in rates.into_iter().zip(to).enumerate() {
                put(from + i, from + i, -rate);
                for (j, p) in row.into_iter().enumerate() {
                    put(from + i, onto + j, rate * p);
                }
            }
        }
        let ones = Vector8::repeat(1.0);
        let limit = ones * pi.transpose();
        let Some(inverse) = (limit - q).try_inverse() else {
            return 0.0;
        };
        let d = inverse - limit;
        let f = Vector8::from_fn(|i, _| if i < PHASES { 1.0 } else { 0.0 });
        let settled = f - exponential(&(q * window)) * f;
        let variance = 2.0 * pi.component_mul(&f).dot(&(d * f * window - d * (d * settled)));
        variance.max(0.0).sqrt() / window
    }

    /// A sampler of alternating spells, beginning with what is left of the spell at hand.
    pub(super) fn spells(&self, any_moment: bool, random: Random) -> SpellSampler {
        let first = if any_moment {
            let (up, down) = self.at_any_moment();
            [up, down]
        } else {
            [self.fresh_up(), [0.0; PHASES]]
        };
        SpellSampler {
            random,
            first: Some(first),
            up: true,
            phase: 0,
            rates: [self.up_rates(), self.down_rates()],
            rows: [self.to_down(), self.to_up()],
        }
    }
}

/// Draws spells: whether the gang is up, and for how many seconds.
pub(super) struct SpellSampler {
    random: Random,
    first: Option<[[f64; PHASES]; 2]>,
    up: bool,
    phase: usize,
    /// Of up and of down phases.
    rates: [[f64; PHASES]; 2],
    /// Probability of the phase that follows, after up and after down.
    rows: [[[f64; PHASES]; PHASES]; 2],
}

impl SpellSampler {
    /// An index, by weights that sum to one.
    fn pick<'w>(&mut self, weights: impl IntoIterator<Item = &'w f64>) -> usize {
        let mut x = self.random.uniform();
        let mut last = 0;
        for (i, w) in weights.into_iter().enumerate() {
            x -= w;
            if *w > 0.0 {
                last = i;
            }
            if x < 0.0 {
                return i;
            }
        }
        last
    }
}

impl Iterator for SpellSampler {
    type Item = (bool, f64);

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(first) = self.first.take() {
            let i = self.pick(first.iter().flatten());
            (self.up, self.phase) = (i < PHASES, i % PHASES);
        }
        let (up, kind) = (self.up, usize::from(!self.up));
        let rate = *self.rates.get(kind)?.get(self.phase)?;
        let row = *self.rows.get(kind)?.get(self.phase)?;
        self.phase = self.pick(&row);
        self.up = !up;
        Some((up, self.random.exponential(1.0 / rate)))
    }
}

/// The matrix exponential by scaling, a Taylor sum and squaring. Own code, since it must give the
/// same bytes on every target: only additions and products, no logarithm.
fn exponential(m: &Matrix8) -> Matrix8 {
    const TERMS: u32 = 14;
    let size = m.column_iter().map(|c| c.iter().map(|x| x.abs()).sum::<f64>()).fold(0.0, f64::max);
    let (mut scale, mut halvings) = (1.0, 0);
    while size * scale > 0.5 && halvings < 60 {
        scale /= 2.0;
        halvings += 1;
    }
    let small = m * scale;
    let mut term = Matrix8::identity();
    let mut sum = Matrix8::identity();
    for k in 1..=TERMS {
        term = term * small / f64::from(k);
        sum += term;
    }
    for _ in 0..halvings {
        sum = sum * sum;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::preemption::{Spells, Start};
    use crate::quantity::Seconds;

    fn zone(swing: Swing) -> Availability {
        Availability {
            up: Some(Spells { scv: 4.5, ..Spells::memoryless(Seconds::of(5400.0)) }),
            down: Spells { scv: 3.0, ..Spells::memoryless(Seconds::of(6000.0)) },
            swing,
            start: Start::AnyMoment,
            loss_share: None,
        }
    }

    #[test]
    fn a_memoryless_pair_scatters_as_the_two_state_chain_does() {
        let memoryless = Regimes::of(&Availability::memoryless(Seconds::of(300.0), Seconds::of(700.0)));
        let (l, m, t) = (1.0 / 300.0, 1.0 / 700.0, 5000.0);
        let r: f64 = l + m;
        // Var = 2 pi0 pi1 / r (t - (1 - e^-rt) / r)
        let variance = 2.0 * 0.3 * 0.7 / r * (t - (1.0 - libm::exp(-r * t)) / r);
        let got = memoryless.map(|x| x.scatter(t)).unwrap_or_default();
        assert!((got / (variance.sqrt() / t) - 1.0).abs() < 1e-9, "{got}");
    }

    #[test]
    fn regimes_leave_the_spells_themselves_alone() {
        for swing in [Swing::Independent, Swing::Typical] {
            if let Some(r) = Regimes::of(&zone(swing)) {
                let (up, down) = r.at_any_moment();
                let share: f64 = up.iter().sum();
                assert!((share - 5400.0 / 11_400.0).abs() < 1e-9);
                assert!((share + down.iter().sum::<f64>() - 1.0).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn measured_scatter_is_met_at_both_windows() {
        let wanted = Regimes::of(&zone(Swing::Typical)).map(|r| (r.scatter(DAY), r.scatter(7.0 * DAY)));
        let (day_sd, week_sd) = wanted.unwrap_or_default();
        let record = Seconds::of(100.0 * DAY);
        let got = Regimes::of(&zone(Swing::Measured { day_sd, week_sd, record }))
            .map(|r| (r.scatter(DAY), r.scatter(7.0 * DAY)));
        let (day, week) = got.unwrap_or_default();
        assert!((day / day_sd - 1.0).abs() < 0.02 && (week / week_sd - 1.0).abs() < 0.02, "{day} {week}");
    }

    #[test]
    fn drawn_spells_have_the_described_share() {
        let regimes = Regimes::of(&zone(Swing::Typical));
        let (mut up, mut all) = (0.0, 0.0);
        if let Some(r) = &regimes {
            for (is_up, length) in r.spells(true, Random::new(3)).take(400_000) {
                all += length;
                up += if is_up { length } else { 0.0 };
            }
        }
        assert!((up / all - 5400.0_f64 / 11_400.0).abs() < 0.02, "{}", up / all);
    }
}
