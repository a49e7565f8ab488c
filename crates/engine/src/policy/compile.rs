//! Compiles a document into a policy: combines its members, and reports every combination that is not possible.

mod answer;
pub(crate) mod backends;
mod identity;
mod key_headers;
mod keys;
mod parameters;
mod readings;

use super::document::{Document, IdentityRules, Mode, RouteDocument, Scope, Unmatched};
use super::route_table::RouteTable;
use super::target::{IDENTITY_NAMES, Target};
use super::text_index::TextIndex;
use super::{ENDPOINTS, Policy, PolicyErrors, Route};
use crate::backend::Backend;
use crate::headers::{NamePrefilter, NameSet, REQUEST_NAMES};
use crate::json::cursor::{Issue, Issues, JsonCursor};
use crate::json::{Json, syntax_error};
use crate::percent::is_below;
use crate::recovery::SEGMENT;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The method of a route that lists none.
const DEFAULT_METHOD: &str = "POST";

/// Compiles a document.
#[inline(never)]
pub(super) fn compile(document: &[u8]) -> Result<Policy, PolicyErrors> {
    let json = parse(document)?;
    let (document, policy) = read(&json)?;
    #[cfg(feature = "describe")]
    let needs = super::needs::PolicyNeeds::of(&document, &policy);
    let bindings = document.webhooks.map(|webhooks| webhooks.bindings).unwrap_or_default();
    Ok(Policy {
        callers: document.callers,
        bindings,
        #[cfg(feature = "describe")]
        needs,
        ..policy
    })
}

/// The text of a document as JSON.
#[inline(never)]
pub(super) fn parse(document: &[u8]) -> Result<Json<'_>, PolicyErrors> {
    Json::parse(document).map_err(|error| {
        let message = format!("not a JSON document: {}", syntax_error::reason(document, &error));
        PolicyErrors(vec![Issue { pointer: String::new(), message }])
    })
}

/// A document without errors, and its policy, which lacks the callers and bindings of the document.
#[inline(never)]
pub(super) fn read<'j>(json: &'j Json<'j>) -> Result<(Document<'j>, Policy), PolicyErrors> {
    let mut issues = Issues::default();
    let mut document = Document::read(&JsonCursor::root_without_pointers(json), &mut issues);
    if !issues.0.is_empty() {
        issues = Issues::default();
        document = Document::read(&JsonCursor::root(json), &mut issues);
    }
    let mut warnings = Issues::default();
    let policy = Compiler { document: &document, issues: &mut issues, warnings: &mut warnings }.run();
    if !issues.0.is_empty() {
        return Err(PolicyErrors(issues.0));
    }
    Ok((document, Policy { warnings: warnings.0, ..policy }))
}

pub(crate) struct Compiler<'d> {
    pub(crate) document: &'d Document<'d>,
    pub(crate) issues: &'d mut Issues,
    pub(crate) warnings: &'d mut Issues,
}

