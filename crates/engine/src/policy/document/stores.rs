//! `webhooks.unkey` and `webhooks.openbao`: the services for lookups of bindings and secrets.

use super::parse_text;
use super::secrets::{Live, Secret, read_secret};
use crate::json::cursor::{Issues, JsonCursor, ObjectCursor};

/// The maximum age of a cached result, stale use included, in seconds. After that time a revoked secret stops working.
const MAX_LIFETIME_S: u64 = 900;

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
    /// The path of the verification
    pub path: String,
}

/// The registry of API keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeyRegistry {
    /// Where it is
    pub unkey: Unkey,
    /// Its JSON pointer in the document
    pub pointer: String,
    /// The members of its replies that are tenant, project and subject
    pub members: [Option<Vec<String>>; 3],
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
    /// The namespace
    pub namespace: Option<String>,
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
pub(super) fn read_unkey(at: &JsonCursor<'_>, inline: bool, issues: &mut Issues) -> Option<Unkey> {
    let fields = at.fields(&[&["path", "root_key"], &SERVICE[..]].concat(), issues)?;
    let path = read_unkey_path(&fields, issues);
    let service = read_service(&fields, "root_key", inline, &LIFETIMES, issues);
    Some(Unkey { service: service?, path: path? })
}

/// The maximum age of a cached result about an API key, in seconds. After that time the registry is asked again.
const MAX_KEY_LIFETIME_S: u64 = 60;

/// The members of `unkey` of an identity source that describe the registry.
pub(super) const KEY_REGISTRY: [&str; 8] =
    ["path", "root_key", "cluster", "authority", "timeout_ms", "cache_ttl_s", "negative_ttl_s", "stale_if_error_s"];

/// Reads the registry of API keys from `unkey` of an identity source; `inline`: the document may contain credentials.
#[inline(never)]
pub(super) fn read_key_registry(fields: &ObjectCursor<'_>, inline: bool, issues: &mut Issues) -> Option<Unkey> {
    let path = read_unkey_path(fields, issues);
    let service = read_service(fields, "root_key", inline, &KEY_LIFETIMES, issues);
    Some(Unkey { service: service?, path: path? })
}

fn read_unkey_path(fields: &ObjectCursor<'_>, issues: &mut Issues) -> Option<String> {
    fields.get("path").map_or(Some("/v2/keys.verifyKey".to_owned()), |at| at.parse(issues, parse_path))
}

/// Reads `openbao`.
#[inline(never)]
pub(super) fn read_openbao(at: &JsonCursor<'_>, inline: bool, issues: &mut Issues) -> Option<OpenBao> {
    let own = ["mount", "path", "token", "namespace", "rotation_grace_s"];
    let fields = at.fields(&[&own, &SERVICE[..]].concat(), issues)?;
    let mount = fields.get("mount").map_or(Some("secret".to_owned()), |at| at.parse(issues, parse_mount));
    let path = match fields.get("path") {
        Some(at) => at.parse(issues, parse_template),
        None => parse_template("{tenant}:{project}:{provider}").ok(),
    };
    let namespace = fields.get("namespace").and_then(|at| at.parse(issues, parse_mount));
    let grace = fields.get("rotation_grace_s").and_then(|at| at.integer(0..=604_800, issues));
    let service = read_service(&fields, "token", inline, &LIFETIMES, issues);
    let grace_ms = grace.unwrap_or(3600) * 1000;
    Some(OpenBao { service: service?, mount: mount?, path: path?, namespace, grace_ms })
}

/// The members that both objects have.
const SERVICE: [&str; 6] = ["cluster", "authority", "timeout_ms", "cache_ttl_s", "negative_ttl_s", "stale_if_error_s"];

/// How long results live, in seconds.
struct Lifetimes {
    /// The default of `cache_ttl_s`, and its maximum
    positive: (u64, u64),
    /// The maximum of `negative_ttl_s`
    negative: u64,
    /// The default of `stale_if_error_s`
    stale: u64,
}

/// The lifetimes of bindings and secrets.
const LIFETIMES: Lifetimes = Lifetimes { positive: (60, MAX_LIFETIME_S), negative: 300, stale: 300 };
/// The lifetimes of what is known about API keys.
const KEY_LIFETIMES: Lifetimes =
    Lifetimes { positive: (30, MAX_KEY_LIFETIME_S), negative: MAX_KEY_LIFETIME_S, stale: 0 };

/// How long an answer to a call of the filter's own may take if the document does not say it, in milliseconds.
pub(super) const DEFAULT_TIMEOUT_MS: u32 = 1000;

/// How long an answer to a call of the filter's own may take, in milliseconds.
pub(super) fn read_timeout(fields: &ObjectCursor<'_>, issues: &mut Issues) -> u32 {
    let given = fields.get("timeout_ms").and_then(|at| at.integer(10..=30_000, issues));
    given.and_then(|ms| u32::try_from(ms).ok()).unwrap_or(DEFAULT_TIMEOUT_MS)
}

#[inline(never)]
fn read_service(
    fields: &ObjectCursor<'_>,
    credential: &str,
    inline: bool,
    lifetimes: &Lifetimes,
    issues: &mut Issues,
) -> Option<Service> {
    let cluster = fields.need("cluster", issues).and_then(|at| at.parse(issues, parse_text));
    let authority = fields.get("authority").and_then(|at| at.parse(issues, parse_authority));
    let credential = fields.get(credential).and_then(|at| read_secret(&at, (inline, Live::Refused), issues));
    let mut number = |name: &str, default: u64, bounds: std::ops::RangeInclusive<u64>| {
        fields.get(name).and_then(|at| at.integer(bounds, issues)).unwrap_or(default)
    };
    let (cache_s, most_s) = lifetimes.positive;
    let cache_s = number("cache_ttl_s", cache_s, 1..=most_s);
    let negative_s = number("negative_ttl_s", 10, 1..=lifetimes.negative);
    let stale_s = number("stale_if_error_s", (MAX_LIFETIME_S - cache_s).min(lifetimes.stale), 0..=MAX_LIFETIME_S);
    if cache_s + stale_s > MAX_LIFETIME_S {
        issues.add(fields.pointer.clone(), "`cache_ttl_s` and `stale_if_error_s` together may be at most 900 seconds");
    }
    let cluster = cluster?;
    Some(Service {
        authority: authority.unwrap_or_else(|| cluster.clone()),
        cluster,
        timeout_ms: read_timeout(fields, issues),
        cache_ms: cache_s * 1000,
        negative_ms: negative_s * 1000,
        stale_ms: stale_s * 1000,
        credential,
    })
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

fn parse_path(text: &str) -> Result<String, String> {
    if text.strip_prefix('/').is_some_and(is_path) {
        Ok(text.to_owned())
    } else {
        Err("expected a path such as `/v2/keys.verifyKey`".to_owned())
    }
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
            Ok::<_, String>(OpenBao { service, mount: "kv/hooks".into(), path, namespace: None, grace_ms: 0 })
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
