//! What callers see of a route: its key, the refusals of the filter, and the headers of answers (docs/contract.md sections 2, 6
//! and 8). Shadow mode makes no difference: a description is for clients that are ready when the route enforces.

use super::key_schema::KeySchema;
use edge_idempotency_engine::Policy;
use edge_idempotency_engine::policy::needs::RouteNeeds;
use edge_idempotency_engine::policy::{PolicyKind, Route, Target};
use edge_idempotency_engine::problem::Code;

/// What a route does with the key of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyUse {
    /// A request without one is refused.
    Required,
    /// It is used if it is there.
    Optional,
    /// It is used if it is there, and so is one in other places.
    AnyPlace,
    /// A request with one is refused.
    Refused,
    /// It is taken off the request.
    Removed,
}

impl KeyUse {
    /// Whether it becomes a key.
    const fn takes(self) -> bool {
        matches!(self, Self::Required | Self::Optional | Self::AnyPlace)
    }
}

/// The problem documents with one status.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RefusalStatus {
    /// The HTTP status
    pub(crate) status: u16,
    /// The codes, in the order of the page of errors
    pub(crate) codes: Vec<&'static str>,
}

/// A header of answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnswerHeader {
    /// The name
    pub(crate) name: String,
    /// Its name among the components of a description
    pub(crate) component: String,
    /// The type of its JSON Schema
    pub(crate) kind: &'static str,
    /// What it says
    pub(crate) description: &'static str,
}

/// What callers see of a route.
pub(crate) struct RouteInterface<'p> {
    /// The route
    pub(crate) route: &'p Route,
    /// What it does with a key
    pub(crate) key: KeyUse,
    /// The statuses that the filter itself answers, in order
    pub(crate) refusals: Vec<RefusalStatus>,
    /// The headers that every answer may have; none if the route takes no keys
    pub(crate) headers: Vec<AnswerHeader>,
    /// The header of a 503, whatever the route does with keys
    retry_after: AnswerHeader,
    /// Whether duplicates in flight are answered 409 with `Retry-After`, by the filter or by the backend
    pub(crate) answers_in_flight: bool,
}

impl<'p> RouteInterface<'p> {
    /// What callers see of a route of this policy.
    pub(crate) fn new(policy: &'p Policy, route: &'p Route) -> Self {
        let has_places = route.key.as_deref().is_some_and(|rules| !rules.from.is_empty());
        let key = match route.policy {
            _ if route.webhook.is_some() => KeyUse::Removed,
            PolicyKind::RequiredA | PolicyKind::Accepted if has_places => KeyUse::AnyPlace,
            PolicyKind::RequiredA => KeyUse::Required,
            PolicyKind::Accepted => KeyUse::Optional,
            PolicyKind::Prohibited => KeyUse::Refused,
            PolicyKind::RequiredB | PolicyKind::HandlerInternalC => KeyUse::Removed,
        };
        let takes_keys = key.takes();
        // Another backend than one whose results are found refuses duplicates in flight by itself.
        let refuses = |own: &RouteNeeds| {
            own.refuses_in_flight
                || policy.needs().backend_of(own).is_some_and(|backend| !backend.abilities.finds_results)
        };
        Self {
            route,
            key,
            refusals: refusals(policy, route, key),
            headers: if takes_keys { headers(policy, route) } else { Vec::new() },
            retry_after: retry_after(),
            answers_in_flight: takes_keys && policy.needs_of(route).is_some_and(refuses),
        }
    }

    /// The headers that a refusal with this status may have.
    pub(crate) fn headers_of(&self, status: u16) -> impl Iterator<Item = &AnswerHeader> {
        let is_unavailable = status == Code::DependencyUnavailable.status();
        let alone = (self.headers.is_empty() && is_unavailable).then_some(&self.retry_after);
        self.headers.iter().chain(alone)
    }

    /// All headers of its answers.
    pub(crate) fn all_headers(&self) -> impl Iterator<Item = &AnswerHeader> {
        self.headers.iter().chain([&self.retry_after])
    }

    /// Whether the route makes keys of what callers send.
    pub(crate) const fn takes_keys(&self) -> bool {
        self.key.takes()
    }

    /// Whether the route takes deliveries of a webhook.
    pub(crate) fn is_webhook(&self) -> bool {
        self.route.webhook.is_some()
    }

