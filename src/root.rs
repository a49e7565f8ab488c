//! A root context: its configuration, and the policy and lookups that its requests share.

use crate::abi::{self, AbiLogLevel};
use crate::attributes;
use crate::host::WasmHost;
use edge_idempotency_engine::lookup::TICK_MS;
use edge_idempotency_engine::metrics::{FLUSH_MS, SeriesTable};
use edge_idempotency_engine::policy::{Policy, PolicyErrors};
use edge_idempotency_engine::telemetry::Recorder;
use edge_idempotency_engine::{Driver, STALL_TICK_MS, SharedLookups, Waits};
use edge_idempotency_envoy::{ENVIRONMENT_ADVICE, STALL_ADVICE};
use std::sync::Arc;

/// The policy and the lookups of one configuration.
#[derive(Default)]
pub(crate) struct Root {
    policy: Option<Arc<Policy>>,
    lookups: Option<SharedLookups>,
    waits: Waits,
    bodies: BodyDelivery,
    recorder: Recorder,
}

/// What the requests of a configuration share.
pub(crate) struct Shared<'r> {
    /// `None` if the policy names no store
    pub(crate) lookups: Option<&'r mut SharedLookups>,
    pub(crate) bodies: &'r mut BodyDelivery,
    pub(crate) recorder: &'r mut Recorder,
}

impl Shared<'_> {
    /// Notes what a request has shown and decided in a callback.
    pub(crate) fn note(&mut self, driver: &mut Driver<WasmHost>, host: &WasmHost, series: &mut SeriesTable) {
        if driver.awaited_body_arrived() {
            *self.bodies = BodyDelivery::Proven;
        }
        driver.count(host, series);
        driver.record(host, self.recorder);
    }
}

/// Whether the gateway passes on bodies that a paused message waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum BodyDelivery {
    /// No message has waited for a body so far
    #[default]
    Unknown,
    /// A body has not arrived, and the log says so
    Reported,
    /// A body has arrived
    Proven,
}

/// Logs version and commit.
pub(crate) fn log_version() {
    let (version, hash) = (env!("CARGO_PKG_VERSION"), env!("EDGE_IDEMPOTENCY_GIT_HASH"));
    abi::log(AbiLogLevel::Info, &format!("edge-idempotency {version} ({hash})"));
}

impl Root {
    /// The policy; `None` before [`Root::configure`].
    pub(crate) fn policy(&self) -> Option<Arc<Policy>> {
        self.policy.clone()
    }

    /// Who waits for results.
    pub(crate) fn waits(&self) -> Waits {
        self.waits.clone()
    }

    /// The lookups; `None` if the policy names no store.
    pub(crate) const fn lookups(&mut self) -> Option<&mut SharedLookups> {
        self.lookups.as_mut()
    }

    /// What the requests of the configuration share.
    pub(crate) const fn shared(&mut self) -> Shared<'_> {
        Shared { lookups: self.lookups.as_mut(), bodies: &mut self.bodies, recorder: &mut self.recorder }
    }

    /// Whether the gateway is known to pass on bodies that a message waits for, because one has arrived.
    pub(crate) const fn gateway_passes_bodies(&self) -> bool {
        matches!(self.bodies, BodyDelivery::Proven)
    }

    /// What writes the records and log lines of the configuration's requests.
    pub(crate) const fn recorder(&mut self) -> &mut Recorder {
        &mut self.recorder
    }

    /// Logs, once, that the gateway keeps a body back.
    pub(crate) fn report_stall(&mut self) {
        if self.bodies != BodyDelivery::Reported {
            self.bodies = BodyDelivery::Reported;
            abi::log(AbiLogLevel::Critical, &format!("edge-idempotency: {STALL_ADVICE}"));
        }
    }

    /// Takes the plugin's configuration. `false` makes the gateway refuse it; all errors are in its log.
    pub(crate) fn configure(&mut self, host: &WasmHost) -> bool {
        let document = abi::configuration().unwrap_or_default();
        match Policy::from_json(&document).and_then(with_secrets) {
            Ok(policy) => {
                abi::log(AbiLogLevel::Info, &format!("edge-idempotency: {}", policy.summary()));
                for warning in policy.warnings() {
                    abi::log(AbiLogLevel::Warn, &format!("edge-idempotency: policy {warning}"));
                }
                // If this fails, access logs show records as bytes.
                let _ = attributes::declare_record();
                self.recorder.read_level(host);
                self.lookups = SharedLookups::of(&policy);
                // If this fails, there are no ticks: no metrics, no refreshes ahead of time, and nothing ends the wait for
                // a body that the gateway keeps back. Requests and lookups still work.
                let _ = abi::set_tick_period(TICK_MS.min(STALL_TICK_MS).min(FLUSH_MS));
                self.policy = Some(Arc::new(policy));
                true
            }
            Err(errors) => {
                abi::log(AbiLogLevel::Error, &format!("edge-idempotency: {}", errors.headline()));
                for error in &errors.0 {
                    abi::log(AbiLogLevel::Error, &format!("edge-idempotency: policy {error}"));
                }
                false
            }
        }
    }
}

fn with_secrets(mut policy: Policy) -> Result<Policy, PolicyErrors> {
    let environment = abi::environment().unwrap_or_default();
    let variable = |name: &str| {
        let value = |line: &Vec<u8>| line.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec);
        environment.iter().find_map(value)
    };
    policy.take_secrets_or_advise(variable, ENVIRONMENT_ADVICE).map(|()| policy)
}
