//! The services that the filter calls, with given content: Unkey, OpenBao, Restate and the guard. `explain` and the tests answer the
//! filter's calls with it. The replies have the services' own formats, so that the code that reads these formats runs too.

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

/// The content of the stores, and the replies to lookups of invocations, to claims, and to questions how far work is.
///
/// `bindings` maps a webhook id to `{"tenant", "project", "provider", "key_scope"?, "bind_body"?}`. `api_keys` maps an API
/// key to members of Unkey's `data`, such as `{"identity": {"externalId": "acme"}}`; `valid` and `code` are `true` and `VALID`
/// unless it has them, and a key whose `permissions` lack one of those that are asked for (joined by `AND`) gets
/// `INSUFFICIENT_PERMISSIONS`. `secrets` maps
/// `{tenant}:{project}:{provider}` to a string, an array of strings or the data itself (`{"secret": "…"}`). The store does
/// not know a key that is missing or `null`. Instead of a value an entry can give the store's HTTP response:
/// `{"status": 503, "body": …}`, where the body is a string or any JSON, and the status `null` means no response. The
/// member `"previous"` of a secret gives the response for the previous version in the same way.
///
/// `invocations` is such a response to every lookup of an invocation, or the word `unreachable`. Without it the id is made of
/// a digest of the lookup, so that it shows which invocation was looked up.
///
/// `guard` is such a response to every claim of collision detection, or the word `unreachable`. Without it the guard returns
/// the claim, as for the first request with a key.
///
/// `in_flight` is Restate's response to every question how far the work of an invocation is, or the word `unreachable`. Without
/// it there is no invocation.
///
/// By default neither store can be reached.
#[derive(Debug, Clone, Default)]
pub struct SimulatedStores {
    entries: Option<Entries>,
    invocations: Option<StoreReply>,
    guard: Option<StoreReply>,
    in_flight: Option<StoreReply>,
}

#[derive(Debug, Clone, Default)]
struct Entries {
    bindings: Map<String, Value>,
    api_keys: Map<String, Value>,
    /// By owner, or by request path
    secrets: Map<String, Value>,
}

/// A call of the filter. What it asks for is read from it.
#[derive(Debug, Clone, Copy)]
pub struct StoreRequest<'r> {
    /// The method
    pub method: &'r [u8],
    /// The path, with the query
    pub path: &'r [u8],
    /// The body
    pub body: &'r [u8],
}

/// The reply to a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoreReply {
    /// The HTTP status; `None` if there was no HTTP response
    pub status: Option<u16>,
    /// The body
    pub body: Vec<u8>,
}

impl StoreReply {
    fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status: Some(status), body: body.into() }
    }
}

impl SimulatedStores {
    /// Reads `{"bindings": {…}, "api_keys": {…}, "secrets": {…}, "invocations": {…}, "guard": {…}, "in_flight": {…}}`.
    ///
    /// # Errors
    /// A message that says what is wrong with the document.
    pub fn read(document: &Value) -> Result<Self, String> {
        let Value::Object(members) = document else {
            return Err(
                "expected an object with `bindings`, `api_keys`, `secrets`, `invocations`, `guard` and `in_flight`"
                    .to_owned(),
            );
        };
        let (mut stores, mut entries) = (Self::default(), Entries::default());
        for (name, value) in members {
            match name.as_str() {
                "bindings" => {
                    entries.bindings = read_entries(name, value, |entry| entry.is_null() || entry.is_object())?;
                }
                "api_keys" => {
                    entries.api_keys = read_entries(name, value, |entry| entry.is_null() || entry.is_object())?;
                }
                "secrets" => {
                    entries.secrets = read_entries(name, value, |entry| !entry.is_boolean() && !entry.is_number())?;
                }
                "invocations" => stores.invocations = Some(read_reply(name, value)?),
                "guard" => stores.guard = Some(read_reply(name, value)?),
                "in_flight" => stores.in_flight = Some(read_reply(name, value)?),
                _ => {
                    return Err(format!(
                        "unknown member `{name}`; known here: `bindings`, `api_keys`, `secrets`, `invocations`, `guard`, \
                         `in_flight`"
                    ));
                }
            }
        }
        Ok(Self { entries: Some(entries), ..stores })
    }

    /// The same stores, with each secret at the request path that `path` gives for its owner. Otherwise a secret is at every path
    /// whose last segments are its owner, as a policy has it by default.
    #[must_use]
    pub fn with_secrets_at(mut self, path: impl Fn(&str) -> String) -> Self {
        if let Some(entries) = &mut self.entries {
            let secrets = std::mem::take(&mut entries.secrets);
            entries.secrets = secrets.into_iter().map(|(owner, entry)| (path(&owner), entry)).collect();
        }
        self
    }

