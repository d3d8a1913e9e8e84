//! The arithmetic of a score: errors by row, a table by source, one line of JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Map, Value, json};

/// One row that could be scored.
#[derive(Clone, Debug)]
pub struct Scored {
    /// Row id.
    pub id: String,
    /// Where it was published; each weighs the same in `publisher_median_pct`.
    pub publisher: String,
    /// What the planner said.
    pub predicted: f64,
    /// What was measured.
    pub measured: f64,
    /// The planner's 80 % interval, when it states one.
    pub interval80: Option<(f64, f64)>,
}

impl Scored {
    /// Signed error in per cent of the measurement.
    pub fn error_pct(&self) -> f64 {
        if self.predicted == self.measured { 0.0 } else { 100.0 * (self.predicted / self.measured - 1.0) }
    }
}

/// Everything a run of the accuracy command found.
#[derive(Clone, Debug, Default)]
pub struct Score {
    /// Rows of the file.
    pub rows: usize,
    /// Rows that state every input.
    pub complete: usize,
    /// Rows that were scored.
    pub scored: Vec<Scored>,
    /// Rows that were not, by reason.
    pub skipped: BTreeMap<String, usize>,
    /// Rows judged by a verdict alone, without a figure to compare.
    pub judged: usize,
    /// Remarks on single rows.
    pub notes: Vec<String>,
    /// Figures that only this kind of corpus has.
    pub extra: Map<String, Value>,
}

impl Score {
    /// Counts a row that cannot be scored.
    pub fn skip(&mut self, reason: impl Into<String>) {
        *self.skipped.entry(reason.into()).or_default() += 1;
    }

    /// The one-line summary.
    pub fn summary(&self) -> Value {
        let mut abs: Vec<f64> = self.scored.iter().map(|s| s.error_pct().abs()).collect();
        abs.sort_by(f64::total_cmp);
        let bias = mean(self.scored.iter().map(Scored::error_pct));
        let mut publishers: Vec<f64> = self.by_publisher().values().map(|v| quantile(v, 0.5)).collect();
        publishers.sort_by(f64::total_cmp);
        let intervals: Vec<(&Scored, (f64, f64))> =
            self.scored.iter().filter_map(|s| s.interval80.map(|i| (s, i))).collect();
        let covered = intervals.iter().filter(|(s, (lo, hi))| (*lo..=*hi).contains(&s.measured)).count();
        let mut widths: Vec<f64> =
            intervals.iter().map(|(s, (lo, hi))| 100.0 * (hi - lo) / s.predicted).collect();
        widths.sort_by(f64::total_cmp);
        let mut out = json!({
            "rows": self.rows,
            "complete": self.complete,
            "scored": self.scored.len() + self.judged,
            "skipped": self.skipped,
            "median_abs_pct": round(quantile(&abs, 0.5)),
            "p90_abs_pct": round(quantile(&abs, 0.9)),
            "bias_pct": round(bias),
            "publisher_median_pct": round(quantile(&publishers, 0.5)),
            "interval80_coverage_pct": (!intervals.is_empty())
                .then(|| round(100.0 * covered as f64 / intervals.len() as f64)),
            "interval80_median_width_pct": (!intervals.is_empty()).then(|| round(quantile(&widths, 0.5))),
        });
        if let Value::Object(map) = &mut out {
            map.extend(self.extra.clone());
        }
        out
    }

    /// Absolute errors by publisher, sorted.
    pub fn by_publisher(&self) -> BTreeMap<&str, Vec<f64>> {
        let mut out: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for s in &self.scored {
            out.entry(&s.publisher).or_default().push(s.error_pct().abs());
        }
        for v in out.values_mut() {
            v.sort_by(f64::total_cmp);
        }
        out
    }

    /// The table by source, then the reasons for rows left out.
    pub fn table(&self) -> String {
        let mut out =
            format!("{:<40} {:>5} {:>9} {:>9} {:>9}\n", "source", "rows", "median %", "p90 %", "bias %");
        for (publisher, errors) in self.by_publisher() {
            let bias = mean(self.scored.iter().filter(|s| s.publisher == publisher).map(Scored::error_pct));
            let _ = writeln!(
                out,
                "{publisher:<40} {:>5} {:>9.2} {:>9.2} {bias:>9.2}",
                errors.len(),
                quantile(&errors, 0.5),
                quantile(&errors, 0.9),
            );
        }
        for (reason, n) in &self.skipped {
            let _ = writeln!(out, "skipped {n:>5}: {reason}");
        }
        out
    }

    /// The rows furthest off, worst first.
    pub fn worst_rows(&self, n: usize) -> Vec<&Scored> {
        let mut rows: Vec<&Scored> = self.scored.iter().collect();
        rows.sort_by(|a, b| b.error_pct().abs().total_cmp(&a.error_pct().abs()).then(a.id.cmp(&b.id)));
        rows.truncate(n);
        rows
    }

    /// The worst rows, for whoever looks for the missing term.
    pub fn worst(&self, n: usize) -> String {
        let mut out = String::new();
        for s in self.worst_rows(n) {
            let _ = writeln!(
                out,
                "{:<60} predicted {:>12.4e} measured {:>12.4e} error {:>+9.3} %",
                s.id,
                s.predicted,
                s.measured,
                s.error_pct()
            );
        }
        out
    }
}

/// The q-quantile of sorted values, by linear interpolation; 0 for none.
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    if sorted.is_empty() {
        return 0.0;
    }
    let at = q * (sorted.len() - 1) as f64;
    let low = at.floor() as usize;
    let high = at.ceil() as usize;
    sorted[low] + (sorted[high] - sorted[low]) * (at - low as f64)
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (n, sum) = values.fold((0_u32, 0.0), |(n, s), v| (n + 1, s + v));
    if n == 0 { 0.0 } else { sum / f64::from(n) }
}

/// Four digits behind the point are more than any of these figures deserves.
pub fn round(x: f64) -> f64 {
    (x * 1e4).round() / 1e4
}
