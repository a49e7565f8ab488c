//! A root context: its configuration, and the policy and lookups that its requests share.

use crate::abi::{self, AbiLogLevel};
use edge_idempotency_engine::lookup::TICK_MS;
use edge_idempotency_engine::policy::{Policy, PolicyErrors};
use edge_idempotency_engine::{STALL_TICK_MS, SharedLookups};
use edge_idempotency_envoy::{ENVIRONMENT_ADVICE, STALL_ADVICE};
use std::sync::Arc;

/// The policy and the lookups of one configuration.
#[derive(Default)]
pub(crate) struct Root {
    policy: Option<Arc<Policy>>,
    lookups: Option<SharedLookups>,
    bodies: BodyDelivery,
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

    /// The lookups; `None` if the policy names no store.
    pub(crate) const fn lookups(&mut self) -> Option<&mut SharedLookups> {
        self.lookups.as_mut()
    }

    /// What all requests of the configuration share: the lookups, and what is known about the delivery of bodies.
    pub(crate) const fn shared(&mut self) -> (Option<&mut SharedLookups>, &mut BodyDelivery) {
        (self.lookups.as_mut(), &mut self.bodies)
    }

    /// Whether a body has arrived while a message waited for it. Then ticks are only needed for lookups.
    pub(crate) fn bodies_are_proven(&self) -> bool {
        let proven = self.bodies == BodyDelivery::Proven;
        if proven && !self.lookups.as_ref().is_some_and(SharedLookups::needs_ticks) {
            let _ = abi::set_tick_period(0);
        }
        proven
    }

    /// Logs, once, that the gateway keeps a body back.
    pub(crate) fn report_stall(&mut self) {
        if self.bodies != BodyDelivery::Reported {
            self.bodies = BodyDelivery::Reported;
            abi::log(AbiLogLevel::Critical, &format!("edge-idempotency: {STALL_ADVICE}"));
        }
    }

    /// Takes the plugin's configuration. `false` makes the gateway refuse it; all errors are in its log.
    pub(crate) fn configure(&mut self) -> bool {
        let document = abi::configuration().unwrap_or_default();
        match Policy::from_json(&document).and_then(with_secrets) {
            Ok(policy) => {
                abi::log(AbiLogLevel::Info, &format!("edge-idempotency: {}", policy.summary()));
                for warning in policy.warnings() {
                    abi::log(AbiLogLevel::Warn, &format!("edge-idempotency: policy {warning}"));
                }
                self.lookups = SharedLookups::of(&policy);
                // If this fails, there are no ticks: no refreshes ahead of time, and nothing ends the wait for a body that
                // the gateway keeps back. Lookups still work.
                let _ = abi::set_tick_period(TICK_MS.min(STALL_TICK_MS));
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
