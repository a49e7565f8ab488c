//! The filter's metrics in Envoy. The engine counts by series; Envoy takes an instrument, defined while a configuration is made,
//! and the values of its labels.

use crate::calls::{ConfigHandle, InstrumentId, Refused};
use crate::process::locked;
use edge_idempotency_engine::{MetricId, MetricKind, MetricSeries, Metrics, metric_names};
use std::cell::RefCell;
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

/// The metrics of all threads. Every configuration counts in the same, because Envoy keeps a series for as long as it runs.
static THREADS: Mutex<Option<Arc<[ThreadMetrics]>>> = Mutex::new(None);

/// The metrics of each worker thread and, last, of the main thread.
pub(crate) fn threads(workers: usize) -> Arc<[ThreadMetrics]> {
    let new = || (0..=workers).map(|_| ThreadMetrics::default()).collect();
    locked(&THREADS).get_or_insert_with(new).clone()
}

/// The next configuration is the first one of a new process. Earlier ones are not changed: the stand-in for Envoy is many processes in one.
#[cfg(feature = "stand-in")]
pub fn begin_anew() {
    *locked(&THREADS) = None;
}

/// The instruments of one configuration.
pub(crate) struct Instruments(Vec<(&'static str, InstrumentId)>);

impl Instruments {
    /// Defines all instruments of the engine.
    pub(crate) fn define(config: ConfigHandle) -> Result<Self, Refused> {
        let defined = metric_names().map(|(kind, name, labels)| {
            let id = match kind {
                MetricKind::Counter => config.define_counter(name, &labels),
                MetricKind::Histogram => config.define_histogram(name, &labels),
            };
            Ok((name, id?))
        });
        defined.collect::<Result<_, _>>().map(Self)
    }

    /// Makes Envoy keep the counts of configurations that this one replaces: it forgets a counter with the last configuration that has
    /// it. There is nothing like it for histograms.
    pub(crate) fn keep(&self, config: ConfigHandle, threads: &[ThreadMetrics]) {
        let mut kept = HashSet::new();
        for thread in threads {
            let known = locked(&thread.series).clone();
            for series in known {
                let id = self.0.iter().find(|(name, _)| *name == series.name).map(|(_, id)| *id);
                if let Some(counter @ InstrumentId::Counter(_)) = id
                    && kept.insert(series.clone())
                {
                    let _ = config.measure(counter, &series.labels, 0);
                }
            }
        }
    }

    /// Gives samples to Envoy.
    pub(crate) fn measure(&self, config: ConfigHandle, samples: &Samples) {
        for (series, value) in samples.0.take() {
            if let Some((_, id)) = self.0.iter().find(|(name, _)| *name == series.name) {
                // A value that Envoy does not take is lost.
                let _ = config.measure(*id, &series.labels, value);
            }
        }
    }
}

/// A series of a worker.
#[derive(PartialEq, Eq, Hash)]
struct Series {
    name: &'static str,
    /// The values of its labels
    labels: Vec<String>,
}

/// What the engine counts on one thread, in all configurations that there are and were.
#[derive(Default)]
pub(crate) struct ThreadMetrics {
    pub(crate) metrics: Metrics,
    /// By [`MetricId`]
    series: Mutex<Vec<Arc<Series>>>,
}

impl ThreadMetrics {
    /// Gives a series a number.
    pub(crate) fn define(&self, series: &MetricSeries<'_>) -> Option<MetricId> {
        let mut known = locked(&self.series);
        let id = u32::try_from(known.len()).ok()?;
        let labels = series.labels.iter().map(|(_, value)| value.clone()).collect();
        known.push(Arc::new(Series { name: series.name, labels }));
        Some(MetricId(id))
    }
}

/// Values for series that are given to Envoy when an event is over: it takes microseconds for each, and the event holds a lock.
#[derive(Default)]
pub(crate) struct Samples(RefCell<Vec<(Arc<Series>, u64)>>);

impl Samples {
    /// Adds a value; `false` if there is no such series.
    pub(crate) fn add(&self, thread: &ThreadMetrics, MetricId(id): MetricId, value: u64) -> bool {
        let known = locked(&thread.series);
        let Some(series) = known.get(id as usize).cloned() else { return false };
        self.0.borrow_mut().push((series, value));
        true
    }
}
