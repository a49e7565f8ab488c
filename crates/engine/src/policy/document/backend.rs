//! The backends: the kind of each, and the headers that it gets and that clients get from it. A document with one writes it
//! as `backend`; one with several names them in `backends`, and `backend` is the name of the default.

use super::document;
use super::header_names::{parse_header_name, parse_key_header};
use super::stores::{DEFAULT_TIMEOUT_MS, milliseconds, unkey as store};
use super::texts::{check_name, parse_text};
use crate::backend::{BackendAbilities, BackendKind};
use crate::collision::Guard;
use crate::json::Json;
use crate::json::cursor::{Issues, JsonCursor, ObjectCursor, child, suggestion};
use crate::operations::document::OperationsDocument;
use crate::policy::defaults::GUARD;
use crate::policy::members::{Custom, OptionalChoice, OptionalFlag, Text, Texts, members};
use crate::policy::path::NormalPath;

members! {
    /// This object says what stands behind the gateway, which headers it gets, and which of its headers clients see.
    backend = "backend", "Backend", also [store::AUTHORITY, store::TIMEOUT_MS];

    /// `restate` is Restate's HTTP ingress, `generic` any other API that deduplicates by `Idempotency-Key` itself. There is no default;
    /// docs/backends.md compares them.
    KIND: OptionalChoice<BackendKind> { words: &[("restate", BackendKind::Restate), ("generic", BackendKind::Generic)] }
        = "kind", "Kind", required KINDS;

    /// Whether requests are sent to their route's `target`. Then every path whose first segment is a target's service is closed to clients.
    REWRITE_PATH: OptionalFlag {} = "rewrite_path", "Rewrite paths", schema r#"{"default": false}"#;

    /// Path prefixes closed to clients (404); one that ends in a full stop closes every path that begins so. Always closed for `restate`:
    /// `/restate`, `/dev.restate.`, `/openapi`, the guard, and undeclared paths of services that the document names.
    RESERVED_PATHS: Texts<String> { parse: parse_reserved_path } = "reserved_paths", "Reserved paths",
        schema r#"{"type": "array", "items": {"type": "string", "pattern": "^(?:/(?!\\.{1,2}(?:/|$))(?:[A-Za-z0-9._~!$&'()*+,=:@-]|%(?![01][0-9A-F]|2F|5C|2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AEF])[0-9A-F]{2})+)+$"}, "default": [], "examples": [["/internal"]]}"#;

    /// The response header with the backend's operation id; clients get it as `x-operation-id`. Default for `restate`: `x-restate-id`.
    OPERATION_ID: Text<String> { parse: parse_header_name } = "operation_id", "Operation id",
        schema r##"{"$ref": "#/$defs/headerName", "examples": ["x-job-id"]}"##;

    /// Response headers that clients do not see, in the place of the default: names, or beginnings followed by `*`. Default for
    /// `restate`: `x-restate-*` and `access-control-*`; for `generic` none.
    HIDE_HEADERS: Texts<String> { parse: parse_header_pattern } = "hide_headers", "Hidden headers",
        schema r#"{"type": "array", "items": {"type": "string", "pattern": "^(?:[!#$%&'+.^_`|~0-9A-Za-z-]{2,}\\*|[!#$%&'+.^_`|~0-9A-Za-z-]+)$"}, "examples": [["x-restate-*", "access-control-*"]]}"#;

    /// Request headers that reach Restate although it journals what it gets: of `authorization`, `cookie`, `proxy-authorization`,
    /// `x-api-key`, `origin`, `access-control-request-method` and `-headers`. For `generic`: the header with API keys, of which the
    /// confirmed line goes on.
    KEEP_HEADERS: Texts<String> { parse: parse_header_name } = "keep_headers", "Kept headers",
        schema r##"{"type": "array", "items": {"$ref": "#/$defs/headerName", "not": {"pattern": "^[xX][-_][rR][eE][sS][tT][aA][tT][eE][-_]"}}, "default": [], "examples": [["authorization"]]}"##;

    /// A request header in which the backend gets the namespaced key once more. A handler in Restate sees the key here only. Requests in
    /// shadow mode, without a key, and for stored results do not have it. A client's own is removed on every route.
    KEY_HEADER: Text<String> { parse: parse_key_header } = "key_header", "Header of keys for handlers",
        schema r##"{"$ref": "#/$defs/extraHeader", "examples": ["x-idempotency-key"]}"##;

    /// For `generic`: response headers that mark a replay, with any value but `false`, `0` or nothing. On such an answer the filter sets
    /// `Idempotent-Replayed: true` and `Idempotency-Status: replayed`.
    REPLAY_HEADERS: Texts<String> { parse: parse_header_name } = "replay_headers", "Replay headers",
        schema r##"{"type": "array", "items": {"$ref": "#/$defs/headerName"}, "default": ["idempotent-replayed"], "examples": [["x-cache-hit"]]}"##;

    /// The gateway's cluster for the filter's own calls: `recovery` (on by default for targets in Restate), `in_flight` and `collision`
    /// with a guard. No client's request should go there: else clients can use up its connections.
    CLUSTER: Custom {} = "cluster", "Cluster", schema r##"{"$ref": "#/$defs/text", "examples": ["restate"]}"##;

    GUARD: Custom {} = "guard", schema r##"{"$ref": "#/$defs/guard"}"##;

    OPERATIONS: Custom {} = "operations", schema r##"{"$ref": "#/$defs/operations"}"##;
}

