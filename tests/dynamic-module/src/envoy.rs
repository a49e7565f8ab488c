//! A process of Envoy: configurations of the filter, the main thread's and the workers' queues, the log and the metrics.

use crate::hooks;
use crate::lent::Lent;
use edge_idempotency::abi::{Buffer, ConfigPtr, HeaderLine};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError, Weak};
use std::thread::{self, ThreadId};
use std::time::Duration;
use testkit::http::{Headers, Message};

/// The event by which the module's thread asks for a tick.
const TICK: u64 = 0;

/// A process of Envoy.
#[derive(Clone)]
pub struct Envoy(pub(crate) Arc<Process>);

/// What all threads of a process share.
pub(crate) struct Process {
    pub(crate) workers: Vec<Queue<(u64, u64)>>,
    main: Queue<(Weak<Config>, u64)>,
    log: Mutex<Vec<String>>,
    stats: Mutex<Stats>,
    failures: Mutex<Vec<String>>,
    /// The values of SDS
    secrets: Mutex<BTreeMap<String, Vec<u8>>>,
    /// The names of secrets that configurations have asked for, each as often as it was
    subscribed: Mutex<Vec<String>>,
    /// What happens on other threads just before a stream gets a scheduler
    pub(crate) before_scheduler: Mutex<Option<Meanwhile>>,
}

/// What a test lets happen in the middle of a hook.
type Meanwhile = Box<dyn FnOnce() + Send>;

/// Events that a thread posts to another one.
pub(crate) struct Queue<E> {
    events: Mutex<VecDeque<E>>,
    posted: Condvar,
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self { events: Mutex::default(), posted: Condvar::new() }
    }
}

impl<E> Queue<E> {
    pub(crate) fn post(&self, event: E) {
        locked(&self.events).push_back(event);
        self.posted.notify_one();
    }

    pub(crate) fn take(&self) -> Option<E> {
        locked(&self.events).pop_front()
    }

    /// Waits until there is an event, but not for ever, because threads look at other things, too.
    fn wait(&self) {
        let events = locked(&self.events);
        if events.is_empty() {
            let _ = self.posted.wait_timeout(events, Duration::from_millis(1));
        }
    }
}

/// The metrics of a process, by flat name: `name;label=value;…`.
#[derive(Default)]
struct Stats {
    counters: BTreeMap<String, u64>,
    histograms: BTreeMap<String, Vec<u64>>,
}

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// The process whose hook runs on this thread
    static CURRENT: RefCell<Option<Arc<Process>>> = const { RefCell::new(None) };
    /// Whether the main thread's events run on this thread
    static IS_MAIN: Cell<bool> = const { Cell::new(false) };
}

/// The process whose hook runs on this thread.
pub(crate) fn current() -> Option<Arc<Process>> {
    CURRENT.with_borrow(Clone::clone)
}

pub(crate) fn is_main() -> bool {
    IS_MAIN.get()
}

/// Runs a hook of a process.
pub(crate) fn within<T>(process: &Arc<Process>, hook: impl FnOnce() -> T) -> T {
    let before = CURRENT.replace(Some(process.clone()));
    let result = hook();
    CURRENT.set(before);
    result
}

fn on_main<T>(run: impl FnOnce() -> T) -> T {
    let before = IS_MAIN.replace(true);
    let result = run();
    IS_MAIN.set(before);
    result
}

impl Process {
    pub(crate) fn log(&self, level: &str, line: &str) {
        locked(&self.log).push(format!("{level} {line}"));
    }

    /// Notes what no module may do.
    pub(crate) fn fail(&self, what: impl Into<String>) {
        locked(&self.failures).push(what.into());
    }
}

impl Envoy {
    /// A process with so many worker threads.
    pub fn new(workers: usize) -> Self {
        // Panics of the module's are for Envoy's log, those of the tests for the tests' output.
        static INIT: Once = Once::new();
        INIT.call_once(|| {
            let of_tests = std::panic::take_hook();
            // SAFETY: the function takes nothing and gives a text that is never freed.
            unsafe { hooks::envoy_dynamic_module_on_program_init() };
            let of_module = std::panic::take_hook();
            std::panic::set_hook(Box::new(move |panic| match current() {
                Some(_) => of_module(panic),
                None => of_tests(panic),
            }));
        });
        Self(Arc::new(Process {
            workers: (0..workers).map(|_| Queue::default()).collect(),
            main: Queue::default(),
            log: Mutex::default(),
            stats: Mutex::default(),
            failures: Mutex::default(),
            secrets: Mutex::default(),
            subscribed: Mutex::default(),
            before_scheduler: Mutex::default(),
        }))
    }