    /// The reply to a call.
    pub fn reply_to(&self, request: &StoreRequest<'_>) -> StoreReply {
        let path = String::from_utf8_lossy(request.path);
        let (path, query) = path.split_once('?').unwrap_or((&path, ""));
        match path {
            "/restate/lookup" => self.invocations.clone().unwrap_or_else(|| invocation(request.body)),
            "/restate/output" => self.in_flight.clone().unwrap_or_else(not_in_flight),
            _ if path.starts_with("/restate/call/") => {
                self.guard.clone().unwrap_or_else(|| StoreReply::new(200, request.body))
            }
            _ if request.method == b"POST" => self.binding(request.body),
            _ => self.secret(path, !query.is_empty()),
        }
    }

    /// Unkey's reply to a call with this body.
    fn binding(&self, body: &[u8]) -> StoreReply {
        let Some(Entries { bindings, api_keys, .. }) = &self.entries else { return StoreReply::default() };
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let key = body.get("key").and_then(Value::as_str).unwrap_or_default();
        if let Some(holder) = api_keys.get(key).filter(|holder| !holder.is_null()) {
            return response(holder).unwrap_or_else(|| StoreReply::new(200, held(holder, body.get("permissions"))));
        }
        match bindings.get(key) {
            None | Some(Value::Null) => {
                StoreReply::new(200, r#"{"meta":{"requestId":"req_1"},"data":{"valid":false,"code":"NOT_FOUND"}}"#)
            }
            Some(binding) => response(binding).unwrap_or_else(|| StoreReply::new(200, verified(binding))),
        }
    }

    /// OpenBao's reply for the secret at a path, or for its previous version.
    fn secret(&self, path: &str, previous: bool) -> StoreReply {
        let Some(Entries { secrets, .. }) = &self.entries else { return StoreReply::default() };
        let entry = secrets.iter().find(|(place, _)| is_at(path, place)).map(|(_, entry)| entry);
        let entry = if previous { entry.and_then(|entry| entry.get("previous")) } else { entry };
        match entry {
            None | Some(Value::Null) => StoreReply::new(404, r#"{"errors":[]}"#),
            Some(secret) => response(secret).unwrap_or_else(|| StoreReply::new(200, version(secret))),
        }
    }
}

/// The entries of a store. `is_known` tells whether an entry has a type that the store has.
fn read_entries(name: &str, value: &Value, is_known: fn(&Value) -> bool) -> Result<Map<String, Value>, String> {
    let Value::Object(entries) = value else { return Err(format!("`{name}` is no object")) };
    match entries.iter().find(|(_, entry)| !is_known(entry)) {
        Some((key, entry)) => Err(format!("`{name}` has {} for `{key}`", kind(entry))),
        None => Ok(entries.clone()),
    }
}

/// The reply to every call of one kind.
fn read_reply(name: &str, value: &Value) -> Result<StoreReply, String> {
    match value.as_str() {
        Some("unreachable") => Ok(StoreReply::default()),
        _ => response(value).ok_or_else(|| format!("`{name}` is neither a response with a `status` nor `unreachable`")),
    }
}

const fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// The HTTP response that an entry gives; `None` if it gives a value.
fn response(entry: &Value) -> Option<StoreReply> {
    // An integer in any spelling, such as `503.0`.
    let status = entry.get("status")?.as_f64().filter(|number| number.fract() == 0.0);
    let status = status.filter(|number| (0.0..=f64::from(u16::MAX)).contains(number)).map(|number| number as u16);
    let body = match entry.get("body") {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(json) => json.to_string(),
    };
    Some(StoreReply { status, body: body.into_bytes() })
}

/// Whether a path is `place` or ends with it, as whole segments.
fn is_at(path: &str, place: &str) -> bool {
    path.strip_suffix(place).is_some_and(|before| before.is_empty() || before.ends_with('/'))
}

/// Unkey's response for a key with this binding.
fn verified(binding: &Value) -> String {
    let of = |name: &str| binding.get(name).cloned().unwrap_or_default();
    let mut meta = json!({"kind": "webhook", "project_id": of("project"), "provider": of("provider")});
    if let (Value::Object(meta), Value::Object(binding)) = (&mut meta, binding) {
        let optional = binding.iter().filter(|(name, _)| ["key_scope", "bind_body"].contains(&name.as_str()));
        meta.extend(optional.map(|(name, value)| (name.clone(), value.clone())));
    }
    let identity = json!({"id": "id_1", "externalId": of("tenant")});
    let data =
        json!({"valid": true, "code": "VALID", "keyId": "key_1", "enabled": true, "identity": identity, "meta": meta});
    json!({"meta": {"requestId": "req_1"}, "data": data}).to_string()
}

/// Unkey's response for an API key with these members of `data`.
fn held(holder: &Value, asked: Option<&Value>) -> String {
    let granted = holder.get("permissions").and_then(Value::as_array);
    let has = |permission: &str| granted.is_some_and(|granted| granted.iter().any(|name| name == permission));
    let may = asked.and_then(Value::as_str).is_none_or(|asked| asked.split(" AND ").all(|name| has(name.trim())));
    let code = if may { "VALID" } else { "INSUFFICIENT_PERMISSIONS" };
    let mut data = json!({"valid": may, "code": code, "keyId": "key_1", "enabled": true});
    if let (Value::Object(data), Value::Object(holder)) = (&mut data, holder) {
        data.extend(holder.clone());
    }
    json!({"meta": {"requestId": "req_1"}, "data": data}).to_string()
}

/// OpenBao's response with the first version of a secret.
fn version(secret: &Value) -> String {
    let data = match secret {
        Value::String(_) => json!({"secret": secret}),
        Value::Array(_) => json!({"secrets": secret}),
        data => data.clone(),
    };
    let metadata = json!({"created_time": "2025-01-01T00:00:00Z", "destroyed": false, "version": 1});
    json!({"data": {"data": data, "metadata": metadata}}).to_string()
}

/// Restate's reply to the lookup of an invocation: an id that is made of a digest of the lookup.
fn invocation(body: &[u8]) -> StoreReply {
    let digest = Sha256::digest(body);
    let id: String = digest.iter().take(17).map(|byte| format!("{byte:02x}")).collect();
    StoreReply::new(200, format!(r#"{{"invocationId":"inv_{id}"}}"#))
}

/// Restate's reply to the question how far the work is, if there is no invocation.
fn not_in_flight() -> StoreReply {
    StoreReply::new(404, r#"{"code":404,"message":"invocation not found","source":"ingress"}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_told() {
        for (given, expected) in [
            (
                json!([]),
                "expected an object with `bindings`, `api_keys`, `secrets`, `invocations`, `guard` and `in_flight`",
            ),
            (
                json!({"binding": {}}),
                "unknown member `binding`; known here: `bindings`, `api_keys`, `secrets`, `invocations`, `guard`, `in_flight`",
            ),
            (json!({"secrets": []}), "`secrets` is no object"),
            (json!({"bindings": {"wh_1": "acme"}}), "`bindings` has a string for `wh_1`"),
            (
                json!({"invocations": {"id": "inv_1"}}),
                "`invocations` is neither a response with a `status` nor `unreachable`",
            ),
            (json!({"secrets": {"a:b:c": 7}}), "`secrets` has a number for `a:b:c`"),
        ] {
            assert_eq!(SimulatedStores::read(&given).unwrap_err(), expected, "{given}");
        }
    }

    fn replied(stores: &SimulatedStores, method: &str, path: &str, body: &str) -> (Option<u16>, String) {
        let (method, path, body) = (method.as_bytes(), path.as_bytes(), body.as_bytes());
        let StoreReply { status, body } = stores.reply_to(&StoreRequest { method, path, body });
        (status, String::from_utf8(body).unwrap())
    }

    #[test]
    fn replies_are_the_stores_own() {
        let given = json!({
            "bindings": {"wh_1": {"tenant": "a\n", "project": "p", "provider": "x", "bind_body": true}},
            "secrets": {
                "a": "s", "b": ["s", "t"], "c": {"status": 503.0, "body": {"errors": [1, -1, null, false]}},
                "d": {"status": null}, "e": {"status": 200, "body": "x", "previous": {"status": 404}},
            },
        });
        let given = SimulatedStores::read(&given).unwrap();
        let binding = |id: &str| replied(&given, "POST", "/v2/keys.verifyKey", &json!({"key": id}).to_string());
        let secret = |path: &str| replied(&given, "GET", &format!("/v1/secret/data/{path}"), "");
        assert_eq!(
            binding("wh_1").1,
            r#"{"meta":{"requestId":"req_1"},"data":{"valid":true,"code":"VALID","keyId":"key_1","enabled":true,"identity":{"id":"id_1","externalId":"a\n"},"meta":{"kind":"webhook","project_id":"p","provider":"x","bind_body":true}}}"#
        );
        assert!(binding("wh_2").1.contains("NOT_FOUND"));
        let metadata = r#""metadata":{"created_time":"2025-01-01T00:00:00Z","destroyed":false,"version":1}}}"#;
        assert_eq!(secret("a"), (Some(200), format!(r#"{{"data":{{"data":{{"secret":"s"}},{metadata}"#)));
        assert_eq!(secret("b"), (Some(200), format!(r#"{{"data":{{"data":{{"secrets":["s","t"]}},{metadata}"#)));
        assert_eq!(secret("c"), (Some(503), r#"{"errors":[1,-1,null,false]}"#.to_owned()));
        assert_eq!(secret("d"), (None, String::new()));
        assert_eq!(secret("e"), (Some(200), "x".to_owned()));
        assert_eq!(secret("e?version=1"), (Some(404), String::new()));
        for absent in ["f", "aa", "a/f"] {
            assert_eq!(secret(absent), (Some(404), r#"{"errors":[]}"#.to_owned()), "{absent}");
        }
        assert_eq!(replied(&SimulatedStores::default(), "GET", "/v1/secret/data/a", ""), (None, String::new()));
    }

    #[test]
    fn an_api_key_has_what_is_said_of_it() {
        let holder = json!({"identity": {"externalId": "acme"}, "permissions": ["a", "b"]});
        let given = json!({"api_keys": {"sk_1": holder, "sk_2": {"valid": false, "code": "DISABLED"}, "sk_3": {"status": 503}}});
        let given = SimulatedStores::read(&given).unwrap();
        let asked = |body: Value| {
            let (status, body) = replied(&given, "POST", "/v2/keys.verifyKey", &body.to_string());
            let body: Value = serde_json::from_str(&body).unwrap_or_default();
            (status, body["data"]["code"].as_str().map(str::to_owned))
        };
        let said = |status, code: &str| (Some(status), Some(code.to_owned()));
        assert_eq!(asked(json!({"key": "sk_1"})), said(200, "VALID"));
        assert_eq!(asked(json!({"key": "sk_1", "permissions": "a AND b"})), said(200, "VALID"));
        assert_eq!(asked(json!({"key": "sk_1", "permissions": "a AND c"})), said(200, "INSUFFICIENT_PERMISSIONS"));
        assert_eq!(asked(json!({"key": "sk_2"})), said(200, "DISABLED"));
        assert_eq!(asked(json!({"key": "sk_3"})), (Some(503), None));
        assert_eq!(asked(json!({"key": "sk_4"})), said(200, "NOT_FOUND"));
    }

    #[test]
    fn a_secret_is_where_the_policy_has_it() {
        let given = json!({"secrets": {"acme:shop:stripe": {"status": 200}, "shop:acme:stripe": {"status": 201}}});
        let given = SimulatedStores::read(&given).unwrap();
        let turned = given.clone().with_secrets_at(|owner| {
            let parts: Vec<&str> = owner.split(':').rev().collect();
            format!("/v1/kv/data/{}", parts.join("/"))
        });
        for (stores, path, expected) in [
            (&given, "/v1/secret/data/acme:shop:stripe", 200),
            (&given, "/v1/secret/data/shop:acme:stripe", 201),
            (&turned, "/v1/kv/data/stripe/shop/acme", 200),
            (&turned, "/v1/kv/data/stripe/acme/shop", 201),
            (&turned, "/v1/secret/data/acme:shop:stripe", 404),
        ] {
            assert_eq!(replied(stores, "GET", path, "").0, Some(expected), "{path}");
        }
    }

    #[test]
    fn restate_and_the_guard_reply_as_to_a_first_request() {
        let all = |stores: &SimulatedStores| {
            ["lookup", "output", "call/IdempotencyGuard/k/claim"]
                .map(|path| replied(stores, "POST", &format!("/restate/{path}"), r#""1r.a""#))
        };
        let [lookup, output, claim] = all(&SimulatedStores::default());
        assert_eq!(lookup, (Some(200), r#"{"invocationId":"inv_ec99b0f210c32a84faccd31883952a435b"}"#.to_owned()));
        assert_eq!(output.0, Some(404));
        assert_eq!(claim, (Some(200), r#""1r.a""#.to_owned()));
        let given =
            json!({"invocations": "unreachable", "guard": {"status": 503}, "in_flight": {"status": 470, "body": {}}});
        let [lookup, output, claim] = all(&SimulatedStores::read(&given).unwrap());
        assert_eq!(lookup, (None, String::new()));
        assert_eq!(output, (Some(470), "{}".to_owned()));
        assert_eq!(claim, (Some(503), String::new()));
    }
}