/// The backends of a document.
#[derive(Debug, Default)]
pub(crate) struct BackendsDocument<'j> {
    /// The backend of requests whose route names none
    pub default: BackendDocument<'j>,
    /// The others
    pub others: Vec<BackendDocument<'j>>,
    /// Stands for a backend that the document does not have
    unknown: BackendDocument<'j>,
}

/// A backend of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BackendDocument<'j> {
    /// Its name in `backends`; `None` if the document has one backend
    pub name: Option<&'j str>,
    /// Whether the document says what it is
    pub is_known: bool,
    /// `kind`
    pub kind: BackendKind,
    /// Whether paths are rewritten to targets
    pub rewrite_path: bool,
    /// Path prefixes that are closed to clients beside those of the kind of backend, normalised
    pub reserved_paths: Vec<String>,
    /// `operation_id`
    pub operation_id: Option<String>,
    /// Response headers that are hidden from clients: names, or prefixes with `*`
    pub hide_headers: Vec<String>,
    /// Request headers that the backend gets although the default removes them
    pub keep_headers: Vec<String>,
    /// The request header with the namespaced key, beside `Idempotency-Key`
    pub key_header: Option<String>,
    /// Response headers that mark a replay; empty for Restate, which uses `idempotency-expires`
    pub replay_headers: Vec<String>,
    /// The gateway's cluster for calls of the filter
    pub cluster: Option<String>,
    /// The authority of those calls; the cluster's name if the document has none
    pub authority: Option<String>,
    /// How long an answer to them may take, in milliseconds
    pub timeout_ms: u32,
    /// The guard
    pub guard: Option<Guard>,
    /// `operations`
    pub operations: Option<OperationsDocument>,
}

/// Ends the message about a document that does not say what stands behind the gateway.
pub(super) const KINDS: &str = ": `\"backend\": {\"kind\": \"generic\"}` is an API that deduplicates by `Idempotency-Key` itself, \
                                `\"backend\": {\"kind\": \"restate\"}` is Restate's ingress; docs/backends.md compares them";

/// Stands for a backend that the document does not have, or of which it does not say the kind, so that it does not start. It makes
/// no further issues: whatever a route asks of it, it has.
impl Default for BackendDocument<'_> {
    fn default() -> Self {
        let guard = Guard { service: GUARD.to_owned(), retention: None };
        Self {
            is_known: false,
            rewrite_path: true,
            cluster: Some(String::new()),
            guard: Some(guard),
            ..Self::of_kind(BackendKind::Restate)
        }
    }
}

impl<'j> BackendsDocument<'j> {
    /// Reads `backend`, and `backends` if the document has it. `inline`: the document may contain secrets.
    #[inline(never)]
    pub(super) fn read(fields: &ObjectCursor<'j>, inline: bool, issues: &mut Issues) -> Self {
        let Some(map) = document::BACKENDS.at(fields, issues) else {
            let backend = document::BACKEND.at(fields, issues);
            if let Some(at) = backend.as_ref().filter(|at| at.is_text()) {
                issues.add(&at.pointer, "the name of a backend needs `backends`, which says what it is");
                return Self::default();
            }
            let default = backend.and_then(|at| BackendDocument::read(None, &at, inline, issues));
            return Self { default: default.unwrap_or_default(), ..Self::default() };
        };
        let Some(map) = map.map(issues) else { return Self::default() };
        let mut others = Vec::new();
        for (name, at) in map.entries() {
            if let Err(message) = check_name(name) {
                issues.add(&at.pointer, message);
            }
            // One that cannot be read has its own issues. Its name is known all the same.
            let read = BackendDocument::read(Some(name), &at, inline, issues);
            others.push(read.unwrap_or_else(|| BackendDocument { name: Some(name), ..BackendDocument::default() }));
        }
        let advice = ": with `backends` it is the name of the backend of every route that names none";
        let Some(at) = fields.need_or_advise("backend", advice, issues) else {
            return Self { others, ..Self::default() };
        };
        if !at.is_text() {
            issues.add(&at.pointer, format!("expected the name of a backend{advice}"));
        }
        let Json::String(default) = at.json() else { return Self { others, ..Self::default() } };
        let default: &str = default;
        match others.iter().position(|backend| backend.name == Some(default)) {
            Some(index) => Self { default: others.swap_remove(index), others, ..Self::default() },
            None => {
                let near = suggestion(default, others.iter().filter_map(|backend| backend.name));
                issues.add(&at.pointer, format!("`backends` has no `{default}`{near}"));
                Self { others, ..Self::default() }
            }
        }
    }

