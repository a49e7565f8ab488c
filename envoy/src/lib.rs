//! What is Envoy's own: the headers that steer its router for one request, and how its VMs get environment variables. The
//! engine knows no gateway; hosts in Envoy hand this to it, and so do tests and `explain`, which stand in for such a host.

use edge_idempotency_engine::host::RouterHints;

/// The headers that steer Envoy's router for one request
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

/// What an operator has to do so that the filter sees a variable of the environment.
pub const ENVIRONMENT_ADVICE: &str =
    "set it in the gateway's environment, and list it in vm_config.environment_variables.host_env_keys";
