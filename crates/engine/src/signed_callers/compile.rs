//! Signed callers: the routes that they may call, and the checks that no signature and no key has two meanings.

use super::document::{CallerHeaders, SignedCaller};
use crate::identity::{IdentityPlace, IdentitySource, Subject, SubjectRule};
use crate::json::cursor::{child, suggestion};
use crate::policy::compile::{Compiler, methods_of};
use crate::policy::document::{IdentityRules, KeySubject, RouteDocument};
use crate::policy::{PolicyKind, Route};

/// The defaults of `identity.forward`.
const TENANT_HEADER: &str = "x-tenant-id";
const PROJECT_HEADER: &str = "x-project-id";

impl Compiler<'_> {
    /// The headers in which signed callers name tenant and project, the same as those for the backend
    /// (`identity.forward`). `None` without signed callers.
    #[inline(never)]
    pub(crate) fn caller_headers(&self) -> Option<CallerHeaders> {
        if self.document.callers.is_empty() {
            return None;
        }
        let forward = self.document.identity.as_ref().map(|identity| &identity.forward);
        let name = |header: Option<&String>, default: &str| header.map_or(default, String::as_str).to_owned();
        Some(CallerHeaders {
            tenant: name(forward.and_then(|forward| forward.tenant.as_ref()), TENANT_HEADER),
            project: name(forward.and_then(|forward| forward.project.as_ref()), PROJECT_HEADER),
        })
    }

    /// The subjects of webhooks and of signed callers, which no identity source may give. Another gateway before the same backend may
    /// take webhooks, so theirs is one of them in every policy.
    pub(crate) fn reserved_subjects(&self) -> Vec<String> {
        let callers = self.document.callers.iter().map(|caller| caller.subject.clone());
        std::iter::once(Subject::webhooks()).chain(callers).map(|subject| subject.as_str().to_owned()).collect()
    }

    /// For each caller, where its identity stands: tenant and project in headers that it signs, the subject in the
    /// document.
    pub(crate) fn caller_sources(&self, headers: Option<&CallerHeaders>) -> Vec<IdentitySource> {
        let source = |(caller, headers): (&SignedCaller, &CallerHeaders)| IdentitySource {
            name: caller.name.clone(),
            tenant: IdentityPlace::Header(headers.tenant.clone()),
            project: Some(IdentityPlace::Header(headers.project.clone())),
            subject: SubjectRule { field: IdentityPlace::Constant(caller.subject.as_str().to_owned()), kind: None },
            api_key: None,
            #[cfg(feature = "needs")]
            origin: Default::default(),
        };
        self.document.callers.iter().zip(headers.into_iter().cycle()).map(source).collect()
    }

    /// Checks the callers, and adds their indices to the routes that they may call.
    #[inline(never)]
    pub(crate) fn callers(
        &mut self,
        headers: Option<&CallerHeaders>,
        identities: &[IdentityRules],
        routes: &mut [(usize, Route)],
    ) {
        let Some(headers) = headers else { return };
        let callers = self.document.callers.as_slice();
        for (id, caller) in callers.iter().enumerate() {
            let at = child("/callers", &caller.name);
            for gap in caller.signature.signature_gaps(&headers.tenant, &headers.project) {
                self.issues.add(format!("{at}/signature/template"), gap);
            }
            self.subject(&at, id, caller);
            self.one_route_per_signature(&at, caller);
            for (index, endpoint) in caller.routes.iter().enumerate() {
                let at = format!("{at}/routes/{index}");
                let found = routes.iter_mut().find(|(_, route)| route.endpoint == *endpoint);
                let Some((_, route)) = found else {
                    let known = self.document.routes.iter().map(|(_, route)| route.endpoint);
                    let near = suggestion(endpoint, known);
                    self.issues.add(at, format!("no route has the endpoint `{endpoint}`{near}"));
                    continue;
                };
                let is_allowed = matches!(route.policy, PolicyKind::RequiredA | PolicyKind::Accepted);
                if !is_allowed || route.webhook.is_some() {
                    self.issues.add(
                        at,
                        format!(
                            "signed callers send keys, so `{endpoint}` has to be a REQUIRED_A or ACCEPTED route \
                             without `webhook`"
                        ),
                    );
                } else if route.subject == KeySubject::None {
                    self.issues.add(
                        at,
                        format!(
                            "keys of a signed caller are its own, and all callers share those of `{endpoint}` (`\"subject\": \
                             \"none\"`): give the signed caller another route"
                        ),
                    );
                } else if route.callers.contains(&id) {
                    self.issues.add(at, format!("`{endpoint}` is listed twice"));
                } else {
                    self.shared_header(&at, caller, route);
                    self.contested_headers(headers, identities, &at, route);
                    route.callers.push(id);
                }
            }
        }
    }

    /// Reports two routes of a caller that differ in their hosts only, if the signature does not cover the host. One
    /// signed request could be sent to both routes with another `Host`.
    #[inline(never)]
    fn one_route_per_signature(&mut self, at: &str, caller: &SignedCaller) {
        let webhooks = self.document.webhooks.as_ref();
        let has_fixed_base = webhooks.is_some_and(|webhooks| webhooks.public_base_url.is_some());
        if caller.signature.signs_url() && !has_fixed_base {
            return;
        }
        let remedy = if has_fixed_base {
            "the signed URL begins with `public_base_url`, so it does not contain the host of the request"
        } else {
            "the signed text does not contain the host: sign `{url}` instead of `{path}`"
        };
        let routes = self.document.routes.iter().map(|(_, route)| route);
        let own: Vec<&RouteDocument> =
            routes.filter(|route| caller.routes.iter().any(|name| name == route.endpoint)).collect();
        for (index, route) in own.iter().enumerate() {
            let other = own.iter().take(index).find(|other| {
                let methods = methods_of(other);
                !same_hosts(&route.hosts, &other.hosts)
                    && route.template.meets(&other.template)
                    && methods_of(route).iter().any(|method| methods.contains(method))
            });
            if let Some(other) = other {
                let message = format!(
                    "`{}` and `{}` differ only in their hosts, so one signed request could be sent to both: {remedy}, or \
                     give the two routes different paths",
                    other.endpoint, route.endpoint
                );
                self.issues.add(format!("{at}/routes"), message);
            }
        }
    }

    /// Reports a subject that another caller or the webhooks have: each caller needs a namespace of its own.
    #[inline(never)]
    fn subject(&mut self, at: &str, id: usize, caller: &SignedCaller) {
        let taken = |other: String| {
            format!("{other} already has this subject, so keys of the two could be the same: choose another subject")
        };
        if let Some(other) = self.document.callers.iter().take(id).find(|other| other.subject == caller.subject) {
            self.issues.add(format!("{at}/subject"), taken(child("/callers", &other.name)));
        }
        if self.document.webhooks.as_ref().is_some_and(|webhooks| webhooks.subject == caller.subject) {
            self.issues.add(format!("{at}/subject"), taken("/webhooks".to_owned()));
        }
    }

    /// Reports two callers of one route with the same signature header, since the header tells the callers apart.
    #[inline(never)]
    fn shared_header(&mut self, at: &str, caller: &SignedCaller, route: &Route) {
        let own = caller.signature.signature_headers();
        let others = route.callers.iter().filter_map(|id| self.document.callers.get(*id));
        for other in others {
            if let Some(header) = other.signature.signature_headers().iter().find(|header| own.contains(header)) {
                let other = child("/callers", &other.name);
                let message = format!(
                    "on this route {other} also signs in `{header}`, so it would not be clear whose signature it is: \
                     choose another header"
                );
                self.issues.add(at, message);
            }
        }
    }

    /// Warns if an identity source reads a header that the caller signs. The filter that owns the header has to keep it
    /// in signed requests.
    #[inline(never)]
    fn contested_headers(&mut self, headers: &CallerHeaders, identities: &[IdentityRules], at: &str, route: &Route) {
        let rules = identities.get(route.identity);
        let contested = |name: &&str| [&headers.tenant, &headers.project].into_iter().any(|header| header == name);
        if let Some(name) = rules.and_then(|rules| rules.source_headers().find(contested)) {
            let message = format!(
                "an identity source reads `{name}` too: the filter that owns it has to leave it in requests that this caller \
                 signed, and to remove it from all others"
            );
            self.warnings.add(at, message);
        }
    }
}

/// Whether two lists name the same hosts.
fn same_hosts(one: &[String], other: &[String]) -> bool {
    let all_in = |one: &[String], other: &[String]| one.iter().all(|host| other.contains(host));
    all_in(one, other) && all_in(other, one)
}
