//! `webhooks.unkey` and `webhooks.openbao`: the services for lookups of bindings and secrets.

use super::secrets::{Live, Secret, live_secret, read_secret};
use super::texts::parse_text;
use crate::json::cursor::{Issues, JsonCursor, ObjectCursor};
use crate::policy::members::{Custom, Integer, Member, Text, TextOr, members};

/// The maximum age of a cached result, stale use included, in seconds. After that time a revoked secret stops working.
const MAX_LIFETIME_S: u64 = 900;

members! {
    /// Where bindings are looked up that `static` lacks: `keys.verifyKey` with the webhook id as the key. Their secrets come from
    /// `openbao`.
    unkey = "unkey", "Unkey";

    /// The gateway's cluster for these calls.
    CLUSTER: Text<String> { parse: parse_text } = "cluster", "Cluster", required "",
        schema r##"{"$ref": "#/$defs/text", "examples": ["lookups"]}"##;

    /// The `Host` of the filter's calls to `cluster`. Default: the cluster's name.
    AUTHORITY: Text<String> { parse: parse_authority } = "authority", "Authority",
        schema r#"{"type": "string", "pattern": "^[A-Za-z0-9._:\\[\\]-]+$", "examples": ["lookups.internal:8200"]}"#;

    /// The bearer token of these calls. Better leave it out and let the gateway add it (`credential_injector`).
    ROOT_KEY: Custom {} = "root_key", "Root key", schema r##"{"$ref": "#/$defs/secret"}"##;

    /// How long the answer to a call of the filter's own may take, in milliseconds. A request waits no longer: it is then answered 503,
    /// or forwarded by `observe` and `conflict`.
    TIMEOUT_MS: Integer { least: 10, most: 30_000, default: DEFAULT_TIMEOUT_MS } = "timeout_ms", "Time limit";

    /// How long an answer is used, in seconds. What is revoked works for so long, and up to 300 seconds longer while the store is down,
    /// but at most 900 in all. "There is none" counts for 10 seconds at most.
    CACHE_TTL_S: Integer { least: 1, most: MAX_LIFETIME_S, default: 60 } = "cache_ttl_s", "Lifetime";
}

members! {
    /// Where secrets are looked up that bindings lack: a KV engine, version 2, of OpenBao or Vault, with `{"secret": "…"}` or `{"secrets":
    /// ["…", …]}`, newest first.
    openbao = "openbao", "OpenBao",
        also [unkey::CLUSTER, unkey::AUTHORITY, unkey::TIMEOUT_MS, unkey::CACHE_TTL_S, live_secret::ROTATION_GRACE_S];

    /// The mount path of the engine; with a namespace: `team-a/webhooks`.
    MOUNT: TextOr<String> { parse: parse_mount, default: "secret" } = "mount", "Mount",
        schema r#"{"type": "string", "pattern": "^(?!\\.{1,2}(/|$))[A-Za-z0-9._~:-]+(/(?!\\.{1,2}(/|$))[A-Za-z0-9._~:-]+)*$"}"#;

    /// The path of a secret in the engine. Each of the three values stands in it once, with a `:` or a `/` between them.
    PATH: TextOr<String> { parse: parse_template, default: "{tenant}:{project}:{provider}" } = "path", "Path",
        schema r#"{"type": "string", "pattern": "^[A-Za-z0-9._~:/{}-]+$"}"#;

    /// The `X-Vault-Token` of these calls. Better leave it out and let the gateway add it (`credential_injector`).
    TOKEN: Custom {} = "token", "Token", schema r##"{"$ref": "#/$defs/secret"}"##;
}

