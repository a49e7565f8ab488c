//! Every cut of a signed text, for every provider file: whoever has seen a delivery can move the boundaries between the parts of
//! the signed text, and the same signature fits. At most the cut that was sent may be accepted.
//!
//! The files are read with HMAC-SHA-256 over one secret in the place of their algorithms, so that the test can sign whatever a
//! sender could sign. Templates, boundaries, headers and timestamps are those of the files.

use super::files::sources;
use crate::extent::some;
use edge_idempotency_engine::Body;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::provider::{Delivery, Provider};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use testkit::signatures::{hex, hmac_sha256};

const SECRET: &[u8] = b"0123456789abcdef-0123456789abcde!";
const NOW_MS: u64 = 1_760_000_000_000;
const URL: &str = "https://hooks.example.com/in/x?a=1";

/// Providers that sign parts with nothing between them that would tell them apart. Their keys are digests of the whole signed text, or
/// they have none.
const WHOLE_TEXTS: [&str; 4] = ["adyen_payments", "mandrill", "twilio", "twilio_event_streams"];

/// A part of a template.
#[derive(Debug, Clone, PartialEq)]
enum RecutPart {
    Literal(String),
    Header(String),
    Time,
    Method,
    Url,
    Body,
    Form,
    Member(String),
}

/// A scheme of a provider file, with the test's own secret.
struct TestScheme {
    provider: Provider,
    json: Value,
    parts: Vec<RecutPart>,
    /// The header with the identifier, if it is in one
    id: Option<String>,
}

impl TestScheme {
    fn all(name: &str, file: &str) -> Vec<Self> {
        let file: Value = serde_json::from_str(file).unwrap();
        let schemes = file["schemes"].as_array().unwrap();
        schemes
            .iter()
            .filter(|scheme| scheme.get("template").is_some())
            .map(|scheme| Self::new(name, &file, scheme))
            // One part cannot be cut.
            .filter(|scheme| scheme.parts.iter().filter(|part| !matches!(part, RecutPart::Literal(_))).count() > 1)
            .collect()
    }

    fn new(name: &str, file: &Value, scheme: &Value) -> Self {
        let (mut file, mut json) = (file.clone(), scheme.clone());
        json["algorithm"] = json!("hmac-sha256");
        json["signature"]["encoding"] = json!("hex");
        json.as_object_mut().unwrap().remove("secret");
        file["schemes"] = json!([json]);
        let place = json.get("identifier").unwrap_or(&file["identifiers"][0]);
        let id = place["header"].as_str().map(str::to_ascii_lowercase);
        let provider =
            Provider::read(name, file.to_string().as_bytes()).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let parts = parts(json["template"].as_str().unwrap(), id.as_deref());
        Self { provider, parts, id, json }
    }

