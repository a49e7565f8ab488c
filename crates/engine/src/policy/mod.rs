//! The policy: compiles the bytes of a JSON document into a policy, or reports all of its errors.
//!
//! `document` reads the members and `compile` combines them; the folders of features have their parts of both. `find` says what a
//! request needs of the policy, with `authority`, `path`, `route_table` and `target`; `answer` maps responses. `secrets` reads the
//! secrets that the document names.

pub(crate) mod answer;
pub(crate) mod authority;
pub(crate) mod compile;
pub mod defaults;
pub(crate) mod document;
mod find;
pub(crate) mod members;
#[cfg(feature = "needs")]
pub mod needs;
pub(crate) mod path;
mod route;
pub(crate) mod route_table;
#[cfg(feature = "describe")]
mod schema;
mod secrets;
pub(crate) mod target;
pub(crate) mod template;
pub(crate) mod text_index;

pub use crate::backend::{BackendAbilities, BackendKind, OPERATION_ID};
use crate::key::KeyRules;
pub use document::{
    Answers, DocumentMembers, KeyInLogs, KeySubject, LiveSecret, Mode, PolicyKind, Scope, Secret, SecretReader,
    Unmatched, parse_duration,
};
pub use find::{RequestUrl, RouteLookup};
pub use path::{NormalPath, PathError, split_query};
pub use route::Route;
pub use route_table::RouteId;
#[cfg(feature = "describe")]
pub use schema::{reader_issues, schema};
pub use secrets::SecretList;
pub use target::{HandlerAddress, Target, target_parts};
pub use template::Template;

use crate::api_keys::KeyRegistry;
use crate::backend::Backend;
use crate::headers::NamePrefilter;
use crate::identity::{AttributeValue, Attributes, IdentityPlace, IdentitySource, MetadataPath, Subject};
use crate::json::Issue;
use crate::operations::Operations;
use crate::provider::Provider;
use crate::signed_callers::{CallerHeaders, SignedCaller};
use crate::webhooks::Binding;
use document::{IdentityRules, OpenBao, Unkey};
use route_table::RouteTable;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use text_index::TextIndex;
pub(crate) use text_index::insert_number;

/// Set on requests that the filter rewrote to a target, and on no other (docs/contract.md section 2).
pub const REWRITE_MARK: &str = "x-edge-idempotency";

/// The space of endpoints in [`Policy::names`].
const ENDPOINTS: usize = 0;
/// The space of services of the default backend that are closed to clients; the number says how. The spaces of the other
/// backends follow it.
pub(crate) const SERVICES: usize = 1;
/// A service whose paths are closed.
pub(crate) const CLOSED: usize = 0;
/// A service whose paths are closed unless a route declares them.
const CLOSED_UNDECLARED: usize = 1;

/// A compiled policy, in the form that requests need.
#[derive(Debug)]
pub struct Policy {
    /// What the document says and requests need as it is written.
    members: DocumentMembers,
    /// Whether nothing of the document acts: shadow mode holds everywhere, and nothing is closed or verified.
    only_watches: bool,
    /// Warnings for the log at start.
    warnings: Vec<Issue>,
    /// Identity rules: the document's first, then those of routes.
    identities: Vec<IdentityRules>,
    /// Subjects that no identity source may give.
    reserved_subjects: Vec<String>,
    routes: Vec<Route>,
    table: RouteTable,
    /// The routes by their endpoints, in the space [`ENDPOINTS`]; and the first path segments that are closed to clients, in
    /// the spaces from [`SERVICES`] on, one for each backend
    names: TextIndex,
    /// The headers in which clients send keys, beside `Idempotency-Key`.
    key_places: Vec<String>,
    /// The document's rules for keys, for requests that no route declares.
    key: Option<Arc<KeyRules>>,
    /// Lets the names of request headers pass that concern the filter.
    request_names: NamePrefilter,
    /// The backend of requests whose route names none.
    backend: Backend,
    /// The other backends; the first has the index 1.
    other_backends: Vec<Backend>,
    /// Callers that sign their requests.
    callers: Vec<SignedCaller>,
    /// The headers in which signed callers name tenant and project; `None` without signed callers.
    caller_headers: Option<CallerHeaders>,
    /// For each signed caller, where its identity stands.
    caller_sources: Vec<IdentitySource>,
    /// Bindings of webhook ids.
    bindings: BTreeMap<String, Arc<Binding>>,
    /// Whether a route needs a call to its backend before a request is forwarded.
    asks_backends: bool,
    /// The operations that callers can ask for.
    operations: Option<Operations>,
    /// The store of bindings that the document does not list.
    unkey: Option<Unkey>,
    /// The store of secrets that bindings do not list.
    openbao: Option<OpenBao>,
    /// The registry of API keys.
    key_registry: Option<KeyRegistry>,
    /// The providers that bindings may name.
    providers: BTreeMap<String, Provider>,
    /// The subject of webhook keys; `None` without webhooks.
    webhook_subject: Option<Subject>,
    /// The API's public URL without a path, if the document has it.
    public_base_url: Option<String>,
    /// What it needs of a gateway.
    #[cfg(feature = "describe")]
    needs: needs::PolicyNeeds,
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

/// A policy has the plain members of its document as if they were its own.
impl Deref for Policy {
    type Target = DocumentMembers;

