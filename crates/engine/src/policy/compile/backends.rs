//! The backends of the document, in the form that requests need: which paths are closed because of them, which headers they do not
//! get, and what the filter asks them.

use super::{Compiler, RouteDocument};
use crate::backend::{Backend, BackendKind, GuardService, InvocationStore, restate};
use crate::collision::document::{Collision, FINGERPRINT_HEADER};
use crate::headers::{IDEMPOTENCY_KEY, NameSet, canonical};
use crate::json::cursor::suggestion;
use crate::policy::defaults::GUARD;
use crate::policy::document::{BackendDocument, Document, IdentityRules};
use crate::policy::text_index::TextIndex;
use crate::policy::{CLOSED, CLOSED_UNDECLARED, REWRITE_MARK, Route, SERVICES, Target};
use crate::provider::Provider;
use crate::signed_callers::CallerHeaders;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Headers with which a client can override the method that was checked.
pub(crate) const METHOD_OVERRIDES: [&str; 4] =
    ["x-http-method-override", "x-http-method", "x-method-override", "x-original-method"];

impl<'d> Compiler<'d> {
    /// The index of the route's backend in the document. The number of backends stands for a name that none of them has.
    pub(super) fn backend_index(&self, route: &RouteDocument) -> usize {
        let Some(name) = route.backend else { return 0 };
        let backends = &self.document.backends;
        backends.iter().position(|backend| backend.name == Some(name)).unwrap_or(backends.others.len() + 1)
    }

    /// The backend of a route.
    pub(crate) fn backend_of(&self, route: &RouteDocument) -> &'d BackendDocument<'d> {
        self.document.backends.get(self.backend_index(route))
    }

    /// The routes of the document that have this backend.
    fn routes_of(&self, backend: &BackendDocument) -> impl Iterator<Item = &'d RouteDocument<'d>> {
        let is_default = self.document.backends.default.name == backend.name;
        let name = backend.name;
        let routes = self.document.routes.iter().map(|(_, route)| route);
        routes.filter(move |route| route.backend.map_or(is_default, |own| Some(own) == name))
    }

    /// Reports names that no backend has, and backends that no route has.
    #[inline(never)]
    pub(super) fn check_backends(&mut self) {
        let backends = &self.document.backends;
        for (index, route) in &self.document.routes {
            let Some(name) = route.backend else { continue };
            // The default has an issue of its own, which says more.
            let is_unclear = !backends.default.is_known && backends.others.is_empty();
            if is_unclear || backends.iter().any(|backend| backend.name == Some(name)) {
                continue;
            }
            let message = if backends.iter().all(|backend| backend.name.is_none()) {
                "the document has one backend, which every route has: remove this member, or name several backends in \
                 `backends`"
                    .to_owned()
            } else {
                let near = suggestion(name, backends.iter().filter_map(|backend| backend.name));
                format!("`backends` has no `{name}`{near}")
            };
            self.issues.add(format!("/routes/{index}/backend"), message);
        }
        let known = backends.iter().filter(|backend| backend.is_known);
        let mut guards = known.filter_map(|backend| Some((backend, backend.guard.as_ref()?)));
        if let Some((first, guard)) = guards.next() {
            for (other, _) in guards.filter(|(_, other)| *other != guard) {
                let message = format!(
                    "the guards of all backends have one name and one retention: write the same as in {}, or remove it",
                    first.pointer("guard")
                );
                self.issues.add(other.pointer("guard"), message);
            }
        }
        for backend in &backends.others {
            if backend.operations.is_none() && self.routes_of(backend).next().is_none() {
                self.warnings.add(backend.pointer(""), "no route names this backend, so no request reaches it");
            }
        }
    }

    /// A backend without the headers that it does not get.
    #[inline(never)]
    pub(super) fn backend(&self, declared: &BackendDocument) -> Backend {
        let mut backend = Backend::new(declared.kind, declared.operation_id.clone(), declared.replay_headers.clone());
        // A gateway that chooses the backend by the path could take a client to Restate's own, whatever the route's backend is.
        let asks_guard = || self.document.routes.iter().any(|(_, route)| route.comparison.collision.asks_guard());
        let kinds = self.document.backends.iter().map(|backend| backend.kind);
        let kinds = kinds.chain(asks_guard().then_some(BackendKind::Restate));
        let own = kinds.map(|kind| kind.abilities().own_paths).find(|paths| !paths.is_empty()).unwrap_or_default();
        let own = own.iter().map(|path| (*path).to_owned());
        backend.reserved_paths = own.chain(declared.reserved_paths.iter().cloned()).collect();
        backend.rewrite_path = declared.rewrite_path;
        backend.keep_headers.clone_from(&declared.keep_headers);
        backend.key_header.clone_from(&declared.key_header);
        declared.name.unwrap_or("1").clone_into(&mut backend.mark);
        if let Some(cluster) = declared.cluster.clone() {
            let authority = declared.authority.clone().unwrap_or_else(|| cluster.clone());
            let timeout_ms = declared.timeout_ms;
            backend.guard = declared.guard.as_ref().map(|guard| {
                let path = Target::call_path(&guard.service, "claim");
                Arc::new(GuardService { cluster: cluster.clone(), authority: authority.clone(), path, timeout_ms })
            });
            backend.invocations = declared
                .abilities()
                .finds_results
                .then(|| Arc::new(InvocationStore { cluster, authority, timeout_ms }));
        }
        backend
    }

