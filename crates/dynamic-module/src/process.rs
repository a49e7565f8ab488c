//! What belongs to the process rather than to a configuration: locks, and the clock, which the stand-in for Envoy of
//! tests/dynamic-module/ sets (feature `stand-in`).

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

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
pub use stand_in::set_now;

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
}
