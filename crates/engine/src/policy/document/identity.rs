//! The `identity` object: the sources, and the headers that carry the identity to the backend.

use super::stores::{KEY_REGISTRY, KeyRegistry, Unkey, read_key_registry};
use super::webhooks::parse_subject;
use super::{parse_header_name, parse_name, parse_text};
use crate::headers::IDEMPOTENCY_KEY;
#[cfg(feature = "describe")]
use crate::identity::SourceOrigin;
use crate::identity::{
    ApiKeyPlace, IdentityPlace, IdentitySource, KeyMember, MetadataPath, PayloadClaim, SUBJECT_TYPES, SubjectRule,
    Tenant, is_subject_type,
};
use crate::json::cursor::{Issues, JsonCursor, child, suggestion};

/// The names of the headers that carry the identity to the backend; lower case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Forward {
    /// For the tenant
    pub tenant: Option<String>,
    /// For the project
    pub project: Option<String>,
    /// For the subject, `{type}:{encoded id}`
    pub subject: Option<String>,
}

impl Forward {
    /// The headers' names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        [&self.tenant, &self.project, &self.subject].into_iter().flatten().map(String::as_str)
    }
}

/// An `identity` object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdentityRules {
    /// The sources, in order of precedence.
    pub sources: Vec<IdentitySource>,
    /// The headers for the backend.
    pub forward: Forward,
    /// The subject types that a `{type}:{id}` subject may have.
    pub types: Vec<String>,
    /// The JSON pointer of the registry of API keys, and the registry if it is valid.
    pub(crate) registry: Option<(String, Option<Unkey>)>,
}

/// Whose an `identity` object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdentityOwner {
    /// The document's
    Document {
        /// Whether the document may contain credentials
        inline: bool,
    },
    /// A route's
    Route,
}

impl IdentityRules {
    /// Reads an `identity` object.
    pub(crate) fn read(at: &JsonCursor<'_>, owner: IdentityOwner, issues: &mut Issues) -> Option<Self> {
        let fields = at.fields(&["sources", "forward", "subject_types"], issues)?;
        let added = fields.list("subject_types", issues, parse_type).unwrap_or_default();
        let types: Vec<String> = SUBJECT_TYPES.iter().map(|name| (*name).to_owned()).chain(added).collect();
        let mut sources: Vec<IdentitySource> = Vec::new();
        let mut registry = None;
        if let Some(list) = fields.need("sources", issues) {
            let items = list.items(issues).unwrap_or_default();
            if items.is_empty() && list.is_array() {
                issues.add(list.pointer.clone(), "name at least one identity source");
            }
            for item in items {
                let Some(source) = read_source(&item, (&types, owner), &mut registry, issues) else { continue };
                if sources.iter().any(|other| other.name == source.name) {
                    issues.add(
                        item.pointer,
                        format!("the name `{}` is used twice: give each source its own name", source.name),
                    );
                }
                sources.push(source);
            }
        }
        let forward = fields.get("forward").and_then(|at| read_forward(&at, issues)).unwrap_or_default();
        Some(Self { sources, forward, types, registry })
    }

    /// The sources with a constant subject: index, source, subject.
    pub(in crate::policy) fn constant_subjects(&self) -> impl Iterator<Item = (usize, &IdentitySource, &str)> {
        self.sources.iter().enumerate().filter_map(|(index, source)| match &source.subject.field {
            IdentityPlace::Constant(subject) => Some((index, source, subject.as_str())),
            _ => None,
        })
    }

    /// The names of the headers that the sources read, that of API keys included.
    pub fn source_headers(&self) -> impl Iterator<Item = &str> {
        self.sources
            .iter()
            .flat_map(|source| [Some(&source.tenant), source.project.as_ref(), Some(&source.subject.field)])
            .filter_map(|place| place?.header())
            .chain(self.api_keys().map(|place| place.header.as_str()))
    }

