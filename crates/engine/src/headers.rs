//! Header lines from a host: bytes, in order, with repetitions, names in lower case.
//!
//! Where headers are removed, `_` in a name counts as `-`. Many servers turn both into the same variable, so
//! `Idempotency_Key` would otherwise bypass the filter (docs/contract.md section 2).

use crate::bytes::equal;
use std::collections::BinaryHeap;

/// The header that carries an idempotency key.
pub const IDEMPOTENCY_KEY: &str = "idempotency-key";

/// The other names of request headers that the exchange reads in every request.
pub(crate) const REQUEST_NAMES: [&str; 8] = [
    ":method",
    ":path",
    ":authority",
    IDEMPOTENCY_KEY,
    "x-request-id",
    "x-retry-attempt",
    "content-type",
    "connect-protocol-version",
];
/// Marks a replayed response.
pub(crate) const REPLAYED: &str = "idempotent-replayed";
/// The status of the request's key, in a response.
pub(crate) const STATUS: &str = "idempotency-status";
/// The retry advice of an error.
pub(crate) const RETRY: &str = "idempotency-retry";

/// The names of response headers that the exchange reads in every response, beside those of the policy.
pub(crate) const RESPONSE_NAMES: [&str; 13] = [
    ":status",
    "x-restate-id",
    "x-restate-error-source",
    "idempotency-expires",
    "content-type",
    "content-encoding",
    "x-idempotency-internal-hit",
    "retry-after",
    "vary",
    IDEMPOTENCY_KEY,
    // Marks of the filter, which a backend's own are hidden for
    REPLAYED,
    STATUS,
    RETRY,
];

/// The lines of one header map, borrowed from the host's buffer.
#[derive(Debug, Default, Clone)]
pub struct Headers<'a> {
    lines: Vec<(&'a [u8], &'a [u8])>,
}

/// The value of a header that must not be repeated.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum FieldValue<'a> {
    /// No line has this name.
    Absent,
    /// One line, with its value.
    One(&'a [u8]),
    /// Two lines or more, so the value is ambiguous.
    Many,
}

impl<'a> Headers<'a> {
    /// Whether the body has a content coding, so that its bytes are not the text that a backend reads.
    pub(crate) fn have_coding(&self) -> bool {
        match self.field("content-encoding") {
            FieldValue::Absent => false,
            FieldValue::One(coding) => {
                !coding.trim_ascii().is_empty() && !coding.trim_ascii().eq_ignore_ascii_case(b"identity")
            }
            FieldValue::Many => true,
        }
    }

    /// Takes the lines in the order of the wire. The names have to be in lower case.
    pub fn new(lines: Vec<(&'a [u8], &'a [u8])>) -> Self {
        Self { lines }
    }

    /// All lines, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + '_ {
        self.lines.iter().copied()
    }

    /// The value of the header `name` (lower case; `_` and `-` are different here).
    pub fn field(&self, name: &str) -> FieldValue<'a> {
        let mut found = FieldValue::Absent;
        for (line, value) in self.iter() {
            if line == name.as_bytes() {
                match found {
                    FieldValue::Absent => found = FieldValue::One(value),
                    _ => return FieldValue::Many,
                }
            }
        }
        found
    }

    /// The length of the body in bytes that `content-length` tells, if it is one number that fits.
    pub fn content_length(&self) -> Option<u64> {
        match self.field("content-length") {
            FieldValue::One(digits) => std::str::from_utf8(digits).ok()?.trim().parse().ok(),
            FieldValue::Absent | FieldValue::Many => None,
        }
    }
}

/// The headers that control a gateway's router for one request.
#[derive(Debug)]
pub struct RouterHints {
    /// The prefix of all these headers, in lower case. Headers with this prefix are removed from the client's request.
    pub prefix: &'static str,
    /// The header with the timeout of the response, in milliseconds. It overrides the route's timeout; after it the
    /// router replies 504.
    pub timeout_ms: &'static str,
    /// Names and values of the headers that make the router retry once after a 404.
    pub retry_not_found: &'static [(&'static str, &'static str)],
}