    /// The delivery with these texts in the places of the parts.
    fn accepts(&self, signature: &str, texts: &[String]) -> Option<String> {
        let (mut method, mut url, mut body) = ("POST".to_owned(), URL.to_owned(), String::new());
        let mut lines: Vec<(String, String)> = Vec::new();
        let mut members: Vec<(&str, &str)> = Vec::new();
        let clock = &self.json["timestamp"];
        let mut pair = String::new();
        for (part, text) in self.parts.iter().zip(texts) {
            match part {
                RecutPart::Literal(_) => {}
                RecutPart::Header(name) => lines.push((name.clone(), text.clone())),
                RecutPart::Time => match (clock["header"].as_str(), clock["pair"].as_str()) {
                    (Some(name), _) => lines.push((name.to_ascii_lowercase(), text.clone())),
                    (_, Some(key)) => pair = format!("{key}={text}"),
                    _ => members.push((clock["json"].as_str().unwrap(), text)),
                },
                RecutPart::Method => method.clone_from(text),
                RecutPart::Url => url.clone_from(text),
                RecutPart::Body => body.clone_from(text),
                RecutPart::Form => {
                    lines.push(("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned()));
                    if !text.is_empty() {
                        body = text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>() + "=";
                    }
                }
                RecutPart::Member(pointer) => members.push((pointer, text)),
            }
        }
        if let (Some(id), false) = (&self.id, lines.iter().any(|(name, _)| Some(name) == self.id.as_ref())) {
            lines.push((id.clone(), "id-beside-the-text".to_owned()));
        }
        for (name, value) in self.json["require_headers"].as_object().into_iter().flatten() {
            lines.push((name.to_ascii_lowercase(), value.as_str().unwrap().to_owned()));
        }
        let place = &self.json["signature"];
        if let Some(pointer) = place["json"].as_str() {
            members.push((pointer, signature));
        } else {
            let name = [&place["header"], &place["headers"][0]].into_iter().find_map(Value::as_str);
            let name = name.map_or_else(|| place["numbered_headers"].as_str().unwrap().to_owned() + "1", str::to_owned);
            let value = match (place.get("pairs"), place.get("versions")) {
                (Some(pairs), _) => {
                    let (separator, key) = (pairs["separator"].as_str().unwrap(), pairs["key"].as_str().unwrap());
                    let time = if pair.is_empty() { String::new() } else { pair + separator };
                    format!("{time}{key}={signature}")
                }
                (_, Some(versions)) => format!("{},{signature}", versions["version"].as_str().unwrap()),
                _ => place["prefix"].as_str().unwrap_or_default().to_owned() + signature,
            };
            lines.push((name.to_ascii_lowercase(), value));
        }
        if !members.is_empty() {
            body = document(&members).to_string();
        }
        let lines: Vec<(&[u8], &[u8])> =
            lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect();
        let headers = Headers::new(lines);
        let delivery = Delivery {
            method: method.as_bytes(),
            url: url.as_bytes(),
            headers: &headers,
            body: &Body::of(body.as_bytes()),
        };
        let verified = self.provider.verify(&delivery, &[SECRET], NOW_MS).ok()?;
        Some(match self.provider.identifier(&delivery, &verified) {
            Ok(Some(identifier)) => self.provider.raw_key(&identifier, None, None),
            Ok(None) => "no key".to_owned(),
            Err(why) => why.reason().name().to_owned(),
        })
    }

    /// Whether the provider sends such parts: its identifiers hold no `.`, and where the body tells the parts apart it is JSON, or
    /// there is none behind a URL that does not end as JSON does.
    fn is_documented(&self, texts: &[String]) -> bool {
        self.parts.iter().zip(texts).all(|(part, text)| match part {
            RecutPart::Header(_) => !text.contains('.'),
            RecutPart::Body if self.json["boundaries"] == "json_body" => match text.as_str() {
                "" => !texts.iter().any(|url| url.ends_with("{}")),
                _ => text.starts_with('{') && serde_json::from_str::<Value>(text).is_ok(),
            },
            _ => true,
        })
    }

    /// Every cut of a text into the parts of the template, in the texts of which a host lets them in.
    fn cuts(&self, text: &str) -> Vec<Vec<String>> {
        let mut all = Vec::new();
        cut(&self.parts, text, &mut Vec::new(), &mut all);
        all
    }
}

fn cut(parts: &[RecutPart], text: &str, before: &mut Vec<String>, all: &mut Vec<Vec<String>>) {
    let Some((part, rest)) = parts.split_first() else {
        if text.is_empty() {
            all.push(before.clone());
        }
        return;
    };
    let ends: Vec<usize> = match part {
        RecutPart::Literal(literal) => {
            text.starts_with(literal.as_str()).then_some(literal.len()).into_iter().collect()
        }
        _ if rest.is_empty() => vec![text.len()],
        _ => (0..=text.len()).filter(|end| text.is_char_boundary(*end)).collect(),
    };
    for end in ends.into_iter().filter(|end| fits(part, &text[..*end])) {
        before.push(text[..end].to_owned());
        cut(rest, &text[end..], before, all);
        before.pop();
    }
}

/// Whether a host lets a part with this text in. No unit of timestamps has longer texts or other characters.
fn fits(part: &RecutPart, text: &str) -> bool {
    let in_line = !text.contains(['\n', '\r', '\0']);
    match part {
        RecutPart::Literal(_) | RecutPart::Body | RecutPart::Form | RecutPart::Member(_) => true,
        RecutPart::Header(_) => in_line && !text.is_empty() && text.trim() == text,
        RecutPart::Time => {
            (1..=32).contains(&text.len())
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" ,:.+-".contains(&byte))
        }
        RecutPart::Method => !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        RecutPart::Url => in_line && !text.contains(' ') && text.starts_with("https://"),
    }
}

fn parts(template: &str, id: Option<&str>) -> Vec<RecutPart> {
    let mut parts = Vec::new();
    let mut rest = template;
    while let Some((literal, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').unwrap();
        if !literal.is_empty() {
            parts.push(RecutPart::Literal(literal.to_owned()));
        }
        parts.push(match name.split_once(':') {
            Some(("header", name)) => RecutPart::Header(name.to_ascii_lowercase()),
            Some((_, pointer)) => RecutPart::Member(pointer.to_owned()),
            None => match name {
                "id" => RecutPart::Header(id.unwrap().to_owned()),
                "timestamp" => RecutPart::Time,
                "method" => RecutPart::Method,
                "url" | "hubspot_url" => RecutPart::Url,
                "body" => RecutPart::Body,
                "sorted_form" => RecutPart::Form,
                other => panic!("what is {other}?"),
            },
        });
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(RecutPart::Literal(rest.to_owned()));
    }
    parts
}

/// A document with these members.
fn document(members: &[(&str, &str)]) -> Value {
    let mut document = Value::Null;
    for (pointer, text) in members {
        let mut at = &mut document;
        for segment in pointer.split('/').skip(1) {
            at = match segment.parse::<usize>() {
                Ok(index) => {
                    if at.is_null() {
                        *at = json!([null]);
                    }
                    &mut at[index]
                }
                Err(_) => &mut at[segment],
            };
        }
        *at = json!(text);
    }
    document
}

/// What senders could write into the parts of a template: every combination.
fn sent(scheme: &TestScheme) -> Vec<Vec<String>> {
    let (time, near) = match scheme.json["timestamp"]["unit"].as_str() {
        Some("ms") => ("1760000000000", "1760000000001"),
        Some("rfc3339") => ("2025-10-09T08:53:20Z", "2025-10-09T08:53:21Z"),
        Some("http_date") => ("Thu, 09 Oct 2025 08:53:20 GMT", "Thu, 09 Oct 2025 08:53:21 GMT"),
        _ => ("1760000000", "1760000001"),
    };
    let bodies = [
        r#"{"id":"evt_1","event_id":"evt_1"}"#.to_owned(),
        format!(r#"{{"id":"evt_1","event_id":"evt_1","note":"x.{near}.{{}}","at":"{near}","n":[{{"id":"evt_2"}}]}}"#),
        format!("hello.{near}.{{\"id\":\"evt_2\",\"event_id\":\"evt_2\"}}"),
        format!("{near}{{\"id\":\"evt_2\"}}"),
        format!("a{near}"),
        "text".to_owned(),
        String::new(),
    ];
    let of = |part: &RecutPart| -> Vec<String> {
        match part {
            RecutPart::Literal(text) => vec![text.clone()],
            RecutPart::Header(_) => {
                vec!["msg_1".to_owned(), "msg_1-2".to_owned(), format!("msg_9.{near}.hello"), format!("a{near}b")]
            }
            RecutPart::Time => vec![time.to_owned()],
            RecutPart::Method => vec!["POST".to_owned(), "GET".to_owned()],
            RecutPart::Url => {
                vec![URL.to_owned(), format!("{URL}&b={{\"id\":"), format!("{URL}&b={{}}"), format!("{URL}{near}")]
            }
            RecutPart::Body => bodies.to_vec(),
            RecutPart::Form => vec!["MessageSidSM1MessageStatussentTo1".to_owned(), "a1b2".to_owned(), String::new()],
            RecutPart::Member(pointer) if pointer.ends_with("timestamp") => vec![time.to_owned()],
            RecutPart::Member(pointer) if pointer.ends_with("merchantReference") => {
                vec!["a:b".to_owned(), "7".to_owned()]
            }
            RecutPart::Member(_) => vec!["7".to_owned()],
        }
    };
    let mut all = vec![Vec::new()];
    for texts in scheme.parts.iter().map(of) {
        let with = |before: &Vec<String>| {
            texts.iter().map(|text| [before.as_slice(), std::slice::from_ref(text)].concat()).collect::<Vec<_>>()
        };
        all = all.iter().flat_map(with).collect();
    }
    all
}

/// Of all cuts of a signed text only the one that was sent is accepted. Where the parts cannot be told apart, all cuts that are accepted
/// have one key.
pub(crate) fn only_what_was_sent_is_accepted() -> Result<(), String> {
    for (name, file) in sources() {
        for scheme in TestScheme::all(&name, &file) {
            let mut accepted = 0;
            for sent in sent(&scheme) {
                let text = sent.concat();
                let signature = hex(&hmac_sha256(SECRET, text.as_bytes()));
                let outcome = scheme.accepts(&signature, &sent);
                accepted += usize::from(outcome.is_some());
                let mut outcomes = BTreeSet::new();
                for other in some(scheme.cuts(&text)) {
                    let Some(found) = scheme.accepts(&signature, &other) else { continue };
                    let cut = if WHOLE_TEXTS.contains(&name.as_str()) {
                        Vec::new()
                    } else if other != sent && scheme.is_documented(&sent) {
                        return Err(format!("{name}: {sent:?} was sent, and {other:?} is accepted"));
                    } else {
                        other
                    };
                    outcomes.insert((found, cut));
                }
                if outcomes.len() > 1 {
                    return Err(format!("{name}: {sent:?} is accepted as {outcomes:?}"));
                }
            }
            if accepted == 0 {
                return Err(format!("{name}: nothing that was sent is accepted"));
            }
        }
    }
    Ok(())
}