    /// Makes a configuration of a policy document, as in a process with this environment; `None` if the module refuses it.
    pub fn configure(&self, document: &[u8], environment: &BTreeMap<String, String>) -> Option<Arc<Config>> {
        // The environment is the process's, and so is what the module keeps for all configurations.
        static LOADING: Mutex<()> = Mutex::new(());
        let loading = locked(&LOADING);
        edge_idempotency::metrics::begin_anew();
        // SAFETY: other threads read the environment through Rust's functions, which have a lock.
        environment.iter().for_each(|(name, value)| unsafe { std::env::set_var(name, value) });
        let config = Config::new(self.0.clone(), document);
        // SAFETY: as above.
        environment.keys().for_each(|name| unsafe { std::env::remove_var(name) });
        drop(loading);
        config
    }

    /// Lets something happen in the middle of the next hook in which a stream begins to wait: before the module can be told to
    /// wake it.
    pub fn before_scheduler(&self, meanwhile: impl FnOnce() + Send + 'static) {
        *locked(&self.0.before_scheduler) = Some(Box::new(meanwhile));
    }

    /// SDS gives a secret this value. An empty one withdraws it.
    pub fn set_secret(&self, name: &str, value: &str) {
        locked(&self.0.secrets).insert(name.to_owned(), value.into());
    }

    /// Handles what has been posted to the main thread, and gives its number. Ticks by the clock are left out.
    pub fn run_main(&self) -> usize {
        let mut handled = 0;
        while let Some((config, event)) = self.0.main.take() {
            if let Some(config) = config.upgrade().filter(|_| event != TICK) {
                config.event(event);
                handled += 1;
            }
        }
        handled
    }

    /// Waits until something has been posted to the main thread, or some time has passed.
    pub fn wait_main(&self) {
        self.0.main.wait();
    }

    /// As [`Envoy::wait_main`], for a worker thread.
    pub fn wait_worker(&self, worker: usize) {
        if let Some(queue) = self.0.workers.get(worker) {
            queue.wait();
        }
    }

    /// The log so far, each line with its level.
    pub fn log(&self) -> Vec<String> {
        locked(&self.0.log).clone()
    }

    /// Takes the lines of the log that there are.
    pub fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.0.log))
    }

    /// The counters, by flat name.
    pub fn counters(&self) -> BTreeMap<String, u64> {
        locked(&self.0.stats).counters.clone()
    }

    /// What histograms were given, by flat name.
    pub fn histograms(&self) -> BTreeMap<String, Vec<u64>> {
        locked(&self.0.stats).histograms.clone()
    }

    /// The sum of the counters whose flat names have all these parts.
    pub fn count(&self, parts: &[&str]) -> u64 {
        let counters = self.counters();
        counters.iter().filter(|(name, _)| parts.iter().all(|part| name.contains(part))).map(|(_, count)| count).sum()
    }

    /// What the module must not have done.
    #[must_use = "failures that nobody looks at make a test pass by accident"]
    pub fn take_failures(&self) -> Vec<String> {
        std::mem::take(&mut *locked(&self.0.failures))
    }
}

/// The kind of an instrument.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Histogram,
}

/// What the module's pointer to a configuration points to.
pub(crate) struct ConfigState {
    pub(crate) process: Arc<Process>,
    instruments: Mutex<Vec<(Kind, String, Vec<String>)>>,
    calls: Mutex<Vec<HttpCall>>,
    last_call: AtomicU64,
    /// For schedulers, whose events come only while the configuration lives
    this: Mutex<Weak<Config>>,
    module: AtomicPtr<c_void>,
    /// The main thread
    made_on: ThreadId,
    /// The names of the secrets that it has asked for, and what it was lent of them
    secrets: Mutex<(Vec<String>, Lent)>,
}

/// A configuration. Envoy destroys it when nobody, and none of its streams, has it any more.
pub struct Config(*const ConfigState);

// SAFETY: the state is not changed but through locks and atomics.
unsafe impl Send for Config {}
// SAFETY: as above.
unsafe impl Sync for Config {}

