//! Recovery: the routes with recovery paths, and the report of paths with two meanings.

use super::path::{SEGMENT, shadows, spells_out};
use crate::policy::Route;
use crate::policy::compile::Compiler;
use crate::policy::document::Mode;
use crate::policy::document::RouteDocument;

/// Describes the recovery path of a route, for an issue of another route.
fn recovers_at(index: usize, route: &Route) -> String {
    let (base, segment) = (route.template.to_string(), SEGMENT);
    let base = base.strip_suffix('/').unwrap_or(&base);
    format!("`{base}/{segment}/…` recovers results of {}, /routes/{index}", route.endpoint)
}

impl Compiler<'_> {
    /// Whether the route has recovery paths. It has none in shadow mode: there results are stored under keys without a
    /// namespace, so a caller could read another caller's result.
    #[inline(never)]
    pub(crate) fn recovers(&self, route: &RouteDocument) -> bool {
        route.has_results()
            && route.recovery.unwrap_or(true)
            && self.backend_of(route).abilities().finds_results
            && route.mode.unwrap_or(self.document.mode) == Mode::Enforce
    }

    /// Reports a route that shares its recovery paths with `other`, which stands earlier.
    pub(crate) fn shares_recovery(&mut self, index: usize, other_index: usize, other: &Route) {
        let message = recovers_at(other_index, other) + "; set `recovery` to false on one of the two";
        self.issues.add(format!("/routes/{index}/recovery"), message);
    }

    #[inline(never)]
    pub(crate) fn check_recovery(&mut self, index: usize, route: &RouteDocument) {
        if route.recovery != Some(true) || self.recovers(route) {
            return;
        }
        let at = format!("/routes/{index}/recovery");
        if !route.has_results() {
            self.issues.add(at, "results can be recovered only on a REQUIRED_A or ACCEPTED route with a `target`");
        } else if !self.backend_of(route).abilities().finds_results {
            self.issues.add(at, "results can be recovered only from a backend of kind `restate`");
        } else {
            self.warnings.add(
                at,
                "results cannot be recovered in shadow mode, where keys of different callers are not kept apart",
            );
        }
    }

    /// Reports routes whose path is also a recovery path of another route.
    #[inline(never)]
    pub(crate) fn recovery_paths(&mut self, routes: &[(usize, Route)]) {
        for (other, declared) in routes.iter().filter(|(_, route)| spells_out(&route.template)) {
            for (index, route) in routes.iter().filter(|(_, route)| route.recovery.is_some()) {
                if shadows(&route.template, &declared.template) {
                    let message = recovers_at(*index, route) + "; set its `recovery` to false, or choose another path";
                    self.issues.add(format!("/routes/{other}/path"), message);
                }
            }
        }
    }
}
