//! How much a run tries: a part of the cases of each property, and of each long enumeration.
#![allow(clippy::expect_used, reason = "tests")]

use proptest::test_runner::{Config, FileFailurePersistence};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};

/// The percentage of a run of `make test`.
const DEFAULT_PERCENT: u32 = 3;

/// `EDGE_CASES_PERCENT`; `make test-all` tries all, and `make test-long` ten times as many.
fn percent() -> u32 {
    let percent = std::env::var("EDGE_CASES_PERCENT");
    percent.map_or(DEFAULT_PERCENT, |percent| percent.parse().expect("EDGE_CASES_PERCENT is a number"))
}

/// This run's part of a number of cases.
pub(crate) fn part_of(cases: u32) -> u32 {
    u32::try_from(u64::from(cases) * u64::from(percent()) / 100).expect("few cases").max(1)
}

/// This run's part of an enumeration, always the same one. It is drawn, because steps of one length could miss a member of one of the
/// lists that are combined.
pub(crate) fn some<T>(all: impl IntoIterator<Item = T>) -> impl Iterator<Item = T> {
    let (percent, hasher) = (u64::from(percent()), BuildHasherDefault::<DefaultHasher>::default());
    let drawn = all.into_iter().enumerate().filter(move |(index, _)| hasher.hash_one(index) % 100 < percent);
    drawn.map(|(_, each)| each)
}

/// This run's part of so many cases; what fails is remembered beside the test, and comes first from then on.
pub(crate) fn cases(cases: u32) -> Config {
    let cases = part_of(cases);
    Config {
        cases,
        // Generators throw values away, the more of them the more cases there are.
        max_local_rejects: cases.saturating_mul(4).max(65_536),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        max_shrink_iters: 1000,
        ..Config::default()
    }
}