impl Compiler<'_> {
    #[inline(never)]
    fn run(mut self) -> Policy {
        let document = self.document;
        let default = &document.backends.default;
        if default.is_known && default.rewrite_path && document.unmatched != Unmatched::Reject {
            self.issues.add(
                "/unmatched",
                "`rewrite_path` needs `REJECT`: with another value, undeclared paths would reach the backend",
            );
        }
        self.check_backends();
        let mut backends: Vec<Backend> = document.backends.iter().map(|backend| self.backend(backend)).collect();
        let mut identities = vec![document.identity.clone().unwrap_or_default()];
        let mut table = RouteTable::with_capacity(document.routes.len());
        let mut names = TextIndex::with_capacity(document.routes.len() * 2);
        let mut routes: Vec<(usize, Route)> = Vec::with_capacity(document.routes.len());
        let default_methods: Arc<[String]> = Arc::new([DEFAULT_METHOD.to_owned()]);
        for (index, declared) in &document.routes {
            let parameters: Vec<&str> = declared.template.parameters().collect();
            let target = self.target(*index, declared, &parameters).map(Arc::new);
            self.check(*index, declared);
            self.check_keys(*index, declared, target.as_deref());
            self.check_lost(*index, declared, target.as_deref(), &parameters);
            self.check_collision(*index, declared, target.as_deref());
            self.check_members(*index, declared, target.as_deref());
            self.check_api_key(*index, declared);
            if let Some(first) = names.insert(ENDPOINTS, declared.endpoint, routes.len()) {
                let first = routes.get(first).map_or(0, |(index, _)| *index);
                let message = format!(
                    "the endpoint `{}` is already declared at /routes/{first}: give one of the two another name",
                    declared.endpoint
                );
                self.issues.add(format!("/routes/{index}/endpoint"), message);
            }
            let methods = match &declared.methods {
                Some(_) => methods_of(declared).into(),
                None => Arc::clone(&default_methods),
            };
            self.declare(&mut table, *index, declared, &methods, &routes);
            let backend = self.backend_index(declared);
            let closed = backends.get(backend).map(|backend| backend.reserved_paths.as_slice()).unwrap_or_default();
            self.open_path(|| format!("/routes/{index}/path"), declared.template.as_str(), closed);
            let identity = declared.identity.as_ref().map_or(0, |rules| {
                identities.push(rules.clone());
                identities.len() - 1
            });
            let route = Route {
                id: routes.len(),
                endpoint: declared.endpoint.to_owned(),
                template: declared.template.clone(),
                methods,
                policy: declared.policy,
                members: declared.members.clone(),
                collision: self.collision_rules(declared, target.as_ref(), backends.get(backend)),
                in_flight: target.clone().filter(|_| declared.in_flight_conflict),
                recovery: target.clone().filter(|_| self.recovers(declared)),
                target: target.filter(|_| document.backends.get(backend).rewrite_path),
                backend,
                mode: declared.mode.unwrap_or(document.mode),
                identity,
                callers: Vec::new(),
                acknowledges: declared.acknowledges.unwrap_or_default(),
                key: self.key_rules(declared),
                parameter_headers: self.parameter_headers(declared),
                answer: self.answer(*index, declared),
                internal_hit: self.internal_hit(*index, declared),
                api_key: declared.api_key.clone().unwrap_or_default(),
            };
            routes.push((*index, route));
        }
        if table.has_text(SEGMENT) {
            self.recovery_paths(&routes);
        }
        self.check_scopes();
        let reserved_subjects = self.reserved_subjects();
        self.check_constant_subjects(&reserved_subjects);
        self.closed_services(&routes, &mut names, &backends);
        self.encoded_slashes(&routes, &backends, &names);
        let operations = self.operations(&routes, &backends, &names);
        let caller_headers = self.caller_headers();
        self.callers(caller_headers.as_ref(), &identities, &mut routes);
        self.check_key_header(&identities, caller_headers.as_ref());
        let only_watches = document.mode == Mode::Shadow && self.watches(&identities, &routes, &backends);
        self.hosts_warning();
        self.check_retry_headers();
        let providers = self.providers();
        self.check_signed_members(&routes, &providers);
        let places = document.key_places();
        self.check_key_headers(&identities, caller_headers.as_ref(), &providers, &places);
        let mut removed = document.written_headers(&identities);
        // Each name once: a request in shadow mode goes through all of them.
        let mut key_places: Vec<String> = Vec::new();
        for (_, name) in &places {
            if key_places.iter().all(|known| known != name) {
                key_places.push((*name).to_owned());
            }
        }
        let written = removed.len();
        removed.extend(key_places.iter().cloned());
        for (declared, backend) in document.backends.iter().zip(&mut backends) {
            backend.strip = self.strip(declared, &identities, caller_headers.as_ref(), &providers, &removed);
            backend.hide(declared.hide_headers.iter().chain(removed.iter().take(written)));
        }
        self.check_compared_headers(&routes, &backends);
        self.check_clusters(&routes);
        let mut stripped = NameSet::default();
        backends.iter().for_each(|backend| stripped.extend(&backend.strip));
        let request_names = NamePrefilter::new(&stripped, &REQUEST_NAMES);
        let asks = |route: &Route| {
            route.collision.is_some() || route.recovery.is_some() || route.in_flight.is_some() || route.one_way
        };
        let asks_backends = routes.iter().any(|(_, route)| asks(route));
        let mut backends = backends.into_iter();
        Policy {
            asks_backends,
            key_places,
            key: document.key.clone(),
            request_names,
            members: document.members.clone(),
            only_watches,
            warnings: Vec::new(),
            identities,
            reserved_subjects,
            operations,
            routes: routes.into_iter().map(|(_, route)| route).collect(),
            table,
            names,
            backend: backends.next().unwrap_or_default(),
            other_backends: backends.collect(),
            callers: Vec::new(),
            caller_sources: self.caller_sources(caller_headers.as_ref()),
            caller_headers,
            bindings: BTreeMap::new(),
            providers,
            webhook_subject: document.webhooks.as_ref().map(|webhooks| webhooks.subject.clone()),
            unkey: document.webhooks.as_ref().and_then(|webhooks| webhooks.unkey.clone()),
            key_registry: document.identity.as_ref().and_then(IdentityRules::key_registry),
            openbao: document.webhooks.as_ref().and_then(|webhooks| webhooks.openbao.clone()),
            public_base_url: document.webhooks.as_ref().and_then(|webhooks| webhooks.public_base_url.clone()),
            #[cfg(feature = "describe")]
            needs: super::needs::PolicyNeeds::default(),
        }
    }

    /// The route's target, checked against its path, scope and policy.
    #[inline(never)]
    fn target(&mut self, index: usize, route: &RouteDocument, parameters: &[&str]) -> Option<Target> {
        let text = route.target.as_ref()?;
        let pointer = || format!("/routes/{index}/target");
        let target = match Target::parse(text, parameters, route.one_way, self.backend_of(route).kind) {
            Ok(target) => target,
            Err(message) => {
                self.issues.add(pointer(), message);
                return None;
            }
        };
        if let Some(name) = parameters.iter().find(|name| IDENTITY_NAMES.contains(name)) {
            let message =
                format!("in a target, `{{{name}}}` means the caller's {name}: give the parameter another name");
            self.issues.add(format!("/routes/{index}/path"), message);
        }
        if target.needs_project() && route.scope != Scope::Project {
            self.issues.add(
                pointer(),
                "the target names `{project}`, but with the route's `scope` a caller needs no project: change the \
                 scope to `project`, or the target",
            );
        }
        if target.needs_identity() && route.webhook.is_none() && !self.has_identity(route) {
            self.issues.add(
                pointer(),
                "the target names tenant, project or subject: add `identity`, which says where they come from",
            );
        }
        Some(target)
    }

    fn has_identity(&self, route: &RouteDocument) -> bool {
        // An `identity` without a valid source has its own issue.
        route.identity.is_some() || self.document.identity.is_some() || self.document.is_signed(route.endpoint)
    }

    /// Reports members of one route that contradict each other.
    #[inline(never)]
    fn check(&mut self, index: usize, route: &RouteDocument) {
        let at = |member: &str| format!("/routes/{index}/{member}");
        let (policy, backend) = (route.policy, self.backend_of(route));
        self.check_webhook(index, route);
        if policy.is_case_a() && route.webhook.is_none() && !self.has_identity(route) {
            let message = format!(
                "`{}` puts the caller's identity into keys: add `identity`, which says where it comes from \
                 (docs/identity.md has examples)",
                policy.name()
            );
            self.issues.add(at("policy"), message);
        }
        self.check_recovery(index, route);
        self.check_in_flight(index, route);
        let reads = |method: &str| matches!(method, "GET" | "HEAD");
        let writing: Vec<&str> =
            route.methods.iter().flatten().map(|method| method.0.as_str()).filter(|method| !reads(method)).collect();
        if route.target.is_some() && writing.len() > 1 {
            let message = format!(
                "{} share one `target`, and the backend stores a result under service, handler and key, whatever the \
                 method: a caller would get the result of one for the other. Keep one of these methods (besides GET and \
                 HEAD), and give each of the others a route with its own `target`",
                writing.join(" and ")
            );
            self.issues.add(at("methods"), message);
        }
        if route.one_way && route.target.is_none() {
            self.issues.add(at("one_way"), "a one-way route needs a `target` to send to");
        } else if route.one_way && !backend.abilities().takes_one_way {
            self.issues.add(at("one_way"), "only a backend of kind `restate` takes one-way requests");
        }
        let is_rewritten = backend.rewrite_path && route.target.is_some();
        if !is_rewritten && !route.query.is_empty() {
            self.issues
                .add(at("query"), "`query` works only on a route with a `target`, and with `\"rewrite_path\": true`");
        }
    }

    /// Inserts the route into the table, once for each host, and reports earlier routes with the same host and path.
    #[inline(never)]
    fn declare(
        &mut self,
        table: &mut RouteTable,
        index: usize,
        route: &RouteDocument,
        methods: &[String],
        earlier: &[(usize, Route)],
    ) {
        let everywhere = route.hosts.is_empty().then_some(None);
        let hosts = route.hosts.iter().map(|host| Some(host.as_str())).chain(everywhere);
        let recovers = self.recovers(route);
        let (mut reported, mut shared_recovery) = (Vec::new(), Vec::new());
        for host in hosts {
            for other in table.insert(host, &route.template, earlier.len()) {
                let Some((other_index, other)) = earlier.get(other) else { continue };
                let is_new = !shared_recovery.contains(other_index);
                if is_new && recovers && other.recovery.is_some() {
                    self.shares_recovery(index, *other_index, other);
                    shared_recovery.push(*other_index);
                }
                let shared: Vec<&str> =
                    methods.iter().filter(|method| other.methods.contains(method)).map(String::as_str).collect();
                if !shared.is_empty() && !reported.contains(other_index) {
                    let message = format!(
                        "`{}` takes the same requests ({}) as `{}`, {} of /routes/{other_index}",
                        route.template,
                        shared.join(", "),
                        other.template,
                        other.endpoint
                    );
                    self.issues.add(format!("/routes/{index}/path"), message);
                    reported.push(*other_index);
                }
            }
        }
        self.check_alike(index, table, earlier);
    }

    /// Reports a path of the document, at `pointer`, that is closed to clients.
    #[inline(never)]
    pub(crate) fn open_path(&mut self, pointer: impl Fn() -> String, path: &str, reserved_paths: &[String]) {
        if let Some(prefix) = reserved_paths.iter().find(|prefix| is_below(path, prefix)) {
            let message = format!("`{prefix}` is closed to clients (`reserved_paths`, or the backend's own paths)");
            self.issues.add(pointer(), message);
        }
    }

    /// Warns operators who use `hosts`: the gateway has to normalise the authority before any rule reads it.
    #[inline(never)]
    fn hosts_warning(&mut self) {
        let with_hosts = self.document.routes.iter().filter(|(_, route)| !route.hosts.is_empty());
        let endpoints: Vec<&str> = with_hosts.map(|(_, route)| route.endpoint).collect();
        let Some((first, others)) = endpoints.split_first() else { return };
        let others = if others.is_empty() { String::new() } else { format!(" and {} more routes", others.len()) };
        self.warnings.add(
            "/routes",
            format!(
                "`hosts` is set on `{first}`{others}: set `strip_any_host_port: true` and `strip_trailing_host_dot: \
                 true` on the gateway's connection manager, because without them a host with a port or a final dot is \
                 another host"
            ),
        );
    }

    /// Reports headers of the retry advice that the backend's part of the document uses for something else.
    #[inline(never)]
    fn check_retry_headers(&mut self) {
        for backend in self.document.backends.iter() {
            let used: Vec<&String> = backend.operation_id.iter().chain(&backend.replay_headers).collect();
            for name in self.document.answers.retry_headers.iter().filter(|name| used.contains(name)) {
                let own = backend.pointer("");
                let message = format!("{own} already uses the header `{name}`: choose another one for the advice");
                self.issues.add("/retry_headers", message);
            }
        }
    }
}

/// The methods of a route. `GET` includes `HEAD` (RFC 9110 section 9.3.2).
#[inline(never)]
pub(crate) fn methods_of(route: &RouteDocument) -> Vec<String> {
    let mut methods: Vec<String> = Vec::new();
    let Some(declared) = &route.methods else { return vec![DEFAULT_METHOD.to_owned()] };
    for method in declared {
        let head = (method.0 == "GET").then_some("HEAD");
        for name in [method.0.as_str()].into_iter().chain(head) {
            if !methods.iter().any(|known| known == name) {
                methods.push(name.to_owned());
            }
        }
    }
    methods
}
