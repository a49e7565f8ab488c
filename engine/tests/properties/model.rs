//! What the filter does, said once more from docs/contract.md sections 2 and 3: with regular expressions, with lists that are
//! searched from end to end, without a thought for speed.

use super::generate::{
    FUTURE_KEY, KeyRulesModel, Kind, PARAMETERS, Place, PolicyModel, RouteModel, ScopeModel, Segment, SourceModel,
};
use regex::bytes::Regex;
use serde::Deserialize;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;
use std::sync::LazyLock;
use testkit::requests::{OwnedLine, Request};

fn regex(pattern: &str) -> Regex {
    Regex::new(&format!("(?s-u){pattern}")).unwrap()
}

macro_rules! pattern {
    ($name:ident, $pattern:expr) => {
        static $name: LazyLock<Regex> = LazyLock::new(|| regex($pattern));
    };
}

// The key's grammar.

pattern!(KEY, r"^[A-Za-z0-9._~\-]*$");
pattern!(VISIBLE_KEY, r"^[\x21-\x2b\x2d-\x7e]*$");
pattern!(QUOTED_PARTS, r#""(?:[^"\\]|\\.)*(?:"|\\?$)"#);
pattern!(
    STRUCTURED_STRING,
    &format!(
        r#"^{STRING}(?:; *[a-z*][a-z0-9_.*\-]*(?:=(?:{STRING}|-?[0-9]{{1,15}}|-?[0-9]{{1,12}}\.[0-9]{{1,3}}|\?[01]|:[A-Za-z0-9+/=]*:|[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/\-]*))?)*$"#
    )
);
/// RFC 8941 section 3.3.3
const STRING: &str = r#""((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)""#;

/// The key that the lines of a request mean, or the reason why they mean none.
pub(crate) fn read_key(lines: &[&[u8]], rules: KeyRulesModel) -> Result<Option<String>, &'static str> {
    let [line] = lines else { return if lines.is_empty() { Ok(None) } else { Err("multiple") } };
    let is_space = |byte: &u8| [b' ', b'\t'].contains(byte);
    let start = line.iter().position(|byte| !is_space(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
    let mut value = line[start..end].to_vec();
    let is_string = value.starts_with(b"\"");
    let outside = if is_string { QUOTED_PARTS.replace_all(&value, b"".as_slice()).into_owned() } else { value.clone() };
    if outside.contains(&b',') {
        return Err("multiple");
    }
    if is_string {
        let found = STRUCTURED_STRING.captures(&value).ok_or("syntax")?;
        value = regex(r"\\(.)").replace_all(&found[1], b"$1".as_slice()).into_owned();
    }
    match value.len() {
        0 => Err("empty"),
        256.. => Err("length"),
        length if length < rules.min_length => Err("length"),
        _ if rules.visible && !VISIBLE_KEY.is_match(&value) => Err("charset"),
        _ if !rules.visible && !KEY.is_match(&value) => Err("charset"),
        _ if value.starts_with(b"t-") => Err("reserved_prefix"),
        _ => Ok(Some(String::from_utf8(value).unwrap())),
    }
}

// Identity.

pattern!(SEGMENT, r"^[A-Za-z0-9.~\-][A-Za-z0-9._~\-]{0,62}$");

pub(crate) fn is_segment(text: &[u8]) -> bool {
    SEGMENT.is_match(text) && text != b"." && text != b".."
}

/// Everything but RFC 3986's unreserved characters as `%XX`.
pub(crate) fn percent_encoded(text: &[u8]) -> String {
    let one = |byte: &u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'~' | b'-' => char::from(*byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.iter().map(one).collect()
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallerModel {
    pub(crate) tenant: String,
    /// As it stands in a key
    pub(crate) project: String,
    /// `{type}:{encoded id}`
    pub(crate) subject: String,
}

/// One value of an identity source.
enum SourcePart {
    Absent,
    Text(Vec<u8>),
    Wrong,
}

/// A JSON value that keeps members that occur twice.
enum JsonTree {
    Null,
    Text(String),
    Object(Vec<(String, JsonTree)>),
    Other,
}

impl<'de> Deserialize<'de> for JsonTree {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyValue;
        impl<'de> Visitor<'de> for AnyValue {
            type Value = JsonTree;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("JSON")
            }

            fn visit_unit<E>(self) -> Result<JsonTree, E> {
                Ok(JsonTree::Null)
            }

            fn visit_bool<E>(self, _: bool) -> Result<JsonTree, E> {
                Ok(JsonTree::Other)
            }

            fn visit_i64<E>(self, _: i64) -> Result<JsonTree, E> {
                Ok(JsonTree::Other)
            }

            fn visit_u64<E>(self, _: u64) -> Result<JsonTree, E> {
                Ok(JsonTree::Other)
            }

            fn visit_f64<E>(self, _: f64) -> Result<JsonTree, E> {
                Ok(JsonTree::Other)
            }

            fn visit_str<E>(self, text: &str) -> Result<JsonTree, E> {
                Ok(JsonTree::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<JsonTree, A::Error> {
                while items.next_element::<JsonTree>()?.is_some() {}
                Ok(JsonTree::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<JsonTree, A::Error> {
                let mut object = Vec::new();
                while let Some(member) = members.next_entry()? {
                    object.push(member);
                }
                Ok(JsonTree::Object(object))
            }
        }
        deserializer.deserialize_any(AnyValue)
    }
}

/// RFC 4648 section 5, bit by bit; padding may be left out.
fn base64url(text: &[u8]) -> Option<Vec<u8>> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let end = text.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    let (digits, padding) = text.split_at(end);
    let mut bits = String::new();
    for digit in digits {
        bits += &format!("{:06b}", ALPHABET.iter().position(|known| known == digit)?);
    }
    let whole = bits.len() / 8 * 8;
    // What is left is less than a digit, and zero.
    let is_canonical = bits.len() - whole < 6 && !bits[whole..].contains('1');
    let fits = padding.len() <= (4 - digits.len() % 4) % 4;
    let bytes = bits.as_bytes()[..whole].chunks(8).map(|byte| std::str::from_utf8(byte).unwrap());
    (is_canonical && fits).then(|| bytes.map(|byte| u8::from_str_radix(byte, 2).unwrap()).collect())
}

/// The claim in a payload.
fn claim(payload: &[u8], names: &[&str]) -> SourcePart {
    let tree = base64url(payload).and_then(|text| serde_json::from_slice(&text).ok());
    let Some(mut value @ JsonTree::Object(_)) = tree else { return SourcePart::Wrong };
    for name in names {
        let JsonTree::Object(members) = value else { return SourcePart::Absent };
        let mut found = members.into_iter().filter(|(member, _)| member == name);
        value = match (found.next(), found.next()) {
            (None, _) => return SourcePart::Absent,
            (Some((_, value)), None) => value,
            (Some(_), Some(_)) => return SourcePart::Wrong,
        };
    }
    match value {
        JsonTree::Null => SourcePart::Absent,
        JsonTree::Text(text) if text.is_empty() => SourcePart::Absent,
        JsonTree::Text(text) => SourcePart::Text(text.into_bytes()),
        JsonTree::Object(_) | JsonTree::Other => SourcePart::Wrong,
    }
}

fn part(place: &Place, request: &Request) -> SourcePart {
    match place {
        Place::Constant(value) => SourcePart::Text(value.as_bytes().to_vec()),
        Place::Header(name) | Place::Claim(name, _) => {
            let lines: Vec<&OwnedLine> = request.headers.iter().filter(|(line, _)| line == name.as_bytes()).collect();
            match lines.as_slice() {
                [] => SourcePart::Absent,
                [(_, value)] if value.is_empty() => SourcePart::Absent,
                [(_, value)] if let Place::Claim(_, names) = place => claim(value, names),
                [(_, value)] if !value.contains(&b',') => SourcePart::Text(value.clone()),
                _ => SourcePart::Wrong,
            }
        }
        Place::Metadata(steps) => {
            let found = steps.iter().try_fold(&request.attributes.metadata, |value, step| value.get(step));
            match found {
                None | Some(Json::Null) => SourcePart::Absent,
                Some(Json::String(text)) if text.is_empty() => SourcePart::Absent,
                Some(Json::String(text)) => SourcePart::Text(text.clone().into_bytes()),
                Some(_) => SourcePart::Wrong,
            }
        }
    }
}

fn subject(source: &SourceModel, types: &[&str], text: &[u8]) -> Option<String> {
    if let Place::Constant(subject) = source.subject {
        return Some(subject.to_owned());
    }
    let (kind, id) = match source.kind {
        Some(kind) => (kind, text),
        None => {
            let colon = text.iter().position(|byte| *byte == b':')?;
            let kind = std::str::from_utf8(&text[..colon]).ok().filter(|kind| types.contains(kind))?;
            (kind, &text[colon + 1..])
        }
    };
    let encoded = percent_encoded(id);
    let fits = (1..=200).contains(&encoded.len()) && !id.iter().any(|byte| *byte < 0x20 || *byte == 0x7f);
    fits.then(|| format!("{kind}:{encoded}"))
}

/// The caller, or the code of the refusal.
pub(crate) fn caller(
    sources: &[SourceModel],
    types: &[&str],
    reserved: &[&str],
    scope: ScopeModel,
    request: &Request,
) -> Result<CallerModel, &'static str> {
    for source in sources {
        let tenant = part(&source.tenant, request);
        let project = source.project.as_ref().map_or(SourcePart::Absent, |place| part(place, request));
        let subject_part = part(&source.subject, request);
        // A constant is in every request, and so says nothing about one.
        let says = |place: &Place, part: &SourcePart| {
            !matches!((place, part), (Place::Constant(_), _) | (_, SourcePart::Absent))
        };
        if !says(&source.tenant, &tenant)
            && !source.project.as_ref().is_some_and(|place| says(place, &project))
            && !says(&source.subject, &subject_part)
        {
            continue;
        }
        let read = |part: &SourcePart, parse: &dyn Fn(&[u8]) -> Option<String>| match part {
            SourcePart::Absent => Ok(None),
            SourcePart::Wrong => Err("identity_invalid"),
            SourcePart::Text(text) => parse(text).map(Some).ok_or("identity_invalid"),
        };
        let segment = |text: &[u8]| is_segment(text).then(|| String::from_utf8(text.to_vec()).unwrap());
        let tenant = read(&tenant, &segment)?;
        let project = match scope {
            ScopeModel::Project => read(&project, &segment)?,
            ScopeModel::Tenant => Some("_tenant".to_owned()),
            ScopeModel::Platform => Some("_platform".to_owned()),
        };
        let subject = read(&subject_part, &|text| subject(source, types, text))?;
        let (Some(tenant), Some(project), Some(subject)) = (tenant, project, subject) else {
            return Err("identity_missing");
        };
        let is_reserved = reserved.contains(&subject.as_str());
        return if is_reserved { Err("identity_reserved") } else { Ok(CallerModel { tenant, project, subject }) };
    }
    Err("identity_missing")
}

// Paths.

/// RFC 3986 section 5.2.4, to the letter; `None` if a segment with an escaped slash goes.
fn remove_dot_segments(path: &str) -> Option<String> {
    let (mut input, mut output) = (path.to_owned(), String::new());
    while !input.is_empty() {
        if let Some(rest) = input.strip_prefix("../").or_else(|| input.strip_prefix("./")) {
            input = rest.to_owned();
        } else if input.starts_with("/./") || input == "/." {
            input = format!("/{}", input.get(3..).unwrap_or_default());
        } else if input.starts_with("/../") || input == "/.." {
            input = format!("/{}", input.get(4..).unwrap_or_default());
            let gone = output.split_off(output.rfind('/').unwrap_or(0));
            if gone.contains("%2F") {
                return None;
            }
        } else if input == "." || input == ".." {
            input.clear();
        } else {
            let end = input.char_indices().skip(1).find(|(_, char)| *char == '/').map_or(input.len(), |(at, _)| at);
            output.push_str(&input[..end]);
            input = input[end..].to_owned();
        }
    }
    Some(output)
}

pattern!(MALFORMED, "%(?:$|.$|[^0-9A-Fa-f]|.[^0-9A-Fa-f])");
pattern!(BAD_PATH, r"^[^/]|^$|%(?:$|.$|[^0-9A-Fa-f]|.[^0-9A-Fa-f])|%[01][0-9A-Fa-f]|%7[Ff]|%5[Cc]|[\\;#\x00-\x20\x7f]");

/// A path in its one spelling; `None` if it is ambiguous.
pub(crate) fn normalised(path: &[u8]) -> Option<String> {
    if BAD_PATH.is_match(path) {
        return None;
    }
    let mut decoded = String::new();
    let mut rest = path;
    while let Some((&first, after)) = rest.split_first() {
        let (byte, is_plain) = if first == b'%' {
            rest = &after[2..];
            (u8::from_str_radix(std::str::from_utf8(&after[..2]).unwrap(), 16).unwrap(), false)
        } else {
            rest = after;
            (first, b"/!$&'()*+,=:@".contains(&first))
        };
        decoded.push_str(&if is_plain { char::from(byte).to_string() } else { percent_encoded(&[byte]) });
    }
    let Ok(text) = String::from_utf8(percent_decoded(&decoded)) else { return None };
    if text.chars().any(|char| char.is_control() || char == '\u{2028}' || char == '\u{2029}') {
        return None;
    }
    let mut path = remove_dot_segments(&decoded)?;
    while path.contains("//") {
        path = path.replace("//", "/");
    }
    if path.len() > 1 && path.ends_with('/') {
        path.pop();
    }
    let dots = |segment: &str| segment.contains("%2F") && hides_dots(segment);
    (!path.split('/').any(dots)).then_some(path)
}

/// Whether a backend that decodes a value before it splits the path would see `.`, `..` or nothing as a segment.
fn hides_dots(value: &str) -> bool {
    value.split("%2F").any(|part| ["", ".", ".."].contains(&part))
}

pub(crate) fn segments(path: &str) -> Vec<&str> {
    path.split('/').filter(|segment| !segment.is_empty()).collect()
}

pub(crate) fn percent_decoded(text: &str) -> Vec<u8> {
    let mut decoded = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        decoded.push(if first == b'%' {
            rest = &after[2..];
            u8::from_str_radix(std::str::from_utf8(&after[..2]).unwrap(), 16).unwrap()
        } else {
            first
        });
    }
    decoded
}

// Routes.

/// The values of a template's parameters, if a path fits it.
pub(crate) fn values<'p>(route: &RouteModel, path: &'p str) -> Option<Vec<&'p str>> {
    let given = segments(path);
    if given.len() != route.path.len() {
        return None;
    }
    let mut values = Vec::new();
    for (segment, value) in route.path.iter().zip(given) {
        match segment {
            Segment::Literal(text) if *text != value => return None,
            Segment::Literal(_) => {}
            Segment::Parameter => values.push(value),
            Segment::Prefixed(prefix) => values.push(value.strip_prefix(prefix).filter(|rest| !rest.is_empty())?),
        }
    }
    Some(values)
}

/// Whether a path fits a template for a reader that decodes segments and ignores the case of letters.
fn fits_leniently(route: &RouteModel, path: &str) -> bool {
    let read = |text: &str| percent_decoded(text).to_ascii_lowercase();
    let given = segments(path);
    given.len() == route.path.len()
        && route.path.iter().zip(given).all(|(segment, value)| match segment {
            Segment::Literal(text) => read(text) == read(value),
            Segment::Parameter => true,
            Segment::Prefixed(prefix) => {
                read(value).len() > read(prefix).len() && read(value).starts_with(&read(prefix))
            }
        })
}

/// Whether an authority is a host and at most one port.
fn is_authority(authority: &str) -> bool {
    static AUTHORITY: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*\])(?::(?<port>[0-9]{1,5}))?$").unwrap()
    });
    let Some(parts) = AUTHORITY.captures(authority.as_bytes()) else { return false };
    parts.name("port").is_none_or(|port| authority[port.range()].parse::<u32>().unwrap() <= 65_535)
}

