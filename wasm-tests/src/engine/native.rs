//! A case through the core, without any host: effects are carried out on the messages themselves.

use std::borrow::Cow;
use std::collections::BTreeMap;

use edge_idempotency_engine::headers::Headers as Lines;
use edge_idempotency_engine::host::RouterHints;
use edge_idempotency_engine::identity::{AttributeValue as Found, Attributes, MetadataPath};
use edge_idempotency_engine::json::Json;
use edge_idempotency_engine::lookup::FakeStores;
use edge_idempotency_engine::{Effect, Exchange, HeaderMapKind, Policy, PolicyErrors, ResponseFlow};
use serde_json::{Map, Value};

use crate::cases::{Case, Outcome, StartErrors};
use crate::http::{Headers, LocalReply};

/// Runs cases through the core.
#[derive(Clone, Copy, Debug, Default)]
pub struct Native;

impl Native {
    /// Runs a case.
    pub fn run(self, case: &Case) -> Outcome {
        match policy(&case.policy, &case.environment) {
            Ok(policy) => exchange(case, &policy),
            Err(errors) => Outcome { failures: vec![errors.to_string()], ..Outcome::default() },
        }
    }

    /// The errors of a policy, each as `pointer: message`; none if it starts.
    pub fn start(self, case: &StartErrors) -> Vec<String> {
        let issues = policy(&case.policy, &case.environment).err().map(|errors| errors.0).unwrap_or_default();
        issues.iter().map(ToString::to_string).collect()
    }
}

fn policy(document: &[u8], environment: &BTreeMap<String, String>) -> Result<Policy, PolicyErrors> {
    let mut policy = Policy::from_json(document)?;
    let variable = |name: &str| environment.get(name).map(|value| value.clone().into_bytes());
    policy.take_secrets_or_advise(variable, edge_idempotency_envoy::ENVIRONMENT_ADVICE)?;
    Ok(policy)
}

fn exchange(case: &Case, policy: &Policy) -> Outcome {
    let mut exchange = Exchange::new();
    let known = Known(case);
    let mut request = case.request.clone();
    let mut effects = Vec::new();
    let head = lines(&case.request.headers);
    let stores = match stores(case) {
        Ok(stores) => stores,
        Err(error) => return Outcome { failures: vec![error], ..Outcome::default() },
    };
    let now = case.now_unix_ms.unwrap_or_default();
    exchange.whole_request(policy, (&head, &case.request.body), &known, &stores, now, &mut effects);
    if let Some(reply) = effects.iter().find_map(|effect| reply(effect, policy)) {
        let mut answer = reply.into_message();
        if request.headers.get(":method") == Some(b"HEAD") {
            answer.body.clear();
        }
        return Outcome { client: Some(answer), ..Outcome::default() };
    }
    apply(&effects, HeaderMapKind::Request, &mut request.headers);
    if let (Some(came), Some(trailers)) = (&case.request.trailers, &mut request.trailers) {
        let mut effects = Vec::new();
        exchange.request_trailers(policy, &lines(came), &mut effects);
        apply(&effects, HeaderMapKind::RequestTrailers, trailers);
    }
    let mut response = case.response.clone();
    let mut effects = Vec::new();
    let head = lines(&case.response.headers);
    if let ResponseFlow::AwaitBody { limit } = exchange.response_headers(policy, &head, &mut effects) {
        let body = &case.response.body;
        if body.len() as u64 > limit {
            exchange.response_body_too_large(policy, &mut effects);
        } else {
            exchange.response_body(policy, body, &mut effects);
        }
    }
    let body = effects.iter().find_map(|effect| match effect {
        Effect::Body(body) => Some(body.clone()),
        _ => None,
    });
    // A response without a body is answered instead, with what is set and nothing of its own.
    if body.is_some() && response.body.is_empty() && response.trailers.is_none() {
        let status = response.headers.get(":status").unwrap_or_default().to_vec();
        response.headers = Headers::new();
        response.headers.set(":status", status);
    }
    apply(&effects, HeaderMapKind::Response, &mut response.headers);
    if let Some(body) = body {
        response.body = body;
    }
    if let (Some(came), Some(trailers)) = (&case.response.trailers, &mut response.trailers) {
        let mut effects = Vec::new();
        exchange.response_trailers(policy, &lines(came), &mut effects);
        apply(&effects, HeaderMapKind::ResponseTrailers, trailers);
    }
    if case.request.headers.get(":method") == Some(b"HEAD") {
        response.body.clear();
    }
    Outcome { upstream: Some(request), client: Some(response), ..Outcome::default() }
}

/// The stores of a case.
pub(super) fn stores(case: &Case) -> Result<FakeStores, String> {
    let Some(lookups) = &case.lookups else { return Ok(FakeStores::default()) };
    Json::parse(lookups.to_string().as_bytes())
        .map_err(|error| error.to_string())
        .and_then(|json| FakeStores::read(&json))
        .map_err(|error| format!("`lookups`: {error}"))
}

fn lines(headers: &Headers) -> Lines<'_> {
    Lines::new(headers.iter().map(|(name, value)| (name.as_bytes(), value)).collect())
}

fn reply(effect: &Effect<'_>, policy: &Policy) -> Option<LocalReply> {
    let Effect::Reply(problem) = effect else { return None };
    let docs_url = policy.docs_url();
    Some(LocalReply {
        status: u32::from(problem.status()),
        headers: problem.headers(docs_url).into_iter().collect(),
        body: problem.document(docs_url).into_bytes(),
        details: String::new(),
    })
}

fn apply(effects: &[Effect<'_>], here: HeaderMapKind, headers: &mut Headers) {
    for effect in effects {
        match effect {
            Effect::Set { map, name, value } if *map == here => headers.set(name, value.to_vec()),
            Effect::Remove { map, name } if *map == here => headers.remove(&String::from_utf8_lossy(name)),
            _ => {}
        }
    }
}

/// What the gateway knows about a case's request.
struct Known<'a>(&'a Case);

impl Attributes for Known<'_> {
    fn metadata(&self, path: &MetadataPath) -> Found<'_> {
        look_up(&self.0.metadata, path.segments().iter().map(String::as_str))
    }

    fn route_endpoint(&self) -> Found<'_> {
        look_up(&self.0.route_metadata, ["edge.idempotency", "endpoint"])
    }

    fn router(&self) -> Option<&'static RouterHints> {
        Some(&edge_idempotency_envoy::ROUTER)
    }
}

fn look_up<'a, 's>(root: &'a Map<String, Value>, path: impl IntoIterator<Item = &'s str>) -> Found<'a> {
    let mut path = path.into_iter();
    let first = path.next().and_then(|segment| root.get(segment));
    let step = |value: &'a Value, segment: &str| match value {
        Value::Array(items) => segment.parse().ok().and_then(|index: usize| items.get(index)),
        other => other.get(segment),
    };
    match path.fold(first, |value, segment| step(value?, segment)) {
        None | Some(Value::Null) => Found::Absent,
        Some(Value::String(text)) => Found::Text(Cow::Borrowed(text.as_bytes())),
        Some(_) => Found::Unusable,
    }
}
