//! The reasons of refusals, failed lookups and checks that were not made. Problem documents, logs and metrics write them by
//! their names; pages and the command say what they mean.

use super::Code;

/// Where a reason is explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReasonTable {
    /// A key that is refused; callers see the reason
    Keys,
    /// A signature that does not verify
    Signatures,
    /// A lookup in the registry or the secret store
    Lookups,
    /// An API key that is refused; only logs and metrics have it
    ApiKeys,
    /// What else only logs have
    Logs,
    /// A claim that was not made for an observed request; only metrics have it
    Observed,
    /// An answer that was not shaped; only metrics have it
    Unshaped,
}

/// Makes the enum and its tables of one list. The meaning of a reason is also its documentation. Links in it lead from
/// `docs/`.
macro_rules! reasons {
    ($($table:ident { $($variant:ident, $name:literal, [$($code:ident)*], $meaning:literal;)+ })+) => {
        /// Why a request was refused or not treated as asked for, or why a lookup failed.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Reason {
            $($(#[doc = $meaning] $variant,)+)+
        }

        impl Reason {
            /// Every reason, in the order of the tables.
            pub const ALL: &'static [Self] = &[$($(Self::$variant,)+)+];

            /// The reason as problem documents, logs and metrics write it. Two reasons have the same name only if they never
            /// come with the same code.
            pub const fn name(self) -> &'static str {
                match self {
                    $($(Self::$variant => $name,)+)+
                }
            }

            /// The codes of the refusals that it comes with; none if it comes with no refusal.
            pub const fn codes(self) -> &'static [Code] {
                match self {
                    $($(Self::$variant => &[$(Code::$code,)*],)+)+
                }
            }

            /// Where it is explained.
            pub const fn table(self) -> ReasonTable {
                match self {
                    $($(Self::$variant => ReasonTable::$table,)+)+
                }
            }

            /// What it means, as Markdown, and what to do if that is not clear from it. The gateway does not call this, so its
            /// module does not have these texts.
            pub const fn meaning(self) -> &'static str {
                match self {
                    $($(Self::$variant => $meaning,)+)+
                }
            }
        }
    };
}

