//! The `identity` object: the sources, and the headers that carry the identity to the backend.

use super::webhooks::parse_subject;
use super::{parse_header_name, parse_name, parse_text};
use crate::headers::IDEMPOTENCY_KEY;
use crate::identity::{
    IdentityPlace, IdentitySource, MetadataPath, SUBJECT_TYPES, SubjectRule, Tenant, is_subject_type,
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
}

impl IdentityRules {
    /// Reads an `identity` object.
    pub fn read(at: &JsonCursor<'_>, issues: &mut Issues) -> Option<Self> {
        let fields = at.fields(&["sources", "forward", "subject_types"], issues)?;
        let added = fields.list("subject_types", issues, parse_type).unwrap_or_default();
        let types: Vec<String> = SUBJECT_TYPES.iter().map(|name| (*name).to_owned()).chain(added).collect();
        let mut sources: Vec<IdentitySource> = Vec::new();
        if let Some(list) = fields.need("sources", issues) {
            let items = list.items(issues).unwrap_or_default();
            if items.is_empty() && list.is_array() {
                issues.add(list.pointer.clone(), "name at least one identity source");
            }
            for item in items {
                let Some(source) = read_source(&item, &types, issues) else { continue };
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
        Some(Self { sources, forward, types })
    }

    /// The sources with a constant subject: index, source, subject.
    pub(in crate::policy) fn constant_subjects(&self) -> impl Iterator<Item = (usize, &IdentitySource, &str)> {
        self.sources.iter().enumerate().filter_map(|(index, source)| match &source.subject.field {
            IdentityPlace::Constant(subject) => Some((index, source, subject.as_str())),
            _ => None,
        })
    }

    /// The names of the headers that the sources read.
    pub fn source_headers(&self) -> impl Iterator<Item = &str> {
        self.sources
            .iter()
            .flat_map(|source| [Some(&source.tenant), source.project.as_ref(), Some(&source.subject.field)])
            .filter_map(|place| match place {
                Some(IdentityPlace::Header(name)) => Some(name.as_str()),
                _ => None,
            })
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
fn read_source(at: &JsonCursor<'_>, types: &[String], issues: &mut Issues) -> Option<IdentitySource> {
    let fields = at.fields(&["name", "metadata", "headers_owned_by", "tenant", "project", "subject"], issues)?;
    let name = fields.need_parse("name", issues, parse_name);
    let owner = fields.parse("headers_owned_by", issues, parse_text);
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
    let kind = match (namespace, owner) {
        (Some(path), None) => SourceKind::Metadata(path),
        (None, Some(_)) => SourceKind::Headers,
        _ if fields.get("metadata").is_some() == fields.get("headers_owned_by").is_some() => {
            issues.add(
                at.pointer.clone(),
                "a source has either `metadata` (the namespace a filter wrote to) or `headers_owned_by` (the filter that \
                 sets the headers and removes a client's)",
            );
            return None;
        }
        _ => return None,
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

/// Where a source reads its parts from.
enum SourceKind {
    Metadata(Vec<String>),
    Headers,
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
            Self::Metadata(namespace) => {
                let members =
                    if at.is_array() { at.list(issues, parse_text)? } else { vec![at.parse(issues, parse_text)?] };
                if members.is_empty() {
                    issues.add(at.pointer.clone(), "the list is empty: name the member to read");
                    return None;
                }
                let path = namespace.iter().cloned().chain(members).collect();
                Some(IdentityPlace::Metadata(MetadataPath::new(path)))
            }
        }
    }
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
