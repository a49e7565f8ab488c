//! One configuration of the filter, which all worker threads share: the policy and the caches once, and for each worker what it
//! counts and which of its requests wait.

use crate::calls::{ConfigHandle, ConfigScheduler, StreamScheduler};
use crate::host::{HandedNamespace, MainHost, SdsSecret, log};
use crate::metrics::{Instruments, ThreadMetrics, threads};
use crate::outside::{Calls, ConfigEvent, note_main_event};
use crate::process::locked;
use crate::ticker::Ticker;
use edge_idempotency_engine::{CallReply, Configuration, LogLevel};
use std::collections::HashMap;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::thread::ThreadId;

/// A configuration.
pub(crate) struct Filter {
    config: ConfigHandle,
    /// The main thread, on which configurations are made
    main_thread: ThreadId,
    scheduler: Arc<ConfigScheduler>,
    instruments: Instruments,
    calls: Calls,
    /// The main thread's configuration. It takes ticks and replies for all.
    main: Mutex<Configuration>,
    workers: Vec<Mutex<Worker>>,
    /// Those of each worker and, last, of the main thread
    threads: Arc<[ThreadMetrics]>,
    /// What goes on with the streams that wait for a call
    waiting: Mutex<HashMap<u32, StreamScheduler>>,
    /// The namespaces of dynamic metadata that the policy reads
    metadata: Vec<HandedNamespace>,
    /// The secrets of SDS of this policy and of those before it
    secrets: Vec<SdsSecret>,
    has_told_of_metadata: AtomicBool,
    ticker: Ticker,
}

/// The configurations that Envoy has not removed, by the pointers that it knows them by. While the lock is held it removes none.
static PRESENT: Mutex<Vec<(usize, Weak<Filter>)>> = Mutex::new(Vec::new());

/// The configurations that Envoy has not removed and that are this main thread's.
fn of_main_thread(thread: ThreadId) -> Vec<Arc<Filter>> {
    let present = locked(&PRESENT);
    present.iter().filter_map(|(_, filter)| filter.upgrade()).filter(|filter| filter.main_thread == thread).collect()
}

/// The configuration that Envoy knows by this pointer; `None` if it has removed it. Envoy removes a configuration with its last
/// stream, on a worker thread, when the main thread may be about to call a hook of it.
pub(crate) fn present(pointer: *const c_void) -> Option<Arc<Filter>> {
    let present = locked(&PRESENT);
    present.iter().find(|(known, _)| *known == pointer.addr()).and_then(|(_, filter)| filter.upgrade())
}

/// Asks for the secrets of earlier configurations, too, and gives those that it has then. Envoy ends its subscription with the last
/// configuration that has the secret, on whatever thread that ends, though it belongs to the main thread.
fn keep_secrets(config: ConfigHandle, mut secrets: Vec<SdsSecret>) -> Vec<SdsSecret> {
    for earlier in of_main_thread(std::thread::current().id()) {
        for secret @ (name, source) in &earlier.secrets {
            if !secrets.contains(secret) && config.subscribe_secret(name, source).is_ok() {
                secrets.push(secret.clone());
            }
        }
    }
    secrets
}

/// What a worker thread has of a configuration. Its lock is free but while the main thread takes a tick.
pub(crate) struct Worker {
    pub(crate) configuration: Configuration,
    streams: u32,
}

