//! HTTP calls of the filter. They outlive a request, so they belong to the configuration and to the main thread: workers ask it for
//! them, and none is under way any more when Envoy removes the configuration (docs/decisions/0030-the-dynamic-module.md).

use crate::calls::{ConfigHandle, ConfigScheduler};
use crate::process::locked;
use edge_idempotency_engine::{Call, CallReply, MAX_REPLY_BYTES};
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What the main thread is asked for.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum ConfigEvent {
    /// A tick
    Tick = 0,
    /// Calls wait
    Calls = 1,
    /// A worker removes a configuration, and calls of it are under way
    EndCalls = 2,
}

/// How long the main thread may do something else before a worker takes it for ended. Envoy stops its workers when it ends, and
/// its main thread does nothing but wait for them.
const MAIN_IS_SILENT: Duration = Duration::from_secs(5);
/// When a worker asks the main thread again. For the end of what Envoy does after a hook it waits no longer than this.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// How many events for configurations the main thread has begun. With the next one, all that it did for a call before is over, also
/// what Envoy does after a hook.
static MAIN_EVENTS: AtomicU64 = AtomicU64::new(0);

/// The main thread begins an event for a configuration.
pub(crate) fn note_main_event() {
    MAIN_EVENTS.fetch_add(1, Ordering::SeqCst);
}

/// The calls of a configuration.
pub(crate) struct Calls {
    scheduler: Arc<ConfigScheduler>,
    last_token: AtomicU32,
    /// Those that workers have asked for
    asked: Mutex<Vec<(u32, Call)>>,
    made: Mutex<Made>,
    /// One of `made` has ended
    ended: Condvar,
}

/// What the main thread does with calls.
#[derive(Default)]
struct Made {
    /// Those that are under way, by Envoy's numbers
    under_way: HashMap<u64, UnderWay>,
    /// How often the main thread is at work with one
    at_work: u32,
    /// The event of the main thread in which the last one has ended
    last_end: Option<u64>,
    /// One that has ended before its number was known
    early: Option<u64>,
    /// Whether no more are made
    closed: bool,
    /// Whether Envoy's configuration may be removed
    gone: bool,
    longest_timeout: Duration,
}

struct UnderWay {
    token: u32,
    status: Option<u16>,
    /// `None` if it is too long
    body: Option<Vec<u8>>,
}

/// A call that has ended.
pub(crate) struct Ended<'c> {
    call: UnderWay,
    _work: Work<'c>,
}

/// The main thread is at work. Envoy's configuration is not removed meanwhile.
struct Work<'c>(&'c Calls);

impl Calls {
    pub(crate) fn new(scheduler: Arc<ConfigScheduler>) -> Self {
        let (last_token, asked, made, ended) = Default::default();
        Self { scheduler, last_token, asked, made, ended }
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
        let Some(_work) = self.work(|made| !made.closed) else { return false };
        let number = config.begin_call(&call.cluster, &call.headers, &call.body, call.timeout_ms);
        let mut made = locked(&self.made);
        let early = made.early.take();
        let Some(number) = number.ok().filter(|number| early != Some(*number)) else { return false };
        made.longest_timeout = made.longest_timeout.max(Duration::from_millis(call.timeout_ms.into()));
        made.under_way.insert(number, UnderWay { token, status: None, body: Some(Vec::new()) });
        true
    }

    /// The status of a reply has come.
    pub(crate) fn on_status(&self, number: u64, status: Option<u16>) {
        if let Some(call) = locked(&self.made).under_way.get_mut(&number) {
            call.status = status;
        }
    }

    /// A part of the body of a reply has come.
    pub(crate) fn on_body<'b>(&self, number: u64, pieces: impl Iterator<Item = &'b [u8]>) {
        let mut made = locked(&self.made);
        let Some(call) = made.under_way.get_mut(&number) else { return };
        for piece in pieces {
            call.body = call.body.take().filter(|body| body.len() + piece.len() <= MAX_REPLY_BYTES);
            if let Some(body) = &mut call.body {
                body.extend_from_slice(piece);
            }
        }
    }

    /// A call has ended; `None` if it is not known.
    pub(crate) fn end(&self, number: u64) -> Option<Ended<'_>> {
        let mut made = locked(&self.made);
        made.last_end = Some(MAIN_EVENTS.load(Ordering::SeqCst));
        let Some(call) = made.under_way.remove(&number) else {
            made.early = Some(number);
            return None;
        };
        made.at_work += 1;
        Some(Ended { call, _work: Work(self) })
    }

    /// Makes no more calls, and lets the main thread end those that are under way. On a thread that removes the configuration and
    /// is not the main one. `call_main`: lets the main thread call [`Calls::end_all`], if it can.
    ///
    /// Envoy would end them here, while its main thread may be handling their replies.
    pub(crate) fn close(&self, call_main: impl Fn()) {
        let patience = {
            let mut made = locked(&self.made);
            made.closed = true;
            made.longest_timeout + MAIN_IS_SILENT
        };
        self.wait(patience, &call_main, |made| made.at_work == 0 && made.under_way.is_empty());
        self.wait(ASK_AGAIN, &call_main, |made| {
            made.last_end.is_none_or(|event| MAIN_EVENTS.load(Ordering::SeqCst) > event)
        });
        locked(&self.made).gone = true;
    }

    fn wait(&self, patience: Duration, call_main: &impl Fn(), is_over: impl Fn(&Made) -> bool) {
        let begin = Instant::now();
        let mut made = locked(&self.made);
        while !is_over(&made) && begin.elapsed() < patience {
            drop(made);
            call_main();
            let waited = self.ended.wait_timeout_while(locked(&self.made), ASK_AGAIN, |made| !is_over(made));
            made = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends the calls that are under way, if a thread waits for that in [`Calls::close`]. On the main thread.
    pub(crate) fn end_all(&self, config: ConfigHandle) {
        let Some(_work) = self.work(|made| made.closed && !made.gone) else { return };
        let numbers: Vec<u64> = locked(&self.made).under_way.keys().copied().collect();
        for number in numbers {
            config.reset_call(number);
        }
        // This is another event than that of any earlier one.
        locked(&self.made).last_end = None;
    }

    /// The main thread is at work, if `may` allows it.
    fn work(&self, may: impl FnOnce(&Made) -> bool) -> Option<Work<'_>> {
        let mut made = locked(&self.made);
        may(&made).then(|| {
            made.at_work += 1;
            Work(self)
        })
    }

    fn next_token(&self) -> u32 {
        self.last_token.fetch_add(1, Ordering::Relaxed)
    }
}

impl Ended<'_> {
    pub(crate) const fn token(&self) -> u32 {
        self.call.token
    }

    /// Its reply.
    pub(crate) fn reply(&self) -> CallReply<'_> {
        CallReply { status: self.call.status, body: self.call.body.as_deref() }
    }
}

impl Drop for Work<'_> {
    fn drop(&mut self) {
        locked(&self.0.made).at_work -= 1;
        self.0.ended.notify_all();
    }
}