    /// All backends, the default first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &BackendDocument<'j>> + Clone {
        std::iter::once(&self.default).chain(&self.others)
    }

    /// The backend with this index in [`Self::iter`], or one that stands for a backend that the document does not have.
    pub(crate) fn get(&self, index: usize) -> &BackendDocument<'j> {
        index.checked_sub(1).map_or(Some(&self.default), |other| self.others.get(other)).unwrap_or(&self.unknown)
    }
}

impl<'j> BackendDocument<'j> {
    /// The JSON pointer of its object, or of one of its members.
    pub(crate) fn pointer(&self, member: &str) -> String {
        let own = self.name.map_or_else(|| "/backend".to_owned(), |name| child("/backends", name));
        if member.is_empty() { own } else { child(&own, member) }
    }

    /// What it can do.
    pub(crate) const fn abilities(&self) -> &'static BackendAbilities {
        self.kind.abilities()
    }

    fn of_kind(kind: BackendKind) -> Self {
        let abilities = kind.abilities();
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        Self {
            name: None,
            is_known: true,
            kind,
            rewrite_path: false,
            reserved_paths: Vec::new(),
            operation_id: abilities.operation_id.map(str::to_owned),
            hide_headers: owned(abilities.hidden),
            keep_headers: Vec::new(),
            key_header: None,
            replay_headers: owned(abilities.replay_headers),
            cluster: None,
            authority: None,
            timeout_ms: milliseconds(DEFAULT_TIMEOUT_MS),
            guard: None,
            operations: None,
        }
    }

    /// Reads a backend; `inline`: the document may contain secrets.
    #[inline(never)]
    fn read(name: Option<&'j str>, at: &JsonCursor<'_>, inline: bool, issues: &mut Issues) -> Option<Self> {
        let fields = backend::OBJECT.read(at, issues)?;
        let kind = backend::KIND.read(&fields, issues);
        let default = kind.map_or_else(Self::default, Self::of_kind);
        let kind = default.kind;
        let replay_headers = backend::REPLAY_HEADERS.read(&fields, issues);
        Some(Self {
            name,
            is_known: default.is_known,
            kind,
            rewrite_path: backend::REWRITE_PATH.read(&fields, issues).unwrap_or(default.rewrite_path),
            reserved_paths: backend::RESERVED_PATHS.read(&fields, issues).unwrap_or_default(),
            operation_id: backend::OPERATION_ID.read(&fields, issues).or(default.operation_id),
            hide_headers: backend::HIDE_HEADERS.read(&fields, issues).unwrap_or(default.hide_headers),
            keep_headers: backend::KEEP_HEADERS.read(&fields, issues).unwrap_or_default(),
            key_header: backend::KEY_HEADER.read(&fields, issues),
            replay_headers: replay_headers
                .filter(|_| !kind.abilities().replay_headers.is_empty())
                .unwrap_or(default.replay_headers),
            // A cluster without a valid name has its own issue and is not missing.
            cluster: backend::CLUSTER
                .at(&fields, issues)
                .map(|at| at.parse(issues, parse_text).unwrap_or_default())
                .or(default.cluster),
            authority: store::AUTHORITY.read(&fields, issues),
            timeout_ms: milliseconds(store::TIMEOUT_MS.read(&fields, issues)),
            guard: backend::GUARD.at(&fields, issues).map_or(default.guard, |at| Guard::read(&at, issues)),
            operations: backend::OPERATIONS
                .at(&fields, issues)
                .and_then(|at| OperationsDocument::read(&at, inline, issues)),
        })
    }
}

fn parse_header_pattern(text: &str) -> Result<String, String> {
    match text.strip_suffix('*') {
        Some(prefix) if prefix.len() > 1 => parse_header_name(prefix).map(|name| name + "*"),
        None => parse_header_name(text),
        Some(_) => Err("expected a header name, or the beginning of one followed by *".to_owned()),
    }
}

fn parse_reserved_path(text: &str) -> Result<String, String> {
    match NormalPath::parse(text.as_bytes()) {
        Ok(path) if path.has_encoded_slash() => Err("write `/` instead of %2F between segments".to_owned()),
        Ok(path) if path.as_str() == text && text != "/" => Ok(text.to_owned()),
        Ok(_) if text == "/" => Err("the root `/` cannot be closed: write a path below it".to_owned()),
        Ok(path) => Err(format!("write the path in its normalised form, `{}`", path.as_str())),
        Err(why) => Err(why.detail().to_owned()),
    }
}
