//! Learning from the user's own runs: a handful of measured steps moves the few free constants, each
//! held near its published value by how uncertain that value is.
//!
//! With `x` the logarithms of the factors and `r_i = ln(measured_i / predicted_i(x))`, the fit makes
//! `sum (r_i / s)^2 + sum (x_j / t_j)^2` least within bounds (Gauss-Newton, numeric derivatives).
//! `s` is the spread of repeated measurements, `t_j` that of the published values. The uncertainty of
//! each factor is the root of the diagonal of the inverse of the normal matrix.
//! Source: Tarantola 2005, chapter 3 (least squares with prior).
//!
//! Memory has one factor, on what tensors take, held to 1 in the same way: the mean of the logarithms
//! of measured over predicted, weighed against the spread of published readings.
//!
//! How far later steps lie from their predictions is the spread of published runs, updated by what the
//! fit leaves: `s^2 = (n0 s0^2 + sum r_i^2) / (n0 + n)` (Gelman 2013, section 2.6), `n0` = 5 published
//! runs' worth.

use serde::{Deserialize, Serialize};
use shardwise_derive::{FromJson, ToJson};

use crate::error::{Error, ErrorCode, Result, in_range};
use crate::layout::Layout;
use crate::quantity::Seconds;
use crate::step::Setting;

/// Free constants.
const FACTORS: usize = 5;

/// Name, spread of the published values (standard deviation of the logarithm).
/// Source: ranges in `docs/step-time.md`.
const PRIOR: [(&str, f64); FACTORS] =
    [("matmul", 0.10), ("attention", 0.15), ("memory", 0.12), ("network", 0.30), ("host", 0.40)];
/// Repeats of one configuration differ by this much (median of vendors' own repeats: 6 %).
const NOISE: f64 = 0.06;
/// Factors stay within a third and three times the published value.
const BOUND: f64 = 1.1;
/// Readings of memory of one configuration differ by this much (allocator, release).
const MEMORY_NOISE: f64 = 0.03;
/// Spread of published readings of memory: the 80 % interval of `accuracy memory`, 0.83 to 1.20.
const MEMORY_PRIOR: f64 = 0.14;
/// Runs of one's own after which the spread is as much theirs as that of published runs.
const RUNS: f64 = 5.0;
/// Width of an 80 % interval in standard deviations, one side.
const EIGHTY: f64 = 1.2816;

/// Factors on times; 1 is the published value, above 1 is slower.
///
/// ```
/// use shardwise::calibrate::Calibration;
/// let c: Calibration = serde_json::from_str(r#"{"matmul": 1.08}"#).unwrap();
/// assert_eq!((c.matmul, c.network), (1.08, 1.0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, FromJson, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Calibration {
    /// Matrix products.
    pub matmul: f64,
    /// Attention.
    pub attention: f64,
    /// Memory-bound work: norms, activations, casts, loss, optimizer.
    pub memory: f64,
    /// Traffic between accelerators.
    pub network: f64,
    /// Issuing kernels.
    pub host: f64,
    /// Memory of tensors.
    pub allocated: f64,
    /// Standard deviation of ln(measured / predicted) of step times; none means as in published runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spread: Option<f64>,
}

impl Default for Calibration {
    fn default() -> Self {
        Self {
            matmul: 1.0,
            attention: 1.0,
            memory: 1.0,
            network: 1.0,
            host: 1.0,
            allocated: 1.0,
            spread: None,
        }
    }
}

impl Calibration {
    fn from_logs(x: &[f64; FACTORS]) -> Self {
        let [matmul, attention, memory, network, host] = x.map(libm::exp);
        Self { matmul, attention, memory, network, host, ..Self::default() }
    }

    /// Checks the ranges.
    ///
    /// # Errors
    /// A factor outside 0.01 to 100.
    pub fn validate(&self) -> Result<()> {
        for (field, value) in [
            ("matmul", self.matmul),
            ("attention", self.attention),
            ("memory", self.memory),
            ("network", self.network),
            ("host", self.host),
            ("allocated", self.allocated),
        ] {
            in_range(field, value, 0.01, 100.0)?;
        }
        if let Some(spread) = self.spread {
            in_range("spread", spread, 0.0, 5.0)?;
        }
        Ok(())
    }
}

