//! Which keys are meant. Restate narrows the choice by SQL; whether a row belongs to it is decided here, by the engine's own
//! reading of the namespaced key (docs/contract.md section 3).

use super::invocations::{Invocation, RECORDER, ResultState};
use super::keys_text::readable_subject;
use super::names::InvocationId;
use super::sql::{begins_with, literal};
use crate::explain::terminal_text::printable;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use edge_idempotency_engine::identity::{
    Identity, NO_SUBJECT, PLATFORM_SENTINEL, Project, Subject, TENANT_SENTINEL, Tenant,
};
use edge_idempotency_engine::key::{self, Decoded};
use edge_idempotency_engine::policy::{KeyInLogs, KeySubject, Policy, Scope, target_parts};
use edge_idempotency_engine::telemetry::key_in_logs;
use sha2::{Digest as _, Sha256};

/// Which keys are meant. What is `None` can be anything.
#[derive(Debug, Clone, Default)]
pub(crate) struct Selection {
    /// The tenant
    pub(crate) tenant: Option<Tenant>,
    /// The project, or the sentinel of a route's scope
    pub(crate) project: Option<Project>,
    /// The subject
    pub(crate) subject: Option<Subject>,
    /// The key as the client or the provider made it
    pub(crate) raw: Option<String>,
    /// The operation of an endpoint
    pub(crate) operation: Option<Operation>,
    /// The recorder's digest of an operation
    pub(crate) recorded: Option<String>,
    /// An invocation
    pub(crate) id: Option<InvocationId>,
    /// The digest of a namespaced key, as the access log has it
    pub(crate) key_hash: Option<String>,
    /// What is stored
    pub(crate) state: Option<ResultState>,
}

/// The target of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Operation {
    /// The service
    pub(crate) service: String,
    /// The handler
    pub(crate) handler: String,
    /// Whether the target has an object key
    pub(crate) is_keyed: bool,
}

/// What an operator gives to choose keys, as text.
#[derive(Debug, Clone, Default)]
pub(crate) struct SelectionText<'t> {
    /// `--tenant`
    pub(crate) tenant: Option<&'t str>,
    /// `--project`
    pub(crate) project: Option<&'t str>,
    /// `--subject`
    pub(crate) subject: Option<&'t str>,
    /// `--key`
    pub(crate) raw: Option<&'t str>,
    /// `--stored-key`
    pub(crate) stored: Option<&'t str>,
    /// `--endpoint`
    pub(crate) endpoint: Option<&'t str>,
    /// `--operation`
    pub(crate) request: Option<&'t str>,
    /// `--id`
    pub(crate) id: Option<&'t str>,
    /// `--key-hash`
    pub(crate) key_hash: Option<&'t str>,
}

