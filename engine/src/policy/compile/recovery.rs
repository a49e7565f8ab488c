//! Recovery: which routes' stored results callers may ask for, and paths that would have two meanings.

use super::{Compiler, RouteDocument};
use crate::policy::Route;
use crate::policy::document::{BackendKind, Mode};
use crate::policy::recovery::{SEGMENT, shadows, spells_out};

/// The paths below which Restate gives results to whoever asks.
const RESULTS: &str = "/restate";

/// Whether the route's callers have results of their own in the backend.
pub(super) fn has_results(route: &RouteDocument) -> bool {
    route.policy.is_case_a() && route.target.is_some() && route.webhook.is_none()
}

/// Where the route's results are asked for, for an issue with another route.
pub(super) fn recovers_at(place: usize, route: &Route) -> String {
    let (base, segment) = (route.template.to_string(), SEGMENT);
    let base = base.strip_suffix('/').unwrap_or(&base);
    format!("`{base}/{segment}/…` recovers results of {}, /routes/{place}", route.endpoint)
}

impl Compiler<'_> {
    /// Whether callers may ask for the route's results. In shadow mode they may not: results are stored under the keys
    /// as they came, anybody's.
    #[inline(never)]
    pub(super) fn recovers(&self, route: &RouteDocument) -> bool {
        has_results(route)
            && route.recovery.unwrap_or(true)
            && self.document.backend.kind == BackendKind::Restate
            && route.mode.unwrap_or(self.document.mode) == Mode::Enforce
    }

    #[inline(never)]
    pub(super) fn check_recovery(&mut self, place: usize, route: &RouteDocument) {
        if route.recovery != Some(true) || self.recovers(route) {
            return;
        }
        let at = format!("/routes/{place}/recovery");
        if !has_results(route) {
            self.issues.add(at, "only a REQUIRED_A or ACCEPTED route with a `target` can be recovered from");
        } else if self.document.backend.kind != BackendKind::Restate {
            self.issues.add(at, "only a backend of kind `restate` can be asked for what it has stored");
        } else {
            self.warnings.add(at, "not given in shadow mode, where keys are not kept apart");
        }
    }

    /// Reports routes that stand where another route's results are asked for.
    #[inline(never)]
    pub(super) fn recovery_paths(&mut self, routes: &[(usize, Route)]) {
        for (other, declared) in routes.iter().filter(|(_, route)| spells_out(&route.template)) {
            for (place, route) in routes.iter().filter(|(_, route)| route.recovery.is_some()) {
                if shadows(&route.template, &declared.template) {
                    let message = recovers_at(*place, route) + "; set its `recovery` to false, or choose another path";
                    self.issues.add(format!("/routes/{other}/path"), message);
                }
            }
        }
    }

    /// The paths that are closed to clients, with those that the filter alone asks for results.
    #[inline(never)]
    pub(super) fn reserved_paths(&self, routes: &[(usize, Route)]) -> Vec<String> {
        let mut paths = self.document.backend.reserved_paths.clone();
        let closed = paths.iter().any(|path| path == RESULTS);
        if !closed && routes.iter().any(|(_, route)| route.recovery.is_some()) {
            paths.push(RESULTS.to_owned());
        }
        paths
    }
}
