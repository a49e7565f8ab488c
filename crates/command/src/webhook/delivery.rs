//! A signed delivery, as the provider would send it. The engine verifies each one before it is shown or sent, so a delivery
//! that this module signs wrongly is an error here and no riddle at the gateway.

use super::provider::{IdentifierFile, KnownProvider, SchemeFile};
use super::sample::{DeliveryBody, JSON, set};
use super::signing::{SigningKey, fits};
use edge_idempotency_engine::Body;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::provider::Delivery;
use serde_json::{Value, json};

/// What is to be signed.
pub(crate) struct DeliveryOrder<'a> {
    pub(crate) provider: &'a KnownProvider,
    /// Which scheme of the provider's file, from 1; `None` for the first one that the secret is for
    pub(crate) scheme: Option<usize>,
    /// The public URL
    pub(crate) url: &'a str,
    /// The secret; `None` for a new key pair, where the provider signs with one
    pub(crate) secret: Option<&'a [u8]>,
    /// The delivery's identifier
    pub(crate) id: &'a str,
    /// The body; `None` for one that is made
    pub(crate) body: Option<Vec<u8>>,
    /// Seconds since 1970-01-01 UTC
    pub(crate) now_unix: u64,
}

/// A signed delivery.
#[derive(Debug)]
pub(crate) struct SignedDelivery {
    pub(crate) method: &'static str,
    pub(crate) url: String,
    /// Names as the provider's file has them
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Where the secret itself is, if the provider sends it as a token
    pub(crate) secret: Option<SecretPart>,
    /// The public key that the gateway needs for this delivery, if it is signed with a private key
    pub(crate) public_key: Option<String>,
    /// The identifier that the filter makes the key of
    pub(crate) identifier: Option<String>,
}

/// The part of a delivery that holds the secret itself.
#[derive(Debug)]
pub(crate) enum SecretPart {
    /// A header, and what stands before the secret in its value
    Header { name: String, prefix: String },
    /// A member of the body
    Body,
}

const POST: &str = "POST";

