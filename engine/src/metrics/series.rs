//! The series of one VM. Their number is bounded, because a gateway cannot remove a series, not even when it replaces the
//! policy. Counts wait here until the next flush, so that a request needs no host call for them.

use super::{Count, Counter, Histogram};
use crate::bytes::equal;
use crate::host::{Host, MetricId, MetricKind};
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher};

/// The value of a label that is absent.
pub(crate) const NONE: &str = "_none";
/// The endpoint of a request that matched no route.
pub(super) const UNMATCHED: &str = "_unmatched";
/// Tenant and project of requests whose tenant has no series of its own.
const OTHER: &str = "_other";
/// The longest label value, in characters. The rest of a longer one is left out.
const MAX_LABEL_CHARS: usize = 128;
/// Counts the increments that went to a series of `_other`.
const FOLDED: &str = "idempotency_series_folded_total";

/// The series of one VM.
pub struct SeriesTable {
    /// In the order of their first counts
    series: Vec<Series>,
    /// Their indices, by the hash of counter, own label values and subject
    index: HashTable<u32>,
    /// Tenant, project and endpoint of the series
    subjects: Vec<[Box<str>; 3]>,
    /// Their indices, by their hashes
    subject_index: HashTable<u32>,
    /// The series with a count that waits for the next flush
    waiting: Vec<u32>,
    folded: Metric,
    /// The gateway's ids of the histograms, by the values of their labels, which are this crate's and the policy's
    histograms: [BTreeMap<Box<str>, u32>; Histogram::COUNT],
}

/// What the counts of one exchange are about: tenant, project and endpoint. They are looked up once for all of its counts.
pub(crate) struct CountSubject<'c> {
    values: [&'c str; 3],
    has_tenant: bool,
    /// The index, if there is a series about them
    id: Option<u32>,
}

/// One series.
struct Series {
    counter: Counter,
    /// The values of the counter's own labels
    values: [Box<str>; 2],
    /// The index of tenant, project and endpoint
    subject: u32,
    metric: Metric,
}

/// A count, and the gateway's metric for it.
#[derive(Default)]
struct Metric {
    id: Option<MetricId>,
    /// The count since the last flush
    count: u64,
}

impl Metric {
    /// Adds the count to the gateway's metric, which the first flush defines by this name. A count that the gateway does not
    /// take waits for the next flush.
    fn flush<H: Host>(&mut self, host: &H, name: impl FnOnce() -> String) {
        if self.id.is_none() {
            self.id = host.define_metric(MetricKind::Counter, &name()).ok();
        }
        if self.id.is_some_and(|id| host.add_to_metric(id, self.count).is_ok()) {
            self.count = 0;
        }
    }
}

fn hash<const COUNT: usize>(seed: u32, values: [&str; COUNT]) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    hasher.write_u32(seed);
    for value in values {
        hasher.write(value.as_bytes());
    }
    hasher.finish()
}

/// The hash of a series.
fn series_hash(counter: Counter, subject: u32, values: [&str; 2]) -> u64 {
    hash(subject << 5 | counter as u32, values)
}

fn are<const COUNT: usize>(known: &[Box<str>; COUNT], values: [&str; COUNT]) -> bool {
    known.iter().zip(values).all(|(known, value)| equal(known.as_bytes(), value.as_bytes()))
}

fn texts<const COUNT: usize>(values: &[Box<str>; COUNT]) -> [&str; COUNT] {
    values.each_ref().map(|value| &**value)
}

impl Default for SeriesTable {
    fn default() -> Self {
        let (series, index, subjects, subject_index) = Default::default();
        let (waiting, folded, histograms) = Default::default();
        Self { series, index, subjects, subject_index, waiting, folded, histograms }
    }
}

impl SeriesTable {
    /// Gives the gateway the counter of folded increments, at 0. It shows that a configuration has started.
    pub fn announce<H: Host>(&mut self, host: &H) {
        self.folded.flush(host, || FOLDED.to_owned());
    }

    /// Gives a value to a histogram of the gateway, at once.
    #[inline(never)]
    pub fn record<H: Host>(&mut self, host: &H, histogram: Histogram, label_value: &str, value: u64) {
        let Some(metrics) = self.histograms.get_mut(histogram as usize) else { return };
        let metric = match metrics.get(label_value) {
            Some(id) => MetricId(*id),
            None => {
                let (name, label) = histogram.names();
                let mut name = name.to_owned();
                add_label(&mut name, label, label_value);
                let Ok(metric) = host.define_metric(MetricKind::Histogram, &name) else { return };
                MetricId(*metrics.entry(label_value.into()).or_insert(metric.0))
            }
        };
        // A value that the gateway does not take is lost.
        let _ = host.record_in_metric(metric, value);
    }

