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

#[cfg(test)]
mod tests {
    use jsonwebtoken::jwk::JwkSet;
    use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode};

    use super::*;

    fn verify(token: &str, jwks: &str) -> jsonwebtoken::errors::Result<Value> {
        let keys: JwkSet = serde_json::from_str(jwks).unwrap();
        let key = DecodingKey::from_jwk(keys.find(KEY_ID).unwrap())?;
        let mut validation = Validation::new(Algorithm::ES256);
        validation.set_issuer(&[ISSUER]);
        Ok(decode::<Value>(token, &key, &validation)?.claims)
    }

    #[test]
    fn a_token_verifies_against_the_key_set() {
        let signer = Signer::generate();
        let token = signer.mint(&json!({"sub": "alice", "tenant_id": "acme"})).unwrap();
        let claims = verify(&token, &signer.jwks()).unwrap();
        assert_eq!((&claims["sub"], &claims["tenant_id"]), (&json!("alice"), &json!("acme")));
    }

    #[test]
    fn another_signers_token_does_not() {
        let token = Signer::generate().mint(&json!({"sub": "alice"})).unwrap();
        assert!(verify(&token, &Signer::generate().jwks()).is_err());
    }

    #[test]
    fn claims_keep_their_types_and_given_ones_win() {
        let signer = Signer::generate();
        let given =
            json!({"sub": "a", "tenant_id": 7, "project_id": null, "roles": ["a", {"b": 1}], "exp": 9_999_999_999_u64});
        let claims = verify(&signer.mint(&given).unwrap(), &signer.jwks()).unwrap();
        for (name, value) in given.as_object().unwrap() {
            assert_eq!(&claims[name], value, "{name}");
        }
        assert!(signer.mint(&json!("not an object")).is_err());
    }

    #[test]
    fn an_expired_token_is_one() {
        let signer = Signer::generate();
        assert!(verify(&signer.mint(&json!({"exp": 1})).unwrap(), &signer.jwks()).is_err());
    }
}
