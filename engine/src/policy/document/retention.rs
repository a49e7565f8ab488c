//! The `retention` object: for how long the backend keeps the results of a service.

use super::parse_duration;
use crate::json::cursor::{Issues, JsonCursor};
use std::collections::BTreeMap;

/// The retention of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServiceRetention {
    /// The name of its class
    pub class: String,
    /// In seconds
    pub seconds: u64,
}

/// Reads a `retention` object: retentions by the service's name. A service whose class is invalid is left out.
#[inline(never)]
pub(super) fn read(at: &JsonCursor<'_>, issues: &mut Issues) -> Option<BTreeMap<String, ServiceRetention>> {
    let fields = at.fields(&["classes", "services"], issues)?;
    let mut classes = Vec::new();
    if let Some(map) = fields.get("classes").and_then(|at| at.map(issues)) {
        for (name, at) in map.entries() {
            classes.push((name, at.parse(issues, parse_duration)));
        }
    }
    let mut services = BTreeMap::new();
    if let Some(map) = fields.get("services").and_then(|at| at.map(issues)) {
        for (name, at) in map.entries() {
            let Some(service) = at.fields(&["class", "on_max_attempts"], issues) else { continue };
            let class = service.need("class", issues).and_then(|at| {
                at.parse(issues, |class| {
                    let found = classes.iter().find(|(known, _)| *known == class).map(|(_, seconds)| (class, *seconds));
                    found.ok_or_else(|| format!("no class `{}` in /retention/classes", class.replace('\n', " ")))
                })
            });
            if let Some((class, Some(seconds))) = class {
                services.insert(name.to_owned(), ServiceRetention { class: class.to_owned(), seconds });
            }
            service.choice("on_max_attempts", &[("kill", ()), ("pause", ())], issues);
        }
    }
    Some(services)
}