    /// The number of series.
    pub const fn size(&self) -> usize {
        self.series.len()
    }

    /// Counts one; see [`SeriesTable::add_about`].
    pub fn add(&mut self, count: &Count<'_>, limit: usize) {
        let subject = self.subject(count.tenant, count.project, count.endpoint);
        self.add_about(&subject, count.counter, count.values, limit);
    }

    /// What counts are about. A value that is absent is `_none`, an endpoint `_unmatched`.
    pub(crate) fn subject<'c>(
        &self,
        tenant: Option<&'c str>,
        project: Option<&'c str>,
        endpoint: Option<&'c str>,
    ) -> CountSubject<'c> {
        let values = [tenant.unwrap_or(NONE), project.unwrap_or(NONE), endpoint.unwrap_or(UNMATCHED)];
        CountSubject { values, has_tenant: tenant.is_some(), id: self.find_subject(values) }
    }

    /// Counts one. A tenant gets a series of its own if there are fewer than `limit` series. The series without a tenant and
    /// those of `_other` have room beyond it, since all of their values come from policies and from this crate.
    pub(crate) fn add_about(&mut self, about: &CountSubject<'_>, counter: Counter, values: [&str; 2], limit: usize) {
        if about.id.is_some_and(|id| self.increment(counter, id, values)) {
            return;
        }
        self.add_first(about, counter, values, limit);
    }

    /// Counts one in a series that may not exist yet.
    #[inline(never)]
    fn add_first(&mut self, about: &CountSubject<'_>, counter: Counter, values: [&str; 2], limit: usize) {
        let [_, _, endpoint] = about.values;
        // Without a tenant, no value comes from outside.
        let is_own = |table: &Self| table.series.len() < limit || !about.has_tenant;
        let known = self.find_subject(about.values);
        if known.is_some_and(|id| self.increment(counter, id, values)) {
            return;
        }
        if is_own(self) {
            return self.define(counter, about.values, values);
        }
        self.folded.count += 1;
        let other = [OTHER, OTHER, endpoint];
        let known = self.find_subject(other);
        if !known.is_some_and(|id| self.increment(counter, id, values)) {
            self.define(counter, other, values);
        }
    }

    fn find_subject(&self, values: [&str; 3]) -> Option<u32> {
        let is_it = |id: &u32| self.subjects.get(*id as usize).is_some_and(|known| are(known, values));
        self.subject_index.find(hash(0, values), is_it).copied()
    }

    /// Counts one in a series that exists; `false` if it does not.
    fn increment(&mut self, counter: Counter, subject: u32, values: [&str; 2]) -> bool {
        let Self { series, index, waiting, .. } = self;
        let is_it = |id: &u32| {
            let known = series.get(*id as usize);
            known
                .is_some_and(|known| known.counter == counter && known.subject == subject && are(&known.values, values))
        };
        let Some(&id) = index.find(series_hash(counter, subject, values), is_it) else { return false };
        let Some(found) = series.get_mut(id as usize) else { return false };
        if found.metric.count == 0 {
            waiting.push(id);
        }
        found.metric.count += 1;
        true
    }

    /// Makes a series with the count 1.
    #[inline(never)]
    fn define(&mut self, counter: Counter, about: [&str; 3], values: [&str; 2]) {
        let subjects = &mut self.subjects;
        let subject = self.subject_index.find(hash(0, about), |id| {
            let known = subjects.get(*id as usize);
            known.is_some_and(|known| are(known, about))
        });
        let subject = subject.copied().unwrap_or_else(|| {
            let id = u32::try_from(subjects.len()).unwrap_or(u32::MAX);
            subjects.push(about.map(Into::into));
            let hash_of = |id: &u32| subjects.get(*id as usize).map_or(0, |known| hash(0, texts(known)));
            self.subject_index.insert_unique(hash(0, about), id, hash_of);
            id
        });
        let Ok(id) = u32::try_from(self.series.len()) else { return };
        let metric = Metric { id: None, count: 1 };
        self.series.push(Series { counter, values: values.map(Into::into), subject, metric });
        let series = &self.series;
        let hash_of = |id: &u32| {
            let known = series.get(*id as usize);
            known.map_or(0, |known| series_hash(known.counter, known.subject, texts(&known.values)))
        };
        self.index.insert_unique(series_hash(counter, subject, values), id, hash_of);
        self.waiting.push(id);
    }

    /// Gives the counts to the gateway.
    pub fn flush<H: Host>(&mut self, host: &H) {
        let (series, subjects) = (&mut self.series, &self.subjects);
        self.waiting.retain(|id| {
            let Some(Series { counter, values, subject, metric }) = series.get_mut(*id as usize) else { return false };
            let Some(about) = subjects.get(*subject as usize) else { return false };
            metric.flush(host, || name(*counter, texts(values), texts(about)));
            metric.count > 0
        });
        if self.folded.count > 0 {
            self.folded.flush(host, || FOLDED.to_owned());
        }
    }
}

