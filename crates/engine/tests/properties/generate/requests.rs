//! Requests made of near misses.

use super::documents::{FUTURE_KEY, HOOK_TOKEN, KEY_COPY, OWN_KEY, PolicyModel, Segment};
use super::policies::{HEADERS, NAMESPACES, PAYLOADS, policy};
use crate::properties::model::percent_encoded;
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE, BASE64_URL_SAFE_NO_PAD};
use direct::attributes::JsonAttributes;
use direct::requests::{OwnedLine, Request};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Map, Value as Json, json};

/// Values of `Idempotency-Key`: keys, and what is nearly one.
pub(crate) fn key_value() -> BoxedStrategy<Vec<u8>> {
    let pieces = [
        "a",
        "Z9",
        "t-",
        "T-",
        "-",
        ".",
        "_",
        "~",
        "\"",
        "\"",
        "\\",
        "\\\"",
        ",",
        ";",
        "; ",
        "=",
        "a=1",
        "b",
        "?1",
        "1.5",
        ":aGk=:",
        "*",
        " ",
        "\t",
        "%41",
        "é",
        "\u{1}",
        "t-acme:shop:user:u1:",
    ];
    let raw = "[A-Za-z0-9._~-]{1,12}";
    let parameters = "(; ?[a-z*][a-z0-9_.*-]{0,3}(=(-?[0-9]{1,3}(\\.[0-9]{1,4})?|\\?[012]|\"[a,;]{0,2}\"|:[a-z=]{0,3}:?|[A-Z*][a-z/:]{0,2}))?){0,2}";
    let soup = vec(
        prop_oneof![8 => select(pieces.to_vec()).prop_map(|text| text.as_bytes().to_vec()), 1 => vec(any::<u8>(), 1..3)],
        0..7,
    );
    prop_oneof![
        5 => raw.prop_map(String::into_bytes),
        2 => (raw, parameters).prop_map(|(key, rest)| format!("\"{key}\"{rest}").into_bytes()),
        4 => "[ \t]{0,2}\"?[ \t]?t-[a-z:]{0,20}\"?[ \t]?".prop_map(String::into_bytes),
        1 => (250_usize..260, any::<bool>()).prop_map(|(length, quoted)| {
            let key = "k".repeat(length);
            if quoted { format!("\"{key}\"").into_bytes() } else { key.into_bytes() }
        }),
        4 => soup.prop_map(|pieces| pieces.concat()),
    ]
    .boxed()
}

/// Tenants, projects and subjects, and what is nearly one.
fn identity_text() -> BoxedStrategy<String> {
    let odd = [
        "",
        ".",
        "..",
        "_tenant",
        "_platform",
        "a,b",
        "a\0b",
        "a\u{7f}",
        "user:",
        ":u",
        "User:u",
        "robot:r",
        "user:a:b",
        "é",
        "t-acme",
        "service:webhook-ingest",
        "device:d9",
    ];
    prop_oneof![
        2 => "[A-Za-z0-9._~:%@ -]{1,8}",
        3 => select(odd.to_vec()).prop_map(str::to_owned),
        1 => (60_usize..70).prop_map(|length| "x".repeat(length)),
        1 => (190_usize..205).prop_map(|length| format!("user:{}", "x".repeat(length))),
    ]
    .boxed()
}

/// Mostly a value that fits its place.
fn tenant_text() -> BoxedStrategy<String> {
    prop_oneof![8 => select(vec!["acme", "Acme", "shop", "..."]).prop_map(str::to_owned), 1 => identity_text()].boxed()
}

fn subject_text() -> BoxedStrategy<String> {
    prop_oneof![8 => select(vec!["user:u1", "u1", "client:a b", "user:u:1", "service:webhook-ingest"]).prop_map(str::to_owned), 1 => identity_text()].boxed()
}

/// A claim: mostly text, but any type of JSON.
fn claim(text: BoxedStrategy<String>) -> impl Strategy<Value = Json> {
    let odd = vec![
        json!(null),
        json!(true),
        json!(0),
        json!(1_234_567),
        // Printable as the eight bytes of a double.
        json!(f64::from_le_bytes(*b"acme-inc")),
        json!(9_007_199_254_740_993_u64),
        json!([]),
        json!(["acme"]),
        json!([null]),
        json!({}),
        json!({"sub": "u1"}),
    ];
    prop_oneof![20 => text.prop_map(Json::from), 1 => select(odd)]
}

