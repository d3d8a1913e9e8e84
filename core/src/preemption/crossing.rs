//! Where a rising function passes through zero.

/// Share of the bracket to which the place is found.
const PRECISION: f64 = 1e-9;
/// Steps after which the bracket is what it is: twice those of bisection.
const MOST_STEPS: u32 = 60;

/// Where `f`, which does not fall, changes sign between `from` and `to`, each a place and the value
/// there. Inverse quadratic interpolation where the last three values bend little, bisection elsewhere.
///
/// Source: Chandrupatla, "A new hybrid quadratic/bisection algorithm for finding the zero of a nonlinear
/// function without using derivatives", 1997.
pub(super) fn crossing(from: (f64, f64), to: (f64, f64), f: impl Fn(f64) -> f64) -> f64 {
    let precision = PRECISION * (to.0 - from.0);
    // The zero lies between a, asked last, and b; c is what one of them was before.
    let (mut a, mut b, mut t) = (to, from, 0.5);
    for _ in 0..MOST_STEPS {
        let place = a.0 + t * (b.0 - a.0);
        let asked = (place, f(place));
        let c = if (asked.1 < 0.0) == (a.1 < 0.0) { a } else { core::mem::replace(&mut b, a) };
        a = asked;
        let least = precision / (b.0 - a.0).abs();
        if least > 0.5 {
            break;
        }
        let (xi, phi) = ((a.0 - b.0) / (c.0 - b.0), (a.1 - b.1) / (c.1 - b.1));
        let bends_little = phi * phi < xi && (1.0 - phi) * (1.0 - phi) < 1.0 - xi;
        t = if bends_little {
            a.1 / (b.1 - a.1) * (c.1 / (b.1 - c.1))
                + (c.0 - a.0) / (b.0 - a.0) * (a.1 / (c.1 - a.1)) * (b.1 / (c.1 - b.1))
        } else {
            0.5
        };
        t = t.clamp(least, 1.0 - least);
    }
    f64::midpoint(a.0, b.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn found(low: f64, high: f64, f: impl Fn(f64) -> f64) -> (f64, u32) {
        let asked = Cell::new(0);
        let counted = |x| {
            asked.set(asked.get() + 1);
            f(x)
        };
        (crossing((low, f(low)), (high, f(high)), counted), asked.get())
    }

    #[test]
    fn a_smooth_crossing_is_found_in_a_third_of_bisections_steps() {
        // 1 - e^-x = 0.9 at ln 10.
        let (at, asked) = found(0.0, 8.0, |x| 0.1 - libm::exp(-x));
        assert!((at - core::f64::consts::LN_10).abs() < 8e-9, "{at}");
        assert!(asked <= 10, "{asked}");
    }

    #[test]
    fn a_jump_takes_no_more_than_twice_bisection() {
        let (at, asked) = found(0.0, 1.0, |x| if x < 0.3 { -1e-9 } else { 1.0 });
        assert!((at - 0.3).abs() < 1e-9, "{at}");
        assert!(asked <= 60, "{asked}");
    }
}
