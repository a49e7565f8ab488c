//! Stores with given content, for `explain` and for tests. They reply in the formats of Unkey and OpenBao, so that the
//! code that reads those formats runs too.

use super::{CallId, LookupAnswer, LookupRequest, Lookups, PendingLookup, StoreKind, in_flight, invocation};
use crate::call::{Call, CallReply};
use crate::codes::Reason;
use crate::collision::{self, Claim};
use crate::json::{Json, to_text};
use crate::policy::Policy;
use sha2::{Digest as _, Sha256};
use std::borrow::Cow;

/// The content of the two stores, and the replies to lookups of invocations, to claims, and to questions about keys in flight.
///
/// `bindings` maps a webhook id to `{"tenant", "project", "provider", "key_scope"?, "bind_body"?}`. `secrets` maps
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
/// `in_flight` is Restate's response to every question whether a key is in flight, or the word `unreachable`. Without it no key
/// is.
///
/// By default neither store can be reached.
#[derive(Debug, Clone, Default)]
pub struct FakeStores {
    entries: Option<Entries>,
    invocations: Option<Json<'static>>,
    guard: Option<Json<'static>>,
    in_flight: Option<Json<'static>>,
}

#[derive(Debug, Clone)]
struct Entries {
    bindings: Members,
    secrets: Members,
}

type Members = Vec<Member<'static>>;

type Member<'t> = (Cow<'t, str>, Json<'t>);

