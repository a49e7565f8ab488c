//! Looking up bindings and secrets: what is asked, what is made of every answer, how long it holds, who waits for it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

mod api_keys;
mod lifetimes;
mod made_up_ids;
mod model;
mod replies;

use edge_idempotency_engine::Policy;
use edge_idempotency_engine::api_keys::ApiKey;
use edge_idempotency_engine::call::{Call, CallReply};
use edge_idempotency_engine::identity::AttributeValue;
use edge_idempotency_engine::lookup::{
    CallId, KeyQuestion, LookupAnswer, LookupFailure, LookupRequest, Lookups, SenderNetwork, StoreAnswer, StoreKind,
};
use edge_idempotency_engine::policy::Secret;
use serde_json::{Value, json};

/// A call to a store, with the id for its reply.
type StoreCall = (CallId, Call);

/// Some moment: 2026-01-01T00:00:00Z in Unix milliseconds.
const START: u64 = 1_767_225_600_000;
const OWNER: &str = "acme:shop:stripe";
const HOOK: &str = "wh_01JSTRIPE";

/// Lifetimes that no two are the same of: 60 s positive, 10 s negative, 300 s stale.
fn policy(unkey: &Value, openbao: &Value) -> Policy {
    let merged = |base: Value, more: &Value| {
        let (mut base, more) = (base, more.as_object().unwrap());
        base.as_object_mut().unwrap().extend(more.clone());
        base
    };
    let document = json!({
        "version": 1,
        "backend": {"kind": "restate"},
        "allow_inline_secrets": true,
        "routes": [{"endpoint": "h", "path": "/h/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {}}],
        "identity": {"sources": [{
            "name": "api-key",
            "unkey": {"cluster": "keys", "header": "x-api-key"},
            "tenant": "/identity/externalId",
            "project": "/meta/project_id",
            "subject": {"field": "/keyId", "type": "service"},
        }]},
        "webhooks": {
            "unkey": merged(json!({"cluster": "unkey"}), unkey),
            "openbao": merged(json!({"cluster": "openbao"}), openbao),
        },
    });
    Policy::from_json(document.to_string().as_bytes()).unwrap()
}

/// The stores of a policy, a clock, and what is to be seen of both.
struct CacheSetup {
    lookups: Lookups,
    now: u64,
    streams: u32,
    /// Who asks, if the gateway knows.
    sender: Option<SenderNetwork>,
}

impl CacheSetup {
    fn new() -> Self {
        Self::with(&json!({}), &json!({}))
    }

    fn with(unkey: &Value, openbao: &Value) -> Self {
        Self { lookups: Lookups::of(&policy(unkey, openbao)).unwrap(), now: START, streams: 0, sender: None }
    }

    fn pass(&mut self, seconds: f64) {
        self.now += (seconds * 1000.0) as u64;
    }

    /// A request asks; its number, and the answer if it need not wait.
    fn ask(&mut self, kind: StoreKind, key: &str) -> (u32, Option<String>) {
        self.ask_how(kind, key, false)
    }

    fn ask_how(&mut self, kind: StoreKind, key: &str, force_refresh: bool) -> (u32, Option<String>) {
        self.streams += 1;
        let ask = request(kind, key, force_refresh);
        let answer = self.lookups.look_up(self.streams, &ask, &|| self.sender, self.now);
        // Only a request that waited for a call counts as a miss.
        assert!(answer.as_ref().is_none_or(|answer| name(answer) != "miss"), "{answer:?}");
        (self.streams, answer.as_ref().map(shown))
    }

    fn left(&mut self, stream: u32, kind: StoreKind, key: &str) {
        self.lookups.cancel(stream, &request(kind, key, false));
    }

    fn calls(&mut self) -> Vec<StoreCall> {
        std::iter::from_fn(|| self.lookups.next_call()).collect()
    }

    /// The only call that is due.
    fn call(&mut self) -> StoreCall {
        let mut calls = self.calls();
        assert_eq!(calls.len(), 1, "{:?}", calls.iter().map(path).collect::<Vec<_>>());
        calls.remove(0)
    }

    fn reply(&mut self, call: &StoreCall, status: u16, body: &Value) {
        self.reply_bytes(call, Some(status), Some(body.to_string().as_bytes()));
    }

    fn reply_bytes(&mut self, call: &StoreCall, status: Option<u16>, body: Option<&[u8]>) {
        self.lookups.replied(&call.0, &CallReply { status, body }, self.now);
    }

    /// No answer ever comes.
    fn fail(&mut self, call: &StoreCall) {
        self.reply_bytes(call, None, None);
    }

    /// Who has been answered, in their order, and what.
    fn answers(&mut self) -> Vec<(u32, String)> {
        let mut answers: Vec<(u32, String)> = std::iter::from_fn(|| self.lookups.next_answer())
            .map(|(stream, answer)| (stream, shown(&answer)))
            .collect();
        answers.sort();
        answers
    }

    /// Asks, makes the call with this reply, and gives the answer.
    fn fetch(&mut self, kind: StoreKind, key: &str, status: u16, body: &Value) -> String {
        let (stream, answer) = self.ask(kind, key);
        assert_eq!(answer, None, "{key} was held already");
        let call = self.call();
        self.reply(&call, status, body);
        let answers = self.answers();
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert_eq!(answers[0].0, stream);
        answers[0].1.clone()
    }

    fn tick(&mut self) -> Vec<StoreCall> {
        self.lookups.tick(self.now);
        self.calls()
    }
}

fn path(call: &StoreCall) -> &str {
    header(call, ":path").unwrap()
}

fn header<'c>(call: &'c StoreCall, name: &str) -> Option<&'c str> {
    let mut lines = call.1.headers.iter().filter(|(line, _)| *line == name);
    let value = lines.next().map(|(_, value)| value.as_str());
    assert!(lines.next().is_none(), "{name} twice");
    value
}