/// One measured step.
#[derive(Clone, Debug)]
pub struct Observation<'a> {
    /// What ran, and where.
    pub setting: Setting<'a>,
    /// How it was split.
    pub layout: Layout,
    /// What it took.
    pub measured: Seconds,
}

/// One constant after the fit.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct Learnt {
    /// Which.
    pub name: &'static str,
    /// Factor on the published value.
    pub factor: f64,
    /// Lower end of its 80 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Share of the prior's variance that the measurements took away, from 0 (nothing learnt) to 1.
    pub learnt: f64,
}

/// What a calibration found.
#[derive(Clone, Debug, PartialEq, Serialize, ToJson)]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
pub struct CalibrationReport {
    /// The factors to give to later requests.
    pub calibration: Calibration,
    /// Each constant with its uncertainty.
    pub constants: Vec<Learnt>,
    /// Root mean square of ln(measured / predicted) with the published values.
    pub before: f64,
    /// The same with the factors.
    pub after: f64,
    /// In words.
    pub summary: String,
}

/// The factor on memory that measured and predicted bytes tell of.
///
/// ```
/// // One reading 10 % above: nearly all of it is believed.
/// let one = shardwise::calibrate::memory(&[(11e9, 10e9)]);
/// assert!((1.08..1.10).contains(&one.factor) && one.low < one.factor && one.learnt > 0.9);
/// ```
#[must_use]
pub fn memory(readings: &[(f64, f64)]) -> Learnt {
    let precision = 1.0 / (MEMORY_PRIOR * MEMORY_PRIOR);
    let weight = 1.0 / (MEMORY_NOISE * MEMORY_NOISE);
    let sum: f64 =
        readings.iter().map(|(measured, predicted)| libm::log(measured / predicted.max(1.0))).sum();
    let total = weight * readings.len() as f64 + precision;
    learnt("allocated", (weight * sum / total).clamp(-BOUND, BOUND), 1.0 / total, MEMORY_PRIOR)
}

fn learnt(name: &'static str, log: f64, variance: f64, prior: f64) -> Learnt {
    let half = EIGHTY * variance.max(0.0).sqrt();
    Learnt {
        name,
        factor: libm::exp(log),
        low: libm::exp(log - half),
        high: libm::exp(log + half),
        learnt: (1.0 - variance / (prior * prior)).clamp(0.0, 1.0),
    }
}

