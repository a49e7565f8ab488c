//! The `callers` object: schedulers and other services that sign their requests (docs/contract.md section 7).

use crate::identity::Subject;
use crate::json::cursor::{Issues, JsonCursor};
use crate::key::{KeyError, KeyGrammar};
use crate::policy::document::secrets::{Live, Secret, read_secrets};
use crate::policy::document::texts::{parse_name, parse_subject};
use crate::policy::members::{Custom, Text, TextOr, members};
use crate::provider::Provider;

members! {
    /// A caller that signs its requests, such as a scheduler.
    caller = "caller", "Signed caller";

    /// The subject of the caller's keys. No other identity may have it, nor may it be the webhooks' `service:webhook-ingest`.
    SUBJECT: Text<Subject> { parse: parse_subject } = "subject", "Subject", required "",
        schema r##"{"$ref": "#/$defs/subject", "examples": ["service:scheduler"]}"##;

    /// The text with which the caller's keys begin; something has to follow it. Its keys may also have `! $ & ' ( ) * + : = @`.
    KEY_PREFIX: TextOr<KeyGrammar> { parse: parse_keys, default: "" } = "key_prefix", "Key prefix",
        schema r#"{"type": "string", "pattern": "^(?!t-)[A-Za-z0-9._~!$&'()*+:=@-]{0,254}$", "examples": ["sched:"]}"#;

    /// The endpoints that the caller may call. Each is a REQUIRED_A or ACCEPTED route.
    ROUTES: Custom {} = "routes", "Routes", required "",
        schema r##"{"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/name"}, "examples": [["reports.run"]]}"##;

    /// How the caller signs: a scheme of a provider file. The template covers method, path, timestamp, key (`{id}`), tenant and project
    /// headers and body, with a line break between them. See docs/identity.md.
    SIGNATURE: Custom {} = "signature", "Signature", required "",
        schema r#"{"type": "object", "examples": [{"algorithm": "hmac-sha256", "signature": {"header": "X-Schedule-Signature", "pairs": {"separator": ",", "key": "v1"}, "encoding": "hex"}, "timestamp": {"pair": "t", "unit": "s", "max_age_s": 300}, "template": "{method}\n{path}\n{timestamp}\n{id}\n{header:x-tenant-id}\n{header:x-project-id}\n{body}"}]}"#;

    SECRETS: Custom {} = "secrets", required "", schema r##"{"$ref": "#/$defs/signingSecrets"}"##;
}

/// An item of `callers`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SignedCaller {
    /// Its name
    pub name: String,
    /// The subject of its keys
    pub subject: Subject,
    /// The grammar of its keys
    pub keys: KeyGrammar,
    /// The endpoints that it may call
    pub routes: Vec<String>,
    /// How it signs
    pub signature: Provider,
    /// The secrets, in the order in which they are tried
    pub secrets: Vec<Secret>,
}

/// The headers in which signed callers name tenant and project; lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallerHeaders {
    /// The tenant
    pub tenant: String,
    /// The project
    pub project: String,
}

/// Reads the `callers` object.
#[inline(never)]
pub(crate) fn read(at: &JsonCursor<'_>, inline: bool, issues: &mut Issues) -> Vec<SignedCaller> {
    let mut callers = Vec::new();
    let Some(map) = at.map(issues) else { return callers };
    for (name, at) in map.entries() {
        callers.extend(read_caller(name, &at, inline, issues));
    }
    callers
}

#[inline(never)]
fn read_caller(name: &str, at: &JsonCursor<'_>, inline: bool, issues: &mut Issues) -> Option<SignedCaller> {
    let fields = caller::OBJECT.read(at, issues)?;
    let keys = caller::KEY_PREFIX.read(&fields, issues);
    let signature = caller::SIGNATURE.at(&fields, issues).and_then(|at| Provider::of_caller(name, &at, issues));
    let secrets = caller::SECRETS.at(&fields, issues).map(|at| read_secrets(&at, inline, Live::Allowed, issues));
    let subject = caller::SUBJECT.read(&fields, issues);
    let routes = caller::ROUTES.at(&fields, issues).and_then(|at| {
        let routes = at.list(issues, parse_name)?;
        if routes.is_empty() {
            issues.add(at.pointer, "name at least one endpoint");
        }
        Some(routes)
    });
    Some(SignedCaller {
        name: name.to_owned(),
        subject: subject?,
        keys: keys?,
        routes: routes?,
        signature: signature?,
        secrets: secrets?,
    })
}

fn parse_keys(prefix: &str) -> Result<KeyGrammar, String> {
    KeyGrammar::of_caller(prefix).map_err(|why| {
        match why {
            KeyError::ReservedPrefix => {
                "no key of a client may begin with `t-`, as namespaced keys do: choose another prefix"
            }
            KeyError::Length => "the prefix is too long: a key has at most 255 characters with its prefix",
            _ => "a prefix may hold only characters of keys: A-Z a-z 0-9 . _ ~ - ! $ & ' ( ) * + : = @",
        }
        .to_owned()
    })
}
