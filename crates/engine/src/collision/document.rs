//! Collision detection in the document: what a route says of it, and what that becomes; and the `guard` object of a `backend`.

use super::fingerprint::Compared;
use crate::backend::GuardService;
use crate::json::cursor::{Issues, JsonCursor, ObjectCursor};
use crate::json::scan::Pointer;
use crate::policy::defaults::GUARD;
use crate::policy::document::header_names::{check_few, parse_fingerprint_header, read_header_names};
use crate::policy::document::{check_pointer, parse_duration};
use crate::policy::members::{Choice, Custom, Text, TextOr, members};
use crate::policy::target::Target;
use std::sync::Arc;

members! {
    /// A service in Restate, at `cluster`, that remembers the first request under each key, for `observe` and `enforce`
    /// (docs/backends.md). All backends name the same.
    guard = "guard", "Guard";

    /// Its name in Restate.
    SERVICE: TextOr<String> { parse: Target::parse_service, default: GUARD } = "service", "Service",
        schema r#"{"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9._-]*$"}"#;

    /// How long the service remembers a request, as it is deployed: at least 2 hours longer than the longest retention of routes with
    /// `observe` or `enforce`. If it is left out, `check` assumes 24h.
    RETENTION: Text<u64> { parse: parse_duration } = "retention", "Retention",
        schema r##"{"$ref": "#/$defs/duration", "examples": ["26h"]}"##;
}

members! {
    /// What a route says of collision detection.
    comparison = "comparison", "Collision detection";

    /// What a used key with another request (method, path, query, content type or body) leads to. `observe`: a count. `enforce`: 422
    /// `idempotency_key_reused`, or 503 without a usable answer of the guard; in shadow mode a count. Both need `target`,
    /// `/backend/guard` and `/backend/cluster`. `forward`: a `generic` backend gets the fingerprint in `Idempotency-Fingerprint` and
    /// compares; not in shadow mode. A client's own is removed on every route.
    COLLISION: Choice<Collision> { words: &Collision::WORDS }
        = "collision", "Collision detection";

    /// What of the body makes a request another one: its bytes, or its canonical JSON (RFC 8785). A body without that form is compared by
    /// bytes. With `json`, `max_body_bytes` is at most 16777216.
    FINGERPRINT: Choice<bool> { words: &[("raw", false), ("json", true)] } = "fingerprint", "Fingerprint";

    /// Request headers that make a request another one, too, such as `if-match`. A retry has to send them again, byte for byte.
    /// Fingerprints before and after a change of the list cannot be compared.
    FINGERPRINT_HEADERS: Custom {} = "fingerprint_headers", "Headers in the fingerprint",
        schema r##"{"type": "array", "maxItems": 8, "uniqueItems": true, "items": {"$ref": "#/$defs/fingerprintHeader"}, "default": [], "examples": [["if-match", "prefer"]]}"##;

    /// With `"fingerprint": "json"`, members that do not make a request another one, as JSON pointers, such as the `id` of JSON-RPC, which a
    /// retry has to change. Fingerprints before and after a change of the list cannot be compared.
    FINGERPRINT_WITHOUT: Custom {} = "fingerprint_without", "Members outside the fingerprint",
        schema r##"{"type": "array", "maxItems": 8, "uniqueItems": true, "items": {"type": "string", "pattern": "^(?:/(?:[^~/]|~[01])*){1,8}$"}, "default": [], "examples": [["/id", "/params/_meta"]]}"##;
}

/// The most members that are left out: each of them is looked for in every object.
const MAX_WITHOUT: usize = 8;

#[inline(never)]
fn read_pointers(at: &JsonCursor<'_>, issues: &mut Issues) -> Vec<(String, Pointer)> {
    let texts = at.list(issues, check_pointer).unwrap_or_default();
    check_few(at, &texts, MAX_WITHOUT, issues);
    texts.into_iter().filter_map(|text| Pointer::parse(&text, false).map(|pointer| (text, pointer))).collect()
}

/// The request header with the fingerprint, for backends that compare it.
pub(crate) const FINGERPRINT_HEADER: &str = "idempotency-fingerprint";

/// What happens when a key comes again with another payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Collision {
    /// Nothing
    #[default]
    Off,
    /// A count
    Observe,
    /// 422
    Enforce,
    /// What the backend does, which gets the fingerprint
    Forward,
}

impl Collision {
    const WORDS: [(&'static str, Self); 4] =
        [("off", Self::Off), ("observe", Self::Observe), ("enforce", Self::Enforce), ("forward", Self::Forward)];

    /// Whether the guard is asked.
    pub const fn asks_guard(self) -> bool {
        matches!(self, Self::Observe | Self::Enforce)
    }

    /// Whether another request with a used key is refused, so that requests wait for their bodies.
    pub const fn refuses(self) -> bool {
        matches!(self, Self::Enforce | Self::Forward)
    }
}

/// What a route says of collision detection.
#[derive(Debug, Clone)]
pub(crate) struct ComparisonDocument {
    /// `collision`
    pub collision: Collision,
    /// `fingerprint`: whether bodies are compared as canonical JSON
    pub json: bool,
    /// `fingerprint_headers`: headers that are compared, too; lower case
    pub headers: Vec<String>,
    /// `fingerprint_without`: members of JSON bodies that are not compared, as JSON pointers
    pub without: Vec<(String, Pointer)>,
}

impl ComparisonDocument {
    /// Reads the members of a route.
    pub(crate) fn read(fields: &ObjectCursor<'_>, issues: &mut Issues) -> Self {
        let headers = comparison::FINGERPRINT_HEADERS.at(fields, issues);
        Self {
            collision: comparison::COLLISION.read(fields, issues),
            json: comparison::FINGERPRINT.read(fields, issues),
            headers: headers.map(|at| read_header_names(&at, parse_fingerprint_header, issues)).unwrap_or_default(),
            without: comparison::FINGERPRINT_WITHOUT
                .at(fields, issues)
                .map(|at| read_pointers(&at, issues))
                .unwrap_or_default(),
        }
    }
}

/// The guard service of collision detection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Guard {
    /// The service's name in the backend
    pub service: String,
    /// How long it keeps fingerprints, in seconds
    pub retention: Option<u64>,
}

impl Guard {
    /// Reads a `guard` object.
    pub(crate) fn read(at: &JsonCursor<'_>, issues: &mut Issues) -> Option<Self> {
        let fields = guard::OBJECT.read(at, issues)?;
        let retention = guard::RETENTION.read(&fields, issues);
        Some(Self { service: guard::SERVICE.read(&fields, issues)?, retention })
    }
}

/// How a route detects that a key comes again with another request (docs/contract.md section 6).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CollisionRules {
    /// The guard that is asked, with the target, also where the path is not rewritten; `None` if the backend compares (`forward`)
    pub(crate) guard: Option<(Arc<GuardService>, Arc<Target>)>,
    /// Whether a request waits, and can be refused (`enforce`, `forward`). Otherwise its claim is counted (`observe`, and `enforce` in
    /// shadow mode).
    pub(crate) waits: bool,
    /// Whether bodies are compared as canonical JSON
    pub(crate) json: bool,
    /// The headers that are compared, too, and the members that are not
    pub(crate) compared: Compared,
}

impl CollisionRules {
    /// Whether a line of this name is compared.
    pub(crate) fn compares(&self, name: &[u8]) -> bool {
        name == b"content-type" || self.compared.names.iter().any(|compared| compared.as_bytes() == name)
    }
}
