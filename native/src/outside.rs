//! HTTP calls of the filter. Envoy makes calls that outlive a request on its main thread alone, so workers ask the main thread for
//! them.

use crate::calls::{ConfigHandle, ConfigScheduler};
use crate::filter::ConfigEvent;
use crate::process::locked;
use edge_idempotency_engine::Call;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

/// The calls of a configuration.
pub(crate) struct Calls {
    scheduler: Arc<ConfigScheduler>,
    last_token: AtomicU32,
    /// Those that workers have asked for
    asked: Mutex<Vec<(u32, Call)>>,
    /// The tokens of those that Envoy makes, by its numbers
    made: Mutex<HashMap<u64, u32>>,
}

impl Calls {
    pub(crate) fn new(scheduler: Arc<ConfigScheduler>) -> Self {
        Self { scheduler, last_token: AtomicU32::new(0), asked: Mutex::default(), made: Mutex::default() }
    }

    /// Asks the main thread for a call, and gives its token.
    pub(crate) fn ask(&self, call: &Call) -> u32 {
        let token = self.next_token();
        let mut asked = locked(&self.asked);
        asked.push((token, call.clone()));
        // Where another call waits, the main thread knows already that it has something to do.
        if asked.len() == 1 {
            self.scheduler.commit(ConfigEvent::Calls as u64);
        }
        token
    }

    /// The calls that workers have asked for.
    pub(crate) fn take_asked(&self) -> Vec<(u32, Call)> {
        std::mem::take(&mut *locked(&self.asked))
    }

    /// Makes a call, and gives its token; `None` if Envoy does not make it. On the main thread.
    pub(crate) fn make(&self, config: ConfigHandle, call: &Call) -> Option<u32> {
        let token = self.next_token();
        self.begin(config, token, call).then_some(token)
    }

    /// Makes the call with this token; `false` if Envoy does not make it. On the main thread.
    pub(crate) fn begin(&self, config: ConfigHandle, token: u32, call: &Call) -> bool {
        let made = config.call(&call.cluster, &call.headers, &call.body, call.timeout_ms);
        made.is_ok_and(|callout| {
            locked(&self.made).insert(callout, token);
            true
        })
    }

    /// The token of a call whose reply has come.
    pub(crate) fn end(&self, callout: u64) -> Option<u32> {
        locked(&self.made).remove(&callout)
    }

    fn next_token(&self) -> u32 {
        self.last_token.fetch_add(1, Ordering::Relaxed)
    }
}
