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
            "more than one `Idempotency-Key` line, or a comma outside quotes";
        KeyEmpty, "empty", [KeyInvalid],
            "a header without a value, or `\"\"`";
        KeySyntax, "syntax", [KeyInvalid],
            "begins with `\"` but is no Structured Field string (RFC 8941): a missing quote, a bad escape, something behind it that is no parameter. For [callers that sign](identity.md#signed-callers): does not begin with their prefix";
        KeyLength, "length", [KeyInvalid],
            "more than 255 characters";
        KeyCharset, "charset", [KeyInvalid],
            "a character outside `A-Z a-z 0-9 . _ ~ -`; with `\"charset\": \"visible\"` a space, a comma, or one outside visible ASCII";
        KeyReservedPrefix, "reserved_prefix", [KeyInvalid],
            "begins with `t-`, as the namespaced keys do";
        KeyFormat, "format", [KeyInvalid],
            "not a key of the form that this operation asks for: a UUID, a UUID version 7, a ULID, or what its pattern says; or the key's own time is more than 5 minutes ahead";
        KeyExpired, "expired", [KeyInvalid],
            "the key's own time is longer ago than the operation's `max_age`. The result of its first request may be gone: find out whether that request took effect before you send a new one with a new key";
        KeyNamespacedLength, "namespaced_length", [KeyInvalid],
            "with tenant, project and subject before it more than 640 bytes";
    }
    Signatures {
        MissingHeader, "missing_header", [WebhookSignatureInvalid SignatureInvalid],
            "the signature, the timestamp or another signed header is missing";
        MalformedHeader, "malformed_header", [WebhookSignatureInvalid SignatureInvalid],
            "the signature, the timestamp or another signed header is malformed, for example an id that holds the `.` which ends it in the signed text (Standard Webhooks does not allow it)";
        AmbiguousHeader, "ambiguous_header", [WebhookSignatureInvalid SignatureInvalid],
            "the signature, the timestamp or another signed header comes twice with two values";
        UnsupportedScheme, "unsupported_scheme", [WebhookSignatureInvalid SignatureInvalid],
            "a header says that the request is signed in a way that the provider's file does not describe";
        NoSupportedSignature, "no_supported_signature", [WebhookSignatureInvalid SignatureInvalid],
            "there are signatures, and none is made in a way that the provider's file describes";
        TimestampExpired, "timestamp_expired", [WebhookSignatureInvalid SignatureInvalid],
            "the timestamp is outside the tolerance: it is too old";
        TimestampFuture, "timestamp_future", [WebhookSignatureInvalid SignatureInvalid],
            "the timestamp is outside the tolerance: it is too far in the future";
        SignatureMismatch, "signature_mismatch", [WebhookSignatureInvalid SignatureInvalid],
            "no secret fits: the sender has another secret, or signed other bytes";
        MissingBodyHash, "missing_body_hash", [WebhookSignatureInvalid SignatureInvalid],
            "Twilio: a JSON body is signed through `bodySHA256` in the URL, and the URL does not have it";
        AmbiguousBodyHash, "ambiguous_body_hash", [WebhookSignatureInvalid SignatureInvalid],
            "Twilio: the URL has `bodySHA256` twice";
        BodyHashMismatch, "body_hash_mismatch", [WebhookSignatureInvalid SignatureInvalid],
            "Twilio: `bodySHA256` in the URL is the hash of another body; where the URL has it, it is compared, also for a form";
        SignedBodyNotJson, "body_not_json", [WebhookSignatureInvalid SignatureInvalid],
            "only the body's form tells where the body begins in the signed text (Square, Twitch, HubSpot), and the body is no JSON object or array";
        SecretInvalid, "secret_invalid", [DependencyUnavailable],
            "no secret can be used: it is empty, or not in the encoding that the provider uses";
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
            "no connection to OpenBao, an answer of the gateway's own, or no token to send";
        RegistryUnreachable, "registry_unreachable", [DependencyUnavailable],
            "no connection to Unkey, an answer of the gateway's own, or no root key to send";
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
            "OpenBao has no such mount, or answered with any other status";
        RegistryRefused, "registry_refused", [DependencyUnavailable],
            "Unkey answered with any other status";
        SecretStoreReplyMalformed, "secret_store_reply_malformed", [DependencyUnavailable],
            "the answer of OpenBao is no JSON, incomplete, empty, or longer than 64 KiB";
        RegistryReplyMalformed, "registry_reply_malformed", [DependencyUnavailable],
            "the answer of Unkey is no JSON, incomplete, empty, or longer than 64 KiB";
        LookupsExhausted, "lookups_exhausted", [DependencyUnavailable],
            "more than 1,024 ids that are not in the cache are being looked up at once";
        LookupsPaced, "lookups_paced", [DependencyUnavailable],
            "the ids that are being looked up, and those that the service lately did not know, are together more than 1,024";
    }
    ApiKeys {
        ApiKeyMalformed, "api_key_malformed", [ApiKeyInvalid],
            "the header has several lines, or its key is longer than 512 characters, or has a space, a comma or a character outside visible ASCII";
        ApiKeyNotFound, "api_key_not_found", [ApiKeyInvalid],
            "Unkey does not know the key; or the root key may not verify keys of its API";
        ApiKeyNotValid, "api_key_not_valid", [ApiKeyInvalid],
            "the key is disabled or expired";
        ApiKeyOfAnotherKind, "api_key_of_another_kind", [ApiKeyInvalid],
            "the key is a webhook id (`meta.kind` is `webhook`), which is no secret";
        ApiKeyPermissions, "api_key_permissions", [ApiKeyForbidden],
            "the key lacks a permission that the route asks for";
        ApiKeyForbidden, "api_key_forbidden", [ApiKeyForbidden],
            "Unkey says `FORBIDDEN`: the list of allowed IP addresses of the key's API does not have the gateway's, or the workspace is disabled";
        ApiKeyUsedUp, "api_key_used_up", [ApiKeyForbidden],
            "the key has no credits left";
        ApiKeyRateLimited, "api_key_rate_limited", [RateLimited],
            "the key is above a rate limit of its own in Unkey";
    }
    Logs {
        DeliveryIdMissing, "delivery_id_missing", [TransportTranslationFailed],
            "the delivery is genuine and has no identifier";
        DeliveryIdEmpty, "delivery_id_empty", [TransportTranslationFailed],
            "the delivery is genuine and its identifier is empty";
        DeliveryIdAmbiguous, "delivery_id_ambiguous", [TransportTranslationFailed],
            "the delivery is genuine, and its identifier comes twice with two values";
        DeliveryIdNotString, "delivery_id_not_string", [TransportTranslationFailed],
            "the delivery is genuine, and its identifier is of another type than a string";
        MultipleEvents, "multiple_events", [TransportTranslationFailed],
            "the delivery is genuine and holds several events, so one key cannot stand for it";
        DeliveryBodyNotJson, "body_not_json", [TransportTranslationFailed],
            "the delivery is genuine, its identifier or a value of the [target](webhooks.md#targets-from-a-body) stands in the body, and the body is not the JSON that it should be";
        TargetMemberMissing, "target_member_missing", [TransportTranslationFailed],
            "the delivery is genuine, and its body lacks a value that the [target](webhooks.md#targets-from-a-body) is made of. Deliveries that are acknowledged without a call have this reason, too";
        TargetMemberUnusable, "target_member_unusable", [TransportTranslationFailed],
            "the delivery is genuine, and a value that the [target](webhooks.md#targets-from-a-body) is made of is there twice, is no string and no integer, is longer than 512 bytes, or could not stand in a path. Deliveries that are acknowledged without a call have this reason, too";
        TargetMemberUnsigned, "target_member_unsigned", [TransportTranslationFailed],
            "the delivery is genuine, and its signature does not cover the value that the [target](webhooks.md#targets-from-a-body) is made of: the provider signs no body, or the name of a field of a signed form is in the signed text twice";
        WaitingFull, "waiting_full", [DependencyUnavailable],
            "the requests that wait for their bodies or lookups use all of the memory that they may use in this worker: 16 MiB for those whose signature is not verified yet, 16 MiB for those of verified callers. Look for senders that open requests and do not finish them";
        WaitingShare, "waiting_share", [DependencyUnavailable],
            "the waiting requests of this tenant, of this webhook or of this signed caller use their share (1 MiB) of the memory for waiting requests, more than half of which is used. Others are served. Look for what this one opens and does not finish";
        InvocationLookupFailed, "invocation_lookup_failed", [DependencyUnavailable],
            "Restate did not answer the filter's question for an invocation, which comes before a recovery. Check that Restate runs, and `backend.cluster`. Where the question is whether a key is in flight, only the counter `idempotency_lookup_total` has this reason: the request is forwarded";
        InvocationLookupMalformed, "invocation_lookup_malformed", [DependencyUnavailable],
            "Restate's answer to the filter's question for an invocation has no id of one: it is older than 1.7, or `backend.cluster` is not Restate";
        GuardFailed, "guard_failed", [DependencyUnavailable],
            "the [guard](guard.md) did not answer within a second, or could not be called. Check that it runs and is registered with Restate, and `backend.cluster`, which has to be [a cluster of its own](operations.md#clusters-and-their-limits)";
        GuardMalformed, "guard_malformed", [DependencyUnavailable],
            "the guard's answer is no fingerprint: there is no such service (`backend.guard.service`), or `backend.cluster` is not the backend";
        GuardIncomparable, "guard_incomparable", [DependencyUnavailable],
            "the first request under the key was fingerprinted in another way: by another version of the filter, or before the route's `fingerprint` or `fingerprint_headers` was changed. It ends when the guard has forgotten the first request. Until then each request with this key is answered 503. The answer does not advise a new key, because the first request may have done its work, and a new key would do it twice: [ask for its result](clients.md) first";
        CallerWaitsFull, "caller_waits_full", [],
            "the caller waits for as many results in this worker as one may. The request did not wait: it got its result, or 202 at once. Look for clients that ask again without waiting for the answer";
        TenantWaitsFull, "tenant_waits_full", [],
            "all callers of the tenant together wait for as many results in this worker as they may. The request did not wait: it got its result, or 202 at once. Look for clients that ask again without waiting for the answer";
        LookupLost, "lookup_lost", [DependencyUnavailable],
            "the filter has lost the lookup that the request waited for. This should not happen: report it";
    }
    Observed {
        ObservedBodyTooLarge, "body_too_large", [],
            "with `\"collision\": \"observe\"`: the body is longer than the route's `max_body_bytes`, so its claim was not made";
        ObservingFull, "observing_full", [],
            "with `\"collision\": \"observe\"`: the bodies that are kept until they end use all of the memory that they may use in this worker (16 MiB), so the claim was not made";
    }
    Unshaped {
        AnswerNotJson, "body_not_json", [],
            "the answer's body is no JSON, or empty: the policy's `answer` and the handler do not agree";
        AnswerEncoded, "body_encoded", [],
            "the answer's body is compressed: the policy's `answer` and the handler do not agree";
        AnswerTooLong, "body_too_long", [],
            "the answer's body is longer than 1 MiB: the policy's `answer` and the handler do not agree";
        AnswerKeptBack, "body_kept_back", [],
            "the answer's body did not come: the gateway lacks `allow_on_headers_stop_iteration`";
        AnswerMemberMissing, "member_missing", [],
            "the answer's body lacks a member that `Location` needs: the policy's `answer` and the handler do not agree";
        AnswerMemberUnusable, "member_unusable", [],
            "a member that `Location` needs is there twice, or is no string and no integer, or its value makes no path in normal form: the policy's `answer` and the handler do not agree";
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
