//! Headers that look like those that were verified, for every provider: after a verified delivery nothing is left that a server could
//! read as a header of the provider's file, but the lines that were verified or read.

use super::files::sources;
use direct::requests::{OwnedLine, Request, Verdict, run};
use edge_idempotency_engine::headers::canonical;
use edge_idempotency_engine::{AttributeValue, Attributes, Clock, Policy};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use testkit::vectors::{self, Vector};

const FORGED: &[u8] = b"forged";

/// The headers that a file reads, by this test's own reading of it.
pub(super) struct ReadNames {
    /// For each scheme its signature's headers and the others
    schemes: Vec<(Vec<String>, Vec<String>)>,
    identifiers: Vec<String>,
    others: Vec<String>,
}

impl ReadNames {
    pub(super) fn of(file: &Value) -> Self {
        let lower = |value: &Value| value.as_str().map(str::to_ascii_lowercase);
        let list = |value: &Value| value.as_array().into_iter().flatten().filter_map(lower).collect::<Vec<_>>();
        let scheme = |scheme: &Value| {
            let signature = &scheme["signature"];
            let numbered = lower(&signature["numbered_headers"]).map(|prefix| prefix + "1");
            let signatures = lower(&signature["header"]).into_iter().chain(list(&signature["headers"])).chain(numbered);
            let template = scheme["template"].as_str().unwrap_or_default();
            let signed = template.split("{header:").skip(1).filter_map(|rest| rest.split('}').next());
            let mut others: Vec<String> = signed.map(str::to_ascii_lowercase).collect();
            others.extend(lower(&scheme["timestamp"]["header"]));
            others.extend(lower(&scheme["identifier"]["header"]));
            let required = scheme["require_headers"].as_object().into_iter().flatten();
            others.extend(required.map(|(name, _)| name.to_ascii_lowercase()));
            (signatures.collect(), others)
        };
        let identifiers = file["identifiers"].as_array().into_iter().flatten();
        Self {
            schemes: file["schemes"].as_array().unwrap().iter().map(scheme).collect(),
            identifiers: identifiers.filter_map(|place| lower(&place["header"])).collect(),
            others: list(&file["other_signature_headers"]),
        }
    }

    pub(super) fn all(&self) -> BTreeSet<&str> {
        let of_schemes = self.schemes.iter().flat_map(|(signature, others)| signature.iter().chain(others));
        of_schemes.chain(&self.identifiers).chain(&self.others).map(String::as_str).collect()
    }

    /// Headers of schemes whose signature the delivery does not have, and that no other scheme has.
    fn of_absent_schemes(&self, vector: &Vector) -> BTreeSet<&str> {
        let is_present = |signature: &[String]| signature.iter().any(|name| !vector.header(name).is_empty());
        let (present, absent): (Vec<_>, Vec<_>) =
            self.schemes.iter().partition(|(signature, _)| signature.is_empty() || is_present(signature));
        let names = |schemes: &[&'_ (Vec<String>, Vec<String>)]| -> BTreeSet<String> {
            schemes.iter().flat_map(|(signature, others)| signature.iter().chain(others)).cloned().collect()
        };
        let (present, absent) = (names(&present), names(&absent));
        let is_only_absent = |name: &&str| {
            absent.contains(*name) && !present.contains(*name) && !self.identifiers.iter().any(|id| id == name)
        };
        self.all().into_iter().filter(is_only_absent).collect()
    }
}

fn policy(vector: &Vector, kind: &str, route: &str) -> Policy {
    let authority = vector.url.find("://").unwrap() + 3;
    let base = vector.url[authority..].find('/').map_or(vector.url.len(), |at| authority + at);
    let secrets: Vec<&str> = vector.secrets.iter().map(|secret| std::str::from_utf8(secret).unwrap()).collect();
    let document = json!({
        "version": 1, "gateway_routes": true, "allow_inline_secrets": true, "backend": {"kind": kind},
        "routes": [{
            "endpoint": "hook", "path": "/hook", "methods": [vector.method], "policy": route,
            "max_body_bytes": 2 << 20, "webhook": {"provider": vector.provider, "id": "wh_01JABC"},
        }],
        "webhooks": {"public_base_url": &vector.url[..base], "static": {"wh_01JABC": {
            "tenant": "acme", "project": "shop", "provider": vector.provider, "secrets": secrets,
        }}},
    });
    Policy::from_json(document.to_string().as_bytes()).unwrap_or_else(|errors| panic!("{}: {errors}", vector.id))
}

/// A gateway that names the endpoint `hook`, and whose clock is that of a vector.
struct NamedRoute {
    now_ms: u64,
}

impl Clock for NamedRoute {
    fn now_unix_ms(&self) -> u64 {
        self.now_ms
    }
}

