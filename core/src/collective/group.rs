//! Where the ranks of a group sit.

/// A group of ranks: how many, and how far apart. Ranks are numbered with tensor-parallel ranks
/// innermost, then context, then expert and data, then pipeline; a group's stride is the product of
/// the degrees inside it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Group {
    /// Ranks of the group.
    pub ranks: f64,
    /// Distance between neighbours in the numbering.
    pub stride: f64,
}

impl Group {
    /// A group of `ranks` at distance `stride`.
    #[must_use]
    pub const fn new(ranks: f64, stride: f64) -> Self {
        Self { ranks, stride }
    }

    /// Members that share a tier joining `size` consecutive ranks: at least the member itself.
    ///
    /// ```
    /// use shardwise::collective::Group;
    /// // Data-parallel ranks of a tensor-parallel 4 layout: two of them in a node of 8.
    /// assert_eq!(Group::new(16.0, 4.0).within(8.0), 2.0);
    /// assert_eq!(Group::new(4.0, 1.0).within(8.0), 4.0);
    /// assert_eq!(Group::new(4.0, 16.0).within(8.0), 1.0);
    /// ```
    #[must_use]
    pub fn within(&self, size: f64) -> f64 {
        (size / self.stride).floor().clamp(1.0, self.ranks.max(1.0))
    }
}
