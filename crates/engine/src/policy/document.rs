//! The policy document (docs/contract.md section 4): checks the names, types and grammars of its members, and adds
//! defaults. `compile` checks how members fit together.

mod answers;
mod backend;
#[cfg(feature = "describe")]
mod grammars;
pub(crate) mod header_names;
mod identity;
mod keys;
mod live_secret;
mod retention;
mod routes;
pub(crate) mod secrets;
pub(crate) mod stores;
pub(crate) mod texts;

pub use answers::Answers;
pub(crate) use backend::{BackendDocument, BackendsDocument};
pub(crate) use identity::{Forward, IdentityOwner, IdentityRules};
pub use live_secret::{LiveSecret, SecretReader};
#[cfg_attr(not(feature = "needs"), allow(unreachable_pub, reason = "only what describes policies hands it on"))]
pub use retention::ServiceRetention;
pub use routes::{KeySubject, PolicyKind, Scope};
pub(crate) use routes::{RouteDocument, RouteMembers};
pub use secrets::Secret;
pub(crate) use secrets::{SecretValues, secret_values};
pub(crate) use stores::{OpenBao, Service, Unkey};
pub(crate) use texts::check_pointer;
pub use texts::parse_duration;

use crate::json::cursor::{Issues, JsonCursor};
use crate::key::KeyRules;
use crate::policy::defaults;
#[cfg(feature = "describe")]
use crate::policy::members::Object;
use crate::policy::members::{Choice, Custom, Flag, Integer, OptionalFlag, OptionalInteger, Text, members};
use crate::signed_callers::{self, SignedCaller};
use crate::webhooks::Webhooks;
#[cfg(feature = "describe")]
pub(super) use grammars::GRAMMARS;
use header_names::{parse_key_header, parse_prefix};
use std::ops::Deref;
use std::sync::Arc;
use texts::{parse_name, parse_url};

