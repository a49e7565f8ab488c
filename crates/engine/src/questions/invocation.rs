//! The id of the invocation under a key. Restate gives a stored result by this id, and only by it for a request without a
//! body. Restate computes the id from service, object key, handler and idempotency key, and does not
//! ask whether there is such an invocation, so the id is not a secret and says nothing about other callers.
//!
//! Request and reply were taken from Restate 1.7.12 (docs/decisions/0013-restates-newer-paths.md).

use crate::backend::InvocationStore;
use crate::backend::restate;
use crate::call::{Call, CallReply};
use crate::codes::Reason;
use crate::json::{Json, to_text};
use crate::operations::is_invocation_id;
use crate::policy::HandlerAddress;
use serde::Serialize;
use std::sync::Arc;

/// Restate as metrics name it, when it is asked before a request is forwarded.
pub(crate) const STORE: &str = "restate";

/// The reason of a call without a usable reply.
pub(super) const FAILED: Reason = Reason::InvocationLookupFailed;
/// The reason of a reply that names no invocation.
const MALFORMED: Reason = Reason::InvocationLookupMalformed;

/// The body of `POST /restate/lookup`.
#[derive(Serialize)]
struct LookupBody<'k> {
    target: &'static str,
    service: &'k str,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'k str>,
    handler: &'k str,
    #[serde(rename = "idempotencyKey")]
    idempotency_key: &'k str,
}

/// The body of a question about an invocation.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct IdBody<'k> {
    target: &'static str,
    invocation_id: &'k str,
}

/// The question about an invocation: that of a handler under a namespaced key, or the one with an id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvocationQuestion {
    store: Arc<InvocationStore>,
    /// The body of the call
    pub body: String,
}

impl InvocationQuestion {
    /// `None` if the object's key is not UTF-8: Restate refuses such a key, so there is no invocation.
    pub(crate) fn new(store: &Arc<InvocationStore>, address: &HandlerAddress<'_>, key: &str) -> Option<Self> {
        Some(Self { store: Arc::clone(store), body: body(address, key)? })
    }

    /// The question about the invocation with this id.
    pub(super) fn of_id(store: &Arc<InvocationStore>, invocation_id: &str) -> Self {
        Self { store: Arc::clone(store), body: to_text(&IdBody { target: "invocation", invocation_id }) }
    }

    /// The call to this path of Restate.
    pub(super) fn call_at(&self, path: &str) -> Call {
        let headers = vec![
            (":method", "POST".to_owned()),
            (":path", path.to_owned()),
            (":authority", self.store.authority.clone()),
            ("accept", "application/json".to_owned()),
            ("content-type", "application/json".to_owned()),
        ];
        let (cluster, body) = (self.store.cluster.clone(), self.body.as_bytes().to_vec());
        Call { cluster, headers, body, timeout_ms: self.store.timeout_ms }
    }
}

/// The body of the lookup; `None` as for [`InvocationQuestion::new`].
fn body(address: &HandlerAddress<'_>, key: &str) -> Option<String> {
    let HandlerAddress { service, object_key, handler } = address;
    let object_key = object_key.as_deref().map(std::str::from_utf8).transpose().ok()?;
    let target = "idempotentInvocation";
    Some(to_text(&LookupBody { target, service, key: object_key, handler, idempotency_key: key }))
}

/// The call that asks for the id.
pub(crate) fn call(question: &InvocationQuestion) -> Call {
    question.call_at(restate::LOOKUP)
}

/// Reads the reply to [`call`].
///
/// # Errors
/// The reason why there is no id.
pub(crate) fn read(reply: &CallReply<'_>) -> Result<Box<str>, Reason> {
    let body = match (reply.status, reply.body) {
        (Some(200), Some(body)) => body,
        (None | Some(429 | 500..), _) => return Err(FAILED),
        (Some(_), _) => return Err(MALFORMED),
    };
    let reply = Json::parse(body).ok();
    match reply.as_ref().and_then(|reply| reply.at(&["invocationId"])).and_then(Json::text) {
        Some(id) if is_invocation_id(id) => Ok(id.into()),
        _ => Err(MALFORMED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_id_is_taken() {
        let read = |status, body: &str| {
            let read = read(&CallReply { status, body: Some(body.as_bytes()) });
            read.unwrap_or_else(|reason| reason.name().into()).to_string()
        };
        let real = "inv_1dtk9UiTgj376Apf48SpfMZ6YDsThy0N22";
        assert_eq!(read(Some(200), &format!(r#"{{"invocationId":"{real}"}}"#)), real);
        let longest = format!("inv_{}", "a".repeat(60));
        assert_eq!(read(Some(200), &format!(r#"{{"more":1,"invocationId":"{longest}"}}"#)), longest);
        let malformed = [
            "",
            "[]",
            "{}",
            r#"{"invocationId":7}"#,
            r#"{"invocationId":"inv_"}"#,
            r#"{"invocationId":"inv_1/../../health"}"#,
            r#"{"invocationId":"inv_1?a"}"#,
            r#"{"invocationId":"inv_1\n"}"#,
            r#"{"invocationId":"prom_1"}"#,
            r#"{"invocationId":"inv_é"}"#,
            r#"{"invocationId":"inv_1","invocationId":"inv_2"}"#,
            &format!(r#"{{"invocationId":"{longest}a"}}"#),
        ];
        for body in malformed {
            assert_eq!(read(Some(200), body), "invocation_lookup_malformed", "{body}");
        }
        for status in [Some(301), Some(400), Some(404)] {
            assert_eq!(read(status, "{}"), "invocation_lookup_malformed", "{status:?}");
        }
        for status in [None, Some(429), Some(500), Some(503), Some(504)] {
            assert_eq!(
                read(status, &format!(r#"{{"invocationId":"{real}"}}"#)),
                "invocation_lookup_failed",
                "{status:?}"
            );
        }
        assert!(super::read(&CallReply { status: Some(200), body: None }).is_err());
    }

    #[test]
    fn the_body_names_the_invocation() {
        let body = |service, object_key: Option<&[u8]>, handler| {
            body(&HandlerAddress { service, object_key: object_key.map(<[u8]>::to_vec), handler }, "t-a:p:user:u:k")
        };
        assert_eq!(
            body("Refunds", None, "create").unwrap(),
            r#"{"target":"idempotentInvocation","service":"Refunds","handler":"create","idempotencyKey":"t-a:p:user:u:k"}"#
        );
        assert_eq!(
            body("Cart", Some("a:\"\n/é".as_bytes()), "checkout").unwrap(),
            r#"{"target":"idempotentInvocation","service":"Cart","key":"a:\"\n/é","handler":"checkout","idempotencyKey":"t-a:p:user:u:k"}"#
        );
        assert_eq!(body("Cart", Some(b"a\xff"), "checkout"), None);
    }
}
