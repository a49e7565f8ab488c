//! What the HTTP ingress of Restate fixes: paths, statuses and headers (Restate 1.7,
//! docs/decisions/0013-restates-newer-paths.md).

/// The prefix of the paths with which Restate calls every handler, returns the result of any caller and resolves awakeables.
pub(crate) const PATHS: &str = "/restate";
/// The path in front of a handler that is called.
pub(crate) const CALL: &str = "/restate/call";
/// The path in front of a handler that is called one way: the answer does not wait for the work.
pub(crate) const SEND: &str = "/restate/send";
/// The path at which the id of an invocation is looked up.
pub(crate) const LOOKUP: &str = "/restate/lookup";
/// The path at which the output of an invocation is asked for by its key.
pub(crate) const OUTPUT: &str = "/restate/output";
/// The path in front of the id of an invocation whose result is waited for.
const ATTACH: &str = "/restate/attach";
/// The first segment under which Restate keeps the description of its handlers. Restate 1.7 answers 404 there.
pub(crate) const OPENAPI: &str = "openapi";

/// The status of "The invocation exists but has not completed yet".
pub(crate) const NOT_COMPLETED: u16 = 470;

/// The response header with the id of an invocation.
pub(crate) const INVOCATION: &str = "x-restate-id";
/// The origin of an error: `ingress` or `invocation`.
pub(super) const ERROR_SOURCE: &[u8] = b"x-restate-error-source";
/// The expiry of a stored response. Restate sends it with stored responses only, and clients get it under the same
/// name.
pub(super) const EXPIRES: &[u8] = b"idempotency-expires";
/// The beginning of the `vary` that Restate adds for its own CORS handling.
pub(super) const CORS_VARY: &[u8] = b"origin, access-control-request-";
/// Response headers that are hidden from clients by default.
pub(crate) const HIDDEN: [&str; 2] = ["x-restate-*", "access-control-*"];

/// Request headers that Restate does not get unless `keep_headers` lists them, since it stores requests in its journal.
pub(crate) const CREDENTIALS: [&str; 7] = [
    "authorization",
    "cookie",
    "proxy-authorization",
    "x-api-key",
    "origin",
    "access-control-request-*",
    "x-restate-*",
];

/// The path of the result of an invocation; `waits`: the response waits for it.
pub(crate) fn result_path(waits: bool, invocation: &str) -> String {
    [if waits { ATTACH } else { OUTPUT }, "/", invocation].concat()
}