/// An answer as a text: `tenant:project:provider`, secrets with `+` between them, or `unknown:` and `unavailable:` with
/// the reason. A result beyond its time begins with `stale `.
fn shown(answer: &LookupAnswer) -> String {
    let text = match answer {
        LookupAnswer::Binding(StoreAnswer { result: Ok(binding), .. }) => {
            let scope = binding.key_scope.map(|scope| format!(" {scope:?}")).unwrap_or_default();
            let body = match binding.bind_body {
                Some(true) => " body",
                Some(false) => " no body",
                None => "",
            };
            format!("{}:{}:{}{scope}{body}", binding.tenant.as_str(), binding.project.as_str(), binding.provider)
        }
        LookupAnswer::Secrets(StoreAnswer { result: Ok(secrets), .. }) => {
            let text = |secret: &Secret| match secret {
                Secret::Value(value) => String::from_utf8_lossy(value).into_owned(),
                Secret::Env(_) | Secret::Sds(_) => panic!("a looked-up secret is a value"),
            };
            secrets.iter().map(text).collect::<Vec<_>>().join("+")
        }
        LookupAnswer::Holder(StoreAnswer { result: Ok(holder), .. }) => {
            let text = |value: &AttributeValue<'_>| match value {
                AttributeValue::Text(text) => String::from_utf8_lossy(text).into_owned(),
                other => format!("{other:?}"),
            };
            holder.values().iter().map(text).collect::<Vec<_>>().join(":")
        }
        LookupAnswer::Binding(StoreAnswer { result: Err(why), .. })
        | LookupAnswer::Secrets(StoreAnswer { result: Err(why), .. })
        | LookupAnswer::Holder(StoreAnswer { result: Err(why), .. }) => match why {
            LookupFailure::Unknown(reason) => format!("unknown:{}", reason.name()),
            LookupFailure::Unavailable(reason) => format!("unavailable:{}", reason.name()),
            LookupFailure::Forbidden(reason) => format!("forbidden:{}", reason.name()),
            LookupFailure::RateLimited { seconds } => format!("limited:{seconds}"),
        },
        other => panic!("no store gives {other:?}"),
    };
    if name(answer) == "stale" { format!("stale {text}") } else { text }
}

/// A lookup; the key of an API key is the key itself.
fn request(kind: StoreKind, key: &str, force_refresh: bool) -> LookupRequest {
    match kind {
        StoreKind::ApiKeys => {
            LookupRequest::about_key(KeyQuestion { key: ApiKey::new(key).unwrap(), permissions: None })
        }
        StoreKind::Bindings | StoreKind::Secrets => LookupRequest::new(kind, key.into(), force_refresh),
    }
}

fn name(answer: &LookupAnswer) -> &'static str {
    match answer {
        LookupAnswer::Binding(answer) => answer.name(),
        LookupAnswer::Secrets(answer) => answer.name(),
        LookupAnswer::Holder(answer) => answer.name(),
        other => panic!("no store gives {other:?}"),
    }
}

fn secret(text: &str) -> Value {
    version(text, 1, "2025-01-01T00:00:00Z")
}

fn version(text: &str, number: u64, created: &str) -> Value {
    json!({"data": {"data": {"secret": text}, "metadata": {"version": number, "created_time": created, "destroyed": false}}})
}

fn verified(tenant: &str) -> Value {
    json!({
        "meta": {"requestId": "req_1"},
        "data": {
            "valid": true,
            "code": "VALID",
            "keyId": "key_1",
            "enabled": true,
            "identity": {"id": "id_1", "externalId": tenant, "meta": {}},
            "meta": {"kind": "webhook", "project_id": "shop", "provider": "stripe"},
        },
    })
}

fn not_found() -> Value {
    json!({"meta": {"requestId": "req_1"}, "data": {"valid": false, "code": "NOT_FOUND"}})
}