impl FakeStores {
    /// Reads `{"bindings": {…}, "secrets": {…}, "invocations": {…}, "guard": {…}, "in_flight": {…}}`.
    ///
    /// # Errors
    /// A message that says what is wrong with the JSON.
    pub fn read(json: &Json) -> Result<Self, String> {
        let Json::Object(members) = json else {
            return Err(
                "expected an object with `bindings`, `secrets`, `invocations`, `guard` and `in_flight`".to_owned()
            );
        };
        let (mut bindings, mut secrets) = (Vec::new(), Vec::new());
        let (mut invocations, mut guard, mut in_flight) = (None, None, None);
        for (name, value) in members {
            let (target, is_known): (_, fn(&Json<'_>) -> bool) = match name.as_ref() {
                "bindings" => (&mut bindings, |value| matches!(value, Json::Null | Json::Object(_))),
                "secrets" => (&mut secrets, |value| !matches!(value, Json::Bool(_) | Json::Number(_))),
                "invocations" | "guard" | "in_flight" => {
                    if response(value).is_none() && value.text() != Some("unreachable") {
                        return Err(format!("`{name}` is neither a response with a `status` nor `unreachable`"));
                    }
                    let place = match name.as_ref() {
                        "guard" => &mut guard,
                        "in_flight" => &mut in_flight,
                        _ => &mut invocations,
                    };
                    *place = Some(value.detached());
                    continue;
                }
                _ => {
                    return Err(format!(
                        "unknown member `{name}`; known here: `bindings`, `secrets`, `invocations`, `guard`, `in_flight`"
                    ));
                }
            };
            let Json::Object(entries) = value.detached() else { return Err(format!("`{name}` is no object")) };
            if let Some((key, value)) = entries.iter().find(|(_, value)| !is_known(value)) {
                return Err(format!("`{name}` has {} for `{key}`", value.kind()));
            }
            *target = entries;
        }
        Ok(Self { entries: Some(Entries { bindings, secrets }), invocations, guard, in_flight })
    }

    /// The answer to any lookup, with an immediate reply to every call. `lookups` are those of the policy.
    pub fn answer(&self, lookups: Option<&mut Lookups>, lookup: PendingLookup<'_>, now: u64) -> LookupAnswer {
        match lookup {
            PendingLookup::Store(request) => match lookups {
                Some(lookups) => self.look_up(lookups, request, now),
                None => request.lost(),
            },
            PendingLookup::Invocation(body) => LookupAnswer::Invocation(self.look_up_invocation(body)),
            PendingLookup::Claim(claim) => LookupAnswer::FirstClaim(self.claim(claim)),
            PendingLookup::InFlight(_) => LookupAnswer::InFlight(self.ask_in_flight()),
        }
    }

    /// The result of the lookup of an invocation with this body.
    ///
    /// # Errors
    /// The reason why there is no id.
    pub fn look_up_invocation(&self, body: &str) -> Result<Box<str>, Reason> {
        let (status, body) = self.invocation_reply(body.as_bytes());
        invocation::read(&CallReply { status, body: Some(&body) })
    }

    /// The fingerprint of the first claim under the key of this one.
    fn claim(&self, claim: &Claim) -> Result<Box<str>, Reason> {
        let (status, body) = self.guard_reply(to_text(&claim.fingerprint).as_bytes());
        collision::read(&CallReply { status, body: Some(&body) })
    }

    /// The guard's reply to a claim with this body: the status (`None` for no response) and the body.
    pub fn guard_reply(&self, body: &[u8]) -> (Option<u16>, Vec<u8>) {
        match &self.guard {
            Some(Json::String(_)) => (None, Vec::new()),
            Some(entry) => response(entry).unwrap_or_default(),
            None => (Some(200), body.to_vec()),
        }
    }

    /// The answer to the question whether a key is in flight.
    fn ask_in_flight(&self) -> Result<bool, Reason> {
        let (status, body) = self.in_flight_reply();
        in_flight::read(&CallReply { status, body: Some(&body) })
    }

    /// Restate's reply to the question whether a key is in flight: the status (`None` for no response) and the body.
    pub fn in_flight_reply(&self) -> (Option<u16>, Vec<u8>) {
        match &self.in_flight {
            Some(Json::String(_)) => (None, Vec::new()),
            Some(entry) => response(entry).unwrap_or_default(),
            None => (Some(404), br#"{"code":404,"message":"invocation not found","source":"ingress"}"#.to_vec()),
        }
    }

    /// Restate's reply to the lookup of an invocation: the status (`None` for no response) and the body.
    pub fn invocation_reply(&self, body: &[u8]) -> (Option<u16>, Vec<u8>) {
        match &self.invocations {
            Some(Json::String(_)) => return (None, Vec::new()),
            Some(entry) => return response(entry).unwrap_or_default(),
            None => {}
        }
        let digest = Sha256::digest(body);
        let id: String = digest.iter().take(17).map(|byte| format!("{byte:02x}")).collect();
        (Some(200), format!(r#"{{"invocationId":"inv_{id}"}}"#).into_bytes())
    }

    /// The reply to a call of a configuration with this policy: the status (`None` for no response) and the body. What is asked
    /// for is read from the call.
    pub fn reply_to(&self, policy: &Policy, call: &Call) -> (Option<u16>, Vec<u8>) {
        let line =
            |name: &str| call.headers.iter().find(|(line, _)| *line == name).map_or("", |(_, value)| value.as_str());
        let (path, query) = line(":path").split_once('?').unwrap_or((line(":path"), ""));
        match path {
            "/restate/lookup" => self.invocation_reply(&call.body),
            "/restate/output" => self.in_flight_reply(),
            _ if path.starts_with("/restate/call/") => self.guard_reply(&call.body),
            _ if line(":method") == "POST" => {
                let body = Json::parse(&call.body).ok();
                let id = body.as_ref().and_then(|body| body.at(&["key"])).and_then(Json::text).unwrap_or_default();
                self.reply_for(StoreKind::Bindings, id, false)
            }
            _ => {
                let secrets = self.entries.iter().flat_map(|entries| &entries.secrets);
                let is_asked =
                    |owner: &str| policy.openbao().is_some_and(|openbao| openbao.request_path(owner) == path);
                let owner = secrets.map(|(owner, _)| owner.as_ref()).find(|owner| is_asked(owner));
                self.reply_for(StoreKind::Secrets, owner.unwrap_or_default(), !query.is_empty())
            }
        }
    }

    /// The answer to a lookup in a store, with an immediate reply to every call.
    pub fn look_up(&self, lookups: &mut Lookups, request: &LookupRequest, now: u64) -> LookupAnswer {
        const STREAM: u32 = 0;
        if let Some(answer) = lookups.look_up(STREAM, request, &|| None, now) {
            return answer;
        }
        while let Some((id, _)) = lookups.next_call() {
            let (status, body) = self.reply(&id);
            lookups.replied(&id, &CallReply { status, body: Some(&body) }, now);
        }
        lookups.answer_for(STREAM).unwrap_or_else(|| request.lost())
    }

    /// The store's reply to a call: the status (`None` for no response) and the body.
    pub fn reply(&self, call: &CallId) -> (Option<u16>, Vec<u8>) {
        self.reply_for(call.kind, &call.key, call.previous)
    }

    /// The store's reply for a key, or for its previous version.
    pub fn reply_for(&self, kind: StoreKind, key: &str, previous: bool) -> (Option<u16>, Vec<u8>) {
        let Some(entries) = &self.entries else { return (None, Vec::new()) };
        let entries = if kind == StoreKind::Bindings { &entries.bindings } else { &entries.secrets };
        let entry = member(entries, key).filter(|entry| **entry != Json::Null);
        let entry = if previous { entry.and_then(|entry| member(members(entry), "previous")) } else { entry };
        if let Some(response) = entry.and_then(response) {
            return response;
        }
        let (status, body) = match (kind, entry) {
            (StoreKind::Bindings, Some(binding)) => (200, verified(members(binding))),
            (StoreKind::Bindings, None) => {
                (200, r#"{"meta":{"requestId":"req_1"},"data":{"valid":false,"code":"NOT_FOUND"}}"#.to_owned())
            }
            (StoreKind::Secrets, Some(secret)) => {
                let data = match secret {
                    Json::String(_) => format!(r#"{{"secret":{}}}"#, to_text(secret)),
                    Json::Array(_) => format!(r#"{{"secrets":{}}}"#, to_text(secret)),
                    data => to_text(data),
                };
                let metadata = r#"{"created_time":"2025-01-01T00:00:00Z","destroyed":false,"version":1}"#;
                (200, format!(r#"{{"data":{{"data":{data},"metadata":{metadata}}}}}"#))
            }
            (StoreKind::Secrets, None) => (404, r#"{"errors":[]}"#.to_owned()),
        };
        (Some(status), body.into_bytes())
    }
}

/// The HTTP response that an entry gives; `None` if it gives a value.
fn response(entry: &Json) -> Option<(Option<u16>, Vec<u8>)> {
    let status = member(members(entry), "status")?.integer().and_then(|status| u16::try_from(status).ok());
    let body = match member(members(entry), "body") {
        None => String::new(),
        Some(Json::String(text)) => text.as_ref().to_owned(),
        Some(json) => to_text(json),
    };
    Some((status, body.into_bytes()))
}

fn members<'j, 't>(json: &'j Json<'t>) -> &'j [Member<'t>] {
    if let Json::Object(members) = json { members } else { &[] }
}

fn member<'j, 't>(members: &'j [Member<'t>], name: &str) -> Option<&'j Json<'t>> {
    members.iter().find(|(member, _)| member == name).map(|(_, value)| value)
}

/// Unkey's response for a key with this binding.
fn verified(binding: &[Member<'_>]) -> String {
    let of = |name: &str| member(binding, name).cloned().unwrap_or(Json::Null);
    let mut meta = vec![
        ("kind".into(), Json::String("webhook".into())),
        ("project_id".into(), of("project")),
        ("provider".into(), of("provider")),
    ];
    let optional = binding.iter().filter(|(name, _)| ["key_scope", "bind_body"].contains(&name.as_ref()));
    meta.extend(optional.cloned());
    let (tenant, meta) = (to_text(&of("tenant")), to_text(&Json::Object(meta)));
    format!(
        r#"{{"meta":{{"requestId":"req_1"}},"data":{{"valid":true,"code":"VALID","keyId":"key_1","enabled":true,"identity":{{"id":"id_1","externalId":{tenant}}},"meta":{meta}}}}}"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_told() {
        for (given, expected) in [
            ("[]", "expected an object with `bindings`, `secrets`, `invocations`, `guard` and `in_flight`"),
            (
                r#"{"binding": {}}"#,
                "unknown member `binding`; known here: `bindings`, `secrets`, `invocations`, `guard`, `in_flight`",
            ),
            (r#"{"secrets": []}"#, "`secrets` is no object"),
            (r#"{"bindings": {"wh_1": "acme"}}"#, "`bindings` has a string for `wh_1`"),
            (
                r#"{"invocations": {"id": "inv_1"}}"#,
                "`invocations` is neither a response with a `status` nor `unreachable`",
            ),
            (r#"{"secrets": {"a:b:c": 7}}"#, "`secrets` has a number for `a:b:c`"),
        ] {
            assert_eq!(FakeStores::read(&Json::parse(given.as_bytes()).unwrap()).unwrap_err(), expected, "{given}");
        }
    }

    #[test]
    fn answers_are_the_stores_own() {
        let given = br#"{"bindings": {"wh_1": {"tenant": "a\n", "project": "p", "provider": "x", "bind_body": true}},
            "secrets": {"a": "s", "b": ["s", "t"], "c": {"status": 503, "body": {"errors": [1, -1, null, false]}},
            "d": {"status": null}, "e": {"status": 200, "body": "x", "previous": {"status": 404}}}}"#;
        let given = FakeStores::read(&Json::parse(given).unwrap()).unwrap();
        let reply_for = |kind, key, previous| {
            let (status, body) = given.reply_for(kind, key, previous);
            (status, String::from_utf8(body).unwrap())
        };
        assert_eq!(
            reply_for(StoreKind::Bindings, "wh_1", false).1,
            r#"{"meta":{"requestId":"req_1"},"data":{"valid":true,"code":"VALID","keyId":"key_1","enabled":true,"identity":{"id":"id_1","externalId":"a\n"},"meta":{"kind":"webhook","project_id":"p","provider":"x","bind_body":true}}}"#
        );
        assert!(reply_for(StoreKind::Bindings, "wh_2", false).1.contains("NOT_FOUND"));
        let metadata = r#""metadata":{"created_time":"2025-01-01T00:00:00Z","destroyed":false,"version":1}}}"#;
        assert_eq!(
            reply_for(StoreKind::Secrets, "a", false).1,
            format!(r#"{{"data":{{"data":{{"secret":"s"}},{metadata}"#)
        );
        assert_eq!(
            reply_for(StoreKind::Secrets, "b", false).1,
            format!(r#"{{"data":{{"data":{{"secrets":["s","t"]}},{metadata}"#)
        );
        assert_eq!(
            reply_for(StoreKind::Secrets, "c", false),
            (Some(503), r#"{"errors":[1,-1,null,false]}"#.to_owned())
        );
        assert_eq!(reply_for(StoreKind::Secrets, "d", false), (None, String::new()));
        assert_eq!(reply_for(StoreKind::Secrets, "e", true), (Some(404), String::new()));
        assert_eq!(reply_for(StoreKind::Secrets, "f", false), (Some(404), r#"{"errors":[]}"#.to_owned()));
        assert_eq!(FakeStores::default().reply_for(StoreKind::Secrets, "a", false), (None, Vec::new()));
    }
}
