//! The `webhooks` object: third parties that sign their deliveries.

use crate::identity::{Project, Subject, Tenant};
use crate::json::cursor::{Issues, JsonCursor, suggestion};
use crate::policy::document::secrets::{Live, Secret, read_secrets};
use crate::policy::document::stores::{OpenBao, Unkey, read_openbao, read_unkey};
use crate::policy::document::texts::parse_url;
use crate::policy::members::{Custom, Member, OptionalChoice, OptionalFlag, Text, members};
use crate::provider::{Catalogue, KeyScope, Provider};
use std::collections::BTreeMap;
use std::sync::Arc;

members! {
    /// This object describes the third parties that send signed requests.
    webhooks = "webhooks", "Webhooks",
        schema r#"{"dependentRequired": {"unkey": ["openbao"]}}"#;

    /// Scheme and host by which providers reach the gateway, where they sign the URL and a proxy in front of the gateway changes it.
    PUBLIC_BASE_URL: Text<String> { parse: parse_base_url } = "public_base_url", "Public URL",
        schema r#"{"type": "string", "pattern": "^https?://[!$%&'()*+,.0-9:;=@A-Z\\[\\]_a-z~-]+/*$", "examples": ["https://api.example.com"]}"#;

    /// The bindings that the document lists. A name is a webhook id.
    STATIC: Custom {} = "static", "Bindings",
        schema r##"{"type": "object", "propertyNames": {"$ref": "#/$defs/webhookId"}, "additionalProperties": {"$ref": "#/$defs/binding"}}"##;

    UNKEY: Custom {} = "unkey", schema r##"{"$ref": "#/$defs/unkey"}"##;

    OPENBAO: Custom {} = "openbao", schema r##"{"$ref": "#/$defs/openbao"}"##;

    /// Provider files of your own, as in docs/providers.md. A name is the provider's name; the catalogue has many providers already.
    PROVIDERS: Custom {} = "providers", "Providers",
        schema r##"{"type": "object", "propertyNames": {"$ref": "#/$defs/provider"}, "additionalProperties": {"type": "object"}}"##;
}

members! {
    /// A binding says to whom a webhook id belongs.
    binding = "binding", "Binding";

    /// The tenant that its keys belong to.
    TENANT: Text<Tenant> { parse: parse_tenant } = "tenant", "Tenant", required "", schema r##"{"$ref": "#/$defs/segment"}"##;

    /// The project that its keys belong to.
    PROJECT: Text<Project> { parse: parse_project } = "project", "Project", required "", schema r##"{"$ref": "#/$defs/segment"}"##;

    /// The provider that signs. It has to equal the route's, else deliveries are answered 404.
    PROVIDER: Text<String> { parse: parse_provider } = "provider", "Provider", required "",
        schema r##"{"$ref": "#/$defs/provider"}"##;

    /// Needed unless `/webhooks/openbao` has them.
    SECRETS: Custom {} = "secrets", schema r##"{"$ref": "#/$defs/signingSecrets"}"##;

    /// `webhook` keeps apart the identifiers of two hooks of one project. Default: what the provider's file says.
    KEY_SCOPE: OptionalChoice<KeyScope> { words: &[("project", KeyScope::Project), ("webhook", KeyScope::Webhook)] }
        = "key_scope", "Key scope";

    /// Folds a digest of the body into the key, for identifiers that the signature does not cover or that two events can have. Default:
    /// what the provider's file says.
    BIND_BODY: OptionalFlag {} = "bind_body", "Bind the body";
}

members! {
    /// This route takes deliveries of webhooks, and verifies them before anything is forwarded; with REQUIRED_B, ACCEPTED or
    /// HANDLER_INTERNAL_C. A member that is left out comes from the path's `{provider}` and `{webhook_id}`.
    route_webhook = "routeWebhook", "Webhook";

    /// The provider, if the path has no `{provider}`.
    PROVIDER: Text<String> { parse: parse_provider } = "provider", "Provider", schema r##"{"$ref": "#/$defs/provider"}"##;

    /// The webhook id, if the path has no `{webhook_id}`.
    ID: Text<String> { parse: parse_webhook_id } = "id", "Webhook id", schema r##"{"$ref": "#/$defs/webhookId"}"##;
}

