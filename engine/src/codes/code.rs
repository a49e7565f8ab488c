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

/// The stable code of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// The route requires a key.
    KeyRequired,
    /// The key does not fit the grammar.
    KeyInvalid,
    /// The route takes no key.
    KeyProhibited,
    /// The key was used with another request.
    KeyReused,
    /// The caller's identity is missing or incomplete.
    IdentityMissing,
    /// The caller's identity is malformed or ambiguous.
    IdentityInvalid,
    /// The caller's identity is reserved.
    IdentityReserved,
    /// Readers could disagree about the path.
    PathAmbiguous,
    /// There is no such path, or it is closed to clients.
    NotFound,
    /// The path has other methods.
    MethodNotAllowed,
    /// The gateway's configuration and the policy do not agree.
    PolicyInvalid,
    /// The filter or its host has failed.
    InternalError,
    /// No such webhook.
    WebhookUnknown,
    /// The webhook's signature does not verify.
    WebhookSignatureInvalid,
    /// The signature of a caller that signs its requests does not verify.
    SignatureInvalid,
    /// The webhook has no identifier to make a key of.
    TransportTranslationFailed,
    /// The body is above the route's limit.
    BodyTooLarge,
    /// The body has to be read and is compressed.
    UnsupportedContentEncoding,
    /// A store or the backend is not available.
    DependencyUnavailable,
    /// Nothing is stored for this caller under the key.
    KeyUnknown,
    /// The first request with the key is in flight.
    KeyInFlight,
    /// The caller has no such operation.
    OperationUnknown,
    /// The operation does not accept a request of this form.
    RequestInvalid,
    /// The headers are above a limit.
    HeadersTooLarge,
    /// The response did not come in time.
    GatewayTimeout,
    /// The backend returned an error whose description is not shown.
    BackendError,
    /// The work is done, and its answer cannot be passed on.
    AnswerUnavailable,
}

impl Code {
    /// Every code.
    pub const ALL: [Self; 27] = [
        Self::KeyRequired,
        Self::KeyInvalid,
        Self::KeyProhibited,
        Self::KeyReused,
        Self::IdentityMissing,
        Self::IdentityInvalid,
        Self::IdentityReserved,
        Self::PathAmbiguous,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::PolicyInvalid,
        Self::InternalError,
        Self::WebhookUnknown,
        Self::WebhookSignatureInvalid,
        Self::SignatureInvalid,
        Self::TransportTranslationFailed,
        Self::BodyTooLarge,
        Self::UnsupportedContentEncoding,
        Self::DependencyUnavailable,
        Self::KeyUnknown,
        Self::KeyInFlight,
        Self::OperationUnknown,
        Self::RequestInvalid,
        Self::HeadersTooLarge,
        Self::GatewayTimeout,
        Self::BackendError,
        Self::AnswerUnavailable,
    ];

    /// Name, HTTP status, title and advice.
    pub(crate) const fn facts(self) -> (&'static str, u16, &'static str, Retry) {
        match self {
            Self::KeyRequired => ("idempotency_key_required", 400, "Idempotency key required", Retry::NewRequest),
            Self::KeyInvalid => ("idempotency_key_invalid", 400, "Idempotency key invalid", Retry::NewKey),
            Self::KeyProhibited => {
                ("idempotency_key_prohibited", 400, "Idempotency key not allowed", Retry::NewRequest)
            }
            Self::KeyReused => ("idempotency_key_reused", 422, "Idempotency key reused", Retry::NewKey),
            Self::IdentityMissing => ("identity_missing", 401, "Caller identity missing", Retry::NewRequest),
            Self::IdentityInvalid => ("identity_invalid", 403, "Caller identity invalid", Retry::Never),
            Self::IdentityReserved => ("identity_reserved", 403, "Caller identity reserved", Retry::Never),
            Self::PathAmbiguous => ("path_ambiguous", 400, "Path ambiguous", Retry::Never),
            Self::NotFound => ("not_found", 404, "Not found", Retry::Never),
            Self::MethodNotAllowed => ("method_not_allowed", 405, "Method not allowed", Retry::Never),
            Self::PolicyInvalid => ("policy_invalid", 503, "Gateway misconfigured", Retry::Never),
            Self::InternalError => ("internal_error", 503, "Internal error", Retry::SameKey),
            Self::WebhookUnknown => ("webhook_unknown", 404, "Webhook unknown", Retry::Never),
            Self::WebhookSignatureInvalid => {
                ("webhook_signature_invalid", 401, "Webhook signature invalid", Retry::Never)
            }
            Self::SignatureInvalid => ("signature_invalid", 401, "Signature invalid", Retry::Never),
            Self::TransportTranslationFailed => {
                ("transport_translation_failed", 400, "Delivery identifier missing", Retry::Never)
            }
            Self::BodyTooLarge => ("body_too_large", 413, "Body too large", Retry::Never),
            Self::UnsupportedContentEncoding => {
                ("unsupported_content_encoding", 415, "Content encoding not supported", Retry::Never)
            }
            Self::DependencyUnavailable => ("dependency_unavailable", 503, "Temporarily unavailable", Retry::SameKey),
            Self::KeyUnknown => ("idempotency_key_unknown", 404, "Idempotency key unknown", Retry::SameKey),
            Self::KeyInFlight => ("idempotency_key_in_flight", 409, "Idempotency key in flight", Retry::Wait),
            Self::OperationUnknown => ("operation_unknown", 404, "Operation unknown", Retry::SameKey),
            Self::RequestInvalid => ("request_invalid", 400, "Request invalid", Retry::Never),
            Self::HeadersTooLarge => ("headers_too_large", 431, "Headers too large", Retry::Never),
            Self::GatewayTimeout => ("gateway_timeout", 504, "No answer in time", Retry::SameKey),
            Self::BackendError => ("backend_error", 500, "Error of the service", Retry::Never),
            Self::AnswerUnavailable => ("answer_unavailable", 502, "Answer unavailable", Retry::SameKey),
        }
    }

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
