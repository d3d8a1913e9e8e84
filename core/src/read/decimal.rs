//! The `f64` nearest to a decimal, exactly, ties to even. Short decimals by one rounding; the rest
//! by long division of big integers: slow, small, and the same on every target.
//! Source: Clinger 1990, How to Read Floating Point Numbers Accurately.

/// Digits beyond these only say that something is left: the longest halfway case has 767.
const MOST: usize = 800;
/// The largest power of ten that is a whole `f64`.
const EXACT: i64 = 22;
/// Mantissa bits, and the exponent of the smallest positive number.
const MANTISSA: i64 = 53;
const LOWEST: i64 = -1074;

/// A count of digits; a text is never long enough for the limit.
pub(super) fn signed(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The number `0.d1d2.. x 10^n`, given as digits and the exponent of the last: infinite when too
/// large.
pub(super) fn nearest(digits: &[u8], mut exponent: i64) -> f64 {
    let start = digits.iter().position(|&d| d > 0).unwrap_or(digits.len());
    let all = digits.get(start..).unwrap_or_default();
    let kept = all.get(..MOST).unwrap_or(all);
    exponent += signed(all.len() - kept.len());
    let scale = signed(kept.len()) + exponent;
    if kept.is_empty() || scale < -330 {
        return 0.0;
    }
    if scale > 310 {
        return f64::INFINITY;
    }
    if kept.len() <= 15 && exponent.abs() <= EXACT {
        // Both are exact, so one operation rounds once.
        let whole = kept.iter().fold(0.0, |n, &d| 10.0 * n + f64::from(d));
        let power = (0..exponent.abs()).fold(1.0, |p, _| 10.0 * p);
        return if exponent < 0 { whole / power } else { whole * power };
    }
    let mut above = Big(Vec::new());
    for &digit in kept {
        above.times(10, digit.into());
    }
    if all.get(MOST..).unwrap_or_default().iter().any(|&d| d > 0) {
        above.times(10, 1);
        exponent -= 1;
    }
    let mut below = Big(vec![1]);
    let scaled = if exponent < 0 { &mut below } else { &mut above };
    for _ in 0..exponent.abs() {
        scaled.times(10, 0);
    }
    quotient(above, below)
}

/// `above / below` rounded.
fn quotient(mut above: Big, mut below: Big) -> f64 {
    // Shifted so that the quotient has 64 or 65 bits.
    let shift = 64 - (above.bits() - below.bits());
    above.shift(shift.max(0));
    // The divisor starts 64 places higher and comes down with each bit.
    below.shift((-shift).max(0) + 64);
    let mut q = 0_u128;
    for _ in 0..=64 {
        q <<= 1;
        if above.reaches(&below) {
            above.less(&below);
            q |= 1;
        }
        below.halve();
    }
    let rest = above.0.iter().any(|&limb| limb > 0);
    let bits = 128 - i64::from(q.leading_zeros());
    // The number lies in [2^(top-1), 2^top).
    let top = bits - shift;
    let precision = MANTISSA.min(top - LOWEST);
    if precision < 0 {
        return 0.0;
    }
    let dropped = bits - precision;
    let (mantissa, tail) = (q >> dropped, q & ((1 << dropped) - 1));
    let half = 1_u128 << (dropped - 1);
    let up = tail > half || (tail == half && (rest || mantissa & 1 == 1));
    let mantissa = u64::try_from(mantissa).unwrap_or_default() + u64::from(up);
    if precision < MANTISSA {
        return f64::from_bits(mantissa);
    }
    // A carry out of the mantissa raises the exponent by itself.
    let biased = u64::try_from(top - 1 - LOWEST - MANTISSA + 2).unwrap_or_default();
    if biased >= 2047 {
        return f64::INFINITY;
    }
    f64::from_bits((biased << 52) + (mantissa - (1 << 52)))
}

/// A natural number in limbs of 32 bits, the lowest first.
struct Big(Vec<u32>);

impl Big {
    fn times(&mut self, factor: u32, plus: u32) {
        let mut carry = u64::from(plus);
        for limb in &mut self.0 {
            carry += u64::from(*limb) * u64::from(factor);
            *limb = low(carry);
            carry >>= 32;
        }
        if carry > 0 {
            self.0.push(low(carry));
        }
    }

    fn bits(&self) -> i64 {
        let top = self.0.last().map_or(32, |limb| limb.leading_zeros());
        32 * signed(self.0.len()) - i64::from(top)
    }

    fn shift(&mut self, places: i64) {
        for _ in 0..places / 32 {
            self.0.insert(0, 0);
        }
        self.times(1 << (places % 32), 0);
    }

    fn halve(&mut self) {
        let mut carry = 0;
        for limb in self.0.iter_mut().rev() {
            let next = *limb << 31;
            *limb = *limb >> 1 | carry;
            carry = next;
        }
    }

    fn limb(&self, i: usize) -> u32 {
        self.0.get(i).copied().unwrap_or_default()
    }

    /// Whether it is at least `other`.
    fn reaches(&self, other: &Self) -> bool {
        let most = self.0.len().max(other.0.len());
        let differs = (0..most).rev().find(|&i| self.limb(i) != other.limb(i));
        differs.is_none_or(|i| self.limb(i) > other.limb(i))
    }

    /// Takes off a number that is no larger.
    fn less(&mut self, other: &Self) {
        let mut borrow = 0_i64;
        for (i, limb) in self.0.iter_mut().enumerate() {
            let difference = i64::from(*limb) - i64::from(other.limb(i)) + borrow;
            borrow = difference >> 32;
            *limb = low(difference.cast_unsigned());
        }
    }
}

/// The low half.
#[expect(clippy::cast_possible_truncation, reason = "the high half is carried")]
const fn low(wide: u64) -> u32 {
    wide as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(mantissa: &str, exponent: i64) {
        let digits: Vec<u8> = mantissa.bytes().map(|b| b - b'0').collect();
        let text = format!("{mantissa}e{exponent}");
        let own = nearest(&digits, exponent);
        assert_eq!(own.to_bits(), text.parse::<f64>().unwrap().to_bits(), "{text}: {own:e}");
    }

    #[test]
    fn known_edges() {
        check("0", 5);
        check("17976931348623157", 292);
        check("17976931348623158", 292);
        check("17976931348623159", 292);
        check("1797693134862315807", 290);
        check("5", -324);
        check("24703282292062327", -340);
        check("24703282292062328", -340);
        check("22250738585072011", -324);
        check("22250738585072014", -324);
        check("9007199254740993", 0);
        check("90071992547409930000000000000000001", -19);
        check("1", 400);
        check("1", -400);
    }

    #[test]
    fn agrees_with_the_standard_library() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut draw = |n: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % n
        };
        for _ in 0..4000 {
            let length = 1 + draw(30);
            let digits: String = (0..length)
                .map(|_| char::from_digit(u32::try_from(draw(10)).unwrap(), 10).unwrap())
                .collect();
            check(&digits, draw(700).cast_signed() - 370);
            check(&digits, draw(40).cast_signed() - 30);
        }
        // Halfway between two neighbours, and a hair to either side.
        check(&["9007199254740993", &"0".repeat(900), "1"].concat(), -901);
        check(&["9007199254740993", &"0".repeat(900)].concat(), -900);
    }
}
