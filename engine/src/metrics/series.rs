//! The series of one VM. Their number is bounded, because a gateway cannot remove a series, not even when it replaces the
//! policy. Counts wait here until the next flush, so that a request needs no host call for them.

use super::{Count, Counter, Histogram, MetricKind};
use crate::host::{Host, MetricId};
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

/// The values of a series' labels: the counter's own two, tenant, project, endpoint.
type LabelValues<'v> = [&'v str; 5];

/// The series of one VM.
pub struct SeriesTable {
    /// In the order of their first counts
    series: Vec<Series>,
    /// Their indices, by the hash of counter and label values
    index: HashTable<u32>,
    /// The series with a count that waits for the next flush
    waiting: Vec<u32>,
    folded: Metric,
    /// The gateway's ids of the histograms, by the values of their labels, which are this crate's and the policy's
    histograms: [BTreeMap<Box<str>, u32>; Histogram::COUNT],
}

/// One series.
struct Series {
    counter: Counter,
    labels: Labels,
    metric: Metric,
}

/// The label values of a series.
struct Labels {
    /// All of them, one behind the other
    text: Box<str>,
    /// The length of each of them, in bytes
    lengths: [u32; 5],
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

impl Labels {
    fn new(values: LabelValues<'_>) -> Self {
        let lengths = values.map(|value| u32::try_from(value.len()).unwrap_or(u32::MAX));
        Self { text: values.concat().into(), lengths }
    }

    fn values(&self) -> LabelValues<'_> {
        let mut rest = &*self.text;
        self.lengths.map(|length| {
            let (value, after) = rest.split_at_checked(length as usize).unwrap_or((rest, ""));
            rest = after;
            value
        })
    }
}

/// The hash of a series.
fn hash(counter: Counter, values: LabelValues<'_>) -> u64 {
    let mut hasher = FixedState::default().build_hasher();
    hasher.write_u8(counter as u8);
    for value in values {
        hasher.write(value.as_bytes());
    }
    hasher.finish()
}

impl Default for SeriesTable {
    fn default() -> Self {
        let (series, index, folded, histograms) = Default::default();
        Self { series, index, waiting: Vec::new(), folded, histograms }
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

    /// Counts one. A tenant gets a series of its own if there are fewer than `limit` series. The series without a tenant and
    /// those of `_other` have room beyond it, since all of their values come from policies and from this crate.
    pub fn add(&mut self, count: &Count<'_>, limit: usize) {
        let [first, second] = count.values;
        let endpoint = count.endpoint.unwrap_or(UNMATCHED);
        let values = [first, second, count.tenant.unwrap_or(NONE), count.project.unwrap_or(NONE), endpoint];
        if self.increment(count.counter, values) {
            return;
        }
        // Without a tenant, no value comes from outside.
        if self.series.len() < limit || count.tenant.is_none() {
            return self.define(count.counter, values);
        }
        self.folded.count += 1;
        let values = [first, second, OTHER, OTHER, endpoint];
        if !self.increment(count.counter, values) {
            self.define(count.counter, values);
        }
    }

    /// Counts one in a series that exists; `false` if it does not.
    fn increment(&mut self, counter: Counter, values: LabelValues<'_>) -> bool {
        let Self { series, index, waiting, .. } = self;
        let is_it = |id: &u32| {
            let known = series.get(*id as usize);
            known.is_some_and(|known| known.counter == counter && known.labels.values() == values)
        };
        let Some(&id) = index.find(hash(counter, values), is_it) else { return false };
        let Some(found) = series.get_mut(id as usize) else { return false };
        if found.metric.count == 0 {
            waiting.push(id);
        }
        found.metric.count += 1;
        true
    }

    /// Makes a series with the count 1.
    #[inline(never)]
    fn define(&mut self, counter: Counter, values: LabelValues<'_>) {
        let Ok(id) = u32::try_from(self.series.len()) else { return };
        let metric = Metric { id: None, count: 1 };
        self.series.push(Series { counter, labels: Labels::new(values), metric });
        let series = &self.series;
        let hash_of = |id: &u32| series.get(*id as usize).map_or(0, |known| hash(known.counter, known.labels.values()));
        self.index.insert_unique(hash(counter, values), id, hash_of);
        self.waiting.push(id);
    }

    /// Gives the counts to the gateway.
    pub fn flush<H: Host>(&mut self, host: &H) {
        let series = &mut self.series;
        self.waiting.retain(|id| {
            let Some(Series { counter, labels, metric }) = series.get_mut(*id as usize) else { return false };
            metric.flush(host, || name(*counter, labels.values()));
            metric.count > 0
        });
        if self.folded.count > 0 {
            self.folded.flush(host, || FOLDED.to_owned());
        }
    }
}

/// The name of a counter's series with its labels: `name;label=value;…`. The gateway's `stats_tags` take it apart.
fn name(counter: Counter, [first, second, tenant, project, endpoint]: LabelValues<'_>) -> String {
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
        let counted = |series: &Series| (name(series.counter, series.labels.values()), series.metric.count);
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
    }

    #[test]
    fn no_value_ends_a_label_or_the_name() {
        let name = name(Counter::Problem, ["a;b\nc", NONE, "x.y:/\"\u{e9}", "p", "e"]);
        assert_eq!(name, "idempotency_problem_total;code=a_b_c;tenant=x.y:/\"\u{e9};project=p;endpoint=e");
    }

    #[test]
    fn a_long_value_is_cut_between_characters() {
        let (short, long) = ("\u{e9}".repeat(MAX_LABEL_CHARS), "\u{e9}".repeat(300));
        let name = name(Counter::Problem, ["c", NONE, "t", "p", &long]);
        assert_eq!(name, format!("idempotency_problem_total;code=c;tenant=t;project=p;endpoint={short}"));
    }
}
