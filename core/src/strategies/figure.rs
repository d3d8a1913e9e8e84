//! Numbers and words.

use core::fmt::Debug;
use core::ops::RangeInclusive;

use proptest::prelude::*;
use proptest::sample::select;

/// A number of a range: its ends, or anywhere between, every magnitude alike where the range spans
/// several.
pub fn figure(range: RangeInclusive<f64>) -> BoxedStrategy<f64> {
    let (low, high) = range.into_inner();
    let between = if high > 8.0 * low.max(1e-9 * high) {
        let least = low.max(1e-9 * high);
        let (from, to) = (libm::log(least), libm::log(high));
        (from..=to).prop_map(move |x| libm::exp(x).clamp(low, high)).boxed()
    } else {
        (low..=high).boxed()
    };
    prop_oneof![1 => Just(low), 1 => Just(high), 14 => between].boxed()
}

/// One of a list that is not empty.
pub fn pick<T: Clone + Debug + 'static>(of: Vec<T>) -> BoxedStrategy<T> {
    select(of).boxed()
}

/// One of a vocabulary, as `Sharding::ALL`.
pub fn word<T: Copy + Debug + 'static>(all: &'static [T]) -> BoxedStrategy<T> {
    select(all).boxed()
}

/// Given once in four.
pub(super) fn rarely<T: Clone + Debug + 'static>(
    of: impl Strategy<Value = T> + 'static,
) -> BoxedStrategy<Option<T>> {
    proptest::option::weighted(0.25, of).boxed()
}

/// A few of a vocabulary, each once, in its order; usually none.
pub(super) fn few<T: Copy + Debug + 'static>(all: &'static [T]) -> BoxedStrategy<Vec<T>> {
    let some = proptest::sample::subsequence(all, 1..=all.len().min(3));
    prop_oneof![3 => Just(Vec::new()), 1 => some].boxed()
}

/// True once in `n`.
pub(super) fn once_in(n: u32) -> BoxedStrategy<bool> {
    proptest::bool::weighted(1.0 / f64::from(n)).boxed()
}
