//! The items of `routes`.

use super::super::authority::{self, canonical, is_host};
use super::super::template::Template;
use super::identity::{IdentityOwner, IdentityRules};
use super::{
    Mode, check_name, check_text, parse_fingerprint_header, parse_header_name, parse_text, read_header_names, read_key,
    read_mode,
};
use crate::json::cursor::{Issues, JsonCursor};
use crate::json::scan::Pointer;
use crate::key::KeyRules;
use crate::policy::defaults::MAX_BODY_BYTES;
use std::fmt;
use std::sync::Arc;

/// The policy of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyKind {
    /// Case A: a key is required.
    RequiredA,
    /// Case B: a webhook is verified, and its identifier becomes the key.
    RequiredB,
    /// Case A if there is a key.
    Accepted,
    /// Case C: the handler deduplicates, and the key is removed.
    HandlerInternalC,
    /// A request with a key is refused.
    Prohibited,
}

impl PolicyKind {
    const WORDS: [(&'static str, Self); 5] = [
        ("REQUIRED_A", Self::RequiredA),
        ("REQUIRED_B", Self::RequiredB),
        ("ACCEPTED", Self::Accepted),
        ("HANDLER_INTERNAL_C", Self::HandlerInternalC),
        ("PROHIBITED", Self::Prohibited),
    ];

    /// The policy's name as documents, logs and metrics write it.
    pub fn name(self) -> &'static str {
        Self::WORDS.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Whether the route namespaces the caller's key (Case A).
    pub const fn is_case_a(self) -> bool {
        matches!(self, Self::RequiredA | Self::Accepted)
    }
}

/// The scope of the namespace of a route's keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scope {
    /// Tenant and project
    #[default]
    Project,
    /// The tenant as a whole
    Tenant,
    /// The platform
    Platform,
}

/// Whose the keys of a route are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum KeySubject {
    /// The caller's
    #[default]
    Caller,
    /// Those of all callers within the route's scope
    None,
}

/// What happens when a key comes again with another payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Collision {
    /// Nothing
    #[default]
    Off,
    /// A count
    Observe,
    /// 422
    Enforce,
}

/// An HTTP method, in upper case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Method(pub String);