impl Selection {
    /// Reads what an operator gives. `policy`: for an endpoint.
    ///
    /// # Errors
    /// A sentence that says what to change.
    pub(crate) fn parse(text: &SelectionText<'_>, policy: Option<&Policy>) -> Result<Self, String> {
        let mut selection = Self { raw: text.raw.map(str::to_owned), ..Self::default() };
        if let Some(tenant) = text.tenant {
            let parsed = Tenant::parse(tenant.as_bytes());
            selection.tenant = Some(parsed.map_err(|_| format!("--tenant {tenant}: {NAME}"))?);
        }
        if let Some(project) = text.project {
            selection.project = Some(parse_project(project)?);
        }
        if let Some(subject) = text.subject {
            selection.subject = Some(parse_subject(subject)?);
        }
        if let Some(stored) = text.stored {
            let Decoded { identity, raw } = key::decode(stored)
                .map_err(|_| format!("--stored-key: this is no namespaced key; {}", super::selection::STORED_FORM))?;
            selection.raw = Some(raw.to_owned());
            selection.tenant = Some(identity.tenant);
            selection.project = Some(identity.project);
            selection.subject = Some(identity.subject);
        }
        if let Some(id) = text.id {
            selection.id = Some(parse_id(id)?);
        }
        if let Some(hash) = text.key_hash {
            let digits = hash.strip_prefix("sha256:").unwrap_or(hash);
            if digits.len() != 64 || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                return Err(
                    "--key-hash: expected `sha256:` and 64 hexadecimal digits, as the access log has them".to_owned()
                );
            }
            selection.key_hash = Some(format!("sha256:{}", digits.to_ascii_lowercase()));
        }
        if let Some(raw) = &selection.raw
            && (raw.is_empty() || !raw.bytes().all(|byte| byte.is_ascii_graphic()) || raw.contains(','))
        {
            return Err("--key: a key consists of visible ASCII characters without commas. Quotes that the client sends around a key \
                        are no part of it"
                .to_owned());
        }
        if let Some(endpoint) = text.endpoint {
            let policy = policy.ok_or("--endpoint needs --policy FILE, which says what the endpoint's target is")?;
            selection.choose_endpoint(endpoint, policy)?;
        }
        if let Some(request) = text.request {
            let operation =
                request.split_once(' ').filter(|(_, path)| path.starts_with('/') && !path.contains(['?', ' ']));
            operation.ok_or("--operation: write method and path without a query, such as 'POST /orders/7'")?;
            // As crates/services/src/recorder/front.rs makes it.
            let digest = Sha256::digest(request);
            selection.recorded = Some(URL_SAFE_NO_PAD.encode(digest.get(..12).unwrap_or_default()));
        }
        Ok(selection)
    }

    /// The endpoint's target, and the project segment and the subject that its keys have.
    fn choose_endpoint(&mut self, endpoint: &str, policy: &Policy) -> Result<(), String> {
        let route = policy.endpoint(endpoint).ok_or_else(|| format!("the policy has no endpoint `{endpoint}`"))?;
        let target = policy.needs_of(route).and_then(|route| route.target.as_deref()).and_then(target_parts);
        let (service, key, handler) = target.ok_or_else(|| {
            format!("the endpoint `{endpoint}` has no target, so its results are not stored under a handler")
        })?;
        let (service, handler, is_keyed) = (service.to_owned(), handler.to_owned(), key.is_some());
        self.operation = Some(Operation { service, handler, is_keyed });
        let (scope, sentinel) = match route.scope {
            Scope::Project => ("project", None),
            Scope::Tenant => ("tenant", Some(Project::Tenant)),
            Scope::Platform => ("platform", Some(Project::Platform)),
        };
        let fits = match (&self.project, &sentinel) {
            (Some(chosen), Some(sentinel)) => chosen == sentinel,
            (Some(chosen), None) => !matches!(chosen, Project::Tenant | Project::Platform),
            (None, _) => true,
        };
        if !fits {
            let chosen = self.project.as_ref().map(Project::as_str).unwrap_or_default();
            let under = sentinel.as_ref().map_or("a project", Project::as_str);
            return Err(format!(
                "the endpoint `{endpoint}` has the scope `{scope}`, so its keys are under {under} and never under {chosen}, which you \
                 give by --project or --stored-key. Leave one of the two out"
            ));
        }
        self.project = sentinel.or_else(|| self.project.take());
        let none = Subject::none();
        let shares_keys = route.subject == KeySubject::None;
        if let Some(chosen) = self.subject.as_ref().filter(|chosen| (**chosen == none) != shares_keys) {
            let under = if shares_keys { NO_SUBJECT } else { "their caller's subject" };
            return Err(format!(
                "the keys of the endpoint `{endpoint}` are under {under} and never under {}, which you give by --subject or --stored-key. \
                 Leave one of the two out",
                readable_subject(chosen)
            ));
        }
        if shares_keys {
            self.subject = Some(none);
        }
        Ok(())
    }

    /// Whether nothing is chosen.
    pub(crate) const fn is_empty(&self) -> bool {
        self.tenant.is_none()
            && self.subject.is_none()
            && self.raw.is_none()
            && self.operation.is_none()
            && self.recorded.is_none()
            && self.id.is_none()
            && self.key_hash.is_none()
    }

    /// Whether one invocation is chosen by its id or by the digest of its key.
    pub(crate) const fn names_an_invocation(&self) -> bool {
        self.id.is_some() || self.key_hash.is_some()
    }

    /// The whole identity, if all of its parts are chosen.
    pub(crate) fn identity(&self) -> Option<Identity> {
        Some(Identity { tenant: self.tenant.clone()?, project: self.project.clone()?, subject: self.subject.clone()? })
    }

    /// The one namespaced key that is meant, if it is one; made by the engine.
    ///
    /// # Errors
    /// It would be longer than the filter allows.
    pub(crate) fn namespaced_key(&self) -> Result<Option<String>, String> {
        let (Some(identity), Some(raw)) = (self.identity(), &self.raw) else { return Ok(None) };
        key::encode(&identity, raw).map(Some).map_err(|error| format!("--key: {}", error.detail()))
    }

    /// A condition in SQL that is true for every row that is meant, and for few others.
    ///
    /// # Errors
    /// As [`Selection::namespaced_key`].
    pub(crate) fn condition(&self) -> Result<String, String> {
        const KEY: &str = "idempotency_key";
        let recorder = format!("target_service_name = {}", literal(RECORDER));
        let mut all = Vec::new();
        match (self.namespaced_key()?, &self.tenant) {
            (Some(key), _) => {
                let recorded = begins_with(KEY, &format!("{key}."));
                all.push(format!("({KEY} = {} or {recorder} and {recorded})", literal(&key)));
            }
            (None, Some(tenant)) => {
                let rest = self.project.as_ref().map(|project| (project, self.subject.as_ref()));
                all.push(begins_with(KEY, &key::prefix(tenant, rest)));
            }
            (None, None) => all.push(begins_with(KEY, key::RESERVED_PREFIX)),
        }
        if let Some(subject) = &self.subject {
            let (kind, id) = subject.as_str().split_once(':').unwrap_or_default();
            all.push(format!("split_part({KEY}, ':', 3) = {}", literal(kind)));
            all.push(format!("split_part({KEY}, ':', 4) = {}", literal(id)));
        }
        if let Some(raw) = &self.raw {
            let [end, inside] = [format!(":{raw}"), format!(":{raw}.")].map(|text| literal(&text));
            all.push(format!("(ends_with({KEY}, {end}) or {recorder} and strpos({KEY}, {inside}) > 0)"));
        }
        if self.recorded.is_some() {
            all.push(recorder);
        }
        if let Some(Operation { service, handler, .. }) = &self.operation {
            all.push(format!("target_service_name = {}", literal(service)));
            all.push(format!("target_handler_name = {}", literal(handler)));
        }
        if let Some(id) = &self.id {
            all.push(format!("id = {}", literal(id)));
        }
        all.extend(self.state.map(|state| {
            match state {
                ResultState::Succeeded => "status = 'completed' and completion_result = 'success'",
                ResultState::Failed => "status = 'completed' and completion_result = 'failure'",
                ResultState::InFlight => "status <> 'completed'",
            }
            .to_owned()
        }));
        Ok(all.join(" and "))
    }

    /// Whether the invocation is meant: its key is a namespaced one, and all of its parts are those that are chosen.
    pub(crate) fn has(&self, invocation: &Invocation) -> bool {
        let Some((stored, recorded)) = invocation.sent_key() else { return false };
        let Ok(Decoded { identity, raw }) = key::decode(stored) else { return false };
        let same_operation = |operation: &Operation| {
            operation.service == *invocation.target_service_name && operation.handler == *invocation.target_handler_name
        };
        let same_hash = |hash: &String| key_in_logs(KeyInLogs::Hash, stored).as_deref() == Some(hash.as_str());
        self.tenant.as_ref().is_none_or(|tenant| *tenant == identity.tenant)
            && self.project.as_ref().is_none_or(|project| *project == identity.project)
            && self.subject.as_ref().is_none_or(|subject| *subject == identity.subject)
            && self.raw.as_ref().is_none_or(|chosen| chosen == raw)
            && self.operation.as_ref().is_none_or(same_operation)
            && self.recorded.as_deref().is_none_or(|chosen| recorded == Some(chosen))
            && self.id.as_ref().is_none_or(|id| *id == invocation.id)
            && self.key_hash.as_ref().is_none_or(same_hash)
            && self.state.is_none_or(|state| state == invocation.state())
    }
}

