//! Webhook deliveries that are verified, and what they are compared with: the same body hashed once, and only buffered.

use serde_json::{Value, json};
use testkit::signatures::{self, hex, sha256, unix_now};

use crate::client::Request;
use crate::policy;

/// Where deliveries go.
pub(crate) const PATH: &str = "/hooks/ingest";
/// What comes before a delivery's identifier in its key, provider included.
pub(crate) const NAMESPACE: &str = "t-acme:health-prod:service:webhook-ingest:";
/// The longest body that a listener has to hold, with room.
pub(crate) const BUFFER: usize = 2 << 20;

/// The name of the cluster in which webhooks and their secrets are looked up.
pub(crate) const STORES: &str = "stores";

const ID: &str = "wh_01JBENCH";
const SECRET: &str = "whsec_b3bVnQ3N4dYkRr0e1zT5";
const EVENT: &str = "evt_1RgKxT2eZvKYlo2CvQ0bENCH";
const GUID: &str = "72d3162e-cc78-11e3-81ab-4c9367dc0958";
/// Bytes of bodies that a turn sends, about.
const TURN: usize = 40 << 20;
const FEWEST: usize = 48;

/// The length of a delivery's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Small,
    Medium,
    Large,
}

/// Who sends a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// The identifier is in a header.
    Github,
    /// The identifier is in the JSON body.
    Stripe,
}

impl Size {
    pub(crate) const ALL: [Self; 3] = [Self::Small, Self::Medium, Self::Large];

    pub(crate) const fn bytes(self) -> usize {
        match self {
            Self::Small => 1 << 10,
            Self::Medium => 100 << 10,
            Self::Large => 1 << 20,
        }
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Small => "1 KiB",
            Self::Medium => "100 KiB",
            Self::Large => "1 MiB",
        }
    }

    /// The deliveries of a turn of `requests` short requests.
    pub(crate) fn deliveries(self, requests: usize) -> usize {
        (TURN / self.bytes()).clamp(FEWEST, requests.max(FEWEST))
    }

    /// An event as Stripe's are, with as many lines as fit and a text that fills the rest.
    fn body(self) -> Vec<u8> {
        const TAIL: &str = r#"],"note":""#;
        const END: &str = r#""}}}"#;
        let mut body =
            format!(r#"{{"id":"{EVENT}","object":"event","type":"invoice.paid","data":{{"object":{{"lines":["#);
        let mut number = 0;
        loop {
            let line = format!(
                r#"{}{{"id":"il_{number:08}","object":"line_item","amount":{},"currency":"eur","discountable":true,"description":"{} × Seat, monthly","period":{{"start":1767225600,"end":1769904000}},"proration":false,"plan":null}}"#,
                if number > 0 { "," } else { "" },
                4_200 + number,
                1 + number % 9,
            );
            if body.len() + line.len() + TAIL.len() + END.len() > self.bytes() {
                break;
            }
            body.push_str(&line);
            number += 1;
        }
        body.push_str(TAIL);
        while body.len() + END.len() < self.bytes() {
            body.push('.');
        }
        body.push_str(END);
        body.into_bytes()
    }

    /// A delivery of this size, signed now by both senders.
    pub(crate) fn request(self) -> Request {
        let body = self.body();
        let hook = signatures::github(SECRET, &body);
        let stripe = signatures::stripe(&[SECRET], unix_now(), &body);
        let length = body.len().to_string();
        let headers = [
            ("host", "api.example.com"),
            ("user-agent", "Webhooks/1.0"),
            ("accept", "*/*"),
            ("content-type", "application/json"),
            ("content-length", &length),
            ("x-github-event", "push"),
            ("x-github-delivery", GUID),
            ("x-hub-signature-256", &hook),
            ("stripe-signature", &stripe),
        ];
        Request::new("POST", PATH, headers).with_body(&body)
    }

    /// The digest of the body.
    pub(crate) fn digest(self) -> String {
        hex(&sha256(&self.body()))
    }
}

impl Sender {
    pub(crate) const ALL: [Self; 2] = [Self::Github, Self::Stripe];

    const fn provider(self) -> &'static str {
        match self {
            Self::Github => "github",
            Self::Stripe => "stripe",
        }
    }

    /// The raw key of every delivery.
    pub(crate) fn key(self) -> String {
        match self {
            Self::Github => format!("github-{GUID}"),
            Self::Stripe => format!("stripe-{EVENT}"),
        }
    }

    /// The policy that verifies its deliveries.
    pub(crate) fn policy(self) -> Value {
        json!({
            "version": 1,
            "backend": {"kind": "generic"},
            "allow_inline_secrets": true,
            "routes": [{"endpoint": "webhooks.ingest", "path": PATH, "policy": "REQUIRED_B",
                        "webhook": {"provider": self.provider(), "id": ID}}],
            "webhooks": {"static": {
                // GitHub's bodies would be hashed once more for the key: that is the line of the hash alone.
                ID: {"tenant": "acme", "project": "health-prod", "provider": self.provider(), "secrets": [SECRET],
                     "bind_body": false},
            }},
        })
    }
}

/// A policy with two routes: one takes the sender's deliveries, and one takes keyed requests.
pub(crate) fn policy_with_keyed_route(sender: Sender) -> Value {
    let (mut policy, keyed) = (sender.policy(), policy::key_only());
    if let (Some(members), Value::Object(keyed)) = (policy.as_object_mut(), keyed) {
        for (name, value) in keyed {
            match (members.get_mut(&name).and_then(Value::as_array_mut), value) {
                (Some(list), Value::Array(more)) => list.extend(more),
                (_, value) => {
                    members.insert(name, value);
                }
            }
        }
    }
    policy
}

/// Stripe's deliveries again, with webhook and secret out of the two stores.
pub(crate) fn looked_up() -> Value {
    json!({
        "version": 1,
        "backend": {"kind": "generic"},
        "routes": [{"endpoint": "webhooks.ingest", "path": PATH, "policy": "REQUIRED_B",
                    "webhook": {"provider": Sender::Stripe.provider(), "id": ID}}],
        "webhooks": {
            "unkey": {"cluster": STORES, "authority": STORES},
            "openbao": {"cluster": STORES, "authority": STORES, "mount": "secret"},
        },
    })
}

/// What the stores answer: path, and body in the form of Unkey's and OpenBao's.
pub(crate) fn answers() -> [(&'static str, Value); 2] {
    let provider = Sender::Stripe.provider();
    let binding = json!({
        "meta": {"requestId": "req_1"},
        "data": {
            "valid": true, "code": "VALID", "keyId": "key_1", "identity": {"id": "id_1", "externalId": "acme"},
            "meta": {"kind": "webhook", "project_id": "health-prod", "provider": provider},
        },
    });
    let metadata =
        json!({"version": 1, "created_time": "2026-01-01T00:00:00Z", "deletion_time": "", "destroyed": false});
    let secret = json!({"data": {"data": {"secret": SECRET}, "metadata": metadata}});
    [("/v2/keys.verifyKey", binding), ("/v1/secret/data/", secret)]
}