members! {
    /// The policy document of the edge idempotency filter: its plugin configuration.
    document = "document", "Edge idempotency policy",
        schema r#"{"if": {"required": ["backend"], "properties": {"backend": {"type": "object", "required": ["rewrite_path"], "properties": {"rewrite_path": {"const": true}}}}}, "then": {"properties": {"unmatched": {"const": "REJECT"}}}}"#;

    /// The place of this schema, for editors. The filter ignores it.
    SCHEMA: Custom {} = "$schema", "Schema", schema r#"{"type": "string", "examples": ["./schema.json"]}"#;

    /// The version of the document's format.
    VERSION: OptionalInteger { least: 1, most: 1 } = "version", "Version", required ": write `\"version\": 1`";

    /// With `enforce` the filter acts. With `shadow` it computes what it would do with callers' keys, and lets requests pass with their
    /// keys as they came; before an API of your own (kind `generic`, no `rewrite_path`) also what no route declares. Closed paths,
    /// identity headers, webhook signatures and cleaned answers act all the same. Switching changes keys, so a retry after the switch
    /// runs the request again.
    MODE: Choice<Mode> { words: &MODES } = "mode", "Enforce or shadow";

    /// What happens to a request that no route declares: 404 (see also `mode`), forwarded but refused with a key, or forwarded without
    /// its key. Only `REJECT` goes with `rewrite_path` of the default backend.
    UNMATCHED: Choice<Unmatched> { words: &[("REJECT", Unmatched::Reject), ("PROHIBITED", Unmatched::Prohibited), ("HANDLER_INTERNAL_C", Unmatched::HandlerInternalC)] }
        = "unmatched", "Unmatched requests";

    /// The URL of your page about idempotency; problem documents add the code as fragment.
    DOCS_URL: Text<String> { parse: parse_url } = "docs_url", "Documentation",
        schema r##"{"$ref": "#/$defs/url", "examples": ["https://developers.example.com/idempotency"]}"##;

    /// Whether a route of the gateway may name the endpoint, as `endpoint` in its filter metadata under `edge.idempotency`. Then the path
    /// is compared only if the route has parameters; an unknown name is answered 503.
    GATEWAY_ROUTES: Flag { default: false } = "gateway_routes", "Gateway routes";

    /// Whether every forwarded request gets `x-edge-idempotency` (`1`, or the backend's name): gateway routes that ask for it then
    /// forward nothing without the filter. With `false` only rewritten requests and those for another backend than the default get it.
    MARK_ALL: Flag { default: false } = "mark_all", "A mark on every request";

    IDENTITY: Custom {} = "identity", schema r##"{"$ref": "#/$defs/identity"}"##;

    /// The beginning of request headers with the path's parameters: with `x-path-` the parameter `{cart_id}` is in `x-path-cart-id`,
    /// percent-encoded except for A-Z a-z 0-9 . _ ~ - (decode it once). A client's own are removed on every route.
    PARAMETER_HEADERS: Text<String> { parse: parse_prefix } = "parameter_headers", "Parameter headers",
        schema r#"{"type": "string", "pattern": "^(?!x-(?:edge|envoy|forwarded|http|request|restate)-)x-[a-z0-9]+(?:-[a-z0-9]+)*-$", "examples": ["x-path-"]}"#;

    KEY: Custom {} = "key", schema r##"{"$ref": "#/$defs/keyRules"}"##;

    /// A request header in which the backend gets, in shadow mode, the namespaced key that `enforce` would send; none where it would
    /// refuse. An API that stores results under both keys runs nothing twice when the route switches (docs/production.md). A client's own
    /// is removed on every route, in both modes: keep the member as long as the API reads the header.
    SHADOW_KEY_HEADER: Text<String> { parse: parse_key_header } = "shadow_key_header", "Header of future keys",
        schema r##"{"$ref": "#/$defs/extraHeader", "examples": ["future-idempotency-key"]}"##;

    /// What stands behind the gateway: a backend, or the name of one of `/backends`, the default.
    BACKEND: Custom {} = "backend", "Backend", required backend::KINDS,
        schema r##"{"if": {"type": "string"}, "then": {"$ref": "#/$defs/name"}, "else": {"$ref": "#/$defs/backend"}, "examples": [{"kind": "generic"}, "api"]}"##;

    /// Several backends, each with a name. Then `/backend` names the default, and a route another one. The gateway learns it from
    /// `x-edge-idempotency`, whose value is the name.
    BACKENDS: Custom {} = "backends", "Backends",
        schema r##"{"type": "object", "propertyNames": {"$ref": "#/$defs/name"}, "additionalProperties": {"$ref": "#/$defs/backend"}, "examples": [{"api": {"kind": "generic"}, "restate": {"kind": "restate", "rewrite_path": true, "cluster": "restate"}}]}"##;

    /// Response headers that repeat the retry advice of an error for existing SDKs: `true` if the same request with the same key may be
    /// sent again, else `false`. Every problem document has them, and every error with `Idempotency-Retry`; `Retry-After` is at most 60
    /// there.
    RETRY_HEADERS: Custom {} = "retry_headers", "Retry headers",
        schema r##"{"type": "array", "maxItems": 8, "uniqueItems": true, "items": {"$ref": "#/$defs/retryHeader"}, "default": [], "examples": [["x-should-retry", "stripe-should-retry"]]}"##;

    /// Whether problem documents also have `error` with `code`, `message`, `type` and `doc_url`, as Stripe's errors do. stripe-node takes a
    /// 400 without it for a success.
    ERROR_MEMBER: Flag { default: false } = "error_member", "Member `error`";

    /// Whether errors in JSON tell nothing about the machine: a 5xx of a `generic` backend becomes the problem document `backend_error`,
    /// and others lose `stacktrace`, `stack`, `trace`, `backtrace` and `exception`. The filter waits for the error's body, up to 64 KiB.
    /// JSON that it cannot read becomes `backend_error`, too, and from Restate every other body. Left out: `true` for `restate`, `false`
    /// for `generic`. A route's value takes precedence.
    CLEAN_ERRORS: OptionalFlag {} = "clean_errors", "Clean errors", schema r#"{"examples": [true]}"#;

    /// The member that is `true` in the JSON object of a replay, for clients that read no headers (`replayed` in AdCP). A route's value
    /// takes precedence.
    REPLAY_MEMBER: Text<String> { parse: parse_name } = "replay_member", "Member of replays",
        schema r##"{"$ref": "#/$defs/name", "examples": ["replayed"]}"##;

    /// The operations that clients can call. No two of them may take the same requests.
    ROUTES: Custom {} = "routes", "Routes", required "", schema r##"{"type": "array", "items": {"$ref": "#/$defs/route"}}"##;

    WEBHOOKS: Custom {} = "webhooks", schema r##"{"$ref": "#/$defs/webhooks"}"##;

    /// Machines that sign their requests. A name is the caller's name in this document.
    CALLERS: Custom {} = "callers", "Signed callers",
        schema r##"{"type": "object", "additionalProperties": {"$ref": "#/$defs/caller"}}"##;

    /// How long a client that asks for a result waits before it is told 202, in milliseconds; 0 never waits.
    RECOVERY_WAIT_MS: Integer { least: 0, most: 600_000, default: defaults::WAIT_MS } = "recovery_wait_ms", "Waiting for results";

    RETENTION: Custom {} = "retention", schema r##"{"$ref": "#/$defs/retention"}"##;

    /// The greatest number of counter series of one VM; histograms have as much room again. The rest goes to `_other`.
    MAX_SERIES: Integer { least: 1, most: 1_000_000, default: 2_000 } = "max_series", "Most series";

    /// Whether logs and traces show a namespaced key, and the digest of a payload, as it is (`full`), as a SHA-256 digest (`hash`), or
    /// not at all (`off`). With `full` they also show the path as it was sent, without its query, else the route's path; in shadow mode
    /// `hash` shows the shape of undeclared paths.
    KEY_IN_LOGS: Choice<KeyInLogs> { words: &[("full", KeyInLogs::Full), ("hash", KeyInLogs::Hash), ("off", KeyInLogs::Off)] }
        = "key_in_logs", "Keys in logs";

    /// Whether each exchange has a record for the access log. With `false` the filter costs less, and only refusals are in the
    /// gateway's own log.
    RECORD: Flag { default: true } = "record", "Records of exchanges";

    /// Whether the document may have literal secrets, which the config dump shows. For tests and trials.
    ALLOW_INLINE_SECRETS: Flag { default: false } = "allow_inline_secrets", "Secrets in the document";
}

