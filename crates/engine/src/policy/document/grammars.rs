//! What several members refer to in the JSON Schema: a grammar of texts, or a value of several types. The functions that read
//! them are named; crates/engine/tests/schema.rs compares the two.

use super::header_names::{
    IDENTITY_TAKEN, MEANT, MEANT_FAMILIES, NO_API_KEYS, RETRY_FAMILIES, RETRY_TAKEN, UNCOMPARED, UNCOMPARED_FAMILIES,
};
use super::routes;
use crate::headers::IDEMPOTENCY_KEY;
use crate::policy::members::description::Grammar;

/// Makes the grammars of their blocks: a description, the name of the definition, the title, the schema.
macro_rules! grammars {
    ($($(#[doc = $text:literal])* $definition:literal, $title:literal, $schema:expr;)*) => {
        /// The grammars, in the order of the schema.
        pub(in crate::policy) const GRAMMARS: &[Grammar] = &[
            $(Grammar { definition: $definition, title: $title, text: concat!("" $(, $text)*), schema: || $schema.into() },)*
        ];
    };
}

grammars! {
    /// At least one character.
    "text", "Text",
        r#"{"type": "string", "minLength": 1, "pattern": "^[^\\u0000]+$"}"#;

    /// 1 to 128 of A-Z a-z 0-9 . _ - that do not begin with _.
    "name", "Name",
        r#"{"type": "string", "pattern": "^[A-Za-z0-9.-][A-Za-z0-9._-]{0,127}$"}"#;

    /// An absolute http or https URL without a fragment.
    "url", "URL",
        r#"{"type": "string", "pattern": "^https?://[!$%&'()*+,.0-9:;=?@A-Z\\[\\]_a-z~-][!$%&'()*+,./0-9:;=?@A-Z\\[\\]_a-z~-]*$"}"#;

    /// A header's name.
    "headerName", "Header",
        r#"{"type": "string", "pattern": "^[!#$%&'+.^_`|~0-9A-Za-z-]+$"}"#;

    /// A count and a unit: `30s`, `15m`, `24h`, `7d`.
    "duration", "Duration",
        r#"{"type": "string", "pattern": "^[0-9]*[1-9][0-9]*[smhd]$", "examples": ["30s", "15m", "24h", "7d"]}"#;

    /// 1 to 63 of A-Z a-z 0-9 . _ ~ - that do not begin with _, neither `.` nor `..`.
    "segment", "Tenant or project",
        r#"{"type": "string", "pattern": "^(?!\\.{1,2}$)[A-Za-z0-9.~-][A-Za-z0-9._~-]{0,62}$"}"#;

    /// [a-z][a-z0-9_]*
    "subjectType", "Subject type",
        r#"{"type": "string", "pattern": "^[a-z][a-z0-9_]{0,62}$"}"#;

    /// `{type}:{id}`, the id percent-encoded outside A-Z a-z 0-9 . _ ~ -.
    "subject", "Subject",
        r#"{"type": "string", "pattern": "^[a-z][a-z0-9_]{0,62}:(?=.{1,200}$)(?:[A-Za-z0-9._~-]|%(?!2[DE]|3[0-9]|4[1-9A-F]|5[0-9AF]|6[1-9A-F]|7[0-9AE]|[01][0-9A-F]|7F)[0-9A-F]{2})+$", "examples": ["service:webhook-ingest"]}"#;

    /// A provider's name as in the catalogue, [a-z0-9_]+.
    "provider", "Provider",
        r#"{"type": "string", "pattern": "^[a-z0-9_]{1,64}$", "examples": ["stripe", "github", "standard_webhooks"]}"#;

    /// [A-Za-z0-9_-]{8,64}
    "webhookId", "Webhook id",
        r#"{"type": "string", "pattern": "^[A-Za-z0-9_-]{8,64}$", "examples": ["wh_01JABC"]}"#;

    /// As for signatures.
    "secrets", "Secrets",
        r##"{"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/secret"}, "examples": [[{"env": "STRIPE_WHSEC"}, {"env": "STRIPE_WHSEC_PREVIOUS"}]]}"##;

    /// The secrets, in the order in which they are tried. Keep the previous one while you rotate. `env`: a variable of the gateway, which
    /// `host_env_keys` lists. `sds`: a secret of Envoy, in the dynamic module alone.
    "signingSecrets", "Secrets",
        r##"{"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/signingSecret"}, "examples": [[{"env": "STRIPE_WHSEC"}, {"env": "STRIPE_WHSEC_PREVIOUS"}], [{"sds": "stripe-whsec"}]]}"##;

    /// `{"env": NAME}` is read from the environment. `{"sds": NAME}` is a secret that Envoy keeps up to date; the dynamic module has such
    /// secrets in Envoy 1.40 or newer, and the WebAssembly module does not start with them. A literal string shows in the gateway's config
    /// dump and needs `"allow_inline_secrets": true`.
    "signingSecret", "Secret of signatures",
        r##"{"if": {"type": "object", "anyOf": [{"required": ["sds"]}, {"required": ["config_source"]}, {"required": ["rotation_grace_s"]}]}, "then": {"$ref": "#/$defs/liveSecret"}, "else": {"$ref": "#/$defs/secret"}}"##;

    /// `{"env": NAME}` is read from the VM's environment (`vm_config.environment_variables.host_env_keys`). A literal string shows in the
    /// gateway's config dump and needs `"allow_inline_secrets": true`.
    "secret", "Secret",
        r##"{"if": {"type": "string"}, "then": {"$ref": "#/$defs/text"}, "else": {"$ref": "#/$defs/variable"}}"##;

    /// A member's name, or the way to a nested one as an array (a dot is part of a name).
    "member", "Member of the metadata",
        r##"{"if": {"type": "array"}, "then": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/text"}}, "else": {"$ref": "#/$defs/text"}}"##;

    /// A claim's name, or the way to a nested one as an array of at most eight names (a dot is part of a name).
    "claim", "Claim",
        r##"{"if": {"type": "array"}, "then": {"type": "array", "minItems": 1, "maxItems": 8, "items": {"$ref": "#/$defs/text"}}, "else": {"$ref": "#/$defs/text"}}"##;

    /// A claim of a token, or a constant.
    "claimOrConstant", "",
        r##"{"if": {"type": "object"}, "then": {"$ref": "#/$defs/constant"}, "else": {"$ref": "#/$defs/claim"}}"##;

    /// A member of the metadata, or a constant.
    "memberOrConstant", "",
        r##"{"if": {"type": "object"}, "then": {"$ref": "#/$defs/constant"}, "else": {"$ref": "#/$defs/member"}}"##;

    /// A header, or a constant.
    "headerOrConstant", "",
        r##"{"if": {"type": "object"}, "then": {"$ref": "#/$defs/constant"}, "else": {"$ref": "#/$defs/identityHeader"}}"##;

    /// A JSON pointer (RFC 6901) into `data` of the reply, such as `/identity/externalId`, `/meta/project_id` or `/keyId`.
    "keyMember", "Member of the registry's reply",
        r#"{"type": "string", "pattern": "^(/[^/]+)+$"}"#;

    /// A member of the registry's reply, or a constant.
    "keyMemberOrConstant", "",
        r##"{"if": {"type": "object"}, "then": {"$ref": "#/$defs/constant"}, "else": {"$ref": "#/$defs/keyMember"}}"##;

    "extraHeader", "", header_but(&MEANT_FAMILIES, &MEANT);

    /// The name of a header, or a JSON pointer to a member of a JSON body.
    "keyPlace", "Place of keys", format!(
        r##"{{"if": {{"type": "string", "pattern": "^(?:/|{}$)"}}, "then": {{"type": "string", "pattern": "^(?:[^/]+|(?:/(?:[^~/]|~[01])*){{1,8}})$"}}, "else": {{"$ref": "#/$defs/extraHeader"}}}}"##,
        any_case(IDEMPOTENCY_KEY)
    );

    /// A header's name with - instead of _, none that has a meaning of its own (`idempotency-key`, `x-edge-idempotency`, `host`,
    /// `content-length`, `transfer-encoding`, `connection`).
    "identityHeader", "Header", header_but(&[], &IDENTITY_TAKEN);

    "apiKeyHeader", "", format!(
        r##"{{"$ref": "#/$defs/identityHeader", "not": {{"pattern": "{}"}}}}"##,
        none_of(&[], &NO_API_KEYS)
    );

    /// A header's name with - instead of _, none that has a meaning of its own (`retry-after`, `link`, `idempotency-…`, `content-…` and
    /// others).
    "retryHeader", "Header", header_but(&RETRY_FAMILIES, &RETRY_TAKEN);

    /// A header's name with - instead of _. None of a credential, a key, a connection, a proxy or an attempt (`authorization`, `host`,
    /// `x-forwarded-…`, `traceparent` and others), and not `content-type`, which every fingerprint has.
    "fingerprintHeader", "Header", header_but(&UNCOMPARED_FAMILIES, &UNCOMPARED);

    "queryName", "", format!(
        r#"{{"type": "string", "pattern": "^[!#$%&'+.^_`|~0-9A-Za-z-]+$", "not": {{"pattern": "{}"}}, "examples": ["page_token"]}}"#,
        none_of(&[], &routes::STEERING)
    );
}

/// The name of a header with - instead of _, which is none of `names` and does not begin with one of `families`.
fn header_but(families: &[&str], names: &[&str]) -> String {
    format!(
        r#"{{"type": "string", "pattern": "^[!#$%&'+.^`|~0-9A-Za-z-]+$", "not": {{"pattern": "{}"}}}}"#,
        none_of(families, names)
    )
}

/// A pattern of these names, and of all that begin with one of the families; in upper or lower case.
fn none_of(families: &[&str], names: &[&str]) -> String {
    let families: Vec<String> = families.iter().map(|family| any_case(family)).collect();
    let names = names.iter().map(|name| any_case(name)).collect::<Vec<_>>().join("|");
    let names = format!("(?:{names})$");
    format!("^(?:{})", families.into_iter().chain([names]).collect::<Vec<_>>().join("|"))
}

/// A pattern of a text in upper or lower case.
fn any_case(text: &str) -> String {
    let letters = text.chars().map(|char| match char {
        'a'..='z' => format!("[{}{char}]", char.to_ascii_uppercase()),
        other => other.to_string(),
    });
    letters.collect()
}
