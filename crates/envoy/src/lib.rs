//! Facts about Envoy: the headers that control its router for one request, and how its VMs get environment variables.
//! The engine knows no gateway, so hosts in Envoy pass these facts to it. Tests and `explain` do so in place of such a
//! host.

pub mod protobuf;

use edge_idempotency_engine::{OperatorAdvice, RouterHints};

/// The headers that control Envoy's router for one request
/// (<https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/router_filter>).
pub static ROUTER: RouterHints = RouterHints {
    prefix: "x-envoy-",
    timeout_ms: "x-envoy-upstream-rq-timeout-ms",
    retry_not_found: &[
        ("x-envoy-retry-on", "retriable-status-codes"),
        ("x-envoy-retriable-status-codes", "404"),
        ("x-envoy-max-retries", "1"),
    ],
};

/// The key of the filter state in which the dynamic module looks for a namespace of metadata, which the filter `set_filter_state` puts
/// there (docs/gateways.md).
pub fn metadata_object(namespace: &str) -> String {
    format!("{METADATA_OBJECTS}{namespace}")
}

/// How the keys of [`metadata_object`] begin.
pub const METADATA_OBJECTS: &str = "edge_idempotency.metadata.";

/// What operators have to change: of Envoy with the wasm module, and of the bridge for KrakenD, which runs the same module.
pub static ADVICE: OperatorAdvice = OperatorAdvice {
    environment: "set it in the gateway's environment, and in Envoy list it in vm_config.environment_variables.host_env_keys",
    kept_back_body: "a body that the filter waits for did not come within 5 s: set \
        allow_on_headers_stop_iteration: true in the plugin's config (Envoy 1.35 or newer); until then requests whose body \
        the filter has to read are answered 503 policy_invalid, and the bodies of backend errors are not shown. If it is \
        set, the backend was slow to send the body of an error",
};

/// What operators have to change of Envoy with the dynamic module.
pub static DYNAMIC_MODULE_ADVICE: OperatorAdvice = OperatorAdvice {
    environment: "set it in Envoy's environment",
    kept_back_body: "a body that the filter waits for did not come within 5 s: the backend was slow to send the body of an error",
};
