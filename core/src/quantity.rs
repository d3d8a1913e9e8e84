//! Physical quantities. Each is a newtype over `f64` in its base unit (bytes, seconds, FLOPs,
//! US dollars), transparent in JSON. Only the products physics allows are defined, so a figure
//! cannot change its unit by accident.
//!
//! GiB is 2^30 bytes and GB is 10^9 bytes; [`Bytes`] prints GiB and says so.

use core::fmt;
use core::ops::{Add, AddAssign, Div, Mul, Sub};

use serde::{Deserialize, Serialize};

/// Bytes in one GiB (2^30).
pub const GIB: f64 = 1_073_741_824.0;
/// Bytes in one MiB (2^20).
pub const MIB: f64 = 1_048_576.0;

macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident, $unit:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize, shardwise_derive::FromJson, shardwise_derive::ToJson)]
        #[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(f64);

        impl $name {
            /// Nothing of it.
            pub const ZERO: Self = Self(0.0);

            #[doc = concat!("A figure in ", $unit, "; `None` unless finite.")]
            #[must_use]
            pub fn new(value: f64) -> Option<Self> {
                value.is_finite().then_some(Self(value))
            }

            /// For figures derived from inputs that were range-checked at the door, whose
            /// products cannot leave the finite range.
            pub(crate) const fn of(value: f64) -> Self {
                Self(value)
            }

            #[doc = concat!("The figure in ", $unit, ".")]
            #[must_use]
            pub const fn get(self) -> f64 {
                self.0
            }

            /// The larger of the two.
            #[must_use]
            pub const fn max(self, other: Self) -> Self {
                if self.0 >= other.0 { self } else { other }
            }

            /// The smaller of the two.
            #[must_use]
            pub const fn min(self, other: Self) -> Self {
                if self.0 <= other.0 { self } else { other }
            }
        }

        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                Self(self.0 + other.0)
            }
        }
        impl AddAssign for $name {
            fn add_assign(&mut self, other: Self) {
                self.0 += other.0;
            }
        }
        impl Sub for $name {
            type Output = Self;
            fn sub(self, other: Self) -> Self {
                Self(self.0 - other.0)
            }
        }
        impl Mul<f64> for $name {
            type Output = Self;
            fn mul(self, ratio: f64) -> Self {
                Self(self.0 * ratio)
            }
        }
        impl Div<f64> for $name {
            type Output = Self;
            fn div(self, ratio: f64) -> Self {
                Self(self.0 / ratio)
            }
        }
        /// The ratio of two like quantities.
        impl Div for $name {
            type Output = f64;
            fn div(self, other: Self) -> f64 {
                self.0 / other.0
            }
        }
        impl core::iter::Sum for $name {
            fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
                iter.fold(Self::ZERO, Add::add)
            }
        }
    };
}

macro_rules! product {
    ($a:ident * $b:ident = $c:ident) => {
        impl Mul<$b> for $a {
            type Output = $c;
            fn mul(self, other: $b) -> $c {
                $c(self.0 * other.0)
            }
        }
        impl Mul<$a> for $b {
            type Output = $c;
            fn mul(self, other: $a) -> $c {
                $c(self.0 * other.0)
            }
        }
        impl Div<$a> for $c {
            type Output = $b;
            fn div(self, other: $a) -> $b {
                $b(self.0 / other.0)
            }
        }
        impl Div<$b> for $c {
            type Output = $a;
            fn div(self, other: $b) -> $a {
                $a(self.0 / other.0)
            }
        }
    };
}

quantity!(
    /// An amount of memory or traffic, in bytes. Prints as GiB (2^30).
    ///
    /// ```
    /// use shardwise::Bytes;
    /// let weights = Bytes::new(16_060_522_496.0).unwrap();
    /// assert_eq!(weights.to_string(), "14.96 GiB");
    /// ```
    Bytes,
    "bytes"
);
quantity!(
    /// A duration, in seconds.
    Seconds,
    "seconds"
);
quantity!(
    /// An amount of arithmetic, in floating-point operations (a multiply-add counts as two).
    Flops,
    "FLOPs"
);
quantity!(
    /// A rate of arithmetic, in FLOP/s.
    FlopsPerSecond,
    "FLOP/s"
);
quantity!(
    /// A rate of transfer, in bytes per second. Prints as GB/s (10^9).
    BytesPerSecond,
    "bytes per second"
);
quantity!(
    /// A power draw, in watts.
    Watts,
    "watts"
);
quantity!(
    /// An amount of money, in US dollars.
    Usd,
    "US dollars"
);
quantity!(
    /// A price per time, in US dollars per second. Prints as USD/h.
    UsdPerSecond,
    "US dollars per second"
);

