//! The counters and their labels.

/// A counter. Beside the labels of [`Counter::labels`] each has `tenant`, `project` and `endpoint`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Counter {
    /// A request came with a key, or a verified delivery with an identifier.
    KeyPresent,
    /// A request came without a key, or a verified delivery without an identifier.
    KeyMissing,
    /// A key was refused.
    KeyInvalid,
    /// A verified delivery has no identifier that could make a key.
    TranslationFailed,
    /// A verified delivery was acknowledged without a call.
    DeliveryAcknowledged,
    /// A signature was refused.
    SignatureFailed,
    /// The filter sent a problem document: it refused a request, or replaced an error of the backend.
    Problem,
    /// An answer of the backend to a request.
    Answer,
    /// The backend replayed a stored answer.
    CacheHit,
    /// A handler reported that it had deduplicated a request (Case C).
    HandlerHit,
    /// What the filter would have done with a request in shadow mode.
    Shadow,
    /// A lookup that a request needed, or a claim at the guard.
    Lookup,
    /// An answer that kept its status 200 although the route shapes its answers.
    Unshaped,
    /// A key came again with another request.
    KeyCollision,
}

impl Counter {
    /// All of them
    pub(super) const ALL: [Self; 14] = [
        Self::KeyPresent,
        Self::KeyMissing,
        Self::KeyInvalid,
        Self::TranslationFailed,
        Self::DeliveryAcknowledged,
        Self::SignatureFailed,
        Self::Problem,
        Self::Answer,
        Self::CacheHit,
        Self::HandlerHit,
        Self::Shadow,
        Self::Lookup,
        Self::Unshaped,
        Self::KeyCollision,
    ];

    /// The name, as Prometheus shows it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::KeyPresent => "idempotency_key_present_total",
            Self::KeyMissing => "idempotency_key_missing_total",
            Self::KeyInvalid => "idempotency_key_invalid_total",
            Self::TranslationFailed => "transport_translation_failed_total",
            Self::DeliveryAcknowledged => "idempotency_delivery_acknowledged_total",
            Self::SignatureFailed => "idempotency_signature_failed_total",
            Self::Problem => "idempotency_problem_total",
            Self::Answer => "idempotency_answer_total",
            Self::CacheHit => "idempotency_cache_hit_total",
            Self::HandlerHit => "handler_internal_dedup_hit_total",
            Self::Shadow => "idempotency_shadow_total",
            Self::Lookup => "idempotency_lookup_total",
            Self::Unshaped => "idempotency_answer_unshaped_total",
            Self::KeyCollision => "idempotency_key_collision_total",
        }
    }

    /// The names of the counter's own labels.
    pub const fn labels(self) -> &'static [&'static str] {
        match self {
            Self::KeyPresent => &["case", "form"],
            Self::KeyMissing => &["class"],
            Self::KeyInvalid => &["reason"],
            Self::TranslationFailed | Self::DeliveryAcknowledged => &["provider", "reason"],
            Self::SignatureFailed => &["source", "reason"],
            Self::Problem => &["code"],
            Self::Answer => &["outcome", "error"],
            Self::CacheHit => &["restate_status"],
            Self::HandlerHit => &[],
            Self::Shadow => &["verdict", "code"],
            Self::Lookup => &["store", "result"],
            Self::Unshaped => &["reason"],
            Self::KeyCollision => &["mode"],
        }
    }
}

/// A histogram. Beside the label of [`Histogram::labels`] each has `tenant`, `project` and `endpoint`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Histogram {
    /// The time of each call of a lookup in milliseconds.
    LookupTime,
    /// Which attempt clients say that a request is (0 to 100).
    Attempt,
}

impl Histogram {
    /// All of them
    pub(super) const ALL: [Self; 2] = [Self::LookupTime, Self::Attempt];

    /// How many series of Prometheus a histogram is in Envoy and in the bridge for KrakenD: 20 buckets, the sum and the count.
    pub const SERIES: usize = 22;

    /// The name, as Prometheus shows it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LookupTime => "idempotency_lookup_milliseconds",
            Self::Attempt => "idempotency_attempt",
        }
    }

    /// The name of the histogram's own label, if it has one.
    pub const fn labels(self) -> &'static [&'static str] {
        match self {
            Self::LookupTime => &["store"],
            Self::Attempt => &[],
        }
    }
}