/// An HTTP call of the module.
#[derive(Clone, Debug)]
pub struct HttpCall {
    /// Its number
    pub id: u64,
    /// The cluster that it goes to
    pub cluster: String,
    /// Its header lines
    pub headers: Headers,
    /// Its body
    pub body: Vec<u8>,
}

impl Config {
    fn new(process: Arc<Process>, document: &[u8]) -> Option<Arc<Self>> {
        let state = ConfigState {
            process: process.clone(),
            instruments: Mutex::default(),
            calls: Mutex::default(),
            last_call: AtomicU64::new(0),
            this: Mutex::default(),
            module: AtomicPtr::new(null_mut()),
            made_on: thread::current().id(),
            secrets: Mutex::default(),
        };
        let config = Arc::new(Self(Box::into_raw(Box::new(state))));
        *locked(&config.state().this) = Arc::downgrade(&config);
        let mut lent = Lent::default();
        let (name, document) = (lent.lend(b"edge-idempotency"), lent.lend(document));
        // SAFETY: the state lives until the configuration is dropped, and name and document during the hook.
        let new = || unsafe {
            hooks::envoy_dynamic_module_on_http_filter_config_new(config.0.cast_mut().cast(), name, document)
        };
        let module = on_main(|| within(&process, new));
        config.state().module.store(module.cast_mut(), Ordering::Release);
        (!module.is_null()).then_some(config)
    }

    pub(crate) fn state(&self) -> &ConfigState {
        // SAFETY: it is freed when `self` is dropped.
        unsafe { &*self.0 }
    }

    pub(crate) fn module(&self) -> *const c_void {
        self.state().module.load(Ordering::Acquire)
    }

    fn event(&self, event: u64) {
        // SAFETY: the module's configuration lives.
        let hook = || unsafe {
            hooks::envoy_dynamic_module_on_http_filter_config_scheduled(self.0.cast_mut().cast(), self.module(), event);
        };
        on_main(|| within(&self.state().process, hook));
    }

    /// Lets a second pass.
    pub fn tick(&self) {
        self.event(TICK);
    }

    /// The calls that wait for a reply, oldest first.
    pub fn calls(&self) -> Vec<HttpCall> {
        locked(&self.state().calls).clone()
    }

    /// Answers a call, or lets it fail.
    pub fn answer(&self, call: u64, reply: Option<&Message>) {
        let at = self.0.cast_mut().cast();
        on_main(|| match reply {
            Some(reply) => self.state().reply(at, call, reply),
            None => self.state().reset(at, call),
        });
    }
}

/// A header line that is lent.
pub(crate) fn line(lent: &mut Lent, name: &[u8], value: &[u8]) -> HeaderLine {
    let (name, value): (Buffer, Buffer) = (lent.lend(name), lent.lend(value));
    HeaderLine { key_ptr: name.ptr, key_length: name.length, value_ptr: value.ptr, value_length: value.length }
}

impl ConfigState {
    /// Defines an instrument; its number, or none if it is too late.
    pub(crate) fn define(&self, kind: Kind, name: String, labels: Vec<String>) -> Option<usize> {
        // Envoy takes no definitions once the module has its configuration.
        if !self.module.load(Ordering::Acquire).is_null() {
            self.process.fail(format!("{name} is defined after the start"));
            return None;
        }
        let mut instruments = locked(&self.instruments);
        instruments.push((kind, name, labels));
        Some(instruments.len())
    }

    pub(crate) fn measure(&self, kind: Kind, id: usize, values: &[String], value: u64) -> bool {
        let instruments = locked(&self.instruments);
        let Some((known, name, labels)) = id.checked_sub(1).and_then(|index| instruments.get(index)) else {
            self.process.fail(format!("there is no instrument {id}"));
            return false;
        };
        if *known != kind || labels.len() != values.len() {
            self.process.fail(format!("{name} is of another kind, or has other labels"));
            return false;
        }
        let mut flat = name.clone();
        for (label, value) in labels.iter().zip(values) {
            flat.push_str(&format!(";{label}={value}"));
        }
        let mut stats = locked(&self.process.stats);
        match kind {
            Kind::Counter => *stats.counters.entry(flat).or_default() += value,
            Kind::Histogram => stats.histograms.entry(flat).or_default().push(value),
        }
        true
    }

    /// Only the main thread may touch calls.
    fn check_thread(&self, what: &str) {
        if !is_main() {
            self.process.fail(format!("{what} on a worker thread"));
        }
    }

