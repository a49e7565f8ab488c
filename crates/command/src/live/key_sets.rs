//! Key sets (RFC 7517) of issuers of tokens: can they be fetched, and has each a key that verifies tokens?

use super::LiveCheck;
use crate::lint::live_list::{LIVE_KEYS, LIVE_UNREACHABLE};
use crate::render::needs::GatewayNeeds;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;
use std::path::Path;

const AT: &str = "/identity";

/// The least size of a modulus of RSA, in bytes.
const RSA_BYTES: usize = 256;

pub(super) fn check(live: &mut LiveCheck<'_>) {
    if GatewayNeeds::of(live.policy).token_places().is_empty() {
        return;
    }
    if live.args.key_sets.is_empty() {
        return live.not_asked(AT, "the key set of the tokens' issuer", "--jwt-keys URL");
    }
    for source in live.args.key_sets.clone() {
        match fetch(live, &source) {
            Ok(body) => match usable(&body) {
                Ok(names) => live.works(AT, format!("{source} has {names}")),
                Err(message) => live.add(
                    &LIVE_KEYS,
                    AT,
                    format!("{source}: {message}"),
                    "name the `jwks_uri` of the issuer's discovery document (/.well-known/openid-configuration)",
                ),
            },
            Err(message) => live.add(&LIVE_UNREACHABLE, AT, message, ""),
        }
    }
}

fn fetch(live: &LiveCheck<'_>, source: &str) -> Result<Vec<u8>, String> {
    if !source.contains("://") {
        return crate::input::read(Path::new(source));
    }
    let reply = live.upstreams.client().send("GET", source, &[("accept", "application/json")], None);
    let reply = reply.map_err(|error| format!("the key set: {error}"))?;
    match reply.status {
        200 => Ok(reply.body),
        300..=399 => Err(format!(
            "GET {source} is answered {}, and leads to {}: Envoy does not follow it",
            reply.status,
            reply.location.as_deref().unwrap_or("nowhere")
        )),
        status => Err(format!("GET {source} is answered {status}")),
    }
}

/// How many usable keys there are, by their algorithms.
///
/// # Errors
/// There is none, or a private key is among them.
fn usable(body: &[u8]) -> Result<String, String> {
    let set: Value = serde_json::from_slice(body).map_err(|error| format!("this is no JSON: {error}"))?;
    let keys = set.get("keys").and_then(Value::as_array).ok_or("this is no key set: it has no list `keys`")?;
    let text = |key: &Value, name: &str| key.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    if keys.iter().any(|key| ["d", "k"].iter().any(|name| key.get(name).is_some())) {
        return Err("a private key is in it, with which anybody who reads it can make tokens".to_owned());
    }
    let bytes = |key: &Value, name: &str| URL_SAFE_NO_PAD.decode(text(key, name)).unwrap_or_default();
    let is_usable = |key: &&Value| {
        let signs = key.get("use").is_none_or(|purpose| purpose == "sig");
        let whole = match text(key, "kty").as_str() {
            "RSA" => {
                let modulus = bytes(key, "n");
                modulus.iter().skip_while(|byte| **byte == 0).count() >= RSA_BYTES && !bytes(key, "e").is_empty()
            }
            "EC" => match text(key, "crv").as_str() {
                "P-256" => bytes(key, "x").len() == 32 && bytes(key, "y").len() == 32,
                "P-384" => bytes(key, "x").len() == 48 && bytes(key, "y").len() == 48,
                "P-521" => bytes(key, "x").len() == 66 && bytes(key, "y").len() == 66,
                _ => false,
            },
            "OKP" => text(key, "crv") == "Ed25519" && bytes(key, "x").len() == 32,
            _ => false,
        };
        signs && whole
    };
    match keys.iter().filter(is_usable).count() {
        0 => Err(format!(
            "none of its {} keys verifies tokens (RSA of 2048 bits, EC, Ed25519, for signatures)",
            keys.len()
        )),
        1 => Ok("a key that verifies tokens".to_owned()),
        number => Ok(format!("{number} keys that verify tokens")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_set_needs_a_key_for_signatures() {
        let of = |keys: Value| usable(json!({"keys": keys}).to_string().as_bytes());
        let part = |length: usize| URL_SAFE_NO_PAD.encode(vec![1; length]);
        let ec = json!({"kty": "EC", "crv": "P-256", "x": part(32), "y": part(32)});
        let rsa = |bytes: usize| json!({"kty": "RSA", "n": part(bytes), "e": "AQAB", "use": "sig"});
        assert_eq!(of(json!([ec, rsa(256)])).unwrap(), "2 keys that verify tokens");
        assert_eq!(of(json!([rsa(128), ec])).unwrap(), "a key that verifies tokens");
        let mut private = ec.clone();
        private["d"] = json!("x");
        let mut encrypts = ec;
        encrypts["use"] = json!("enc");
        for bad in [
            json!([]),
            json!([rsa(128)]),
            json!([encrypts]),
            json!([private]),
            json!({}),
            json!([{"kty": "oct", "k": "x"}]),
        ] {
            assert!(of(bad.clone()).is_err(), "{bad}");
        }
        assert!(usable(b"<html>").is_err() && usable(b"{\"jwks_uri\": \"x\"}").is_err());
    }
}
