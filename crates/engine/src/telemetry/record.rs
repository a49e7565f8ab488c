//! The record of one exchange: its members, under the names of docs/operate.md, "The access log".

use super::{digest, payload_in_logs, written};
use crate::exchange::{Case, Exchange, Outcome, PayloadDigest};
use crate::json::to_text;
use crate::key;
use crate::operations::Operations;
use crate::policy::{KeyInLogs, Policy};
use crate::problem::Reason;
use crate::recovery::SEGMENT;

/// The record of one exchange, for logs. A member without a value is left out.
#[derive(Clone, Copy)]
pub struct Record<'a> {
    exchange: &'a Exchange,
    policy: &'a Policy,
}

/// The value of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemberValue<'a> {
    /// UTF-8
    Text(&'a [u8]),
    Flag(bool),
    Number(u8),
}

/// Which members of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RecordPart {
    /// Those that are the same for all requests of a route but its recoveries
    Route,
    /// Those that do not change after the request is decided
    Request,
    /// Those that the response can change
    Outcome,
}

/// Gives a member to `put`, if it has a value.
fn put_text(put: &mut dyn FnMut(&'static str, MemberValue<'_>), name: &'static str, value: Option<&str>) {
    if let Some(value) = value {
        put(name, MemberValue::Text(value.as_bytes()));
    }
}

impl Exchange {
    /// The record of the exchange for logs, as it is now.
    pub const fn record<'r>(&'r self, policy: &'r Policy) -> Record<'r> {
        Record { exchange: self, policy }
    }
}

impl<'a> Record<'a> {
    /// Gives each member of a part to `put`: its name and its value. A namespaced key is hashed here, if the policy wants
    /// its digest.
    pub(super) fn members(self, part: RecordPart, put: &mut dyn FnMut(&'static str, MemberValue<'_>)) {
        let Self { exchange, policy } = self;
        match part {
            RecordPart::Route => {
                put_text(put, "idempotency_policy", exchange.policy_name());
                put_text(put, "endpoint", exchange.endpoint(policy));
                put_text(put, "original_path", self.route_path().as_deref());
            }
            RecordPart::Request => {
                put_text(put, "idempotency_case", exchange.case().map(Case::name));
                let mut put_key = |name: &'static str, key: &str| match policy.key_in_logs {
                    KeyInLogs::Hash => put(name, MemberValue::Text(&digest(key))),
                    KeyInLogs::Full => put(name, MemberValue::Text(key.as_bytes())),
                    KeyInLogs::Off => {}
                };
                if let Some(key) = exchange.key() {
                    put_key("idempotency_key_namespaced", key);
                    // The backend got this one. Without it a log does not show whether several callers sent one key.
                    if exchange.shadow_verdict() == Some("rewrite")
                        && let Ok(key::Decoded { raw, .. }) = key::decode(key)
                    {
                        put_key("idempotency_key_raw", raw);
                    }
                }
                put_text(put, "idempotency_source", exchange.source_name());
                put_text(put, "idempotency_shadow", exchange.shadow_verdict());
                if let Some(problem) = exchange.problem() {
                    put_text(put, "idempotency_identity", problem.identity_reasons().as_deref());
                }
                if let Some(identity) = exchange.identity() {
                    put_text(put, "tenant", Some(identity.tenant.as_str()));
                    put_text(put, "project", Some(identity.project.as_str()));
                }
                put_text(put, "original_path", exchange.sent_path());
                self.put_payload(put, |payload| !matches!(payload, PayloadDigest::Observed(_)));
                if let Some(attempt) = exchange.attempt() {
                    put("attempt", MemberValue::Number(attempt));
                }
            }
            RecordPart::Outcome => {
                let outcome = exchange.outcome();
                put_text(put, "idempotency_outcome", Some(exchange.logged_outcome()));
                put_text(put, "idempotency_code", exchange.problem().map(|problem| problem.code.name()));
                put_text(put, "idempotency_reason", exchange.reason().map(Reason::name));
                self.put_payload(put, |payload| matches!(payload, PayloadDigest::Observed(_)));
                put_text(put, "restate_invocation_id", exchange.invocation());
                if matches!(outcome, Outcome::Replayed | Outcome::Stored) {
                    put("restate_cache_hit", MemberValue::Flag(outcome == Outcome::Replayed));
                }
            }
        }
    }

    /// Gives `payload_hash` to `put`, if this part of the record has it. It is hashed with the key, so it is in the part that is
    /// encoded once if it is known by then.
    fn put_payload(
        self,
        put: &mut dyn FnMut(&'static str, MemberValue<'_>),
        is_in_part: impl FnOnce(&PayloadDigest) -> bool,
    ) {
        let Self { exchange, policy } = self;
        let Some((payload, key)) = exchange.payload().filter(|payload| is_in_part(payload)).zip(exchange.key()) else {
            return;
        };
        let body;
        let digest = match payload {
            PayloadDigest::Compared(fingerprint) | PayloadDigest::Observed(fingerprint) => Some(fingerprint.as_str()),
            PayloadDigest::Body(digest) => {
                body = written(*digest);
                std::str::from_utf8(&body).ok()
            }
        };
        let shown = digest.and_then(|digest| payload_in_logs(policy.key_in_logs, key, digest));
        put_text(put, "payload_hash", shown.as_deref());
    }

    /// The path of the route in the policy; `None` without a route, and if logs show paths as they came. Those hold keys,
    /// subjects and ids of webhooks.
    fn route_path(self) -> Option<String> {
        if self.policy.key_in_logs == KeyInLogs::Full {
            return None;
        }
        if self.exchange.is_operation() {
            return self.policy.operations().map(Operations::template);
        }
        let mut path = self.policy.route(self.exchange.route_index()?)?.template.to_string();
        if self.exchange.is_recovery() {
            for part in ["/", SEGMENT, "/{key}"] {
                path.push_str(part);
            }
        }
        Some(path)
    }

    /// The record as a JSON object.
    pub fn to_json(self) -> String {
        self.to_json_with(None)
    }

    /// The record as a JSON object, with `request_id` as its last member if there is one.
    pub(super) fn to_json_with(self, request_id: Option<&str>) -> String {
        let mut json = String::with_capacity(512);
        let mut put = |name: &'static str, value: MemberValue<'_>| {
            let value = match value {
                MemberValue::Text(text) => to_text(&String::from_utf8_lossy(text)),
                MemberValue::Flag(flag) => (if flag { "true" } else { "false" }).to_owned(),
                MemberValue::Number(number) => number.to_string(),
            };
            for part in [if json.is_empty() { "{\"" } else { ",\"" }, name, "\":", &value] {
                json.push_str(part);
            }
        };
        for part in [RecordPart::Request, RecordPart::Route, RecordPart::Outcome] {
            self.members(part, &mut put);
        }
        if let Some(id) = request_id {
            put("request_id", MemberValue::Text(id.as_bytes()));
        }
        json.push('}');
        json
    }
}