/// A service that the filter calls over HTTP, through a cluster of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Service {
    /// The gateway's cluster
    pub cluster: String,
    /// `Host`
    pub authority: String,
    /// The timeout of a call, in milliseconds
    pub timeout_ms: u32,
    /// The lifetime of a positive result, in milliseconds
    pub cache_ms: u64,
    /// The lifetime of a negative result, in milliseconds
    pub negative_ms: u64,
    /// How much longer a positive result is used while the service is down, in milliseconds
    pub stale_ms: u64,
    /// The credential for the service; `None` if the gateway adds it
    pub credential: Option<Secret>,
}

/// Bindings from Unkey.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unkey {
    /// Where it is
    pub service: Service,
}

/// Secrets from OpenBao's or Vault's KV engine, version 2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OpenBao {
    /// Where it is
    pub service: Service,
    /// The engine's mount
    pub mount: String,
    /// The path of a secret in the mount, with `{tenant}`, `{project}` and `{provider}` once each
    path: String,
    /// How long the previous version is valid after a new one, in milliseconds
    pub grace_ms: u64,
}

/// The placeholders of a path, in the order of the values in an owner.
const VALUES: [&str; 3] = ["{tenant}", "{project}", "{provider}"];

impl OpenBao {
    /// The request path of a secret; `owner` is `{tenant}:{project}:{provider}`.
    pub(crate) fn request_path(&self, owner: &str) -> String {
        // The values contain only characters that need no escape in a path.
        let values = VALUES.iter().zip(owner.split(':'));
        let path = values.fold(self.path.clone(), |path, (name, value)| path.replace(name, value));
        format!("/v1/{}/data/{path}", self.mount)
    }
}

/// Reads `unkey`; `inline`: the document may contain credentials.
#[inline(never)]
pub(crate) fn read_unkey(at: &JsonCursor<'_>, inline: bool, issues: &mut Issues) -> Option<Unkey> {
    let fields = unkey::OBJECT.read(at, issues)?;
    read_registry(&fields, &BINDING_LIFETIMES, inline, issues)
}

/// Reads a registry, whose results live as `of` says.
pub(crate) fn read_registry(
    fields: &ObjectCursor<'_>,
    of: &Lifetimes,
    inline: bool,
    issues: &mut Issues,
) -> Option<Unkey> {
    read_service(fields, &unkey::ROOT_KEY, of, inline, issues).map(|service| Unkey { service })
}

/// Reads `openbao`.
#[inline(never)]
pub(crate) fn read_openbao(at: &JsonCursor<'_>, inline: bool, issues: &mut Issues) -> Option<OpenBao> {
    let fields = openbao::OBJECT.read(at, issues)?;
    let mount = openbao::MOUNT.read(&fields, issues);
    let path = openbao::PATH.read(&fields, issues);
    let grace_ms = live_secret::ROTATION_GRACE_S.read(&fields, issues) * 1000;
    let service = read_service(&fields, &openbao::TOKEN, &BINDING_LIFETIMES, inline, issues);
    Some(OpenBao { service: service?, mount: mount?, path: path?, grace_ms })
}

/// How long results live.
pub(crate) struct Lifetimes {
    /// The member with the lifetime of a positive result
    pub positive: Member<Integer>,
    /// How much longer a positive result is used while the service is down, in seconds
    pub stale_s: u64,
}

/// The lifetimes of bindings and secrets.
const BINDING_LIFETIMES: Lifetimes = Lifetimes { positive: unkey::CACHE_TTL_S, stale_s: 300 };
/// How long a negative result lives, in seconds, if a positive one does not live shorter: what is new does not work for so long.
const NEGATIVE_S: u64 = 10;

/// How long an answer to a call of the filter's own may take if the document does not say it, in milliseconds.
pub(super) const DEFAULT_TIMEOUT_MS: u64 = 1000;