/// Whether an authority is a host of the policy in another spelling: in capitals, with a port, with a final dot, or an IPv6
/// address in a longer form.
fn is_other_spelling(policy: &PolicyModel, authority: &str) -> bool {
    static SPELLING: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^(?<host>\[[^\]]*\]|[^:]*?)\.?(?::[0-9]*)?$").unwrap());
    let Some(parts) = SPELLING.captures(authority.as_bytes()) else { return false };
    let mut host = authority[parts.name("host").unwrap().range()].to_lowercase();
    if let Ok(address) = host.trim_matches(['[', ']']).parse::<std::net::Ipv6Addr>() {
        host = format!("[{address}]");
    }
    let of_policy = |pattern: &&str| host_rank(Some(pattern), &host).is_some();
    host != authority && policy.routes.iter().flat_map(|route| &route.hosts).any(of_policy)
}

/// The host's pattern that a request belongs to, more particular ones first: the host, wildcards from the longest, all.
fn host_rank(pattern: Option<&str>, authority: &str) -> Option<usize> {
    match pattern {
        None => Some(usize::MAX),
        Some(pattern) => match pattern.strip_prefix('*') {
            Some(suffix) => authority.ends_with(suffix).then_some(usize::MAX - suffix.len()),
            None => (pattern == authority).then_some(0),
        },
    }
}

