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
        why: "There is nothing to check. A filter that comes by ECDS is found if its `path_config_source` names a file \
              that is there.",
        instead: "Name the file that has the filter, or check the policy document by itself.",
    }

    ENVOY_DUPLICATE_MEMBER {
        name: "envoy-duplicate-member",
        severity: Error,
        summary: "An object has the same member twice.",
        why: "Envoy takes the last one and reports nothing, so a `normalize_path: false` further down undoes the `true` above it. A merge \
              of two changes can leave both.",
        instead: "Remove the wrong one.",
    }

    ENVOY_CONFIGURATION {
        name: "envoy-configuration",
        severity: Error,
        summary: "The plugin's `configuration` is not a StringValue.",
        why: "The filter reads the policy document as text. Envoy makes a protobuf message of a Struct, with which the \
              filter does not start; without a configuration it does not start either.",
        instead: "Write `\"@type\": type.googleapis.com/google.protobuf.StringValue` and the document as the `value`, \
                  after `|`.",
    }

    ENVOY_FAIL_OPEN {
        name: "envoy-fail-open",
        severity: Error,
        summary: "A VM that fails lets every request through.",
        why: "After the first failure all keys reach the backend as clients wrote them, for ever: a client can name the key of \
              another tenant.",
        instead: "Write `failure_policy: FAIL_RELOAD`.",
    }

    ENVOY_FAILURE_POLICY {
        name: "envoy-failure-policy",
        severity: Warning,
        summary: "A VM that fails is not replaced.",
        why: "By default Envoy answers 503 to every request of that worker until Envoy restarts.",
        instead: "Write `failure_policy: FAIL_RELOAD`.",
    }

    ENVOY_STOP_ITERATION {
        name: "envoy-stop-iteration",
        severity: Error,
        summary: "`allow_on_headers_stop_iteration` is not set.",
        why: "The filter cannot wait for a body, so webhooks, signed requests and requests with collision detection get \
              503, and errors that have to be cleaned become `backend_error`.",
        instead: "Write `allow_on_headers_stop_iteration: true` into the plugin's `config` (Envoy 1.35 or newer).",
    }

    ENVOY_MISSING_SECRET {
        name: "envoy-missing-secret",
        severity: Error,
        summary: "The filter does not get a secret that the policy names.",
        why: "The filter does not start. A WebAssembly module sees only the variables that the configuration names, and gets no secrets of \
              SDS.",
        instead: "Add a variable to `vm_config.environment_variables.host_env_keys`, and set it for Envoy. In the place of SDS write \
              `{\"env\": \"NAME\"}` in the policy, let OpenBao give the secrets, or run the dynamic module (docs/gateways.md).",
    }

    ENVOY_DYNAMIC_MODULE_UNLOAD {
        name: "envoy-dynamic-module-unload",
        severity: Error,
        summary: "Envoy may unload the dynamic module.",
        why: "The module has a thread of its own. If Envoy unloads the file while that thread runs, the process ends.",
        instead: "Write `do_not_close: true` into `dynamic_module_config`.",
    }

    ENVOY_DYNAMIC_MODULE_METADATA {
        name: "envoy-dynamic-module-metadata",
        severity: Error,
        summary: "A dynamic module is not handed metadata that an identity source reads, or at another place or in another form than it \
              needs.",
        why: "A dynamic module sees no nested metadata, as the claims of a token are. It reads each namespace as a JSON object that \
              another filter writes, with what the metadata holds at the place of that filter. Without the object every request is \
              answered 503 `policy_invalid`; if the object is written before authentication, callers get 401 `identity_missing`. The \
              operator of a single value writes a text as it is, which can look like JSON that the client has written.",
        instead: "Put the filter `set_filter_state` behind every filter that says who is calling, and directly before this one, with \
              `factory_key: envoy.string` and `text_format_source: {inline_string: \"%DYNAMIC_METADATA(NAMESPACE)%\"}` for each namespace \
              (docs/gateways.md); `render envoy --dynamic-module` writes it. If the namespace has a `:`, let the source read another \
              one.",
    }

    ENVOY_CORS {
        name: "envoy-cors",
        severity: Warning,
        summary: "Scripts in browsers may not send the key, or cannot read what the filter says in headers.",
        why: "A browser asks before it sends a header that is not on its own list. Without `idempotency-key` in `allow_headers` it sends \
              no request with a key. It shows a script of another origin only the headers in `expose_headers`: without them the script \
              knows neither whether an answer is a replay, nor how to try again.",
        instead: "Add the headers that the message names to `allow_headers` or `expose_headers` (docs/callers.md, \"From a browser\").",
    }

    ENVOY_DYNAMIC_MODULE_METRICS {
        name: "envoy-dynamic-module-metrics",
        severity: Warning,
        summary: "Names of a dynamic module's metrics begin with a prefix.",
        why: "Envoy shows `envoy_edge_idempotency_idempotency_answer_total` in the place of `idempotency_answer_total`, so the \
              dashboard and the alerts of this project find nothing.",
        instead: "Write `envoy.reloadable_features.dynamic_modules_strip_custom_stat_prefix: true` into a `static_layer` of \
                  `layered_runtime`.",
    }

    ENVOY_FILTER_ORDER {
        name: "envoy-filter-order",
        severity: Error,
        summary: "The filter is not the last one before the router, or stands twice in the chain.",
        why: "The identity has to be known before the filter asks for it. After the filter has changed a request Envoy chooses the route \
              again, and does not ask earlier filters again, so a filter after this one sees another request than the client sent. Envoy \
              can lose the rest of an answer that an `ext_proc` there streams. A second filter of this project takes the key of the first \
              one for a client's, and removes the mark `x-edge-idempotency`.",
        instead: "Move the filter after all others, just before `envoy.filters.http.router`. Of two filters of this project leave one, and \
              put the routes of both into one policy; different backends have names in `backends`.",
    }

    ENVOY_STREAMED_REQUESTS {
        name: "envoy-streamed-requests",
        severity: Warning,
        summary: "Two filters `ext_proc` stream requests to a filter that waits for their bodies.",
        why: "With two `FULL_DUPLEX_STREAMED` before a filter that waits for a body, and trailers behind the body, Envoy \
              1.39 and 1.40 give the parts of the body in the wrong order. This happens to Envoy's own filters `buffer` \
              and `lua`, too.",
        instead: "Let at most one of them have `request_body_mode: FULL_DUPLEX_STREAMED`, or refuse trailers (`enable_trailers` is off by \
                  default for HTTP/1.1).",
    }

    ENVOY_IDENTITY_SOURCE {
        name: "envoy-identity-source",
        severity: Warning,
        summary: "No filter gives what an identity source reads.",
        why: "Every request that needs an identity gets 401 `identity_missing`, whatever token it has. Where one provider of tokens leaves \
              its claims elsewhere, the callers with these tokens get it.",
        instead: "Put the filter before this one. For `jwt_authn` write `rules`, and on each provider what the source reads: \
              `payload_in_metadata` with the second name of its `metadata`, `forward_payload_header` with the header of its \
              `payload_header`, or `claim_to_headers` for other headers. If these callers use no route with keys, allow this lint.",
    }

    ENVOY_IDENTITY_HEADERS {
        name: "envoy-identity-headers",
        severity: Error,
        summary: "A client can write the headers that say who it is.",
        why: "The policy takes the identity from headers, and nothing sets or removes them before the filter reads them. A client \
              writes the name of another tenant there, and gets that tenant's stored results. `jwt_authn` removes a client's own headers only \
              from requests whose token it verifies, and of these only the headers of that provider.",
        instead: "Put the filter that `headers_owned_by` names before this one, without `failure_mode_allow`, and remove clients' own \
                  headers by an `early_header_mutation` of the connection manager.",
    }

    ENVOY_DISABLED {
        name: "envoy-disabled",
        severity: Error,
        summary: "The filter is switched off, or another extension decides when it runs.",
        why: "Where it is off, keys reach the backend as clients wrote them.",
        instead: "Remove `disabled`, and the `ExtensionWithMatcher` around the filter. For requests that need no key write a route with `HANDLER_INTERNAL_C`: it removes keys.",
    }

    ENVOY_OTHER_WAY {
        name: "envoy-other-way",
        severity: Error,
        summary: "Requests reach the backend without passing the filter.",
        why: "Another listener, a TCP proxy or the filters of an upgraded request lead to the same backend. There keys \
              arrive as clients wrote them, so a client can name the key of another tenant.",
        instead: "Put the filter into that chain, too. If only trusted services can connect there, allow this lint.",
    }

    ENVOY_NORMALIZE_PATH {
        name: "envoy-normalize-path",
        severity: Error,
        summary: "`normalize_path` or `merge_slashes` is not set.",
        why: "The gateway chooses its route by one spelling of the path, and the filter chooses its policy by another one: `/api/../admin` \
              can pass rules that are for `/api`, and `//api` is another path.",
        instead: "Write `normalize_path: true` and `merge_slashes: true` on the connection manager.",
    }

    ENVOY_ESCAPED_SLASHES {
        name: "envoy-escaped-slashes",
        severity: Warning,
        summary: "The gateway decodes escaped slashes, or refuses those that a route takes, or does not say what it does with them.",
        why: "Where it decodes them, a parameter such as `a%2Fb` becomes two segments before the filter reads it, so it matches another \
              route or none. Without the member the runtime decides, which others can set.",
        instead: "Write `path_with_escaped_slashes_action: REJECT_REQUEST`, or `KEEP_UNCHANGED` if a route has `encoded_slash`, \
              or has recovery and `\"charset\": \"visible\"`.",
    }

    ENVOY_HOST_SPELLING {
        name: "envoy-host-spelling",
        severity: Error,
        summary: "Routes have `hosts`, and the gateway does not normalise the host.",
        why: "The filter refuses a host of the policy that comes with a port, with a final dot or in capitals (400 \
              `path_ambiguous`). Clients write a port that is not the default one, and cannot leave it out. Without \
              these settings, rules of other filters for `:authority` take each of these spellings for another host.",
        instead: "Write `strip_any_host_port: true` and `strip_trailing_host_dot: true` on the connection manager.",
    }

    ENVOY_OPEN_HOST {
        name: "envoy-open-host",
        severity: Error,
        summary: "A virtual host takes hosts that no route of the policy names, and the policy forwards what it does not declare.",
        why: "Routes with `hosts` are for these hosts alone. A client that writes another `Host` reaches the same \
              backend by the path of such a route, and `unmatched` lets the request pass: without a key, or without the \
              signature of a webhook.",
        instead: "List the hosts of the policy as `domains`, write `\"unmatched\": \"REJECT\"`, or leave `hosts` out of the routes. If \
                  the backend refuses other hosts by itself, allow this lint.",
    }

    ENVOY_UNSERVED_HOST {
        name: "envoy-unserved-host",
        severity: Warning,
        summary: "The policy has routes for a host that no virtual host takes.",
        why: "Envoy answers 404 before the filter reads the request, so the routes are never used. A domain with a port takes no request \
              where `strip_any_host_port` is set.",
        instead: "Add the host to the `domains` of a virtual host, without a port, or correct it in the policy.",
    }

    ENVOY_BUFFER_LIMIT {
        name: "envoy-buffer-limit",
        severity: Error,
        summary: "The gateway's buffer is smaller than the bodies that the policy waits for.",
        why: "Envoy answers its own 413 before the filter's limit is reached, or ends a request of HTTP/2 whose window is full. The filter \
              needs 64 KiB more than `max_body_bytes`. For an answer whose `Location` is made out of its body it needs 64 KiB more than \
              1 MiB: Envoy answers 500 in the place of a longer one, although the work was done.",
        instead: "Write the greatest `max_body_bytes`, for such answers at least 1048576, and 65536 as `per_connection_buffer_limit_bytes` of the listener. \
                  `request_body_buffer_limit` of a route that leads to a cluster also raises the limit for requests. Make \
                  `initial_stream_window_size` as large, or leave it out.",
    }

    ENVOY_TIMEOUT {
        name: "envoy-timeout",
        severity: Warning,
        summary: "A timeout of the gateway is missing, or not longer than a wait of the filter.",
        why: "The filter waits for bodies: if a VM fails meanwhile, `request_timeout` alone frees a request that never becomes complete. A \
              route without a `timeout` has Envoy's 15 s, and a request that takes longer gets 504 while its work goes on. A client that \
              asks for a stored result waits up to `recovery_wait_ms` (30 s), and the gateway must not end the request before.",
        instead: "Write for example `request_timeout: 60s` on the connection manager, and on the route to the backend a `timeout` that \
              fits the slowest handler, such as `timeout: 60s`. Make other timeouts longer than `recovery_wait_ms`, or shorten \
              `recovery_wait_ms`.",
    }

    ENVOY_CONNECTION_LIMITS {
        name: "envoy-connection-limits",
        severity: Warning,
        summary: "Nothing limits how much memory of the gateway one connection can use.",
        why: "A client of HTTP/2 sends a long header once and refers to it with one byte. With Envoy's defaults, one \
              connection can make the gateway hold 60 KiB of headers for each of a thousand streams or more.",
        instead: "Write for example `max_request_headers_kb: 16` and `http2_protocol_options: {max_concurrent_streams: 100}` on the \
                  connection manager.",
    }

    ENVOY_ACCESS_LOG {
        name: "envoy-access-log",
        severity: Warning,
        summary: "No access log has the filter's record.",
        why: "Without it nobody can say later why a request was refused, and `shadow-report` has nothing to count.",
        instead: "Add `edge_idempotency: \"%TYPED_CEL(filter_state['wasm.edge_idempotency'])%\"` to the JSON format.",
    }

    ENVOY_WRONG_BACKEND {
        name: "envoy-wrong-backend",
        severity: Error,
        summary: "Requests reach another backend than the filter has chosen.",
        why: "The filter removes and hides what the backend of the route must not get or show, and closes its paths. At another backend \
              nothing of this fits: Restate would store a caller's token, and an API would get paths that no rule was made for.",
        instead: "Write one route for each backend that matches `x-edge-idempotency` with the backend's name, before the others, to \
                  clusters that no other route leads to; `render envoy` writes them.",
    }

    ENVOY_CLIENT_MARK {
        name: "envoy-client-mark",
        severity: Warning,
        summary: "A client's own `x-edge-idempotency` chooses the first route.",
        why: "The filter removes the header, but filters before it have seen the route that it chose. A client could choose the one \
              whose per-route rules are the fewest.",
        instead: "Remove `x-edge-idempotency` by an `early_header_mutation` of the connection manager.",
    }

    ENVOY_MARKED_ROUTE {
        name: "envoy-marked-route",
        severity: Error,
        summary: "A route leads to the backend without asking for the filter's mark, or no route takes the requests that the filter has \
              marked.",
        why: "Requests that the filter has rewritten have the header `x-edge-idempotency`, with `mark_all` all that it forwards. A route \
              that does not ask for it would take a client to the backend's own paths, directly or by a rewrite, or with `mark_all` to the \
              backend, if the filter did not run. The filter writes the target's path and Envoy chooses the route again: if no route asks \
              for the mark, every request with a target gets 404.",
        instead: "Write a route for all paths that matches `headers: [{name: x-edge-idempotency, present_match: true}]` and leads to the \
              backend, and give clients' paths a prefix of their own.",
    }

    ENVOY_KEYLESS_RETRY {
        name: "envoy-keyless-retry",
        severity: Error,
        summary: "The gateway tries requests without a key again.",
        why: "A request without a key runs once for each attempt: a retry, a hedged request, or a copy for the same backend. The \
              filter cannot see an attempt of the router.",
        instead: "Write `retriable_request_headers: [{name: idempotency-key, present_match: true}]` into the `retry_policy`, or try \
                  again on `connect-failure` and `refused-stream` only. Remove hedging and copies.",
    }

    ENVOY_CHANGED_REQUEST {
        name: "envoy-changed-request",
        severity: Error,
        summary: "A route changes what the filter has written.",
        why: "The backend knows a retry by its key and its path. Without the key it runs every retry again; at another path it may \
              find no handler, or another one.",
        instead: "Remove the member from the route: the policy says which key and which path the backend gets.",
    }

    ENVOY_SHARED_CLUSTER {
        name: "envoy-shared-cluster",
        severity: Error,
        summary: "Requests of clients go to the cluster of the filter's own calls.",
        why: "Clients can use up its connections, by slow requests or by requests that wait. Then claims, lookups and \
              questions for keys in flight fail after a second, for all tenants: requests get 503, or go on unchecked.",
        instead: "Give the filter a cluster of its own with the same endpoints, and name it in the policy's `backend.cluster`. \
                  `render envoy` writes it so.",
    }

    ENVOY_SHARED_WAITS {
        name: "envoy-shared-waits",
        severity: Warning,
        summary: "Requests that wait for results go to the cluster of other requests.",
        why: "Each of them holds a connection for up to `recovery_wait_ms`, and many of them leave none for other requests.",
        instead: "Write a route for `/restate/attach/` before that of the backend, with the same \
                  header `x-edge-idempotency`, to a cluster of its own with the same endpoints.",
    }

    ENVOY_MISSING_CLUSTER {
        name: "envoy-missing-cluster",
        severity: Error,
        summary: "The policy names a cluster that the gateway does not have.",
        why: "The filter cannot call it: lookups, recoveries and claims fail, with 503 where they are needed.",
        instead: "Define the cluster in `static_resources.clusters`, or correct its name in the policy.",
    }
}
