//! The series of one VM. Their number is bounded, because a gateway cannot remove a series, not even when it replaces the
//! policy. Counts wait here until the next flush, so that a request needs no host call for them.

use super::{Count, Counter, Histogram};
use crate::bytes::equal;
use crate::host::{Gateway, MetricId, MetricKind, MetricSeries};
use crate::policy::insert_number;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use std::hash::{BuildHasher, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};

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
/// The labels that every series has beside its metric's own, but the one of [`FOLDED`].
const SUBJECT_LABELS: [&str; 3] = ["tenant", "project", "endpoint"];

/// The series of one VM.
pub struct SeriesTable {
    /// In the order of their first counts
    series: Vec<Series>,
    /// Their indices, by the hash of instrument, own label values and subject
    index: HashTable<u32>,
    /// How many of them are histograms
    histograms: usize,
    /// Tenant, project and endpoint of the series
    subjects: Vec<[Box<str>; 3]>,
    /// Their indices, by their hashes
    subject_index: HashTable<u32>,
    /// The series with a count that waits for the next flush
    waiting: Vec<u32>,
    folded: Metric,
    /// No other table of the process has it
    number: u32,
}

/// What the counts of one exchange are about: tenant, project and endpoint. They are looked up once for all of its counts.
pub(crate) struct CountSubject<'c> {
    values: [&'c str; 3],
    has_tenant: bool,
    /// The index, if there is a series about them
    id: Option<u32>,
}

/// A histogram's series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HistogramSeries {
    /// The number of its table
    table: u32,
    /// Its index
    id: u32,
}

/// What a series is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Instrument {
    Counter(Counter),
    Histogram(Histogram),
}

/// One series.
struct Series {
    instrument: Instrument,
    /// The values of the instrument's own labels
    values: [Box<str>; 2],
    /// The index of tenant, project and endpoint
    subject: u32,
    metric: Metric,
}

