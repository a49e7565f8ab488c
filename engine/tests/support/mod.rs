//! Requests as a host shows them to the core, and what becomes of them: effects applied the way a proxy does.

use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::host::RouterHints;
use edge_idempotency_engine::identity::{AttributeValue, Attributes, MetadataPath};
use edge_idempotency_engine::lookup::FakeStores;
use edge_idempotency_engine::problem::Problem;
use edge_idempotency_engine::{Effect, Exchange, HeaderMapKind, Policy, RequestFlow};
use serde_json::Value as Json;
use std::borrow::Cow;
use std::fmt;

/// A header line; hosts give names in lower case.
pub(crate) type Line = (Vec<u8>, Vec<u8>);

/// One request.
#[derive(Clone, Default)]
pub(crate) struct Request {
    /// Pseudo headers among them
    pub(crate) headers: Vec<Line>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Vec<Line>,
    /// Dynamic metadata by namespace, typed
    pub(crate) metadata: Json,
    /// `filter_metadata["edge.idempotency"].endpoint` of the gateway's route
    pub(crate) endpoint: Option<Json>,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = |f: &mut fmt::Formatter<'_>, lines: &[Line]| {
            lines
                .iter()
                .try_for_each(|(name, value)| writeln!(f, "  {}: {}", name.escape_ascii(), value.escape_ascii()))
        };
        writeln!(f, "request")?;
        lines(f, &self.headers)?;
        writeln!(f, "  body {}\n  trailers", self.body.escape_ascii())?;
        lines(f, &self.trailers)?;
        writeln!(f, "  metadata {}\n  endpoint {:?}", self.metadata, self.endpoint)
    }
}

impl Attributes for Request {
    fn metadata(&self, path: &MetadataPath) -> AttributeValue<'_> {
        typed(path.segments().iter().try_fold(&self.metadata, |value, segment| match value {
            Json::Object(members) => members.get(segment),
            Json::Array(items) => items.get(segment.parse::<usize>().ok()?),
            _ => None,
        }))
    }

    fn route_endpoint(&self) -> AttributeValue<'_> {
        typed(self.endpoint.as_ref())
    }

    fn router(&self) -> Option<&'static RouterHints> {
        Some(&edge_idempotency_envoy::ROUTER)
    }
}

fn typed(value: Option<&Json>) -> AttributeValue<'_> {
    match value {
        None | Some(Json::Null) => AttributeValue::Absent,
        Some(Json::String(text)) => AttributeValue::Text(Cow::Borrowed(text.as_bytes())),
        Some(_) => AttributeValue::Unusable,
    }
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Verdict {
    /// The backend gets these headers and trailers.
    Forwarded { headers: Vec<Line>, trailers: Vec<Line> },
    /// The client gets this.
    Refused(Problem),
}

/// Runs a request through the engine, its body and trailers too.
pub(crate) fn run(policy: &Policy, request: &Request, attributes: &dyn Attributes) -> (Exchange, Verdict) {
    let mut exchange = Exchange::new();
    let headers = borrowed(&request.headers);
    let mut effects = Vec::new();
    let whole = (&headers, request.body.as_slice());
    let flow = exchange.whole_request(policy, whole, attributes, &FakeStores::default(), 0, &mut effects);
    if flow == RequestFlow::Replied {
        let [Effect::Reply(problem)] = effects.as_slice() else { panic!("a reply and nothing else: {effects:?}") };
        let problem = problem.clone();
        assert_eq!(exchange.refusal(), Some(&problem));
        return (exchange, Verdict::Refused(problem));
    }
    assert_eq!(flow, RequestFlow::Continue);
    assert_eq!(exchange.refusal(), None);
    let headers = applied(&effects, HeaderMapKind::Request, &request.headers);
    let trailers = borrowed(&request.trailers);
    let mut effects = Vec::new();
    exchange.request_trailers(policy, &trailers, &mut effects);
    let trailers = applied(&effects, HeaderMapKind::RequestTrailers, &request.trailers);
    (exchange, Verdict::Forwarded { headers, trailers })
}

fn borrowed(lines: &[Line]) -> Headers<'_> {
    Headers::new(lines.iter().map(|(name, value)| (name.as_slice(), value.as_slice())).collect())
}

/// A proxy's header map after the effects: setting replaces every line of a name, removing removes every line.
pub(crate) fn applied(effects: &[Effect<'_>], wanted: HeaderMapKind, lines: &[Line]) -> Vec<Line> {
    let mut lines = lines.to_vec();
    for effect in effects {
        match effect {
            Effect::Set { map, name, value } => {
                assert_eq!(*map, wanted);
                lines.retain(|(line, _)| !line.eq_ignore_ascii_case(name.as_bytes()));
                lines.push((name.as_bytes().to_vec(), value.to_vec()));
            }
            Effect::Remove { map, name } => {
                assert_eq!(*map, wanted);
                lines.retain(|(line, _)| !line.eq_ignore_ascii_case(name));
            }
            Effect::Body(_) => panic!("a request's body stays as it is"),
            Effect::Reply(problem) => panic!("a reply that ended nothing: {problem:?}"),
        }
    }
    lines
}