/// The name of a counter's series with its labels: `name;label=value;…`. The gateway's `stats_tags` take it apart.
fn name(counter: Counter, [first, second]: [&str; 2], [tenant, project, endpoint]: [&str; 3]) -> String {
    let mut name = counter.name().to_owned();
    let own = counter.labels().iter().copied().zip([first, second]);
    for (label, value) in own.chain([("tenant", tenant), ("project", project), ("endpoint", endpoint)]) {
        add_label(&mut name, label, value);
    }
    name
}

/// Adds a label to the name of a metric. A value is cut after [`MAX_LABEL_CHARS`].
#[inline(never)]
fn add_label(name: &mut String, label: &str, value: &str) {
    name.push(';');
    name.push_str(label);
    name.push('=');
    for c in value.chars().take(MAX_LABEL_CHARS) {
        // These would end a label, or the name.
        name.push(if c == ';' || c.is_control() { '_' } else { c });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(tenant: Option<&'static str>, endpoint: &'static str) -> Count<'static> {
        let project = tenant.map(|_| "shop");
        Count { counter: Counter::KeyInvalid, values: ["length", NONE], tenant, project, endpoint: Some(endpoint) }
    }

    fn counts(table: &SeriesTable) -> Vec<(String, u64)> {
        let counted = |series: &Series| {
            let about = texts(&table.subjects[series.subject as usize]);
            (name(series.counter, texts(&series.values), about), series.metric.count)
        };
        table.series.iter().map(counted).collect()
    }

    fn named(tenant: &str, project: &str, endpoint: &str, count: u64) -> (String, u64) {
        let labels = format!("reason=length;tenant={tenant};project={project};endpoint={endpoint}");
        (format!("idempotency_key_invalid_total;{labels}"), count)
    }

    #[test]
    fn a_series_counts_its_own() {
        let mut table = SeriesTable::default();
        for tenant in [Some("acme"), Some("globex"), Some("acme"), None] {
            table.add(&count(tenant, "a"), 10);
        }
        let mut seen = counts(&table);
        seen.sort();
        let expected = [named(NONE, NONE, "a", 1), named("acme", "shop", "a", 2), named("globex", "shop", "a", 1)];
        assert_eq!(seen, expected);
    }

    #[test]
    fn tenants_beyond_the_limit_share_a_series() {
        let mut table = SeriesTable::default();
        for tenant in ["a", "b", "c", "d", "c", "a"] {
            table.add(&count(Some(tenant), "x"), 2);
        }
        table.add(&count(Some("c"), "y"), 2);
        table.add(&count(None, "x"), 2);
        let mut seen = counts(&table);
        seen.sort();
        let mut expected = [
            named("a", "shop", "x", 2),
            named("b", "shop", "x", 1),
            named(OTHER, OTHER, "x", 3),
            named(OTHER, OTHER, "y", 1),
            named(NONE, NONE, "x", 1),
        ];
        expected.sort();
        assert_eq!((seen.as_slice(), table.folded.count), (expected.as_slice(), 4));
    }

    #[test]
    fn the_number_of_series_is_bounded_whatever_tenants_there_are() {
        let mut table = SeriesTable::default();
        let tenants: Vec<String> = (0..50_000).map(|number| format!("tenant-{number}")).collect();
        for tenant in &tenants {
            let project = Some("shop");
            let values = ["length", NONE];
            let tenant = Some(tenant.as_str());
            table.add(&Count { counter: Counter::KeyInvalid, values, tenant, project, endpoint: Some("a") }, 100);
        }
        assert_eq!((table.size(), table.folded.count), (101, 49_900));
        assert_eq!((table.subjects.len(), table.subject_index.len(), table.index.len()), (101, 101, 101));
    }

    #[test]
    fn no_value_ends_a_label_or_the_name() {
        let name = name(Counter::Problem, ["a;b\nc", NONE], ["x.y:/\"\u{e9}", "p", "e"]);
        assert_eq!(name, "idempotency_problem_total;code=a_b_c;tenant=x.y:/\"\u{e9};project=p;endpoint=e");
    }

    #[test]
    fn a_long_value_is_cut_between_characters() {
        let (short, long) = ("\u{e9}".repeat(MAX_LABEL_CHARS), "\u{e9}".repeat(300));
        let name = name(Counter::Problem, ["c", NONE], ["t", "p", &long]);
        assert_eq!(name, format!("idempotency_problem_total;code=c;tenant=t;project=p;endpoint={short}"));
    }
}