/// Makes the labels of a series, when the gateway has to know them.
type Labels<'l> = &'l dyn Fn() -> Vec<(&'static str, String)>;

/// A metric of the gateway.
#[derive(Default)]
struct Metric {
    /// Its id, after the gateway has defined it
    id: Option<MetricId>,
    /// A counter's count since the last flush
    count: u64,
}

impl Metric {
    /// The gateway's id, which the first call defines; `None` if the gateway has no such metric.
    fn define<G: Gateway>(
        &mut self,
        gateway: &G,
        name: &'static str,
        kind: MetricKind,
        labels: Labels<'_>,
    ) -> Option<MetricId> {
        if self.id.is_none() {
            self.id = gateway.define_metric(&MetricSeries { kind, name, labels: &labels() }).ok();
        }
        self.id
    }

    /// Adds the count to the gateway's counter. A count that the gateway does not take waits for the next flush.
    fn flush<G: Gateway>(&mut self, gateway: &G, name: &'static str, labels: Labels<'_>) {
        let id = self.define(gateway, name, MetricKind::Counter, labels);
        if id.is_some_and(|id| gateway.add_to_metric(id, self.count).is_ok()) {
            self.count = 0;
        }
    }
}

impl Instrument {
    /// A number that no other instrument has, below 32.
    const fn number(self) -> u32 {
        match self {
            Self::Counter(counter) => counter as u32,
            Self::Histogram(histogram) => 31 - histogram as u32,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Counter(counter) => counter.name(),
            Self::Histogram(histogram) => histogram.name(),
        }
    }

    const fn labels(self) -> &'static [&'static str] {
        match self {
            Self::Counter(counter) => counter.labels(),
            Self::Histogram(histogram) => histogram.labels(),
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

/// The hash of a series. Few values of an instrument have the same length, since they come from policies and from this crate.
fn series_hash(instrument: Instrument, subject: u32, values: [&str; 2]) -> u64 {
    let lengths = values.iter().fold(0, |lengths, value| lengths << 8 | value.len() as u32);
    hash((subject << 5 | instrument.number()) ^ lengths << 16, [])
}

fn same_labels<const COUNT: usize>(known: &[Box<str>; COUNT], values: [&str; COUNT]) -> bool {
    known.iter().zip(values).all(|(known, value)| equal(known.as_bytes(), value.as_bytes()))
}

fn label_texts<const COUNT: usize>(values: &[Box<str>; COUNT]) -> [&str; COUNT] {
    values.each_ref().map(|value| &**value)
}

impl Default for SeriesTable {
    fn default() -> Self {
        static LAST: AtomicU32 = AtomicU32::new(0);
        let (series, index, subjects, subject_index) = Default::default();
        let (waiting, folded, histograms) = Default::default();
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        Self { series, index, histograms, subjects, subject_index, waiting, folded, number }
    }
}

impl SeriesTable {
    /// Gives the gateway the counter of folded increments, at 0. It shows that a configuration has started.
    pub fn announce<G: Gateway>(&mut self, gateway: &G) {
        self.folded.flush(gateway, FOLDED, &Vec::new);
    }

    /// The series of a histogram. As for a counter, a tenant gets a series of its own if there is room; `limit` is that of
    /// [`SeriesTable::add_about`], and histograms have as much room again, in which each counts as [`Histogram::SERIES`].
    pub(crate) fn histogram(
        &mut self,
        about: &CountSubject<'_>,
        histogram: Histogram,
        value: &str,
        limit: usize,
    ) -> Option<HistogramSeries> {
        let (id, _) = self.find_or_define(about, Instrument::Histogram(histogram), [value, NONE], limit)?;
        Some(HistogramSeries { table: self.number, id })
    }

    /// Gives a value to a histogram of the gateway, at once. `false` if the series is another table's.
    pub(crate) fn record<G: Gateway>(&mut self, gateway: &G, series: HistogramSeries, value: u64) -> bool {
        let (HistogramSeries { table, id }, subjects) = (series, &self.subjects);
        if table != self.number {
            return false;
        }
        let Some(Series { instrument, values, subject, metric }) = self.series.get_mut(id as usize) else {
            return true;
        };
        let Some(about) = subjects.get(*subject as usize) else { return true };
        let labels = || labels(*instrument, label_texts(values), label_texts(about));
        if let Some(metric) = metric.define(gateway, instrument.name(), MetricKind::Histogram, &labels) {
            // A value that the gateway does not take is lost.
            let _ = gateway.record_in_metric(metric, value);
        }
        true
    }

    /// The number of series; a histogram is one.
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
        let counter = Instrument::Counter(counter);
        let known = about.id.and_then(|subject| self.find(counter, subject, values));
        let found = known.map(|id| (id, false)).or_else(|| self.find_or_define(about, counter, values, limit));
        let Some((id, folded)) = found else { return };
        self.folded.count += u64::from(folded);
        let Some(found) = self.series.get_mut(id as usize) else { return };
        if found.metric.count == 0 {
            self.waiting.push(id);
        }
        found.metric.count += 1;
    }

    /// The index of a series that may not exist yet, and whether it is one of `_other`.
    fn find_or_define(
        &mut self,
        about: &CountSubject<'_>,
        instrument: Instrument,
        values: [&str; 2],
        limit: usize,
    ) -> Option<(u32, bool)> {
        let known = |table: &Self, about| table.find(instrument, table.find_subject(about)?, values);
        if let Some(id) = known(self, about.values) {
            return Some((id, false));
        }
        let has_room = match instrument {
            Instrument::Counter(_) => self.series.len() - self.histograms < limit,
            Instrument::Histogram(_) => self.histograms < limit / Histogram::SERIES,
        };
        // Without a tenant, no value comes from outside.
        if has_room || !about.has_tenant {
            return Some((self.define(instrument, about.values, values)?, false));
        }
        let [_, _, endpoint] = about.values;
        let other = [OTHER, OTHER, endpoint];
        let id = known(self, other).or_else(|| self.define(instrument, other, values))?;
        Some((id, true))
    }

    fn find_subject(&self, values: [&str; 3]) -> Option<u32> {
        let is_it = |id: &u32| self.subjects.get(*id as usize).is_some_and(|known| same_labels(known, values));
        self.subject_index.find(hash(0, values), is_it).copied()
    }

    /// The index of a series that exists.
    fn find(&self, instrument: Instrument, subject: u32, values: [&str; 2]) -> Option<u32> {
        let is_it = |id: &u32| {
            let known = self.series.get(*id as usize);
            known.is_some_and(|known| {
                known.instrument == instrument && known.subject == subject && same_labels(&known.values, values)
            })
        };
        self.index.find(series_hash(instrument, subject, values), is_it).copied()
    }

    /// Makes a series, and gives its index.
    fn define(&mut self, instrument: Instrument, about: [&str; 3], values: [&str; 2]) -> Option<u32> {
        let id = u32::try_from(self.series.len()).ok()?;
        let subject = self.find_subject(about).unwrap_or_else(|| {
            let (id, subjects) = (u32::try_from(self.subjects.len()).unwrap_or(u32::MAX), &mut self.subjects);
            subjects.push(about.map(Into::into));
            let hash_of = |id: &u32| subjects.get(*id as usize).map_or(0, |known| hash(0, label_texts(known)));
            insert_number(&mut self.subject_index, hash(0, about), id, &hash_of);
            id
        });
        let metric = Metric::default();
        self.series.push(Series { instrument, values: values.map(Into::into), subject, metric });
        self.histograms += usize::from(matches!(instrument, Instrument::Histogram(_)));
        let series = &self.series;
        let hash_of = |id: &u32| {
            let known = series.get(*id as usize);
            known.map_or(0, |known| series_hash(known.instrument, known.subject, label_texts(&known.values)))
        };
        insert_number(&mut self.index, series_hash(instrument, subject, values), id, &hash_of);
        Some(id)
    }

    /// Gives the counts to the gateway.
    pub fn flush<G: Gateway>(&mut self, gateway: &G) {
        let (series, subjects) = (&mut self.series, &self.subjects);
        self.waiting.retain(|id| {
            let Some(Series { instrument, values, subject, metric }) = series.get_mut(*id as usize) else {
                return false;
            };
            let Some(about) = subjects.get(*subject as usize) else { return false };
            metric.flush(gateway, instrument.name(), &|| labels(*instrument, label_texts(values), label_texts(about)));
            metric.count > 0
        });
        if self.folded.count > 0 {
            self.folded.flush(gateway, FOLDED, &Vec::new);
        }
    }
}

/// Every metric that the engine can count: its kind, its name and the names of its labels.
pub fn metric_names() -> impl Iterator<Item = (MetricKind, &'static str, Vec<&'static str>)> {
    let counters = Counter::ALL.into_iter().map(|counter| (MetricKind::Counter, Instrument::Counter(counter)));
    let histograms = Histogram::ALL.into_iter().map(|which| (MetricKind::Histogram, Instrument::Histogram(which)));
    let named = counters.chain(histograms).map(|(kind, instrument)| {
        (kind, instrument.name(), instrument.labels().iter().copied().chain(SUBJECT_LABELS).collect())
    });
    named.chain([(MetricKind::Counter, FOLDED, Vec::new())])
}

/// The labels of a series.
fn labels(instrument: Instrument, own: [&str; 2], subject: [&str; 3]) -> Vec<(&'static str, String)> {
    let own = instrument.labels().iter().copied().zip(own);
    own.chain(SUBJECT_LABELS.into_iter().zip(subject)).map(|(label, value)| (label, label_value(value))).collect()
}

/// The value of a label, cut after [`MAX_LABEL_CHARS`]. It holds nothing that ends a label or a name where a gateway's metrics have
/// no labels.
fn label_value(value: &str) -> String {
    value.chars().take(MAX_LABEL_CHARS).map(|c| if c == ';' || c.is_control() { '_' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(instrument: Instrument, own: [&str; 2], subject: [&str; 3]) -> String {
        let labels = labels(instrument, own, subject);
        MetricSeries { kind: MetricKind::Counter, name: instrument.name(), labels: &labels }.flat_name()
    }

    fn count<'c>(tenant: Option<&'c str>, endpoint: &'c str) -> Count<'c> {
        let project = tenant.map(|_| "shop");
        Count { counter: Counter::KeyInvalid, values: ["length", NONE], tenant, project, endpoint: Some(endpoint) }
    }

    fn counts(table: &SeriesTable) -> Vec<(String, u64)> {
        let counted = |series: &Series| {
            let about = label_texts(&table.subjects[series.subject as usize]);
            (name(series.instrument, label_texts(&series.values), about), series.metric.count)
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
    fn histograms_have_room_of_their_own() {
        let mut table = SeriesTable::default();
        let limit = 3 * Histogram::SERIES + Histogram::SERIES - 1;
        let mut of = |tenant: Option<&str>, endpoint: &str| {
            let about = table.subject(tenant, tenant.map(|_| "shop"), Some(endpoint));
            let HistogramSeries { id, .. } = table.histogram(&about, Histogram::LookupTime, "guard", limit).unwrap();
            let series = &table.series[id as usize];
            let name = name(
                series.instrument,
                label_texts(&series.values),
                label_texts(&table.subjects[series.subject as usize]),
            );
            name.strip_prefix("idempotency_lookup_milliseconds;store=guard;").unwrap().to_owned()
        };
        for tenant in ["a", "b", "c", "a"] {
            assert_eq!(of(Some(tenant), "x"), format!("tenant={tenant};project=shop;endpoint=x"));
        }
        for tenant in ["d", "e"] {
            assert_eq!(of(Some(tenant), "x"), "tenant=_other;project=_other;endpoint=x");
        }
        assert_eq!(of(None, "x"), "tenant=_none;project=_none;endpoint=x");
        assert_eq!(of(None, "y"), "tenant=_none;project=_none;endpoint=y");
        assert_eq!((table.size(), table.histograms), (6, 6));
        // Histograms take no room from counters.
        for tenant in 0..limit {
            table.add(&count(Some(&format!("t{tenant}")), "x"), limit);
        }
        assert_eq!((table.size(), table.folded.count), (6 + limit, 0));
        table.add(&count(Some("one more"), "x"), limit);
        assert_eq!((table.size(), table.folded.count), (6 + limit + 1, 1));
    }

    #[test]
    fn every_instrument_has_a_number_of_its_own() {
        let counter = |counter| Instrument::Counter(counter).number();
        let histogram = |histogram| Instrument::Histogram(histogram).number();
        let last = counter(Counter::KeyCollision);
        assert!(
            last < histogram(Histogram::Attempt) && histogram(Histogram::Attempt) < histogram(Histogram::LookupTime)
        );
        assert_eq!(histogram(Histogram::LookupTime), 31);
    }

    #[test]
    fn no_value_ends_a_label_or_the_name() {
        let name = name(Instrument::Counter(Counter::Problem), ["a;b\nc", NONE], ["x.y:/\"\u{e9}", "p", "e"]);
        assert_eq!(name, "idempotency_problem_total;code=a_b_c;tenant=x.y:/\"\u{e9};project=p;endpoint=e");
    }

    #[test]
    fn a_long_value_is_cut_between_characters() {
        let (short, long) = ("\u{e9}".repeat(MAX_LABEL_CHARS), "\u{e9}".repeat(300));
        let name = name(Instrument::Counter(Counter::Problem), ["c", NONE], ["t", "p", &long]);
        assert_eq!(name, format!("idempotency_problem_total;code=c;tenant=t;project=p;endpoint={short}"));
    }
}
