//! What the fuzz targets do with an input: feed it to the core, and look at what comes out. A target fails by
//! panicking; CONTRIBUTING.md says how to run one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a failure is a panic"
)]

mod form;
mod json;
mod own;
mod provider;
#[cfg(test)]
mod seeds;
mod signature;

pub use form::form;
pub use json::json;
pub use provider::provider;
pub use signature::signature;

use direct::attributes::{AnyAttributes, NoAttributes};
use edge_idempotency_engine::Body;
use edge_idempotency_engine::headers::{Headers, same_name};
use edge_idempotency_engine::policy::NormalPath;
use edge_idempotency_engine::policy::{RequestUrl, RouteLookup};
use edge_idempotency_engine::{Effect, Exchange, PauseEvent, Policy, RequestFlow, Resumed, key};
use std::sync::LazyLock;

/// Every route of one kind, and rewritten ones; identity from headers alone, since an input is nothing else.
const POLICY: &str = r#"{
    "version": 1,
    "identity": {
        "sources": [
            {"name": "a", "headers_owned_by": "x", "tenant": "x-t", "project": "x-p", "subject": {"field": "x-s"}},
            {"name": "b", "headers_owned_by": "x", "tenant": "x-t2", "project": "x-p2", "subject": {"field": "x-s2", "type": "user"}}
        ],
        "forward": {"tenant": "x-tenant-id", "project": "x-project-id", "subject": "x-s"}
    },
    "backend": {"kind": "restate", "cluster": "backend", "rewrite_path": true},
    "routes": [
        {"endpoint": "required", "path": "/r", "policy": "REQUIRED_A"},
        {"endpoint": "accepted", "path": "/a/{x}", "policy": "ACCEPTED", "target": "Obj/{tenant}:{x}/run", "query": ["q"]},
        {"endpoint": "internal", "path": "/c/{x}/{y}", "policy": "HANDLER_INTERNAL_C", "target": "Two/{x}:{y}/run"},
        {"endpoint": "prohibited", "methods": ["GET"], "path": "/p", "policy": "PROHIBITED", "target": "Svc/run"},
        {"endpoint": "shadow", "path": "/s", "policy": "REQUIRED_A", "mode": "shadow"},
        {"endpoint": "host", "hosts": ["*.example.com"], "path": "/{x}", "policy": "ACCEPTED"}
    ]
}"#;

static COMPILED: LazyLock<Policy> = LazyLock::new(|| Policy::from_json(POLICY.as_bytes()).unwrap());

type FuzzedLines = Vec<(Vec<u8>, Vec<u8>)>;

/// Header lines, `name: value` each, names in lower case as hosts give them; `\xff` stands for a line's end, so that
/// values may hold one.
fn lines(input: &[u8]) -> FuzzedLines {
    let split = |line: &[u8]| {
        // A pseudo header's name begins with a colon.
        let colon = line.iter().skip(1).position(|byte| *byte == b':').map_or(line.len(), |at| at + 1);
        let value = line.get(colon + 1..).unwrap_or_default();
        (line[..colon].to_ascii_lowercase(), value.strip_prefix(b" ").unwrap_or(value).to_vec())
    };
    input.split(|byte| matches!(byte, b'\n' | 0xff)).filter(|line| !line.is_empty()).map(split).collect()
}