    /// Adds to `names` the first path segments that are closed to clients because they are services of a backend.
    ///
    /// The paths of the guard are closed, since a claim of a client would count as that of another caller. With
    /// `rewrite_path` those of the targets' services are, too. Without it clients of Restate call the services by these
    /// paths: those that a route declares stay open, and all others of a service that the document names are closed.
    #[inline(never)]
    pub(super) fn closed_services(&mut self, routes: &[(usize, Route)], names: &mut TextIndex, backends: &[Backend]) {
        for (space, backend) in self.document.backends.iter().enumerate().map(|(index, own)| (SERVICES + index, own)) {
            if !backend.is_known {
                continue;
            }
            let (rewrites, is_open) = (backend.rewrite_path, backend.abilities().serves_by_name);
            if let Some(guard) = &backend.guard
                && (rewrites || is_open || self.routes_of(backend).any(|route| route.comparison.collision.asks_guard()))
            {
                names.get_or_insert(space, &guard.service, CLOSED);
            }
            if rewrites || is_open {
                let number = if rewrites { CLOSED } else { CLOSED_UNDECLARED };
                let targets = self.routes_of(backend).filter_map(|route| route.target?.split('/').next());
                let retained = self.document.retentions.iter().filter(|_| is_open && !rewrites);
                let retained = retained.map(|retention| &*retention.service);
                targets.chain(retained).for_each(|service| _ = names.get_or_insert(space, service, number));
            }
            if is_open {
                names.get_or_insert(space, restate::OPENAPI, CLOSED_UNDECLARED);
                // Another policy before the same Restate may have a guard.
                names.get_or_insert(space, GUARD, CLOSED_UNDECLARED);
            }
        }
        // The first segments of most routes are the same.
        let mut free = None;
        for (index, route) in routes {
            let (space, declared) = (SERVICES + route.backend, self.document.backends.get(route.backend));
            let first = route.template.first_literal().map(|first| (space, first));
            let first = first.filter(|first| free != Some(*first));
            if let Some((_, text)) = first
                && names.get(space, text) != Some(CLOSED)
            {
                free = first;
            } else if let Some((_, first)) = first {
                let message = format!(
                    "`/{first}` is the path of a service of the backend, and therefore closed to clients; choose another \
                     first segment"
                );
                self.issues.add(format!("/routes/{index}/path"), message);
            }
            // A backend that ignores letter case gets this path as it is.
            if !declared.abilities().tells_case_apart
                && route.target.is_none()
                && let Some(first) = route.template.first_literal()
                && let Some(service) = names.alike(space, first)
            {
                let message = format!(
                    "`/{first}` is the path of the service `{service}` for a backend that ignores letter case, and \
                     therefore closed to clients; choose another first segment"
                );
                self.issues.add(format!("/routes/{index}/path"), message);
            }
            let reserved = backends.get(route.backend).map(|backend| backend.reserved_paths.as_slice());
            let is_reserved = |target: &Target| {
                let mut reserved = reserved.unwrap_or_default().iter();
                reserved.any(|path| path.strip_prefix('/') == Some(target.service.as_str()))
            };
            if route.target.as_deref().is_some_and(is_reserved) {
                let message = format!(
                    "the path of this service is closed by {}: remove it there, or choose another target",
                    declared.pointer("reserved_paths")
                );
                self.issues.add(format!("/routes/{index}/target"), message);
            }
        }
    }

