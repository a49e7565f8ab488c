//! The codes of problem documents, each with its status, its title, its retry advice, its status for callers that use gRPC or
//! Connect (docs/contract.md section 8), and what it means to those who read it.

use super::rpc::RpcStatus;

/// The retry advice for a refused request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retry {
    /// Change the request.
    NewRequest,
    /// Choose another key.
    NewKey,
    /// Send the same request with the same key later: another request with this key is under way.
    Wait,
    /// Send the same request with the same key later.
    SameKey,
    /// Nothing: the same request will be refused again.
    Never,
}

impl Retry {
    /// The advice that is written so.
    pub(crate) fn of(name: &[u8]) -> Option<Self> {
        let all = [Self::NewRequest, Self::NewKey, Self::Wait, Self::SameKey, Self::Never];
        all.into_iter().find(|retry| retry.name().as_bytes() == name)
    }

    /// The advice as problem documents write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NewRequest => "new_request",
            Self::NewKey => "new_key",
            Self::Wait => "wait",
            Self::SameKey => "same_key",
            Self::Never => "never",
        }
    }

    /// The advice as the headers of `/retry_headers` write it: whether to send the same request again.
    pub const fn should_retry(self) -> &'static str {
        match self {
            Self::SameKey | Self::Wait => "true",
            Self::NewRequest | Self::NewKey | Self::Never => "false",
        }
    }
}

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

/// Makes [`Code`] of its rows: the variant, its name, its HTTP status, its title, its advice and its RPC status; then what it means to each
/// reader who can get it, in lower case and without a final full stop: cause and cure.
macro_rules! codes {
    ($(
        $(#[$doc:meta])* $variant:ident = $name:literal, $status:literal, $title:literal, $retry:ident, $rpc:ident {
            $($reader:ident: $cause:literal, $cure:literal;)+
        }
    )*) => {
        /// The stable code of a problem.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code {
            $($(#[$doc])* $variant,)*
        }

        impl Code {
            /// Every code, in the order of their numbers.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$variant),*];

            /// Name, HTTP status, title and advice.
            pub(crate) const fn facts(self) -> (&'static str, u16, &'static str, Retry) {
                match self {
                    $(Self::$variant => ($name, $status, $title, Retry::$retry),)*
                }
            }

            /// What the code means to its readers, one explanation for each. The gateway calls nothing of this, so its module does not have
            /// these texts.
            pub const fn explanations(self) -> &'static [CodeExplanation] {
                match self {
                    $(Self::$variant => {
                        &[$(CodeExplanation { reader: Audience::$reader, cause: $cause, cure: $cure },)+]
                    })*
                }
            }

            /// The status for callers that use gRPC or Connect, where the advice allows it ([`Code::rpc_status`]).
            const fn rpc(self) -> RpcStatus {
                match self {
                    $(Self::$variant => RpcStatus::$rpc,)*
                }
            }
        }
    };
}

