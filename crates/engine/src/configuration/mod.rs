//! One configuration of the filter in a worker of a gateway: the policy, and what all of its requests share.
//!
//! | module | subject |
//! |---|---|
//! | `dependencies` | the caches of the stores, and the calls to the stores, to Restate and to the guard |
//! | `body_watch` | a gateway that keeps back the bodies that messages wait for |

mod body_watch;
mod dependencies;

pub(crate) use crate::lookup::LookupAnswer;
use dependencies::Dependencies;

use crate::call::CallReply;
use crate::host::{Gateway, LogLevel};
use crate::metrics::{Count, Counter, Metrics, NONE};
use crate::policy::document::LiveSecret;
use crate::policy::{Policy, PolicyErrors};
use crate::problem::Problem;

use crate::telemetry::{PREFIX, Recorder};
use crate::waits::Waits;
use body_watch::BodyWatch;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How often a host has to call [`Configuration::on_tick`], in milliseconds.
pub const TICK_MS: u32 = 1000;

/// A configuration of the filter in one worker of a gateway, which its [streams](crate::Stream) share.
///
/// After every event of a configuration or of a stream, the host wakes the streams that
/// [`Configuration::next_to_wake`] names. The default configuration has no policy: its streams refuse every request.
#[derive(Default)]
pub struct Configuration {
    policy: Option<Arc<Policy>>,
    /// `None` if no request needs a call
    dependencies: Option<Arc<Mutex<Dependencies>>>,
    /// Whether another worker's configuration has the same dependencies, and takes the ticks for them
    shares: bool,
    waits: Waits,
    recorder: Recorder,
    metrics: Metrics,
    body_watch: BodyWatch,
    wakes: Wakes,
}

/// Why the streams go on that were named and are not woken yet, by their numbers
type Wakes = Arc<Mutex<Vec<(u32, Wake)>>>;

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a stream goes on.
pub(crate) enum Wake {
    /// The answer that it waits for is there.
    Answer(LookupAnswer),
    /// The body that it waits for has not come for five seconds.
    BodyStalled,
}

impl Configuration {
    /// Reads a policy document (JSON) and makes its configuration. `variable` gives the value of an environment variable of
    /// the gateway. `metrics` are those of the worker, because a gateway keeps the metrics of an earlier configuration.
    ///
    /// The log of the gateway gets a summary and warnings, or all errors.
    ///
    /// # Errors
    /// All errors of the document, each with its JSON pointer. The gateway should not take such a configuration.
    pub fn load<G: Gateway>(
        gateway: &G,
        document: &[u8],
        variable: impl Fn(&str) -> Option<Vec<u8>>,
        metrics: &Metrics,
    ) -> Result<Self, PolicyErrors> {
        let subscribe = |secret: &LiveSecret| {
            gateway.secret_reader(&secret.name, &secret.source).map(|reader| secret.attach(reader)).is_ok()
        };
        let with_secrets = |mut policy: Policy| {
            policy.read_secrets(variable, subscribe, gateway.advice().environment).map(|()| policy)
        };
        let policy = Policy::from_json(document).and_then(with_secrets).inspect_err(|errors| {
            gateway.log(LogLevel::Error, &format!("{PREFIX} {}", errors.headline()));
            for error in &errors.0 {
                gateway.log(LogLevel::Error, &format!("{PREFIX} policy {error}"));
            }
        })?;
        gateway.log(LogLevel::Info, &format!("{PREFIX} {}", policy.summary()));
        for warning in policy.warnings() {
            gateway.log(LogLevel::Warn, &format!("{PREFIX} policy {warning}"));
        }
        let mut configuration = Self { metrics: metrics.clone(), ..Self::of(Arc::new(policy)) };
        configuration.recorder.read_level(gateway);
        metrics.with(|series| series.announce(gateway));
        Ok(configuration)
    }

    /// The configuration of a compiled policy, with metrics of its own.
    #[doc(hidden)]
    pub fn of(policy: Arc<Policy>) -> Self {
        let dependencies = Dependencies::of(&policy).map(|dependencies| Arc::new(Mutex::new(dependencies)));
        Self { dependencies, policy: Some(policy), ..Self::default() }
    }

    /// A configuration for another worker thread of the same gateway, with metrics of its own. Both have the same policy, the
    /// same caches, and the same calls: the reply to a call may be given to either, and either names all streams that go on.
    #[must_use]
    pub fn for_worker<G: Gateway>(&self, gateway: &G, metrics: &Metrics) -> Self {
        let mut configuration = Self {
            policy: self.policy.clone(),
            dependencies: self.dependencies.clone(),
            shares: true,
            body_watch: BodyWatch::off(),
            wakes: self.wakes.clone(),
            metrics: metrics.clone(),
            ..Self::default()
        };
        configuration.recorder.read_level(gateway);
        configuration
    }

