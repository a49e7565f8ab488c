//! Every provider vector as a whole exchange, for any engine. Vectors and expectations are those of the engine's own tests
//! (`crates/engine/tests/providers`).
//!
//! Each delivery comes to three routes with one binding: `REQUIRED_B` (where the provider has identifiers), `ACCEPTED`
//! and `HANDLER_INTERNAL_C`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "tests"
)]

use std::collections::BTreeMap;

use direct::trials::{self, Engine, Source};
use libtest_mimic::{Failed, Trial};
use serde_json::{Map, Value, json};
use testkit::cases::{Case, Client, workspace};
use testkit::http::{Headers, Message};
use testkit::vectors::{self, Vector};

const WEBHOOK_ID: &str = "wh_01JABC";
const NAMESPACE: &str = "t-acme:shop:service:webhook-ingest";

/// A trial for each vector: `vectors::provider::vector`, with `prefix` in front.
pub(crate) fn trials(prefix: &str, engine: Source) -> Vec<Trial> {
    let trial = |vector: Vector| {
        let name = format!("{prefix}vectors::{}::{}", vector.provider, vector.id);
        Trial::test(name, move || on_every_route(&vector, engine()?))
    };
    vectors::all().into_iter().map(trial).collect()
}

fn on_every_route(vector: &Vector, engine: &dyn Engine) -> Result<(), Failed> {
    let file = ProviderFile::read(&vector.provider);
    let mut differences = Vec::new();
    for policy in ["REQUIRED_B", "ACCEPTED", "HANDLER_INTERNAL_C"] {
        if policy == "REQUIRED_B" && !file.has_identifiers() {
            continue;
        }
        let (found, _) = trials::differences(engine, &case(vector, &file, policy));
        differences.extend(found.into_iter().map(|difference| format!("{policy}: {difference}")));
    }
    if differences.is_empty() { Ok(()) } else { Err(differences.join("\n").into()) }
}

/// What has to come of a delivery.
enum Answer {
    /// Forwarded, with this key or with none.
    Forwarded(Option<String>),
    Refused(u16, &'static str),
}

fn answer(vector: &Vector, policy: &str) -> Answer {
    let absent = ["delivery_id_missing", "delivery_id_empty", "multiple_events", "no_delivery_id"];
    match (policy, &vector.key) {
        (_, Err(why)) if !vector.valid && why == "secret_invalid" => Answer::Refused(503, "dependency_unavailable"),
        _ if !vector.valid => Answer::Refused(401, "webhook_signature_invalid"),
        ("HANDLER_INTERNAL_C", _) => Answer::Forwarded(None),
        (_, Ok(raw)) => Answer::Forwarded(Some(format!("{NAMESPACE}:{raw}"))),
        ("ACCEPTED", Err(why)) if absent.contains(&why.as_str()) => Answer::Forwarded(None),
        (_, Err(_)) => Answer::Refused(400, "transport_translation_failed"),
    }
}

fn case(vector: &Vector, file: &ProviderFile, policy: &str) -> Case {
    let (base, target) = split_url(&vector.url);
    let (scheme, authority) = base.split_once("://").unwrap();
    let authority = authority.rsplit('@').next().unwrap();
    let mut head = Headers::from([(":method", vector.method.as_str()), (":scheme", scheme), (":authority", authority)]);
    head.add(":path", target);
    // What a third party says of keys and identity is never believed. GitLab's identifier is in this very header.
    let mut lines = vector.headers.clone();
    if !file.identifies_by("idempotency-key") {
        lines.push(("idempotency-key".to_owned(), b"a-key-of-ones-own".to_vec()));
    }
    lines.push(("x-tenant-id".to_owned(), b"somebody-elses".to_vec()));
    for (name, value) in &lines {
        head.add(name, value.as_slice());
    }

    let (status, problem, upstream) = match answer(vector, policy) {
        Answer::Refused(status, code) => (status, json!({"code": code, "status": status}).as_object().cloned(), None),
        Answer::Forwarded(key) => {
            let mut head = Headers::from([
                (":method", vector.method.as_str()),
                (":scheme", scheme),
                (":authority", authority),
                (":path", "/restate/call/Webhooks/ingest"),
                ("x-edge-idempotency", "1"),
                ("x-tenant-id", "acme"),
            ]);
            let mut verified: Vec<(&str, &[u8])> = Vec::new();
            for (name, value) in lines.iter().filter(|(name, _)| !file.stays_here(name)) {
                let line = (name.as_str(), value.as_slice());
                // Of equal lines one goes on.
                if !file.reads(name) || file.keeps(line, vector, policy, key.as_deref()) && !verified.contains(&line) {
                    verified.push(line);
                    head.add(name, value.as_slice());
                }
            }
            if let Some(key) = key {
                head.add("idempotency-key", key);
            }
            (200, None, Some(Message::new(head, vector.body.as_slice())))
        }
    };
    Case {
        name: vector.id.clone(),
        policy: document(vector, policy, public_base_url(base, policy)),
        environment: BTreeMap::new(),
        now_unix_ms: Some(vector.now_ms),
        request: Message::new(head, vector.body.as_slice()),
        lookups: None,
        metadata: Map::new(),
        // Whatever path a vector was recorded at.
        route_metadata: json!({"edge.idempotency": {"endpoint": "hook"}}).as_object().unwrap().clone(),
        response: Message::new([(":status", "200")], ""),
        upstream,
        client: Client { status, headers: Vec::new(), problem, body: None, trailers: None },
        metrics: None,
        record: None,
    }
}

/// On one of the routes the public URL is left to be what the request says, which has no user in it.
fn public_base_url<'a>(base: &'a str, policy: &str) -> Option<&'a str> {
    (policy != "ACCEPTED" || base.contains('@')).then_some(base)
}