product!(BytesPerSecond * Seconds = Bytes);
product!(FlopsPerSecond * Seconds = Flops);
product!(UsdPerSecond * Seconds = Usd);

impl Bytes {
    /// The figure in GiB (2^30 bytes).
    #[must_use]
    pub fn gib(self) -> f64 {
        self.0 / GIB
    }

    /// From a figure in GiB (2^30 bytes).
    pub(crate) const fn from_gib(gib: f64) -> Self {
        Self(gib * GIB)
    }
}

impl Seconds {
    /// The figure in hours.
    #[must_use]
    pub fn hours(self) -> f64 {
        self.0 / 3600.0
    }
}

impl UsdPerSecond {
    /// From a price per hour.
    pub(crate) const fn per_hour(usd: f64) -> Self {
        Self(usd / 3600.0)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let x = self.0;
        match x.abs() {
            a if a >= 1000.0 * GIB => write!(f, "{:.0} GiB", x / GIB),
            a if a >= 0.1 * GIB => write!(f, "{:.2} GiB", x / GIB),
            a if a >= 0.1 * MIB => write!(f, "{:.1} MiB", x / MIB),
            _ => write!(f, "{x:.0} B"),
        }
    }
}

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let x = self.0;
        match x.abs() {
            a if a >= 48.0 * 3600.0 => write!(f, "{:.1} days", x / 86_400.0),
            a if a >= 3600.0 => write!(f, "{:.2} h", x / 3600.0),
            a if a >= 120.0 => write!(f, "{:.1} min", x / 60.0),
            a if a >= 1.0 => write!(f, "{x:.2} s"),
            a if a >= 1e-3 => write!(f, "{:.1} ms", x * 1e3),
            0.0 => write!(f, "0 s"),
            _ => write!(f, "{:.1} us", x * 1e6),
        }
    }
}

impl fmt::Display for Flops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let x = self.0;
        match x.abs() {
            a if a >= 1e18 => write!(f, "{x:.3e} FLOPs"),
            a if a >= 1e15 => write!(f, "{:.2} PFLOPs", x / 1e15),
            a if a >= 1e12 => write!(f, "{:.2} TFLOPs", x / 1e12),
            _ => write!(f, "{:.2} GFLOPs", x / 1e9),
        }
    }
}

impl fmt::Display for FlopsPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} TFLOP/s", self.0 / 1e12)
    }
}

impl fmt::Display for BytesPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1} GB/s", self.0 / 1e9)
    }
}

impl fmt::Display for Watts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} W", self.0)
    }
}

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.abs() >= 1000.0 { write!(f, "${}", thousands(self.0)) } else { write!(f, "${:.2}", self.0) }
    }
}

impl fmt::Display for UsdPerSecond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.2} USD/h", self.0 * 3600.0)
    }
}

/// The whole part of a figure as a count: nought below one, the largest count beyond it.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates; NaN gives nought")]
pub(crate) const fn count(x: f64) -> u64 {
    x as u64
}

/// A whole number with its thousands set apart by commas: 11432.4 is `11,432`.
pub(crate) fn thousands(x: f64) -> String {
    let digits = format!("{:.0}", x.abs());
    let mut out = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    if x < 0.0 {
        out.push('-');
    }
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_follow_physics() {
        let moved = BytesPerSecond::of(2e9) * Seconds::of(3.0);
        assert_eq!(moved, Bytes::of(6e9));
        assert_eq!(moved / BytesPerSecond::of(2e9), Seconds::of(3.0));
    }

    #[test]
    fn gib_is_not_gb() {
        assert_eq!(Bytes::from_gib(79.1).to_string(), "79.10 GiB");
        assert_eq!(Bytes::of(80e9).to_string(), "74.51 GiB");
    }

    #[test]
    fn money_sets_thousands_apart() {
        assert_eq!(Usd::of(1_234_567.4).to_string(), "$1,234,567");
        assert_eq!(Usd::of(12.5).to_string(), "$12.50");
    }
}
