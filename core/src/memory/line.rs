//! Bytes as a straight line in the tokens of a micro-batch, and the upper envelope of several.

use core::ops::{Add, AddAssign, Mul, Sub};

use super::kernels::column_sum;

/// `fixed + per_token x tokens`, in bytes (or elements).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Line {
    pub(super) fixed: f64,
    pub(super) per_token: f64,
}

impl Line {
    pub(super) const ZERO: Self = Self { fixed: 0.0, per_token: 0.0 };

    pub(super) const fn fixed(fixed: f64) -> Self {
        Self { fixed, per_token: 0.0 }
    }

    pub(super) const fn per_token(per_token: f64) -> Self {
        Self { fixed: 0.0, per_token }
    }

    pub(super) fn at(self, tokens: f64) -> f64 {
        self.fixed + self.per_token * tokens
    }

    fn covers(self, other: Self) -> bool {
        self.fixed >= other.fixed && self.per_token >= other.per_token
    }
}

impl Add for Line {
    type Output = Self;
    fn add(self, o: Self) -> Self {
        Self { fixed: self.fixed + o.fixed, per_token: self.per_token + o.per_token }
    }
}
impl Sub for Line {
    type Output = Self;
    fn sub(self, o: Self) -> Self {
        Self { fixed: self.fixed - o.fixed, per_token: self.per_token - o.per_token }
    }
}
impl AddAssign for Line {
    fn add_assign(&mut self, o: Self) {
        *self = *self + o;
    }
}
impl Mul<f64> for Line {
    type Output = Self;
    fn mul(self, k: f64) -> Self {
        Self { fixed: self.fixed * k, per_token: self.per_token * k }
    }
}

/// The largest of several instants at any number of tokens: a line, plus the partial sums of a
/// reduction. Only those that no other covers are kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Envelope(Vec<(Line, Line, Line)>);

impl Envelope {
    /// Takes in an instant; a reduction that runs at it sums so many `columns` over so many `rows`, or
    /// none.
    pub(super) fn include(&mut self, line: Line, columns: Line, rows: Line) {
        let covered = |a: &(Line, Line, Line), b: &(Line, Line, Line)| {
            a.0.covers(b.0) && (b.1 == Line::ZERO || (a.1, a.2) == (b.1, b.2))
        };
        let new = (line, columns, rows);
        if self.0.iter().any(|old| covered(old, &new)) {
            return;
        }
        self.0.retain(|old| !covered(&new, old));
        self.0.push(new);
    }

    pub(super) fn at(&self, tokens: f64) -> f64 {
        self.0.iter().fold(0.0, |m, &(l, columns, rows)| {
            (l.at(tokens) + column_sum(columns.at(tokens), rows.at(tokens))).max(m)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_is_the_maximum_of_its_lines() {
        let mut e = Envelope::default();
        for (fixed, per_token) in [(10.0, 1.0), (0.0, 3.0), (5.0, 0.5), (0.0, 2.0)] {
            e.include(Line { fixed, per_token }, Line::ZERO, Line::ZERO);
        }
        assert_eq!(e.0.len(), 2);
        assert_eq!((e.at(1.0), e.at(100.0)), (11.0, 300.0));
        e.include(Line::ZERO, Line::fixed(4096.0), Line::per_token(1.0));
        assert_eq!((e.at(1.0), e.at(3072.0)), (11.0, 96.0 * 1024.0 * 1024.0));
    }
}
