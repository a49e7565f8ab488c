//! The root context: start, configuration, and a context for each request.

use super::{abi, stream::Stream};
use crate::policy::{Policy, PolicyErrors};
use proxy_wasm::hostcalls;
use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{ContextType, LogLevel};
use std::rc::Rc;

/// What all requests of this VM share.
#[derive(Default)]
pub(super) struct Root {
    policy: Option<Rc<Policy>>,
}

impl Context for Root {}

impl RootContext for Root {
    fn on_vm_start(&mut self, _: usize) -> bool {
        let (version, hash) = (env!("CARGO_PKG_VERSION"), env!("EDGE_IDEMPOTENCY_GIT_HASH"));
        log(LogLevel::Info, &format!("edge-idempotency {version} ({hash})"));
        true
    }

    /// `false` makes the gateway refuse the configuration, with every reason in its log.
    fn on_configure(&mut self, _: usize) -> bool {
        let document = abi::configuration().unwrap_or_default();
        match Policy::from_json(&document).and_then(with_secrets) {
            Ok(policy) => {
                log(LogLevel::Info, &format!("edge-idempotency: {}", policy.summary()));
                for warning in &policy.warnings {
                    log(LogLevel::Warn, &format!("edge-idempotency: policy {warning}"));
                }
                self.policy = Some(Rc::new(policy));
                true
            }
            Err(errors) => {
                log(LogLevel::Error, &format!("edge-idempotency: {}", errors.headline()));
                for error in &errors.0 {
                    log(LogLevel::Error, &format!("edge-idempotency: policy {error}"));
                }
                false
            }
        }
    }

    fn create_http_context(&self, _: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Stream::new(self.policy.clone())))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}

fn with_secrets(mut policy: Policy) -> Result<Policy, PolicyErrors> {
    let environment = abi::environment().unwrap_or_default();
    let variable = |name: &str| {
        let value = |line: &Vec<u8>| line.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec);
        environment.iter().find_map(value)
    };
    policy.take_secrets(variable).map(|()| policy)
}

fn log(level: LogLevel, message: &str) {
    // There is nowhere to report a log that does not take a line.
    let _ = hostcalls::log(level, message);
}
