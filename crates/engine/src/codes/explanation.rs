//! What the codes of problem documents mean to those who read them, and what to do. The gateway calls nothing of this, so its
//! module does not have these texts.

use super::Code;

/// Who reads about a code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// A caller whose request was refused
    Caller,
    /// A caller who gets the document in the place of an error of the backend or the gateway, or in the place of an answer
    CallerOfBackend,
    /// The sender of a webhook
    WebhookSender,
    /// A caller that signs its requests
    SignedCaller,
    /// The operator of the gateway
    Operator,
}

/// What a code means to one reader, as Markdown. Links in it lead from `docs/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodeExplanation {
    /// Who reads it
    pub reader: Audience,
    /// Why a request gets the code
    pub cause: &'static str,
    /// What to do
    pub cure: &'static str,
}

impl Code {
    /// What the code means to its readers, one explanation for each.
    pub const fn explanations(self) -> &'static [CodeExplanation] {
        macro_rules! explained {
            ($($reader:ident: $cause:literal, $cure:literal;)+) => {
                &[$(CodeExplanation { reader: Audience::$reader, cause: $cause, cure: $cure },)+]
            };
        }
        match self {
            Self::KeyRequired => explained! {
                Caller: "the operation must have a key, and there is none",
                    "send `Idempotency-Key` with a new UUID for each intended effect";
            },
            Self::KeyInvalid => explained! {
                Caller: "the key is malformed; `reason` says [why](errors.md#reasons-of-idempotency_key_invalid)",
                    "send another key";
            },
            Self::KeyProhibited => explained! {
                Caller: "the operation takes no key (it has no effect to repeat, or retries differ)",
                    "leave the header out; if your client library adds it by itself, ask the operator for the policy `HANDLER_INTERNAL_C`, which removes it";
            },
            Self::KeyReused => explained! {
                Caller: "the key was used with another request: another method, path, query, content type or body",
                    "send a new key for a new operation; repeat a request unchanged, byte for byte. If you are not sure whether the first request took effect, [ask for its result](clients.md) before you send the changed one with a new key";
            },
            Self::IdentityMissing => explained! {
                Caller: "the credentials do not name the tenant, the project or the subject that the operation needs; [`identity`](errors.md#identity) says which, and `WWW-Authenticate` which credentials count",
                    "authenticate with credentials that name them. If the credentials do name them, the policy looks in the wrong place: [what to look at](errors.md#mistakes-in-the-policys-identity)";
            },
            Self::IdentityInvalid => explained! {
                Caller: "the tenant, the project or the subject is malformed or ambiguous: wrong characters, too long, not a string, given twice; [`identity`](errors.md#identity) says which",
                    "have the credentials issued anew. If only the subject is wrong, the policy may lack its type: [what to look at](errors.md#mistakes-in-the-policys-identity)";
            },
            Self::IdentityReserved => explained! {
                Caller: "the subject is kept for webhooks or callers that sign",
                    "use a subject of your own";
            },
            Self::ApiKeyInvalid => explained! {
                Caller: "the API key is unknown, disabled or expired, or is malformed. A new key may be unknown for some seconds, and a revoked one may pass for some time ([identity.md](identity.md#api-keys))",
                    "send a valid API key; the operator finds the reason in the access log";
            },
            Self::ApiKeyForbidden => explained! {
                Caller: "the API key is valid and may not do this: it lacks a permission, may not be used from this place, or has no credits left",
                    "use another API key, or have its permissions changed; the operator finds the reason in the access log";
            },
            Self::RateLimited => explained! {
                Caller: "the API key is above its rate limit",
                    "send the same request with the same key again after `Retry-After`";
            },
            Self::PathAmbiguous => explained! {
                Caller: "the path, or the host before it, can be read in two ways; `detail` says where",
                    "send the path in the letter case and with the escapes of the API's documentation, without `%2F`, `%5C`, backslash, `;`, escaped control characters and escapes that are no UTF-8; and a `Host` header with a host in lower case, without a final dot, and at most one port. If clients have to send `%2F` in a parameter, the operator sets [`encoded_slash`](security.md#how-backends-read-a-path) on the route; a gateway that passes ports on to the filter has to remove them";
            },
            Self::NotFound => explained! {
                Caller: "no operation has this path",
                    "check the path";
            },
            Self::MethodNotAllowed => explained! {
                Caller: "the path has operations with other methods, which `Allow` lists; or the request is a `HEAD` and the backend takes only `GET`",
                    "use one of them";
            },
            Self::PolicyInvalid => explained! {
                CallerOfBackend: "the backend has no such service or handler, or is starting and does not know it yet",
                    "send it again with the same key if `retry` says `same_key`; else, or if this goes on, it is for the operator: see below";
                Operator: "the gateway's route names an endpoint (`filter_metadata[\"edge.idempotency\"].endpoint`) that the policy does not know (with `\"gateway_routes\": true`); a `target` names a service or handler that the backend does not have, or the gateway has no route to it; or the gateway's configuration lacks `allow_on_headers_stop_iteration: true`, so that the body of a webhook, of a signed request, or of a request that waits for the guard or for the question whether its key is in flight never reaches the filter",
                    "make the two configurations agree; the gateway's log has more";
            },
            Self::InternalError => explained! {
                Caller: "a fault in the gateway itself",
                    "send it again with the same key; if this goes on, it is for the operator: see below";
                Operator: "the filter is in a state that should not be possible, a call of the filter to its gateway failed, or the module failed or took too long",
                    "report it, with the request's line of the access log and what the gateway's log has at that time";
            },
            Self::WebhookUnknown => explained! {
                WebhookSender: "no webhook has this id, or it belongs to another provider",
                    "check the URL in the provider's settings";
            },
            Self::WebhookSignatureInvalid => explained! {
                WebhookSender: "the signature is missing, malformed, wrong, too old or too new",
                    "check the signing secret on both sides";
            },
            Self::SignatureInvalid => explained! {
                SignedCaller: "the request brings a signature, and it is malformed, wrong, too old or too new, or does not fit the request",
                    "see [identity.md](identity.md#what-comes-back)";
            },
            Self::TransportTranslationFailed => explained! {
                WebhookSender: "the delivery is genuine, but its identifier, or a value of its body that the operation needs, is missing, empty, ambiguous or of the wrong type, or its body is not the JSON that it should be",
                    "see the provider's row in [providers.md](providers.md), and [targets from a body](webhooks.md#targets-from-a-body)";
            },
            Self::BodyTooLarge => explained! {
                CallerOfBackend: "the body is longer than the backend takes, or than the route's `max_body_bytes` where requests are compared, or checked for one in flight",
                    "send less, with a new key";
                WebhookSender: "the body is longer than the route's `max_body_bytes`",
                    "send less, or have the limit raised";
            },
            Self::UnsupportedContentEncoding => explained! {
                WebhookSender: "the body is compressed and has to be read",
                    "send it without `Content-Encoding`";
            },
            Self::UnsupportedContentType => explained! {
                Caller: "(Restate only) the content type is one of gRPC or gRPC-Web, with which Restate does not call the operation",
                    "send another content type, such as `application/json`, or call by Connect";
            },
            Self::DependencyUnavailable => explained! {
                CallerOfBackend: "the backend is busy or cannot be reached, also where the filter asks it for the invocation before a recovery (`Retry-After` says when to try again)",
                    "send it again with the same key";
                WebhookSender: "the secret that verifies the delivery cannot be used right now (`Retry-After` says when to try again)",
                    "send it again; nothing is lost";
            },
            Self::KeyUnknown => explained! {
                Caller: "(Restate only) a result was asked for, and this caller has none under the key: never used, expired, or somebody else's",
                    "send the original request with the same key";
            },
            Self::KeyInFlight => explained! {
                Caller: "(Restate only, with `\"in_flight\": \"conflict\"`) the first request with this key is still being processed",
                    "send the same request with the same key again after `Retry-After`: it gets the result of the first one";
            },
            Self::OperationUnknown => explained! {
                Caller: "(Restate only) an answer was asked for by an operation id, and this caller has no such operation: the id is not as it was given, its result has expired, or it is somebody else's",
                    "use the id as `X-Operation-Id` or `Location` gave it, with the credentials of the call; if the call had a key, send it again with the same key";
            },
            Self::RequestInvalid => explained! {
                CallerOfBackend: "the operation does not take a request of this form: the backend refused it, or it is signed, a recovery, a request for an operation, compared with the first request under its key, or checked for one in flight, and asks for an upgraded connection",
                    "check `Content-Type` and whether a body is expected; send no `Upgrade` header. Send a changed request with a new key: where requests are compared, a changed one under the same key is answered 422";
            },
            Self::HeadersTooLarge => explained! {
                CallerOfBackend: "too many headers, or too long ones",
                    "send fewer";
            },
            Self::GatewayTimeout => explained! {
                CallerOfBackend: "the answer took longer than the gateway waits; the work may still be going on",
                    "send it again with the same key, or ask for the result";
            },
            Self::BackendError => explained! {
                CallerOfBackend: "the service answered with an error whose description cannot be shown: it is a 5xx of a generic backend, is no JSON, is compressed, is longer than 64 KiB or nested more than 512 deep; or the gateway got no answer to a request without a key",
                    "by `retry`: `new_key` where the error is stored under the key, `same_key` where the same request with the same key may be sent again later, `never` where nothing is known about a retry";
            },
            Self::AnswerUnavailable => explained! {
                CallerOfBackend: "the work was done, and the answer cannot pass: its body is longer than 1 MiB and no `content-length` said so",
                    "send it again with the same key, never with a new one: a new key does the work again. With `Location` ask there: it gives the whole answer. Where no result is stored under a key, `retry` is `never`";
            },
        }
    }
    /// The HTTP status, in words where it is not always that of [`Code::status`].
    pub fn status_in_words(self) -> String {
        match self {
            Self::RequestInvalid => "400, or the backend's".to_owned(),
            Self::BackendError => "the backend's".to_owned(),
            _ => self.status().to_string(),
        }
    }
}
