//! Webhooks, signed as their providers sign them.

use testkit::signatures;
pub use testkit::signatures::{digest_key, sha256, unix_now as now};

use crate::raw::Request;

/// Stripe's delivery, with a signature for each secret.
pub fn stripe(path: &str, secrets: &[&str], time: u64, body: impl Into<Vec<u8>>) -> Request {
    let body = body.into();
    let signature = signatures::stripe(secrets, time, &body);
    json(path, body).header("Stripe-Signature", signature)
}

/// GitHub's delivery: the body alone is signed.
pub fn github(path: &str, secret: &str, id: &str, body: impl Into<Vec<u8>>) -> Request {
    let body = body.into();
    let signature = signatures::github(secret, &body);
    json(path, body).header("X-Hub-Signature-256", signature).header("X-GitHub-Delivery", id)
}

/// Twilio's callback: the public URL and the form's fields are signed.
pub fn twilio(url: &str, path: &str, secret: &str, fields: &[(&str, &str)]) -> Request {
    let form: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
    Request::new("POST", path)
        .header("content-type", "application/x-www-form-urlencoded")
        .header("X-Twilio-Signature", signatures::twilio(secret, &format!("{url}{path}"), fields))
        .body(form.join("&"))
}

/// A delivery of Standard Webhooks: `secret` is Base64 behind `whsec_`.
pub fn standard(path: &str, secret: &str, id: &str, time: u64, body: impl Into<Vec<u8>>) -> Request {
    let body = body.into();
    let signature = signatures::standard_webhooks(secret, id, time, &body);
    json(path, body)
        .header("webhook-id", id)
        .header("webhook-timestamp", time.to_string())
        .header("webhook-signature", signature)
}

fn json(path: &str, body: Vec<u8>) -> Request {
    Request::new("POST", path).header("content-type", "application/json").body(body)
}

fn escaped(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b' ' => "+".to_owned(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    text.bytes().map(byte).collect()
}