fn methods(route: &RouteModel) -> Vec<&str> {
    let head = (route.methods.contains(&"GET") && !route.methods.contains(&"HEAD")).then_some("HEAD");
    route.methods.iter().copied().chain(head).collect()
}

/// Where a request leads.
pub(crate) enum Declared<'p, 'r> {
    Route(&'p RouteModel, Vec<&'r str>),
    OtherMethods(Vec<&'p str>),
    Nothing,
    /// A lenient reader finds other routes
    OtherReading,
}

pub(crate) fn declared<'p, 'r>(
    policy: &'p PolicyModel,
    authority: &str,
    path: &'r str,
    method: &str,
) -> Declared<'p, 'r> {
    // Literals first, then the longest text in front of a parameter.
    let shape = |route: &RouteModel| -> Vec<usize> {
        let rank = |segment: &Segment| match segment {
            Segment::Literal(_) => 0,
            Segment::Prefixed(prefix) => 1000 - prefix.len(),
            Segment::Parameter => 1000,
        };
        route.path.iter().map(rank).collect()
    };
    let best = |fits: &dyn Fn(&RouteModel) -> bool| -> Vec<&'p RouteModel> {
        let mut fitting: Vec<(usize, Vec<usize>, &RouteModel)> = Vec::new();
        for route in policy.routes.iter().filter(|route| fits(route)) {
            let hosts: Vec<Option<&str>> =
                if route.hosts.is_empty() { vec![None] } else { route.hosts.iter().copied().map(Some).collect() };
            let ranks = hosts.into_iter().filter_map(|pattern| host_rank(pattern, authority));
            fitting.extend(ranks.map(|rank| (rank, shape(route), route)));
        }
        let best = fitting.iter().map(|(rank, shape, ..)| (*rank, shape.clone())).min();
        fitting.retain(|(rank, shape, ..)| Some((*rank, shape)) == best.as_ref().map(|(rank, shape)| (*rank, shape)));
        fitting.into_iter().map(|(.., route)| route).collect()
    };
    let routes = best(&|route| values(route, path).is_some());
    let others = best(&|route| fits_leniently(route, path));
    let differ = others.iter().map(|route| &route.endpoint).ne(routes.iter().map(|route| &route.endpoint));
    if differ && !(routes.is_empty() && policy.unmatched == "REJECT") {
        return Declared::OtherReading;
    }
    if routes.is_empty() {
        return Declared::Nothing;
    }
    by_method(routes.into_iter().map(|route| (route, values(route, path).unwrap())).collect(), method)
}

