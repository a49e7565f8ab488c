//! JSON Web Tokens for the demo and the tests. The key is made at start and lives in memory only.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use p256::ecdsa::signature::{Signer as _, rand_core::OsRng};
use p256::ecdsa::{Signature, SigningKey};
use serde_json::{Value, json};

/// The `iss` claim that the gateway asks for.
pub const ISSUER: &str = "https://id.demo.invalid";

const KEY_ID: &str = "demo";
const LIFETIME_SECONDS: u64 = 7 * 24 * 60 * 60;

/// The identity source of policies whose callers have these tokens: the claims, which Envoy's filter for tokens leaves in its metadata.
pub fn source() -> Value {
    json!({
        "name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
        "tenant": "tenant_id", "project": "project_id", "subject": {"field": "sub", "type": "user"},
    })
}

/// Signs tokens with ES256.
pub struct Signer(SigningKey);

impl Signer {
    /// A signer with a new key.
    pub fn generate() -> Self {
        Self(SigningKey::random(&mut OsRng))
    }

    /// The JWK set (RFC 7517) that verifies this signer's tokens, as one line of JSON.
    pub fn jwks(&self) -> String {
        let point = self.0.verifying_key().to_encoded_point(false);
        let coordinate = |bytes: Option<&p256::FieldBytes>| URL_SAFE_NO_PAD.encode(bytes.copied().unwrap_or_default());
        json!({"keys": [{
            "kty": "EC",
            "crv": "P-256",
            "alg": "ES256",
            "use": "sig",
            "kid": KEY_ID,
            "x": coordinate(point.x()),
            "y": coordinate(point.y()),
        }]})
        .to_string()
    }

    /// A token with these claims, whatever their types. `iss`, `iat` and `exp` (in a week) are added unless they are given;
    /// a claim given as null stays null.
    pub fn mint(&self, claims: &Value) -> Result<String> {
        let mut claims = claims.as_object().context("claims are a JSON object")?.clone();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock stands before 1970")?.as_secs();
        for (name, value) in [("iss", json!(ISSUER)), ("iat", json!(now)), ("exp", json!(now + LIFETIME_SECONDS))] {
            claims.entry(name).or_insert(value);
        }
        let header = json!({"alg": "ES256", "typ": "JWT", "kid": KEY_ID});
        let signed = format!(
            "{}.{}",
            URL_SAFE_NO_PAD.encode(header.to_string()),
            URL_SAFE_NO_PAD.encode(Value::from(claims).to_string())
        );
        let signature: Signature = self.0.sign(signed.as_bytes());
        Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature.to_bytes())))
    }
}
