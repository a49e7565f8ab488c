//! What the HTTP ingress of Restate fixes: paths, statuses and headers (Restate 1.7,
//! docs/decisions/0013-restates-newer-paths.md).

/// The prefix of the paths with which Restate calls every handler, returns the result of any caller and resolves awakeables.
pub(crate) const PATHS: &str = "/restate";
/// The prefix of the paths of Restate's own gRPC services, one of which calls every handler under every key (Restate 1.8). It ends
/// in the middle of a segment.
pub(crate) const RPC_PATHS: &str = "/dev.restate.";
/// The content type with which every request goes to those services, whatever its path.
const RPC_TYPE: &[u8] = b"application/grpc";
/// The query parameters that steer a call: when it runs, and under whose limit. Letters alone, see [`steers`].
const STEERING: [&str; 3] = ["delay", "delaysec", "limitkey"];
/// The request headers that steer a call.
pub(crate) const STEERING_HEADERS: &str = "x-restate-";

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

/// For how long a result is kept if nobody says it, in seconds (`idempotency_retention`, one day).
pub const RETENTION_S: u64 = 86_400;

/// The status of "The invocation exists but has not completed yet".
pub(crate) const NOT_COMPLETED: u16 = 470;

/// How far the work of an invocation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// There is no such invocation, or it has no output that can be read.
    Unknown,
    /// It is under way.
    Processing,
    /// It ended with a result.
    Completed,
    /// It ended with an error.
    Failed,
}

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

/// Whether some reader takes a `content-type` for one of gRPC: it begins so, or what follows a comma does, whatever the letter case
/// and whatever stands in front of the first letter.
pub(crate) fn is_rpc_type(value: &[u8]) -> bool {
    value.split(|byte| *byte == b',').any(|part| {
        let start = part.iter().position(u8::is_ascii_alphanumeric).unwrap_or(part.len());
        let begins = part.get(start..).and_then(|part| part.get(..RPC_TYPE.len()));
        // From the end, since most types begin with `application/`.
        begins.is_some_and(|begins| begins.iter().rev().map(u8::to_ascii_lowercase).eq(RPC_TYPE.iter().rev().copied()))
    })
}

/// Whether a query parameter steers a call. Its name, decoded, is compared by its letters and digits alone and without their case.
pub(crate) fn steers(name: &[u8]) -> bool {
    let letters = || name.iter().filter(|byte| byte.is_ascii_alphanumeric()).map(u8::to_ascii_lowercase);
    STEERING.iter().any(|known| letters().eq(known.bytes()))
}

/// The path of the result of an invocation; `waits`: the response waits for it.
pub(crate) fn result_path(waits: bool, invocation: &str) -> String {
    [if waits { ATTACH } else { OUTPUT }, "/", invocation].concat()
}
