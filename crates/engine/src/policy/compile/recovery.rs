//! Recovery: the routes with recovery paths, and the report of paths with two meanings.

use super::{Compiler, RouteDocument};
use crate::policy::Route;
use crate::policy::document::Mode;
use crate::policy::recovery::{SEGMENT, shadows, spells_out};

/// Whether the backend stores results under the keys of the route's callers.
pub(super) fn has_results(route: &RouteDocument) -> bool {
    route.policy.is_case_a() && route.target.is_some() && route.webhook.is_none()
}

/// Describes the recovery path of a route, for an issue of another route.
pub(super) fn recovers_at(index: usize, route: &Route) -> String {
    let (base, segment) = (route.template.to_string(), SEGMENT);
    let base = base.strip_suffix('/').unwrap_or(&base);
    format!("`{base}/{segment}/…` recovers results of {}, /routes/{index}", route.endpoint)
}

impl Compiler<'_> {
    /// Whether the route has recovery paths. It has none in shadow mode: there results are stored under keys without a
    /// namespace, so a caller could read another caller's result.
    #[inline(never)]
    pub(super) fn recovers(&self, route: &RouteDocument) -> bool {
        has_results(route)
            && route.recovery.unwrap_or(true)
            && self.backend_of(route).abilities().finds_results
            && route.mode.unwrap_or(self.document.mode) == Mode::Enforce
    }

    #[inline(never)]
    pub(super) fn check_recovery(&mut self, index: usize, route: &RouteDocument) {
        if route.recovery != Some(true) || self.recovers(route) {
            return;
        }
        let at = format!("/routes/{index}/recovery");
        if !has_results(route) {
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
    pub(super) fn recovery_paths(&mut self, routes: &[(usize, Route)]) {
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