/// The canonical form of a header name for comparison: lower case, `_` as `-`.
pub fn canonical(name: &str) -> String {
    name.bytes().map(|byte| char::from(fold(byte))).collect()
}

const fn fold(byte: u8) -> u8 {
    match byte {
        b'_' => b'-',
        other => other.to_ascii_lowercase(),
    }
}

/// Whether `name`, read with `_` as `-`, is the canonical `wanted`.
pub fn same_name(wanted: &str, name: &[u8]) -> bool {
    same(wanted.as_bytes(), name)
}

/// Compares as it is first, since most names are written as they are known. Then from the end, since names share prefixes (`x-`,
/// `access-control-`) more often than suffixes.
fn same(canonical: &[u8], name: &[u8]) -> bool {
    canonical.len() == name.len()
        && (equal(canonical, name) || canonical.iter().zip(name).rev().all(|(one, other)| *one == fold(*other)))
}

/// A set of header names and of name prefixes (`x-restate-*`), with exceptions.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct NameSet {
    /// Names by their length
    exact: Vec<SameLength>,
    prefixes: Vec<Box<[u8]>>,
    /// The length of the shortest prefix, and the bytes at its end that some prefix has there
    prefix_end: (usize, ByteMask),
    except: Vec<Box<[u8]>>,
}

/// Names of one length.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct SameLength {
    /// Their last bytes
    ends: ByteMask,
    names: Vec<Box<[u8]>>,
}

/// A set of bytes of names by their low five bits, which both cases of a letter have. It can hold more than was inserted.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct ByteMask(u32);

impl ByteMask {
    const fn insert(&mut self, byte: u8) {
        self.0 |= 1 << (byte & 31);
        if fold(byte) == b'-' {
            self.0 |= 1 << (b'-' & 31) | 1 << (b'_' & 31);
        }
    }

    const fn may_hold(self, byte: u8) -> bool {
        self.0 >> (byte & 31) & 1 == 1
    }
}

/// Tells most of the names that concern nobody from those of a set, in a few instructions: by the length of a name and its last
/// byte, and for prefixes by one byte. A name of the set always passes, and a few others do.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct NamePrefilter {
    /// For each length, the last bytes of the names. Longer names pass.
    ends: [ByteMask; Self::LENGTHS],
    /// As in [`NameSet`]
    prefix_end: Option<(usize, ByteMask)>,
}

impl NamePrefilter {
    const LENGTHS: usize = 32;

    /// The prefilter of a set and of further names.
    pub(crate) fn new(set: &NameSet, names: &[&str]) -> Self {
        let mut ends = [ByteMask::default(); Self::LENGTHS];
        let of_set = set.exact.iter().flat_map(|same_length| same_length.names.iter().map(|name| &**name));
        for name in of_set.chain(names.iter().map(|name| name.as_bytes())) {
            if let (Some(mask), Some(last)) = (ends.get_mut(name.len()), name.last()) {
                mask.insert(*last);
            }
        }
        let prefix_end = match set.prefix_end {
            _ if set.prefixes.is_empty() => None,
            // The prefix `*`: every name.
            (0, _) => Some((0, ByteMask(u32::MAX))),
            (shortest, ends) => Some((shortest - 1, ends)),
        };
        Self { ends, prefix_end }
    }

    /// Whether `name` may be one of the names, or begin with one of the set's prefixes.
    #[inline]
    pub(crate) fn may_match(&self, name: &[u8]) -> bool {
        let (Some(ends), Some(last)) = (self.ends.get(name.len()), name.last()) else { return true };
        ends.may_hold(*last)
            || self.prefix_end.is_some_and(|(end, ends)| name.get(end).is_some_and(|byte| ends.may_hold(*byte)))
    }
}

