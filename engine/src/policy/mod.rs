//! The policy: compiles the bytes of a JSON document into a policy, or reports all of its errors.
//!
//! `document` reads the members and `compile` combines them. `authority`, `path`, `routes`, `recovery`, `operations` and
//! `target` evaluate requests, and `answer` maps responses.

pub(crate) mod answer;
pub(crate) mod authority;
pub(crate) mod collision;
mod compile;
pub(crate) mod document;
pub mod operations;
pub(crate) mod path;
pub(crate) mod recovery;
pub(crate) mod routes;
mod secrets;
pub(crate) mod target;
pub(crate) mod template;
mod text_index;

pub use crate::backend::BackendKind;
pub use document::{Answers, KeyInLogs, Mode, PolicyKind, Scope, Secret, Unmatched, parse_duration};
pub use path::{NormalPath, PathError, split_query};
pub use routes::RouteId;
pub use secrets::SecretList;
pub use target::{HandlerAddress, Target};
pub use template::Template;

use crate::backend::Backend;
use crate::headers::{NameGate, NameSet};
use crate::identity::{AttributeValue, Attributes, IdentitySource, Subject};
use crate::json::Issue;
use crate::key::KeyRules;
use crate::percent::is_below;
use crate::provider::Provider;
use crate::waits::WaitLimits;
use answer::AnswerMapping;
use collision::{CollisionRules, GuardService};
use document::{
    Binding, CallerHeaders, Forward, IdentityRules, InvocationStore, OpenBao, RecoverySettings, SignedCaller, Unkey,
    WebhookBlock,
};
use operations::Operations;
use routes::{PathLookup, RouteTable};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use text_index::TextIndex;

/// Set on requests that the filter rewrote to a target, and on no other (docs/contract.md section 2).
pub const REWRITE_MARK: &str = "x-edge-idempotency";

/// The space of endpoints in [`Policy::names`].
const ENDPOINTS: usize = 0;
/// The space of services that are closed to clients; the number says how.
const SERVICES: usize = 1;
/// A service whose paths are closed.
const CLOSED: usize = 0;
/// A service whose paths are closed unless a route declares them.
const CLOSED_UNDECLARED: usize = 1;

/// A compiled policy, in the form that requests need.
#[derive(Debug)]
pub struct Policy {
    /// What happens to requests that no route declares.
    unmatched: Unmatched,
    /// The document's mode, for requests that no route declares.
    mode: Mode,
    /// The maximum number of metric series of one VM.
    max_series: usize,
    /// How problem documents are written, and what errors say besides.
    answers: Answers,
    /// How keys appear in logs.
    key_in_logs: KeyInLogs,
    /// Warnings for the log at start.
    warnings: Vec<Issue>,
    /// Identity rules: the document's first, then those of routes.
    identities: Vec<IdentityRules>,
    /// Subjects that no identity source may give.
    reserved_subjects: Vec<String>,
    routes: Vec<Route>,
    table: RouteTable,
    /// The routes by their endpoints, in the space [`ENDPOINTS`]; and the first path segments that are closed to clients, in
    /// the space [`SERVICES`]
    names: TextIndex,
    /// Path prefixes closed to clients, without a trailing slash.
    reserved_paths: Vec<String>,
    /// Request headers that are removed before the backend.
    strip: NameSet,
    /// Lets the names of request headers pass that concern the filter.
    request_names: NameGate,
    /// Names of request headers that the backend gets although the filter would remove them; lower case.
    keep_headers: Vec<String>,
    /// Whether routes of the gateway may name endpoints.
    gateway_routes: bool,
    /// The backend of every route.
    backend: Backend,
    /// Callers that sign their requests.
    callers: Vec<SignedCaller>,
    /// The headers in which signed callers name tenant and project; `None` without signed callers.
    caller_headers: Option<CallerHeaders>,
    /// For each signed caller, where its identity stands.
    caller_sources: Vec<IdentitySource>,
    /// Whether a key is removed, and not refused, on a request that no route declares.
    strips_prohibited: bool,
    /// `recovery`
    recovery: RecoverySettings,
    /// Bindings of webhook ids.
    bindings: BTreeMap<String, Arc<Binding>>,
    /// Where the ids of invocations are looked up; `None` if no route's results are found by id.
    invocations: Option<InvocationStore>,
    /// The operations that callers can ask for.
    operations: Option<Operations>,
    /// The guard; `None` if no route detects collisions.
    guard: Option<GuardService>,
    /// The store of bindings that the document does not list.
    unkey: Option<Unkey>,
    /// The store of secrets that bindings do not list.
    openbao: Option<OpenBao>,
    /// The providers that bindings may name.
    providers: BTreeMap<String, Provider>,
    /// The subject of webhook keys; `None` without webhooks.
    webhook_subject: Option<Subject>,
    /// The API's public URL without a path, if the document has it.
    public_base_url: Option<String>,
}