    /// The registry of API keys, if a source asks it.
    pub(in crate::policy) fn key_registry(&self) -> Option<KeyRegistry> {
        let source = self.sources.iter().find(|source| source.api_key.is_some())?;
        let (pointer, unkey) = self.registry.clone()?;
        let unkey = unkey?;
        let members = source.places().map(|(_, place)| match place {
            Some(IdentityPlace::Key(member)) => Some(member.names.clone()),
            _ => None,
        });
        Some(KeyRegistry { unkey, pointer, members })
    }

    /// Where requests have their API keys, if a source asks the registry.
    pub fn api_keys(&self) -> Option<&ApiKeyPlace> {
        self.sources.iter().find_map(|source| source.api_key.as_ref())
    }
}

fn parse_type(text: &str) -> Result<String, String> {
    if is_subject_type(text) {
        Ok(text.to_owned())
    } else {
        Err("a subject type has the form [a-z][a-z0-9_]*".to_owned())
    }
}

#[inline(never)]
fn read_source(
    at: &JsonCursor<'_>,
    (types, owner): (&[String], IdentityOwner),
    registry: &mut Option<(String, Option<Unkey>)>,
    issues: &mut Issues,
) -> Option<IdentitySource> {
    let fields = at.fields(
        &["name", "metadata", "headers_owned_by", "payload_header", "unkey", "tenant", "project", "subject"],
        issues,
    )?;
    let name = fields.need_parse("name", issues, parse_name);
    let headers_owner = fields.parse("headers_owned_by", issues, parse_text);
    let has = |name| fields.get(name).is_some();
    let payload = fields.get("payload_header").map(|at| {
        if !has("headers_owned_by") && (has("metadata") || has("unkey")) {
            issues.add(&at.pointer, "say in `headers_owned_by` which filter sets this header and removes a client's");
        }
        at.parse(issues, parse_identity_header)
    });
    let namespace = fields.get("metadata").and_then(|at| {
        let path = if at.is_array() { at.list(issues, parse_text)? } else { Vec::new() };
        if path.is_empty() {
            issues.add(
                at.pointer.clone(),
                "name the filter's metadata namespace, and the member below it if there is one: \
                 [\"envoy.filters.http.jwt_authn\", \"jwt\"]",
            );
        }
        Some(path)
    });
    let api_key = fields.get("unkey").and_then(|at| read_api_keys(&at, owner, registry, issues));
    #[cfg(feature = "describe")]
    let origin = SourceOrigin { metadata: namespace.clone().unwrap_or_default(), owner: headers_owner.clone() };
    let kind = match (namespace, headers_owner, &api_key) {
        (Some(path), None, None) => SourceKind::Metadata(path),
        (None, Some(_), None) => match payload {
            Some(header) => SourceKind::Payload(header?),
            None => SourceKind::Headers,
        },
        (None, None, Some(place)) => SourceKind::ApiKeys(place.header.clone()),
        _ => {
            let kinds = ["metadata", "headers_owned_by", "unkey"];
            if kinds.into_iter().filter(|name| has(name)).count() != 1 {
                issues.add(
                    at.pointer.clone(),
                    "a source has one of `metadata` (the namespace a filter wrote to), `headers_owned_by` (the filter that sets \
                     the headers and removes a client's) and `unkey` (the registry of API keys)",
                );
            }
            return None;
        }
    };
    let tenant = fields.need("tenant", issues).and_then(|at| kind.read_or_constant(&at, issues));
    let project = fields.get("project").map(|at| kind.read_or_constant(&at, issues));
    let subject = fields.need("subject", issues).and_then(|at| {
        let fields = at.fields(&["field", "type", "value"], issues)?;
        if let Some(value) = fields.get("value") {
            for name in ["field", "type"].into_iter().filter(|name| fields.get(name).is_some()) {
                issues.add(child(&at.pointer, name), "a constant subject is the whole subject: leave this member out");
            }
            return read_constant_subject(&value, types, issues);
        }
        let subject_type = fields.get("type").map(|at| at.parse(issues, parse_type));
        let Some(field) = fields.get("field") else {
            issues.add(&at.pointer, "name the `field` with the subject, or a constant subject as `value`");
            return None;
        };
        let field = kind.read(&field, issues)?;
        Some(SubjectRule { field, kind: subject_type.map_or(Some(None), |name| name.map(Some))? })
    });
    let source = IdentitySource {
        name: name?,
        tenant: tenant?,
        project: project.map_or(Some(None), |project| project.map(Some))?,
        subject: subject?,
        api_key,
        #[cfg(feature = "describe")]
        origin,
    };
    if source.places().into_iter().filter_map(|(_, place)| place).all(IdentityPlace::is_constant) {
        issues.add(
            at.pointer.clone(),
            "every part of this source is a constant, so nothing of a request says that the source is meant: read at least one part \
             from the request",
        );
    }
    Some(source)
}

