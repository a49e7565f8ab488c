//! The items of `routes`.

use super::super::authority::{self, canonical, is_host};
use super::super::template::Template;
use super::header_names::parse_header_name;
use super::identity::{IdentityOwner, IdentityRules};
use super::texts::{check_name, check_text, parse_pointer, parse_text};
use super::{MODES, Mode, document, read_key};
use crate::api_keys::ApiKeyRules;
use crate::collision::document::{ComparisonDocument, comparison};
use crate::json::cursor::{Issues, JsonCursor};
use crate::json::scan::Pointer;
use crate::key::KeyRules;
use crate::policy::defaults;
use crate::policy::members::{
    Choice, Custom, Flag, Integer, OptionalChoice, OptionalFlag, OptionalInteger, Text, Texts, members,
};
use crate::policy::target::IDENTITY_NAMES;
use crate::webhooks::WebhookBlock;
use crate::webhooks::document::read_webhook;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

members! {
    /// A route is an operation of the API, and says what its idempotency keys mean.
    route = "route", "Route",
        also [comparison::COLLISION, comparison::FINGERPRINT, comparison::FINGERPRINT_HEADERS, comparison::FINGERPRINT_WITHOUT, document::CLEAN_ERRORS, document::REPLAY_MEMBER],
        schema r#"{"allOf": [
            {"if": {"required": ["policy"], "properties": {"policy": {"const": "REQUIRED_B"}}}, "then": {"required": ["webhook"]}},
            {"if": {"required": ["policy"], "properties": {"policy": {"enum": ["REQUIRED_A", "PROHIBITED"]}}}, "then": {"properties": {"webhook": false}}},
            {"if": {"required": ["policy"], "properties": {"policy": {"enum": ["REQUIRED_B", "HANDLER_INTERNAL_C", "PROHIBITED"]}}}, "then": {"properties": {"key": false, "subject": {"const": "caller"}}}},
            {"if": {"required": ["fingerprint_without"]}, "then": {"required": ["fingerprint"], "properties": {"fingerprint": {"const": "json"}}}},
            {"if": {"required": ["webhook"]}, "then": {"properties": {"key": false, "subject": {"const": "caller"}}}},
            {"if": {"required": ["target"], "properties": {"target": {"pattern": "[{](?:body|form):"}}}, "then": {"required": ["webhook"]}},
            {"if": {"required": ["one_way"], "properties": {"one_way": {"const": true}}}, "then": {"required": ["target"]}},
            {"if": {"required": ["answer"]}, "then": {"required": ["target"], "properties": {"one_way": {"const": false}}}},
            {"if": {"required": ["internal_hit"]}, "then": {"properties": {"policy": {"const": "HANDLER_INTERNAL_C"}, "one_way": {"const": false}}}}
        ]}"#;

    /// Its name in metrics, logs and the gateway's route metadata. No two routes have the same.
    ENDPOINT: Custom {} = "endpoint", "Endpoint", required "",
        schema r##"{"$ref": "#/$defs/name", "examples": ["refunds.create"]}"##;

    /// The path in its normalised spelling. The route takes it with and without a slash at the end, however you write it here. `{name}`
    /// stands for one whole segment, behind a text (`key:{name}`) for the rest of one. A literal segment outranks a parameter behind a
    /// text (the longest first), and that outranks a whole parameter.
    PATH: Text<Template> { parse: Template::parse } = "path", "Path", required "",
        schema r#"{"type": "string", "pattern": "^(?:/|(?:/(?:(?!\\.{1,2}(?:/|$)|:[A-Za-z_]|\\*+(?:/|$))(?:[A-Za-z0-9._~!$&'()*+,=:@-]|%(?![01][0-9A-F]|2F|5C|2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AEF])[0-9A-F]{2})+|(?:[A-Za-z0-9._~!$&'()*+,=:@-]|%(?![01][0-9A-F]|2F|5C|2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AEF])[0-9A-F]{2})*\\{[a-z][a-z0-9_]*\\}))+/?)$", "examples": ["/api/v1/refunds", "/api/v1/carts/{cart_id}/checkout", "/api/v1/flags/key:{flag}"]}"#;

    /// In upper case. `GET` includes `HEAD`. `OPTIONS` is not forwarded unless it is listed. With a `target` only one method besides
    /// `GET` is possible; where `rewrite_path` leads to Restate, `PUT`, `PATCH` and `DELETE` become `POST`.
    METHODS: Custom {} = "methods", "Methods",
        schema r#"{"type": "array", "items": {"type": "string", "pattern": "^(?!CONNECT$)[!#$%&'*+.^_`|~0-9A-Z-]+$", "examples": ["POST", "GET", "PUT", "PATCH", "DELETE"]}, "minItems": 1, "default": ["POST"]}"#;

    /// `REQUIRED_A`: a key is required and put into the caller's namespace. `ACCEPTED`: the same if there is one, forwarded without
    /// deduplication if not. `REQUIRED_B`: a webhook is verified and its identifier becomes the key. `HANDLER_INTERNAL_C`: a key is removed
    /// unread. `PROHIBITED`: a key is an error.
    POLICY: OptionalChoice<PolicyKind> { words: &PolicyKind::WORDS } = "policy", "Policy", required "";

    /// One of `/backends`. The default is that of `/backend`.
    BACKEND: Custom {} = "backend", "Backend", schema r##"{"$ref": "#/$defs/name", "examples": ["restate"]}"##;

    /// Where the request goes in the backend: `Service/handler`, or `Service/{object key}/handler`. Path parameters, `{tenant}`,
    /// `{project}` and `{subject}` may stand in the object key, the identity first, with a `:` between them; on a webhook's route that
    /// `rewrite_path` leads to Restate also `{body:/pointer}` and `{form:Field}` of the verified body, with `%3A` for `:` and `%25` for
    /// `%`. Without `/backend/rewrite_path` the request keeps its path, and only recovery, `collision` and `in_flight` use the target.
    TARGET: Custom {} = "target", "Target",
        schema r#"{"type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9._-]*(?:/(?:[A-Za-z0-9._~:@!$&'()*+=-]|\\{(?:[a-z][a-z0-9_]*|body:(?:/(?:[^~/{}\u0000]|~[01])*){1,8}|form:[^{}\u0000]+)\\})+)?/[A-Za-z_][A-Za-z0-9._-]*$", "examples": ["Refunds/create", "Cart/{tenant}:{project}:{cart_id}/checkout", "Promises/{tenant}:{project}:stripe:{body:/data/object/id}/resolve"]}"#;

    /// The answer to a verified delivery without a usable value for the `target`. `refuse`: 400 `transport_translation_failed`.
    /// `acknowledge`: 200 without a call. What the signature does not cover is always refused.
    ON_UNMATCHED: OptionalChoice<bool> { words: &[("refuse", false), ("acknowledge", true)] } = "on_unmatched", "Deliveries for nobody",
        schema r#"{"default": "refuse"}"#;

    /// `tenant` and `platform`: the route's keys are the same in all projects of the tenant; they differ only in the project's segment of
    /// keys (`_tenant`, `_platform`). Tenant and subject stay in the keys, so callers do not share them.
    SCOPE: Choice<Scope> { words: &[("project", Scope::Project), ("tenant", Scope::Tenant), ("platform", Scope::Platform)] }
        = "scope", "Scope";

    /// With `none` all callers within the route's `scope` share its keys (`_none:_` for the subject), and so answers. The caller is still
    /// needed. Only for REQUIRED_A and ACCEPTED without `webhook`, without `{subject}` in the `target` and without signed callers.
    SUBJECT: Choice<KeySubject> { words: &[("caller", KeySubject::Caller), ("none", KeySubject::None)] }
        = "subject", "Keys that callers share";

    /// The route's mode. Without it the document's holds.
    MODE: OptionalChoice<Mode> { words: &MODES } = "mode", "Enforce or shadow";

    /// The route's identity rules, in the place of the document's.
    IDENTITY: Custom {} = "identity", schema r##"{"$ref": "#/$defs/identity"}"##;

    /// The hosts that the route is for, in canonical form: `api.example.com`, or `*.example.com` for every host below; lower case, no port,
    /// no final dot. Another spelling is answered 400 `path_ambiguous`, so set `strip_any_host_port` and `strip_trailing_host_dot` in
    /// Envoy. A route with hosts outranks one without.
    HOSTS: Texts<String> { parse: parse_host } = "hosts", "Hosts",
        schema r#"{"type": "array", "items": {"type": "string", "pattern": "^(?:\\[[0-9a-f.]*:[0-9a-f:.]*\\]|(?:\\*\\.)?(?!\\.)[a-z0-9._~-]*[a-z0-9_~-])$", "examples": ["api.example.com", "*.example.com"]}, "default": []}"#;

    /// Whether a caller can ask for the result of its own request under `…/by-idempotency-key/{key}`. Default: `true` on REQUIRED_A and
    /// ACCEPTED routes with a `target` in Restate, the only ones that can; not in shadow mode.
    RECOVERY: OptionalFlag {} = "recovery", "Recovery";

    /// With `attach` Restate lets a duplicate in flight wait for the same answer. With `conflict` the filter asks Restate through
    /// `/backend/cluster` before each request with a key, and refuses a duplicate with 409 `idempotency_key_in_flight`; without an
    /// answer, and in shadow mode, the request is forwarded. The body is buffered, up to `max_body_bytes`.
    IN_FLIGHT: Choice<bool> { words: &[("attach", false), ("conflict", true)] } = "in_flight", "Requests in flight";

    /// The longest body that the filter reads, in bytes, on routes with webhooks, signed callers, `collision` or `"in_flight":
    /// "conflict"`. A longer one is answered 413; with `observe`, and where only shadow mode reads it, it is forwarded. The gateway's
    /// buffer has to be 64 KiB larger.
    MAX_BODY_BYTES: Integer { least: 1, most: 1 << 30, default: defaults::MAX_BODY_BYTES } = "max_body_bytes", "Longest body";

    /// Whether Restate answers before the work is done; with `/backend/rewrite_path` the request goes to `/restate/send`. Needs a
    /// `target` in Restate.
    ONE_WAY: Flag { default: false } = "one_way", "One-way";

    /// Whether the path's parameters may contain a slash, written `%2F`. Other routes answer it 400 `path_ambiguous`, since many backends
    /// decode a path before they route it. It cannot be set where the decoded path could be another route's.
    ENCODED_SLASH: Flag { default: false } = "encoded_slash", "Escaped slashes";

    /// With `rewrite_path`, the query parameters that reach the target; all others are dropped. `delay`, `delaysec` and `limit-key` never
    /// come from a client.
    QUERY: Texts<String> { parse: parse_query_name } = "query", "Query parameters",
        schema r##"{"type": "array", "items": {"$ref": "#/$defs/queryName"}, "default": []}"##;

    WEBHOOK: Custom {} = "webhook", schema r##"{"$ref": "#/$defs/routeWebhook"}"##;

    KEY: Custom {} = "key", schema r##"{"$ref": "#/$defs/keyRules"}"##;

    ANSWER: Custom {} = "answer", schema r##"{"$ref": "#/$defs/answer"}"##;

    /// Where an answer of a `HANDLER_INTERNAL_C` route without `one_way` says that its work had been done before: the JSON pointer of a
    /// member that is `true` (`handler_internal_dedup_hit_total`). The answer passes unchanged. Not counted are bodies that are
    /// compressed, no JSON or longer than 1 MiB.
    INTERNAL_HIT: Text<Pointer> { parse: parse_pointer } = "internal_hit", "Duplicates that the handler finds",
        schema r#"{"type": "string", "pattern": "^(?:/(?:[^~/]|~[01])*){1,8}$", "examples": ["/duplicate"]}"#;

    API_KEY: Custom {} = "api_key", schema r##"{"$ref": "#/$defs/routeApiKey"}"##;
}

