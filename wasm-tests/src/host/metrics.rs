//! Counters, gauges and histograms of one VM.

use std::collections::BTreeMap;

use super::status::Status;

/// The kinds of metric the ABI knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricKind {
    /// Only ever grows.
    Counter,
    /// Goes both ways.
    Gauge,
    /// Keeps samples.
    Histogram,
}

/// The metrics of a VM: every definition gives a new id, and the same name means the same series.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    ids: BTreeMap<u32, (MetricKind, String)>,
    values: BTreeMap<(MetricKind, String), u64>,
    samples: BTreeMap<String, Vec<u64>>,
}

impl Metrics {
    /// The counters by name.
    pub fn counters(&self) -> BTreeMap<&str, u64> {
        self.of(MetricKind::Counter)
    }

    /// The samples of the histograms by name.
    pub fn histograms(&self) -> &BTreeMap<String, Vec<u64>> {
        &self.samples
    }

    fn of(&self, kind: MetricKind) -> BTreeMap<&str, u64> {
        self.values.iter().filter(|((k, _), _)| *k == kind).map(|((_, name), value)| (name.as_str(), *value)).collect()
    }

    pub(super) fn define(&mut self, kind: u32, name: String) -> Result<u32, Status> {
        let kind_of = match kind {
            0 => MetricKind::Counter,
            1 => MetricKind::Gauge,
            2 => MetricKind::Histogram,
            _ => return Err(Status::BadArgument),
        };
        // The kind stands in the low bits of the id, as in Envoy.
        let id = u32::try_from(self.ids.len()).unwrap_or(u32::MAX / 4).saturating_add(1) << 2 | kind;
        match kind_of {
            MetricKind::Histogram => {
                self.samples.entry(name.clone()).or_default();
            }
            _ => {
                self.values.entry((kind_of, name.clone())).or_default();
            }
        }
        self.ids.insert(id, (kind_of, name));
        Ok(id)
    }

    pub(super) fn increment(&mut self, id: u32, offset: i64) -> Result<(), Status> {
        let (kind, value) = self.value(id)?;
        match kind {
            MetricKind::Counter if offset <= 0 => return Err(Status::BadArgument),
            _ => *value = value.saturating_add_signed(offset),
        }
        Ok(())
    }

    pub(super) fn record(&mut self, id: u32, sample: u64) -> Result<(), Status> {
        let key = self.ids.get(&id).ok_or(Status::NotFound)?;
        if key.0 == MetricKind::Histogram {
            self.samples.entry(key.1.clone()).or_default().push(sample);
            return Ok(());
        }
        let (kind, value) = self.value(id)?;
        match kind {
            MetricKind::Counter => *value = value.saturating_add(sample),
            _ => *value = sample,
        }
        Ok(())
    }

    /// A counter or a gauge; a histogram has no value.
    fn value(&mut self, id: u32) -> Result<(MetricKind, &mut u64), Status> {
        let key = self.ids.get(&id).ok_or(if id & 3 < 2 { Status::NotFound } else { Status::BadArgument })?;
        let value = self.values.get_mut(key).ok_or(Status::BadArgument)?;
        Ok((key.0, value))
    }
}
