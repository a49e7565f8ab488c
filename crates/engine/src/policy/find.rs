//! What a request needs of the policy: its route, the rules of the route, and whether its path is closed.

use super::document::{Forward, IdentityRules, Mode, Unmatched};
use super::path::{self, NormalPath};
use super::route_table::{PathLookup, RouteId};
use super::{CLOSED, ENDPOINTS, Policy, Route, SERVICES};
use crate::bytes::equal;
use crate::headers::Headers;
use crate::operations::Operations;
use crate::percent::is_below;
use crate::recovery::RecoveryPath;

/// What a request asks for, as every program reads it.
#[derive(Debug, Clone, Copy)]
pub struct RequestUrl<'r, 'p> {
    /// The host, and a port if there is one
    pub authority: &'r str,
    /// The path, without the query
    pub path: &'r NormalPath<'p>,
}

/// The result of a lookup in the route table.
#[derive(Debug)]
pub enum RouteLookup<'p, 'r> {
    /// The route and the values of its path parameters, still percent-encoded.
    Route(&'p Route, Vec<&'r str>),
    /// The path has routes, but none for the method.
    OtherMethods(Vec<&'p Route>),
    /// No route has this path.
    Nothing,
    /// The path differs from one with other routes in letter case, in escapes or in empty segments only, so a backend could read
    /// that one.
    OtherReading,
}

impl Policy {
    /// Finds the recoverable route of a recovery path, and the values of its path parameters, still percent-encoded.
    /// `endpoint` is the endpoint that the gateway's route names, if any.
    pub fn recovered<'r>(
        &self,
        authority: &str,
        endpoint: Option<&[u8]>,
        recovery_path: &RecoveryPath<'r>,
    ) -> Option<(&Route, Vec<&'r str>)> {
        let (routes, values) = match endpoint {
            Some(endpoint) => {
                let route = self.endpoint(std::str::from_utf8(endpoint).ok()?)?;
                let template = &route.template;
                let fixed = || template.parameters().next().is_none().then(Vec::new);
                (std::slice::from_ref(&route.id), template.values(recovery_path.base).or_else(fixed)?)
            }
            None => {
                let found = self.table.routes_of(authority, recovery_path.base)?;
                (found.routes, found.values)
            }
        };
        let route = routes.iter().filter_map(|id| self.routes.get(*id)).find(|route| route.recovery.is_some())?;
        Some((route, values))
    }

    /// What the policy says about operations; `None` if nobody can ask for one.
    pub fn operations(&self) -> Option<&Operations> {
        self.operations.as_ref()
    }

    /// The identity rules of a route, or those of the document for unmatched requests.
    pub fn identity_of(&self, route: Option<&Route>) -> &IdentityRules {
        static NONE: IdentityRules = IdentityRules {
            sources: Vec::new(),
            forward: Forward { tenant: None, project: None, subject: None },
            registry: None,
        };
        self.identities.get(route.map_or(0, |route| route.identity)).unwrap_or(&NONE)
    }