/// Fits the free constants to measured steps.
///
/// # Errors
/// No step, or a measured time that is not positive.
pub fn calibrate(observations: &[Observation<'_>]) -> Result<CalibrationReport> {
    if observations.is_empty() {
        return Err(Error::new("steps", ErrorCode::MissingField, "", "at least one measured step"));
    }
    for (i, o) in observations.iter().enumerate() {
        let field = format!("steps[{i}].seconds");
        in_range(&field, o.measured.get(), 1e-9, 1e9)?;
    }
    let mut x = [0.0; FACTORS];
    let before = rms(&residuals(observations, &x));
    let mut covariance = prior();
    for _ in 0..12 {
        let r = residuals(observations, &x);
        let jacobian = derivatives(observations, &x, &r);
        let (step, inverse) = gauss_newton(&r, &jacobian, &x);
        covariance = inverse;
        let mut moved = 0.0_f64;
        for (value, change) in x.iter_mut().zip(step) {
            let next = (*value + change).clamp(-BOUND, BOUND);
            moved = moved.max((next - *value).abs());
            *value = next;
        }
        if moved < 1e-6 {
            break;
        }
    }
    let left = residuals(observations, &x);
    let after = rms(&left);
    let constants: Vec<Learnt> = PRIOR
        .iter()
        .enumerate()
        .map(|(j, (name, spread))| {
            let at = |v: &[f64; FACTORS]| v.get(j).copied().unwrap_or(0.0);
            learnt(name, at(&x), covariance.get(j).map_or(0.0, at), *spread)
        })
        .collect();
    let summary = summary(&constants, observations.len(), before, after);
    let published = observations.iter().map(|o| o.setting.spread()).map(|s| s * s).sum::<f64>();
    let n = left.len() as f64;
    let spread = (RUNS * published / n + left.iter().map(|r| r * r).sum::<f64>()) / (RUNS + n);
    let calibration = Calibration { spread: Some(spread.sqrt()), ..Calibration::from_logs(&x) };
    Ok(CalibrationReport { calibration, constants, before, after, summary })
}

fn summary(constants: &[Learnt], steps: usize, before: f64, after: f64) -> String {
    let told: Vec<String> = constants
        .iter()
        .filter(|c| c.learnt > 0.3)
        .map(|c| {
            format!("{} takes {:.2} of its published time ({:.2} to {:.2})", c.name, c.factor, c.low, c.high)
        })
        .collect();
    let what =
        if told.is_empty() { "no constant is known better than before".to_owned() } else { told.join("; ") };
    format!(
        "from {steps} measured steps: {what}; typical error {:.1} % before, {:.1} % after",
        100.0 * before,
        100.0 * after
    )
}

fn rms(r: &[f64]) -> f64 {
    (r.iter().map(|r| r * r).sum::<f64>() / r.len().max(1) as f64).sqrt()
}

fn residuals(observations: &[Observation<'_>], x: &[f64; FACTORS]) -> Vec<f64> {
    let factors = Calibration::from_logs(x);
    observations
        .iter()
        .map(|o| {
            let predicted = o.setting.calibrated(&factors).times(&o.layout).total();
            libm::log(o.measured.get() / predicted.max(1e-12))
        })
        .collect()
}

/// How each residual changes with each factor.
fn derivatives(observations: &[Observation<'_>], x: &[f64; FACTORS], r: &[f64]) -> Vec<[f64; FACTORS]> {
    const STEP: f64 = 1e-3;
    let mut out = vec![[0.0; FACTORS]; r.len()];
    for j in 0..FACTORS {
        let mut shifted = *x;
        if let Some(value) = shifted.get_mut(j) {
            *value += STEP;
        }
        for (row, (new, old)) in out.iter_mut().zip(residuals(observations, &shifted).iter().zip(r)) {
            if let Some(cell) = row.get_mut(j) {
                *cell = (new - old) / STEP;
            }
        }
    }
    out
}

type Matrix = [[f64; FACTORS]; FACTORS];

fn prior() -> Matrix {
    let mut m = [[0.0; FACTORS]; FACTORS];
    for (j, (row, (_, spread))) in m.iter_mut().zip(PRIOR).enumerate() {
        if let Some(cell) = row.get_mut(j) {
            *cell = spread * spread;
        }
    }
    m
}

/// The step to the minimum of the linearised sum, and the inverse of the normal matrix.
fn gauss_newton(r: &[f64], jacobian: &[[f64; FACTORS]], x: &[f64; FACTORS]) -> ([f64; FACTORS], Matrix) {
    let mut normal = [[0.0; FACTORS]; FACTORS];
    let mut gradient = [0.0; FACTORS];
    let weight = 1.0 / (NOISE * NOISE);
    for (i, (row, g)) in normal.iter_mut().zip(gradient.iter_mut()).enumerate() {
        for (j, cell) in row.iter_mut().enumerate() {
            let at = |line: &[f64; FACTORS], k: usize| line.get(k).copied().unwrap_or(0.0);
            *cell = jacobian.iter().map(|line| weight * at(line, i) * at(line, j)).sum();
        }
        let (_, spread) = PRIOR.get(i).copied().unwrap_or(("", 1.0));
        let precision = 1.0 / (spread * spread);
        if let Some(cell) = row.get_mut(i) {
            *cell += precision;
        }
        let pull = x.get(i).copied().unwrap_or(0.0) * precision;
        let fit: f64 =
            jacobian.iter().zip(r).map(|(line, r)| weight * line.get(i).copied().unwrap_or(0.0) * r).sum();
        *g = -(fit + pull);
    }
    let inverse = invert(normal);
    let mut step = [0.0; FACTORS];
    for (s, row) in step.iter_mut().zip(&inverse) {
        *s = row.iter().zip(&gradient).map(|(a, b)| a * b).sum();
    }
    (step, inverse)
}

/// Inverse of a symmetric positive matrix by Gauss-Jordan elimination; the prior keeps every pivot
/// above zero.
fn invert(mut a: Matrix) -> Matrix {
    let mut inverse = [[0.0; FACTORS]; FACTORS];
    for (i, row) in inverse.iter_mut().enumerate() {
        if let Some(cell) = row.get_mut(i) {
            *cell = 1.0;
        }
    }
    for i in 0..FACTORS {
        let pivot = a.get(i).and_then(|row| row.get(i)).copied().unwrap_or(1.0);
        let (Some(mut row), Some(mut unit)) = (a.get(i).copied(), inverse.get(i).copied()) else { continue };
        for v in row.iter_mut().chain(unit.iter_mut()) {
            *v /= pivot;
        }
        for (k, (other, other_unit)) in a.iter_mut().zip(inverse.iter_mut()).enumerate() {
            if k == i {
                (*other, *other_unit) = (row, unit);
                continue;
            }
            let factor = other.get(i).copied().unwrap_or(0.0);
            for (v, w) in other.iter_mut().zip(&row).chain(other_unit.iter_mut().zip(&unit)) {
                *v -= factor * w;
            }
        }
    }
    inverse
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Catalog, ClusterSpec};
    use crate::workload::{Batch, ModelSpec, Recipe};

    /// Steps made with known factors give the factors back, as far as the prior lets them.
    #[test]
    fn known_factors_are_found() {
        let model = ModelSpec::from("llama-3.1-8b").resolve("model").unwrap();
        let recipe = Recipe::default();
        let (cluster, _) = ClusterSpec::from("8xH100-SXM-80GB").resolve(Catalog::embedded()).unwrap();
        let truth = Calibration { matmul: 1.2, memory: 0.95, ..Calibration::default() };
        let steps: Vec<Observation<'_>> = [(1024, 1), (1024, 8), (8192, 1), (32_768, 1), (4096, 4)]
            .into_iter()
            .map(|(seq_len, micro_batch)| {
                let batch = Batch { seq_len, global_batch: 64 };
                let setting = Setting::new(&model, &recipe, batch, &cluster);
                let layout = Layout { data_parallel_shard: 8, micro_batch, ..Layout::default() };
                let measured = Seconds::of(setting.calibrated(&truth).times(&layout).total());
                Observation { setting, layout, measured }
            })
            .collect();
        let report = calibrate(&steps).unwrap();
        assert!(report.before > 0.08 && report.after < report.before / 4.0, "{}", report.summary);
        assert!((report.calibration.matmul / 1.2 - 1.0).abs() < 0.07, "{:?}", report.calibration);
        let matmul = report.constants.first().unwrap();
        assert!(matmul.low < matmul.factor && matmul.factor < matmul.high && matmul.learnt > 0.5);
        // Nothing in these steps waits for the host.
        assert!(report.constants.last().unwrap().learnt < 0.1);
    }

    #[test]
    fn nothing_measured_is_an_error() {
        assert_eq!(calibrate(&[]).unwrap_err().field, "steps");
    }

    #[test]
    fn the_inverse_inverts() {
        let mut m = prior();
        m[0][1] = 0.003;
        m[1][0] = 0.003;
        let i = invert(m);
        for (j, row) in m.iter().enumerate() {
            let products = (0..FACTORS).map(|k| row.iter().zip(&i).map(|(a, b)| a * b[k]).sum::<f64>());
            for (k, cell) in products.enumerate() {
                assert!((cell - f64::from(u8::from(j == k))).abs() < 1e-9);
            }
        }
    }
}