/// The claims of a token.
fn claims() -> impl Strategy<Value = Json> {
    let often = |text| option::weighted(0.95, claim(text));
    let nested = option::weighted(0.3, claim(subject_text()));
    let claims = (often(tenant_text()), often(tenant_text()), often(subject_text()), nested);
    claims.prop_map(|(tenant, project, subject, nested)| {
        let members = [("tenant_id", tenant), ("project_id", project), ("sub", subject)];
        let given = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let mut object: Map<String, Json> = given.collect();
        if let Some(nested) = nested {
            object.insert("claims".to_owned(), json!({"sub": nested}));
            object.insert("a.b".to_owned(), nested);
        }
        Json::Object(object)
    })
}

/// The lines of a header with the payload of a token: mostly one that is whole.
fn payload() -> impl Strategy<Value = Vec<OwnedLine>> {
    let slip = prop_oneof![1 => Just(""), 1 => select(vec![
        "padded", "standard", "plain", "twice", "joined", "empty", "short", "padding", "list", "space", "duplicate", "nested duplicate",
    ])];
    let name = prop_oneof![4 => Just(PAYLOADS[0]), 1 => Just(PAYLOADS[1])];
    (name, claims(), slip).prop_map(|(name, claims, slip)| {
        // Its encoding has both characters that are others in the standard alphabet.
        let mut text = claims.to_string().replacen('{', r#"{"?":"??>~~","#, 1).replace(",}", "}");
        match slip {
            "space" => text = format!(" \n{text}\t"),
            "list" => text = format!("[{text}]"),
            "duplicate" => text = text.replacen('{', r#"{"sub":"u1","#, 1),
            "nested duplicate" => text = text.replacen('{', r#"{"claims":{"sub":"u1","s\u0075b":"u1"},"#, 1),
            _ => {}
        }
        let encoded = BASE64_URL_SAFE_NO_PAD.encode(&text);
        let value = match slip {
            "padded" => BASE64_URL_SAFE.encode(&text),
            "standard" => BASE64_STANDARD.encode(&text),
            "plain" => text,
            "joined" => format!("{encoded},{encoded}"),
            "empty" => String::new(),
            "short" => encoded[..encoded.len() - 1].to_owned(),
            "padding" => format!("{encoded}="),
            _ => encoded,
        };
        vec![(name.into(), value.into_bytes()); if slip == "twice" { 2 } else { 1 }]
    })
}

fn metadata() -> impl Strategy<Value = Json> {
    vec(option::weighted(0.6, claims()), NAMESPACES.len()).prop_map(|namespaces| {
        let mut metadata = json!({});
        for ([first, second], found) in NAMESPACES.into_iter().zip(namespaces) {
            if let Some(found) = found {
                metadata[first][second] = found;
            }
        }
        metadata
    })
}

const OTHER_HEADERS: [&str; 22] = [
    FUTURE_KEY,
    KEY_COPY,
    "x_idempotency_key",
    "future-keys",
    "x-path-p0",
    "x-path-other",
    "x-pathology",
    "authorization",
    "cookie",
    "x-api-key",
    "origin",
    "access-control-request-method",
    "x-restate-id",
    "x-restate-trace",
    "x-edge-idempotency",
    "x-http-method-override",
    "x-method-override",
    "x-who",
    "x-custom",
    "content-type",
    "x-hook-token",
    "idempotency-keys",
];

/// A name with some of its dashes as underscores.
fn spelled(name: &str, noise: u8) -> Vec<u8> {
    let mut bits = noise;
    name.bytes()
        .map(|byte| match byte {
            b'-' => {
                bits = bits.rotate_left(1);
                if bits & 1 == 1 { b'_' } else { b'-' }
            }
            other => other,
        })
        .collect()
}

/// Lines of any kind, in plain and in other spellings.
fn odd_lines(most: usize) -> BoxedStrategy<Vec<OwnedLine>> {
    let noise = || prop_oneof![3 => Just(0_u8), 1 => any::<u8>()];
    let name = select(vec!["idempotency-key", OWN_KEY]);
    let key = (name, noise(), key_value()).prop_map(|(name, noise, value)| (spelled(name, noise), value));
    let identity = (select([&HEADERS[..], &PAYLOADS].concat()), noise(), identity_text())
        .prop_map(|(name, noise, value)| (spelled(name, noise), value.into_bytes()));
    let other = (select(OTHER_HEADERS.to_vec()), noise(), "[a-z ]{0,5}")
        .prop_map(|(name, noise, value)| (spelled(name, noise), value.into_bytes()));
    let rpc = select(vec!["application/grpc", "application/grpc-web+proto"])
        .prop_map(|value| (b"content-type".to_vec(), value.into()));
    let other = prop_oneof![20 => other, 1 => rpc];
    vec(prop_oneof![1 => key, 2 => identity, 4 => other], 0..most).boxed()
}

/// Header lines in any order: often one key, often a whole identity, and odd ones between them.
fn lines() -> BoxedStrategy<Vec<OwnedLine>> {
    let key =
        option::weighted(0.7, key_value()).prop_map(|value| value.map(|value| (b"idempotency-key".to_vec(), value)));
    let whole =
        (any::<bool>(), tenant_text(), tenant_text(), subject_text()).prop_map(|(auth, tenant, project, subject)| {
            let names = if auth {
                ["x-auth-tenant", "x-auth-project", "x-auth-subject"]
            } else {
                ["x-tenant-id", "x-project-id", "x-subject"]
            };
            let lines = names.into_iter().zip([tenant, project, subject]);
            lines.map(|(name, value)| (name.into(), value.into_bytes())).collect::<Vec<OwnedLine>>()
        });
    let token =
        any::<bool>().prop_map(|given| given.then(|| (b"x-hook-token".to_vec(), HOOK_TOKEN.as_bytes().to_vec())));
    let odd = prop_oneof![1 => Just(Vec::new()), 1 => odd_lines(6)];
    (key, option::of(whole), option::weighted(0.7, payload()), token, odd)
        .prop_map(|(key, whole, payload, token, odd)| {
            let mut lines: Vec<OwnedLine> = whole.unwrap_or_default();
            lines.extend(payload.unwrap_or_default());
            lines.extend(key);
            lines.extend(token);
            lines.extend(odd);
            lines
        })
        .prop_shuffle()
        .boxed()
}

/// Other spellings of a path that are the same path, or ambiguous: escapes, empty and dot segments, a trailing slash.
pub(crate) fn respelled(path: &str, noise: &[u8], only_same: bool) -> String {
    let mut out = String::new();
    let mut noise = noise.iter().copied().chain(std::iter::repeat(255));
    let mut rest = path.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        let change = noise.next().unwrap_or(255);
        if byte == b'%' {
            // An escape stays one; its digits in the other case.
            let digits = String::from_utf8_lossy(&rest[..2]).into_owned();
            out += &format!("%{}", if change < 128 { digits.to_ascii_lowercase() } else { digits });
            rest = &rest[2..];
            continue;
        }
        match (change, byte) {
            (0..=20, b'/') => out.push_str("//"),
            (21..=35, b'/') => out.push_str("/./"),
            (36..=50, b'/') => out.push_str("/zz/../"),
            (51..=60, b'/') => out.push_str("/%2e/"),
            (61..=70, b'/') => out.push_str("/z/%2E%2e/"),
            (0..=5, _) if !only_same => out.push_str(["%2F", "%5C", ";", "\\", "%00", "%zz"][usize::from(change)]),
            (6..=60, _) if percent_encoded(&[byte]).len() == 1 => out += &format!("%{byte:02X}"),
            (61..=80, _) if percent_encoded(&[byte]).len() == 1 => out += &format!("%{byte:02x}"),
            _ => out.push(char::from(byte)),
        }
    }
    match noise.next().unwrap_or(255) {
        0..=40 => out.push('/'),
        41..=50 => out.push_str("/."),
        _ => {}
    }
    out
}

/// Values of path parameters.
fn parameter_value() -> BoxedStrategy<String> {
    prop_oneof![
        3 => "[a-z0-9]{1,3}",
        2 => select(vec!["a%2Fb", "%2F", "a:b", ":", "%25", "x%20y", "..%2F", "%C3%A9", "%3A", "a%253A", "%FF", "%0A", "CLOSE", "%7B", "...", "~"]).prop_map(str::to_owned),
    ]
    .boxed()
}

/// A path, a method and a host, often those of a route.
fn place_of_call(policy: &PolicyModel) -> BoxedStrategy<(String, &'static str, &'static str)> {
    const HOSTS: [&str; 16] = [
        "api.example.com",
        "API.Example.com:8443",
        "x.example.com",
        "a.b.example.com.",
        "example.com",
        "[::1]:80",
        "[::1",
        "",
        "other",
        "api.example.com:443",
        "api.example.com:x",
        "api.example.com:",
        "api.example.com:80:80",
        "api.example.com:65536",
        "u@api.example.com",
        "X.example.com",
    ];
    let routes = policy.routes.clone();
    let any_method = || select(vec!["GET", "HEAD", "POST", "post", "OPTIONS", "DELETE", ""]);
    let any_host = || select(HOSTS.to_vec());
    let others = (option::weighted(0.1, any_method()), option::weighted(0.3, any_host()));
    let to_route = (any::<Index>(), any::<Index>(), vec(parameter_value(), 4), others).prop_map(
        move |(index, place, values, (method, host))| {
            let route = index.get(&routes);
            let mut values = values.into_iter();
            let segments = route.path.iter().map(|segment| match segment {
                Segment::Literal(text) => (*text).to_owned(),
                Segment::Parameter => values.next().unwrap(),
                Segment::Prefixed(prefix) => format!("{prefix}{}", values.next().unwrap()),
            });
            let path = format!("/{}", segments.collect::<Vec<_>>().join("/"));
            let own_host = match route.hosts.first().copied() {
                Some("*.example.com") => "x.example.com",
                Some("*.b.example.com") => "a.b.example.com",
                other => other.unwrap_or("api.example.com"),
            };
            (path, method.unwrap_or_else(|| *place.get(&route.methods)), host.unwrap_or(own_host))
        },
    );
    // Some are closed for requests of one backend, and those that no route has are closed for any.
    let paths = [
        "/restate/health",
        "/dev.restate.a/b",
        "/restate",
        "/RESTATE/a",
        "/Svc/run",
        "/Obj/x/run",
        "/_x/a",
        "/svc",
        "/IdempotencyGuard/claim",
        "/idempotencyguard",
        "/openapi",
        "/b/b",
        "/%42",
        "/v1/x.y/a",
        "/",
        "/nothing",
        "/%2F",
    ];
    let elsewhere = (select(paths.to_vec()).prop_map(str::to_owned), any_method(), any_host());
    prop_oneof![8 => to_route, 1 => elsewhere].boxed()
}

/// A request that has a chance to lead somewhere.
pub(crate) fn request(policy: &PolicyModel) -> BoxedStrategy<Request> {
    let noise = prop_oneof![3 => Just(Vec::new()), 1 => vec(any::<u8>(), 0..24)];
    let queries = [
        "",
        "page=2",
        "x=1&page=2&page%5Ftoken=a%26b",
        "pa%67e=3&%zz=1",
        "?",
        "delay=1h",
        "page+token=1",
        "page=1;D%45LAYSEC=1&x=2;limit%2dkey=a",
    ];
    let query = option::of(select(queries.to_vec()));
    let odd = [json!("nope"), json!(7), json!("")];
    let endpoints: Vec<Json> = policy.routes.iter().map(|route| json!(route.endpoint)).chain(odd).collect();
    let endpoint = option::weighted(0.1, select(endpoints));
    (place_of_call(policy), noise, query, endpoint, lines(), odd_lines(5), metadata())
        .prop_map(|((path, method, authority), noise, query, endpoint, lines, trailers, metadata)| {
            let path = respelled(&path, &noise, false);
            let target = query.map_or_else(|| path.clone(), |query| format!("{path}?{query}"));
            let mut headers: Vec<OwnedLine> =
                [(":authority", authority), (":path", &target), (":method", method), (":scheme", "https")]
                    .map(|(name, value)| (name.into(), value.into()))
                    .to_vec();
            headers.extend(lines);
            let attributes = JsonAttributes { metadata, endpoint };
            Request { headers, trailers, attributes, ..Request::default() }
        })
        .boxed()
}

/// A policy and a request for it.
pub(crate) fn exchange() -> impl Strategy<Value = (PolicyModel, Request)> {
    policy().prop_flat_map(|policy| {
        let request = request(&policy);
        (Just(policy), request)
    })
}