impl DeliveryOrder<'_> {
    /// Signs a delivery and verifies it as the gateway will.
    ///
    /// # Errors
    /// A sentence that says what to change. It never holds the secret.
    pub(crate) fn sign(&self) -> Result<SignedDelivery, String> {
        let (scheme, key) = self.scheme_and_key()?;
        let name = &self.provider.name;
        let mut url = self.url.to_owned();
        let identifiers: Vec<&IdentifierFile> = match &scheme.identifier {
            Some(own) => std::iter::once(own).chain(self.provider.file.identifiers.iter().skip(1)).collect(),
            None => self.provider.file.identifiers.iter().collect(),
        };
        let mut body = match &self.body {
            Some(bytes) => DeliveryBody::given(bytes.clone()),
            None => DeliveryBody::made(scheme, &identifiers, self.id),
        };
        let mut headers = vec![("Content-Type".to_owned(), body.content_type.to_owned())];
        headers.extend(scheme.require_headers.iter().map(|(name, value)| (name.clone(), value.clone())));
        let id_header = identifiers.first().and_then(|identifier| identifier.header.clone());
        if let Some(header) = &id_header {
            headers.push((header.clone(), self.id.to_owned()));
        }
        let time = match &scheme.timestamp {
            Some(timestamp) => time_text(&timestamp.unit, self.now_unix)?,
            None => String::new(),
        };
        if let Some(timestamp) = &scheme.timestamp {
            if let Some(header) = &timestamp.header {
                headers.push((header.clone(), time.clone()));
            }
            if let Some(pointer) = &timestamp.json {
                edit(&mut body, pointer, &time)?;
            }
        }
        if let Some(parameter) = scheme.body_hash.as_ref().filter(|_| body.content_type == JSON) {
            let hash = base16ct::lower::encode_string(&sha2_256(&body.bytes));
            url = format!("{url}{}{parameter}={hash}", if url.contains('?') { '&' } else { '?' });
        }
        let parts = Parts { url: &url, body: &body, time: &time, id: self.id };
        let text = parts.signed_text(&scheme.template, &mut headers)?;
        let signature = String::from_utf8(key.sign(scheme, &text)?)
            .map_err(|_| "the token has bytes that no header can have".to_owned())?;
        let place = &scheme.signature;
        let line = match (&place.pairs, &place.versions) {
            (Some(pairs), _) => {
                let clock = scheme.timestamp.as_ref().and_then(|timestamp| timestamp.pair.as_ref());
                let clock = clock.map(|pair| format!("{pair}={time}{}", pairs.separator)).unwrap_or_default();
                format!("{clock}{}={signature}", pairs.key)
            }
            (None, Some(versions)) => format!("{},{signature}", versions.version),
            (None, None) => format!("{}{signature}", place.prefix),
        };
        let header = place.header.clone().or_else(|| place.headers.first().cloned());
        let header = header.or_else(|| place.numbered_headers.as_ref().map(|prefix| format!("{prefix}1")));
        match (header.clone(), &place.json) {
            (Some(header), _) => headers.push((header, line)),
            (None, Some(pointer)) => edit(&mut body, pointer, &signature)?,
            (None, None) => return Err(format!("the file of {name} does not say where signatures are")),
        }
        let public_key = key.public(&scheme.secret);
        let part = match header {
            Some(name) => SecretPart::Header { name, prefix: place.prefix.clone() },
            None => SecretPart::Body,
        };
        let secret = (scheme.algorithm == "token").then_some(part);
        let mut delivery =
            SignedDelivery { method: POST, url, headers, body: body.bytes, secret, public_key, identifier: None };
        let secret = delivery.public_key.clone().map(String::into_bytes).or_else(|| self.secret.map(<[u8]>::to_vec));
        delivery.identifier = delivery.verified(self.provider, &secret.unwrap_or_default(), self.now_unix)?;
        Ok(delivery)
    }

    /// The scheme that signs, and its key.
    fn scheme_and_key(&self) -> Result<(&SchemeFile, SigningKey), String> {
        let schemes = &self.provider.file.schemes;
        let name = &self.provider.name;
        let wanted = match self.scheme {
            Some(number) => {
                let scheme = number.checked_sub(1).and_then(|index| schemes.get(index));
                let scheme =
                    scheme.ok_or_else(|| format!("--scheme {number}: {name} has {} schemes", schemes.len()))?;
                vec![scheme]
            }
            None => schemes.iter().collect(),
        };
        let Some(secret) = self.secret else {
            for scheme in wanted {
                if let Some(key) = SigningKey::generate(scheme)? {
                    return Ok((scheme, key));
                }
            }
            return Err(format!(
                "{name} signs with a secret that you share with it: give it with --secret env:NAME or @FILE"
            ));
        };
        let is_private_key = secret.starts_with(b"-----BEGIN");
        let prefixes = || schemes.iter().filter_map(|scheme| scheme.secret.prefix.as_deref());
        let scheme = wanted.into_iter().find(|scheme| {
            let is_asymmetric = matches!(scheme.algorithm.as_str(), "ed25519" | "ecdsa-p256");
            if is_asymmetric || is_private_key {
                is_asymmetric && is_private_key
            } else {
                fits(&scheme.secret, secret, prefixes())
            }
        });
        match scheme {
            Some(scheme) => Ok((scheme, SigningKey::read(scheme, secret)?)),
            None if schemes.iter().any(|scheme| matches!(scheme.algorithm.as_str(), "ed25519" | "ecdsa-p256")) => {
                Err(format!(
                    "{name} signs with a private key, and the gateway has only its public half: give a private key \
                     as PEM, or no --secret for a new pair"
                ))
            }
            None => Err(format!("the secret does not have the form of a secret of {name} (its prefix)")),
        }
    }
}

/// What templates take from a delivery.
struct Parts<'a> {
    url: &'a str,
    body: &'a DeliveryBody,
    time: &'a str,
    id: &'a str,
}