reasons! {
    Keys {
        KeyMultiple, "multiple", [KeyInvalid],
            "more than one `Idempotency-Key`, or a comma outside quotes";
        KeyEmpty, "empty", [KeyInvalid],
            "no value, or `\"\"`";
        KeySyntax, "syntax", [KeyInvalid],
            "begins with `\"` and is no Structured Field string (RFC 8941). For [signed callers](identity.md#signed-callers): lacks their prefix";
        KeyLength, "length", [KeyInvalid],
            "more than 255 characters";
        KeyCharset, "charset", [KeyInvalid],
            "a character outside `A-Z a-z 0-9 . _ ~ -`; with `\"charset\": \"visible\"` a space, a comma, or one outside visible ASCII";
        KeyReservedPrefix, "reserved_prefix", [KeyInvalid],
            "begins with `t-`, as namespaced keys do";
        KeyFormat, "format", [KeyInvalid],
            "not the form that this operation asks for (UUID, UUID version 7, ULID, a pattern), or the key's own time is more than 5 minutes ahead";
        KeyExpired, "expired", [KeyInvalid],
            "the key's own time is longer ago than `max_age`. Find out whether its first request took effect before you send a new key";
        KeyPlaces, "places", [KeyInvalid],
            "two of the places that `key.from` names hold different keys";
        KeyBodyNotJson, "body_not_json", [KeyInvalid],
            "the body can hold the key (`key.from`) and is no JSON";
        KeyNotString, "not_string", [KeyInvalid],
            "the member of the body that holds the key is no string";
        KeyTwice, "twice", [KeyInvalid],
            "the body has that member, or one around it, twice";
        KeyNamespacedLength, "namespaced_length", [KeyInvalid],
            "too long with tenant, project and subject before it";
    }
    Signatures {
        MissingHeader, "missing_header", [WebhookSignatureInvalid SignatureInvalid],
            "the signature, the timestamp or another signed header is missing";
        MalformedHeader, "malformed_header", [WebhookSignatureInvalid SignatureInvalid],
            "one of them is malformed, such as an id that holds the `.` which ends it in the signed text";
        AmbiguousHeader, "ambiguous_header", [WebhookSignatureInvalid SignatureInvalid],
            "one of them comes twice with two values";
        UnsupportedScheme, "unsupported_scheme", [WebhookSignatureInvalid SignatureInvalid],
            "the request says that it is signed in a way that the provider's file does not describe";
        NoSupportedSignature, "no_supported_signature", [WebhookSignatureInvalid SignatureInvalid],
            "no signature is made in a way that the provider's file describes";
        TimestampExpired, "timestamp_expired", [WebhookSignatureInvalid SignatureInvalid],
            "the timestamp is too old";
        TimestampFuture, "timestamp_future", [WebhookSignatureInvalid SignatureInvalid],
            "the timestamp is too far ahead";
        SignatureMismatch, "signature_mismatch", [WebhookSignatureInvalid SignatureInvalid],
            "the sender has another secret, or signed other bytes";
        MissingBodyHash, "missing_body_hash", [WebhookSignatureInvalid SignatureInvalid],
            "Twilio: a JSON body needs `bodySHA256` in the URL";
        AmbiguousBodyHash, "ambiguous_body_hash", [WebhookSignatureInvalid SignatureInvalid],
            "Twilio: the URL has `bodySHA256` twice";
        BodyHashMismatch, "body_hash_mismatch", [WebhookSignatureInvalid SignatureInvalid],
            "Twilio: `bodySHA256` in the URL is the hash of another body";
        SignedBodyNotJson, "body_not_json", [WebhookSignatureInvalid SignatureInvalid],
            "Square, Twitch, HubSpot: the body is no JSON object or array, and only that form tells where it begins in the signed text";
        SecretInvalid, "secret_invalid", [DependencyUnavailable],
            "the secret is empty, or not in the provider's encoding";
    }
    Lookups {
        BindingNotFound, "binding_not_found", [WebhookUnknown],
            "the registry does not know the id";
        BindingNotValid, "binding_not_valid", [WebhookUnknown],
            "the id is disabled or expired";
        BindingOfAnotherKind, "binding_of_another_kind", [WebhookUnknown],
            "the id is no webhook's";
        ProviderMismatch, "provider_mismatch", [WebhookUnknown],
            "the path names another provider than the registry";
        BindingMalformed, "binding_malformed", [DependencyUnavailable],
            "tenant, project or provider are missing or malformed in the registry";
        SecretMissing, "secret_missing", [DependencyUnavailable],
            "there is no secret";
        SecretMalformed, "secret_malformed", [DependencyUnavailable],
            "the secret is neither `secret` nor `secrets`";
        SecretStoreForbidden, "secret_store_forbidden", [DependencyUnavailable],
            "OpenBao does not accept the token";
        RegistryForbidden, "registry_forbidden", [DependencyUnavailable],
            "Unkey does not accept the root key";
        SecretStoreSealed, "secret_store_sealed", [DependencyUnavailable],
            "OpenBao is sealed";
        SecretStoreUnreachable, "secret_store_unreachable", [DependencyUnavailable],
            "no connection to OpenBao, or no token to send";
        RegistryUnreachable, "registry_unreachable", [DependencyUnavailable],
            "no connection to Unkey, or no root key to send";
        SecretStoreTimeout, "secret_store_timeout", [DependencyUnavailable],
            "no answer of OpenBao in time";
        RegistryTimeout, "registry_timeout", [DependencyUnavailable],
            "no answer of Unkey in time";
        SecretStoreError, "secret_store_error", [DependencyUnavailable],
            "OpenBao answered 5xx";
        RegistryError, "registry_error", [DependencyUnavailable],
            "Unkey answered 5xx";
        SecretStoreThrottled, "secret_store_throttled", [DependencyUnavailable],
            "OpenBao answered 429";
        RegistryThrottled, "registry_throttled", [DependencyUnavailable],
            "Unkey answered 429 or `RATE_LIMITED`";
        SecretStoreMoved, "secret_store_moved", [DependencyUnavailable],
            "OpenBao answered with a redirection: a standby that does not forward";
        SecretStoreRefused, "secret_store_refused", [DependencyUnavailable],
            "OpenBao has no such mount, or gave another status";
        RegistryRefused, "registry_refused", [DependencyUnavailable],
            "Unkey gave another status";
        SecretStoreReplyMalformed, "secret_store_reply_malformed", [DependencyUnavailable],
            "OpenBao's answer is no JSON, incomplete, empty, or longer than 64 KiB";
        RegistryReplyMalformed, "registry_reply_malformed", [DependencyUnavailable],
            "Unkey's answer is no JSON, incomplete, empty, or longer than 64 KiB";
        LookupsExhausted, "lookups_exhausted", [DependencyUnavailable],
            "more than 1,024 ids are being looked up at once";
        LookupsPaced, "lookups_paced", [DependencyUnavailable],
            "more than 1,024 ids are being looked up, or were lately unknown";
    }
    ApiKeys {
        ApiKeyMalformed, "api_key_malformed", [ApiKeyInvalid],
            "several lines, more than 512 characters, or a space, a comma or a character outside visible ASCII";
        ApiKeyNotFound, "api_key_not_found", [ApiKeyInvalid],
            "Unkey does not know the key, or the root key may not verify keys of its API";
        ApiKeyNotValid, "api_key_not_valid", [ApiKeyInvalid],
            "the key is disabled or expired";
        ApiKeyOfAnotherKind, "api_key_of_another_kind", [ApiKeyInvalid],
            "it is a webhook id (`meta.kind` is `webhook`), which is no secret";
        ApiKeyPermissions, "api_key_permissions", [ApiKeyForbidden],
            "the key lacks a permission that the route asks for";
        ApiKeyForbidden, "api_key_forbidden", [ApiKeyForbidden],
            "Unkey says `FORBIDDEN`: its list of allowed addresses lacks the gateway's, or the workspace is disabled";
        ApiKeyUsedUp, "api_key_used_up", [ApiKeyForbidden],
            "the key has no credits left";
        ApiKeyRateLimited, "api_key_rate_limited", [RateLimited],
            "the key is above a rate limit of its own in Unkey";
    }
    Logs {
        DeliveryIdMissing, "delivery_id_missing", [TransportTranslationFailed],
            "the genuine delivery has no identifier";
        DeliveryIdEmpty, "delivery_id_empty", [TransportTranslationFailed],
            "the delivery's identifier is empty";
        DeliveryIdAmbiguous, "delivery_id_ambiguous", [TransportTranslationFailed],
            "the delivery has two identifiers";
        DeliveryIdNotString, "delivery_id_not_string", [TransportTranslationFailed],
            "the delivery's identifier is no string";
        MultipleEvents, "multiple_events", [TransportTranslationFailed],
            "the delivery holds several events, for which one key cannot stand";
        DeliveryBodyNotJson, "body_not_json", [TransportTranslationFailed],
            "the delivery's identifier or target stands in a body that is no valid JSON";
        TargetMemberMissing, "target_member_missing", [TransportTranslationFailed],
            "the delivery's body lacks a value of the [target](webhooks.md#targets-from-a-body)";
        TargetMemberUnusable, "target_member_unusable", [TransportTranslationFailed],
            "a value of the target is there twice, is no string and no integer, is longer than 512 bytes, or cannot stand in a path";
        TargetMemberUnsigned, "target_member_unsigned", [TransportTranslationFailed],
            "the signature does not cover a value of the target";
        WaitingFull, "waiting_full", [DependencyUnavailable],
            "waiting requests use all the memory that they may in this worker (16 MiB before, 16 MiB after a verified signature). Look for senders that do not finish requests";
        WaitingShare, "waiting_share", [DependencyUnavailable],
            "the waiting requests of this tenant, webhook or signed caller use their share (1 MiB), and more than half of all is used. Look for what this one does not finish";
        InvocationLookupFailed, "invocation_lookup_failed", [DependencyUnavailable],
            "Restate did not tell an invocation for a recovery. Look at Restate and `backend.cluster`. Where the question was whether a key is in flight, only `idempotency_lookup_total` has this, and the request was forwarded";
        InvocationLookupMalformed, "invocation_lookup_malformed", [DependencyUnavailable],
            "Restate told no invocation id: it is older than 1.7, or `backend.cluster` is not Restate";
        GuardFailed, "guard_failed", [DependencyUnavailable],
            "the [guard](backends.md#compare-requests-the-guard) did not answer in a second. Look whether it runs and is registered, and at `backend.cluster`, which has to be a cluster of its own";
        GuardMalformed, "guard_malformed", [DependencyUnavailable],
            "the guard's answer is no fingerprint: no such service, or `backend.cluster` is not the backend";
        GuardIncomparable, "guard_incomparable", [DependencyUnavailable],
            "the first request was fingerprinted in another way, by another version or before `fingerprint` or `fingerprint_headers` was changed. It ends when the guard has forgotten it. A new key could do the work twice: [ask for the result](callers.md#get-a-lost-answer)";
        CallerWaitsFull, "caller_waits_full", [],
            "the caller waits for as many results as one may, so this request did not wait: result, or 202 at once. Look for clients that ask again without waiting";
        TenantWaitsFull, "tenant_waits_full", [],
            "the same for the callers of the tenant together";
        LookupLost, "lookup_lost", [DependencyUnavailable],
            "the filter has lost the lookup. This should not happen: report it";
    }
    Observed {
        ObservedBodyTooLarge, "body_too_large", [],
            "with `\"collision\": \"observe\"`: the body is longer than `max_body_bytes`, so no claim was made";
        ObservingFull, "observing_full", [],
            "with `\"collision\": \"observe\"`: kept bodies use all the memory that they may (16 MiB), so no claim was made";
    }
    Unshaped {
        AnswerNotJson, "body_not_json", [],
            "the answer's body is no JSON, or empty";
        AnswerEncoded, "body_encoded", [],
            "the answer's body is compressed";
        AnswerTooLong, "body_too_long", [],
            "the answer's body is longer than 1 MiB";
        AnswerKeptBack, "body_kept_back", [],
            "the answer's body did not come: the gateway lacks `allow_on_headers_stop_iteration`";
        AnswerMemberMissing, "member_missing", [],
            "the answer's body lacks a member that `Location` needs";
        AnswerMemberUnusable, "member_unusable", [],
            "a member that `Location` needs is there twice, is no string and no integer, or makes no path";
    }
}

impl Reason {
    /// The reason with this name that comes with this code; `None` for a name that this release does not have. Without a
    /// code, or with one that the reason does not come with, the first of this name.
    pub fn named(name: &str, code: Option<Code>) -> Option<Self> {
        let named = || Self::ALL.iter().copied().filter(|reason| reason.name() == name);
        let fits = |reason: &Self| code.is_some_and(|code| reason.codes().contains(&code));
        named().find(fits).or_else(|| named().next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_a_code_are_one_reason() {
        for (at, reason) in Reason::ALL.iter().enumerate() {
            for other in Reason::ALL.iter().skip(at + 1).filter(|other| other.name() == reason.name()) {
                let shared = reason.codes().iter().any(|code| other.codes().contains(code));
                assert!(!shared && reason.table() != other.table(), "{reason:?} {other:?}");
            }
            for code in reason.codes() {
                assert_eq!(Reason::named(reason.name(), Some(*code)), Some(*reason));
            }
        }
        assert_eq!(Reason::named("no_such_reason", None), None);
    }
}
