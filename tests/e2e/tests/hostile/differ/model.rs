//! What has to become of a case. The model knows the API's tables, docs/ and the RFCs; it knows nothing of the filter's code.

use serde_json::Value;
use testkit::stores::restate_reply;

use super::api::{ADMIN, DENIED, DENIED_METHOD, DENIED_PREFIX, INTERNAL, Keys, Listener, PRIVATE, Route};
use super::backends::{self, Backend};
use super::case::{Case, CaseLine, Protocol, Sound, Token};
use super::reading::{self, Key};
use super::{restate_paths, spellings};

/// Whether a request reaches the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// It must not, for this reason.
    Never(&'static str),
    /// It must.
    Must,
    /// It may, for this reason.
    Either(&'static str),
}

/// What the upstream gets if it gets anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Forwarded {
    /// Which backend gets it.
    pub(crate) at: Backend,
    /// The method.
    pub(crate) method: String,
    /// The request target.
    pub(crate) target: String,
    /// `Host`.
    pub(crate) authority: Vec<u8>,
    /// The only `idempotency-key`.
    pub(crate) key: Option<String>,
    /// Tenant, project and subject.
    pub(crate) identity: Option<[&'static str; 3]>,
    /// The body, if that is certain.
    pub(crate) body: Option<Vec<u8>>,
}

/// The model's answer.
#[derive(Clone, Debug)]
pub(crate) struct ModelAnswer {
    /// Whether it reaches the upstream.
    pub(crate) reach: Reach,
    /// What the upstream gets then.
    pub(crate) forwarded: Option<Forwarded>,
}

/// Whose token it is.
pub(crate) const fn identity(token: Token) -> Option<[&'static str; 3]> {
    match token {
        Token::One => Some(["acme", "shop", "user:u1"]),
        Token::Other => Some(["globex", "shop", "user:u2"]),
        Token::Missing | Token::Expired | Token::Forged | Token::Garbage => None,
    }
}

/// A key in the namespace of a token's owner.
pub(crate) fn namespaced(identity: [&str; 3], raw: &str) -> String {
    let [tenant, project, subject] = identity;
    format!("t-{tenant}:{project}:{subject}:{raw}")
}

/// What has to become of a case.
pub(crate) fn expect(case: &Case) -> ModelAnswer {
    let mut doubts = Vec::new();
    match forwarded(case, &mut doubts) {
        Ok(forwarded) => {
            let reach = doubts.first().map_or(Reach::Must, |why| Reach::Either(why));
            ModelAnswer { reach, forwarded: Some(forwarded) }
        }
        Err(why) => ModelAnswer { reach: Reach::Never(why), forwarded: None },
    }
}

/// The longest head that the gateway takes, with some room for the other lines.
const LONGEST: usize = 60_000;

fn forwarded(case: &Case, doubts: &mut Vec<&'static str>) -> Result<Forwarded, &'static str> {
    match case.sound() {
        Sound::Yes => {}
        Sound::No => return Err("malformed framing"),
        Sound::Either(why) => doubts.push(why),
        Sound::Broken => {
            doubts.push("the body is broken, and a gateway that streams has let the head in before it sees that")
        }
    }
    let lines = lines(case, doubts)?;
    let (sent_authority, target) = authority_and_target(case)?;
    if target.len() > LONGEST {
        return Err("a head that is too long");
    }
    let strips = case.listener.strips_authority();
    let authority = if strips { reading::stripped_authority(&sent_authority) } else { sent_authority };
    if reading::authority(&authority).is_none() {
        return Err("an authority that is none");
    }
    let host = String::from_utf8_lossy(&authority).into_owned();
    if spellings::is_other_spelling(case.listener.routes(), &host) {
        return Err("another spelling of a declared host");
    }
    let (raw_path, query) = reading::split_query(&target);
    if case.protocol == Protocol::Http1 && target.iter().any(|byte| *byte >= 0x80) {
        return Err("a byte that no path may hold");
    }
    if query.is_some_and(|query| query.iter().any(|byte| *byte <= b' ' || *byte == 0x7f || *byte == b'#')) {
        return Err("a byte that no query may hold");
    }
    let path = reading::path(raw_path, case.listener.normalises())?;
    if matches!(case.token, Token::Expired | Token::Forged | Token::Garbage) {
        return Err("a token that does not verify");
    }
    if denied(case.listener, &case.method, &authority, &path) {
        return Err("denied by RBAC");
    }
    if !case.method.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-') || case.method.is_empty() {
        return Err("a method that is none");
    }
    let identity = identity(case.token);
    let mut forwarded = Forwarded {
        at: case.listener.default_backend(),
        method: case.method.clone(),
        target: String::new(),
        authority,
        key: None,
        identity,
        body: match case.protocol {
            Protocol::Http1 => case.framing.payload.clone(),
            Protocol::Http2 => Some(case.frames.data.concat()),
        },
    };
    if case.listener.rewrites()
        && let Some(target) = recovered(case, &host, &path, identity)?
    {
        refuse_rpc(case, Backend::Restate)?;
        return Ok(Forwarded { at: Backend::Restate, target, ..forwarded });
    }
    let (routes, values) = routes_at(case.listener, &host, &path, exactly);
    if case.listener.has_two_backends() {
        if backends::is_nearly_closed(&path) {
            doubts.push("a closed path in another letter case, which Restate tells apart");
        }
    } else if case.listener.unmatched().is_some() {
        if let Some(why) = restate_paths::closed(case.listener, &path, !routes.is_empty()) {
            return Err(why);
        }
        if restate_paths::is_nearly_closed(case.listener, &path, !routes.is_empty()) {
            doubts.push("a closed path in another letter case, which Restate tells apart");
        }
    }
    let (others, _) = routes_at(case.listener, &host, &path, leniently);
    if others.iter().map(|route| route.path).ne(routes.iter().map(|route| route.path)) {
        return Err("a path that is another route's for a lenient router");
    }
    let route = match routes.is_empty() {
        true => None,
        false => {
            let takes =
                |route: &&Route| route.method == case.method || (route.method == "GET" && case.method == "HEAD");
            Some(routes.into_iter().find(takes).ok_or("a method that the path does not take")?)
        }
    };
    if case.listener.has_two_backends() {
        if let Some(why) = backends::closed(&path, route.map(|route| route.backend)) {
            return Err(why);
        }
        forwarded.at = route.map_or(case.listener.default_backend(), |route| route.backend);
    }
    let Some(keys) = route.map(|route| route.keys).or(case.listener.unmatched()) else {
        return Err("a path that no route has");
    };
    refuse_rpc(case, forwarded.at)?;
    if route.is_none() {
        if path.contains("%2F") {
            return Err("an escaped slash where no value stands");
        }
        if !["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"].contains(&case.method.as_str()) {
            doubts.push("a method that the gateway may not know");
        }
    }
    let key = match (keys, reading::key(&lines)) {
        (Keys::Internal, _) | (Keys::Accepted | Keys::Prohibited, Key::Absent) => None,
        (Keys::Required, Key::Absent) => return Err("no key"),
        (Keys::Prohibited, _) => return Err("a key where none is taken"),
        (Keys::Required | Keys::Accepted, Key::Invalid) => return Err("a key that is invalid"),
        (Keys::Required | Keys::Accepted, Key::Raw(raw)) => Some(raw),
    };
    if let Some(raw) = key {
        forwarded.key = Some(namespaced(identity.ok_or("no identity")?, &raw));
    }
    // A backend that decodes before it splits would read another path than the rules before the filter did.
    let dots = |value: &String| {
        let decoded = reading::decoded(value.as_bytes());
        decoded.split(|byte| *byte == b'/').any(|part| matches!(part, b"." | b".."))
    };
    if values.iter().any(dots) {
        return Err("a dot segment behind an escaped slash");
    }
    if let Some(route) = route.filter(|route| case.listener.rewrites() && !route.target.is_empty()) {
        forwarded.target = format!("/restate/call{}", rewritten(route.target, route, &values, identity)?);
        if matches!(case.method.as_str(), "PUT" | "PATCH" | "DELETE") {
            // Restate's handlers are called with GET and POST only.
            forwarded.method = "POST".to_owned();
        }
    } else {
        let query = query.map(|query| String::from_utf8_lossy(query).into_owned());
        let writes_paths = case.listener.rewrites() || case.listener.has_two_backends();
        let query = match forwarded.at {
            Backend::Api => query,
            Backend::Restate if !writes_paths => None,
            Backend::Restate => {
                let parts = query.as_deref().map(|query| query.split(['&', ';']).collect::<Vec<_>>());
                match parts.filter(|parts| parts.iter().any(|part| steers(part))) {
                    Some(parts) => {
                        let kept: Vec<&str> = parts.into_iter().filter(|part| !steers(part)).collect();
                        (!kept.is_empty()).then(|| kept.join("&"))
                    }
                    None => query,
                }
            }
        };
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        // An API may tell `/orders/` from `/orders`.
        let keeps_slash = forwarded.at == Backend::Api && path != "/" && reading::ends_with_slash(raw_path);
        forwarded.target = format!("{path}{}{query}", if keeps_slash { "/" } else { "" });
    }
    Ok(forwarded)
}

/// Restate gets no request that it would give to a gRPC service of its own.
fn refuse_rpc(case: &Case, at: Backend) -> Result<(), &'static str> {
    let is_rpc = |line: &CaseLine| line.name.eq_ignore_ascii_case("content-type") && is_rpc_type(&line.value);
    match at == Backend::Restate && case.lines.iter().any(is_rpc) {
        true => Err("a content type of gRPC"),
        false => Ok(()),
    }
}