impl NameSet {
    /// Adds a name, or a prefix where it ends in `*`.
    pub fn insert(&mut self, pattern: &str) {
        let pattern = canonical(pattern);
        let (names, name) = match pattern.strip_suffix('*') {
            Some(prefix) => (&mut self.prefixes, prefix),
            None => {
                if self.exact.len() <= pattern.len() {
                    self.exact.resize(pattern.len() + 1, SameLength::default());
                }
                let Some(SameLength { ends, names }) = self.exact.get_mut(pattern.len()) else { return };
                if let Some(last) = pattern.bytes().last() {
                    ends.insert(last);
                }
                (names, pattern.as_str())
            }
        };
        if !names.iter().any(|known| known.as_ref() == name.as_bytes()) {
            names.push(name.as_bytes().into());
        }
        let shortest = self.prefixes.iter().map(|prefix| prefix.len()).min().unwrap_or_default();
        self.prefix_end = (shortest, ByteMask::default());
        for prefix in &self.prefixes {
            if let Some(byte) = shortest.checked_sub(1).and_then(|end| prefix.get(end)) {
                self.prefix_end.1.insert(*byte);
            }
        }
    }

    /// Adds the names and prefixes of another set, without its exceptions.
    pub fn extend(&mut self, other: &Self) {
        let exact = other.exact.iter().flat_map(|same_length| &same_length.names).map(|name| (name, ""));
        for (name, end) in exact.chain(other.prefixes.iter().map(|prefix| (prefix, "*"))) {
            self.insert(&(String::from_utf8_lossy(name).into_owned() + end));
        }
    }

    /// Makes a name an exception: it is not in the set, whatever else is inserted.
    pub fn exempt(&mut self, name: &str) {
        self.except.push(canonical(name).as_bytes().into());
    }

    /// Whether `name` (any spelling) is in the set.
    pub fn contains(&self, name: &[u8]) -> bool {
        let Some(last) = name.last() else { return false };
        let candidates = self.exact.get(name.len()).filter(|same_length| same_length.ends.may_hold(*last));
        let found = candidates.is_some_and(|candidates| candidates.names.iter().any(|known| same(known, name)))
            || self.has_prefix_of(name);
        found && !self.except.iter().any(|kept| same(kept, name))
    }

    fn has_prefix_of(&self, name: &[u8]) -> bool {
        let (shortest, ends) = self.prefix_end;
        let begins = |prefix: &[u8]| name.get(..prefix.len()).is_some_and(|head| same(prefix, head));
        match shortest.checked_sub(1) {
            Some(end) => {
                name.get(end).is_some_and(|byte| ends.may_hold(*byte))
                    && self.prefixes.iter().any(|prefix| begins(prefix))
            }
            // The prefix `*`: every name.
            None => !self.prefixes.is_empty(),
        }
    }
}

/// The names without duplicates, sorted. Sorting is fast for the few names of a usual message and bounded for many.
pub(crate) fn distinct<T: Ord>(names: Vec<T>) -> Vec<T> {
    let mut names = sorted(names);
    names.dedup();
    names
}

/// Sorted. A heap sorts with a fifth of the code of `sort_unstable`, and code costs time at every start of a worker.
pub(crate) fn sorted<T: Ord>(items: Vec<T>) -> Vec<T> {
    if items.len() < 2 { items } else { BinaryHeap::from(items).into_sorted_vec() }
}

/// The few texts of a document without duplicates, sorted. Built by insertion: another sort would be code of its own.
pub(crate) fn distinct_texts(texts: Vec<&str>) -> Vec<&str> {
    let mut sorted = Vec::new();
    for text in texts {
        if let Err(place) = sorted.binary_search(&text) {
            sorted.insert(place, text);
        }
    }
    sorted
}

/// Whether `name` can be the name of a header (RFC 9110 section 5.6.2, `token`).
pub fn is_field_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(is_token_byte)
}