/// A compiled route.
#[derive(Debug)]
pub struct Route {
    /// Its index
    pub id: RouteId,
    /// Its name in metrics, logs and gateway routes
    pub endpoint: String,
    /// Its path
    pub template: Template,
    /// Its methods, `HEAD` included where `GET` is
    pub methods: Arc<[String]>,
    /// The policy
    pub policy: PolicyKind,
    /// The target, if the path is rewritten
    pub target: Option<Arc<Target>>,
    /// How it detects that a key comes again with another request
    pub(crate) collision: Option<Box<CollisionRules>>,
    /// The target that is asked whether the first request with a key is in flight, if duplicates are refused then
    pub(crate) in_flight: Option<Arc<Target>>,
    /// The target whose stored results callers can recover
    pub recovery: Option<Arc<Target>>,
    /// The scope of its keys
    pub scope: Scope,
    /// Whether decisions have an effect
    pub mode: Mode,
    /// The index of its identity rules
    identity: usize,
    /// Query parameters that reach the target
    pub query: Vec<String>,
    /// Whether the response comes before the work is done
    pub one_way: bool,
    /// The webhook, if the route takes deliveries
    pub webhook: Option<WebhookBlock>,
    /// The signed callers that may call it, as indices
    pub callers: Vec<usize>,
    /// The longest body that is buffered, in bytes
    pub max_body_bytes: u64,
    /// The rules for clients' keys; `None` if the grammar is all
    pub key: Option<Arc<KeyRules>>,
    /// Whether a key is removed, and not refused, on a `PROHIBITED` route
    pub strips_prohibited: bool,
    /// The headers that carry the path's parameters to the backend, in the order of the parameters; lower case. Empty
    /// without `forward.parameters`
    pub parameter_headers: Vec<String>,
    /// What becomes of the target's answers with status 200
    pub(crate) answer: Option<AnswerMapping>,
    /// Whether the value of a path parameter may contain `%2F`
    pub encoded_slash: bool,
    /// Whether errors in JSON lose stack traces and paths of files, if the route says so itself
    pub(crate) clean_errors: Option<bool>,
}

/// All errors of a policy document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyErrors(pub Vec<Issue>);

impl PolicyErrors {
    /// A heading with the number of errors.
    pub fn headline(&self) -> String {
        let count = self.0.len();
        format!("the policy document has {count} error{}:", if count == 1 { "" } else { "s" })
    }
}

impl fmt::Display for PolicyErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.headline())?;
        self.0.iter().try_for_each(|issue| write!(f, "\n  {issue}"))
    }
}

impl std::error::Error for PolicyErrors {}

/// The result of a lookup in the route table.
#[derive(Debug)]
pub enum RouteLookup<'p, 'r> {
    /// The route and the values of its path parameters, still percent-encoded.
    Route(&'p Route, Vec<&'r str>),
    /// The path has routes, but none for the method; the methods that it has.
    OtherMethods(Vec<&'p str>),
    /// No route has this path.
    Nothing,
    /// The path differs from one with other routes in letter case or in escapes only, so a backend could read that one.
    OtherReading,
}

impl Policy {
    /// What happens to requests that no route declares.
    pub(crate) fn unmatched(&self) -> Unmatched {
        self.unmatched
    }

    /// The document's mode, for requests that no route declares.
    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// How problem documents are written, and what errors say besides.
    pub const fn answers(&self) -> &Answers {
        &self.answers
    }

    /// The maximum number of metric series of one VM.
    pub fn max_series(&self) -> usize {
        self.max_series
    }

