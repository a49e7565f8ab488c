//! Signs as webhook providers and signed callers sign. The engine verifies; what signs for its tests shares no code
//! with it: HMAC is written out here (RFC 2104), over the digests of `sha1` and `sha2`.
//!
//! A function takes the secret and what is signed, and gives the value of the header that carries the signature.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use sha1::Sha1;
use sha2::{Digest, Sha256};

/// The length of the blocks of SHA-1 and SHA-256.
const BLOCK: usize = 64;

/// Seconds since 1970-01-01 UTC; 0 on a clock that stands before.
pub fn unix_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// `Stripe-Signature`: `t={time},v1={hex}`, with a `v1` for each secret. Stripe sends several while one is replaced.
pub fn stripe(secrets: &[&str], time: u64, body: &[u8]) -> String {
    let signed = [time.to_string().as_bytes(), b".", body].concat();
    let signature = |secret: &&str| format!(",v1={}", hex(&hmac_sha256(secret.as_bytes(), &signed)));
    format!("t={time}{}", secrets.iter().map(signature).collect::<String>())
}

/// `X-Hub-Signature-256` of GitHub: `sha256={hex}`. The body alone is signed.
pub fn github(secret: &str, body: &[u8]) -> String {
    format!("sha256={}", hex(&hmac_sha256(secret.as_bytes(), body)))
}

/// `X-Twilio-Signature` of a form: Base64 over [`twilio_text`].
pub fn twilio(secret: &str, url: &str, fields: &[(&str, &str)]) -> String {
    base64(&hmac_sha1(secret.as_bytes(), twilio_text(url, fields).as_bytes()))
}

/// What Twilio signs of a form: the public URL, then the names and values, sorted, with nothing between them.
pub fn twilio_text(url: &str, fields: &[(&str, &str)]) -> String {
    let mut sorted = fields.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    sorted.iter().fold(url.to_owned(), |text, (name, value)| text + name + value)
}

/// `webhook-signature` of Standard Webhooks: `v1,{base64}`. The secret is Base64 behind `whsec_`; one that is not is
/// taken for an empty one.
pub fn standard_webhooks(secret: &str, id: &str, time: u64, body: &[u8]) -> String {
    let key = secret.strip_prefix("whsec_").and_then(|key| STANDARD.decode(key).ok()).unwrap_or_default();
    let signed = [format!("{id}.{time}.").as_bytes(), body].concat();
    format!("v1,{}", base64(&hmac_sha256(&key, &signed)))
}

/// A request as a signed caller signs it (docs/identity.md).
#[derive(Clone, Copy, Debug)]
pub struct SignedCall<'a> {
    /// The method.
    pub method: &'a [u8],
    /// The request target, with its query.
    pub path: &'a [u8],
    /// When it is signed, in seconds since 1970-01-01 UTC.
    pub time: u64,
    /// The idempotency key.
    pub key: &'a [u8],
    /// The tenant.
    pub tenant: &'a [u8],
    /// The project.
    pub project: &'a [u8],
    /// The body.
    pub body: &'a [u8],
}

impl SignedCall<'_> {
    /// The `template` of a policy whose callers sign so.
    pub const TEMPLATE: &'static str =
        "{method}\n{path}\n{timestamp}\n{id}\n{header:x-tenant-id}\n{header:x-project-id}\n{body}";

    /// The signed text: the parts in the page's order, one line each.
    pub fn text(&self) -> Vec<u8> {
        let time = self.time.to_string();
        [self.method, self.path, time.as_bytes(), self.key, self.tenant, self.project, self.body].join(&b'\n')
    }

    /// The signature in hexadecimal.
    pub fn signature(&self, secret: &str) -> String {
        hex(&hmac_sha256(secret.as_bytes(), &self.text()))
    }

    /// `X-Schedule-Signature`: `t={time},v1={signature}`.
    pub fn header(&self, secret: &str) -> String {
        format!("t={},v1={}", self.time, self.signature(secret))
    }
}

/// The raw key that is made of a digest of these texts, one after the other (docs/decisions/0006).
pub fn digest_key(provider: &str, texts: &[&[u8]]) -> String {
    format!("{provider}-~{}", URL_SAFE_NO_PAD.encode(sha256(&texts.concat())))
}

/// HMAC with SHA-256 (RFC 2104).
pub fn hmac_sha256(key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::<Sha256>(key, text)
}

/// HMAC with SHA-1 (RFC 2104).
pub fn hmac_sha1(key: &[u8], text: &[u8]) -> Vec<u8> {
    hmac::<Sha1>(key, text)
}

fn hmac<D: Digest>(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut block = if key.len() > BLOCK { D::digest(key).to_vec() } else { key.to_vec() };
    block.resize(BLOCK, 0);
    let pad = |with: u8| block.iter().map(|byte| byte ^ with).collect::<Vec<u8>>();
    let inner = D::new().chain_update(pad(0x36)).chain_update(text).finalize();
    D::new().chain_update(pad(0x5c)).chain_update(inner).finalize().to_vec()
}

/// SHA-256.
pub fn sha256(text: &[u8]) -> Vec<u8> {
    Sha256::digest(text).to_vec()
}

/// Hexadecimal digits in lower case.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Base64 with the standard alphabet and padding.
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}
