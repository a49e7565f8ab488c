//! Who a request is from: the one place where the rules of its route and what is known of the request come together.

use super::{Exchange, Place};
use crate::api_keys::KeyHolder;
use crate::headers::Headers;
use crate::identity::{self, Attributes, Identity, IdentityRefusal, IdentitySource, Project, Rules};
use crate::policy::{Policy, PolicyKind, Route, Scope};
use crate::problem::Problem;
use std::sync::Arc;

/// How the caller of a request is found.
pub(crate) enum Caller<'c> {
    /// By the identity sources of its route.
    Sources {
        /// The sources
        sources: &'c [IdentitySource],
        /// The project segment of a route with a wider scope
        scope: Option<Project>,
        /// Subjects that no source may give
        reserved: &'c [String],
        /// What the registry says of the request's API key
        holder: Option<Arc<KeyHolder>>,
        /// The request's headers
        headers: &'c Headers<'c>,
        /// What the gateway knows of the request
        attributes: &'c dyn Attributes,
    },
    /// By a signature, which was verified.
    Signed(Result<Identity, IdentityRefusal<'c>>),
}

impl<'c> Caller<'c> {
    /// The caller of a request on a route, or on none.
    pub(crate) fn of(
        exchange: &Exchange,
        policy: &'c Policy,
        route: Option<&Route>,
        headers: &'c Headers<'c>,
        attributes: &'c dyn Attributes,
    ) -> Self {
        Self::Sources {
            sources: &policy.identity_of(route).sources,
            scope: route.and_then(|route| wider_scope(route.scope)),
            reserved: policy.reserved_subjects(),
            holder: exchange.holder.clone(),
            headers,
            attributes,
        }
    }

    /// Who it is.
    ///
    /// # Errors
    /// The first part that is missing or invalid.
    pub(crate) fn resolve(&self) -> Result<Identity, IdentityRefusal<'c>> {
        match self {
            Self::Sources { scope, .. } => self.resolve_in(scope.clone()),
            Self::Signed(resolved) => resolved.clone(),
        }
    }

    /// Who it is in this scope.
    ///
    /// # Errors
    /// As for [`Caller::resolve`].
    pub(crate) fn resolve_in(&self, scope: Option<Project>) -> Result<Identity, IdentityRefusal<'c>> {
        match self {
            Self::Sources { sources, reserved, holder, headers, attributes, .. } => {
                let rules = Rules { scope, reserved, holder: holder.as_deref() };
                identity::resolve(sources, &rules, headers, *attributes)
            }
            Self::Signed(resolved) => resolved.clone(),
        }
    }
}

/// The project segment of a scope wider than a project.
pub(crate) const fn wider_scope(scope: Scope) -> Option<Project> {
    match scope {
        Scope::Project => None,
        Scope::Tenant => Some(Project::Tenant),
        Scope::Platform => Some(Project::Platform),
    }
}

impl Exchange {
    /// Reads the identity of a request that was decided without one, by the rules of its route: its record has it.
    pub(crate) fn identify(&mut self, policy: &Policy, headers: &Headers<'_>, attributes: &dyn Attributes) {
        let route = self.route(policy);
        // Who sends a webhook or a signed request is known when its signature is verified, and not before.
        let is_signed = |route: &Route| route.webhook.is_some() || policy.signers(route, headers).next().is_some();
        if self.problem().is_some_and(Problem::is_about_identity) || route.is_some_and(is_signed) {
            return;
        }
        // If the route needs no identity, its headers may be the client's own.
        let needs_identity =
            route.is_some_and(|route| matches!(route.policy, PolicyKind::RequiredA | PolicyKind::Accepted));
        if !needs_identity && policy.identity_of(route).sources.iter().any(IdentitySource::has_header) {
            return;
        }
        let identity = Caller::of(self, policy, route, headers, attributes).resolve();
        self.facts.verified_identity = identity.ok();
    }

    /// The sources that the identity of this request's caller is read from, for `explain`. A webhook has none, since its
    /// identity comes from its binding; nor has a request whose path no route has.
    pub fn identity_sources<'p>(&self, policy: &'p Policy, headers: &Headers<'_>) -> &'p [IdentitySource] {
        if self.place == Place::Operation {
            return &policy.identity_of(None).sources;
        }
        let Some(route) = self.route(policy).filter(|route| route.webhook.is_none()) else { return &[] };
        match policy.signers(route, headers).next() {
            Some(caller) => policy.caller_source(caller).map(std::slice::from_ref).unwrap_or_default(),
            None => &policy.identity_of(Some(route)).sources,
        }
    }
}
