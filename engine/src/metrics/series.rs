//! The series of one VM. Their number is bounded, because a gateway cannot remove a series, not even when it replaces the
//! policy. Counts wait here until the next flush, so that a request needs no host call for them.

use super::{Count, Counter, Histogram, MetricKind};
use crate::host::{Host, MetricId};
use std::collections::BTreeMap;

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

/// A series: its counter, and the numbers of its label values (the counter's own two, tenant, project, endpoint).
type SeriesKey = (Counter, [u32; 5]);

/// The series of one VM.
pub struct SeriesTable {
    /// The number of each label value. Only a value of some series has a number, so there are not many.
    numbers: BTreeMap<Box<str>, u32>,
    series: BTreeMap<SeriesKey, Series>,
    /// The series with a count that waits for the next flush
    waiting: Vec<SeriesKey>,
    folded: Series,
    /// The gateway's ids of the histograms, by the values of their labels, which are this crate's and the policy's
    histograms: [BTreeMap<Box<str>, u32>; Histogram::COUNT],
}

/// One series.
struct Series {
    /// The name with its labels. It is dropped when the gateway has defined the metric.
    name: Option<Box<str>>,
    metric: Option<MetricId>,
    /// The count since the last flush
    count: u64,
}

impl Series {
    fn named(name: &str) -> Self {
        Self { name: Some(name.into()), metric: None, count: 0 }
    }

    /// Adds the count to the gateway's metric, which the first flush defines. A count that the gateway does not take
    /// waits for the next flush.
    fn flush<H: Host>(&mut self, host: &H) {
        if self.metric.is_none() {
            self.metric = self.name.as_ref().and_then(|name| host.define_metric(MetricKind::Counter, name).ok());
        }
        let Some(metric) = self.metric else { return };
        self.name = None;
        if host.add_to_metric(metric, self.count).is_ok() {
            self.count = 0;
        }
    }
}

impl Default for SeriesTable {
    fn default() -> Self {
        let (numbers, series, histograms) = (BTreeMap::new(), BTreeMap::new(), Default::default());
        Self { numbers, series, waiting: Vec::new(), folded: Series::named(FOLDED), histograms }
    }
}

impl SeriesTable {
    /// Gives the gateway the counter of folded increments, at 0. It shows that a configuration has started.
    pub fn announce<H: Host>(&mut self, host: &H) {
        self.folded.flush(host);
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
    pub fn size(&self) -> usize {
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
    fn increment(&mut self, counter: Counter, values: [&str; 5]) -> bool {
        let numbers = values.map(|value| self.numbers.get(value).copied());
        let [Some(first), Some(second), Some(tenant), Some(project), Some(endpoint)] = numbers else { return false };
        let key = (counter, [first, second, tenant, project, endpoint]);
        let Some(series) = self.series.get_mut(&key) else { return false };
        if series.count == 0 {
            self.waiting.push(key);
        }
        series.count += 1;
        true
    }

    /// Makes a series with the count 1.
    #[inline(never)]
    fn define(&mut self, counter: Counter, values: [&str; 5]) {
        let numbers = values.map(|value| {
            let next = u32::try_from(self.numbers.len()).unwrap_or(u32::MAX);
            *self.numbers.entry(value.into()).or_insert(next)
        });
        let key = (counter, numbers);
        self.series.insert(key, Series { count: 1, ..Series::named(&name(counter, values)) });
        self.waiting.push(key);
    }

    /// Gives the counts to the gateway.
    pub fn flush<H: Host>(&mut self, host: &H) {
        for key in &self.waiting {
            if let Some(series) = self.series.get_mut(key) {
                series.flush(host);
            }
        }
        let series = &self.series;
        self.waiting.retain(|key| series.get(key).is_some_and(|series| series.count > 0));
        if self.folded.count > 0 {
            self.folded.flush(host);
        }
    }
}

/// The name of a counter's series with its labels: `name;label=value;…`. The gateway's `stats_tags` take it apart.
fn name(counter: Counter, [first, second, tenant, project, endpoint]: [&str; 5]) -> String {
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
        let counts =
            table.series.values().filter_map(|series| Some((series.name.as_deref()?.to_owned(), series.count)));
        counts.collect()
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
        assert!(table.numbers.len() < 110, "{}", table.numbers.len());
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
