//! The codes of problem documents, each with its status, its title, its retry advice and its status for callers that use gRPC or
//! Connect (docs/contract.md section 8).

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

/// Makes [`Code`] of its rows: the variant, its name, its HTTP status, its title, its advice and its RPC status.
macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $status:literal, $title:literal, $retry:ident, $rpc:ident;)*) => {
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
    KeyRequired = "idempotency_key_required", 400, "Idempotency key required", NewRequest, InvalidArgument;
    /// The key does not fit the grammar.
    KeyInvalid = "idempotency_key_invalid", 400, "Idempotency key invalid", NewKey, InvalidArgument;
    /// The route takes no key.
    KeyProhibited = "idempotency_key_prohibited", 400, "Idempotency key not allowed", NewRequest, InvalidArgument;
    /// The key was used with another request.
    KeyReused = "idempotency_key_reused", 422, "Idempotency key reused", NewKey, FailedPrecondition;
    /// The caller's identity is missing or incomplete.
    IdentityMissing = "identity_missing", 401, "Caller identity missing", NewRequest, Unauthenticated;
    /// The caller's identity is malformed or ambiguous.
    IdentityInvalid = "identity_invalid", 403, "Caller identity invalid", Never, PermissionDenied;
    /// The caller's identity is reserved.
    IdentityReserved = "identity_reserved", 403, "Caller identity reserved", Never, PermissionDenied;
    /// The API key is not valid.
    ApiKeyInvalid = "api_key_invalid", 401, "API key invalid", NewRequest, Unauthenticated;
    /// The API key may not do this.
    ApiKeyForbidden = "api_key_forbidden", 403, "API key not allowed", Never, PermissionDenied;
    /// The API key is above a rate limit.
    RateLimited = "rate_limited", 429, "Too many requests", SameKey, ResourceExhausted;
    /// Readers could disagree about the path.
    PathAmbiguous = "path_ambiguous", 400, "Path ambiguous", Never, InvalidArgument;
    /// There is no such path, or it is closed to clients.
    NotFound = "not_found", 404, "Not found", Never, Unimplemented;
    /// The path has other methods.
    MethodNotAllowed = "method_not_allowed", 405, "Method not allowed", Never, Unimplemented;
    /// The gateway's configuration and the policy do not agree.
    PolicyInvalid = "policy_invalid", 503, "Gateway misconfigured", Never, Unavailable;
    /// The filter or its host has failed.
    InternalError = "internal_error", 503, "Internal error", SameKey, Unavailable;
    /// No such webhook.
    WebhookUnknown = "webhook_unknown", 404, "Webhook unknown", Never, NotFound;
    /// The webhook's signature does not verify.
    WebhookSignatureInvalid = "webhook_signature_invalid", 401, "Webhook signature invalid", Never, Unauthenticated;
    /// The signature of a caller that signs its requests does not verify.
    SignatureInvalid = "signature_invalid", 401, "Signature invalid", Never, Unauthenticated;
    /// The webhook has no identifier to make a key of, or no value that the target is made of.
    TransportTranslationFailed = "transport_translation_failed", 400, "Delivery cannot be translated", Never, InvalidArgument;
    /// The body is above the route's limit.
    BodyTooLarge = "body_too_large", 413, "Body too large", Never, ResourceExhausted;
    /// The body has to be read and is compressed.
    UnsupportedContentEncoding = "unsupported_content_encoding", 415, "Content encoding not supported", Never, Unimplemented;
    /// The backend would not take the request for a call of this operation.
    UnsupportedContentType = "unsupported_content_type", 415, "Content type not supported", Never, Unimplemented;
    /// A store or the backend is not available.
    DependencyUnavailable = "dependency_unavailable", 503, "Temporarily unavailable", SameKey, Unavailable;
    /// Nothing is stored for this caller under the key.
    KeyUnknown = "idempotency_key_unknown", 404, "Idempotency key unknown", SameKey, NotFound;
    /// The first request with the key is in flight.
    KeyInFlight = "idempotency_key_in_flight", 409, "Idempotency key in flight", Wait, Aborted;
    /// The caller has no such operation.
    OperationUnknown = "operation_unknown", 404, "Operation unknown", SameKey, NotFound;
    /// The operation does not accept a request of this form.
    RequestInvalid = "request_invalid", 400, "Request invalid", Never, InvalidArgument;
    /// The headers are above a limit.
    HeadersTooLarge = "headers_too_large", 431, "Headers too large", Never, ResourceExhausted;
    /// The response did not come in time.
    GatewayTimeout = "gateway_timeout", 504, "No answer in time", SameKey, DeadlineExceeded;
    /// The backend returned an error whose description is not shown.
    BackendError = "backend_error", 500, "Error of the service", Never, Unknown;
    /// The work is done, and its answer cannot be passed on.
    AnswerUnavailable = "answer_unavailable", 502, "Answer unavailable", SameKey, Internal;
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
