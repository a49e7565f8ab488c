//! A root context: its configuration, and the policy and lookups that its requests share.

use crate::abi::{self, AbiLogLevel};
use edge_idempotency_engine::SharedLookups;
use edge_idempotency_engine::lookup::TICK_MS;
use edge_idempotency_engine::policy::{Policy, PolicyErrors};
use edge_idempotency_envoy::ENVIRONMENT_ADVICE;
use std::sync::Arc;

/// The policy and the lookups of one configuration.
#[derive(Default)]
pub(crate) struct Root {
    policy: Option<Arc<Policy>>,
    lookups: Option<SharedLookups>,
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
                if self.lookups.as_ref().is_some_and(SharedLookups::needs_ticks) {
                    // If this fails, there are no ticks and so no refreshes ahead of time; lookups still work.
                    let _ = abi::set_tick_period(TICK_MS);
                }
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
