//! The `retention` object: for how long the backend keeps the results of a service.

use super::parse_duration;
use crate::json::cursor::{Issues, JsonCursor, suggestion};

/// The retention of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRetention {
    /// The service's name in the backend
    pub service: String,
    /// The name of its class
    pub class: String,
    /// In seconds
    pub seconds: u64,
    /// `on_max_attempts`
    #[cfg(feature = "describe")]
    pub on_max_attempts: Option<&'static str>,
}

/// Reads a `retention` object. A service whose class is invalid is left out.
#[inline(never)]
pub(super) fn read(at: &JsonCursor<'_>, issues: &mut Issues) -> Option<Vec<ServiceRetention>> {
    let fields = at.fields(&["classes", "services"], issues)?;
    let mut classes = Vec::new();
    if let Some(map) = fields.get("classes").and_then(|at| at.map(issues)) {
        for (name, at) in map.entries() {
            classes.push((name, at.parse(issues, parse_duration)));
        }
    }
    let mut services = Vec::new();
    if let Some(map) = fields.get("services").and_then(|at| at.map(issues)) {
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
    let fields = at.fields(&["class", "on_max_attempts"], issues)?;
    let on_max_attempts = fields.choice("on_max_attempts", &[("kill", "kill"), ("pause", "pause")], issues);
    #[cfg(not(feature = "describe"))]
    let _ = on_max_attempts;
    let (class, seconds) = fields.need_parse("class", issues, |class| {
        let found = classes.iter().find(|(known, _)| *known == class).copied();
        found.ok_or_else(|| {
            let near = suggestion(class, classes.iter().map(|(known, _)| *known));
            format!("no class `{}` in /retention/classes{near}", class.replace('\n', " "))
        })
    })?;
    Some(ServiceRetention {
        service: name.to_owned(),
        class: class.to_owned(),
        seconds: seconds?,
        #[cfg(feature = "describe")]
        on_max_attempts,
    })
}
