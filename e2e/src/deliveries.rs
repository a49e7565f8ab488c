//! Webhooks, signed as their providers sign them.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD as BASE64, URL_SAFE_NO_PAD};
use hmac::digest::KeyInit;
use hmac::{Hmac, Mac};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use crate::raw::Request;

/// Seconds since 1970-01-01 UTC.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Stripe: `t={time},v1={hex}`, a `v1` for each secret.
pub fn stripe(path: &str, secrets: &[&str], time: u64, body: impl Into<Vec<u8>>) -> Request {
    let body = body.into();
    let signed = [time.to_string().as_bytes(), b".", &body].concat();
    let signature = |secret: &&str| format!(",v1={}", hex(&hmac::<Hmac<Sha256>>(secret.as_bytes(), &signed)));
    let signatures: String = secrets.iter().map(signature).collect();
    json(path, body).header("Stripe-Signature", format!("t={time}{signatures}"))
}

/// GitHub: the body alone is signed.
pub fn github(path: &str, secret: &str, id: &str, body: impl Into<Vec<u8>>) -> Request {
    let body = body.into();
    let signature = format!("sha256={}", hex(&hmac::<Hmac<Sha256>>(secret.as_bytes(), &body)));
    json(path, body).header("X-Hub-Signature-256", signature).header("X-GitHub-Delivery", id)
}

/// Twilio: the public URL, then the form's fields by name.
pub fn twilio(url: &str, path: &str, secret: &str, fields: &[(&str, &str)]) -> Request {
    let mut sorted = fields.to_vec();
    sorted.sort_unstable();
    let signed = sorted.iter().fold(format!("{url}{path}"), |text, (name, value)| text + name + value);
    let signature = BASE64.encode(hmac::<Hmac<Sha1>>(secret.as_bytes(), signed.as_bytes()));
    let form: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    Request::new("POST", path)
        .header("content-type", "application/x-www-form-urlencoded")
        .header("X-Twilio-Signature", signature)
        .body(form.join("&"))
}

/// Standard Webhooks: `secret` is Base64 behind `whsec_`.
pub fn standard(path: &str, secret: &str, id: &str, time: u64, body: impl Into<Vec<u8>>) -> Request {
    let body = body.into();
    let key = secret.strip_prefix("whsec_").and_then(|key| BASE64.decode(key).ok()).unwrap_or_default();
    let signed = [format!("{id}.{time}.").as_bytes(), &body].concat();
    let signature = format!("v1,{}", BASE64.encode(hmac::<Hmac<Sha256>>(&key, &signed)));
    json(path, body)
        .header("webhook-id", id)
        .header("webhook-timestamp", time.to_string())
        .header("webhook-signature", signature)
}

/// The raw key that is made of a digest of these texts.
pub fn digest_key(provider: &str, texts: &[&[u8]]) -> String {
    format!("{provider}-~{}", URL_SAFE_NO_PAD.encode(Sha256::digest(texts.concat())))
}

/// The digest of a body, or of a signed text.
pub fn sha256(text: &[u8]) -> Vec<u8> {
    Sha256::digest(text).to_vec()
}

fn json(path: &str, body: Vec<u8>) -> Request {
    Request::new("POST", path).header("content-type", "application/json").body(body)
}

pub(crate) fn hmac<M: Mac + KeyInit>(key: &[u8], text: &[u8]) -> Vec<u8> {
    // HMAC takes keys of any length.
    let mac = <M as Mac>::new_from_slice(key).map(|mac| mac.chain_update(text).finalize().into_bytes().to_vec());
    mac.unwrap_or_default()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn escaped(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b' ' => "+".to_owned(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value<'r>(request: &'r Request, name: &str) -> &'r str {
        let line = request.headers.iter().find(|(candidate, _)| candidate == name).unwrap();
        std::str::from_utf8(&line.1).unwrap()
    }

    /// The example of GitHub's documentation, and that of the Standard Webhooks specification.
    #[test]
    fn published_examples() {
        let request = github("/", "It's a Secret to Everybody", "1", "Hello, World!");
        let expected = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        assert_eq!(value(&request, "X-Hub-Signature-256"), expected);
        let request = standard(
            "/",
            "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
            "msg_p5jXN8AQM9LWM0D4loKWxJek",
            1_614_265_330,
            "{\"test\": 2432232314}",
        );
        assert_eq!(value(&request, "webhook-signature"), "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
    }
}