    /// The signed callers of the route whose signature headers the request has, by their indices.
    pub(crate) fn signers<'r>(
        &'r self,
        route: &'r Route,
        headers: &'r Headers<'_>,
    ) -> impl Iterator<Item = usize> + 'r {
        let signed = |id: &usize| self.callers.get(*id).is_some_and(|caller| caller.signature.is_signed(headers));
        route.callers.iter().copied().filter(signed)
    }

    /// A route by its index.
    pub fn route(&self, id: RouteId) -> Option<&Route> {
        self.routes.get(id)
    }

    /// A route by its endpoint.
    pub fn endpoint(&self, name: &str) -> Option<&Route> {
        self.routes.get(self.names.get(ENDPOINTS, name)?)
    }

    /// Whether `path` (normalised) is closed to clients, whatever routes there are: every backend closes it.
    pub fn is_closed(&self, path: &str) -> bool {
        (0..=self.other_backends.len()).all(|backend| self.closes(backend, path))
    }

    /// Whether the backend with this index closes `path` (normalised) to clients, whatever routes there are.
    fn closes(&self, backend: usize, path: &str) -> bool {
        self.backend_at(backend).reserved_paths.iter().any(|prefix| is_below(path, prefix))
            || self.closed_service(backend, path) == Some(CLOSED)
    }

    /// Whether `path` (normalised), which has this route, is closed to clients by the route's backend. What every backend closes
    /// was asked for before ([`Self::is_closed`]).
    pub(crate) fn is_closed_declared(&self, route: &Route, path: &str) -> bool {
        !self.other_backends.is_empty() && self.closes(route.backend, path)
            || route.target.is_none() && self.is_closed_respelled(route.backend, path)
    }

    /// Whether `path` (normalised) is closed to clients if no route declares it. A gateway that chooses the backend by the path
    /// could send it to any of them.
    pub fn is_closed_undeclared(&self, path: &str) -> bool {
        let mut backends = 0..=self.other_backends.len();
        backends.any(|backend| self.closed_service(backend, path).is_some() || self.closes(backend, path))
    }

    /// Whether `path` (normalised), which no route declares, is that of a closed service for a backend that ignores letter case.
    pub(crate) fn is_closed_to_default(&self, path: &str) -> bool {
        self.is_closed_respelled(0, path)
    }

    /// Whether `path` (normalised), which the backend gets as it is, is that of a closed service for a backend that ignores letter
    /// case.
    fn is_closed_respelled(&self, backend: usize, path: &str) -> bool {
        let is_service = |first: &str| self.names.find(SERVICES + backend, first).is_some();
        !self.backend_at(backend).abilities().tells_case_apart && path::segments(path).next().is_some_and(is_service)
    }

    /// How the backend closes the paths of the service that the first segment of a path names.
    fn closed_service(&self, backend: usize, path: &str) -> Option<usize> {
        self.names.get(SERVICES + backend, path::segments(path).next()?)
    }

    /// Whether a request that no route declares is forwarded all the same, although `unmatched` refuses it: in shadow mode, to a
    /// backend whose paths are its API's own.
    pub(crate) fn watches_unmatched(&self) -> bool {
        self.mode == Mode::Shadow && !self.backend.abilities().serves_by_name && !self.backend.rewrite_path
    }

    /// Whether a request is forwarded all the same whose path has these routes, none of them for its method.
    pub(crate) fn watches_methods(&self, routes: &[&Route]) -> bool {
        self.watches_unmatched()
            && routes.iter().all(|route| {
                route.mode == Mode::Shadow && route.webhook.is_none() && route.target.is_none() && route.backend == 0
            })
    }

    /// Whether nothing of the document acts on a request, so that no other reading of its path leads around anything.
    pub(crate) fn only_watches(&self) -> bool {
        self.only_watches
    }

    /// Whether an authority is another spelling of a host that routes are declared for.
    pub(crate) fn is_respelled(&self, authority: &str) -> bool {
        self.table.is_respelled(authority)
    }

    /// Finds the route for a URL and a method.
    pub fn declared<'r>(&self, url: RequestUrl<'r, '_>, method: &[u8]) -> RouteLookup<'_, 'r> {
        let PathLookup { found, has_other_reading } = self.table.find(url.authority, url.path);
        // A path that is not forwarded is read by nobody else.
        let is_forwarded = found.is_some() || self.unmatched != Unmatched::Reject || self.watches_unmatched();
        if has_other_reading && is_forwarded {
            return RouteLookup::OtherReading;
        }
        let Some(found) = found else { return RouteLookup::Nothing };
        self.by_method(found.routes.iter().filter_map(|id| self.routes.get(*id)), found.values, method)
    }

    /// Finds the route by the endpoint that the gateway names; `None` for an unknown endpoint. If the route's template
    /// has parameters, or the path leads to a service that is closed unless a route declares it, the path has to match
    /// the template.
    pub fn named<'r>(&self, endpoint: &[u8], url: RequestUrl<'r, '_>, method: &[u8]) -> Option<RouteLookup<'_, 'r>> {
        let endpoint = std::str::from_utf8(endpoint).ok()?;
        let route = self.endpoint(endpoint)?;
        if self.table.find(url.authority, url.path).has_other_reading {
            return Some(RouteLookup::OtherReading);
        }
        let path = url.path.as_str();
        let values = match route.template.values(path) {
            Some(values) => values,
            None if route.template.parameters().next().is_none() && !self.is_closed_undeclared(path) => Vec::new(),
            None => return Some(RouteLookup::Nothing),
        };
        Some(self.by_method(std::iter::once(route), values, method))
    }

    fn by_method<'p, 'r>(
        &self,
        routes: impl Iterator<Item = &'p Route> + Clone,
        values: Vec<&'r str>,
        method: &[u8],
    ) -> RouteLookup<'p, 'r> {
        let listed = |route: &&Route| route.methods.iter().any(|listed| equal(listed.as_bytes(), method));
        match routes.clone().find(listed) {
            Some(route) => RouteLookup::Route(route, values),
            None => RouteLookup::OtherMethods(routes.collect()),
        }
    }
}