impl Filter {
    /// Reads the policy document. Envoy's log gets a summary, or all errors; `None` if there are some.
    pub(crate) fn load(config: ConfigHandle, document: &[u8]) -> Option<Arc<Self>> {
        let (version, hash) = (env!("CARGO_PKG_VERSION"), env!("EDGE_IDEMPOTENCY_GIT_HASH"));
        log(LogLevel::Info, &format!("edge-idempotency {version} ({hash}), dynamic module"));
        let workers = usize::try_from(crate::calls::worker_count()).unwrap_or(1).max(1);
        let threads = threads(workers);
        let main_thread = threads.last()?;
        let host = MainHost::new(config, None, main_thread);
        let variable = |name: &str| Some(std::os::unix::ffi::OsStringExt::into_vec(std::env::var_os(name)?));
        let main = Configuration::load(&host, document, variable, &main_thread.metrics).ok()?;
        let Ok(instruments) = Instruments::define(config) else {
            log(LogLevel::Error, "edge-idempotency: Envoy does not define the filter's metrics");
            return None;
        };
        let of_worker = |thread: &ThreadMetrics| {
            let host = MainHost::new(config, None, thread);
            Mutex::new(Worker { configuration: main.for_worker(&host, &thread.metrics), streams: 0 })
        };
        let metadata = main.metadata_namespaces().into_iter().map(HandedNamespace::new).collect();
        let secrets = keep_secrets(config, host.secrets.take());
        instruments.keep(config, &threads);
        instruments.measure(config, &host.samples);
        let scheduler = Arc::new(config.scheduler());
        Some(Arc::new(Self {
            config,
            main_thread: std::thread::current().id(),
            scheduler: scheduler.clone(),
            instruments,
            calls: Calls::new(scheduler.clone()),
            workers: threads.iter().take(workers).map(of_worker).collect(),
            main: Mutex::new(main),
            threads,
            waiting: Mutex::default(),
            metadata,
            secrets,
            has_told_of_metadata: AtomicBool::new(false),
            ticker: Ticker::start(scheduler),
        }))
    }

    /// Notes the pointer by which Envoy knows the configuration.
    pub(crate) fn register(self: &Arc<Self>, pointer: *const c_void) {
        locked(&PRESENT).push((pointer.addr(), Arc::downgrade(self)));
    }

    pub(crate) const fn config(&self) -> ConfigHandle {
        self.config
    }

    pub(crate) const fn instruments(&self) -> &Instruments {
        &self.instruments
    }

    pub(crate) const fn calls(&self) -> &Calls {
        &self.calls
    }

    /// The part of a worker thread, and its metrics.
    pub(crate) fn worker(&self, index: usize) -> Option<(MutexGuard<'_, Worker>, &ThreadMetrics)> {
        // A stream of the main thread, such as one of the admin listener, counts as one of a worker.
        let index = index.checked_rem(self.workers.len())?;
        let worker = self.workers.get(index)?;
        Some((locked(worker), self.threads.get(index)?))
    }

    /// The number of worker threads.
    pub(crate) const fn worker_count(&self) -> usize {
        self.workers.len()
    }

    /// The namespaces of dynamic metadata that the policy reads.
    pub(crate) fn metadata(&self) -> &[HandedNamespace] {
        &self.metadata
    }

    /// Says, once, that the gateway does not hand over the metadata.
    pub(crate) fn tell_of_metadata(&self) {
        if !self.has_told_of_metadata.swap(true, Ordering::Relaxed) {
            let object = |HandedNamespace { name, object }: &HandedNamespace| {
                format!(
                    "{{object_key: \"{object}\", factory_key: envoy.string, format_string: {{text_format_source: {{inline_string: \
                     \"%DYNAMIC_METADATA({name})%\"}}}}}}"
                )
            };
            let objects: Vec<String> = self.metadata.iter().map(object).collect();
            log(
                LogLevel::Critical,
                &format!(
                    "edge-idempotency: requests are answered 503 policy_invalid, because identity sources of the policy read dynamic \
                     metadata, and the gateway does not hand it over. Put the filter envoy.filters.http.set_filter_state before \
                     this one, behind authentication, with on_request_headers: [{}]",
                    objects.join(", ")
                ),
            );
        }
    }

    /// A stream waits for a call.
    pub(crate) fn await_wake(&self, stream: u32, scheduler: StreamScheduler) {
        locked(&self.waiting).insert(stream, scheduler);
    }

    /// A stream waits no longer.
    pub(crate) fn forget(&self, stream: u32) {
        locked(&self.waiting).remove(&stream);
    }

    /// Calls the hook of a stream that goes on.
    pub(crate) fn wake(&self, stream: u32) {
        if let Some(scheduler) = locked(&self.waiting).get(&stream) {
            scheduler.commit();
        }
    }

    /// Handles an event on the main thread.
    pub(crate) fn on_event(&self, event: u64) {
        note_main_event();
        if event == ConfigEvent::EndCalls as u64 {
            let present = of_main_thread(self.main_thread);
            return present.iter().for_each(|filter| filter.calls.end_all(filter.config));
        }
        // With a tick, too: if an earlier event has failed, nobody asks again for calls that wait.
        self.make_calls();
        if event == ConfigEvent::Tick as u64 {
            self.tick();
        }
    }