/// Whether a content type is one of gRPC, as any reader could find.
pub(crate) fn is_rpc_type(value: &[u8]) -> bool {
    String::from_utf8_lossy(value).to_ascii_lowercase().contains("application/grpc")
}

/// Whether a query parameter steers Restate.
pub(crate) fn steers(parameter: &str) -> bool {
    let name = parameter.split('=').next().unwrap_or_default();
    let name = String::from_utf8_lossy(&reading::decoded(name.as_bytes())).to_ascii_lowercase();
    ["delay", "delaysec", "limit-key"].contains(&name.as_str())
}

/// The values of the key's lines, if all lines are well formed.
fn lines(case: &Case, doubts: &mut Vec<&'static str>) -> Result<Vec<Vec<u8>>, &'static str> {
    let control = |byte: &u8| (*byte < b' ' && *byte != b'\t') || *byte == 0x7f;
    let token = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    let mut found: Vec<(String, Vec<u8>)> = Vec::new();
    for line in &case.lines {
        match case.protocol {
            Protocol::Http1 => {
                if line.name.starts_with(' ') {
                    // It goes on with the line before, be that the token's or the host's.
                    match found.last_mut() {
                        Some((_, value)) => value.extend([line.name.as_bytes(), b":", &line.value].concat()),
                        None if case.token == Token::Missing => return Err("an authority that is none"),
                        None => doubts.push("a folded line goes on behind the token"),
                    }
                    continue;
                }
                if !token(&line.name) || line.between.starts_with([' ', '\t']) {
                    return Err("a name that no header has");
                }
                let value = String::from_utf8_lossy(&line.value).replace("\r\n ", "  ").replace("\r\n\t", "  ");
                if value.bytes().any(|byte| control(&byte)) {
                    return Err("a byte that no header may hold");
                }
                let value = if line.value.contains(&b'\r') { value.into_bytes() } else { line.value.clone() };
                found.push((line.name.clone(), value));
            }
            Protocol::Http2 => {
                if !token(&line.name) || line.name.bytes().any(|byte| byte.is_ascii_uppercase()) {
                    return Err("a name that no header has");
                }
                if line.value.iter().any(control) {
                    return Err("a byte that no header may hold");
                }
                found.push((line.name.clone(), line.value.clone()));
            }
        }
    }
    // Lines that `connection` names are for the next hop alone (RFC 9110 section 7.6.1): the gateway removes them.
    let connections = found.iter().filter(|(name, _)| name.eq_ignore_ascii_case("connection"));
    let named: String = connections.map(|(_, value)| format!("{},", String::from_utf8_lossy(value))).collect();
    if named.split(',').any(|name| name.trim().eq_ignore_ascii_case("idempotency-key")) {
        return Ok(Vec::new());
    }
    let keys = found.into_iter().filter(|(name, _)| name.eq_ignore_ascii_case("idempotency-key"));
    Ok(keys.map(|(_, value)| value).collect())
}

/// The authority that counts, and the target in origin form.
fn authority_and_target(case: &Case) -> Result<(Vec<u8>, Vec<u8>), &'static str> {
    if case.protocol == Protocol::Http2 {
        if case.hosts.len() > 1 + usize::from(case.has_authority) {
            return Err("two host lines");
        }
        // `:authority` outranks `host`.
        let authority = case.hosts.first().ok_or("no authority")?;
        return Ok((authority.clone(), case.target.clone()));
    }
    let Some((scheme, authority)) = &case.absolute else {
        let [host] = case.hosts.as_slice() else { return Err("no host line, or two") };
        let text = String::from_utf8_lossy(host).trim_matches([' ', '\t']).to_owned();
        return Ok((text.into_bytes(), case.target.trim_ascii_end().to_vec()));
    };
    // The absolute form outranks `Host`, whatever that says (RFC 9112 section 3.2.2).
    if *scheme == "https://" {
        return Err("the scheme https without TLS");
    }
    let whole = [authority.as_slice(), &case.target].concat();
    let end = whole.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(whole.len());
    let (authority, target) = whole.split_at_checked(end).unwrap_or_default();
    // User information is no part of the host that the gateway takes from it.
    let host = authority.rsplit(|byte| *byte == b'@').next().unwrap_or_default();
    // The gateway reads the port of this form as a number.
    if reading::authority(&reading::without_zeros(host)).is_none() {
        return Err("an authority that is none");
    }
    Ok((host.to_vec(), target.trim_ascii_end().to_vec()))
}