impl Method {
    fn parse(text: &str) -> Result<Self, String> {
        match text {
            "CONNECT" => Err("CONNECT is not supported, because its requests have no path".to_owned()),
            _ if crate::headers::is_field_name(text) && !text.bytes().any(|byte| byte.is_ascii_lowercase()) => {
                Ok(Self(text.to_owned()))
            }
            _ => Err("expected a method in upper case, such as `POST`".to_owned()),
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A `webhook` object. A part that is `None` comes from the path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WebhookBlock {
    /// The provider, fixed
    pub provider: Option<String>,
    /// The webhook id, fixed
    pub id: Option<String>,
}

/// One item of `routes`.
#[derive(Debug, Clone)]
pub(crate) struct RouteDocument<'j> {
    /// Its name in metrics, logs and gateway routes
    pub endpoint: &'j str,
    /// Its path
    pub template: Template,
    /// `methods`, if the route has it
    pub methods: Option<Vec<Method>>,
    /// `backend`, if the route has it: a name, with its JSON pointer
    pub backend: Option<&'j str>,
    /// Its policy
    pub policy: PolicyKind,
    /// `target`, not parsed yet
    pub target: Option<&'j str>,
    /// `on_unmatched`, if the route has it: whether deliveries without a value for the target are acknowledged
    pub acknowledges: Option<bool>,
    /// `scope`
    pub scope: Scope,
    /// `subject`
    pub subject: KeySubject,
    /// `mode`, if the route has it
    pub mode: Option<Mode>,
    /// `identity`, if the route has it
    pub identity: Option<IdentityRules>,
    /// `hosts`; empty for all
    pub hosts: Vec<String>,
    /// `recovery`, if the route has it
    pub recovery: Option<bool>,
    /// `collision`
    pub collision: Collision,
    /// `collision_scope`: whether a key is for all operations of a caller
    pub collision_caller: bool,
    /// `fingerprint`: whether bodies are compared as canonical JSON
    pub fingerprint_json: bool,
    /// `fingerprint_headers`: headers that are compared, too; lower case
    pub fingerprint_headers: Vec<String>,
    /// `guard_failure`, if the route has it: whether requests are refused while the guard gives no answer
    pub guard_failure: Option<bool>,
    /// Whether a request whose key is in flight is refused
    pub in_flight_conflict: bool,
    /// The longest body that is buffered, in bytes
    pub max_body_bytes: u64,
    /// `one_way`
    pub one_way: bool,
    /// Query parameters that reach the target
    pub query: Vec<String>,
    /// `webhook`
    pub webhook: Option<WebhookBlock>,
    /// `key`, if the route has it
    pub key: Option<Arc<KeyRules>>,
    /// `answer`, if the route has it
    pub answer: Option<AnswerDocument>,
    /// `internal_hit`, if the route has it: the member of an answer that says whether the handler had done the work before
    pub internal_hit: Option<Pointer>,
    /// `encoded_slash`: whether a parameter's value may contain `%2F`
    pub encoded_slash: bool,
    /// `clean_errors`, if the route has it: whether errors in JSON are cleaned
    pub clean_errors: Option<bool>,
    /// `api_key`, if the route has it
    pub api_key: Option<ApiKeyRules>,
}

/// An `api_key` object: what a route asks of API keys.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ApiKeyRules {
    /// The permissions that a key needs, as a query of the registry
    pub permissions: Option<Arc<str>>,
    /// Whether a request may come without a caller
    pub is_optional: bool,
}

impl ApiKeyRules {
    fn read(at: &JsonCursor<'_>, issues: &mut Issues) -> Option<Self> {
        let fields = at.fields(&["required", "permissions"], issues)?;
        let permissions = fields.parse("permissions", issues, |text| {
            // Unkey takes 1 to 1,000 characters (its OpenAPI description, `V2KeysVerifyKeyRequestBody`).
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b" ()._:*/-".contains(&byte);
            if (1..=1000).contains(&text.trim().len()) && text.bytes().all(plain) {
                Ok(Arc::from(text.trim()))
            } else {
                Err("expected permissions of 1 to 1000 characters, such as `refunds.create` or `a.read AND (b.read OR b.write)`"
                    .to_owned())
            }
        });
        Some(Self { permissions, is_optional: !fields.boolean("required", issues).unwrap_or(true) })
    }
}

/// An `answer` object.
#[derive(Debug, Clone)]
pub(crate) struct AnswerDocument {
    /// The status of a success, as digits
    pub status: Option<String>,
    /// The template of `Location`, not parsed yet
    pub location: Option<String>,
}

/// Whether requests are refused.
const GUARD_FAILURES: [(&str, bool); 2] = [("refuse", true), ("forward", false)];

impl<'j> RouteDocument<'j> {
    /// Reads one route.
    pub(crate) fn read(at: &JsonCursor<'j>, issues: &mut Issues) -> Option<Self> {
        let known = [
            "endpoint",
            "path",
            "methods",
            "policy",
            "backend",
            "target",
            "on_unmatched",
            "scope",
            "subject",
            "mode",
            "identity",
            "hosts",
            "recovery",
            "collision",
            "collision_scope",
            "in_flight",
            "guard_failure",
            "fingerprint",
            "fingerprint_headers",
            "max_body_bytes",
            "one_way",
            "query",
            "webhook",
            "key",
            "answer",
            "internal_hit",
            "encoded_slash",
            "clean_errors",
            "api_key",
        ];
        let fields = at.fields(&known, issues)?;
        let endpoint = fields.need_parse("endpoint", issues, check_name);
        let template = fields.need_parse("path", issues, Template::parse);
        let policy = fields.need("policy", issues).and_then(|at| at.choice(&PolicyKind::WORDS, issues));
        let methods = fields.get("methods").and_then(|at| {
            let methods = at.list(issues, Method::parse)?;
            if at.items(issues)?.is_empty() {
                issues.add(at.pointer.clone(), "list at least one method, or leave the member out (`[\"POST\"]`)");
            }
            Some(methods)
        });
        let target = fields.parse("target", issues, check_text);
        let fields = fields.besides(&["endpoint", "path", "policy", "methods", "target"]);
        let scopes = [("project", Scope::Project), ("tenant", Scope::Tenant), ("platform", Scope::Platform)];
        let collisions = [("off", Collision::Off), ("observe", Collision::Observe), ("enforce", Collision::Enforce)];
        Some(Self {
            methods,
            target,
            acknowledges: fields.choice("on_unmatched", &[("refuse", false), ("acknowledge", true)], issues),
            backend: fields.parse("backend", issues, check_text),
            scope: fields.choice("scope", &scopes, issues).unwrap_or_default(),
            subject: fields
                .choice("subject", &[("caller", KeySubject::Caller), ("none", KeySubject::None)], issues)
                .unwrap_or_default(),
            mode: read_mode(&fields, issues),
            identity: fields
                .get("identity")
                .map(|at| IdentityRules::read(&at, IdentityOwner::Route, issues).unwrap_or_default()),
            hosts: fields.list("hosts", issues, parse_host).unwrap_or_default(),
            recovery: fields.boolean("recovery", issues),
            collision: fields.choice("collision", &collisions, issues).unwrap_or_default(),
            collision_caller: fields
                .choice("collision_scope", &[("operation", false), ("caller", true)], issues)
                .unwrap_or_default(),
            fingerprint_json: fields
                .choice("fingerprint", &[("raw", false), ("json", true)], issues)
                .unwrap_or_default(),
            fingerprint_headers: fields
                .get("fingerprint_headers")
                .map(|at| read_header_names(&at, parse_fingerprint_header, issues))
                .unwrap_or_default(),
            guard_failure: fields.choice("guard_failure", &GUARD_FAILURES, issues),
            in_flight_conflict: fields
                .choice("in_flight", &[("attach", false), ("conflict", true)], issues)
                .unwrap_or_default(),
            max_body_bytes: fields.integer("max_body_bytes", 1..=1 << 30, issues).unwrap_or(MAX_BODY_BYTES),
            one_way: fields.boolean("one_way", issues).unwrap_or_default(),
            query: fields.list("query", issues, parse_query_name).unwrap_or_default(),
            webhook: fields.get("webhook").and_then(|at| read_webhook(&at, issues)),
            key: read_key(&fields, issues),
            answer: fields.get("answer").and_then(|at| read_answer(&at, issues)),
            internal_hit: fields.get("internal_hit").and_then(|at| read_internal_hit(&at, issues)),
            encoded_slash: fields.boolean("encoded_slash", issues).unwrap_or_default(),
            clean_errors: fields.boolean("clean_errors", issues),
            api_key: fields.get("api_key").and_then(|at| ApiKeyRules::read(&at, issues)),
            endpoint: endpoint?,
            template: template?,
            policy: policy?,
        })
    }
}

#[inline(never)]
fn read_webhook(at: &JsonCursor<'_>, issues: &mut Issues) -> Option<WebhookBlock> {
    let fields = at.fields(&["provider", "id"], issues)?;
    // An invalid member has its own issue, so it must not also count as missing from the path.
    let mut fixed = |name: &str, parse: fn(&str) -> Result<String, String>| {
        fields.get(name).map(|at| at.parse(issues, parse).unwrap_or_default())
    };
    Some(WebhookBlock {
        provider: fixed("provider", super::webhooks::parse_provider),
        id: fixed("id", super::webhooks::parse_webhook_id),
    })
}

#[inline(never)]
fn read_answer(at: &JsonCursor<'_>, issues: &mut Issues) -> Option<AnswerDocument> {
    let fields = at.fields(&["status", "location"], issues)?;
    let status = fields.integer("status", 200..=299, issues);
    if matches!(status, Some(204..=206)) {
        issues.add(
            format!("{}/status", at.pointer),
            "an answer with this status has no content, or only a part of it: choose another status, such as 201",
        );
    }
    if fields.entries().next().is_none() {
        issues.add(&at.pointer, "set `status`, `location` or both");
    }
    Some(AnswerDocument {
        status: status.map(|status| status.to_string()),
        location: fields.parse("location", issues, parse_text),
    })
}

#[inline(never)]
fn read_internal_hit(at: &JsonCursor<'_>, issues: &mut Issues) -> Option<Pointer> {
    at.fields(&["body"], issues)?.need_parse("body", issues, |text| {
        Pointer::parse(text, false)
            .ok_or_else(|| "expected a JSON pointer of at most 8 parts, such as `/duplicate`".to_owned())
    })
}

/// Parses a host, or a wildcard such as `*.example.com`, in its canonical form: an authority is compared with it byte for
/// byte.
fn parse_host(text: &str) -> Result<String, String> {
    let (wildcard, name) = text.split_at_checked(if text.starts_with("*.") { 2 } else { 0 }).unwrap_or(("", text));
    let is_name = |host: &str| {
        is_host(host)
            && !host.starts_with('.')
            && !host.ends_with('.')
            && (wildcard.is_empty() || !host.starts_with('['))
    };
    match authority::parse(name.as_bytes()).map(canonical) {
        Ok(host) if is_name(&host) && host == name => Ok(text.to_owned()),
        Ok(host) if is_name(&host) => Err(format!(
            "write the host in its canonical form, `{wildcard}{host}`"
        )),
        _ => Err(
            "expected a host without port, such as `api.example.com` or `*.example.com`; write an internationalised name \
             in its ASCII form, such as `xn--mnchen-3ya.example`"
                .to_owned(),
        ),
    }
}

/// Parses the name of a query parameter that may reach the target.
fn parse_query_name(text: &str) -> Result<String, String> {
    match text.to_ascii_lowercase().as_str() {
        "delay" | "delaysec" | "limit-key" => {
            Err(format!("`{text}` controls the backend itself, so a client cannot send it: remove it"))
        }
        _ => {
            parse_header_name(text).map(|_| text.to_owned()).map_err(|_| "expected a query parameter's name".to_owned())
        }
    }
}
