//! Third parties that send webhooks: each signs as the real one does. Their secrets are made at start; the filter gets them
//! through Envoy's environment.

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac as _};
use p256::ecdsa::signature::rand_core::{OsRng, RngCore as _};
use serde_json::Value;
use sha1::Sha1;
use sha2::{Digest as _, Sha256};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::http::Request;

/// The public URL that senders know, `webhooks.public_base_url` in the policy. Twilio signs it, whatever address the
/// gateway itself has.
pub const PUBLIC_URL: &str = "https://api.example.com";

/// Where each sender's deliveries go.
pub const STRIPE_PATH: &str = "/webhooks/stripe/wh_01JSTRIPE";
/// Likewise.
pub const GITHUB_PATH: &str = "/webhooks/github/wh_01JGITHUB";
/// Likewise.
pub const TWILIO_PATH: &str = "/webhooks/twilio/wh_01JTWILIO";

/// A webhook whose owner and secret are looked up.
#[derive(Clone, Copy, Debug)]
pub struct LookedUp {
    /// Its id, the last segment of its path.
    pub webhook_id: &'static str,
    /// Whose it is, as the registry has it.
    pub tenant: &'static str,
    /// Likewise.
    pub project: &'static str,
    /// Likewise.
    pub provider: &'static str,
}

/// The webhooks that are in the registry, of an owner each.
pub const LOOKED_UP: [LookedUp; 2] = [
    LookedUp { webhook_id: "wh_01JGLOBEX", tenant: "globex", project: "shop", provider: "stripe" },
    LookedUp { webhook_id: "wh_01JINITECH", tenant: "initech", project: "shop", provider: "stripe" },
];

impl LookedUp {
    /// Where its deliveries go.
    pub fn path(&self) -> String {
        format!("/webhooks/{}/{}", self.provider, self.webhook_id)
    }

    /// Where its secret is in the secret store's mount.
    pub fn secret_path(&self) -> String {
        format!("{}:{}:{}", self.tenant, self.project, self.provider)
    }
}

/// The senders' secrets.
#[derive(Clone)]
pub struct Senders {
    /// Stripe's signing secret
    pub stripe: String,
    /// The one before it: until it expires Stripe may sign with either.
    pub stripe_previous: String,
    /// The secret in GitHub's webhook settings
    pub github: String,
    /// Twilio's auth token
    pub twilio: String,
    /// What the platform's own scheduler signs with
    pub scheduler: String,
    /// Stripe's signing secret of the webhooks that are looked up
    pub looked_up: String,
}

impl Senders {
    /// Senders with new secrets.
    pub fn generate() -> Self {
        Self {
            stripe: format!("whsec_{}", random()),
            stripe_previous: format!("whsec_{}", random()),
            github: random(),
            twilio: random(),
            scheduler: random(),
            looked_up: format!("whsec_{}", random()),
        }
    }

    /// The variables that the policy names.
    pub fn environment(&self) -> Vec<(String, String)> {
        let variables = [
            ("STRIPE_WHSEC", &self.stripe),
            ("STRIPE_WHSEC_PREVIOUS", &self.stripe_previous),
            ("GITHUB_WEBHOOK_SECRET", &self.github),
            ("TWILIO_AUTH_TOKEN", &self.twilio),
            ("SCHEDULER_SECRET", &self.scheduler),
        ];
        variables.map(|(name, value)| (name.to_owned(), value.clone())).into()
    }

    /// GitHub's delivery of an event.
    pub fn github(&self, guid: &str, event: &str, payload: &Value) -> Result<Request> {
        let signature = hex(&hmac_sha256(&self.github, payload.to_string().as_bytes())?);
        let request = Request::post(GITHUB_PATH)
            .header("X-GitHub-Event", event)
            .header("X-GitHub-Delivery", guid)
            .header("X-Hub-Signature-256", format!("sha256={signature}"));
        Ok(request.json(payload))
    }

    /// Twilio's callback with these form fields, whose names and values need no escapes.
    pub fn twilio(&self, fields: &[(&str, &str)]) -> Result<Request> {
        let mut mac = Hmac::<Sha1>::new_from_slice(self.twilio.as_bytes()).context("Twilio's auth token")?;
        mac.update(twilio_text(fields).as_bytes());
        let body: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Ok(Request::post(TWILIO_PATH)
            .header("X-Twilio-Signature", STANDARD.encode(mac.finalize().into_bytes()))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body.join("&")))
    }
}

/// What Twilio signs of a callback: the public URL, and the form's names and values, sorted, with nothing between them.
fn twilio_text(fields: &[(&str, &str)]) -> String {
    let mut sorted = fields.to_vec();
    sorted.sort_unstable();
    let signed: String = sorted.iter().map(|(name, value)| format!("{name}{value}")).collect();
    format!("{PUBLIC_URL}{TWILIO_PATH}{signed}")
}