members! {
    /// What becomes of an answer with status 200 from the route's `target`, Restate's only success. Replays and recoveries get the same.
    /// Needs `/backend/rewrite_path`, and not `one_way`.
    answer = "answer", "Shape of a success",
        schema r#"{"minProperties": 1}"#;

    /// The status in the place of 200; not 204, 205 or 206.
    STATUS: OptionalInteger { least: 200, most: 299 } = "status", "Status",
        schema r#"{"not": {"enum": [204, 205, 206]}, "examples": [201]}"#;

    /// The header `Location`: an absolute path with `{body:/id}` for the string or integer at this pointer of the answer, and `{name}`
    /// for a parameter of the path. The filter waits for the body, up to 1 MiB, and the gateway's buffer has to be 64 KiB larger. Without
    /// a usable value the answer keeps its status 200 and is counted (`idempotency_answer_unshaped_total`). An answer that passes 1 MiB
    /// while it comes becomes 502 `answer_unavailable`.
    LOCATION: Text<String> { parse: parse_text } = "location", "Location",
        schema r#"{"type": "string", "pattern": "^(?:/(?!\\.{1,2}(?:/|$))(?:[A-Za-z0-9._~:@!$&'()*+=-]|\\{[a-z][a-z0-9_]*\\}|\\{body:(?:/(?:[^{}~/]|~[01])*){1,8}\\})+)+$", "examples": ["/api/v1/refunds/{body:/id}"]}"#;
}

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

