//! What the filter does, said once more from docs/contract.md sections 2 and 3: with regular expressions, with lists that are
//! searched from end to end, without a thought for speed.

mod caller;
mod key;
mod paths;
mod routes;

use super::generate::{
    BackendModel, FUTURE_KEY, KEY_COPY, Kind, OWN_KEY, PARAMETERS, PolicyModel, RouteModel, ScopeModel, Segment,
};
use direct::requests::{OwnedLine, Request};
use serde_json::Value as Json;

use paths::{MALFORMED, hides_dots};
use routes::{by_method, is_authority, is_other_spelling};

pub(crate) use caller::{CallerModel, caller, percent_encoded};
pub(crate) use key::{read_key, read_keys};
pub(crate) use paths::{normalised, percent_decoded, segments, with_slashes};
pub(crate) use routes::{Declared, declared, methods, values};

/// A pattern of bytes.
macro_rules! pattern {
    ($visible:vis $name:ident, $pattern:expr) => {
        $visible static $name: std::sync::LazyLock<regex::bytes::Regex> =
            std::sync::LazyLock::new(|| regex::bytes::Regex::new(&format!("(?s-u){}", $pattern)).unwrap());
    };
}
use pattern;

pattern!(NAMESPACED, r#"^[ \t"]*t-"#);

/// What a request should lead to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expected {
    /// Sorted header lines, and who calls, if that is known
    Forwarded { headers: Vec<OwnedLine>, caller: Option<CallerModel>, key: Option<String> },
    /// Code and reason
    Refused(&'static str, Option<&'static str>),
    /// 405, and what is allowed, sorted
    OtherMethods(Vec<String>),
    /// A webhook's verdict is not modelled here
    Webhook,
}

fn refused<T>(code: &'static str) -> Result<T, Expected> {
    Err(Expected::Refused(code, None))
}

fn pseudo<'r>(request: &'r Request, name: &str) -> &'r [u8] {
    &request.headers.iter().rev().find(|(line, _)| line == name.as_bytes()).unwrap().1
}

/// Names as they are compared: lower case, `_` as `-`.
pub(crate) fn canonical(name: &[u8]) -> String {
    String::from_utf8_lossy(name).to_ascii_lowercase().replace('_', "-")
}

/// Whether a line never gets to a backend as it came.
pub(crate) fn is_stripped(policy: &PolicyModel, backend: usize, name: &[u8]) -> bool {
    let (backend, name) = (&policy.backends[backend], canonical(name));
    let always =
        ["x-http-method-override", "x-http-method", "x-method-override", "x-original-method", "x-edge-idempotency"];
    let credentials = ["authorization", "cookie", "proxy-authorization", "x-api-key", "origin"];
    let prefixes = ["access-control-request-", "x-restate-"];
    let of_restate = credentials.contains(&name.as_str())
        || policy.hook_headers().contains(&name.as_str())
        || prefixes.iter().any(|prefix| name.starts_with(prefix));
    let identity = policy.identity_headers();
    name == "idempotency-key"
        || (policy.future_keys && name == FUTURE_KEY)
        || (policy.key_copies && name == KEY_COPY)
        || (policy.names_keys() && name == OWN_KEY)
        || (policy.parameters && name.starts_with(PARAMETERS))
        || (!backend.keep.contains(&name.as_str())
            && (always.contains(&name.as_str())
                || identity.contains(&name.as_str())
                || (backend.restate && of_restate)))
}

/// The mark of requests for a route: for a target, for a backend that is not the default, or for all.
pub(crate) fn mark(policy: &PolicyModel, route: Option<&RouteModel>) -> Option<&'static str> {
    let backend = route.map_or(0, |route| route.backend);
    let is_rewritten = route.is_some_and(|route| route.target.is_some()) && policy.backends[backend].rewrite;
    let name = policy.names.map_or("1", |names| names[backend]);
    (policy.mark_all || is_rewritten || backend != 0).then_some(name)
}