/// Reads the constant subject `{"value": "service:worker"}` of a source.
#[inline(never)]
fn read_constant_subject(value: &JsonCursor<'_>, types: &[String], issues: &mut Issues) -> Option<SubjectRule> {
    let subject = value.parse(issues, parse_subject)?;
    let (kind, _) = subject.as_str().split_once(':').unwrap_or_default();
    if !types.iter().any(|known| known == kind) {
        let near = suggestion(kind, types.iter().map(String::as_str));
        issues.add(
            value.pointer.clone(),
            format!("`{kind}` is no subject type of this policy, and `subject_types` can add it{near}"),
        );
    }
    Some(SubjectRule { field: IdentityPlace::Constant(subject.as_str().to_owned()), kind: None })
}

/// Reads `unkey`: where requests have their API keys, and the registry that knows the keys.
#[inline(never)]
fn read_api_keys(
    at: &JsonCursor<'_>,
    owner: IdentityOwner,
    registry: &mut Option<(String, Option<Unkey>)>,
    issues: &mut Issues,
) -> Option<ApiKeyPlace> {
    let IdentityOwner::Document { inline } = owner else {
        issues.add(
            &at.pointer,
            "a source with `unkey` stands in the document's `identity`, which every route has that names none of its own",
        );
        return None;
    };
    if registry.is_some() {
        issues.add(&at.pointer, "a document has one source with `unkey`: remove one of them");
    }
    *registry = Some((at.pointer.clone(), None));
    let fields = at.fields(&[&["header", "prefix", "keep_header"], &KEY_REGISTRY[..]].concat(), issues)?;
    let header = fields.need_parse("header", issues, parse_key_header);
    let prefix = fields.get("prefix").map(|at| at.parse(issues, parse_key_prefix));
    let keep = fields.boolean("keep_header", issues).unwrap_or_default();
    *registry = Some((at.pointer.clone(), read_key_registry(&fields, inline, issues)));
    Some(ApiKeyPlace { header: header?, prefix: prefix.unwrap_or_else(|| Some(String::new()))?, keep })
}

/// Parses the name of the header with API keys.
fn parse_key_header(text: &str) -> Result<String, String> {
    match parse_identity_header(text)? {
        name if ["cookie", "x-request-id", "content-type"].contains(&name.as_str()) => {
            Err(format!("`{name}` already has a meaning: choose another header, such as `x-api-key`"))
        }
        name => Ok(name),
    }
}

/// Parses the beginning of every API key.
fn parse_key_prefix(text: &str) -> Result<String, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._~-".contains(&byte);
    if (1..=64).contains(&text.len()) && text.bytes().all(plain) {
        Ok(text.to_owned())
    } else {
        Err("expected the beginning of the keys, 1 to 64 characters of A-Z a-z 0-9 . _ ~ -, such as `sk_live_`"
            .to_owned())
    }
}

/// Where a source reads its parts from.
enum SourceKind {
    Metadata(Vec<String>),
    Headers,
    /// The payload of a token, in this header
    Payload(String),
    /// The registry of API keys, which stand in this header
    ApiKeys(String),
}