impl Parts<'_> {
    /// The text that the signature covers. Headers that the template names and the delivery lacks are added.
    fn signed_text(&self, template: &str, headers: &mut Vec<(String, String)>) -> Result<Vec<u8>, String> {
        let mut text = Vec::new();
        let mut rest = template;
        while let Some((literal, after)) = rest.split_once('{') {
            text.extend(literal.as_bytes());
            let (name, after) = after.split_once('}').ok_or("a `{` of the template has no `}`")?;
            rest = after;
            match name {
                "body" => text.extend(&self.body.bytes),
                "timestamp" => text.extend(self.time.as_bytes()),
                "id" => text.extend(self.id.as_bytes()),
                "method" => text.extend(POST.as_bytes()),
                "url" => text.extend(self.url.as_bytes()),
                "hubspot_url" => text.extend(hubspot(self.url).as_bytes()),
                "path" => {
                    let behind = self.url.split_once("://").map_or(self.url, |(_, behind)| behind);
                    text.extend(behind.find(['/', '?']).and_then(|at| behind.get(at..)).unwrap_or_default().as_bytes());
                }
                "sorted_form" if self.body.content_type == super::sample::FORM => {
                    text.extend(sorted_form(&self.body.bytes))
                }
                "sorted_form" => {}
                _ => match name.split_once(':') {
                    Some(("header", header)) => {
                        let sent = headers.iter().find(|(name, _)| name.eq_ignore_ascii_case(header));
                        let value = sent.map_or_else(|| "test".to_owned(), |(_, value)| value.clone());
                        if sent.is_none() {
                            headers.push((header.to_owned(), value.clone()));
                        }
                        text.extend(value.as_bytes());
                    }
                    Some((kind @ ("json" | "json?"), pointer)) => text.extend(self.member(pointer, kind == "json?")?),
                    _ => return Err(format!("the template has the unknown part {{{name}}}")),
                },
            }
        }
        text.extend(rest.as_bytes());
        Ok(text)
    }

    /// The text of a member of the body.
    fn member(&self, pointer: &str, is_optional: bool) -> Result<Vec<u8>, String> {
        let body: Value = serde_json::from_slice(&self.body.bytes).unwrap_or_default();
        match body.pointer(pointer) {
            Some(Value::String(text)) => Ok(text.clone().into_bytes()),
            Some(value @ (Value::Number(_) | Value::Bool(_))) => Ok(value.to_string().into_bytes()),
            None | Some(Value::Null) if is_optional => Ok(Vec::new()),
            _ => Err(format!("the body needs a text at {pointer}, which is signed")),
        }
    }
}

impl SignedDelivery {
    /// Verifies the delivery as the gateway will; its identifier.
    fn verified(&self, provider: &KnownProvider, secret: &[u8], now_unix: u64) -> Result<Option<String>, String> {
        let lines: Vec<(String, &str)> =
            self.headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), value.as_str())).collect();
        let headers = Headers::new(lines.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes())).collect());
        let delivery = Delivery {
            method: self.method.as_bytes(),
            url: self.url.as_bytes(),
            headers: &headers,
            body: &Body::of(&self.body),
        };
        let verified = provider.engine.verify(&delivery, &[secret], now_unix * 1000).map_err(|why| {
            format!(
                "the filter would refuse this delivery of {}: {}. Check the form of the secret, and a body of your own.",
                provider.name,
                why.reason().name()
            )
        })?;
        match provider.engine.identifier(&delivery, &verified) {
            Ok(Some(identifier)) => Ok(Some(provider.engine.raw_key(&identifier, None, None))),
            Ok(None) => Ok(None),
            Err(why) => Err(format!(
                "the filter would find no identifier in this delivery: {}. Give a body that has one.",
                why.reason().name()
            )),
        }
    }

    /// The request document of `explain` (docs/contract.md section 11).
    ///
    /// # Errors
    /// None; a body that is not text is written in Base64.
    pub(crate) fn to_document(&self) -> Value {
        use base64::Engine as _;
        let headers: Vec<Value> = self.headers.iter().map(|(name, value)| json!([name, value])).collect();
        let mut document = json!({"method": self.method, "url": self.url, "headers": headers});
        if let Some(members) = document.as_object_mut() {
            match std::str::from_utf8(&self.body) {
                Ok(text) => members.insert("body".to_owned(), json!(text)),
                Err(_) => {
                    let text = base64::engine::general_purpose::STANDARD.encode(&self.body);
                    members.insert("body_base64".to_owned(), json!(text))
                }
            };
        }
        document
    }
}