/// The first segments that a backend closes whatever routes there are; with Restate's own paths.
fn closes(policy: &PolicyModel, index: usize, path: &str) -> bool {
    let backend = &policy.backends[index];
    let lenient = String::from_utf8_lossy(&percent_decoded(path)).to_ascii_lowercase();
    let is_below = |prefix: &str| lenient == prefix || lenient.starts_with(&format!("{prefix}/"));
    let first = segments(path).first().copied().unwrap_or_default();
    let collides = |route: &RouteModel| route.collision.is_some();
    let has_restate = policy.backends.iter().any(|backend| backend.restate);
    let has_guard = backend.restate || backend.rewrite || policy.routes_of(index).any(collides);
    (has_restate || policy.routes.iter().any(collides))
        && (is_below("/restate") || lenient.starts_with("/dev.restate."))
        || backend.reserved.is_some_and(|prefix| is_below(&prefix.to_ascii_lowercase()))
        || backend.rewrite && policy.services(index).contains(&first)
        || has_guard && first == "IdempotencyGuard"
}

/// Whether a backend closes a path that no route declares; without `rewrite_path` what a route declares stays open.
fn closes_undeclared(policy: &PolicyModel, index: usize, path: &str) -> bool {
    let first = segments(path).first().copied().unwrap_or_default();
    let of_restate = policy.services(index).contains(&first) || ["openapi", "IdempotencyGuard"].contains(&first);
    closes(policy, index, path) || policy.backends[index].restate && of_restate
}

/// Whether a path that a backend gets as it is would be closed in another letter case: Restate tells the cases apart, and another
/// backend may not.
fn closes_respelled(policy: &PolicyModel, index: usize, path: &str) -> bool {
    let backend = &policy.backends[index];
    let first = segments(path).first().copied().unwrap_or_default();
    let is_respelled = |service: &str| first.eq_ignore_ascii_case(service);
    let collides = policy.routes_of(index).any(|route| route.collision.is_some());
    !backend.restate
        && (backend.rewrite && policy.services(index).into_iter().any(is_respelled)
            || (backend.rewrite || collides) && is_respelled("IdempotencyGuard"))
}

/// The normalised path of a request, without its query.
pub(crate) fn path_of(request: &Request) -> Option<String> {
    normalised(pseudo(request, ":path").split(|byte| *byte == b'?').next()?)
}

pub(crate) fn expected(policy: &PolicyModel, request: &Request) -> Expected {
    verdict(policy, request).unwrap_or_else(|refused| refused)
}

/// Whether nothing of the policy acts, so that no path is refused.
fn only_watches(policy: &PolicyModel) -> bool {
    let watched =
        |route: &RouteModel| route.shadow.unwrap_or(policy.shadow) && !route.webhook && route.collision.is_none();
    let is_open = |backend: &BackendModel| !backend.restate && !backend.rewrite && backend.reserved.is_none();
    policy.shadow && policy.routes.iter().all(watched) && policy.backends.iter().all(is_open)
}

/// Whether the default backend gets in shadow mode what no route declares.
fn watches_unmatched(policy: &PolicyModel) -> bool {
    policy.shadow && !policy.backends[0].restate && !policy.backends[0].rewrite
}

/// A route, if one takes the path, and the values of its parameters.
type Placed<'p, 'r> = (Option<&'p RouteModel>, Vec<&'r str>);