/// The objects of a document, in the order of the schema's definitions.
#[cfg(feature = "describe")]
pub(super) const OBJECTS: &[&Object] = &[
    &routes::answer::OBJECT,
    &keys::key_rules::OBJECT,
    &identity::source::OBJECT,
    &identity::source_subject::OBJECT,
    &identity::identity::OBJECT,
    &identity::identity_forward::OBJECT,
    &identity::constant::OBJECT,
    &backend::backend::OBJECT,
    &crate::collision::document::guard::OBJECT,
    &crate::operations::document::operations::OBJECT,
    &routes::route::OBJECT,
    &crate::webhooks::document::route_webhook::OBJECT,
    &crate::api_keys::document::route_api_key::OBJECT,
    &crate::api_keys::document::key_registry::OBJECT,
    &stores::unkey::OBJECT,
    &stores::openbao::OBJECT,
    &crate::webhooks::document::webhooks::OBJECT,
    &crate::webhooks::document::binding::OBJECT,
    &crate::signed_callers::document::caller::OBJECT,
    &secrets::variable::OBJECT,
    &secrets::live_secret::OBJECT,
    &retention::retention::OBJECT,
];

/// Whether decisions have an effect, or are only logged and counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// Decisions have an effect.
    #[default]
    Enforce,
    /// Case A refusals and the key rewrite have no effect (docs/contract.md section 2).
    Shadow,
}

/// What happens to a request that no route declares: 404, forwarded but refused with a key, or forwarded without its key. Only `REJECT`
/// goes with `/backend/rewrite_path`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
/// What happens to a request that no route declares, as the member says.
pub enum Unmatched {
    /// 404
    #[default]
    Reject,
    /// Forwarded; refused if it has a key.
    Prohibited,
    /// Forwarded without its key.
    HandlerInternalC,
}

impl Unmatched {
    /// As documents write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reject => "REJECT",
            Self::Prohibited => PolicyKind::Prohibited.name(),
            Self::HandlerInternalC => PolicyKind::HandlerInternalC.name(),
        }
    }
}

/// How keys appear in logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeyInLogs {
    /// Unchanged.
    Full,
    /// As a SHA-256 digest.
    #[default]
    Hash,
    /// Not at all.
    Off,
}

/// The members of a document that requests need as they are written: no other member changes what they mean.
#[derive(Debug, Clone, Default)]
pub struct DocumentMembers {
    /// Whether decisions have an effect, for routes that do not say it themselves
    pub mode: Mode,
    /// What happens to requests that no route declares
    pub unmatched: Unmatched,
    /// How problem documents are written, and what errors say besides
    pub answers: Answers,
    /// Whether routes of the gateway may name endpoints
    pub gateway_routes: bool,
    /// Whether every request that is forwarded gets [`crate::policy::REWRITE_MARK`]
    pub mark_all: bool,
    /// How long a request for a result waits for it at most, in milliseconds
    pub recovery_wait_ms: u64,
    /// The maximum number of metric series of one VM
    pub max_series: usize,
    /// How keys appear in logs
    pub key_in_logs: KeyInLogs,
    /// Whether the gateway gets the records of exchanges
    pub record: bool,
    /// The request header with the future key in shadow mode; lower case
    pub shadow_key_header: Option<String>,
}

