//! What belongs to the process rather than to a configuration: locks, the clock, and what each thread counts. The stand-in for Envoy of
//! tests/dynamic-module/ sets the clock, and is many processes in one (feature `stand-in`).

use crate::metrics::ThreadMetrics;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The metrics of all threads. Every configuration counts in the same, because Envoy keeps a series for as long as it runs.
static THREADS: Mutex<Option<Arc<[ThreadMetrics]>>> = Mutex::new(None);

/// The metrics of each worker thread and, last, of the main thread.
pub(crate) fn threads(workers: usize) -> Arc<[ThreadMetrics]> {
    let new = || (0..=workers).map(|_| ThreadMetrics::default()).collect();
    locked(&THREADS).get_or_insert_with(new).clone()
}

/// Locks a mutex, also after a panic of a thread that held it: hooks catch panics and go on.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Milliseconds since 1970-01-01 UTC.
pub(crate) fn now_unix_ms() -> u64 {
    #[cfg(feature = "stand-in")]
    if let Some(now) = stand_in::NOW.get() {
        return now;
    }
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(feature = "stand-in")]
pub use stand_in::{begin_anew, set_now};

#[cfg(feature = "stand-in")]
mod stand_in {
    use std::cell::Cell;

    thread_local! {
        pub(super) static NOW: Cell<Option<u64>> = const { Cell::new(None) };
    }

    /// Sets the clock of this thread; `None`: the real one.
    pub fn set_now(unix_ms: Option<u64>) {
        NOW.set(unix_ms);
    }

    /// The next configuration is the first one of a new process. Earlier ones are not changed.
    pub fn begin_anew() {
        *super::locked(&super::THREADS) = None;
    }
}
