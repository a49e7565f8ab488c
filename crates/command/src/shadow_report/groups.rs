//! Groups of requests by names, in a bounded number.

use std::collections::HashMap;
use std::fmt::Write as _;

/// The greatest number of groups. What belongs to a further one is counted under [`OTHER`].
const MOST: usize = 100_000;
/// All names of the group beyond the bound, as in the filter's metrics.
const OTHER: &str = "_other";

/// A value for each combination of `N` names, any of which may be absent.
#[derive(Debug)]
pub(super) struct Groups<const N: usize, V> {
    /// Where the group with this key stands in `groups`.
    positions: HashMap<String, usize>,
    groups: Vec<([Option<String>; N], V)>,
    /// The key that is looked for; kept for its memory.
    key: String,
    most: usize,
}

impl<const N: usize, V> Default for Groups<N, V> {
    fn default() -> Self {
        Self { positions: HashMap::new(), groups: Vec::new(), key: String::new(), most: MOST }
    }
}

impl<const N: usize, V: Default> Groups<N, V> {
    /// Changes the value of the group with these names.
    pub(super) fn at(&mut self, names: [Option<&str>; N], change: impl FnOnce(&mut V)) {
        let position = self.find(&names).unwrap_or_else(|| {
            if self.groups.len() < self.most {
                return self.add(names);
            }
            let other = [Some(OTHER); N];
            self.find(&other).unwrap_or_else(|| self.add(other))
        });
        if let Some((_, value)) = self.groups.get_mut(position) {
            change(value);
        }
    }

    /// The position of the group. `key` is its key afterwards: each name behind its length, so that different names never
    /// make the same key.
    fn find(&mut self, names: &[Option<&str>; N]) -> Option<usize> {
        self.key.clear();
        for name in names {
            // Writing to a string does not fail.
            let _ = match name {
                Some(name) => write!(self.key, "{}:{name}", name.len()),
                None => self.key.write_str("-"),
            };
        }
        self.positions.get(&self.key).copied()
    }

    /// Adds the group that was looked for last.
    fn add(&mut self, names: [Option<&str>; N]) -> usize {
        let position = self.groups.len();
        self.groups.push((names.map(|name| name.map(str::to_owned)), V::default()));
        self.positions.insert(self.key.clone(), position);
        position
    }

    /// All groups; those with the greatest `count` first, equal ones by their names.
    pub(super) fn sorted<C: Ord>(&self, count: impl Fn(&V) -> C) -> Vec<&([Option<String>; N], V)> {
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by(|(one_names, one), (other_names, other)| {
            count(other).cmp(&count(one)).then_with(|| one_names.cmp(other_names))
        });
        groups
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_told_apart_and_bounded() {
        let mut groups: Groups<2, u64> = Groups { most: 3, ..Groups::default() };
        for names in [["a", "b"], ["a1:b", "c"], ["a", "1:b1:c"], ["x", "y"], ["a", "b"], ["z", ""]] {
            groups.at(names.map(Some), |count| *count += 1);
        }
        groups.at([None, Some("")], |count| *count += 1);
        let shown: Vec<_> = groups
            .sorted(|count| *count)
            .into_iter()
            .map(|(names, count)| (names.each_ref().map(|name| name.clone().unwrap_or_default()), *count))
            .collect();
        let row = |names: [&str; 2], count| (names.map(str::to_owned), count);
        let expected =
            [row(["_other", "_other"], 3), row(["a", "b"], 2), row(["a", "1:b1:c"], 1), row(["a1:b", "c"], 1)];
        assert_eq!(shown, expected);
    }
}