/// Whether a rule of RBAC denies the request.
pub(crate) fn denied(listener: Listener, method: &str, authority: &[u8], path: &str) -> bool {
    let by_path = listener.normalises() && denied_path(path);
    listener.is_guarded() && (method == DENIED_METHOD || denied_host(authority) || by_path)
}

/// Whether a rule denies this host, or an authority from which the gateway took a port or a dot and that still has one.
pub(crate) fn denied_host(authority: &[u8]) -> bool {
    let text = String::from_utf8_lossy(authority);
    let digits = text.trim_end_matches(|c: char| c.is_ascii_digit());
    if text.ends_with('.') || digits.ends_with(':') {
        return true;
    }
    let host = reading::host_behind(authority);
    let lower = host.to_ascii_lowercase();
    host == ADMIN || lower == INTERNAL || lower.ends_with(PRIVATE)
}

/// Whether a rule denies this path.
pub(crate) fn denied_path(path: &str) -> bool {
    let results = || recovery(path).is_some_and(|(base, ..)| base == DENIED);
    path == DENIED || path.starts_with(DENIED_PREFIX) || results()
}

/// A path by which a result is asked for: the route's path, the key, and what follows.
fn recovery(path: &str) -> Option<(String, String, &'static str)> {
    let mut segments: Vec<&str> = path.split('/').collect();
    let output = segments.len() > 3 && segments.last() == Some(&"output") && {
        let place = segments.len() - 3;
        segments.get(place) == Some(&"by-idempotency-key")
    };
    if output {
        segments.pop();
    }
    let key = segments.pop()?;
    (segments.pop()? == "by-idempotency-key").then_some(())?;
    Some((segments.join("/"), key.to_owned(), if output { "output" } else { "attach" }))
}