    fn make_calls(&self) {
        for (token, call) in self.calls.take_asked() {
            // If one fails, the others are made all the same.
            let begun = catch_unwind(AssertUnwindSafe(|| self.calls.begin(self.config, token, &call)));
            if !begun.unwrap_or_default() {
                self.on_main(|main, host| main.on_call_reply(host, token, &CallReply::NONE));
            }
        }
    }

    /// Hands over the reply to a call that has ended; without `is_whole` there is none.
    pub(crate) fn on_reply(&self, number: u64, is_whole: bool) {
        if let Some(ended) = self.calls.end(number) {
            let reply = if is_whole { ended.reply() } else { CallReply::NONE };
            self.on_main(|main, host| main.on_call_reply(host, ended.token(), &reply));
        }
    }

    fn tick(&self) {
        for (worker, thread) in self.workers.iter().zip(self.threads.iter()) {
            let host = MainHost::new(self.config, Some(&self.calls), thread);
            locked(worker).configuration.on_tick(&host);
            self.instruments.measure(self.config, &host.samples);
        }
        self.on_main(|main, host| main.on_tick(host));
    }

    /// Runs `event` with the main thread's configuration, and wakes the streams that go on.
    fn on_main(&self, event: impl FnOnce(&mut Configuration, &MainHost<'_>)) {
        let Some(thread) = self.threads.last() else { return };
        let host = MainHost::new(self.config, Some(&self.calls), thread);
        let mut main = locked(&self.main);
        event(&mut main, &host);
        while let Some(stream) = main.next_to_wake() {
            self.wake(stream);
        }
        drop(main);
        self.instruments.measure(self.config, &host.samples);
    }

    /// Counts a failure that is about no stream.
    pub(crate) fn count_failure(&self) {
        locked(&self.main).count_failure();
    }

    /// Lets no call be under way when Envoy removes the configuration on a worker, with the last stream of it.
    pub(crate) fn close_calls(&self) {
        if std::thread::current().id() != self.main_thread {
            // An event comes on the main thread only for a configuration that Envoy is not removing.
            let others =
                || of_main_thread(self.main_thread).into_iter().filter(|other| !std::ptr::eq(&raw const **other, self));
            self.calls.close(|| others().for_each(|other| other.scheduler.commit(ConfigEvent::EndCalls as u64)));
        }
    }

    /// Writes what is left to log, when Envoy removes the configuration. Its counts wait for the configurations that are left, or are
    /// written if there are none.
    pub(crate) fn end(self: &Arc<Self>) {
        self.ticker.stop();
        let mut present = locked(&PRESENT);
        present.retain(|(_, other)| !std::ptr::eq(other.as_ptr(), Arc::as_ptr(self)));
        let others: Vec<_> = present.iter().filter_map(|(_, other)| other.upgrade()).collect();
        let others = others.iter().filter(|other| Arc::ptr_eq(&other.threads, &self.threads));
        let is_last = others.clone().next().is_none();
        for other in others {
            other.instruments.keep(other.config, &self.threads);
        }
        for (worker, thread) in self.workers.iter().zip(self.threads.iter()) {
            let host = MainHost::ending(self.config, thread, is_last);
            std::mem::take(&mut locked(worker).configuration).on_end(&host);
            self.instruments.measure(self.config, &host.samples);
        }
        if let Some(thread) = self.threads.last() {
            let host = MainHost::ending(self.config, thread, is_last);
            std::mem::take(&mut *locked(&self.main)).on_end(&host);
            self.instruments.measure(self.config, &host.samples);
        }
    }
}

impl Worker {
    /// The number of a new stream; no other worker gives it.
    pub(crate) fn next_stream(&mut self, index: usize, workers: usize) -> u32 {
        let (index, workers) = (u32::try_from(index).unwrap_or(0), u32::try_from(workers).unwrap_or(1));
        let number = self.streams;
        // Numbers begin anew before they overflow: else they could be those of another worker.
        self.streams = (number + 1).checked_rem(u32::MAX / workers.max(1)).unwrap_or(0);
        number * workers + index
    }
}
