//! Collision detection in the document: what a route says of it, and the `guard` object of a `backend`.

use crate::json::cursor::{Issues, JsonCursor};
use crate::policy::defaults::GUARD;
use crate::policy::document::parse_duration;
use crate::policy::members::{Text, TextOr, members};
use crate::policy::target::Target;

members! {
    /// The service that remembers the first request under each key, for routes with `collision`.
    guard = "guard", "Guard";

    /// The service's name in the backend.
    SERVICE: TextOr<String> { parse: Target::parse_service, default: GUARD } = "service", "Service",
        schema r#"{"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9._-]*$"}"#;

    /// How long the service remembers a request, as it is deployed: at least the retention of the services of routes with `collision`, and
    /// 2 hours.
    RETENTION: Text<u64> { parse: parse_duration } = "retention", "Retention", schema r##"{"$ref": "#/$defs/duration"}"##;
}

/// What happens when a key comes again with another payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Collision {
    /// Nothing
    #[default]
    Off,
    /// A count
    Observe,
    /// 422
    Enforce,
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