/// A policy document. Invalid parts are left out, and each of them has an issue.
#[derive(Debug, Default)]
pub(crate) struct Document<'j> {
    /// What requests need as it is written
    pub members: DocumentMembers,
    /// `identity`
    pub identity: Option<IdentityRules>,
    /// `backend` and `backends`
    pub backends: BackendsDocument<'j>,
    /// `routes`, each with its index in the document
    pub routes: Vec<(usize, RouteDocument<'j>)>,
    /// `webhooks`
    pub webhooks: Option<Webhooks>,
    /// `callers`
    pub callers: Vec<SignedCaller>,
    /// `key`: the rules of routes without rules of their own
    pub key: Option<Arc<KeyRules>>,
    /// `parameter_headers`: the beginning of the headers that carry path parameters; lower case
    pub parameter_prefix: Option<String>,
    /// `retention.services`
    pub retentions: Vec<ServiceRetention>,
}

/// A document has its plain members as if they were its own.
impl Deref for Document<'_> {
    type Target = DocumentMembers;

    fn deref(&self) -> &DocumentMembers {
        &self.members
    }
}

impl<'j> Document<'j> {
    /// Whether a signed caller may call this route.
    pub(crate) fn is_signed(&self, endpoint: &str) -> bool {
        self.callers.iter().any(|caller| caller.routes.iter().any(|name| name == endpoint))
    }

    /// Reads a document and adds every problem to `issues`.
    pub(crate) fn read(root: &JsonCursor<'j>, issues: &mut Issues) -> Self {
        let Some(fields) = document::OBJECT.read(root, issues) else { return Self::default() };
        document::SCHEMA.at(&fields, issues).and_then(|at| at.text(issues));
        document::VERSION.read(&fields, issues);
        let inline = document::ALLOW_INLINE_SECRETS.read(&fields, issues);
        let retentions = document::RETENTION.at(&fields, issues).and_then(|at| retention::read(&at, issues));
        let items = document::ROUTES.at(&fields, issues).and_then(|at| at.items(issues)).unwrap_or_default();
        Self {
            members: DocumentMembers {
                mode: document::MODE.read(&fields, issues),
                unmatched: document::UNMATCHED.read(&fields, issues),
                answers: Answers::read(&fields, issues),
                gateway_routes: document::GATEWAY_ROUTES.read(&fields, issues),
                mark_all: document::MARK_ALL.read(&fields, issues),
                recovery_wait_ms: document::RECOVERY_WAIT_MS.read(&fields, issues),
                max_series: usize::try_from(document::MAX_SERIES.read(&fields, issues)).unwrap_or(usize::MAX),
                key_in_logs: document::KEY_IN_LOGS.read(&fields, issues),
                record: document::RECORD.read(&fields, issues),
                shadow_key_header: document::SHADOW_KEY_HEADER.read(&fields, issues),
            },
            identity: document::IDENTITY
                .at(&fields, issues)
                .map(|at| IdentityRules::read(&at, IdentityOwner::Document { inline }, issues).unwrap_or_default()),
            backends: BackendsDocument::read(&fields, inline, issues),
            routes: {
                // The iterator cannot know how many routes are valid, and would make room for more of them again and again.
                let mut routes = Vec::with_capacity(items.len());
                let read = |(index, at)| RouteDocument::read(at, issues).map(|route| (index, route));
                routes.extend(items.iter().enumerate().filter_map(read));
                routes
            },
            webhooks: document::WEBHOOKS.at(&fields, issues).and_then(|at| Webhooks::read(&at, inline, issues)),
            callers: document::CALLERS
                .at(&fields, issues)
                .map(|at| signed_callers::document::read(&at, inline, issues))
                .unwrap_or_default(),
            key: read_key(document::KEY.at(&fields, issues), issues),
            parameter_prefix: document::PARAMETER_HEADERS.read(&fields, issues),
            retentions: retentions.unwrap_or_default(),
        }
    }
}

const MODES: [(&str, Mode); 2] = [("enforce", Mode::Enforce), ("shadow", Mode::Shadow)];

fn read_key(key: Option<JsonCursor<'_>>, issues: &mut Issues) -> Option<Arc<KeyRules>> {
    key.map(|at| Arc::new(KeyRules::read(&at, issues).unwrap_or_default()))
}