/// The route of a request and the values of its path's parameters; `None` if it goes on although enforcing would refuse it.
fn place<'p, 'r>(
    policy: &'p PolicyModel,
    request: &Request,
    (path, sent): (&'r str, &str),
) -> Result<Option<Placed<'p, 'r>>, Expected> {
    let authority = String::from_utf8_lossy(pseudo(request, ":authority")).into_owned();
    if !is_authority(&authority) {
        return refused("path_ambiguous");
    }
    if is_other_spelling(policy, &authority) {
        return refused("path_ambiguous");
    }
    // What one backend alone closes can be a path of the other.
    let all: Vec<usize> = (0..policy.backends.len()).collect();
    if all.iter().all(|index| closes(policy, *index, path)) {
        return refused("not_found");
    }
    let is_closed_undeclared = all.iter().any(|index| closes_undeclared(policy, *index, path));
    let method = String::from_utf8_lossy(pseudo(request, ":method")).into_owned();
    let found = match request.attributes.endpoint.as_ref().filter(|_| policy.gateway_routes) {
        None | Some(Json::Null) => declared(policy, &authority, path, sent, &method),
        Some(Json::String(endpoint)) => match policy.routes.iter().find(|route| route.endpoint == *endpoint) {
            None => return refused("policy_invalid"),
            Some(_) if matches!(declared(policy, &authority, path, sent, &method), Declared::OtherReading) => {
                Declared::OtherReading
            }
            Some(route) => match values(route, path) {
                Some(values) => by_method(vec![(route, values)], &method),
                None if !is_closed_undeclared
                    && route.path.iter().all(|segment| matches!(segment, Segment::Literal(_))) =>
                {
                    by_method(vec![(route, Vec::new())], &method)
                }
                None if path.contains("%2F") => Declared::Nothing,
                None => return refused("not_found"),
            },
        },
        Some(_) => return refused("policy_invalid"),
    };
    let has_slash = path.contains("%2F");
    let (route, values) = match found {
        Declared::OtherMethods(routes) => {
            let is_watched =
                |route: &&RouteModel| route.shadow.unwrap_or(policy.shadow) && !route.webhook && route.backend == 0;
            if watches_unmatched(policy) && routes.iter().all(is_watched) {
                return Ok(None);
            }
            let mut methods: Vec<String> = routes.into_iter().flat_map(methods).map(str::to_owned).collect();
            methods.sort_unstable();
            return Err(Expected::OtherMethods(methods));
        }
        Declared::OtherReading => return refused("path_ambiguous"),
        Declared::Nothing if has_slash => return refused("path_ambiguous"),
        Declared::Nothing if is_closed_undeclared || closes_respelled(policy, 0, path) => return refused("not_found"),
        Declared::Nothing if policy.unmatched == "REJECT" && watches_unmatched(policy) => return Ok(None),
        Declared::Nothing => (None, Vec::new()),
        Declared::Route(route, _)
            if closes(policy, route.backend, path)
                || route.target.is_none() && closes_respelled(policy, route.backend, path) =>
        {
            return refused("not_found");
        }
        Declared::Route(route, values)
            if has_slash && !(route.encoded_slash && values.iter().any(|value| value.contains("%2F"))) =>
        {
            return refused("path_ambiguous");
        }
        // What a backend that decodes the value would read as another place.
        Declared::Route(_, values) if values.iter().any(|value| hides_dots(value)) => {
            return refused("path_ambiguous");
        }
        Declared::Route(route, values) => (Some(route), values),
    };
    Ok(Some((route, values)))
}

fn verdict(policy: &PolicyModel, request: &Request) -> Result<Expected, Expected> {
    let target = pseudo(request, ":path");
    let (raw, query) = match target.iter().position(|byte| *byte == b'?') {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    };
    let path = normalised(raw);
    let sent = path.as_ref().and_then(|_| with_slashes(raw));
    let found = match path.as_deref().zip(sent.as_deref()) {
        Some(paths) => place(policy, request, paths),
        None => refused("path_ambiguous"),
    };
    let found = match found {
        Err(Expected::Refused("path_ambiguous", _)) if only_watches(policy) => None,
        found => found?,
    };
    let is_watched = found.is_none();
    let (route, values) = found.unwrap_or_default();
    if !is_watched && route.is_none() && policy.unmatched == "REJECT" {
        return refused("not_found");
    }
    let index = route.map_or(0, |route| route.backend);
    let is_rpc = |(name, value): &OwnedLine| name == b"content-type" && value.starts_with(b"application/grpc");
    if policy.backends[index].restate && request.headers.iter().any(is_rpc) {
        return refused("unsupported_content_type");
    }
    if route.is_some_and(|route| route.webhook) {
        return Ok(Expected::Webhook);
    }
    let kind = match (route, policy.unmatched) {
        _ if is_watched => Kind::Prohibited,
        (Some(route), _) => route.kind,
        (None, "PROHIBITED") => Kind::Prohibited,
        (None, _) => Kind::HandlerInternalC,
    };
    let shadow = route.and_then(|route| route.shadow).unwrap_or(policy.shadow);
    let scope = route.map_or(ScopeModel::Project, |route| route.scope);
    let identity = route.and_then(|route| route.identity.as_ref()).unwrap_or(&policy.identity);
    let caller = caller(&identity.sources, &["service:webhook-ingest"], scope, request);

    let rules = route.and_then(|route| route.keys).unwrap_or(policy.keys);

    // The key.
    let lines: Vec<&[u8]> = key_lines(&request.headers);
    let own = request.headers.iter().filter(|(name, _)| rules.named && name == OWN_KEY.as_bytes());
    let own: Vec<&[u8]> = own.map(|(_, value)| value.as_slice()).collect();
    let decided: Result<Option<String>, Expected> = match kind {
        _ if is_watched => refused("watched"),
        Kind::HandlerInternalC => Ok(None),
        Kind::Prohibited if lines.is_empty() && own.is_empty() => Ok(None),
        Kind::Prohibited => refused("idempotency_key_prohibited"),
        Kind::RequiredA | Kind::Accepted => match read_keys(&lines, &own, rules) {
            Err(reason) => Err(Expected::Refused("idempotency_key_invalid", Some(reason))),
            Ok(None) if kind == Kind::RequiredA => refused("idempotency_key_required"),
            Ok(None) => Ok(None),
            Ok(Some(raw)) => match &caller {
                Err(code) => refused(code),
                Ok(caller) => {
                    let shares_keys = route.is_some_and(|route| route.shares_keys);
                    let subject = if shares_keys { "_none:_" } else { &caller.subject };
                    let key = format!("t-{}:{}:{subject}:{raw}", caller.tenant, caller.project);
                    if key.len() > 640 {
                        Err(Expected::Refused("idempotency_key_invalid", Some("namespaced_length")))
                    } else {
                        Ok(Some(key))
                    }
                }
            },
        },
    };
    let backend = &policy.backends[route.map_or(0, |route| route.backend)];
    // In front of another backend than Restate shadow mode removes no key.
    let acts = !shadow || backend.restate && kind == Kind::HandlerInternalC;
    let (key, stays, future) = if acts {
        (decided?, false, None)
    } else {
        let forged = |line: &[u8]| NAMESPACED.is_match(line);
        let future = decided.ok().flatten().filter(|_| policy.future_keys);
        (None, matches!(lines.as_slice(), [line] if !forged(line)), future)
    };

    // What is forwarded.
    let backend = &policy.backends[index];
    let mut own_lines = request.headers.iter().filter(|(name, _)| policy.names_keys() && name == OWN_KEY.as_bytes());
    let own_stays = match (own_lines.next(), own_lines.next()) {
        (Some((_, line)), None) => shadow && !NAMESPACED.is_match(line),
        _ => false,
    };
    let mut headers: Vec<OwnedLine> = request
        .headers
        .iter()
        .filter(|(name, _)| {
            !is_stripped(policy, index, name)
                || (stays && name == b"idempotency-key")
                || (own_stays && name == OWN_KEY.as_bytes())
        })
        .cloned()
        .collect();
    let mut set = |name: &str, value: &[u8]| {
        headers.retain(|(line, _)| line != name.as_bytes());
        headers.push((name.into(), value.into()));
    };
    let target_model = route.and_then(|route| route.target.as_ref()).filter(|_| backend.rewrite);
    if let Some(target) = target_model {
        if target.needs_identity()
            && let Err(code) = &caller
        {
            return refused(code);
        }
        let decoded: Vec<Vec<u8>> = values.iter().map(|value| percent_decoded(value)).collect();
        let Some(path) = target.path(backend.restate, &decoded, caller.as_ref().ok()) else {
            return refused("path_ambiguous");
        };
        let query = listed_query(route, backend.restate, query);
        set(":path", &[path.as_bytes(), &query].concat());
        if backend.restate && matches!(pseudo(request, ":method"), b"PUT" | b"PATCH" | b"DELETE") {
            set(":method", b"POST");
        }
    } else {
        let whole = query.map(|query| [b"?", query].concat()).unwrap_or_default();
        let query = match (backend.restate, backend.rewrite) {
            (false, _) => whole,
            (true, false) => listed_query(route, true, query),
            (true, true) => unsteered_query(query).unwrap_or(whole),
        };
        let path = if backend.restate { &path } else { &sent };
        let path = path.as_deref().map(str::as_bytes).filter(|_| !only_watches(policy));
        set(":path", &[path.unwrap_or(raw), &query].concat());
    }
    if let Some(mark) = mark(policy, route) {
        set("x-edge-idempotency", mark.as_bytes());
    }
    if let Ok(caller) = &caller {
        let named = Some(caller.project.as_str()).filter(|project| !project.starts_with('_'));
        let parts = [Some(caller.tenant.as_str()), named, Some(caller.subject.as_str())];
        for (name, value) in identity.forward.iter().zip(parts) {
            if let (Some(name), Some(value)) = (name, value) {
                set(name, value.as_bytes());
            }
        }
    }
    for (name, value) in parameters(policy, &values) {
        set(&name, value.as_bytes());
    }
    if let Some(key) = &key {
        set("idempotency-key", key.as_bytes());
        if policy.key_copies && route.is_none_or(|route| route.backend == 0) {
            set(KEY_COPY, key.as_bytes());
        }
    }
    if let Some(future) = &future {
        set(FUTURE_KEY, future.as_bytes());
    }
    headers.sort();
    Ok(Expected::Forwarded { headers, caller: caller.ok(), key })
}

/// The name of a query parameter; `None` if its escapes are malformed.
fn parameter_name(pair: &[u8]) -> Option<Vec<u8>> {
    let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
    let name = String::from_utf8_lossy(name).replace('+', " ");
    (!MALFORMED.is_match(name.as_bytes())).then(|| percent_decoded(&name))
}

fn joined(pairs: &[&[u8]]) -> Vec<u8> {
    if pairs.is_empty() { Vec::new() } else { [b"?".as_slice(), &pairs.join(&b'&')].concat() }
}

/// What a query keeps by the route's list.
fn listed_query(route: Option<&RouteModel>, restate: bool, query: Option<&[u8]>) -> Vec<u8> {
    let listed = |pair: &&[u8]| {
        let name = parameter_name(pair).unwrap_or_default();
        route.is_some_and(|route| route.query.iter().any(|listed| listed.as_bytes() == name))
    };
    let pairs = query.unwrap_or_default().split(|byte| *byte == b'&' || restate && *byte == b';');
    joined(&pairs.filter(listed).collect::<Vec<_>>())
}

/// A query without what steers Restate; `None` if it has nothing of that.
fn unsteered_query(query: Option<&[u8]>) -> Option<Vec<u8>> {
    let steers = |pair: &[u8]| {
        parameter_name(pair).is_none_or(|name| {
            let name = String::from_utf8_lossy(&name).to_ascii_lowercase().replace(['-', '_', ' '], "");
            ["delay", "delaysec", "limitkey"].contains(&name.as_str())
        })
    };
    let pairs: Vec<&[u8]> = query?.split(|byte| matches!(byte, b'&' | b';')).collect();
    let kept: Vec<&[u8]> = pairs.iter().copied().filter(|pair| !steers(pair)).collect();
    (kept.len() < pairs.len()).then(|| joined(&kept))
}

/// The headers that carry the path's parameters.
pub(crate) fn parameters(policy: &PolicyModel, values: &[&str]) -> Vec<(String, String)> {
    let header =
        |(place, value): (usize, &&str)| (format!("{PARAMETERS}p{place}"), percent_encoded(&percent_decoded(value)));
    values.iter().enumerate().filter(|_| policy.parameters).map(header).collect()
}

pub(crate) fn key_lines(headers: &[OwnedLine]) -> Vec<&[u8]> {
    headers.iter().filter(|(name, _)| name == b"idempotency-key").map(|(_, value)| value.as_slice()).collect()
}
