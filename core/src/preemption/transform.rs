//! Small complex matrices and the inversion of Laplace transforms.

use nalgebra::{Complex, RowSVector, SMatrix, SVector};

use super::regime::PHASES;

pub(super) type C = Complex<f64>;
pub(super) type Matrix = SMatrix<C, PHASES, PHASES>;
pub(super) type Row = RowSVector<C, PHASES>;
pub(super) type Column = SVector<C, PHASES>;

/// Real entries as complex ones.
pub(super) fn real(m: [[f64; PHASES]; PHASES]) -> Matrix {
    Matrix::from_fn(|i, j| C::new(m.get(i).and_then(|r| r.get(j)).copied().unwrap_or(0.0), 0.0))
}

/// A diagonal matrix.
pub(super) fn diagonal(entries: [C; PHASES]) -> Matrix {
    Matrix::from_diagonal(&Column::from(entries))
}

/// A whole power, by squaring.
pub(super) fn power(mut base: Matrix, mut exponent: u32) -> Matrix {
    let mut result = Matrix::identity();
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = product(&result, &base);
        }
        base = product(&base, &base);
        exponent >>= 1;
    }
    result
}

/// `a^n`, and the sum of `q^(n - 1 - i) a^i` over `i` below `n`, by doubling: with `n` segments of which
/// any may be the last, one of a hundred thousand answers is no slower than one of ten.
pub(super) fn series(a: &Matrix, q: C, n: u32) -> (Matrix, Matrix) {
    let (mut power, mut sum, mut factor) = (Matrix::identity(), Matrix::zeros(), C::new(1.0, 0.0));
    for bit in (0..u32::BITS - n.leading_zeros()).rev() {
        // S(2m) = (q^m + a^m) S(m).
        sum = product(&power, &sum) + sum * factor;
        power = product(&power, &power);
        factor *= factor;
        if n >> bit & 1 == 1 {
            // S(m + 1) = q S(m) + a^m.
            sum = sum * q + power;
            power = product(&power, a);
            factor *= q;
        }
    }
    (power, sum)
}

// The products are kept out of line: unrolled at every use they would double the size of the room in
// the browser.

/// a b.
#[inline(never)]
pub(super) fn product(a: &Matrix, b: &Matrix) -> Matrix {
    a * b
}

/// a b of a row.
#[inline(never)]
pub(super) fn along(a: &Row, b: &Matrix) -> Row {
    a * b
}

/// 1 + a + a^2 + ... = (I - a)^-1.
#[inline(never)]
pub(super) fn settled(a: &Matrix) -> Option<Matrix> {
    (Matrix::identity() - a).try_inverse()
}

/// The complex exponential, from `libm` alone so that every target gives the same bytes.
#[inline(never)]
pub(super) fn expc(z: C) -> C {
    let (sin, cos) = libm::sincos(z.im);
    let size = libm::exp(z.re);
    C::new(size * cos, size * sin)
}

/// Inverts the transform `f` of a function that is smooth at `x`: Euler summation of an
/// alternating series, accurate to about 1e-8.
///
/// Source: Abate and Whitt 1995, equations 1-4 with A = 18.4, n = 15, m = 11.
pub(super) fn euler(x: f64, f: impl Fn(C) -> C) -> f64 {
    const A: f64 = 18.4;
    const PLAIN: u32 = 15;
    const BINOMIAL: [f64; 12] = [1.0, 11.0, 55.0, 165.0, 330.0, 462.0, 462.0, 330.0, 165.0, 55.0, 11.0, 1.0];
    let scale = libm::exp(A / 2.0) / x;
    let at = |k: u32| f(C::new(A, 2.0 * f64::from(k) * core::f64::consts::PI) / (2.0 * x)).re;
    let mut sum = 0.5 * scale * at(0);
    let mut sign = -1.0;
    for k in 1..PLAIN {
        sum += sign * scale * at(k);
        sign = -sign;
    }
    let mut result = 0.0;
    for (j, weight) in (PLAIN..).zip(BINOMIAL) {
        sum += sign * scale * at(j);
        sign = -sign;
        result += weight * sum / 2048.0;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inverts_an_exponential() {
        // The transform of e^-t is 1 / (s + 1).
        for t in [0.01, 0.5, 3.0, 10.0] {
            let got = euler(t, |s| C::new(1.0, 0.0) / (s + 1.0));
            assert!((got - libm::exp(-t)).abs() < 1e-7, "{t}: {got}");
        }
    }
}
