//! The codes of problem documents, each with its status, its title and its retry advice (docs/contract.md section 8).

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

    /// The advice as the headers of `/answers/retry_headers` write it: whether to send the same request again.
    pub const fn should_retry(self) -> &'static str {
        match self {
            Self::SameKey | Self::Wait => "true",
            Self::NewRequest | Self::NewKey | Self::Never => "false",
        }
    }
}

/// Makes [`Code`] of its rows: the variant, its name, its HTTP status, its title and its advice.
macro_rules! codes {
    ($($(#[$doc:meta])* $variant:ident = $name:literal, $status:literal, $title:literal, $retry:ident;)*) => {
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
        }
    };
}

codes! {
    /// The route requires a key.
    KeyRequired = "idempotency_key_required", 400, "Idempotency key required", NewRequest;
    /// The key does not fit the grammar.
    KeyInvalid = "idempotency_key_invalid", 400, "Idempotency key invalid", NewKey;
    /// The route takes no key.
    KeyProhibited = "idempotency_key_prohibited", 400, "Idempotency key not allowed", NewRequest;
    /// The key was used with another request.
    KeyReused = "idempotency_key_reused", 422, "Idempotency key reused", NewKey;
    /// The caller's identity is missing or incomplete.
    IdentityMissing = "identity_missing", 401, "Caller identity missing", NewRequest;
    /// The caller's identity is malformed or ambiguous.
    IdentityInvalid = "identity_invalid", 403, "Caller identity invalid", Never;
    /// The caller's identity is reserved.
    IdentityReserved = "identity_reserved", 403, "Caller identity reserved", Never;
    /// The API key is not valid.
    ApiKeyInvalid = "api_key_invalid", 401, "API key invalid", NewRequest;
    /// The API key may not do this.
    ApiKeyForbidden = "api_key_forbidden", 403, "API key not allowed", Never;
    /// The API key is above a rate limit.
    RateLimited = "rate_limited", 429, "Too many requests", SameKey;
    /// Readers could disagree about the path.
    PathAmbiguous = "path_ambiguous", 400, "Path ambiguous", Never;
    /// There is no such path, or it is closed to clients.
    NotFound = "not_found", 404, "Not found", Never;
    /// The path has other methods.
    MethodNotAllowed = "method_not_allowed", 405, "Method not allowed", Never;
    /// The gateway's configuration and the policy do not agree.
    PolicyInvalid = "policy_invalid", 503, "Gateway misconfigured", Never;
    /// The filter or its host has failed.
    InternalError = "internal_error", 503, "Internal error", SameKey;
    /// No such webhook.
    WebhookUnknown = "webhook_unknown", 404, "Webhook unknown", Never;
    /// The webhook's signature does not verify.
    WebhookSignatureInvalid = "webhook_signature_invalid", 401, "Webhook signature invalid", Never;
    /// The signature of a caller that signs its requests does not verify.
    SignatureInvalid = "signature_invalid", 401, "Signature invalid", Never;
    /// The webhook has no identifier to make a key of, or no value that the target is made of.
    TransportTranslationFailed = "transport_translation_failed", 400, "Delivery cannot be translated", Never;
    /// The body is above the route's limit.
    BodyTooLarge = "body_too_large", 413, "Body too large", Never;
    /// The body has to be read and is compressed.
    UnsupportedContentEncoding = "unsupported_content_encoding", 415, "Content encoding not supported", Never;
    /// A store or the backend is not available.
    DependencyUnavailable = "dependency_unavailable", 503, "Temporarily unavailable", SameKey;
    /// Nothing is stored for this caller under the key.
    KeyUnknown = "idempotency_key_unknown", 404, "Idempotency key unknown", SameKey;
    /// The first request with the key is in flight.
    KeyInFlight = "idempotency_key_in_flight", 409, "Idempotency key in flight", Wait;
    /// The caller has no such operation.
    OperationUnknown = "operation_unknown", 404, "Operation unknown", SameKey;
    /// The operation does not accept a request of this form.
    RequestInvalid = "request_invalid", 400, "Request invalid", Never;
    /// The headers are above a limit.
    HeadersTooLarge = "headers_too_large", 431, "Headers too large", Never;
    /// The response did not come in time.
    GatewayTimeout = "gateway_timeout", 504, "No answer in time", SameKey;
    /// The backend returned an error whose description is not shown.
    BackendError = "backend_error", 500, "Error of the service", Never;
    /// The work is done, and its answer cannot be passed on.
    AnswerUnavailable = "answer_unavailable", 502, "Answer unavailable", SameKey;
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
}