fn applied(effects: &[Effect<'_>], mut lines: FuzzedLines) -> FuzzedLines {
    for effect in effects {
        match effect {
            Effect::Set { name, value, .. } => {
                lines.retain(|(line, _)| line != name.as_bytes());
                lines.push((name.as_bytes().to_vec(), value.to_vec()));
            }
            Effect::Remove { name, .. } => lines.retain(|(line, _)| line != name),
            Effect::Body(_) => panic!("a request's body stays as it is"),
            Effect::Reply(_) | Effect::Acknowledge(_) => panic!("a reply that ended nothing: {effect:?}"),
        }
    }
    lines
}

fn is_object(text: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(text).is_ok_and(|json| json.is_object())
}

/// Header lines as a request, then as its trailers and as a response; lines that are no pseudo header stand behind
/// those of a call of `/r`. Nothing that reads as `Idempotency-Key` is forwarded but a namespaced key (invariant I1).
pub fn header(input: &[u8]) {
    let mut given: FuzzedLines = [(":method", "POST"), (":authority", "a"), (":path", "/r")]
        .map(|(name, value)| (name.into(), value.into()))
        .to_vec();
    given.extend(lines(input));
    let policy: &Policy = &COMPILED;
    let headers = Headers::new(given.iter().map(|(name, value)| (name.as_slice(), value.as_slice())).collect());
    let mut exchange = Exchange::new();
    let mut effects = Vec::new();
    let flow = exchange.request_headers(policy, &headers, &NoAttributes, &mut effects);
    assert!(is_object(&exchange.record(policy).to_json()));
    if matches!(flow, RequestFlow::Replied) {
        assert!(matches!(effects.as_slice(), [Effect::Reply(_)]));
        return;
    }
    let forwarded = applied(&effects, given.clone());
    let keys: Vec<&(Vec<u8>, Vec<u8>)> =
        forwarded.iter().filter(|(name, _)| same_name("idempotency-key", name)).collect();
    match keys.as_slice() {
        [] => {}
        [(name, value)] => {
            assert_eq!(name, b"idempotency-key");
            if exchange.shadow().is_some() {
                assert_eq!(exchange.endpoint(policy), Some("shadow"));
                assert!(!value.trim_ascii().starts_with(b"t-"), "{}", value.escape_ascii());
            } else {
                let text = std::str::from_utf8(value).unwrap();
                let decoded = key::decode(text).unwrap();
                assert_eq!(key::encode(&decoded.identity, decoded.raw).unwrap(), text);
            }
        }
        _ => panic!("two keys"),
    }
    let mut effects = Vec::new();
    exchange.request_trailers(policy, &headers, &mut effects);
    assert!(!applied(&effects, given.clone()).iter().any(|(name, _)| same_name("idempotency-key", name)));
    exchange.response_headers(policy, &headers, &mut Vec::new());
    assert!(is_object(&exchange.record(policy).to_json()));
}

/// A request target: its path has one spelling, that spelling is its own, and routes are found by it.
pub fn path(input: &[u8]) {
    let (raw, _) = edge_idempotency_engine::policy::split_query(input);
    let Ok(normal) = NormalPath::parse(raw) else { return };
    let text = normal.as_str();
    assert!(text.starts_with('/') && !text.contains("//") && (text == "/" || !text.ends_with('/')), "{text}");
    assert!(text.split('/').all(|segment| segment != "." && segment != ".."), "{text}");
    assert!(text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\\;#?\"<>^`{|}".contains(&byte)), "{text}");
    assert_eq!(normal.has_encoded_slash(), text.contains("%2F"), "{text}");
    let again = NormalPath::parse(text.as_bytes()).unwrap();
    assert_eq!((again.as_str(), again.has_encoded_slash()), (text, normal.has_encoded_slash()));
    let sent = normal.with_slashes();
    assert!(!sent.starts_with("//"), "{sent}");
    let again = NormalPath::parse(sent.as_bytes()).unwrap();
    assert_eq!(again, normal);
    for host in ["a", "b.example.com"] {
        if let RouteLookup::Route(route, values) =
            COMPILED.declared(RequestUrl { authority: host, path: &normal }, b"POST")
        {
            assert_eq!(route.template.values(text).unwrap(), values);
        }
    }
    let line = [b":path: ", input].concat();
    if !line.contains(&b'\n') && !line.contains(&0xff) {
        header(&line);
    }
}

/// A policy document: it compiles, and then answers requests for its routes, or it has errors with places.
pub fn policy(input: &[u8]) {
    match Policy::from_json(input) {
        Err(errors) => {
            assert!(!errors.0.is_empty());
            let document: serde_json::Value = serde_json::from_slice(input).unwrap_or_default();
            for error in &errors.0 {
                assert!(!error.message.is_empty());
                let parent = error.pointer.rsplit_once('/').map_or("", |(parent, _)| parent);
                assert!(document.pointer(&error.pointer).or(document.pointer(parent)).is_some(), "{error}");
            }
        }
        Ok(mut policy) => {
            let _ = policy.read_secrets(|name| Some(name.as_bytes().to_vec()), |_| true, "");
            let _ = (policy.summary(), format!("{policy:?}"));
            let mut id = 0;
            while let Some(route) = policy.route(id) {
                id += 1;
                let path = route.template.to_string().replace(['{', '}'], "");
                let method = route.methods.first().map_or("", String::as_str);
                let lines =
                    [(":path", path.as_str()), (":method", method), (":authority", "a"), ("idempotency-key", "\"k\"")];
                let headers =
                    Headers::new(lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect());
                // Every claim says the same; the gateway's route names the endpoint.
                let attributes = AnyAttributes {
                    metadata: vec![Some(b"user:a".to_vec())],
                    endpoint: Some(route.endpoint.clone().into_bytes()),
                };
                let mut exchange = Exchange::new();
                let mut effects = Vec::new();
                let flow = exchange.request_headers(&policy, &headers, &attributes, &mut effects);
                if let RequestFlow::Paused(pause) = flow {
                    let event = PauseEvent::Body { body: &Body::of(b"{}"), now_unix_ms: 0 };
                    pause.resume(&mut exchange, Resumed { policy: &policy, headers: &headers, event }, &mut effects);
                }
                exchange.response_headers(&policy, &headers, &mut Vec::new());
                assert!(is_object(&exchange.record(&policy).to_json()));
            }
        }
    }
}

/// Runs a target with the files that the program was given, such as one that the fuzzer has left behind.
///
/// # Errors
/// A file that cannot be read.
pub fn run_files(target: fn(&[u8])) -> std::io::Result<()> {
    for path in std::env::args_os().skip(1) {
        target(&std::fs::read(&path)?);
        println!("{}: nothing found", path.display());
    }
    Ok(())
}