impl Attributes for NamedRoute {
    fn route_endpoint(&self) -> AttributeValue<'_> {
        AttributeValue::Text(b"hook".into())
    }
}

/// What the backend gets of a delivery with these lines: headers, trailers, and the key.
fn forwarded(
    policy: &Policy,
    vector: &Vector,
    lines: &[OwnedLine],
    trailers: &[OwnedLine],
) -> Option<(Vec<OwnedLine>, Vec<OwnedLine>)> {
    let request = Request {
        headers: lines.to_vec(),
        body: vector.body.clone(),
        trailers: trailers.to_vec(),
        ..Request::default()
    };
    match run(policy, &request, &NamedRoute { now_ms: vector.now_ms }).1 {
        Verdict::Forwarded { headers, trailers } => Some((headers, trailers)),
        Verdict::Refused(_) | Verdict::Acknowledged(_) => None,
    }
}

fn check(vector: &Vector, names: &ReadNames, kind: &str, route: &str) -> Result<bool, String> {
    let line = |name: &str, value: &[u8]| (name.as_bytes().to_vec(), value.to_vec());
    let policy = policy(vector, kind, route);
    let (authority, path) = vector.url.split_once("://").unwrap().1.split_once('/').unwrap_or((&vector.url, ""));
    let authority = authority.rsplit('@').next().unwrap();
    let mut lines = vec![line(":method", vector.method.as_bytes()), line(":scheme", b"https")];
    lines.push(line(":authority", authority.as_bytes()));
    lines.push(line(":path", format!("/{path}").as_bytes()));
    lines.extend(vector.headers.iter().map(|(name, value)| line(name, value)));
    let Some((genuine, _)) = forwarded(&policy, vector, &lines, &[]) else { return Ok(false) };

    // Each name with `_` in every place, and in one place only.
    let twins = |name: &&str| [name.replace('-', "_"), name.replacen('-', "_", 1)];
    let twins: BTreeSet<String> =
        names.all().iter().flat_map(twins).filter(|twin| !names.all().contains(twin.as_str())).collect();
    let forged: Vec<&str> = twins.iter().map(String::as_str).chain(names.of_absent_schemes(vector)).collect();
    let forged: Vec<OwnedLine> = forged.into_iter().map(|name| line(name, FORGED)).collect();
    let trailers: Vec<OwnedLine> =
        names.all().into_iter().map(|name| line(name, FORGED)).chain(forged.clone()).collect();
    let sent = [forged, lines.clone()].concat();
    let Some((found, trailers)) = forwarded(&policy, vector, &sent, &trailers) else {
        return Err("with forged lines beside the signed ones it is refused".to_owned());
    };
    let sorted = |mut lines: Vec<OwnedLine>| {
        lines.sort();
        lines
    };
    if sorted(found.clone()) != sorted(genuine) {
        return Err(format!("the forged lines change what the backend gets: {}", shown(&found)));
    }
    if !trailers.is_empty() {
        return Err(format!("trailers: {}", shown(&trailers)));
    }
    let mut seen = BTreeMap::new();
    for (name, value) in &found {
        let (name, value) = (String::from_utf8_lossy(name), value.trim_ascii());
        let Some(read) = names.all().into_iter().find(|read| canonical(&name) == canonical(read)) else { continue };
        // The key that the filter sets is none of the delivery.
        let is_sent = vector.header(read).iter().any(|sent| sent.trim_ascii() == value);
        if read != "idempotency-key" && (name != read || !is_sent || seen.insert(read, ()).is_some()) {
            return Err(format!("`{name}` is left: {}", shown(&found)));
        }
    }
    Ok(true)
}

fn shown(lines: &[OwnedLine]) -> String {
    lines.iter().map(|(name, value)| format!("{}: {}; ", name.escape_ascii(), value.escape_ascii())).collect()
}

pub(crate) fn nothing_that_looks_verified_is_left() -> Result<(), String> {
    let names: BTreeMap<String, ReadNames> = sources()
        .into_iter()
        .map(|(name, file)| (name, ReadNames::of(&serde_json::from_str(&file).unwrap())))
        .collect();
    let mut checked = BTreeSet::new();
    for vector in vectors::all().iter().filter(|vector| vector.valid && vector.body.len() < 10_000) {
        for (kind, route) in [("restate", "ACCEPTED"), ("generic", "ACCEPTED"), ("generic", "HANDLER_INTERNAL_C")] {
            let is_forwarded = check(vector, &names[&vector.provider], kind, route)
                .map_err(|why| format!("{}, {kind}, {route}: {why}", vector.id))?;
            if is_forwarded {
                checked.insert(vector.provider.clone());
            }
        }
    }
    assert_eq!(checked, names.into_keys().collect(), "a provider without a delivery that is forwarded");
    Ok(())
}