/// A `webhook` object. A part that is `None` comes from the path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WebhookBlock {
    /// The provider, fixed
    pub provider: Option<String>,
    /// The webhook id, fixed
    pub id: Option<String>,
}

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
        let fields = webhooks::OBJECT.read(at, issues)?;
        let openbao = webhooks::OPENBAO.at(&fields, issues);
        let stored = openbao.is_some();
        let mut bindings = BTreeMap::new();
        if let Some(map) = webhooks::STATIC.at(&fields, issues).and_then(|at| at.map(issues)) {
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
        if let Some(map) = webhooks::PROVIDERS.at(&fields, issues).and_then(|at| at.map(issues)) {
            for (name, at) in map.entries() {
                if let Err(message) = parse_provider(name) {
                    issues.add(at.pointer.clone(), message);
                } else if let Some(provider) = Provider::from_json(name, &at, issues) {
                    providers.insert(name.to_owned(), provider);
                }
            }
        }
        let unkey = webhooks::UNKEY.at(&fields, issues);
        if let Some(at) = unkey.as_ref().filter(|_| !stored) {
            issues.add(
                at.pointer.clone(),
                "bindings of `unkey` hold no secrets: add `openbao`, where secrets are looked up",
            );
        }
        let unkey = unkey.and_then(|at| read_unkey(&at, inline, issues));
        let openbao = openbao.and_then(|at| read_openbao(&at, inline, issues));
        Some(Self {
            subject: Subject::webhooks(),
            public_base_url: webhooks::PUBLIC_BASE_URL.read(&fields, issues),
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
    let fields = binding::OBJECT.read(at, issues)?;
    let tenant = binding::TENANT.read(&fields, issues);
    let project = binding::PROJECT.read(&fields, issues);
    let provider = binding::PROVIDER.read(&fields, issues);
    let secrets = match binding::SECRETS.at(&fields, issues) {
        Some(at) => read_secrets(&at, inline, Live::Allowed, issues),
        None if stored => Vec::new(),
        None => {
            issues.add(at.pointer.clone(), "a binding needs `secrets`, such as [{\"env\": \"NAME\"}]");
            Vec::new()
        }
    };
    let key_scope = binding::KEY_SCOPE.read(&fields, issues);
    let bind_body = binding::BIND_BODY.read(&fields, issues);
    Some(Binding { tenant: tenant?, project: project?, provider: provider?, secrets, key_scope, bind_body })
}

#[inline(never)]
pub(crate) fn read_webhook(at: &JsonCursor<'_>, issues: &mut Issues) -> Option<WebhookBlock> {
    let fields = route_webhook::OBJECT.read(at, issues)?;
    // An invalid member has its own issue, so it must not also count as missing from the path.
    let mut fixed =
        |member: Member<Text<String>>| member.read_if_given(&fields, issues).unwrap_or_else(|| Some(String::new()));
    Some(WebhookBlock { provider: fixed(route_webhook::PROVIDER), id: fixed(route_webhook::ID) })
}

const SEGMENT: &str = "expected [A-Za-z0-9.~-][A-Za-z0-9._~-]{0,62}, neither `.` nor `..`";

fn parse_tenant(text: &str) -> Result<Tenant, String> {
    Tenant::parse(text.as_bytes()).map_err(|_| SEGMENT.to_owned())
}

fn parse_project(text: &str) -> Result<Project, String> {
    Project::parse(text.as_bytes()).map_err(|_| SEGMENT.to_owned())
}

/// Parses a URL with an empty path.
fn parse_base_url(text: &str) -> Result<String, String> {
    let url = parse_url(text)?;
    match url.trim_end_matches('/') {
        base if base.matches('/').count() == 2 && !base.contains('?') => Ok(base.to_owned()),
        _ => Err("expected scheme and host only, such as `https://api.example.com`".to_owned()),
    }
}

/// A provider's name, as in the catalogue.
pub(crate) fn parse_provider(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if (1..=64).contains(&text.len()) && text.bytes().all(plain) {
        Ok(text.to_owned())
    } else {
        Err(format!("a provider's name has the form [a-z0-9_]+{}", suggestion(text, Catalogue::compiled_in().names())))
    }
}

/// A webhook id.
pub(crate) fn parse_webhook_id(text: &str) -> Result<String, String> {
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
