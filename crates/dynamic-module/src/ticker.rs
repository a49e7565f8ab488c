//! Ticks. Envoy has no timer for such filters, so a thread asks the main thread every second.

use crate::calls::ConfigScheduler;
use crate::outside::ConfigEvent;
use crate::process::locked;
use edge_idempotency_engine::TICK_MS;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

/// A thread that commits a tick every [`TICK_MS`], until it is stopped.
pub(crate) struct Ticker {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Ticker {
    pub(crate) fn start(scheduler: Arc<ConfigScheduler>) -> Self {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let stopped = stop.clone();
        let run = move || {
            let (flag, changed) = &*stopped;
            let mut stops = locked(flag);
            while !*stops {
                let period = Duration::from_millis(TICK_MS.into());
                let (flag, waited) = changed.wait_timeout(stops, period).unwrap_or_else(PoisonError::into_inner);
                stops = flag;
                if waited.timed_out() && !*stops {
                    scheduler.commit(ConfigEvent::Tick as u64);
                }
            }
        };
        // Without the thread there are no metrics, and nothing is refreshed ahead of time. Requests and lookups still work.
        let thread = Builder::new().name("edge-idempotency".to_owned()).spawn(run).ok();
        Self { stop, thread: Mutex::new(thread) }
    }

    /// Stops the thread, and waits until it has ended: Envoy asks for that before it ends itself.
    pub(crate) fn stop(&self) {
        let (flag, changed) = &*self.stop;
        *locked(flag) = true;
        changed.notify_all();
        let thread = locked(&self.thread).take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop();
    }
}