/// The members of a route that requests need as they are written: no other member changes what they mean.
#[derive(Debug, Clone)]
pub struct RouteMembers {
    /// The scope of its keys
    pub scope: Scope,
    /// Whose its keys are
    pub subject: KeySubject,
    /// The longest body that is buffered, in bytes
    pub max_body_bytes: u64,
    /// Whether the response comes before the work is done
    pub one_way: bool,
    /// Query parameters that reach the target
    pub query: Vec<String>,
    /// The webhook, if the route takes deliveries
    pub webhook: Option<WebhookBlock>,
    /// Whether the value of a path parameter may contain `%2F`
    pub encoded_slash: bool,
    /// Whether errors in JSON are cleaned, if the route says so itself
    pub clean_errors: Option<bool>,
    /// The member that replays in JSON get, if the route names one
    pub replay_member: Option<String>,
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
    /// What requests need as it is written
    pub members: RouteMembers,
    /// `target`, not parsed yet
    pub target: Option<&'j str>,
    /// `on_unmatched`, if the route has it: whether deliveries without a value for the target are acknowledged
    pub acknowledges: Option<bool>,
    /// `mode`, if the route has it
    pub mode: Option<Mode>,
    /// `identity`, if the route has it
    pub identity: Option<IdentityRules>,
    /// `hosts`; empty for all
    pub hosts: Vec<String>,
    /// `recovery`, if the route has it
    pub recovery: Option<bool>,
    /// `collision`, and what is compared
    pub comparison: ComparisonDocument,
    /// Whether a request whose key is in flight is refused
    pub in_flight_conflict: bool,
    /// `key`, if the route has it
    pub key: Option<Arc<KeyRules>>,
    /// `answer`, if the route has it
    pub answer: Option<AnswerDocument>,
    /// `internal_hit`, if the route has it: the member of an answer that says whether the handler had done the work before
    pub internal_hit: Option<Pointer>,
    /// `api_key`, if the route has it
    pub api_key: Option<ApiKeyRules>,
}

