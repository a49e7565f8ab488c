//! Behaviour cases, as a client sends them to a real Envoy: the listener that a case needs, its request and its answer.

use anyhow::{Context as _, Result};
use serde_json::{Map, Value, json};
use testkit::cases::Case;
use testkit::http::{Headers, Message};

use crate::capture::Answer;
use crate::config::{Change, ListenerSpec};
use crate::raw::Request;

/// Where jwt_authn leaves the claims of a token.
const JWT_NAMESPACE: &str = "envoy.filters.http.jwt_authn";
const JWT_MEMBER: &str = "jwt";

/// The listener that a case needs, and the claims that its token brings.
pub fn listener_for(case: &Case) -> (ListenerSpec, Option<Value>) {
    let mut metadata = case.metadata.clone();
    let mut changes = vec![
        Change::PathsAsWritten,
        Change::AuthorityAsWritten,
        Change::Trailers,
        Change::EveryPath,
        Change::ShownMark,
    ];
    let has_credentials = case.request.headers.get("authorization").is_some();
    let claims = if has_credentials { None } else { token_claims(&metadata) };
    if claims.is_some() {
        metadata.remove(JWT_NAMESPACE);
    }
    if case.request.headers.get("x-request-id").is_some() {
        changes.push(Change::RequestIdsAsWritten);
    }
    if !case.environment.is_empty() {
        changes.push(Change::Environment(case.environment.keys().cloned().collect()));
    }
    if has_credentials {
        changes.push(Change::NoAuthentication);
    }
    if asks_for_upgrade(case) {
        // By default Envoy itself refuses every upgrade.
        changes.push(Change::Manager("upgrade_configs", json!([{"upgrade_type": "websocket"}])));
    }
    if !metadata.is_empty() {
        changes.push(Change::Metadata(metadata));
    }
    if !case.route_metadata.is_empty() {
        changes.push(Change::RouteMetadata(case.route_metadata.clone()));
    }
    (ListenerSpec { policy: String::from_utf8_lossy(&case.policy).into_owned(), changes }, claims)
}

/// Whether the request asks for an upgraded connection.
pub fn asks_for_upgrade(case: &Case) -> bool {
    case.request.headers.get("upgrade").is_some()
}

/// The claims, if a token can hold them: jwt_authn itself refuses a registered claim of the wrong type.
fn token_claims(metadata: &Map<String, Value>) -> Option<Value> {
    let namespace = metadata.get(JWT_NAMESPACE)?.as_object().filter(|members| members.len() == 1)?;
    let claims = namespace.get(JWT_MEMBER)?.as_object()?;
    let registered = ["iss", "aud", "exp", "nbf", "iat", "jti"].iter().any(|name| claims.contains_key(*name));
    let plain = !registered && claims.get("sub").is_none_or(Value::is_string);
    plain.then(|| claims.clone().into())
}

/// The case's request. It has no token yet.
pub fn request(message: &Message) -> Result<Request> {
    let text = |name: &str| {
        let value = message.headers.get(name).with_context(|| format!("a request without {name}"))?;
        Ok::<_, anyhow::Error>(std::str::from_utf8(value)?.to_owned())
    };
    let target = message.headers.get(":path").context("a request without :path")?;
    Ok(Request {
        method: text(":method")?,
        target: target.to_vec(),
        authority: text(":authority")?,
        headers: lines(&message.headers),
        body: message.body.clone(),
        trailers: message.trailers.as_ref().map(lines).unwrap_or_default(),
    })
}

/// The backend's answer.
pub fn answer(message: &Message) -> Result<Answer> {
    let mut headers = lines(&message.headers);
    headers.retain(|(name, _)| name != "content-length" && name != "transfer-encoding");
    Ok(Answer {
        status: message.headers.status().context("an answer without a status")?,
        headers,
        body: message.body.clone(),
        trailers: message.trailers.as_ref().map(lines).unwrap_or_default(),
    })
}

fn lines(headers: &Headers) -> Vec<(String, Vec<u8>)> {
    let ordinary = headers.iter().filter(|(name, _)| !name.starts_with(':'));
    ordinary.map(|(name, value)| (name.to_owned(), value.to_vec())).collect()
}