    /// The request headers that are removed before a backend. `removed`: those that the filter writes, or reads as places of keys.
    #[inline(never)]
    pub(super) fn strip(
        &mut self,
        backend: &BackendDocument,
        identities: &[IdentityRules],
        callers: Option<&CallerHeaders>,
        providers: &BTreeMap<String, Provider>,
        removed: &[String],
    ) -> NameSet {
        let mut strip = NameSet::default();
        let signatures = self.document.callers.iter().map(|caller| &caller.signature);
        let signatures: Vec<String> = signatures.flat_map(Provider::signature_headers).collect();
        // Restate never gets the signatures of webhooks. The API of another backend may verify other requests itself.
        let of_webhooks: Vec<String> = providers.values().flat_map(Provider::signature_headers).collect();
        let identity = identity_headers(identities, callers);
        let always: Vec<&str> = [&METHOD_OVERRIDES, identity.as_slice(), &texts(removed)].concat();
        let (signatures, of_webhooks) = (texts(&signatures), texts(&of_webhooks));
        signatures.iter().chain(&always).for_each(|name| strip.insert(name));
        if !backend.abilities().gets_credentials {
            restate::CREDENTIALS.iter().chain(&of_webhooks).for_each(|name| strip.insert(name));
        }
        if backend.name == self.document.backends.default.name {
            self.check_prefix(
                &[signatures.as_slice(), &of_webhooks, &METHOD_OVERRIDES, &restate::CREDENTIALS, &identity].concat(),
            );
        }
        let prefix = self.document.parameter_prefix.as_deref();
        let api_keys = identities.iter().find_map(IdentityRules::api_keys).map(|place| place.header.as_str());
        for (index, name) in backend.keep_headers.iter().enumerate() {
            if backend.abilities().gets_credentials
                && api_keys == Some(name.as_str())
                && !METHOD_OVERRIDES.contains(&name.as_str())
            {
                // Of this header only the line whose key was confirmed goes on, which the exchange keeps.
                continue;
            }
            let name_of_parameter = prefix.is_some_and(|prefix| canonical(name).starts_with(prefix));
            if name_of_parameter || always.iter().any(|removed| *removed == canonical(name)) {
                let message = format!("the backend never gets `{name}` as a client sent it: remove it from this list");
                self.issues.add(format!("{}/{index}", backend.pointer("keep_headers")), message);
            }
            if canonical(name).starts_with(restate::STEERING_HEADERS) {
                let message = format!("`{name}` controls the backend itself, so a client cannot send it: remove it");
                self.issues.add(format!("{}/{index}", backend.pointer("keep_headers")), message);
            }
            strip.exempt(name);
        }
        strip
    }

    /// Reports a backend that is asked for the ids of invocations, and has no cluster for it.
    #[inline(never)]
    pub(super) fn check_clusters(&mut self, routes: &[(usize, Route)]) {
        let has_none = |backend: &BackendDocument| backend.abilities().finds_results && backend.cluster.is_none();
        for (index, backend) in self.document.backends.iter().enumerate().filter(|(_, backend)| has_none(backend)) {
            let own = || routes.iter().filter(|(_, route)| route.backend == index);
            if let Some((index, _)) = own().find(|(_, route)| route.in_flight.is_some()) {
                let at = backend.pointer("cluster");
                let message = format!("`conflict` asks Restate before each request: name its cluster in {at}");
                self.issues.add(format!("/routes/{index}/in_flight"), message);
            } else if let Some((_, first)) = own().find(|(_, route)| route.recovery.is_some()) {
                let message = format!(
                    "results can be recovered ({}), and the filter first asks Restate for an invocation's id: name the gateway's \
                     cluster of Restate, e.g. `\"cluster\": \"restate\"`, or write `\"recovery\": false` on the routes",
                    first.endpoint
                );
                self.issues.add(backend.pointer(""), message);
            }
        }
    }
}

impl Document<'_> {
    /// The request headers that the filter writes for backends: names, or prefixes with `*`. No backend gets a client's, and no
    /// client a backend's (docs/contract.md section 6). `identities`: those of the document and of its routes.
    pub(in crate::policy) fn written_headers(&self, identities: &[IdentityRules]) -> Vec<String> {
        let parameters = self.parameter_prefix.iter().map(|prefix| format!("{prefix}*"));
        let of_identity = identities.iter().flat_map(|rules| rules.forward.names());
        let key_headers = self.backends.iter().filter_map(|backend| backend.key_header.as_deref());
        let names = [IDEMPOTENCY_KEY, REWRITE_MARK].into_iter().chain(self.shadow_key_header.as_deref());
        let forwards = |(_, route): &(usize, RouteDocument)| route.comparison.collision == Collision::Forward;
        let fingerprint = self.routes.iter().any(forwards).then_some(FINGERPRINT_HEADER);
        let names = names.chain(key_headers).chain(fingerprint);
        names.chain(of_identity).map(str::to_owned).chain(parameters).collect()
    }
}

/// The headers that hold parts of an identity: those that sources read, those that are written for backends, and those of signed
/// callers.
#[inline(never)]
pub(crate) fn identity_headers<'d>(
    identities: &'d [IdentityRules],
    callers: Option<&'d CallerHeaders>,
) -> Vec<&'d str> {
    let mut names = Vec::new();
    for rules in identities {
        names.extend(rules.source_headers());
        names.extend(rules.forward.names());
    }
    if let Some(headers) = callers {
        names.extend([headers.tenant.as_str(), &headers.project]);
    }
    names
}

fn texts(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}