    /// Whether callers see the same of both routes.
    pub(crate) fn looks_like(&self, other: &Self) -> bool {
        (self.route.policy, self.key, &self.refusals, &self.headers)
            == (other.route.policy, other.key, &other.refusals, &other.headers)
            && self.key_schema().to_json() == other.key_schema().to_json()
    }

    /// The rules for its keys.
    pub(crate) fn key_schema(&self) -> KeySchema<'p> {
        KeySchema::new(self.route.key.as_deref())
    }
}

/// The codes that the filter can answer on a route.
fn refusals(policy: &Policy, route: &Route, key: KeyUse) -> Vec<RefusalStatus> {
    let takes_keys = key.takes();
    let is_webhook = route.webhook.is_some();
    let own = policy.needs_of(route);
    let compares = takes_keys && own.is_some_and(|own| own.collision.refuses());
    let asks_in_flight = takes_keys && own.is_some_and(|own| own.refuses_in_flight);
    let has_registry = !is_webhook && own.is_some_and(|own| policy.needs().asks_registry(own));
    let is_signed = !route.callers.is_empty();
    let names_caller = route.target.as_deref().is_some_and(Target::needs_identity);
    let needs_identity = !is_webhook && (takes_keys || names_caller);
    let can_give = |code: Code| match code {
        Code::KeyRequired => takes_keys && route.policy == PolicyKind::RequiredA,
        Code::KeyInvalid => takes_keys,
        Code::KeyProhibited => key == KeyUse::Refused,
        Code::PathAmbiguous | Code::DependencyUnavailable | Code::InternalError | Code::PolicyInvalid => true,
        Code::RequestInvalid => is_webhook || is_signed || compares || asks_in_flight,
        Code::TransportTranslationFailed => is_webhook,
        Code::IdentityMissing => needs_identity || has_registry,
        Code::ApiKeyInvalid | Code::ApiKeyForbidden => has_registry,
        Code::SignatureInvalid => is_signed,
        Code::WebhookSignatureInvalid => is_webhook,
        Code::IdentityInvalid | Code::IdentityReserved => needs_identity,
        Code::KeyInFlight => asks_in_flight,
        Code::KeyReused => compares,
        _ => false,
    };
    let mut refusals: Vec<RefusalStatus> = Vec::new();
    for code in Code::ALL.into_iter().filter(|code| can_give(*code)) {
        match refusals.iter_mut().find(|refusal| refusal.status == code.status()) {
            Some(refusal) => refusal.codes.push(code.name()),
            None => refusals.push(RefusalStatus { status: code.status(), codes: vec![code.name()] }),
        }
    }
    refusals.sort_by_key(|refusal| refusal.status);
    refusals
}

fn header(name: &str, component: &str, kind: &'static str, description: &'static str) -> AnswerHeader {
    AnswerHeader { name: name.to_owned(), component: component.to_owned(), kind, description }
}

fn retry_after() -> AnswerHeader {
    let text = "How long to wait at least before the next attempt: a number of seconds, or a date (RFC 9110).";
    header("Retry-After", "IdempotencyRetryAfter", "string", text)
}