/// Where a request for a stored result goes.
fn recovered(
    case: &Case,
    host: &str,
    path: &str,
    identity: Option<[&'static str; 3]>,
) -> Result<Option<String>, &'static str> {
    let Some((base, key, what)) = recovery(path) else { return Ok(None) };
    let (routes, values) = routes_at(case.listener, host, &base, exactly);
    let keyed = |route: &&Route| !route.target.is_empty() && matches!(route.keys, Keys::Required | Keys::Accepted);
    let Some(route) = routes.into_iter().find(keyed) else { return Ok(None) };
    if case.listener.has_two_backends()
        && let Some(why) = backends::closed(path, Some(route.backend))
    {
        return Err(why);
    }
    if case.method != "GET" {
        return Err("a method that the path does not take");
    }
    let raw = String::from_utf8_lossy(&reading::decoded(key.as_bytes())).into_owned();
    if !reading::is_raw_key(&raw) {
        return Err("a key that is invalid");
    }
    let identity = identity.ok_or("no identity")?;
    let handler = rewritten(route.target, route, &values, Some(identity))?;
    let id = invocation_id(&handler, &namespaced(identity, &raw)).ok_or("an object key that is not UTF-8")?;
    Ok(Some(format!("/restate/{what}/{id}")))
}

/// The id that the upstream gives to the invocation of a handler, `/{Service}[/{key}]/{handler}`, under a namespaced key.
fn invocation_id(handler: &str, key: &str) -> Option<String> {
    let parts: Vec<&str> = handler.split('/').skip(1).collect();
    let (service, object_key, handler) = match parts.as_slice() {
        [service, handler] => (service, None, handler),
        [service, object_key, handler] => {
            let decoded = String::from_utf8(reading::decoded(object_key.as_bytes())).ok()?;
            (service, Some(format!("\"key\":{},", Value::from(decoded))), handler)
        }
        _ => return None,
    };
    let lookup = format!(
        "{{\"target\":\"idempotentInvocation\",\"service\":\"{service}\",{}\"handler\":\"{handler}\",\"idempotencyKey\":\"{key}\"}}",
        object_key.unwrap_or_default()
    );
    let reply: Value = serde_json::from_slice(&restate_reply("/restate/lookup", lookup.as_bytes()).1).ok()?;
    Some(reply.get("invocationId")?.as_str()?.to_owned())
}