fn document(vector: &Vector, policy: &str, public_base_url: Option<&str>) -> Vec<u8> {
    let secrets: Vec<&str> = vector.secrets.iter().map(|secret| std::str::from_utf8(secret).unwrap()).collect();
    let subject = json!({"field": "sub", "type": "user"});
    let source = json!({"name": "jwt", "metadata": ["jwt"], "tenant": "t", "project": "p", "subject": subject});
    let mut document = json!({
        "version": 1,
        "gateway_routes": true,
        "allow_inline_secrets": true,
        "identity": {"sources": [source], "forward": {"tenant": "x-tenant-id"}},
        "backend": {"kind": "restate", "cluster": "backend", "rewrite_path": true},
        "routes": [{
            "endpoint": "hook",
            "path": "/hook",
            "methods": [vector.method],
            "policy": policy,
            "target": "Webhooks/ingest",
            "max_body_bytes": 2 << 20,
            "webhook": {"provider": vector.provider, "id": WEBHOOK_ID},
        }],
        "webhooks": {
            "static": {WEBHOOK_ID: {
                "tenant": "acme",
                "project": "shop",
                "provider": vector.provider,
                "secrets": secrets,
                "key_scope": "project",
                "bind_body": false,
            }},
        },
    });
    if let Some(url) = public_base_url {
        document["webhooks"]["public_base_url"] = url.into();
    }
    document.to_string().into_bytes()
}

/// Scheme and authority, and what a request line says.
fn split_url(url: &str) -> (&str, &str) {
    let authority = url.find("://").unwrap() + 3;
    let path = url[authority..].find('/').map_or(url.len(), |at| authority + at);
    (&url[..path], &url[path..])
}

/// What a provider's file says of headers, read in another way than the filter's.
struct ProviderFile(Value);

impl ProviderFile {
    fn read(provider: &str) -> Self {
        let file = workspace().join(format!("policies/providers/{provider}.json"));
        Self(serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap())
    }

    fn has_identifiers(&self) -> bool {
        self.0["identifiers"].as_array().is_some_and(|identifiers| !identifiers.is_empty())
    }

    fn identifies_by(&self, name: &str) -> bool {
        let places = self.0["identifiers"].as_array().into_iter().flatten();
        places.filter_map(|place| place["header"].as_str()).any(|header| header.eq_ignore_ascii_case(name))
    }

    /// The headers of a scheme that are verified with it, the one with `{id}` among them.
    fn verified_by(&self, scheme: &Value) -> Vec<String> {
        let template = scheme["template"].as_str().unwrap_or_default();
        let mut names: Vec<&str> =
            template.split("{header:").skip(1).filter_map(|rest| rest.split('}').next()).collect();
        names.extend(scheme["timestamp"]["header"].as_str());
        names.extend(scheme["require_headers"].as_object().into_iter().flatten().map(|(name, _)| name.as_str()));
        if template.contains("{id}") {
            let place = scheme.get("identifier").unwrap_or(&self.0["identifiers"][0]);
            names.extend(place["header"].as_str());
        }
        names.into_iter().map(str::to_ascii_lowercase).collect()
    }

    /// Whether the file reads a header, apart from those with signatures.
    fn reads(&self, name: &str) -> bool {
        self.identifies_by(name)
            || self.schemes().any(|scheme| self.verified_by(scheme).iter().any(|read| read == name))
    }

    /// Whether a line that the file reads goes on: its value was verified, or the identifier was read from it. `key`: the key that the
    /// delivery gets, if it gets one.
    fn keeps(&self, (name, value): (&str, &[u8]), vector: &Vector, policy: &str, key: Option<&str>) -> bool {
        let is_signed = |scheme: &&Value| {
            let header = scheme["signature"]["header"].as_str().unwrap_or_default().to_ascii_lowercase();
            !vector.header(&header).is_empty()
        };
        let scheme = self.schemes().find(is_signed).or_else(|| self.schemes().next()).unwrap();
        if self.verified_by(scheme).iter().any(|verified| verified == name) {
            return true;
        }
        let is_other = scheme["identifier"]["header"].as_str().is_some_and(|own| !own.eq_ignore_ascii_case(name));
        let lines = vector.header(name);
        let has_slots = self.0["identifiers"].as_array().is_some_and(|places| places.len() > 1);
        self.identifies_by(name)
            && !is_other
            && lines.iter().all(|line| *line == lines[0])
            && (policy == "HANDLER_INTERNAL_C" || key.is_some_and(|key| !has_slots || key.as_bytes().ends_with(value)))
    }

    fn schemes(&self) -> impl Iterator<Item = &Value> {
        self.0["schemes"].as_array().unwrap().iter()
    }

    /// Whether a header of a delivery is the filter's to remove or to set anew.
    fn stays_here(&self, name: &str) -> bool {
        let always = ["authorization", "cookie", "proxy-authorization", "x-api-key", "origin", "idempotency-key"];
        let named = |value: &Value| value.as_str().is_some_and(|header| header.eq_ignore_ascii_case(name));
        always.contains(&name)
            || name == "x-tenant-id"
            || self.0["schemes"].as_array().unwrap().iter().map(|scheme| &scheme["signature"]).any(|signature| {
                let numbered = signature["numbered_headers"].as_str().map(str::to_ascii_lowercase);
                named(&signature["header"])
                    || signature["headers"].as_array().is_some_and(|headers| headers.iter().any(named))
                    || numbered.is_some_and(|prefix| name.starts_with(&prefix))
            })
    }
}