impl SourceKind {
    /// Reads the place of a tenant or a project, or its constant `{"value": "shop"}`.
    #[inline(never)]
    fn read_or_constant(&self, at: &JsonCursor<'_>, issues: &mut Issues) -> Option<IdentityPlace> {
        if !at.is_object() {
            return self.read(at, issues);
        }
        let fields = at.fields(&["value"], issues)?;
        fields.need_parse("value", issues, parse_constant).map(IdentityPlace::Constant)
    }

    /// Reads a part's place: a header name, or a member name, or an array of member names (a dot is a part of a name).
    fn read(&self, at: &JsonCursor<'_>, issues: &mut Issues) -> Option<IdentityPlace> {
        match self {
            Self::Headers => at.parse(issues, parse_identity_header).map(IdentityPlace::Header),
            Self::ApiKeys(header) => {
                let names = at.parse(issues, |text| {
                    KeyMember::parse_pointer(text).ok_or_else(|| {
                        "expected a JSON pointer into `data` of the registry's reply, such as `/identity/externalId` or \
                         `/meta/project_id`"
                            .to_owned()
                    })
                })?;
                Some(IdentityPlace::Key(KeyMember { header: header.clone(), names }))
            }
            Self::Payload(header) => {
                let claim = PayloadClaim::new(header.clone(), read_members(at, issues)?);
                if claim.is_none() {
                    issues.add(&at.pointer, "a claim stands at most eight members deep: name one that does");
                }
                claim.map(IdentityPlace::Claim)
            }
            Self::Metadata(namespace) => {
                let path = namespace.iter().cloned().chain(read_members(at, issues)?).collect();
                Some(IdentityPlace::Metadata(MetadataPath::new(path)))
            }
        }
    }
}

/// Reads the name of a member, or the names down to one.
fn read_members(at: &JsonCursor<'_>, issues: &mut Issues) -> Option<Vec<String>> {
    let members = if at.is_array() { at.list(issues, parse_text)? } else { vec![at.parse(issues, parse_text)?] };
    if members.is_empty() {
        issues.add(&at.pointer, "the list is empty: name the member to read");
        return None;
    }
    Some(members)
}

#[inline(never)]
fn read_forward(at: &JsonCursor<'_>, issues: &mut Issues) -> Option<Forward> {
    let fields = at.fields(&["tenant", "project", "subject"], issues)?;
    let mut name = |member: &str| fields.get(member).and_then(|at| at.parse(issues, parse_identity_header));
    let forward = Forward { tenant: name("tenant"), project: name("project"), subject: name("subject") };
    let names: Vec<&str> = forward.names().collect();
    if names.iter().enumerate().any(|(at, name)| names.iter().skip(at + 1).any(|other| other == name)) {
        issues.add(at.pointer.clone(), "tenant, project and subject need three different headers");
    }
    Some(forward)
}

/// Parses a constant tenant or project; both have the same grammar.
fn parse_constant(text: &str) -> Result<String, String> {
    match Tenant::parse(text.as_bytes()) {
        Ok(_) => Ok(text.to_owned()),
        Err(_) => {
            Err("a tenant or project has 1 to 63 characters of A-Z a-z 0-9 . _ ~ -, does not begin with _, and is \
                 neither . nor .."
                .to_owned())
        }
    }
}

/// Parses the name of a header that may carry a part of an identity.
fn parse_identity_header(text: &str) -> Result<String, String> {
    let name = parse_header_name(text)?;
    let taken =
        [IDEMPOTENCY_KEY, super::super::REWRITE_MARK, "host", "content-length", "transfer-encoding", "connection"];
    if name.contains('_') {
        Err("write the header with - instead of _: many servers and proxies drop names with _".to_owned())
    } else if taken.contains(&name.as_str()) {
        Err(format!("`{name}` already has a meaning: choose another header"))
    } else {
        Ok(name)
    }
}