    /// Ends a call with its reply, or, as Envoy does when it removes the configuration, without.
    fn end(&self, call: u64) -> bool {
        self.check_thread("a call ends");
        let mut calls = locked(&self.calls);
        let before = calls.len();
        calls.retain(|other| other.id != call);
        calls.len() < before
    }

    fn reply(&self, at: ConfigPtr, call: u64, reply: &Message) {
        if !self.end(call) {
            return;
        }
        let mut lent = Lent::default();
        let lines: Vec<_> = reply.headers.iter().map(|(name, value)| line(&mut lent, name.as_bytes(), value)).collect();
        let chunks: Vec<_> = reply.body.chunks(7).map(|part| lent.lend(part)).collect();
        let module = self.module.load(Ordering::Acquire);
        // SAFETY: the module's configuration lives, and lines and chunks during the hooks.
        let hooks = || unsafe {
            let (first, lines) = (lines.as_ptr(), lines.len());
            hooks::envoy_dynamic_module_on_http_filter_config_http_stream_headers(
                at,
                module,
                call,
                first,
                lines,
                chunks.is_empty(),
            );
            for part in chunks.chunks(2) {
                hooks::envoy_dynamic_module_on_http_filter_config_http_stream_data(
                    at,
                    module,
                    call,
                    part.as_ptr(),
                    part.len(),
                    false,
                );
            }
            hooks::envoy_dynamic_module_on_http_filter_config_http_stream_complete(at, module, call);
        };
        within(&self.process, hooks);
    }

    pub(crate) fn reset(&self, at: ConfigPtr, call: u64) {
        if self.end(call) {
            let module = self.module.load(Ordering::Acquire);
            // `http_stream_reset_reason::LocalReset`
            // SAFETY: the module's configuration lives.
            let hook =
                || unsafe { hooks::envoy_dynamic_module_on_http_filter_config_http_stream_reset(at, module, call, 1) };
            within(&self.process, hook);
        }
    }

    pub(crate) fn call(&self, cluster: String, headers: Headers, body: Vec<u8>) -> u64 {
        self.check_thread("a call is made");
        let id = self.last_call.fetch_add(1, Ordering::Relaxed);
        locked(&self.calls).push(HttpCall { id, cluster, headers, body });
        id
    }

    pub(crate) fn subscribe(&self, name: String) -> usize {
        if !is_main() || !self.module.load(Ordering::Acquire).is_null() {
            self.process.fail(format!("the secret {name} is asked for after the start"));
        }
        locked(&self.process.subscribed).push(name.clone());
        let mut secrets = locked(&self.secrets);
        secrets.0.push(name);
        secrets.0.len()
    }

    pub(crate) fn secret(&self, id: usize) -> Option<Buffer> {
        let (names, lent) = &mut *locked(&self.secrets);
        let name = names.get(id.checked_sub(1)?)?;
        lent.end();
        Some(lent.lend(locked(&self.process.secrets).get(name).map_or(b"", Vec::as_slice)))
    }

    pub(crate) fn weak(&self) -> Weak<Config> {
        locked(&self.this).clone()
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        let module = self.module();
        if !module.is_null() {
            // SAFETY: it is the module's, and this is its last use.
            let hook = || unsafe { hooks::envoy_dynamic_module_on_http_filter_config_destroy(module) };
            within(&self.state().process, hook);
        }
        // Envoy ends what is left, on this thread.
        let state = self.state();
        let is_worker = thread::current().id() != state.made_on;
        if is_worker && !locked(&state.calls).is_empty() {
            state.process.fail("calls are cancelled on a worker thread");
        }
        let mut subscribed = locked(&state.process.subscribed);
        for name in &locked(&state.secrets).0 {
            if let Some(at) = subscribed.iter().position(|other| other == name) {
                subscribed.swap_remove(at);
            }
            if is_worker && !subscribed.contains(name) {
                state.process.fail(format!("the subscription of {name} ends on a worker thread"));
            }
        }
        drop(subscribed);
        // SAFETY: it was made of a box, and the module does not use it any more.
        drop(unsafe { Box::from_raw(self.0.cast_mut()) });
    }
}

/// A scheduler of a configuration.
pub(crate) struct ConfigScheduler(pub(crate) Arc<Process>, pub(crate) Weak<Config>);

impl ConfigScheduler {
    pub(crate) fn commit(&self, event: u64) {
        self.0.main.post((self.1.clone(), event));
    }
}
