//! Secrets that the gateway keeps up to date.

use crate::host::SecretReader;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A secret of the gateway's secret discovery service (SDS). When its value changes, the one before it counts for some time, so
/// that nobody is refused between the change here and the one at the sender. Clones share the values.
#[derive(Clone)]
pub struct LiveSecret {
    /// The name at the gateway
    pub name: String,
    /// Where the gateway gets it from, a `ConfigSource` of Envoy as JSON; empty for a secret of the bootstrap
    pub source: String,
    /// How long the value before the present one counts, in milliseconds
    grace_ms: u64,
    values: Arc<Mutex<Values>>,
}

#[derive(Default)]
struct Values {
    reader: Option<Arc<dyn SecretReader>>,
    present: Vec<u8>,
    /// The value before, and until when it counts, in Unix milliseconds
    previous: Option<(Vec<u8>, u64)>,
}

impl LiveSecret {
    /// A secret without a value.
    pub(super) fn new(name: String, source: String, grace_ms: u64) -> Self {
        Self { name, source, grace_ms, values: Arc::default() }
    }

    /// Says how the gateway's value is read.
    pub fn attach(&self, reader: Arc<dyn SecretReader>) {
        self.locked().reader = Some(reader);
    }

    /// Reads the gateway's value. It has to be called at least every second: the time of the previous value begins when a change is
    /// seen.
    pub(crate) fn refresh(&self, now_unix_ms: u64) {
        let mut values = self.locked();
        let read = values.reader.as_ref().and_then(|reader| reader.read());
        if let Some(present) = read.filter(|present| *present != values.present) {
            let until = now_unix_ms.saturating_add(self.grace_ms);
            let before = std::mem::replace(&mut values.present, present);
            values.previous = (!before.is_empty()).then_some((before, until));
        }
        values.previous.take_if(|(_, until)| *until <= now_unix_ms);
    }

    /// The values that count now, the present one first; none until the gateway has one.
    pub(crate) fn values(&self, now_unix_ms: u64) -> Vec<Vec<u8>> {
        self.refresh(now_unix_ms);
        let values = self.locked();
        let previous = values.previous.iter().map(|(value, _)| value);
        std::iter::once(&values.present).chain(previous).filter(|value| !value.is_empty()).cloned().collect()
    }

    fn locked(&self) -> MutexGuard<'_, Values> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for LiveSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sds").field(&self.name).finish()
    }
}

/// Two are equal if they are the same secret of the gateway.
impl PartialEq for LiveSecret {
    fn eq(&self, other: &Self) -> bool {
        (&self.name, &self.source, self.grace_ms) == (&other.name, &other.source, other.grace_ms)
    }
}

impl Eq for LiveSecret {}

#[cfg(test)]
mod tests {
    use super::*;

    struct Gateway(Mutex<Option<Vec<u8>>>);

    impl SecretReader for Gateway {
        fn read(&self) -> Option<Vec<u8>> {
            self.0.lock().unwrap().clone()
        }
    }

    #[test]
    fn the_value_before_counts_for_its_time() {
        let gateway = Arc::new(Gateway(Mutex::new(None)));
        let secret = LiveSecret::new("stripe".to_owned(), String::new(), 1000);
        let values =
            |now| secret.values(now).into_iter().map(|value| String::from_utf8(value).unwrap()).collect::<Vec<_>>();
        assert_eq!(values(0), [""; 0]);
        secret.attach(gateway.clone());
        assert_eq!(values(0), [""; 0]);
        let set = |value: &str| *gateway.0.lock().unwrap() = Some(value.into());
        set("one");
        assert_eq!(values(10), ["one"]);
        set("two");
        assert_eq!(values(100), ["two", "one"]);
        assert_eq!(values(1099), ["two", "one"]);
        assert_eq!(values(1100), ["two"]);
        set("three");
        assert_eq!(values(2000), ["three", "two"]);
        set("four");
        assert_eq!(values(2001), ["four", "three"]);
        // Envoy forgets no value; a reader that has none for a moment changes nothing.
        *gateway.0.lock().unwrap() = None;
        assert_eq!(values(2002), ["four", "three"]);
        assert!(!format!("{secret:?}").contains("four"));
    }
}
