//! A token of a caller, as Envoy's `jwt_authn` shows it to the filter: its claims in the request's metadata, below the name
//! that `payload_in_metadata` gives, and in the header that `forward_payload_header` names. Nothing is verified here.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use edge_idempotency_engine::Policy;
use edge_idempotency_engine::identity::IdentityPlace;
use serde_json::{Map, Value, json};

/// The namespace in which `jwt_authn` writes.
const JWT_AUTHN: &str = "envoy.filters.http.jwt_authn";

/// The claims of a token (RFC 7519 in the compact form of RFC 7515), or claims that stand there as JSON.
///
/// # Errors
/// A sentence that does not repeat the token.
pub(super) fn claims(text: &str) -> Result<Map<String, Value>, String> {
    let text = text.trim();
    let text = text.strip_prefix("Bearer ").unwrap_or(text).trim();
    if text.starts_with('{') {
        return serde_json::from_str(text).map_err(|error| format!("--jwt: the claims are not a JSON object: {error}"));
    }
    let parts: Vec<&str> = text.split('.').collect();
    let payload = match parts.as_slice() {
        [_, payload, _] => payload,
        [_, _, _, _, _] => return Err("--jwt: the token is encrypted: give its claims as JSON instead".to_owned()),
        _ => return Err("--jwt: this is no token of three parts, and no JSON object with claims".to_owned()),
    };
    let bytes = URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok();
    bytes
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .ok_or_else(|| "--jwt: the second part of the token is not a JSON object in Base64URL".to_owned())
}

/// Whether a header's value holds a token: `Bearer eyJ…` with three parts.
pub(super) fn bearer(value: &str) -> Option<&str> {
    let (scheme, token) = value.trim().split_once(' ')?;
    let is_token = scheme.eq_ignore_ascii_case("bearer") && token.split('.').count() == 3;
    Some(token.trim()).filter(|token| is_token && claims(token).is_ok())
}

/// What a gateway makes of a token for the filter.
pub(super) struct PassedOn {
    /// The metadata, with the claims below every name at which the policy's sources read tokens
    pub(super) metadata: Value,
    /// The headers in which the policy's sources read payloads, and their value
    pub(super) headers: Vec<(String, String)>,
    /// What a reader must know
    pub(super) notes: Vec<String>,
}

/// What a request with these claims has in addition.
pub(super) fn passed_on(claims: &Map<String, Value>, policy: &Policy, now_unix: u64) -> PassedOn {
    let mut notes = vec![
        "The token's claims are shown to the policy as jwt_authn would; its signature was not verified.".to_owned(),
    ];
    let time = |name: &str| claims.get(name).and_then(Value::as_f64);
    if time("exp").is_some_and(|time| time < now_unix as f64) {
        notes.push("The token has expired (`exp`): jwt_authn would refuse it with 401 before the filter.".to_owned());
    }
    if time("nbf").is_some_and(|time| time > now_unix as f64) {
        notes.push(
            "The token is not valid yet (`nbf`): jwt_authn would refuse it with 401 before the filter.".to_owned(),
        );
    }
    let (names, headers) = places(policy);
    if names.is_empty() && headers.is_empty() {
        notes.push(format!(
            "No identity source of the policy reads metadata of {JWT_AUTHN} or the payload of a token, so the claims have no effect. \
             If the gateway copies claims into headers (`claim_to_headers`), give these headers with -H."
        ));
    }
    if names.len() > 1 || headers.len() > 1 {
        notes.push(format!(
            "The policy reads tokens of several issuers ({}). The claims stand at each of these places; in a gateway, only at \
             that of the token's issuer.",
            Vec::from_iter(names.iter().chain(&headers).map(String::as_str)).join(", ")
        ));
    }
    let tokens: Map<String, Value> = names.into_iter().map(|name| (name, Value::Object(claims.clone()))).collect();
    let payload = URL_SAFE_NO_PAD.encode(Value::Object(claims.clone()).to_string());
    let headers = headers.into_iter().map(|name| (name, payload.clone())).collect();
    PassedOn { metadata: json!({JWT_AUTHN: tokens}), headers, notes }
}

/// The names below which the policy's identity sources read tokens (`payload_in_metadata`), and the headers in which they read payloads.
fn places(policy: &Policy) -> (Vec<String>, Vec<String>) {
    let (mut names, mut headers): (Vec<String>, Vec<String>) = Default::default();
    let routes = (0..).map_while(|id| policy.route(id)).map(Some);
    for source in std::iter::once(None).chain(routes).flat_map(|route| &policy.identity_of(route).sources) {
        if let Some(header) = source.payload_header().filter(|header| !headers.iter().any(|known| known == header)) {
            headers.push(header.to_owned());
        }
        for (_, place) in source.places() {
            let Some(IdentityPlace::Metadata(path)) = place else { continue };
            if let [namespace, name, _, ..] = path.segments()
                && namespace == JWT_AUTHN
                && !names.contains(name)
            {
                names.push(name.clone());
            }
        }
    }
    (names, headers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_read_and_a_bad_token_is_not_repeated() {
        let payload = URL_SAFE_NO_PAD.encode(r#"{"sub":"u1","n":7}"#);
        for text in [format!("x.{payload}.y"), format!(" Bearer x.{payload}.y\n"), r#"{"sub":"u1","n":7}"#.to_owned()] {
            assert_eq!(Value::Object(claims(&text).unwrap()), json!({"sub": "u1", "n": 7}), "{text}");
        }
        for bad in ["planted", "planted.planted.planted", "a.b.c.d.planted", "{planted"] {
            assert!(!claims(bad).unwrap_err().contains("planted"), "{bad}");
        }
        assert!(bearer(&format!("bearer x.{payload}.y")).is_some());
        assert!(bearer("Basic eDp5").is_none() && bearer("Bearer opaque").is_none());
    }
}
