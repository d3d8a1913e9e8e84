//! Names of the catalogue: found without regard to case, spaces and punctuation.

use super::named::LONGEST;

/// Names in normal form, sorted once, each with the place of its row.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(Vec<(String, usize)>);

/// The normal form of a name: its letters and digits in lower case, without the vendor's `NVIDIA`
/// that device names begin with.
pub(super) fn normal(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    out.extend(name.bytes().filter(u8::is_ascii_alphanumeric).map(|b| char::from(b.to_ascii_lowercase())));
    match out.strip_prefix("nvidia") {
        Some(rest) if !rest.is_empty() => rest.to_owned(),
        _ => out,
    }
}

impl Names {
    /// Sorts the names. `Err` holds a name that two rows claim.
    pub fn new(mut names: Vec<(String, usize)>) -> Result<Self, String> {
        crate::order::sort_by(&mut names, Ord::cmp);
        names.dedup();
        let twice = names.windows(2).find_map(|pair| match pair {
            [(a, _), (b, _)] if a == b => Some(a.clone()),
            _ => None,
        });
        match twice {
            Some(name) => Err(name),
            None => Ok(Self(names)),
        }
    }

    /// The row that answers to a name in normal form.
    pub fn find(&self, normal: &str) -> Option<usize> {
        let at = self.0.binary_search_by(|(name, _)| name.as_str().cmp(normal)).ok()?;
        self.0.get(at).map(|(_, row)| *row)
    }

    /// Whether a longer name of another row begins with this one: `a100` and `a100pcie40`, but not
    /// `a10` and `a100`, where a number goes on.
    pub fn is_short(&self, normal: &str, row: usize) -> bool {
        let ends_in_digit = normal.ends_with(|c: char| c.is_ascii_digit());
        let from = self.0.partition_point(|(name, _)| name.as_str() < normal);
        self.0.iter().skip(from).map_while(|(name, other)| Some((name.strip_prefix(normal)?, *other))).any(
            |(rest, other)| {
                other != row && !(ends_in_digit && rest.starts_with(|c: char| c.is_ascii_digit()))
            },
        )
    }

    /// Every name with how far it is from the one given, for suggestions.
    pub fn distances<'a>(&'a self, normal: &'a str) -> impl Iterator<Item = (usize, usize)> + 'a {
        // What is far longer than any name is near to none.
        let near = self.0.iter().filter(|(name, _)| name.len().max(normal.len()) <= LONGEST);
        near.map(move |(name, row)| (distance(name, normal), *row))
    }
}

/// Edits between two names; what surrounds a name inside the other counts a third. Source of the
/// recurrence: Wagner and Fischer 1974.
fn distance(a: &str, b: &str) -> usize {
    if b.len() >= 2 && (a.contains(b) || (a.len() >= 3 && b.contains(a))) {
        return 1 + a.len().abs_diff(b.len()) / 3;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut corner = i;
        let mut left = i + 1;
        for (cell, y) in row.iter_mut().skip(1).zip(b.bytes()) {
            let above = *cell;
            *cell = (corner + usize::from(x != y)).min(above + 1).min(left + 1);
            corner = above;
            left = *cell;
        }
        if let Some(first) = row.first_mut() {
            *first = i + 1;
        }
    }
    row.last().copied().unwrap_or(a.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_spaces_and_punctuation_do_not_count() {
        assert_eq!(normal("NVIDIA A100-SXM4-80GB"), "a100sxm480gb");
        assert_eq!(normal("p5.48xlarge"), "p548xlarge");
    }

    #[test]
    fn counts_edits() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("h100", ""), 4);
        assert_eq!(distance("h100sxm", "h100"), 2);
    }

    #[test]
    fn a_name_is_short_when_another_row_goes_on() {
        let rows = ["a10", "a100", "a100pcie", "a10g"];
        let names = Names::new(rows.iter().enumerate().map(|(i, n)| ((*n).to_owned(), i)).collect());
        let names = names.unwrap();
        assert!(names.is_short("a100", 1));
        assert!(names.is_short("a10", 0));
        assert!(!names.is_short("a100pcie", 2));
        assert_eq!(names.find("a100"), Some(1));
        assert_eq!(names.find("b200"), None);
    }

    #[test]
    fn two_rows_cannot_share_a_name() {
        let names = vec![("h100".to_owned(), 0), ("h100".to_owned(), 1)];
        assert_eq!(Names::new(names).err().as_deref(), Some("h100"));
    }
}
