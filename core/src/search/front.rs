//! Which of two plans is better, and those that nothing betters.

use core::cmp::Ordering;

use super::ask::Objective;
use super::engine::Point;

/// What plans are weighed by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measure {
    /// Seconds of a step; where batches differ, of as many tokens as the request's batch.
    pub(crate) time: f64,
    /// Dollars of the run, or of a step when no run is asked for; none without a price.
    pub(crate) money: Option<f64>,
    /// Bytes left on the fullest rank.
    pub(crate) headroom: f64,
}

impl Measure {
    /// Better first: by the objective, then time, then more memory left.
    pub(crate) fn weigh(&self, o: &Self, objective: Objective) -> Ordering {
        let time = self.time.total_cmp(&o.time);
        let money = self.dollars().total_cmp(&o.dollars());
        let memory = o.headroom.total_cmp(&self.headroom);
        match objective {
            Objective::Time => time.then(money).then(memory),
            // What a run may come to follows the time of its steps on the same machines.
            Objective::Cost | Objective::ExpectedCost => money.then(time).then(memory),
            Objective::Headroom => memory.then(time),
        }
    }

    /// An unknown price is the last that anyone would pay.
    fn dollars(&self) -> f64 {
        self.money.unwrap_or(f64::INFINITY)
    }

    /// Whether it is as good in time, money and memory left, and better in one.
    pub(crate) fn dominates(&self, o: &Self) -> bool {
        let (x, y) = (self.dollars(), o.dollars());
        let as_good = self.time <= o.time && x <= y && self.headroom >= o.headroom;
        as_good && (self.time < o.time || x < y || self.headroom > o.headroom)
    }
}

/// Plans of one cluster that nothing betters in both time and memory: money follows time there.
/// Fastest first, so that memory left rises.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Front(pub(crate) Vec<Point>);

impl Front {
    /// Whether a plan would be on the front.
    pub(super) fn wants(&self, m: &Measure) -> bool {
        let after = self.0.partition_point(|p| p.measure.time <= m.time);
        after.checked_sub(1).and_then(|i| self.0.get(i)).is_none_or(|p| p.measure.headroom < m.headroom)
    }

    /// Puts a plan that [`Front::wants`] on the front, and takes off what it betters.
    pub(super) fn put(&mut self, point: Point) {
        let m = point.measure;
        let from = self.0.partition_point(|p| p.measure.time < m.time);
        let worse = self.0.iter().skip(from).take_while(|p| p.measure.headroom <= m.headroom).count();
        self.0.splice(from..from + worse, [point]);
    }
}