/// Sets a member of a JSON body.
fn edit(body: &mut DeliveryBody, pointer: &str, text: &str) -> Result<(), String> {
    let mut json: Value = serde_json::from_slice(&body.bytes)
        .map_err(|_| format!("the body has to be JSON: the signature has a part of it at {pointer}"))?;
    set(&mut json, pointer, text.into());
    body.bytes = json.to_string().into_bytes();
    Ok(())
}

fn sha2_256(bytes: &[u8]) -> [u8; 32] {
    use sha2::Digest as _;
    sha2::Sha256::digest(bytes).into()
}

/// A time in the unit of a provider file.
fn time_text(unit: &str, now_unix: u64) -> Result<String, String> {
    let time = || {
        let seconds = i64::try_from(now_unix).map_err(|_| "the time is out of range".to_owned())?;
        jiff::Timestamp::from_second(seconds).map_err(|error| error.to_string())
    };
    Ok(match unit {
        "ms" => (now_unix * 1000).to_string(),
        "rfc3339" => time()?.to_string(),
        "http_date" => time()?.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string(),
        _ => now_unix.to_string(),
    })
}

/// The URL with the twelve characters decoded that HubSpot decodes before it signs.
fn hubspot(url: &str) -> String {
    const DECODED: [(&str, char); 12] = [
        ("3A", ':'),
        ("2F", '/'),
        ("3F", '?'),
        ("40", '@'),
        ("21", '!'),
        ("24", '$'),
        ("27", '\''),
        ("28", '('),
        ("29", ')'),
        ("2A", '*'),
        ("2C", ','),
        ("3B", ';'),
    ];
    let mut out = String::with_capacity(url.len());
    let mut parts = url.split('%');
    out.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let digits = part.get(..2).unwrap_or_default().to_ascii_uppercase();
        match (DECODED.iter().find(|(code, _)| *code == digits), part.get(2..)) {
            (Some((_, letter)), Some(rest)) => {
                out.push(*letter);
                out.push_str(rest);
            }
            _ => {
                out.push('%');
                out.push_str(part);
            }
        }
    }
    out
}

/// Names and values of a form, decoded and sorted, each pair once, with nothing between them.
fn sorted_form(body: &[u8]) -> Vec<u8> {
    let mut fields: Vec<(Vec<u8>, Vec<u8>)> = body
        .split(|byte| *byte == b'&')
        .filter(|field| !field.is_empty())
        .map(|field| {
            let at = field.iter().position(|byte| *byte == b'=').unwrap_or(field.len());
            let (name, value) = field.split_at_checked(at).unwrap_or((field, &[]));
            (form_decoded(name), form_decoded(value.get(1..).unwrap_or_default()))
        })
        .collect();
    fields.sort_unstable();
    fields.dedup();
    fields.into_iter().flat_map(|(name, value)| [name, value].concat()).collect()
}

fn form_decoded(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((byte, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| base16ct::mixed::decode_vec(digits).ok());
        rest = match (byte, digits) {
            (b'%', Some(decoded)) => {
                out.extend(decoded);
                after.get(2..).unwrap_or_default()
            }
            (b'+', _) => {
                out.push(b' ');
                after
            }
            (byte, _) => {
                out.push(*byte);
                after
            }
        };
    }
    out
}

#[cfg(test)]
#[path = "delivery_tests.rs"]
mod tests;
