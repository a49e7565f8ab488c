//! The members of the record of one exchange, under the names of docs/contract.md section 9.

use crate::json::to_text;
use crate::policy::Template;
use crate::policy::recovery::SEGMENT;
use std::borrow::Cow;

/// The record of one exchange. A member without a value is left out.
#[derive(Debug, Clone, Default)]
pub struct Record<'a> {
    /// `idempotency_case`
    pub case: Option<&'static str>,
    /// `idempotency_key_namespaced`, in the form that `telemetry.key_in_logs` asks for
    pub key: Option<Cow<'a, str>>,
    /// `idempotency_source`
    pub source: Option<&'static str>,
    /// `idempotency_policy`
    pub policy: Option<&'a str>,
    /// `idempotency_outcome`
    pub outcome: &'static str,
    /// `idempotency_code`
    pub code: Option<&'static str>,
    /// `idempotency_reason`
    pub reason: Option<&'static str>,
    /// `idempotency_shadow`: `refuse` or `rewrite`
    pub shadow: Option<&'static str>,
    /// `idempotency_identity`: which parts of the caller's identity are missing or wrong, and why
    pub identity: Option<String>,
    /// `restate_invocation_id`
    pub invocation: Option<&'a str>,
    /// `restate_cache_hit`
    pub cache_hit: Option<bool>,
    /// `tenant`
    pub tenant: Option<&'a str>,
    /// `project`
    pub project: Option<&'a str>,
    /// `endpoint`
    pub endpoint: Option<&'a str>,
    /// `original_path`
    pub(crate) original_path: Option<RecordedPath<'a>>,
}

/// The path of a request in its record.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RecordedPath<'a> {
    /// As the client sent it, without its query
    Sent(&'a str),
    /// The path of the route
    Route(&'a Template),
    /// The recovery path of the route
    Recovery(&'a Template),
}

impl<'a> RecordedPath<'a> {
    fn text(self) -> Cow<'a, str> {
        match self {
            Self::Sent(path) => Cow::Borrowed(path),
            Self::Route(template) => Cow::Owned(template.to_string()),
            Self::Recovery(template) => Cow::Owned(format!("{template}/{SEGMENT}/{{key}}")),
        }
    }
}

/// The value of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemberValue<'a> {
    Text(&'a str),
    Flag(bool),
}

/// Which members of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Those that are the same for all requests of a route
    Route,
    /// Those that do not change after the request is decided
    Request,
    /// Those that the response can change
    Outcome,
}

impl Record<'_> {
    /// Gives each member of a part to `put`: its name and its value.
    pub(super) fn members(&self, part: Part, put: &mut dyn FnMut(&'static str, MemberValue<'_>)) {
        let mut text = |name, value: Option<&str>| {
            if let Some(value) = value {
                put(name, MemberValue::Text(value));
            }
        };
        match part {
            Part::Route => {
                text("idempotency_policy", self.policy);
                text("endpoint", self.endpoint);
                if let Some(path) = self.original_path.filter(|path| matches!(path, RecordedPath::Route(_))) {
                    text("original_path", Some(&path.text()));
                }
            }
            Part::Request => {
                text("idempotency_case", self.case);
                text("idempotency_key_namespaced", self.key.as_deref());
                text("idempotency_source", self.source);
                text("idempotency_shadow", self.shadow);
                text("idempotency_identity", self.identity.as_deref());
                text("tenant", self.tenant);
                text("project", self.project);
                if let Some(path) = self.original_path.filter(|path| !matches!(path, RecordedPath::Route(_))) {
                    text("original_path", Some(&path.text()));
                }
            }
            Part::Outcome => {
                text("idempotency_outcome", Some(self.outcome));
                text("idempotency_code", self.code);
                text("idempotency_reason", self.reason);
                text("restate_invocation_id", self.invocation);
                if let Some(hit) = self.cache_hit {
                    put("restate_cache_hit", MemberValue::Flag(hit));
                }
            }
        }
    }

    /// The record as a JSON object.
    pub fn to_json(&self) -> String {
        self.to_json_with(None)
    }

    /// The record as a JSON object, with `request_id` as its last member if there is one.
    #[inline(never)]
    pub(super) fn to_json_with(&self, request_id: Option<String>) -> String {
        let mut json = String::with_capacity(512);
        let mut put = |name: &'static str, value: MemberValue<'_>| {
            let separator = if json.is_empty() { "{\"" } else { ",\"" };
            let value = match value {
                MemberValue::Text(text) => to_text(&text),
                MemberValue::Flag(flag) => (if flag { "true" } else { "false" }).to_owned(),
            };
            for part in [separator, name, "\":", &value] {
                json.push_str(part);
            }
        };
        for part in [Part::Request, Part::Route, Part::Outcome] {
            self.members(part, &mut put);
        }
        if let Some(id) = request_id {
            put("request_id", MemberValue::Text(&id));
        }
        json.push('}');
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_without_a_value_are_left_out() {
        let record = Record { outcome: "forwarded", cache_hit: Some(false), ..Record::default() };
        assert_eq!(record.to_json(), r#"{"idempotency_outcome":"forwarded","restate_cache_hit":false}"#);
    }

    #[test]
    fn a_path_is_the_routes_or_the_clients() {
        let template = Template::parse("/api/users/{user}").unwrap();
        let path = |path| Record { outcome: "rejected", original_path: Some(path), ..Record::default() }.to_json();
        let expected = |path: &str| format!(r#"{{"original_path":"{path}","idempotency_outcome":"rejected"}}"#);
        assert_eq!(path(RecordedPath::Sent("/api/users/a")), expected("/api/users/a"));
        assert_eq!(path(RecordedPath::Route(&template)), expected("/api/users/{user}"));
        assert_eq!(path(RecordedPath::Recovery(&template)), expected("/api/users/{user}/by-idempotency-key/{key}"));
    }

    #[test]
    fn text_is_escaped() {
        let record = Record { outcome: "forwarded", tenant: Some("a\"\n\u{e9}"), ..Record::default() };
        let json: serde_json::Value = serde_json::from_str(&record.to_json_with(Some("id".to_owned()))).unwrap();
        assert_eq!(json["tenant"], "a\"\n\u{e9}");
        assert_eq!(json["request_id"], "id");
    }
}
