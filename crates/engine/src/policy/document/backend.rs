//! The backends: the kind of each, and the headers that it gets and that clients get from it. A document with one writes it
//! as `backend`; one with several names them in `backends`, and `backend` is the name of the default.

use super::operations::OperationsDocument;
use super::stores::{DEFAULT_TIMEOUT_MS, read_timeout};
use super::{check_name, parse_duration, parse_header_name, parse_key_header, parse_text};
use crate::backend::{BackendAbilities, BackendKind, OperationId};
use crate::json::Json;
use crate::json::cursor::{Issues, JsonCursor, ObjectCursor, child, suggestion};
use crate::policy::defaults::GUARD;
use crate::policy::path::NormalPath;
use crate::policy::target::Target;

/// The guard service of collision detection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Guard {
    /// The service's name in the backend
    pub service: String,
    /// How long it keeps fingerprints, in seconds
    pub retention: Option<u64>,
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
    pub operation_id: Option<OperationId>,
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
        let Some(map) = fields.get("backends") else {
            let backend = fields.need_or_advise("backend", KINDS, issues);
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
            operation_id: abilities
                .operation_id
                .map(|[from, to]| OperationId { from: from.to_owned(), to: to.to_owned() }),
            hide_headers: owned(abilities.hidden),
            keep_headers: Vec::new(),
            key_header: None,
            replay_headers: owned(abilities.replay_headers),
            cluster: None,
            authority: None,
            timeout_ms: DEFAULT_TIMEOUT_MS,
            guard: None,
            operations: None,
        }
    }

    /// Reads a backend; `inline`: the document may contain secrets.
    #[inline(never)]
    fn read(name: Option<&'j str>, at: &JsonCursor<'_>, inline: bool, issues: &mut Issues) -> Option<Self> {
        let known = [
            "kind",
            "rewrite_path",
            "reserved_paths",
            "operation_id",
            "hide_headers",
            "keep_headers",
            "key_header",
            "replay_headers",
            "cluster",
            "authority",
            "timeout_ms",
            "guard",
            "operations",
        ];
        let fields = at.fields(&known, issues)?;
        let kinds = [("restate", BackendKind::Restate), ("generic", BackendKind::Generic)];
        let kind = fields.need_or_advise("kind", KINDS, issues).and_then(|at| at.choice(&kinds, issues));
        let default = kind.map_or_else(Self::default, Self::of_kind);
        let kind = default.kind;
        let replay_headers = fields.list("replay_headers", issues, parse_header_name);
        Some(Self {
            name,
            is_known: default.is_known,
            kind,
            rewrite_path: fields.boolean("rewrite_path", issues).unwrap_or(default.rewrite_path),
            reserved_paths: fields.list("reserved_paths", issues, parse_reserved_path).unwrap_or_default(),
            operation_id: fields.get("operation_id").map_or(default.operation_id, |at| read_operation_id(&at, issues)),
            hide_headers: fields.list("hide_headers", issues, parse_header_pattern).unwrap_or(default.hide_headers),
            keep_headers: fields.list("keep_headers", issues, parse_header_name).unwrap_or_default(),
            key_header: fields.parse("key_header", issues, parse_key_header),
            replay_headers: replay_headers
                .filter(|_| !kind.abilities().replay_headers.is_empty())
                .unwrap_or(default.replay_headers),
            // A cluster without a valid name has its own issue and is not missing.
            cluster: fields
                .get("cluster")
                .map(|at| at.parse(issues, parse_text).unwrap_or_default())
                .or(default.cluster),
            authority: fields.parse("authority", issues, parse_text),
            timeout_ms: read_timeout(&fields, issues),
            guard: fields.get("guard").map_or(default.guard, |at| {
                let fields = at.fields(&["service", "retention"], issues)?;
                let retention = fields.parse("retention", issues, parse_duration);
                let service = fields.get("service").map(|at| at.parse(issues, Target::parse_service));
                Some(Guard { service: service.unwrap_or_else(|| Some(GUARD.to_owned()))?, retention })
            }),
            operations: fields.get("operations").and_then(|at| OperationsDocument::read(&at, inline, issues)),
        })
    }
}

#[inline(never)]
fn read_operation_id(at: &JsonCursor<'_>, issues: &mut Issues) -> Option<OperationId> {
    let fields = at.fields(&["from", "to"], issues)?;
    let from = fields.need_parse("from", issues, parse_header_name);
    let to = fields.need_parse("to", issues, parse_header_name);
    Some(OperationId { from: from?, to: to? })
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
