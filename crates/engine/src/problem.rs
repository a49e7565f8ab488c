//! Problem documents (RFC 9457), the replies to refused requests (docs/contract.md section 8). Their details name the
//! violated limit and never repeat a value of the request (invariant I6).

mod challenge;
mod identity;
mod rpc;

pub use crate::codes::{Audience, Code, CodeExplanation, Reason, ReasonTable, Retry, RpcStatus};
pub use identity::IdentityProblem;
pub use rpc::{CallerProtocol, ProblemAnswer};

use crate::api_keys::ApiKeyPlace;
use crate::json::to_text;
use crate::key::{KeyError, KeyRules};
use crate::policy::Answers;
use crate::policy::path::PathError;
use crate::uuid::Uuid;
use challenge::{Credential, SIGNATURE};
use identity::PartProblem;
use serde::Serialize;
use std::borrow::Cow;

/// The status that asks for a credential.
const UNAUTHENTICATED: u16 = 401;
/// The `Retry-After` of a problem with a store or with memory, in seconds.
const STORE_RETRY_AFTER: u32 = 30;
/// The `Retry-After` of a problem with the backend, in seconds. A cluster elects a new leader in about this time, and clients
/// add a random time to it.
const BACKEND_RETRY_AFTER: u32 = 5;

/// The `Retry-After` of a request whose key is in flight.
const IN_FLIGHT_RETRY_AFTER: u32 = 2;

/// A refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// What is wrong
    pub code: Code,
    /// The HTTP status, if it is not the default of the code
    pub status: Option<u16>,
    /// The reason, if the code has several
    pub reason: Option<Reason>,
    /// What the client has to change
    pub detail: Cow<'static, str>,
    /// The methods that the path has, for 405
    pub allow: Option<String>,
    /// The seconds of `Retry-After`, for 503, for a key in flight (409) and for a rate limit (429)
    pub retry_after: Option<u32>,
    /// The retry advice, if it is not the default of the code
    pub advice: Option<Retry>,
    /// The gateway's id of the request
    pub instance: Option<Uuid>,
    /// The parts of the caller's identity that are missing or wrong
    pub identity: Vec<IdentityProblem>,
    /// What a 401 asks for in `WWW-Authenticate`, if it is no signature
    pub challenge: Option<Box<str>>,
}

/// The members of a problem document, in their order (RFC 9457 section 3.1; `code` and what follows are our own).
#[derive(Serialize)]
struct ProblemDocument<'p> {
    #[serde(rename = "type")]
    kind: &'p str,
    title: &'p str,
    status: u16,
    detail: &'p str,
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    code: &'p str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'p str>,
    retry: &'p str,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    identity: &'p [PartProblem],
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<ErrorMember<'p>>,
}

/// The member `error`, as clients of Stripe's API expect it (<https://docs.stripe.com/api/errors>).
#[derive(Serialize)]
struct ErrorMember<'p> {
    code: &'p str,
    message: &'p str,
    #[serde(rename = "type")]
    kind: &'p str,
    #[serde(skip_serializing_if = "Option::is_none")]
    doc_url: Option<&'p str>,
}

impl Problem {
    /// Whether it says that the request has no valid identity.
    pub(crate) const fn is_about_identity(&self) -> bool {
        matches!(self.code, Code::IdentityMissing | Code::IdentityInvalid | Code::IdentityReserved)
    }

