//! The `webhooks` object: third parties that sign their deliveries.

use super::parse_url;
use super::secrets::{Live, Secret, read_secrets};
use super::stores::{OpenBao, Unkey, read_openbao, read_unkey};
use crate::identity::{Project, Subject, Tenant};
use crate::json::cursor::{Issues, JsonCursor, suggestion};
use crate::provider::{Catalogue, KeyScope, Provider};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The owner of a webhook id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    /// The tenant
    pub tenant: Tenant,
    /// The project
    pub project: Project,
    /// The provider that signs
    pub provider: String,
    /// The secrets, in the order in which they are tried; empty if they are in OpenBao
    pub secrets: Vec<Secret>,
    /// The scope of the keys; `None` for the provider's default
    pub key_scope: Option<KeyScope>,
    /// Whether keys include a digest of the body; `None` for the provider's default
    pub bind_body: Option<bool>,
}

/// A `webhooks` object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Webhooks {
    /// The subject of every webhook key
    pub subject: Subject,
    /// The API's public URL without a path; `None` if it follows from each request
    pub public_base_url: Option<String>,
    /// Bindings by webhook id
    pub bindings: BTreeMap<String, Arc<Binding>>,
    /// Providers that the document describes
    pub providers: BTreeMap<String, Provider>,
    /// The store of bindings that the document does not list
    pub unkey: Option<Unkey>,
    /// The store of secrets that bindings do not list
    pub openbao: Option<OpenBao>,
}

impl Webhooks {
    /// Reads a `webhooks` object.
    #[inline(never)]
    pub(crate) fn read(at: &JsonCursor<'_>, inline: bool, issues: &mut Issues) -> Option<Self> {
        let known = ["subject", "public_base_url", "static", "unkey", "openbao", "providers"];
        let fields = at.fields(&known, issues)?;
        let subject = fields.parse("subject", issues, parse_subject);
        let stored = fields.get("openbao").is_some();
        let mut bindings = BTreeMap::new();
        if let Some(map) = fields.get("static").and_then(|at| at.map(issues)) {
            for (id, at) in map.entries() {
                if let Err(message) = parse_webhook_id(id) {
                    issues.add(at.pointer.clone(), message);
                }
                if let Some(binding) = read_binding(&at, inline, stored, issues) {
                    bindings.insert(id.to_owned(), Arc::new(binding));
                }
            }
        }
        let mut providers = BTreeMap::new();
        if let Some(map) = fields.get("providers").and_then(|at| at.map(issues)) {
            for (name, at) in map.entries() {
                if let Err(message) = parse_provider(name) {
                    issues.add(at.pointer.clone(), message);
                } else if let Some(provider) = Provider::from_json(name, &at, issues) {
                    providers.insert(name.to_owned(), provider);
                }
            }
        }
        let unkey = fields.get("unkey");
        if let Some(at) = unkey.as_ref().filter(|_| !stored) {
            issues.add(
                at.pointer.clone(),
                "bindings of `unkey` hold no secrets: add `openbao`, where secrets are looked up",
            );
        }
        let unkey = unkey.and_then(|at| read_unkey(&at, inline, issues));
        let openbao = fields.get("openbao").and_then(|at| read_openbao(&at, inline, issues));
        Some(Self {
            subject: subject.or_else(|| Subject::new("service", b"webhook-ingest").ok())?,
            public_base_url: fields.parse("public_base_url", issues, parse_base_url),
            bindings,
            providers,
            unkey,
            openbao,
        })
    }
}

/// `stored`: the secrets can come from a store.
#[inline(never)]
fn read_binding(at: &JsonCursor<'_>, inline: bool, stored: bool, issues: &mut Issues) -> Option<Binding> {
    let known = ["tenant", "project", "provider", "secrets", "key_scope", "bind_body"];
    let fields = at.fields(&known, issues)?;
    let segment = "expected [A-Za-z0-9.~-][A-Za-z0-9._~-]{0,62}, neither `.` nor `..`";
    let tenant = fields
        .need("tenant", issues)
        .and_then(|at| at.parse(issues, |text| Tenant::parse(text.as_bytes()).map_err(|_| segment.to_owned())));
    let project = fields
        .need("project", issues)
        .and_then(|at| at.parse(issues, |text| Project::parse(text.as_bytes()).map_err(|_| segment.to_owned())));
    let provider = fields.need_parse("provider", issues, parse_provider);
    let secrets = match fields.get("secrets") {
        Some(at) => read_secrets(&at, (inline, Live::Allowed), issues),
        None if stored => Vec::new(),
        None => {
            issues.add(at.pointer.clone(), "a binding needs `secrets`, such as [{\"env\": \"NAME\"}]");
            Vec::new()
        }
    };
    let scopes = [("project", KeyScope::Project), ("webhook", KeyScope::Webhook)];
    let key_scope = fields.choice("key_scope", &scopes, issues);
    let bind_body = fields.boolean("bind_body", issues);
    Some(Binding { tenant: tenant?, project: project?, provider: provider?, secrets, key_scope, bind_body })
}

/// Parses a URL with an empty path.
fn parse_base_url(text: &str) -> Result<String, String> {
    let url = parse_url(text)?;
    match url.trim_end_matches('/') {
        base if base.matches('/').count() == 2 && !base.contains('?') => Ok(base.to_owned()),
        _ => Err("expected scheme and host only, such as `https://api.example.com`".to_owned()),
    }
}

pub(super) fn parse_subject(text: &str) -> Result<Subject, String> {
    text.split_once(':')
        .and_then(|(kind, id)| Subject::from_encoded(kind, id).ok())
        .ok_or_else(|| "expected `{type}:{id}`, such as `service:webhook-ingest`".to_owned())
}

/// A provider's name, as in the catalogue.
pub(super) fn parse_provider(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if (1..=64).contains(&text.len()) && text.bytes().all(plain) {
        Ok(text.to_owned())
    } else {
        Err(format!("a provider's name has the form [a-z0-9_]+{}", suggestion(text, Catalogue::compiled_in().names())))
    }
}

/// A webhook id.
pub(super) fn parse_webhook_id(text: &str) -> Result<String, String> {
    if is_webhook_id(text) {
        Ok(text.to_owned())
    } else {
        Err("a webhook id has the form [A-Za-z0-9_-]{8,64}".to_owned())
    }
}

/// Whether a text can be a webhook id: `[A-Za-z0-9_-]{8,64}`.
pub(crate) fn is_webhook_id(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    (8..=64).contains(&text.len()) && text.bytes().all(plain)
}