/// The routes of a place, and the values of the path's parameters.
fn routes_at(
    listener: Listener,
    host: &str,
    path: &str,
    reads: fn(&str, &str) -> bool,
) -> (Vec<&'static Route>, Vec<String>) {
    let wildcard = |pattern: &str| pattern.strip_prefix('*').is_some_and(|suffix| host.ends_with(suffix));
    let rank = |route: &Route| {
        let exact = route.hosts.contains(&host);
        let wildcards = route.hosts.iter().filter(|pattern| wildcard(pattern)).map(|pattern| pattern.len()).max();
        match (exact, wildcards, route.hosts.is_empty()) {
            (true, ..) => Some(usize::MAX),
            (_, Some(length), _) => Some(length),
            (.., true) => Some(0),
            _ => None,
        }
    };
    // A literal segment outranks a parameter, from left to right: `false` is less than `true`.
    let parameters = |route: &Route| route.path.split('/').map(|part| !part.starts_with('{')).collect::<Vec<_>>();
    let fitting = listener.routes().iter().filter(|route| values(route.path, path, reads).is_some());
    let best = fitting.clone().filter_map(|route| Some((rank(route)?, parameters(route), route.path))).max();
    let Some((best_rank, _, template)) = best else { return (Vec::new(), Vec::new()) };
    let routes = fitting.filter(|route| rank(route) == Some(best_rank) && route.path == template).collect();
    (routes, values(template, path, reads).unwrap_or_default())
}

/// How the filter compares a text of a template with a segment.
fn exactly(text: &str, segment: &str) -> bool {
    text == segment
}

/// How a router does that decodes segments and ignores the case of letters.
fn leniently(text: &str, segment: &str) -> bool {
    reading::decoded(segment.as_bytes()).eq_ignore_ascii_case(text.as_bytes())
}

/// Whether a route takes a path, on whatever host.
pub(crate) fn is_declared(listener: Listener, path: &str) -> bool {
    listener.routes().iter().any(|route| values(route.path, path, exactly).is_some())
}

/// Whether a path fits a template.
pub(crate) fn fits(template: &str, path: &str) -> bool {
    values(template, path, exactly).is_some()
}

/// The values of a template's parameters in a path that fits it.
fn values(template: &str, path: &str, reads: fn(&str, &str) -> bool) -> Option<Vec<String>> {
    let (parts, given): (Vec<&str>, Vec<&str>) = (template.split('/').collect(), path.split('/').collect());
    if parts.len() != given.len() {
        return None;
    }
    let pairs = || parts.iter().zip(&given);
    let fits = pairs().all(|(part, value)| part.starts_with('{') || reads(part, value));
    let values = pairs().filter(|(part, _)| part.starts_with('{')).map(|(_, value)| (*value).to_owned());
    fits.then(|| values.collect())
}

/// A target's path.
fn rewritten(
    target: &str,
    route: &Route,
    values: &[String],
    identity: Option<[&'static str; 3]>,
) -> Result<String, &'static str> {
    let mut path = format!("/{target}");
    if target.contains("{tenant}") {
        let [tenant, ..] = identity.ok_or("no identity")?;
        path = path.replace("{tenant}", tenant);
    }
    let names = route.path.split('/').filter(|part| part.starts_with('{'));
    for (name, value) in names.zip(values) {
        let value = reading::encoded(&reading::decoded(value.as_bytes()));
        if matches!(value.as_str(), "" | "." | "..") {
            return Err("a value that no segment can hold");
        }
        path = path.replace(name, &value);
    }
    Ok(path)
}