/// An `answer` object.
#[derive(Debug, Clone)]
pub(crate) struct AnswerDocument {
    /// The status of a success, as digits
    pub status: Option<String>,
    /// The template of `Location`, not parsed yet
    pub location: Option<String>,
}

/// A route has its plain members as if they were its own.
impl Deref for RouteDocument<'_> {
    type Target = RouteMembers;

    fn deref(&self) -> &RouteMembers {
        &self.members
    }
}

impl<'j> RouteDocument<'j> {
    /// Whether requests without an identity are refused, since keys or the target hold a part of it.
    pub(crate) fn needs_identity(&self) -> bool {
        let names = |target: &str| IDENTITY_NAMES.iter().any(|name| target.contains(&format!("{{{name}}}")));
        self.webhook.is_none() && (self.policy.is_case_a() || self.target.is_some_and(names))
    }

    /// Whether the backend stores results under the keys of the route's callers.
    pub(crate) fn has_results(&self) -> bool {
        self.policy.is_case_a() && self.target.is_some() && self.webhook.is_none()
    }

    /// Reads one route.
    pub(crate) fn read(at: &JsonCursor<'j>, issues: &mut Issues) -> Option<Self> {
        let fields = route::OBJECT.read(at, issues)?;
        let endpoint = route::ENDPOINT.at(&fields, issues).and_then(|at| at.parse(issues, check_name));
        let template = route::PATH.read(&fields, issues);
        let policy = route::POLICY.read(&fields, issues);
        let methods = route::METHODS.at(&fields, issues).and_then(|at| {
            let methods = at.list(issues, Method::parse)?;
            if at.items(issues)?.is_empty() {
                issues.add(at.pointer.clone(), "list at least one method, or leave the member out (`[\"POST\"]`)");
            }
            Some(methods)
        });
        let target = route::TARGET.at(&fields, issues).and_then(|at| at.parse(issues, check_text));
        let read =
            [route::ENDPOINT.name, route::PATH.name, route::POLICY.name, route::METHODS.name, route::TARGET.name];
        let fields = fields.besides(&read);
        Some(Self {
            methods,
            target,
            members: RouteMembers {
                scope: route::SCOPE.read(&fields, issues),
                subject: route::SUBJECT.read(&fields, issues),
                max_body_bytes: route::MAX_BODY_BYTES.read(&fields, issues),
                one_way: route::ONE_WAY.read(&fields, issues),
                query: route::QUERY.read(&fields, issues).unwrap_or_default(),
                webhook: route::WEBHOOK.at(&fields, issues).and_then(|at| read_webhook(&at, issues)),
                encoded_slash: route::ENCODED_SLASH.read(&fields, issues),
                clean_errors: document::CLEAN_ERRORS.read(&fields, issues),
                replay_member: document::REPLAY_MEMBER.read(&fields, issues),
            },
            acknowledges: route::ON_UNMATCHED.read(&fields, issues),
            backend: route::BACKEND.at(&fields, issues).and_then(|at| at.parse(issues, check_text)),
            mode: route::MODE.read(&fields, issues),
            identity: route::IDENTITY
                .at(&fields, issues)
                .map(|at| IdentityRules::read(&at, IdentityOwner::Route, issues).unwrap_or_default()),
            hosts: route::HOSTS.read(&fields, issues).unwrap_or_default(),
            recovery: route::RECOVERY.read(&fields, issues),
            comparison: ComparisonDocument::read(&fields, issues),
            in_flight_conflict: route::IN_FLIGHT.read(&fields, issues),
            key: read_key(route::KEY.at(&fields, issues), issues),
            answer: route::ANSWER.at(&fields, issues).and_then(|at| read_answer(&at, issues)),
            internal_hit: route::INTERNAL_HIT.read(&fields, issues),
            api_key: route::API_KEY.at(&fields, issues).and_then(|at| ApiKeyRules::read(&at, issues)),
            endpoint: endpoint?,
            template: template?,
            policy: policy?,
        })
    }
}

#[inline(never)]
fn read_answer(at: &JsonCursor<'_>, issues: &mut Issues) -> Option<AnswerDocument> {
    let fields = answer::OBJECT.read(at, issues)?;
    let status = answer::STATUS.read(&fields, issues);
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
        location: answer::LOCATION.read(&fields, issues),
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

/// Query parameters by which a client of Restate steers a call
pub(super) const STEERING: [&str; 3] = ["delay", "delaysec", "limit-key"];

/// Parses the name of a query parameter that may reach the target.
fn parse_query_name(text: &str) -> Result<String, String> {
    if STEERING.iter().any(|name| text.eq_ignore_ascii_case(name)) {
        return Err(format!("`{text}` controls the backend itself, so a client cannot send it: remove it"));
    }
    parse_header_name(text).map(|_| text.to_owned()).map_err(|_| "expected a query parameter's name".to_owned())
}