#[inline(never)]
fn read_service(
    fields: &ObjectCursor<'_>,
    credential: &Member<Custom>,
    lifetimes: &Lifetimes,
    inline: bool,
    issues: &mut Issues,
) -> Option<Service> {
    let cluster = unkey::CLUSTER.read(fields, issues);
    let authority = unkey::AUTHORITY.read(fields, issues);
    let credential = credential.at(fields, issues).and_then(|at| read_secret(&at, inline, Live::Refused, issues));
    let cache_s = lifetimes.positive.read(fields, issues);
    let cluster = cluster?;
    Some(Service {
        authority: authority.unwrap_or_else(|| cluster.clone()),
        cluster,
        timeout_ms: milliseconds(unkey::TIMEOUT_MS.read(fields, issues)),
        cache_ms: cache_s * 1000,
        negative_ms: cache_s.min(NEGATIVE_S) * 1000,
        stale_ms: (MAX_LIFETIME_S - cache_s).min(lifetimes.stale_s) * 1000,
        credential,
    })
}

/// A time limit as calls have it.
pub(super) fn milliseconds(limit: u64) -> u32 {
    limit.try_into().unwrap_or(u32::MAX)
}

/// Parses the value of a `Host` header.
fn parse_authority(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:[]".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        Ok(text.to_owned())
    } else {
        Err("expected a host, with a port if it needs one, such as `openbao.internal:8200`".to_owned())
    }
}

const fn is_path_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b'-' | b':' | b'/')
}

fn is_path(text: &str) -> bool {
    text.bytes().all(is_path_byte) && text.split('/').all(|segment| !matches!(segment, "" | "." | ".."))
}

const SEGMENTS: &str = "expected segments of A-Z a-z 0-9 . _ ~ : -";

/// Parses a mount or a namespace.
fn parse_mount(text: &str) -> Result<String, String> {
    if is_path(text) { Ok(text.to_owned()) } else { Err(SEGMENTS.to_owned()) }
}

/// Parses a path that has each placeholder once, with a separator between them, so that no two owners have the same
/// path.
fn parse_template(text: &str) -> Result<String, String> {
    let mut plain = text.to_owned();
    for name in VALUES {
        if text.matches(name).count() != 1 {
            return Err("the path has to hold each of {tenant}, {project} and {provider} exactly once".to_owned());
        }
        plain = plain.replace(name, "*");
    }
    let mut pieces = plain.split('*').skip(1).take(VALUES.len() - 1);
    if !pieces.all(|piece| piece.contains([':', '/'])) {
        return Err("nothing separates the values: put a `:` or a `/` between them".to_owned());
    }
    if is_path(&plain.replace('*', "x")) && !text.contains('*') {
        Ok(text.to_owned())
    } else {
        Err(SEGMENTS.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_gives_each_owner_a_path_of_its_own() {
        let bao = |template: &str| {
            let path = parse_template(template)?;
            let service = Service {
                cluster: "c".into(),
                authority: "a".into(),
                timeout_ms: 1,
                cache_ms: 1,
                negative_ms: 1,
                stale_ms: 1,
                credential: None,
            };
            Ok::<_, String>(OpenBao { service, mount: "kv/hooks".into(), path, grace_ms: 0 })
        };
        let of = |template: &str| bao(template).map(|bao| bao.request_path("acme:shop:stripe"));
        assert_eq!(of("{tenant}:{project}:{provider}").unwrap(), "/v1/kv/hooks/data/acme:shop:stripe");
        assert_eq!(of("hooks/{provider}/{tenant}/{project}").unwrap(), "/v1/kv/hooks/data/hooks/stripe/acme/shop");
        for bad in [
            "",
            "{tenant}:{project}",
            "{tenant}{project}:{provider}",
            "{tenant}-{project}:{provider}",
            "{tenant}:{tenant}:{project}:{provider}",
            "{tenant}:{project}:{provider",
            "{tenant}:{project}:{provider}:{id}",
            "/{tenant}:{project}:{provider}",
            "a//{tenant}:{project}:{provider}",
            "../{tenant}:{project}:{provider}",
            "{tenant}:{project}:{provider}?version=1",
            "{tenant}:{project}:{provider}%2f",
        ] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