    /// The backend of a route, or of requests that no route declares.
    pub(crate) fn backend_of(&self, _route: Option<&Route>) -> &Backend {
        &self.backend
    }

    /// Whether errors in JSON lose stack traces and paths of files, on this route or where no route was found.
    pub(crate) fn cleans_errors(&self, route: Option<&Route>) -> bool {
        let said = route.and_then(|route| route.clean_errors).or(self.answers.clean_errors);
        said.unwrap_or_else(|| self.backend_of(route).cleans_errors())
    }

    /// How keys appear in logs.
    pub fn key_in_logs(&self) -> KeyInLogs {
        self.key_in_logs
    }

    /// Warnings for the log at start.
    pub fn warnings(&self) -> &[Issue] {
        &self.warnings
    }

    /// Subjects that no identity source may give.
    pub(crate) fn reserved_subjects(&self) -> &[String] {
        &self.reserved_subjects
    }

    /// Request headers that are removed before the backend.
    pub(crate) fn strip(&self) -> &NameSet {
        &self.strip
    }

    /// Lets the names of request headers pass that concern the filter.
    pub(crate) fn request_names(&self) -> &NameGate {
        &self.request_names
    }

    /// Whether the backend gets a header with this very name although the filter would remove it.
    pub(crate) fn keeps_header(&self, name: &[u8]) -> bool {
        self.keep_headers.iter().any(|kept| kept.as_bytes() == name)
    }