    /// A problem with this code; `detail` tells the client what happened and what to change.
    #[inline(never)]
    pub(crate) fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            status: None,
            reason: None,
            detail: detail.into(),
            allow: None,
            retry_after: None,
            advice: None,
            instance: None,
            identity: Vec::new(),
            challenge: None,
        }
    }

    /// A key is required and none was sent. `rules`: those of the route, which may name more places.
    pub fn key_required(rules: Option<&KeyRules>) -> Self {
        let detail: Cow<'static, str> = match rules.filter(|rules| !rules.from.is_empty()) {
            None => {
                "This operation must be called with an Idempotency-Key header. Send a new key (a UUID, version 4) for each \
                 intended effect, and the same key for each retry of it."
            }
            .into(),
            Some(rules) => format!(
                "This operation must be called with an idempotency key in one of these places: {}. Send a new key for each \
                 intended effect, and the same key for each retry of it.",
                rules.places()
            )
            .into(),
        };
        Self::new(Code::KeyRequired, detail)
    }

    /// The key does not fit the grammar.
    pub fn key_invalid(why: KeyError) -> Self {
        let advice = why.is_of_body().then_some(Retry::NewRequest);
        Self { reason: Some(why.reason()), advice, ..Self::new(Code::KeyInvalid, why.detail()) }
    }

    /// The key breaks a rule of the policy, or does not fit the grammar.
    pub fn key_refused(why: KeyError, rules: &KeyRules) -> Self {
        Self { detail: rules.detail(why), ..Self::key_invalid(why) }
    }

    /// A key was sent to a route that accepts none.
    pub fn key_prohibited() -> Self {
        Self::new(
            Code::KeyProhibited,
            "This operation takes no idempotency key. Send the request without the Idempotency-Key header.",
        )
    }

    /// The key was used with another request.
    pub fn key_reused() -> Self {
        Self::new(
            Code::KeyReused,
            "This idempotency key was used with another request: the method, the path, the query, the content type or the body \
             differs. Send a new key for a new operation, and repeat a request unchanged.",
        )
    }

    /// Readers could disagree about the path.
    pub fn path_ambiguous(why: PathError) -> Self {
        Self::new(Code::PathAmbiguous, why.detail())
    }

    /// No such path.
    pub fn not_found() -> Self {
        Self::new(Code::NotFound, "There is nothing at this path.")
    }

    /// The path has other methods.
    pub fn method_not_allowed(methods: &[&str]) -> Self {
        let allow = methods.join(", ");
        let detail = format!("This path can be called with {allow}.");
        Self { allow: Some(allow), ..Self::new(Code::MethodNotAllowed, detail) }
    }

    /// The gateway's configuration and the policy do not agree.
    pub fn policy_invalid() -> Self {
        Self::new(
            Code::PolicyInvalid,
            "The service is set up wrongly and cannot take this request. Its operator has to mend that.",
        )
    }

    /// The filter is in a state that should not be possible, or its host has failed.
    pub fn internal_error() -> Self {
        Self::internal_error_of(true)
    }

    /// As [`Problem::internal_error`]. If the backend may have the request already, and it has no key (`can_repeat` is false),
    /// nobody should send it again.
    #[inline(never)]
    pub fn internal_error_of(can_repeat: bool) -> Self {
        if !can_repeat {
            let detail = "The gateway has failed to handle the request, and the backend may have done its work: do not send it \
                          again unless you know that it is safe.";
            return Self { advice: Some(Retry::Never), ..Self::new(Code::InternalError, detail) };
        }
        Self {
            retry_after: Some(BACKEND_RETRY_AFTER),
            ..Self::new(
                Code::InternalError,
                "The gateway has failed to handle the request. Send the same request again later, with the same idempotency key \
                 if it had one.",
            )
        }
    }

    /// The backend does not know the target's service or handler: the policy is wrong, or a node of the backend has just
    /// started and does not know its services yet.
    pub fn target_unknown() -> Self {
        Self {
            retry_after: Some(BACKEND_RETRY_AFTER),
            advice: Some(Retry::SameKey),
            ..Self::new(
                Code::PolicyInvalid,
                "The backend does not know this operation, so nothing was done. It may be starting: send the same request \
                 again later. If this goes on, the operator has to mend the configuration.",
            )
        }
    }

    /// The webhook id is unknown or belongs to another provider. Both have the same response, so that ids cannot be
    /// enumerated.
    pub fn webhook_unknown() -> Self {
        Self::new(Code::WebhookUnknown, "There is no such webhook.")
    }

    /// The webhook's signature does not verify. The reason is logged and not shown.
    pub fn webhook_signature_invalid() -> Self {
        Self::new(Code::WebhookSignatureInvalid, "The webhook's signature could not be verified.")
    }

    /// The signature of a signed caller does not verify. The reason is logged and not shown.
    pub fn signature_invalid() -> Self {
        Self::new(Code::SignatureInvalid, "The request's signature could not be verified.")
    }

    /// The delivery is verified, but it has no identifier for a key.
    pub fn transport_translation_failed() -> Self {
        Self::new(
            Code::TransportTranslationFailed,
            "The delivery holds no identifier, or an ambiguous one, so a redelivery could not be told from a new one.",
        )
    }

    /// The delivery is verified, and its body does not name what it is for.
    pub fn target_member_failed(detail: String) -> Self {
        Self::new(Code::TransportTranslationFailed, detail)
    }

    /// The API key at this place is not valid. The answer is the same for unknown, disabled and expired keys.
    pub fn api_key_invalid(place: Option<&ApiKeyPlace>) -> Self {
        Self {
            challenge: place.map(|place| Credential::ApiKey(place).challenge_to_invalid().into()),
            ..Self::new(Code::ApiKeyInvalid, "The request's API key is not valid. Send a valid one.")
        }
    }

    /// The API key is valid, and may not do this.
    pub fn api_key_forbidden() -> Self {
        Self::new(Code::ApiKeyForbidden, "The request's API key may not be used for this operation.")
    }

    /// The API key is above a rate limit for so many seconds.
    pub fn rate_limited(seconds: u32) -> Self {
        Self {
            retry_after: Some(seconds),
            ..Self::new(
                Code::RateLimited,
                "The request's API key has sent too many requests. Send the same request again later, with the same idempotency key \
                 if it had one.",
            )
        }
    }

    /// The body is longer than `limit` bytes.
    pub fn body_too_large(limit: u64) -> Self {
        Self::new(Code::BodyTooLarge, format!("The body is longer than {limit} bytes."))
    }

    /// The body has to be read and is compressed.
    pub fn unsupported_content_encoding() -> Self {
        Self::new(
            Code::UnsupportedContentEncoding,
            "The body has to be sent without a content encoding: what is in it is read, and its signature covers it.",
        )
    }

    /// The content type is one of gRPC, and the backend would take the request for another call.
    pub fn unsupported_content_type() -> Self {
        Self::new(
            Code::UnsupportedContentType,
            "This operation cannot be called by gRPC: send another content type than application/grpc, such as application/json.",
        )
    }

    /// A store that the request needs is not available.
    pub fn dependency_unavailable() -> Self {
        Self {
            retry_after: Some(STORE_RETRY_AFTER),
            ..Self::new(
                Code::DependencyUnavailable,
                "The request could not be checked right now. Nothing was done; send it again later.",
            )
        }
    }

    /// The backend, or the guard in it, could not be asked about the request.
    pub fn backend_check_failed() -> Self {
        Self { retry_after: Some(BACKEND_RETRY_AFTER), ..Self::dependency_unavailable() }
    }

    /// Nothing is stored under the key. The response is the same for an unused key and for another caller's key.
    pub fn key_unknown() -> Self {
        Self::new(
            Code::KeyUnknown,
            "Nothing is stored under this idempotency key: no such request has come in, or its result has expired. The \
             original request can be sent again with the same key.",
        )
    }

    /// The first request with the key is in flight.
    pub fn key_in_flight() -> Self {
        Self {
            retry_after: Some(IN_FLIGHT_RETRY_AFTER),
            ..Self::new(
                Code::KeyInFlight,
                "The first request with this idempotency key is still being processed. Send the same request with the same \
                 key again later to get its result.",
            )
        }
    }

    /// Nothing is stored for this caller under the operation id. The response is the same for an id that was made up, for
    /// another caller's, and for one that has expired.
    pub fn operation_unknown() -> Self {
        Self::new(
            Code::OperationUnknown,
            "You have no operation with this id: it is not an id that you were given as it stands here, or the result has \
             expired. If the request had an idempotency key, it can be sent again with the same key.",
        )
    }

    /// The backend did not accept the request, or did not respond.
    pub fn backend_unavailable() -> Self {
        Self {
            retry_after: Some(BACKEND_RETRY_AFTER),
            ..Self::new(
                Code::DependencyUnavailable,
                "The service cannot be reached right now, or is busy. Send the same request again later, with the same \
                 idempotency key if it had one: then nothing is done twice.",
            )
        }
    }

    /// The response to a request with a key did not come in time.
    pub fn gateway_timeout() -> Self {
        Self::new(
            Code::GatewayTimeout,
            "The answer did not come in time. The work may still be going on: send the same request with the same key to \
             get its result.",
        )
    }

    /// The body is longer than the backend accepts.
    pub fn body_refused() -> Self {
        Self::new(Code::BodyTooLarge, "The body is longer than the operation takes.")
    }

    /// The headers are longer, or more, than the backend accepts.
    pub fn headers_too_large() -> Self {
        Self::new(Code::HeadersTooLarge, "The request has too many headers, or too long ones.")
    }

    /// The backend refused the request with this status before it reached a handler.
    pub fn request_invalid(status: u16) -> Self {
        Self {
            status: Some(status),
            ..Self::new(
                Code::RequestInvalid,
                "The operation does not take a request of this form. Check the Content-Type and whether a body is expected.",
            )
        }
    }

    /// The request asks for an upgraded connection, which has no end that could be waited for.
    pub fn upgrade_refused() -> Self {
        Self::new(
            Code::RequestInvalid,
            "The operation does not take an upgraded connection. Send the request without the Upgrade header.",
        )
    }

    /// The backend returned an error with this status, and its description cannot be shown. `advice` is the retry
    /// advice, if it is known.
    pub fn backend_error(status: u16, advice: Option<Retry>) -> Self {
        Self {
            status: Some(status),
            advice,
            ..Self::new(
                Code::BackendError,
                "The service has answered with an error. Its description of the error cannot be shown.",
            )
        }
    }

    /// The work is done, and the filter cannot pass on the answer. `can_repeat`: repeating the request does nothing twice.
    pub fn answer_unavailable(can_repeat: bool) -> Self {
        Self {
            advice: (!can_repeat).then_some(Retry::Never),
            ..Self::new(
                Code::AnswerUnavailable,
                "The work was done, and its answer cannot be passed on: it is longer than the gateway takes, or did not come in \
                 time. A request with another key, or without one, would do the work again. Repeat a request that had a key \
                 with the same key to get the answer; if this goes on, the operator has to raise a limit.",
            )
        }
    }

    /// The HTTP status.
    pub fn status(&self) -> u16 {
        self.status.unwrap_or(self.code.status())
    }

    /// The retry advice.
    pub fn retry(&self) -> Retry {
        self.advice.unwrap_or(self.code.retry())
    }

    /// Whether the advice is known. It is not if a request without a key got an error that cannot be shown: then
    /// `never` says only that nothing promises a safe retry.
    const fn is_advice_known(&self) -> bool {
        !matches!((self.code, self.advice), (Code::BackendError, None))
    }

    /// The kind of error among those of Stripe's API.
    fn error_type(&self) -> &'static str {
        if self.status() >= 500 {
            "api_error"
        } else if self.code.name().starts_with("idempotency_key") {
            "idempotency_error"
        } else {
            "invalid_request_error"
        }
    }

    /// The document as JSON.
    pub fn document(&self, answers: &Answers) -> String {
        let (name, _, title, _) = self.code.facts();
        let page = answers.docs_url.as_ref().map(|url| format!("{url}#{name}"));
        let error = answers.error_member.then(|| ErrorMember {
            code: name,
            message: &self.detail,
            kind: self.error_type(),
            doc_url: page.as_deref(),
        });
        to_text(&ProblemDocument {
            kind: page.as_deref().unwrap_or("about:blank"),
            title,
            status: self.status(),
            detail: &self.detail,
            instance: self.instance.map(|id| format!("urn:uuid:{id}")),
            code: name,
            reason: self.reason.map(Reason::name),
            retry: self.retry().name(),
            identity: &self.parts(),
            error,
        })
    }

    /// The headers of the response with the document, without the status.
    pub fn headers<'a>(&self, answers: &'a Answers) -> Vec<(&'a str, String)> {
        let mut headers = vec![
            ("content-type", "application/problem+json".to_owned()),
            ("cache-control", "no-store".to_owned()),
            ("content-language", "en".to_owned()),
        ];
        if let Some(url) = &answers.docs_url {
            headers.push(("link", format!("<{url}>; rel=\"describedby\"")));
        }
        if self.status() == UNAUTHENTICATED {
            headers.push(("www-authenticate", self.challenge.as_deref().unwrap_or(SIGNATURE).to_owned()));
        }
        if let Some(allow) = &self.allow {
            headers.push(("allow", allow.clone()));
        }
        if let Some(seconds) = self.retry_after {
            headers.push(("retry-after", seconds.to_string()));
        }
        // The filter's own 404 and the one in the place of the backend's are the same.
        if self.code == Code::OperationUnknown {
            headers.push(("idempotency-retry", self.retry().name().to_owned()));
        }
        if self.is_advice_known() {
            let advice = self.retry().should_retry();
            headers.extend(answers.retry_headers.iter().map(|name| (name.as_str(), advice.to_owned())));
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn documents_have_their_members_in_order() {
        let problem = Problem::key_invalid(KeyError::Charset);
        let with_page = Answers { docs_url: Some("https://docs.example.com/keys".to_owned()), ..Answers::default() };
        let text = problem.document(&with_page);
        assert!(
            text.starts_with(
                r#"{"type":"https://docs.example.com/keys#idempotency_key_invalid","title":"Idempotency key invalid","status":400,"detail":""#
            ),
            "{text}"
        );
        assert!(text.ends_with(r#""code":"idempotency_key_invalid","reason":"charset","retry":"new_key"}"#), "{text}");
        assert!(problem.document(&Answers::default()).starts_with(r#"{"type":"about:blank","#));
        assert!(!Problem::key_required(None).document(&Answers::default()).contains("reason"));
    }

    #[test]
    fn codes_have_names_of_their_own() {
        let names: BTreeSet<&str> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
    }

    #[test]
    fn a_405_says_what_is_allowed() {
        let problem = Problem::method_not_allowed(&["GET", "HEAD"]);
        let answers = Answers::default();
        let headers = problem.headers(&answers);
        assert!(headers.contains(&("allow", "GET, HEAD".to_owned())));
        assert!(!headers.iter().any(|(name, _)| *name == "link"));
    }

    #[test]
    fn the_member_error_names_its_kind_and_its_page() {
        for (problem, kind) in [
            (Problem::key_required(None), "idempotency_error"),
            (Problem::key_unknown(), "idempotency_error"),
            (Problem::not_found(), "invalid_request_error"),
            (Problem::backend_error(402, None), "invalid_request_error"),
            (Problem::backend_unavailable(), "api_error"),
        ] {
            let mut answers = Answers { error_member: true, ..Answers::default() };
            let error = |answers: &Answers| {
                let document: serde_json::Value = serde_json::from_str(&problem.document(answers)).unwrap();
                assert_eq!(document["error"]["code"], document["code"]);
                assert_eq!(document["error"]["message"], document["detail"]);
                assert_eq!(document["error"]["type"], kind);
                document["error"]["doc_url"].clone()
            };
            assert!(error(&answers).is_null());
            answers.docs_url = Some("https://docs.example.com/keys".to_owned());
            assert_eq!(error(&answers), format!("https://docs.example.com/keys#{}", problem.code.name()));
        }
    }
}
