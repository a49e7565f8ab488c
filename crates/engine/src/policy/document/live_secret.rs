//! Secrets that the gateway keeps up to date.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Reads a secret that the gateway keeps up to date. It is called on threads of the gateway, at events of the configuration or of its
/// streams.
pub trait SecretReader: Send + Sync {
    /// The value as it is now; `None` if there is none: not yet, or no more.
    fn read(&self) -> Option<Vec<u8>>;
}

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
    values: Arc<Mutex<SecretValues>>,
}

#[derive(Default)]
struct SecretValues {
    reader: Option<Arc<dyn SecretReader>>,
    /// Empty if there is none
    present: Vec<u8>,
    /// The value before, and until when it counts, in Unix milliseconds. It stays after that, to know it again.
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

    /// Takes the gateway's value over, on its main thread. It has to be called every second: the time of the previous value begins
    /// when a change is seen.
    pub(crate) fn refresh(&self, now_unix_ms: u64) {
        let mut values = self.locked();
        let read = values.read();
        self.take_over(&mut values, read, now_unix_ms);
    }

    /// The values that count now, the present one first; none until the gateway has one. If the gateway has none any more, the
    /// previous one counts for its time, and then none.
    pub(crate) fn values(&self, now_unix_ms: u64) -> Vec<Vec<u8>> {
        let mut values = self.locked();
        // A worker that has not heard of a change yet reads the previous value.
        let read = values.read();
        if values.previous.as_ref().is_none_or(|(previous, _)| *previous != read) {
            self.take_over(&mut values, read, now_unix_ms);
        }
        let previous = values.previous.iter().filter(|(_, until)| *until > now_unix_ms).map(|(value, _)| value);
        std::iter::once(&values.present).chain(previous).filter(|value| !value.is_empty()).cloned().collect()
    }

    fn take_over(&self, values: &mut SecretValues, read: Vec<u8>, now_unix_ms: u64) {
        if read != values.present {
            let before = std::mem::replace(&mut values.present, read);
            values.previous = Some((before, now_unix_ms.saturating_add(self.grace_ms)));
        }
    }

    fn locked(&self) -> MutexGuard<'_, SecretValues> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SecretValues {
    fn read(&self) -> Vec<u8> {
        self.reader.as_ref().and_then(|reader| reader.read()).unwrap_or_default()
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

    struct StoredSecret(Mutex<Option<Vec<u8>>>);

    impl SecretReader for StoredSecret {
        fn read(&self) -> Option<Vec<u8>> {
            self.0.lock().unwrap().clone()
        }
    }

    #[test]
    fn the_value_before_counts_for_its_time() {
        let gateway = Arc::new(StoredSecret(Mutex::new(None)));
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
        // A worker that is late, and the main thread, which is right.
        set("three");
        assert_eq!(values(2001), ["four", "three"]);
        assert_eq!(values(3001), ["four"]);
        secret.refresh(3002);
        assert_eq!(values(3003), ["three", "four"]);
        set("four");
        secret.refresh(3004);
        assert_eq!(values(3005), ["four", "three"]);
        // It is withdrawn: from then on the withdrawn one counts for its time, and no other.
        for (none, now) in [(None, 4000), (Some(Vec::new()), 9000)] {
            set("five");
            secret.refresh(now);
            *gateway.0.lock().unwrap() = none;
            assert_eq!(values(now + 1), ["five"]);
            secret.refresh(now + 2);
            assert_eq!(values(now + 1000), ["five"]);
            assert_eq!(values(now + 1002), [""; 0]);
            secret.refresh(now + 2000);
            assert_eq!(values(now + 2000), [""; 0]);
        }
        set("six");
        assert_eq!(values(12_000), ["six"]);
        // The first value is withdrawn: a worker may not have had it yet, so the main thread says it.
        let first = LiveSecret::new("first".to_owned(), String::new(), 1000);
        first.attach(gateway.clone());
        assert_eq!(first.values(0), [b"six"]);
        *gateway.0.lock().unwrap() = None;
        assert_eq!(first.values(2000), [b"six"]);
        first.refresh(2001);
        assert_eq!(first.values(3001), [b""; 0]);
        assert!(!format!("{secret:?}").contains("six"));
    }
}