fn by_method<'p, 'r>(routes: Vec<(&'p RouteModel, Vec<&'r str>)>, method: &str) -> Declared<'p, 'r> {
    let all = routes.iter().flat_map(|(route, _)| methods(route)).collect();
    match routes.into_iter().find(|(route, _)| methods(route).contains(&method)) {
        Some((route, values)) => Declared::Route(route, values),
        None => Declared::OtherMethods(all),
    }
}

// The whole verdict.

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
    (has_restate || policy.routes.iter().any(collides)) && is_below("/restate")
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

fn verdict(policy: &PolicyModel, request: &Request) -> Result<Expected, Expected> {
    let target = pseudo(request, ":path");
    let (raw, query) = match target.iter().position(|byte| *byte == b'?') {
        Some(at) => (&target[..at], Some(&target[at + 1..])),
        None => (target, None),
    };
    let Some(path) = normalised(raw) else { return refused("path_ambiguous") };
    let authority = String::from_utf8_lossy(pseudo(request, ":authority")).into_owned();
    if !is_authority(&authority) {
        return refused("path_ambiguous");
    }
    if is_other_spelling(policy, &authority) {
        return refused("path_ambiguous");
    }
    // What one backend alone closes can be a path of the other.
    let all: Vec<usize> = (0..policy.backends.len()).collect();
    if all.iter().all(|index| closes(policy, *index, &path)) {
        return refused("not_found");
    }
    let is_closed_undeclared = all.iter().any(|index| closes_undeclared(policy, *index, &path));
    let method = String::from_utf8_lossy(pseudo(request, ":method")).into_owned();
    let found = match request.attributes.endpoint.as_ref().filter(|_| policy.gateway_routes) {
        None | Some(Json::Null) => declared(policy, &authority, &path, &method),
        Some(Json::String(endpoint)) => match policy.routes.iter().find(|route| route.endpoint == *endpoint) {
            None => return refused("policy_invalid"),
            Some(_) if matches!(declared(policy, &authority, &path, &method), Declared::OtherReading) => {
                Declared::OtherReading
            }
            Some(route) => match values(route, &path) {
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
        Declared::OtherMethods(mut methods) => {
            methods.sort_unstable();
            return Ok(Expected::OtherMethods(methods.into_iter().map(str::to_owned).collect()));
        }
        Declared::OtherReading => return refused("path_ambiguous"),
        Declared::Nothing if has_slash => return refused("path_ambiguous"),
        Declared::Nothing if is_closed_undeclared || closes_respelled(policy, 0, &path) => return refused("not_found"),
        Declared::Nothing => (None, Vec::new()),
        Declared::Route(route, _)
            if closes(policy, route.backend, &path)
                || route.target.is_none() && closes_respelled(policy, route.backend, &path) =>
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
    if route.is_some_and(|route| route.webhook) {
        return Ok(Expected::Webhook);
    }
    let kind = match (route, policy.unmatched) {
        (Some(route), _) => route.kind,
        (None, "REJECT") => return refused("not_found"),
        (None, "PROHIBITED") => Kind::Prohibited,
        (None, _) => Kind::HandlerInternalC,
    };
    let shadow = route.and_then(|route| route.shadow).unwrap_or(policy.shadow);
    let scope = route.map_or(ScopeModel::Project, |route| route.scope);
    let identity = route.and_then(|route| route.identity.as_ref()).unwrap_or(&policy.identity);
    let caller = caller(&identity.sources, &policy.types(identity), &["service:hooks"], scope, request);

    let rules = route.and_then(|route| route.keys).unwrap_or(policy.keys);
    let strips = route.and_then(|route| route.strip).unwrap_or(policy.strip) && kind == Kind::Prohibited;

    // The key.
    let lines: Vec<&[u8]> = key_lines(&request.headers);
    let decided: Result<Option<String>, Expected> = match kind {
        Kind::HandlerInternalC => Ok(None),
        Kind::Prohibited if lines.is_empty() || strips => Ok(None),
        Kind::Prohibited => refused("idempotency_key_prohibited"),
        Kind::RequiredA | Kind::Accepted => match read_key(&lines, rules) {
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
    let acts = !shadow || strips || kind == Kind::HandlerInternalC;
    let (key, stays, future) = if acts {
        (decided?, false, None)
    } else {
        let forged = |line: &[u8]| regex(r#"^[ \t"]*t-"#).is_match(line);
        let future = decided.ok().flatten().filter(|_| policy.future_keys);
        (None, matches!(lines.as_slice(), [line] if !forged(line)), future)
    };

    // What is forwarded.
    let index = route.map_or(0, |route| route.backend);
    let backend = &policy.backends[index];
    let mut headers: Vec<OwnedLine> = request
        .headers
        .iter()
        .filter(|(name, _)| !is_stripped(policy, index, name) || (stays && name == b"idempotency-key"))
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
        let listed = |pair: &&[u8]| {
            let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
            let name = String::from_utf8_lossy(name).replace('+', " ");
            let name = if MALFORMED.is_match(name.as_bytes()) { Vec::new() } else { percent_decoded(&name) };
            route.is_some_and(|route| route.query.iter().any(|listed| listed.as_bytes() == name))
        };
        let pairs: Vec<&[u8]> = query.unwrap_or_default().split(|byte| *byte == b'&').filter(listed).collect();
        let query = if pairs.is_empty() { Vec::new() } else { [b"?".as_slice(), &pairs.join(&b'&')].concat() };
        set(":path", &[path.as_bytes(), &query].concat());
        if backend.restate && matches!(pseudo(request, ":method"), b"PUT" | b"PATCH" | b"DELETE") {
            set(":method", b"POST");
        }
    } else {
        let query = query.map(|query| [b"?", query].concat()).unwrap_or_default();
        set(":path", &[path.as_bytes(), &query].concat());
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
    }
    if let Some(future) = &future {
        set(FUTURE_KEY, future.as_bytes());
    }
    headers.sort();
    Ok(Expected::Forwarded { headers, caller: caller.ok(), key })
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
