//! Name, severity and texts of every lint of the gateway around the filter. docs/lints.md is made from them.

use crate::lints::diagnostics::lint::lints;

lints! {
    /// In the order of the page: the file, the filter, the connection manager, routes and clusters.
    pub(crate) LINTS;

    NOT_YAML {
        name: "not-yaml",
        severity: Error,
        summary: "The configuration is neither YAML nor JSON.",
        why: "Envoy cannot read it, and this command cannot check it.",
        instead: "Correct the text at the place that is underlined. If the file is a template, fill it in first.",
    }

    ENVOY_NO_FILTER {
        name: "envoy-no-filter",
        severity: Error,
        summary: "The file has no filter of this project, or the command cannot find the filter or its policy.",
        why: "There is nothing to check. A filter by ECDS is found if its `path_config_source` names a file.",
        instead: "Name the file that has the filter, or check the policy document by itself.",
    }

    ENVOY_DUPLICATE_MEMBER {
        name: "envoy-duplicate-member",
        severity: Error,
        summary: "An object has the same member twice.",
        why: "Envoy takes the last one and reports nothing.",
        instead: "Remove the wrong one.",
    }

    ENVOY_CONFIGURATION {
        name: "envoy-configuration",
        severity: Error,
        summary: "The plugin's `configuration` is not a StringValue.",
        why: "The filter reads the policy as text, and does not start with a Struct.",
        instead: "Write `\"@type\": type.googleapis.com/google.protobuf.StringValue` and the document as the `value`, \
                  after `|`.",
    }

    ENVOY_FAIL_OPEN {
        name: "envoy-fail-open",
        severity: Error,
        summary: "A VM that fails lets every request through.",
        why: "After the first failure all keys reach the backend as clients wrote them: a client can name another tenant's.",
        instead: "Write `failure_policy: FAIL_RELOAD`.",
    }

    ENVOY_FAILURE_POLICY {
        name: "envoy-failure-policy",
        severity: Warning,
        summary: "A VM that fails is not replaced.",
        why: "Envoy answers 503 to every request of that worker until it restarts.",
        instead: "Write `failure_policy: FAIL_RELOAD`.",
    }

    ENVOY_STOP_ITERATION {
        name: "envoy-stop-iteration",
        severity: Error,
        summary: "`allow_on_headers_stop_iteration` is not set.",
        why: "The filter cannot wait for a body: webhooks, signed requests and compared ones get 503, and errors become \
              `backend_error`.",
        instead: "Write `allow_on_headers_stop_iteration: true` into the plugin's `config` (Envoy 1.35 or newer).",
    }

    ENVOY_MISSING_SECRET {
        name: "envoy-missing-secret",
        severity: Error,
        summary: "The filter does not get a secret that the policy names.",
        why: "The filter does not start. A WebAssembly module sees only variables that are listed, and no secrets of SDS.",
        instead: "Add a variable to `vm_config.environment_variables.host_env_keys`, and set it for Envoy. In the place of SDS write \
              `{\"env\": \"NAME\"}` in the policy, let OpenBao give the secrets, or run the dynamic module (docs/gateways.md).",
    }

    ENVOY_DYNAMIC_MODULE_UNLOAD {
        name: "envoy-dynamic-module-unload",
        severity: Error,
        summary: "Envoy may unload the dynamic module.",
        why: "If Envoy unloads the module while its thread runs, the process ends.",
        instead: "Write `do_not_close: true` into `dynamic_module_config`.",
    }

    ENVOY_DYNAMIC_MODULE_METADATA {
        name: "envoy-dynamic-module-metadata",
        severity: Error,
        summary: "A dynamic module is not handed metadata that an identity source reads, or at another place or in another form than it \
              needs.",
        why: "A dynamic module sees nested metadata only as a JSON object that another filter writes. Without it every request is \
              answered 503 `policy_invalid`; if it is written before authentication, 401.",
        instead: "Put the filter `set_filter_state` behind every filter that says who is calling, and directly before this one, with \
              `factory_key: envoy.string` and `text_format_source: {inline_string: \"%DYNAMIC_METADATA(NAMESPACE)%\"}` for each namespace \
              (docs/gateways.md); `render envoy --dynamic-module` writes it. If the namespace has a `:`, let the source read another \
              one.",
    }

    ENVOY_CORS {
        name: "envoy-cors",
        severity: Warning,
        summary: "Scripts in browsers may not send the key, or cannot read what the filter says in headers.",
        why: "Without `idempotency-key` in `allow_headers` a browser sends no request with a key; without `expose_headers` a script \
              cannot see a replay.",
        instead: "Add the headers that the message names to `allow_headers` or `expose_headers` (docs/callers.md, \"From a browser\").",
    }

    ENVOY_DYNAMIC_MODULE_METRICS {
        name: "envoy-dynamic-module-metrics",
        severity: Warning,
        summary: "Names of a dynamic module's metrics begin with a prefix.",
        why: "Dashboard and alerts find nothing under `envoy_edge_idempotency_…`.",
        instead: "Write `envoy.reloadable_features.dynamic_modules_strip_custom_stat_prefix: true` into a `static_layer` of \
                  `layered_runtime`.",
    }

    ENVOY_FILTER_ORDER {
        name: "envoy-filter-order",
        severity: Error,
        summary: "The filter is not the last one before the router, or stands twice in the chain.",
        why: "A filter behind it sees another request than the client sent, and one before it has to say who calls. A second one \
              takes the first one's key for a client's.",
        instead: "Move the filter after all others, just before `envoy.filters.http.router`. Of two filters of this project leave one, and \
              put the routes of both into one policy; different backends have names in `backends`.",
    }

    ENVOY_STREAMED_REQUESTS {
        name: "envoy-streamed-requests",
        severity: Warning,
        summary: "Two filters `ext_proc` stream requests to a filter that waits for their bodies.",
        why: "With two `FULL_DUPLEX_STREAMED` and trailers Envoy 1.39 and 1.40 give the parts of the body in the wrong order.",
        instead: "Let at most one of them have `request_body_mode: FULL_DUPLEX_STREAMED`, or refuse trailers (`enable_trailers` is off by \
                  default for HTTP/1.1).",
    }

    ENVOY_IDENTITY_SOURCE {
        name: "envoy-identity-source",
        severity: Warning,
        summary: "No filter gives what an identity source reads.",
        why: "Every request that needs an identity gets 401, whatever token it has.",
        instead: "Put the filter before this one. For `jwt_authn` write `rules`, and on each provider what the source reads: \
              `payload_in_metadata` with the second name of its `metadata`, `forward_payload_header` with the header of its \
              `payload_header`, or `claim_to_headers` for other headers. If these callers use no route with keys, allow this lint.",
    }

    ENVOY_IDENTITY_HEADERS {
        name: "envoy-identity-headers",
        severity: Error,
        summary: "A client can write the headers that say who it is.",
        why: "A client names another tenant there, and gets its results. `jwt_authn` removes them only from requests whose token it \
              verifies.",
        instead: "Put the filter that `headers_owned_by` names before this one, without `failure_mode_allow`, and remove clients' own \
                  headers by an `early_header_mutation` of the connection manager.",
    }

    ENVOY_DISABLED {
        name: "envoy-disabled",
        severity: Error,
        summary: "The filter is switched off, or another extension decides when it runs.",
        why: "There keys reach the backend as clients wrote them.",
        instead: "Remove `disabled`, and the `ExtensionWithMatcher` around the filter. For requests that need no key write a route with `HANDLER_INTERNAL_C`: it removes keys.",
    }

    ENVOY_OTHER_WAY {
        name: "envoy-other-way",
        severity: Error,
        summary: "Requests reach the backend without passing the filter.",
        why: "Another listener, a TCP proxy or an upgraded request leads there, with keys as clients wrote them.",
        instead: "Put the filter into that chain, too. If only trusted services can connect there, allow this lint.",
    }

    ENVOY_NORMALIZE_PATH {
        name: "envoy-normalize-path",
        severity: Error,
        summary: "`normalize_path` or `merge_slashes` is not set.",
        why: "Gateway and filter read another path: `/api/../admin` can pass rules for `/api`.",
        instead: "Write `normalize_path: true` and `merge_slashes: true` on the connection manager.",
    }

    ENVOY_ESCAPED_SLASHES {
        name: "envoy-escaped-slashes",
        severity: Warning,
        summary: "The gateway decodes escaped slashes, or refuses those that a route takes, or does not say what it does with them.",
        why: "Where they are decoded, `a%2Fb` becomes two segments before the filter reads it.",
        instead: "Write `path_with_escaped_slashes_action: REJECT_REQUEST`, or `KEEP_UNCHANGED` if a route has `encoded_slash`, \
              or has recovery and `\"charset\": \"visible\"`.",
    }

    ENVOY_HOST_SPELLING {
        name: "envoy-host-spelling",
        severity: Error,
        summary: "Routes have `hosts`, and the gateway does not normalise the host.",
        why: "The filter refuses a host with a port, a final dot or capitals (400), which clients cannot always leave out.",
        instead: "Write `strip_any_host_port: true` and `strip_trailing_host_dot: true` on the connection manager.",
    }

    ENVOY_OPEN_HOST {
        name: "envoy-open-host",
        severity: Error,
        summary: "A virtual host takes hosts that no route of the policy names, and the policy forwards what it does not declare.",
        why: "By another `Host` a client reaches the path of such a route, and the request passes without a key or a signature.",
        instead: "List the hosts of the policy as `domains`, write `\"unmatched\": \"REJECT\"`, or leave `hosts` out of the routes. If \
                  the backend refuses other hosts by itself, allow this lint.",
    }

    ENVOY_UNSERVED_HOST {
        name: "envoy-unserved-host",
        severity: Warning,
        summary: "The policy has routes for a host that no virtual host takes.",
        why: "Envoy answers 404 before the filter reads the request.",
        instead: "Add the host to the `domains` of a virtual host, without a port, or correct it in the policy.",
    }

    ENVOY_BUFFER_LIMIT {
        name: "envoy-buffer-limit",
        severity: Error,
        summary: "The gateway's buffer is smaller than the bodies that the policy waits for.",
        why: "Envoy answers its own 413, or 500 for an answer that is shaped although the work was done. The filter needs 64 KiB \
              more than the longest body.",
        instead: "Write the greatest `max_body_bytes`, for such answers at least 1048576, and 65536 as `per_connection_buffer_limit_bytes` of the listener. \
                  `request_body_buffer_limit` of a route that leads to a cluster also raises the limit for requests. Make \
                  `initial_stream_window_size` as large, or leave it out.",
    }

    ENVOY_TIMEOUT {
        name: "envoy-timeout",
        severity: Warning,
        summary: "A timeout of the gateway is missing, or not longer than a wait of the filter.",
        why: "A body that never ends is freed by `request_timeout` alone, a route without `timeout` has 15 s, and a wait for a \
              result takes `recovery_wait_ms`.",
        instead: "Write for example `request_timeout: 60s` on the connection manager, and on the route to the backend a `timeout` that \
              fits the slowest handler, such as `timeout: 60s`. Make other timeouts longer than `recovery_wait_ms`, or shorten \
              `recovery_wait_ms`.",
    }

    ENVOY_CONNECTION_LIMITS {
        name: "envoy-connection-limits",
        severity: Warning,
        summary: "Nothing limits how much memory of the gateway one connection can use.",
        why: "With Envoy's defaults one connection of HTTP/2 can make the gateway hold 60 KiB of headers for each of a thousand \
              streams.",
        instead: "Write for example `max_request_headers_kb: 16` and `http2_protocol_options: {max_concurrent_streams: 100}` on the \
                  connection manager.",
    }

    ENVOY_ACCESS_LOG {
        name: "envoy-access-log",
        severity: Warning,
        summary: "No access log has the filter's record, or one reads it and the policy has `record: false`.",
        why: "Without it nobody can say later why a request was refused, and `shadow-report` has nothing to count.",
        instead: "Add `edge_idempotency: \"%TYPED_CEL(filter_state['wasm.edge_idempotency'])%\"` to the JSON format. If nobody reads records, \
                  remove it and write `record: false` in the policy.",
    }

    ENVOY_WRONG_BACKEND {
        name: "envoy-wrong-backend",
        severity: Error,
        summary: "Requests reach another backend than the filter has chosen.",
        why: "At another backend nothing that the filter removes and closes fits: Restate would store a caller's token.",
        instead: "Write one route for each backend that matches `x-edge-idempotency` with the backend's name, before the others, to \
                  clusters that no other route leads to; `render envoy` writes them.",
    }

    ENVOY_CLIENT_MARK {
        name: "envoy-client-mark",
        severity: Warning,
        summary: "A client's own `x-edge-idempotency` chooses the first route.",
        why: "Filters before this one have seen the route that it chose, perhaps the one with the fewest rules.",
        instead: "Remove `x-edge-idempotency` by an `early_header_mutation` of the connection manager.",
    }

    ENVOY_MARKED_ROUTE {
        name: "envoy-marked-route",
        severity: Error,
        summary: "A route leads to the backend without asking for the filter's mark, or no route takes the requests that the filter has \
              marked.",
        why: "Without the mark a client could reach the backend's own paths; if no route asks for it, every request with a target \
              gets 404.",
        instead: "Write a route for all paths that matches `headers: [{name: x-edge-idempotency, present_match: true}]` and leads to the \
              backend, and give clients' paths a prefix of their own.",
    }

    ENVOY_KEYLESS_RETRY {
        name: "envoy-keyless-retry",
        severity: Error,
        summary: "The gateway tries requests without a key again.",
        why: "Without a key each attempt runs, and the filter cannot see the router's attempts.",
        instead: "Write `retriable_request_headers: [{name: idempotency-key, present_match: true}]` into the `retry_policy`, or try \
                  again on `connect-failure` and `refused-stream` only. Remove hedging and copies.",
    }

    ENVOY_CHANGED_REQUEST {
        name: "envoy-changed-request",
        severity: Error,
        summary: "A route changes what the filter has written.",
        why: "Without the key every retry runs again; at another path there may be no handler, or another one.",
        instead: "Remove the member from the route: the policy says which key and which path the backend gets.",
    }

    ENVOY_SHARED_CLUSTER {
        name: "envoy-shared-cluster",
        severity: Error,
        summary: "Requests of clients go to the cluster of the filter's own calls.",
        why: "Clients can use up its connections; then claims and lookups of all tenants fail.",
        instead: "Give the filter a cluster of its own with the same endpoints, and name it in the policy's `backend.cluster`. \
                  `render envoy` writes it so.",
    }

    ENVOY_SHARED_WAITS {
        name: "envoy-shared-waits",
        severity: Warning,
        summary: "Requests that wait for results go to the cluster of other requests.",
        why: "Each holds a connection for up to `recovery_wait_ms`, and many leave none for others.",
        instead: "Write a route for `/restate/attach/` before that of the backend, with the same \
                  header `x-edge-idempotency`, to a cluster of its own with the same endpoints.",
    }

    ENVOY_MISSING_CLUSTER {
        name: "envoy-missing-cluster",
        severity: Error,
        summary: "The policy names a cluster that the gateway does not have.",
        why: "Lookups, recoveries and claims fail, with 503 where they are needed.",
        instead: "Define the cluster in `static_resources.clusters`, or correct its name in the policy.",
    }
}