/// The headers of answers to requests with a key.
fn headers(policy: &Policy, route: &Route) -> Vec<AnswerHeader> {
    let backend = policy.needs_of(route).and_then(|own| policy.needs().backend_of(own));
    let mut headers = vec![
        header(
            "Idempotency-Status",
            "IdempotencyStatus",
            "string",
            // Routes of several backends share the component.
            if policy.needs().backends.iter().any(|backend| backend.abilities.finds_results) {
                "What happened under the key: `stored` (the work ended while the request waited, and its result is kept), `replayed` \
                 (this is the kept result of an earlier request) or `processing` (the result is not there yet)."
            } else {
                "`replayed`: this is the kept result of an earlier request with this key."
            },
        ),
        header(
            "Idempotent-Replayed",
            "IdempotentReplayed",
            "boolean",
            "`true` if the answer is the kept result of an earlier request.",
        ),
        header(
            "Idempotency-Retry",
            "IdempotencyRetry",
            "string",
            "What to do after an error: `same_key` and `wait` (send the same request with the same key later), `new_key`, `new_request` \
             or `never`.",
        ),
        retry_after(),
    ];
    if backend.is_some_and(|backend| backend.abilities.tells_expiry) {
        let text = "Until when the result is kept (RFC 3339). After that the same key starts the work anew.";
        headers.push(header("Idempotency-Expires", "IdempotencyExpires", "string", text));
    }
    if let Some(name) = backend.and_then(|backend| backend.operation_id.as_ref()) {
        let text = "The id of the operation, the same for a call and its replays.";
        headers.push(header(&in_capitals(name), "IdempotencyOperationId", "string", text));
    }
    for name in &policy.answers.retry_headers {
        let text = "`true` after an error if the same request with the same key may be sent again, else `false`.";
        // A component's name has fewer characters than a header's.
        let component = in_capitals(name).replace(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-', ".");
        headers.push(header(&in_capitals(name), &format!("Idempotency-{component}"), "boolean", text));
    }
    headers
}

/// A header's name with a capital at the beginning of each word.
fn in_capitals(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    name.split('-').map(word).collect::<Vec<_>>().join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(routes: &str, identity: &str, more: &str) -> Policy {
        let document = format!(
            r#"{{"version": 1, {more} "identity": {{"sources": [{identity}]}},
                "backend": {{"kind": "restate", "cluster": "r", "guard": {{"retention": "8d"}}, "rewrite_path": true}},
                "routes": [{routes}]}}"#
        );
        Policy::from_json(document.as_bytes()).unwrap_or_else(|errors| panic!("{errors}"))
    }

    const JWT: &str = r#"{"name": "jwt", "metadata": ["a", "b"], "tenant": "t", "project": "p", "subject": {"field": "sub", "type": "user"}}"#;
    const REGISTRY: &str = r#"{"name": "key", "unkey": {"header": "x-api-key", "cluster": "u"}, "tenant": "/t", "project": "/p", "subject": {"field": "/s", "type": "user"}}"#;

    fn statuses(route: &str, identity: &str) -> String {
        let policy = described(&format!(r#"{{"endpoint": "a", "path": "/a", {route}}}"#), identity, "");
        let interface = RouteInterface::new(&policy, policy.routes().next().unwrap());
        interface.refusals.iter().map(|one| format!("{} {} ", one.status, one.codes.len())).collect::<String>()
    }

    #[test]
    fn a_route_gives_the_statuses_of_its_members_only() {
        for (route, identity, expected) in [
            (r#""policy": "REQUIRED_A", "target": "A/a""#, JWT, "400 3 401 1 403 2 503 3 "),
            (r#""policy": "ACCEPTED", "target": "A/a""#, JWT, "400 2 401 1 403 2 503 3 "),
            (r#""policy": "PROHIBITED", "target": "A/a""#, JWT, "400 2 503 3 "),
            (r#""policy": "PROHIBITED", "target": "A/{tenant}/a""#, JWT, "400 2 401 1 403 2 503 3 "),
            (r#""policy": "HANDLER_INTERNAL_C", "target": "A/a""#, JWT, "400 1 503 3 "),
            (r#""policy": "PROHIBITED", "target": "A/a""#, REGISTRY, "400 2 401 2 403 1 503 3 "),
            (
                r#""policy": "REQUIRED_A", "target": "A/a", "collision": "enforce""#,
                JWT,
                "400 4 401 1 403 2 422 1 503 3 ",
            ),
            (r#""policy": "REQUIRED_A", "target": "A/a", "collision": "observe""#, JWT, "400 3 401 1 403 2 503 3 "),
            (
                r#""policy": "REQUIRED_A", "target": "A/a", "in_flight": "conflict""#,
                JWT,
                "400 4 401 1 403 2 409 1 503 3 ",
            ),
            (
                r#""policy": "REQUIRED_B", "target": "A/a", "webhook": {"provider": "stripe", "id": "wh_01JABC"}"#,
                JWT,
                "400 3 401 1 503 3 ",
            ),
        ] {
            assert_eq!(statuses(route, identity), expected, "{route}");
        }
    }

    #[test]
    fn headers_are_those_of_the_backend_and_the_document() {
        let more = r#""retry_headers": ["x-should-retry"],"#;
        let policy =
            described(r#"{"endpoint": "a", "path": "/a", "policy": "REQUIRED_A", "target": "A/a"}"#, JWT, more);
        let interface = RouteInterface::new(&policy, policy.routes().next().unwrap());
        let names: Vec<&str> = interface.headers.iter().map(|header| header.name.as_str()).collect();
        assert_eq!(names[4..], ["Idempotency-Expires", "X-Operation-Id", "X-Should-Retry"]);
        assert!(!interface.answers_in_flight && interface.takes_keys());
    }
}
