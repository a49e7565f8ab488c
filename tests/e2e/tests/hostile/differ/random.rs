//! Random numbers that depend on a seed and a case's number alone, so that one case can be made again without the others.

/// The generator splitmix64.
pub(crate) struct Random(u64);

impl Random {
    /// The numbers of one case.
    pub(crate) fn of(seed: u64, case: u64) -> Self {
        let mut mixed = Self(seed);
        let start = mixed.next() ^ case.wrapping_mul(0xd134_2543_de82_ef95);
        Self(start)
    }

    /// The next number.
    pub(crate) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if there is none.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.next() % end).unwrap_or_default()
    }

    /// Whether something happens that happens in so many of a hundred cases.
    pub(crate) fn percent(&mut self, chance: usize) -> bool {
        self.below(100) < chance
    }

    /// One of a list; the type's default if the list is empty.
    pub(crate) fn pick<T: Clone + Default>(&mut self, list: &[T]) -> T {
        list.get(self.below(list.len())).cloned().unwrap_or_default()
    }

    /// The index of one of these weights.
    pub(crate) fn weighted(&mut self, weights: &[usize]) -> usize {
        let mut left = self.below(weights.iter().sum());
        for (index, weight) in weights.iter().enumerate() {
            if left < *weight {
                return index;
            }
            left -= weight;
        }
        0
    }
}
