//! Third parties that send webhooks: each signs as the real one does (`testkit::signatures`). Their secrets are made at start; the filter gets them
//! through Envoy's environment.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use p256::ecdsa::signature::rand_core::{OsRng, RngCore as _};
use serde_json::Value;
use testkit::signatures::{self, digest_key, sha256, twilio_text, unix_now};

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
    /// What the filter makes operation ids with; no sender has it
    pub operations: String,
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
            operations: random(),
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
            ("OPERATIONS_SECRET", &self.operations),
        ];
        variables.map(|(name, value)| (name.to_owned(), value.clone())).into()
    }

    /// GitHub's delivery of an event.
    pub fn github(&self, guid: &str, event: &str, payload: &Value) -> Request {
        let request = Request::post(GITHUB_PATH)
            .header("X-GitHub-Event", event)
            .header("X-GitHub-Delivery", guid)
            .header("X-Hub-Signature-256", signatures::github(&self.github, payload.to_string().as_bytes()));
        request.json(payload)
    }

    /// Twilio's callback with these form fields, whose names and values need no escapes.
    pub fn twilio(&self, fields: &[(&str, &str)]) -> Request {
        let body: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Request::post(TWILIO_PATH)
            .header("X-Twilio-Signature", signatures::twilio(&self.twilio, &twilio_url(), fields))
            .header("content-type", "application/x-www-form-urlencoded")
            .body(body.join("&"))
    }
}

/// The URL at which Twilio calls back.
fn twilio_url() -> String {
    format!("{PUBLIC_URL}{TWILIO_PATH}")
}

/// The raw key of a callback from Twilio: a digest of all that is signed.
pub fn twilio_key(fields: &[(&str, &str)]) -> String {
    digest_key("twilio", &[b"\0s", &sha256(twilio_text(&twilio_url(), fields).as_bytes())])
}

/// The raw key of a delivery from GitHub: its id, which is not signed, and its body, which is, digested together.
pub fn github_key(guid: &str, payload: &Value) -> String {
    digest_key("github", &[b"\0b", &sha256(payload.to_string().as_bytes()), guid.as_bytes()])
}

/// Stripe's delivery of an event, signed `age` seconds ago with each of `secrets`: with several while one is being rolled.
pub fn stripe(age: u64, secrets: &[&str], event: &Value) -> Request {
    let signature = signatures::stripe(secrets, unix_now().saturating_sub(age), event.to_string().as_bytes());
    Request::post(STRIPE_PATH).header("Stripe-Signature", signature).json(event)
}

/// 24 random bytes as text.
pub fn random() -> String {
    let mut bytes = [0; 24];
    OsRng.fill_bytes(&mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}
