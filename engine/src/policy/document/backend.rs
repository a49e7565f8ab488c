//! The `backend` object: the kind of backend, and the headers that it gets and that clients get from it.

use super::operations::OperationsDocument;
use super::{parse_duration, parse_header_name, parse_text};
use crate::backend::{BackendKind, OperationId, restate};
use crate::json::cursor::{Issues, JsonCursor};
use crate::policy::path::NormalPath;
use crate::policy::target::Target;

/// Where the ids of invocations are looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvocationStore {
    /// The gateway's cluster of Restate
    pub cluster: String,
    /// `Host`
    pub authority: String,
}

/// The guard service of collision detection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Guard {
    /// The service's name in the backend
    pub service: String,
    /// How long it keeps fingerprints, in seconds
    pub retention: Option<u64>,
}

/// The service of the guard, if the document does not name another one.
pub(in crate::policy) const GUARD: &str = "IdempotencyGuard";

/// A `backend` object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BackendDocument {
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
    /// Response headers that mark a replay; empty for Restate, which uses `idempotency-expires`
    pub replay_headers: Vec<String>,
    /// The gateway's cluster for calls of the filter
    pub cluster: Option<String>,
    /// The authority of those calls; the cluster's name if the document has none
    pub authority: Option<String>,
    /// The guard
    pub guard: Option<Guard>,
    /// `operations`
    pub operations: Option<OperationsDocument>,
}

/// Ends the message about a document that does not say what stands behind the gateway.
pub(super) const KINDS: &str = ": `\"backend\": {\"kind\": \"generic\"}` is an API that deduplicates by `Idempotency-Key` itself, \
                                `\"backend\": {\"kind\": \"restate\"}` is Restate's ingress; docs/backends.md compares them";

/// Stands for the backend of a document that does not say its kind, and so does not start. It makes no further issues, so
/// its cluster is not missing.
impl Default for BackendDocument {
    fn default() -> Self {
        Self { cluster: Some(String::new()), ..Self::of_kind(BackendKind::Restate) }
    }
}

impl BackendDocument {
    fn of_kind(kind: BackendKind) -> Self {
        let is_restate = kind == BackendKind::Restate;
        let names = |names: &[&str]| names.iter().filter(|_| is_restate).map(|name| (*name).to_owned()).collect();
        Self {
            kind,
            rewrite_path: false,
            reserved_paths: Vec::new(),
            operation_id: is_restate
                .then(|| OperationId { from: restate::INVOCATION.to_owned(), to: "x-operation-id".to_owned() }),
            hide_headers: names(&restate::HIDDEN),
            keep_headers: Vec::new(),
            replay_headers: if is_restate { Vec::new() } else { vec!["idempotent-replayed".to_owned()] },
            cluster: None,
            authority: None,
            guard: None,
            operations: None,
        }
    }

    /// Reads a `backend` object; `inline`: the document may contain secrets.
    #[inline(never)]
    pub(crate) fn read(at: &JsonCursor<'_>, inline: bool, issues: &mut Issues) -> Option<Self> {
        let known = [
            "kind",
            "rewrite_path",
            "reserved_paths",
            "operation_id",
            "hide_headers",
            "keep_headers",
            "replay_headers",
            "cluster",
            "authority",
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
            kind,
            rewrite_path: fields.boolean("rewrite_path", issues).unwrap_or(default.rewrite_path),
            reserved_paths: fields.list("reserved_paths", issues, parse_reserved_path).unwrap_or_default(),
            operation_id: fields.get("operation_id").map_or(default.operation_id, |at| read_operation_id(&at, issues)),
            hide_headers: fields.list("hide_headers", issues, parse_header_pattern).unwrap_or(default.hide_headers),
            keep_headers: fields.list("keep_headers", issues, parse_header_name).unwrap_or_default(),
            replay_headers: replay_headers.filter(|_| kind == BackendKind::Generic).unwrap_or(default.replay_headers),
            // A cluster without a valid name has its own issue and is not missing.
            cluster: fields
                .get("cluster")
                .map(|at| at.parse(issues, parse_text).unwrap_or_default())
                .or(default.cluster),
            authority: fields.parse("authority", issues, parse_text),
            guard: fields.get("guard").and_then(|at| {
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
        Ok(path) if path.has_encoded_slash() => Err("segments are separated by `/`, and not by %2F".to_owned()),
        Ok(path) if path.as_str() == text && text != "/" => Ok(text.to_owned()),
        Ok(path) => Err(format!("write it in its normalised spelling, `{}`, and not the root", path.as_str())),
        Err(why) => Err(why.detail().to_owned()),
    }
}