/// The raw key of a callback from Twilio: a digest of all that is signed.
pub fn twilio_key(fields: &[(&str, &str)]) -> String {
    digest_key("twilio", &[b"\0s", &Sha256::digest(twilio_text(fields))])
}

/// The raw key of a delivery from GitHub: its id, which is not signed, and its body, which is, digested together.
pub fn github_key(guid: &str, payload: &Value) -> String {
    digest_key("github", &[b"\0b", &Sha256::digest(payload.to_string()), guid.as_bytes()])
}

fn digest_key(provider: &str, texts: &[&[u8]]) -> String {
    format!("{provider}-~{}", URL_SAFE_NO_PAD.encode(Sha256::digest(texts.concat())))
}

/// Stripe's delivery of an event, signed `age` seconds ago with each of `secrets`: with several while one is being rolled.
pub fn stripe(age: u64, secrets: &[&str], event: &Value) -> Result<Request> {
    stripe_at(ago(age)?, secrets, event)
}

/// The time `age` seconds ago, in seconds since 1970-01-01 UTC.
pub(crate) fn ago(age: u64) -> Result<u64> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock stands before 1970")?.as_secs();
    Ok(now.saturating_sub(age))
}

fn stripe_at(time: u64, secrets: &[&str], event: &Value) -> Result<Request> {
    let mut header = format!("t={time}");
    for secret in secrets {
        let signature = hmac_sha256(secret, format!("{time}.{event}").as_bytes())?;
        header.push_str(&format!(",v1={}", hex(&signature)));
    }
    Ok(Request::post(STRIPE_PATH).header("Stripe-Signature", header).json(event))
}

/// 24 random bytes as text.
pub fn random() -> String {
    let mut bytes = [0; 24];
    OsRng.fill_bytes(&mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}

pub(crate) fn hmac_sha256(secret: &str, message: &[u8]) -> Result<Vec<u8>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).context("a secret")?;
    mac.update(message);
    Ok(mac.finalize().into_bytes().to_vec())
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Published, or computed with openssl.
    #[test]
    fn signatures_are_the_providers_own() {
        let senders = Senders {
            stripe: "whsec_a".to_owned(),
            stripe_previous: "whsec_b".to_owned(),
            github: "It's a Secret to Everybody".to_owned(),
            twilio: "12345".to_owned(),
            scheduler: String::new(),
            looked_up: "whsec_c".to_owned(),
        };
        // GitHub's documentation signs the text `Hello, World!`.
        let hello = hex(&hmac_sha256(&senders.github, b"Hello, World!").unwrap());
        assert_eq!(hello, "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17");

        let stripe = stripe_at(1_700_000_000, &["whsec_a", "whsec_b"], &json!({"id": "evt_1"})).unwrap();
        let expected = "t=1700000000,v1=97ea69f91fd566038386bacf87292eb0d73a8207414ee62ed313d49996fe0639,v1=c0c4c9e4637bb269965a5df170a9c6c3c973e3fafe3d4bed97086daad7fdc63c";
        assert_eq!(stripe.headers[0].1, expected.as_bytes());

        let twilio =
            senders.twilio(&[("MessageSid", "SM1"), ("MessageStatus", "sent"), ("AccountSid", "AC1")]).unwrap();
        assert_eq!(twilio.headers[0].1, b"ogdCXJCiodeZqSiRsXkJ3BL5r30=");
        assert_eq!(twilio.body, b"MessageSid=SM1&MessageStatus=sent&AccountSid=AC1");
        // Computed in Python with hashlib.
        assert_eq!(
            twilio_key(&[("MessageSid", "SM1"), ("MessageStatus", "sent"), ("AccountSid", "AC1")]),
            "twilio-~Qzej2f4Dep8Cu5MPL9ws_OaxpNsYE4k4MUY1EI3DjiA"
        );
        assert_eq!(github_key("guid", &json!({})), "github-~5rj4fwJxvhgtWyUiiVOB5pr7g7UnOKj3PiMwrijvC7Y");
    }

    #[test]
    fn the_policy_names_every_variable_and_the_gateway_lets_it_through() {
        let (policy, gateway) = (include_str!("../policy.json"), include_str!("../envoy.yaml"));
        let variables = Senders::generate().environment();
        assert_eq!(policy.matches(r#"{"env": "#).count(), variables.len());
        for (name, _) in variables {
            assert!(policy.contains(&format!(r#"{{"env": "{name}"}}"#)), "{name}");
            assert!(gateway.contains(&name), "{name}");
        }
        assert!(policy.contains(&format!(r#""public_base_url": "{PUBLIC_URL}""#)));
    }
}