    /// Takes the reply to a call ([`Gateway::call`]), or its failure. An unknown token changes nothing.
    pub fn on_call_reply<G: Gateway>(&mut self, gateway: &G, token: u32, reply: &CallReply<'_>) {
        if let Some(mut dependencies) = self.dependencies() {
            self.metrics.with(|series| dependencies.on_call_reply(gateway, token, reply, series));
        }
    }

    /// Takes a tick, of which there has to be one every [`TICK_MS`] milliseconds: results expire, metrics and log lines are
    /// written.
    pub fn on_tick<G: Gateway>(&mut self, gateway: &G) {
        if let Some(mut dependencies) = self.dependencies() {
            self.metrics.with(|series| {
                if !self.shares {
                    dependencies.on_tick(gateway, series);
                }
                dependencies.record_times(gateway, series);
            });
        }
        if let Some(policy) = self.policy.as_ref().filter(|_| !self.shares) {
            policy.live_secrets().for_each(|secret| secret.refresh(gateway.now_unix_ms()));
        }
        self.body_watch.on_tick();
        self.metrics.with(|series| series.flush(gateway));
        self.recorder.on_tick(gateway);
    }

    /// The namespaces of all metadata that identity sources of the policy read.
    pub fn metadata_namespaces(&self) -> BTreeSet<String> {
        self.policy.as_ref().map(|policy| policy.metadata_namespaces()).unwrap_or_default()
    }

    /// Counts a failure of the host that is about no stream which could count it ([`Stream::on_failure`](crate::Stream::on_failure)).
    pub fn count_failure(&self) {
        let code = Problem::internal_error().code.name();
        let (values, tenant, project, endpoint) = ([code, NONE], None, None, None);
        let limit = self.policy.as_ref().map_or(0, |policy| policy.max_series);
        let count = Count { counter: Counter::Problem, values, tenant, project, endpoint };
        self.metrics.with(|series| series.add(&count, limit));
    }

    /// The number of the next stream that goes on; its [`Stream::on_wake`](crate::Stream::on_wake) has to follow, at once or
    /// later.
    pub fn next_to_wake(&mut self) -> Option<u32> {
        if let Some(mut dependencies) = self.dependencies()
            && let Some((stream, answer)) = dependencies.next_answer()
        {
            // Under the lock of the dependencies, so that a stream that ends now finds its answer in one of both places.
            locked(&self.wakes).push((stream, Wake::Answer(answer)));
            return Some(stream);
        }
        let stream = self.body_watch.next_stalled()?;
        locked(&self.wakes).push((stream, Wake::BodyStalled));
        Some(stream)
    }

    /// Writes the metrics and log lines that are left when the gateway removes the configuration.
    pub fn on_end<G: Gateway>(mut self, gateway: &G) {
        if let Some(mut dependencies) = self.dependencies() {
            self.metrics.with(|series| dependencies.record_times(gateway, series));
        }
        self.metrics.with(|series| series.flush(gateway));
        self.recorder.report(gateway);
    }

    /// The policy; `None` in the default configuration.
    pub(crate) fn policy(&self) -> Option<Arc<Policy>> {
        self.policy.clone()
    }

    /// Who waits for results.
    pub(crate) fn waits(&self) -> Waits {
        self.waits.clone()
    }

    /// Whether a stream was named and is not woken yet.
    pub fn goes_on(&self, stream: u32) -> bool {
        locked(&self.wakes).iter().any(|(named, _)| *named == stream)
    }

    /// Why a stream goes on; `None` if it was not named.
    pub(crate) fn wake(&mut self, stream: u32) -> Option<Wake> {
        let mut wakes = locked(&self.wakes);
        let index = wakes.iter().position(|(named, _)| *named == stream)?;
        Some(wakes.swap_remove(index).1)
    }

    /// Forgets a stream that has waited and has ended.
    pub(crate) fn forget(&mut self, stream: u32) {
        locked(&self.wakes).retain(|(named, _)| *named != stream);
        self.body_watch.forget(stream);
    }

    pub(crate) fn dependencies(&self) -> Option<MutexGuard<'_, Dependencies>> {
        self.dependencies.as_deref().map(locked)
    }

    pub(crate) const fn body_watch(&mut self) -> &mut BodyWatch {
        &mut self.body_watch
    }

    pub(crate) const fn recorder(&mut self) -> &mut Recorder {
        &mut self.recorder
    }

    pub(crate) const fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}