    fn deref(&self) -> &DocumentMembers {
        &self.members
    }
}

impl Policy {
    /// The backend of a route, or of requests that no route declares.
    pub(crate) fn backend_of(&self, route: Option<&Route>) -> &Backend {
        self.backend_at(route.map_or(0, |route| route.backend))
    }

    /// Whether a route needs a call to its backend before a request is forwarded.
    pub(crate) fn asks_backends(&self) -> bool {
        self.asks_backends
    }

    /// The backend whose operations callers can ask for.
    pub(crate) fn backend_of_operations(&self) -> &Backend {
        self.backend_at(self.operations.as_ref().map_or(0, |operations| operations.backend))
    }

    fn backend_at(&self, index: usize) -> &Backend {
        index.checked_sub(1).and_then(|other| self.other_backends.get(other)).unwrap_or(&self.backend)
    }

    /// The name of a route's backend, or of the default, if the document has several.
    pub fn backend_name(&self, route: Option<&Route>) -> Option<&str> {
        (!self.other_backends.is_empty()).then(|| self.backend_of(route).mark.as_str())
    }

    /// The value of [`REWRITE_MARK`] on requests of a route; `None` if they go to the default backend as they are, and not all requests
    /// are marked.
    pub(crate) fn mark_of(&self, route: Option<&Route>) -> Option<&str> {
        let is_marked = self.mark_all || route.is_some_and(|route| route.target.is_some() || route.backend != 0);
        is_marked.then(|| self.backend_of(route).mark.as_str())
    }

    /// The headers in which clients send keys, beside `Idempotency-Key`.
    pub(crate) fn key_places(&self) -> &[String] {
        &self.key_places
    }

    /// The rules for the keys of a route's clients.
    pub(crate) fn key_rules<'p>(&'p self, route: Option<&'p Route>) -> Option<&'p KeyRules> {
        route.map_or(self.key.as_deref(), |route| route.key.as_deref())
    }

    /// All backends, the default first.
    pub(crate) fn backends(&self) -> impl Iterator<Item = &Backend> {
        std::iter::once(&self.backend).chain(&self.other_backends)
    }

    /// Whether errors in JSON are cleaned, on this route or where no route was found.
    pub(crate) fn cleans_errors(&self, route: Option<&Route>, backend: &Backend) -> bool {
        let said = route.and_then(|route| route.clean_errors).or(self.answers.clean_errors);
        said.unwrap_or(backend.abilities().cleans_errors)
    }

    /// The member that replays in JSON get.
    pub(crate) fn replay_member<'p>(&'p self, route: Option<&'p Route>) -> Option<&'p str> {
        route.and_then(|route| route.replay_member.as_deref()).or(self.answers.replay_member.as_deref())
    }

    /// Warnings for the log at start.
    pub fn warnings(&self) -> &[Issue] {
        &self.warnings
    }

    /// Subjects that no identity source may give.
    pub(crate) fn reserved_subjects(&self) -> &[String] {
        &self.reserved_subjects
    }

    /// Lets the names of request headers pass that concern the filter.
    pub(crate) fn request_names(&self) -> &NamePrefilter {
        &self.request_names
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

    /// Every path into dynamic metadata that an identity source reads.
    pub fn metadata_paths(&self) -> impl Iterator<Item = &MetadataPath> {
        let sources = self.identities.iter().flat_map(|rules| &rules.sources);
        let places = sources.flat_map(|source| source.places()).filter_map(|(_, place)| place);
        places.filter_map(|place| match place {
            IdentityPlace::Metadata(path) => Some(path),
            _ => None,
        })
    }

    /// The namespaces of all of [`Policy::metadata_paths`], each once.
    pub fn metadata_namespaces(&self) -> BTreeSet<String> {
        self.metadata_paths().map(|path| path.namespace().to_owned()).collect()
    }

    /// Where the identity of a signed caller stands.
    pub(crate) fn caller_source(&self, caller: usize) -> Option<&IdentitySource> {
        self.caller_sources.get(caller)
    }

    /// The store of bindings that the document does not list.
    pub(crate) fn unkey(&self) -> Option<&Unkey> {
        self.unkey.as_ref()
    }

    /// The store of secrets that bindings do not list.
    pub(crate) fn openbao(&self) -> Option<&OpenBao> {
        self.openbao.as_ref()
    }

    /// The registry of API keys.
    pub(crate) fn key_registry(&self) -> Option<&KeyRegistry> {
        self.key_registry.as_ref()
    }

    /// The request path of the secrets of an owner, `{tenant}:{project}:{provider}`; `None` without a store of secrets.
    pub fn secret_path(&self, owner: &str) -> Option<String> {
        self.openbao().map(|openbao| openbao.request_path(owner))
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
        let shadow = self.routes.iter().filter(|route| route.mode == Mode::Shadow && route.webhook.is_none()).count();
        let count = self.routes.len();
        let callers = match self.callers.len() {
            0 => String::new(),
            1 => ", 1 signed caller".to_owned(),
            callers => format!(", {callers} signed callers"),
        };
        format!("policy with {count} route{}, {shadow} in shadow mode{callers}", if count == 1 { "" } else { "s" })
    }
}
