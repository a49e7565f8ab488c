//! Header lines, methods and tokens in other spellings, and lines that claim to be somebody else's.

use super::case::{Case, CaseLine, Protocol, Token};
use super::random::Random;

/// The raw key of a case.
pub(crate) fn key(number: u64) -> String {
    format!("k-{number}")
}

/// Changes the header lines, and says how.
pub(crate) fn mutate(case: &mut Case, random: &mut Random) -> String {
    match random.weighted(&[25, 30, 20, 25]) {
        0 => name_of_key(case, random),
        1 => value_of_key(case, random),
        2 => repeated(case, random),
        _ => claimed(case, random),
    }
}

/// Names of the key's header that a server behind might take for it.
const NAMES: [&str; 8] = [
    "Idempotency-Key",
    "IDEMPOTENCY-KEY",
    "idempotency_key",
    "Idempotency_Key",
    "idempotency-key ",
    " idempotency-key",
    "idempotency-key\t",
    "idempotency-key\u{0}",
];

fn name_of_key(case: &mut Case, random: &mut Random) -> String {
    let name = random.pick(&NAMES);
    let value = random.pick(&["k-1", "t-globex:shop:user:u2:k", ""]);
    if random.percent(50) {
        case.lines.retain(|line| line.name != "idempotency-key");
    }
    case.lines.push(CaseLine::new(name, value));
    format!("header: {}: {value}", name.escape_debug())
}

fn value_of_key(case: &mut Case, random: &mut Random) -> String {
    let plain = key(case.number);
    let long = "k".repeat(255);
    let longer = "k".repeat(256);
    let quoted = format!("\"{plain}\"");
    let with_parameter = format!("\"{plain}\"; a=1");
    let values: [&[u8]; 16] = [
        quoted.as_bytes(),
        with_parameter.as_bytes(),
        long.as_bytes(),
        longer.as_bytes(),
        b"",
        b"\"k",
        b"\"k,l\"",
        b"t-globex:shop:user:u2:k",
        b"\"t-globex:shop:user:u2:k\"",
        b"k 1",
        b"k\t1",
        b"k\xff",
        b"k\x00",
        b"k\x7f",
        b"k\r\n l",
        b"\r\n\tk",
    ];
    let value = random.pick(&values);
    case.lines.retain(|line| line.name != "idempotency-key");
    let mut line = CaseLine::new(random.pick(&["idempotency-key", "Idempotency-Key"]), value);
    if case.protocol == Protocol::Http1 {
        line.between = random.pick(&[": ", ":", ":  ", ": \t", " : ", "\t: "]);
    } else {
        line.name.make_ascii_lowercase();
    }
    let text = format!("header: key {:?}{}", line.between, value.escape_ascii());
    case.lines.push(line);
    text.chars().take(80).collect()
}

fn repeated(case: &mut Case, random: &mut Random) -> String {
    let own = key(case.number);
    let value = random.pick(&[own.as_str(), "k-2", "", "t-globex:shop:user:u2:k"]);
    let line = CaseLine::new("idempotency-key", value);
    if random.percent(50) {
        case.lines.insert(0, line);
    } else {
        case.lines.push(line);
    }
    format!("header: another key line {value}")
}

/// Lines that say who the caller is, which method is meant, or what the gateway should do.
fn claimed(case: &mut Case, random: &mut Random) -> String {
    let mut said = Vec::new();
    for _ in 0..=random.below(3) {
        let (name, value) = random.pick(&[
            ("x-edge-idempotency", "1"),
            ("X_Edge_Idempotency", "1"),
            ("x-tenant-id", "globex"),
            ("x_tenant_id", "globex"),
            ("x_subject", "user:u2"),
            ("x-http-method-override", "DELETE"),
            ("x_http_method_override", "DELETE"),
            ("x-envoy-original-path", "/api/v1/denied"),
            ("x-envoy-upstream-rq-timeout-ms", "1"),
            ("x-envoy-retry-on", "5xx,retriable-status-codes"),
            ("x-envoy-internal", "true"),
            ("x-forwarded-for", "10.0.0.1"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "admin.example.com"),
            ("x-restate-id", "inv_1"),
            ("X_Restate_Key", "k"),
            ("origin", "https://evil.example"),
            ("connection", "idempotency-key"),
            ("connection", "keep-alive, x-edge-idempotency"),
            ("te", "trailers"),
            ("expect", "100-continue"),
            ("content-type", "application/grpc"),
            ("content-type", "application/json, application/grpc"),
        ]);
        let mut name = name.to_owned();
        if case.protocol == Protocol::Http2 {
            // Names in upper case are another mutation there.
            name.make_ascii_lowercase();
            if name == "connection" {
                continue;
            }
        }
        if matches!(name.as_str(), "expect" | "content-type") {
            case.lines.retain(|line| line.name != name);
        }
        said.push(format!("{name}: {value}"));
        case.lines.push(CaseLine::new(&name, value));
    }
    format!("header: {}", said.join(", "))
}

/// Changes the method, and says how.
pub(crate) fn method(case: &mut Case, random: &mut Random) -> String {
    let method = random.pick(&[
        "GET",
        "HEAD",
        "POST",
        "PUT",
        "PATCH",
        "DELETE",
        "OPTIONS",
        "TRACE",
        "post",
        "Post",
        "delete",
        "GETT",
        "PURGE",
        "QUERY",
        "M-SEARCH",
        "POST\u{0}",
        "P\u{d6}ST",
        "",
    ]);
    case.method = method.to_owned();
    format!("method: {}", method.escape_debug())
}

/// Changes the token, and says how.
pub(crate) fn token(case: &mut Case, random: &mut Random) -> String {
    case.token =
        random.pick(&[Token::Other, Token::Other, Token::Missing, Token::Expired, Token::Forged, Token::Garbage]);
    format!("token: {:?}", case.token)
}
