//! Sorting, compiled once: the standard sort is some ten kilobytes of WASM for each type it sorts.

use core::cmp::Ordering;

/// Sorts stably.
pub(crate) fn sort_by<T>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    let order = permutation(items.len(), &mut |a, b| match (items.get(a), items.get(b)) {
        (Some(a), Some(b)) => compare(a, b),
        _ => Ordering::Equal,
    });
    place(order, &mut |a, b| items.swap(a, b));
}

/// Brings the `order[i]`-th item to place `i` by swaps, cycle by cycle.
#[inline(never)]
fn place(mut order: Vec<usize>, swap: &mut dyn FnMut(usize, usize)) {
    for start in 0..order.len() {
        let mut at = start;
        while let Some(from) = order.get_mut(at).map(|from| core::mem::replace(from, at)) {
            if from == start || from == at {
                break;
            }
            swap(at, from);
            at = from;
        }
    }
}

/// Merges runs of 1, 2, 4, .. until one is left.
#[inline(never)]
fn permutation(len: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    let mut run = 1;
    while run < len {
        let mut merged = Vec::with_capacity(len);
        for pair in order.chunks(2 * run) {
            let (mut left, mut right) = pair.split_at(run.min(pair.len()));
            while let (Some((&a, later)), Some((&b, after))) = (left.split_first(), right.split_first()) {
                if compare(a, b).is_gt() {
                    merged.push(b);
                    right = after;
                } else {
                    merged.push(a);
                    left = later;
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        order = merged;
        run *= 2;
    }
    order
}

#[cfg(test)]
mod tests {
    use super::sort_by;

    #[test]
    fn sorts_and_keeps_the_order_of_equals() {
        let mut items = vec![(2, 'a'), (1, 'b'), (2, 'c'), (1, 'd'), (0, 'e')];
        sort_by(&mut items, |x, y| x.0.cmp(&y.0));
        assert_eq!(items, [(0, 'e'), (1, 'b'), (1, 'd'), (2, 'a'), (2, 'c')]);
    }

    #[test]
    fn agrees_with_the_standard_sort() {
        for len in 0..70_u64 {
            // Multiples of a number coprime to 71, so in no order and with ties.
            let mut items: Vec<(u64, u64)> = (0..len).map(|i| (i * 37 % 71 / 3, i)).collect();
            let mut expected = items.clone();
            expected.sort_by_key(|item| item.0);
            sort_by(&mut items, |x, y| x.0.cmp(&y.0));
            assert_eq!(items, expected);
        }
    }
}
