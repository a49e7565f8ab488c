//! The `retention` object: for how long the backend keeps the results of a service.

use super::texts::parse_duration;
use crate::json::cursor::{Issues, JsonCursor, suggestion};
use crate::policy::members::{Custom, members};

members! {
    /// How long the backend keeps results. The filter compares `max_age` of keys with it.
    retention = "retention", "Retention";

    /// The classes. A name is the class, a value is its retention.
    CLASSES: Custom {} = "classes", "Classes",
        schema r##"{"type": "object", "additionalProperties": {"$ref": "#/$defs/duration"}, "examples": [{"interactive": "24h", "financial": "7d"}]}"##;

    /// The class of each service. A name is the service's name in the backend, a value one of the names in `/retention/classes`.
    SERVICES: Custom {} = "services", "Services",
        schema r##"{"type": "object", "additionalProperties": {"type": "string"}, "examples": [{"Refunds": "financial"}]}"##;
}

/// The retention of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(not(feature = "needs"), allow(unreachable_pub, reason = "only what describes policies hands it on"))]
pub struct ServiceRetention {
    /// The service's name in the backend
    pub service: String,
    /// The name of its class
    pub class: String,
    /// In seconds
    pub seconds: u64,
}

/// Reads a `retention` object. A service whose class is invalid is left out.
#[inline(never)]
pub(super) fn read(at: &JsonCursor<'_>, issues: &mut Issues) -> Option<Vec<ServiceRetention>> {
    let fields = retention::OBJECT.read(at, issues)?;
    let mut classes = Vec::new();
    if let Some(map) = retention::CLASSES.at(&fields, issues).and_then(|at| at.map(issues)) {
        for (name, at) in map.entries() {
            classes.push((name, at.parse(issues, parse_duration)));
        }
    }
    let mut services = Vec::new();
    if let Some(map) = retention::SERVICES.at(&fields, issues).and_then(|at| at.map(issues)) {
        for (name, at) in map.entries() {
            services.extend(read_service(name, &at, &classes, issues));
        }
    }
    Some(services)
}

/// Reads one member of `services`.
#[inline(never)]
fn read_service(
    name: &str,
    at: &JsonCursor<'_>,
    classes: &[(&str, Option<u64>)],
    issues: &mut Issues,
) -> Option<ServiceRetention> {
    let (class, seconds) = at.parse(issues, |class| {
        let found = classes.iter().find(|(known, _)| *known == class).copied();
        found.ok_or_else(|| {
            let near = suggestion(class, classes.iter().map(|(known, _)| *known));
            format!("no class `{}` in /retention/classes{near}", class.replace('\n', " "))
        })
    })?;
    Some(ServiceRetention { service: name.to_owned(), class: class.to_owned(), seconds: seconds? })
}
