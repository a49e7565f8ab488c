//! Collision detection: the rules of a route, and whether the guard keeps its fingerprints for long enough.

use super::document::{Collision, CollisionRules};
use super::fingerprint::Compared;
use crate::backend::Backend;
use crate::policy::Route;
use crate::policy::Target;
use crate::policy::compile::Compiler;
use crate::policy::defaults::CLEANUP_S;
use crate::policy::document::Mode;
use crate::policy::document::RouteDocument;
use std::sync::Arc;

/// The maximum of `max_body_bytes` with `"fingerprint": "json"`, because the VM has the body, its canonical JSON and the
/// members that are sorted in memory at once.
const MAX_JSON_BYTES: u64 = 16 * 1024 * 1024;

impl Compiler<'_> {
    /// Reports what collision detection of a route lacks, and members that change nothing.
    #[inline(never)]
    pub(crate) fn check_collision(&mut self, index: usize, route: &RouteDocument, target: Option<&Target>) {
        let member = |name: &str| format!("/routes/{index}/{name}");
        if !route.comparison.without.is_empty() && !route.comparison.json {
            let message = "members are left out of canonical JSON only: add `\"fingerprint\": \"json\"`";
            self.issues.add(member("fingerprint_without"), message);
        }
        if route.comparison.collision == Collision::Off {
            let set = [
                ("fingerprint", route.comparison.json),
                ("fingerprint_headers", !route.comparison.headers.is_empty()),
                ("fingerprint_without", !route.comparison.without.is_empty()),
            ];
            for (name, _) in set.into_iter().filter(|(_, is_set)| *is_set) {
                self.warnings.add(member(name), "this member has no effect without `collision`");
            }
            return;
        }
        if route.comparison.json && route.max_body_bytes > MAX_JSON_BYTES {
            self.issues.add(
                member("max_body_bytes"),
                "at most 16777216 with `\"fingerprint\": \"json\"`, which needs several copies of a body",
            );
        }
        let backend = self.backend_of(route);
        let at = member("collision");
        if route.comparison.collision == Collision::Forward {
            if !route.policy.is_case_a() || route.webhook.is_some() || backend.abilities().finds_results {
                let message = "`forward` works only on a REQUIRED_A or ACCEPTED route before a backend of kind `generic`, \
                               which compares fingerprints itself; before Restate write `enforce`";
                self.issues.add(at, message);
            }
            return;
        }
        if !route.has_results() {
            self.issues
                .add(at.clone(), "collision detection works only on a REQUIRED_A or ACCEPTED route with a `target`");
        }
        if backend.cluster.is_none() || backend.guard.is_none() {
            let (guard, cluster) = (backend.pointer("guard"), backend.pointer("cluster"));
            self.issues.add(at, format!("collision detection needs {guard}, and {cluster} to call it"));
        }
        let retention = target
            .and_then(|target| self.document.retentions.iter().find(|retention| retention.service == target.service));
        let kept = backend.guard.as_ref().and_then(|guard| guard.retention);
        if let (Some(retention), Some(kept)) = (retention, kept)
            && kept < retention.seconds.saturating_add(CLEANUP_S)
        {
            let message = format!(
                "the guard would forget a request before the backend forgets its result: for {} it needs at least the \
                 retention of {} (/retention/classes/{}) plus 2h, which the backend's cleaner can take",
                route.endpoint, retention.service, retention.class
            );
            self.issues.add(backend.pointer("guard") + "/retention", message);
        }
    }

    /// Reports headers of fingerprints that the backend never gets as a client sent them.
    #[inline(never)]
    pub(crate) fn check_compared_headers(&mut self, routes: &[(usize, Route)], backends: &[Backend]) {
        for (index, declared) in &self.document.routes {
            let route = routes.iter().find(|(other, _)| other == index);
            let Some(backend) = route.and_then(|(_, route)| backends.get(route.backend)) else { continue };
            for (place, name) in declared.comparison.headers.iter().enumerate() {
                if backend.strip.contains(name.as_bytes()) {
                    let message = format!(
                        "the backend never gets `{name}` as a client sent it, so it cannot change what is done: remove it \
                         from this list"
                    );
                    self.issues.add(format!("/routes/{index}/fingerprint_headers/{place}"), message);
                }
            }
        }
    }

    /// The rules of a route; `None` without collision detection. A backend without a guard has an issue of its own.
    #[inline(never)]
    pub(crate) fn collision_rules(
        &self,
        route: &RouteDocument,
        target: Option<&Arc<Target>>,
        backend: Option<&Backend>,
    ) -> Option<Box<CollisionRules>> {
        let mode = route.mode.unwrap_or(self.document.mode);
        let guard = || Some((Arc::clone(backend?.guard.as_ref()?), Arc::clone(target?)));
        let (guard, waits) = match (route.comparison.collision, mode) {
            // In shadow mode the backend does not have the namespaced key.
            (Collision::Off, _) | (Collision::Forward, Mode::Shadow) => return None,
            (Collision::Forward, Mode::Enforce) => (None, true),
            (Collision::Observe, _) | (Collision::Enforce, Mode::Shadow) => (Some(guard()?), false),
            (Collision::Enforce, Mode::Enforce) => (Some(guard()?), true),
        };
        Some(Box::new(CollisionRules {
            guard,
            waits,
            json: route.comparison.json,
            compared: Compared::of(&route.comparison.headers, &route.comparison.without),
        }))
    }
}