    /// The endpoint that the gateway's route names. A host is asked only if the document says `gateway_routes`.
    pub(crate) fn named_endpoint<'a>(&self, attributes: &'a dyn Attributes) -> AttributeValue<'a> {
        if self.gateway_routes { attributes.route_endpoint() } else { AttributeValue::Absent }
    }

    /// Callers that sign their requests.
    pub(crate) fn callers(&self) -> &[SignedCaller] {
        &self.callers
    }

    /// The headers in which signed callers name tenant and project; `None` without signed callers.
    pub(crate) fn caller_headers(&self) -> Option<&CallerHeaders> {
        self.caller_headers.as_ref()
    }

    /// Where the identity of a signed caller stands.
    pub(crate) fn caller_source(&self, caller: usize) -> Option<&IdentitySource> {
        self.caller_sources.get(caller)
    }

    /// Whether a key is removed, and not refused, on a request that no route declares.
    pub(crate) fn strips_prohibited(&self) -> bool {
        self.strips_prohibited
    }

    /// The maximum wait of a recovery request, in milliseconds.
    pub(crate) fn recovery_wait_ms(&self) -> u64 {
        self.recovery.wait_ms
    }

    /// How many requests may wait for results at once.
    pub(crate) fn wait_limits(&self) -> WaitLimits {
        self.recovery.limits
    }

    /// Where the ids of invocations are looked up; `None` if no route's results are found by id.
    pub(crate) fn invocations(&self) -> Option<&InvocationStore> {
        self.invocations.as_ref()
    }

    /// The guard; `None` if no route detects collisions.
    pub(crate) fn guard(&self) -> Option<&GuardService> {
        self.guard.as_ref()
    }

    /// The store of bindings that the document does not list.
    pub(crate) fn unkey(&self) -> Option<&Unkey> {
        self.unkey.as_ref()
    }

    /// The store of secrets that bindings do not list.
    pub(crate) fn openbao(&self) -> Option<&OpenBao> {
        self.openbao.as_ref()
    }

    /// The subject of webhook keys; `None` without webhooks.
    pub(crate) fn webhook_subject(&self) -> Option<&Subject> {
        self.webhook_subject.as_ref()
    }

    /// The API's public URL without a path, if the document has it.
    pub(crate) fn public_base_url(&self) -> Option<&str> {
        self.public_base_url.as_deref()
    }

    /// The binding of a webhook id that the document lists.
    pub(crate) fn binding(&self, webhook_id: &str) -> Option<&Arc<Binding>> {
        self.bindings.get(webhook_id)
    }

    /// A provider that bindings or routes name.
    pub fn provider(&self, name: &str) -> Option<&Provider> {
        self.providers.get(name)
    }

    /// Compiles a policy document.
    ///
    /// # Errors
    /// All errors of the document, each with its JSON pointer.
    pub fn from_json(document: &[u8]) -> Result<Self, PolicyErrors> {
        compile::compile(document)
    }

    /// A summary for the log at start.
    pub fn summary(&self) -> String {
        let shadow = self.routes.iter().filter(|route| route.mode == Mode::Shadow).count();
        let count = self.routes.len();
        let callers = match self.callers.len() {
            0 => String::new(),
            1 => ", 1 signed caller".to_owned(),
            callers => format!(", {callers} signed callers"),
        };
        format!("policy with {count} route{}, {shadow} in shadow mode{callers}", if count == 1 { "" } else { "s" })
    }

    /// The identity rules of a route, or those of the document for unmatched requests.
    pub fn identity_of(&self, route: Option<&Route>) -> &IdentityRules {
        static NONE: IdentityRules = IdentityRules {
            sources: Vec::new(),
            forward: Forward { tenant: None, project: None, subject: None },
            types: Vec::new(),
        };
        self.identities.get(route.map_or(0, |route| route.identity)).unwrap_or(&NONE)
    }

    /// A route by its index.
    pub fn route(&self, id: RouteId) -> Option<&Route> {
        self.routes.get(id)
    }

    /// A route by its endpoint.
    pub fn endpoint(&self, name: &str) -> Option<&Route> {
        self.routes.get(self.names.get(ENDPOINTS, name)?)
    }

    /// Whether `path` (normalised) is closed to clients, whatever routes there are.
    pub fn is_closed(&self, path: &str) -> bool {
        self.reserved_paths.iter().any(|prefix| is_below(path, prefix)) || self.closed_service(path) == Some(CLOSED)
    }

    /// Whether `path` (normalised) is closed to clients unless a route declares it.
    pub fn is_closed_undeclared(&self, path: &str) -> bool {
        self.closed_service(path).is_some()
    }

    /// Whether `path` (normalised), which the backend gets as it is, is that of a closed service for a backend that ignores letter
    /// case.
    pub fn is_closed_respelled(&self, path: &str) -> bool {
        let is_service = |first: &str| self.names.find(SERVICES, first).is_some();
        self.backend.may_ignore_case() && path::segments(path).next().is_some_and(is_service)
    }

    /// How the paths of the service are closed that the first segment of a path names.
    fn closed_service(&self, path: &str) -> Option<usize> {
        self.names.get(SERVICES, path::segments(path).next()?)
    }

    /// Whether an authority is another spelling of a host that routes are declared for.
    pub(crate) fn is_respelled(&self, authority: &str) -> bool {
        self.table.is_respelled(authority)
    }

    /// Finds the route for an authority, a normalised path and a method.
    pub fn declared<'r>(&self, authority: &str, path: &'r str, method: &[u8]) -> RouteLookup<'_, 'r> {
        let PathLookup { found, has_other_reading } = self.table.find(authority, path);
        // A path that is not forwarded is read by nobody else.
        let is_forwarded = found.is_some() || self.unmatched != Unmatched::Reject;
        if has_other_reading && is_forwarded {
            return RouteLookup::OtherReading;
        }
        let Some(found) = found else { return RouteLookup::Nothing };
        self.by_method(found.routes.iter().filter_map(|id| self.routes.get(*id)), found.values, method)
    }

    /// Finds the route by the endpoint that the gateway names; `None` for an unknown endpoint. If the route's template
    /// has parameters, or the path leads to a service that is closed unless a route declares it, the path has to match
    /// the template.
    pub fn named<'r>(
        &self,
        endpoint: &[u8],
        (authority, path): (&str, &'r str),
        method: &[u8],
    ) -> Option<RouteLookup<'_, 'r>> {
        let endpoint = std::str::from_utf8(endpoint).ok()?;
        let route = self.endpoint(endpoint)?;
        if self.table.find(authority, path).has_other_reading {
            return Some(RouteLookup::OtherReading);
        }
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
        let listed = |route: &&Route| route.methods.iter().any(|listed| listed.as_bytes() == method);
        match routes.clone().find(listed) {
            Some(route) => RouteLookup::Route(route, values),
            None => {
                RouteLookup::OtherMethods(routes.flat_map(|route| route.methods.iter()).map(String::as_str).collect())
            }
        }
    }
}