/// What is allowed and looks like a mistake: a subject that was copied from a key, in which its id is percent-encoded.
pub(crate) fn warning(subject: &str) -> Option<String> {
    let key = format!("t-tenant:project:{subject}:key");
    let decoded = key::decode(&key).ok().filter(|_| subject.contains('%'))?;
    let decoded = readable_subject(&decoded.identity.subject);
    Some(format!(
        "--subject {}: the id is taken as it is, with its percent sign. If it was copied from a key, write it decoded: --subject {}",
        printable(subject),
        printable(&shell_words::quote(&decoded))
    ))
}

const NAME: &str = "expected 1 to 63 of A-Z a-z 0-9 . _ ~ -, not beginning with _";

/// The form of a namespaced key, for messages.
pub(crate) const STORED_FORM: &str = "one has the form t-{tenant}:{project}:{type}:{id}:{key}";

fn parse_project(text: &str) -> Result<Project, String> {
    match text {
        TENANT_SENTINEL => Ok(Project::Tenant),
        PLATFORM_SENTINEL => Ok(Project::Platform),
        _ => Project::parse(text.as_bytes()).map_err(|_| {
            format!("--project {text}: {NAME}; or {TENANT_SENTINEL} or {PLATFORM_SENTINEL} for routes of such a scope")
        }),
    }
}

fn parse_subject(text: &str) -> Result<Subject, String> {
    if text == NO_SUBJECT {
        return Ok(Subject::none());
    }
    let parsed = text.split_once(':').and_then(|(kind, id)| Subject::new(kind, id.as_bytes()).ok());
    parsed.ok_or_else(|| {
        format!("--subject {text}: expected a type and an id, such as user:42. The id is written as the identity source has it, not percent-encoded; or {NO_SUBJECT} for keys that callers share")
    })
}

/// `inv_…`; from an operation id the part before the dot.
fn parse_id(text: &str) -> Result<InvocationId, String> {
    let id = text.split_once('.').map_or(text, |(id, _)| id);
    InvocationId::try_from(id.to_owned())
        .map_err(|_| format!("--id {text}: expected the id of an invocation, such as inv_1gdJ…, or an operation id"))
}

#[cfg(test)]
#[path = "selection_tests.rs"]
mod tests;