codes! {
    /// The route requires a key.
    KeyRequired = "idempotency_key_required", 400, "Idempotency key required", NewRequest, InvalidArgument {
        Caller: "there is no key, and the operation needs one",
            "send `Idempotency-Key` with a new UUID for each intent";
    }
    /// The key does not fit the grammar.
    KeyInvalid = "idempotency_key_invalid", 400, "Idempotency key invalid", NewKey, InvalidArgument {
        Caller: "the key is malformed; `reason` says [why](callers.md#reasons-of-idempotency_key_invalid)",
            "send another key";
    }
    /// The route takes no key.
    KeyProhibited = "idempotency_key_prohibited", 400, "Idempotency key not allowed", NewRequest, InvalidArgument {
        Caller: "the operation takes no key",
            "leave the header out; if your SDK adds it, ask the operator for the policy `HANDLER_INTERNAL_C`, which removes it";
    }
    /// The key was used with another request.
    KeyReused = "idempotency_key_reused", 422, "Idempotency key reused", NewKey, FailedPrecondition {
        Caller: "the key was used with another method, path, query, content type or body",
            "repeat a request byte for byte, or send a new key. If the first request may have taken effect, [ask for its result](callers.md#get-a-lost-answer) before";
    }
    /// The caller's identity is missing or incomplete.
    IdentityMissing = "identity_missing", 401, "Caller identity missing", NewRequest, Unauthenticated {
        Caller: "the credentials do not name the tenant, the project or the subject; `identity` says which, `WWW-Authenticate` which credentials count",
            "authenticate with credentials that name them. If they do name them, the policy [looks in the wrong place](identity.md#what-is-refused)";
    }
    /// The caller's identity is malformed or ambiguous.
    IdentityInvalid = "identity_invalid", 403, "Caller identity invalid", Never, PermissionDenied {
        Caller: "the tenant, the project or the subject is malformed or given twice; `identity` says which",
            "have other credentials issued. If only the subject is wrong, it may [lack its type](identity.md#what-is-refused)";
    }
    /// The caller's identity is reserved.
    IdentityReserved = "identity_reserved", 403, "Caller identity reserved", Never, PermissionDenied {
        Caller: "the subject is kept for webhooks or signed callers",
            "have other credentials issued. If only the subject is wrong, it may [lack its type](identity.md#what-is-refused)";
    }
    /// The API key is not valid.
    ApiKeyInvalid = "api_key_invalid", 401, "API key invalid", NewRequest, Unauthenticated {
        Caller: "the API key is unknown, disabled, expired or malformed",
            "use another API key; the operator finds the reason in the access log";
    }
    /// The API key may not do this.
    ApiKeyForbidden = "api_key_forbidden", 403, "API key not allowed", Never, PermissionDenied {
        Caller: "the API key lacks a permission or credits, or may not be used from here",
            "use another API key; the operator finds the reason in the access log";
    }
    /// The API key is above a rate limit.
    RateLimited = "rate_limited", 429, "Too many requests", SameKey, ResourceExhausted {
        Caller: "the API key is above its rate limit",
            "send the same request with the same key again, after `Retry-After`";
    }
    /// Readers could disagree about the path.
    PathAmbiguous = "path_ambiguous", 400, "Path ambiguous", Never, InvalidArgument {
        Caller: "the path or the host can be read in two ways; `detail` says where",
            "write the path as the API's documentation does, without `%2F`, `%5C`, backslash, `;` and control characters, and the host in lower case without a final dot. The operator can allow `%2F` ([`encoded_slash`](policy.md#routes)), and has to remove ports from the host";
    }
    /// There is no such path, or it is closed to clients.
    NotFound = "not_found", 404, "Not found", Never, Unimplemented {
        Caller: "no operation has this path",
            "use a path and a method that the API has";
    }
    /// The path has other methods.
    MethodNotAllowed = "method_not_allowed", 405, "Method not allowed", Never, Unimplemented {
        Caller: "the path has other methods, which `Allow` lists; or the backend takes `GET` and no `HEAD`",
            "use a path and a method that the API has";
    }
    /// The gateway's configuration and the policy do not agree.
    PolicyInvalid = "policy_invalid", 503, "Gateway misconfigured", Never, Unavailable {
        CallerOfBackend: "the backend has no such service or handler, or is starting",
            "if `retry` says `same_key`, send it again with the same key; else tell the operator";
        Operator: "the gateway's route names an endpoint (`filter_metadata[\"edge.idempotency\"].endpoint`) that the policy does not know; or a `target` that the backend does not have, or to which the gateway has no route; or the gateway lacks `allow_on_headers_stop_iteration: true`, so that a body that has to be read never reaches the filter",
            "make gateway and policy agree; the gateway's log has more";
    }
    /// The filter or its host has failed.
    InternalError = "internal_error", 503, "Internal error", SameKey, Unavailable {
        Caller: "a fault in the gateway",
            "send the same request with the same key again, after `Retry-After`";
        Operator: "the filter is in a state that should not be possible, a call of the filter to its gateway failed, or the module failed or took too long",
            "report it, with the request's line of the access log and what the gateway's log has at that time";
    }
    /// No such webhook.
    WebhookUnknown = "webhook_unknown", 404, "Webhook unknown", Never, NotFound {
        WebhookSender: "no webhook has this id, or it is another provider's",
            "check the URL in the provider's settings";
    }
    /// The webhook's signature does not verify.
    WebhookSignatureInvalid = "webhook_signature_invalid", 401, "Webhook signature invalid", Never, Unauthenticated {
        WebhookSender: "the signature is missing, malformed, wrong, too old or too new",
            "check the signing secret on both sides";
    }
    /// The signature of a caller that signs its requests does not verify.
    SignatureInvalid = "signature_invalid", 401, "Signature invalid", Never, Unauthenticated {
        SignedCaller: "the signature is malformed, wrong, too old or too new, or does not fit the request",
            "see [signed callers](identity.md#signed-callers)";
    }
    /// The webhook has no identifier to make a key of, or no value that the target is made of.
    TransportTranslationFailed = "transport_translation_failed", 400, "Delivery cannot be translated", Never, InvalidArgument {
        WebhookSender: "the delivery is genuine, but the identifier, or a value of the body that the target needs, is missing, ambiguous or of the wrong type",
            "see the provider in [providers.md](providers.md), and [targets from a body](webhooks.md#targets-from-a-body)";
    }
    /// The body is above the route's limit.
    BodyTooLarge = "body_too_large", 413, "Body too large", Never, ResourceExhausted {
        CallerOfBackend: "the body is longer than the backend takes, or than the route's `max_body_bytes`",
            "send less, with a new key";
        WebhookSender: "the body is longer than the route's `max_body_bytes`",
            "send less, or have the limit raised";
    }
    /// The body has to be read and is compressed.
    UnsupportedContentEncoding = "unsupported_content_encoding", 415, "Content encoding not supported", Never, Unimplemented {
        WebhookSender: "the body is compressed and has to be read",
            "send it without `Content-Encoding`";
    }
    /// The backend would not take the request for a call of this operation.
    UnsupportedContentType = "unsupported_content_type", 415, "Content type not supported", Never, Unimplemented {
        Caller: "(Restate only) the content type is one of gRPC or gRPC-Web, with which Restate does not call the operation",
            "send another content type, such as `application/json`, or call by Connect";
    }
    /// A store or the backend is not available.
    DependencyUnavailable = "dependency_unavailable", 503, "Temporarily unavailable", SameKey, Unavailable {
        CallerOfBackend: "the backend, or a store that the request needs, is busy or cannot be reached",
            "send the same request with the same key again, after `Retry-After`";
        WebhookSender: "the secret that verifies the delivery cannot be used right now (`Retry-After` says when to try again)",
            "send it again; nothing is lost";
    }
    /// Nothing is stored for this caller under the key.
    KeyUnknown = "idempotency_key_unknown", 404, "Idempotency key unknown", SameKey, NotFound {
        Caller: "(Restate only) you have no result under this key: never used, expired, or somebody else's",
            "send the original request with the same key";
    }
    /// The first request with the key is in flight.
    KeyInFlight = "idempotency_key_in_flight", 409, "Idempotency key in flight", Wait, Aborted {
        Caller: "(Restate only, with `\"in_flight\": \"conflict\"`) the first request with this key still runs",
            "wait as `Retry-After` says, then send the same request with the same key: it gets the first one's result";
    }
    /// The caller has no such operation.
    OperationUnknown = "operation_unknown", 404, "Operation unknown", SameKey, NotFound {
        Caller: "(Restate only) you have no operation with this id: not as it was given, expired, or somebody else's",
            "use the id as it was given, with the credentials of the call; if the call had a key, send it again with the same key";
    }
    /// The operation does not accept a request of this form.
    RequestInvalid = "request_invalid", 400, "Request invalid", Never, InvalidArgument {
        CallerOfBackend: "the operation does not take a request of this form, or one that asks for an upgraded connection",
            "check `Content-Type` and whether a body is expected, send no `Upgrade`; send the changed request with a new key";
    }
    /// The headers are above a limit.
    HeadersTooLarge = "headers_too_large", 431, "Headers too large", Never, ResourceExhausted {
        CallerOfBackend: "the headers are too many or too long",
            "send less, with a new key";
    }
    /// The response did not come in time.
    GatewayTimeout = "gateway_timeout", 504, "No answer in time", SameKey, DeadlineExceeded {
        CallerOfBackend: "no answer came in time; the work may still go on",
            "send the same request with the same key again, after `Retry-After`";
    }
    /// The backend returned an error whose description is not shown.
    BackendError = "backend_error", 500, "Error of the service", Never, Unknown {
        CallerOfBackend: "the service failed, and its error cannot be shown: a 5xx of a generic backend, no JSON, compressed, too long or too deep; or no answer came to a request without a key",
            "do what `retry` says; `never` means here that nothing is known about a retry";
    }
    /// The work is done, and its answer cannot be passed on.
    AnswerUnavailable = "answer_unavailable", 502, "Answer unavailable", SameKey, Internal {
        CallerOfBackend: "the work was done, and its answer is too long to pass (more than 1 MiB)",
            "send it again with the same key, never with a new one, which does the work again. With `Location` ask there. If nothing is stored, `retry` is `never`";
    }
}

impl Code {
    /// The code as problem documents, logs and metrics write it.
    pub const fn name(self) -> &'static str {
        self.facts().0
    }

    /// The HTTP status.
    pub const fn status(self) -> u16 {
        self.facts().1
    }

    /// The HTTP status, in words where it is not always that of [`Code::status`].
    pub fn status_in_words(self) -> String {
        match self {
            Self::RequestInvalid => "400, or the backend's".to_owned(),
            Self::BackendError => "the backend's".to_owned(),
            _ => self.status().to_string(),
        }
    }

    /// The advice.
    pub const fn retry(self) -> Retry {
        self.facts().3
    }

    /// The status for callers that use gRPC or Connect, of a problem with this advice. Many clients repeat a request by themselves
    /// if its status is `UNAVAILABLE`, so a request that should not be repeated has `INTERNAL` instead.
    pub const fn rpc_status(self, advice: Retry) -> RpcStatus {
        match (self.rpc(), advice) {
            (RpcStatus::Unavailable, Retry::NewRequest | Retry::NewKey | Retry::Never) => RpcStatus::Internal,
            (status, _) => status,
        }
    }
}