/// RFC 9110 section 5.6.2, `tchar`.
pub const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
        )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::cmp::Ordering;

    #[test]
    fn a_repeated_header_is_never_one_value() {
        let headers = Headers::new(vec![(b"a", b"1"), (b"b", b"2"), (b"a", b"1")]);
        assert_eq!(headers.field("a"), FieldValue::Many);
        assert_eq!(headers.field("b"), FieldValue::One(b"2"));
        assert_eq!(headers.field("c"), FieldValue::Absent);
    }

    #[test]
    fn names_compare_with_underscores_as_dashes_and_in_any_case() {
        for name in ["idempotency-key", "Idempotency_Key", "IDEMPOTENCY-KEY", "idempotency_key"] {
            assert!(same_name(IDEMPOTENCY_KEY, name.as_bytes()), "{name}");
        }
        for name in ["idempotency-keys", "idempotencykey", "x-idempotency-key", ""] {
            assert!(!same_name(IDEMPOTENCY_KEY, name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn a_set_knows_names_prefixes_and_exceptions_in_every_spelling() {
        let mut set = NameSet::default();
        for name in ["Authorization", "cookie", "x-restate-*", "x_tenant_id"] {
            set.insert(name);
        }
        set.exempt("x-restate-id");
        for name in ["authorization", "x-restate-", "X_Restate_Error", "x-tenant-id", "x-tenant_id"] {
            assert!(set.contains(name.as_bytes()), "{name}");
        }
        for name in ["authorisation", "x-restat", "x-restate-id", "x_restate_id", "", "x-tenant-id2"] {
            assert!(!set.contains(name.as_bytes()), "{name}");
        }
    }

    /// A header that the prefilter held back by mistake would reach the backend, for example with another caller's tenant.
    #[test]
    fn whatever_a_set_holds_passes_its_prefilter_in_every_spelling() {
        let long = "x-".repeat(40);
        let patterns = ["authorization", "x_tenant_id", "ends-", "a", "x-restate-*", "x-envoy-*", "y_*", &long];
        let spellings = |name: &str| {
            let upper = name.to_ascii_uppercase();
            [name.to_owned(), name.replace('-', "_"), name.replace('_', "-"), upper.replace('-', "_"), upper]
        };
        for length in 1..=patterns.len() {
            let mut set = NameSet::default();
            patterns.iter().take(length).for_each(|pattern| set.insert(pattern));
            let prefilter = NamePrefilter::new(&set, &REQUEST_NAMES);
            let of_set = patterns.iter().take(length).flat_map(|pattern| match pattern.strip_suffix('*') {
                Some(prefix) => vec![prefix.to_owned(), format!("{prefix}id"), format!("{prefix}{long}")],
                None => vec![(*pattern).to_owned()],
            });
            for name in of_set.flat_map(|name| spellings(&name)) {
                assert!(
                    set.contains(name.as_bytes()) && prefilter.may_match(name.as_bytes()),
                    "{name}, {length} patterns"
                );
            }
            assert!(REQUEST_NAMES.iter().all(|name| prefilter.may_match(name.as_bytes())));
        }
        let every = |pattern| {
            let mut set = NameSet::default();
            set.insert(pattern);
            NamePrefilter::new(&set, &[])
        };
        assert!((0..=u8::MAX).all(|byte| every("*").may_match(&[b'x', byte])));
        assert!(!every("authorization").may_match(b"accept") && !every("x-restate-*").may_match(b"x-forwarded-for"));
    }

    /// A name that counts how often it is compared.
    #[derive(Debug)]
    struct Counted<'c>(usize, &'c Cell<usize>);

    impl PartialEq for Counted<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other) == Ordering::Equal
        }
    }

    impl Eq for Counted<'_> {}

    impl PartialOrd for Counted<'_> {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl Ord for Counted<'_> {
        fn cmp(&self, other: &Self) -> Ordering {
            self.1.set(self.1.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    /// How many comparisons it takes to find the distinct ones of so many names.
    fn comparisons(names: impl Iterator<Item = usize>) -> usize {
        let count = Cell::new(0);
        distinct(names.map(|name| Counted(name, &count)).collect());
        count.get()
    }

    #[test]
    fn distinct_names_cost_about_their_number() {
        assert_eq!(distinct(vec!["b", "a", "b", "c", "a"]), ["a", "b", "c"]);
        assert_eq!(comparisons(0..0) + comparisons(0..1), 0);
        // A list that is searched takes 50 million.
        let scattered = |number: usize| number * 7919 % 10_007;
        for names in [comparisons(0..10_000), comparisons((0..10_000).rev()), comparisons((0..10_000).map(scattered))] {
            assert!(names < 400_000, "{names} comparisons");
        }
        let (few, many) = (comparisons((0..1000).map(scattered)), comparisons((0..10_000).map(scattered)));
        assert!(many < 20 * few, "{few} comparisons of 1,000 names, {many} of 10,000");
    }
}
