//! The `identity` object: the sources, and the headers that carry the identity to the backend.

use super::header_names::parse_identity_header;
use super::stores::Unkey;
use super::texts::{parse_name, parse_subject, parse_text};
use crate::api_keys::KeyRegistry;
use crate::api_keys::document::{key_registry, read_key_registry};
use crate::api_keys::{ApiKeyPlace, KeyMember};
#[cfg(feature = "needs")]
use crate::identity::SourceOrigin;
use crate::identity::{
    IdentityPlace, IdentitySource, MetadataPath, PayloadClaim, SubjectRule, Tenant, is_subject_type,
};
use crate::json::cursor::{Issues, JsonCursor, child};
use crate::policy::members::{Custom, Text, members};

members! {
    /// This object says where the caller's identity is read, and in which headers the backend gets it.
    identity = "identity", "Identity";

    /// The sources, in the order in which they are asked.
    SOURCES: Custom {} = "sources", "Sources", required "",
        schema r##"{"type": "array", "items": {"$ref": "#/$defs/source"}, "minItems": 1}"##;

    FORWARD: Custom {} = "forward", schema r##"{"$ref": "#/$defs/identityForward"}"##;
}

members! {
    /// The request headers through which the backend learns who calls; a client's own are removed on every route.
    identity_forward = "identityForward", "Forward headers";

    /// The header with the tenant.
    TENANT: Text<String> { parse: parse_identity_header } = "tenant", "Tenant header",
        schema r##"{"$ref": "#/$defs/identityHeader", "examples": ["x-tenant-id"]}"##;

    /// The header with the project. It is absent on routes of `tenant` and `platform` scope.
    PROJECT: Text<String> { parse: parse_identity_header } = "project", "Project header",
        schema r##"{"$ref": "#/$defs/identityHeader", "examples": ["x-project-id"]}"##;

    /// The header with the subject, `{type}:{encoded id}`.
    SUBJECT: Text<String> { parse: parse_identity_header } = "subject", "Subject header",
        schema r##"{"$ref": "#/$defs/identityHeader", "examples": ["x-subject"]}"##;
}

members! {
    /// A place from which a whole identity comes: one of `metadata`, `headers_owned_by` and `unkey`. The first source with a value in the
    /// request is used (a constant is none), and it has to be complete. Only JSON strings can be an identity.
    source = "source", "Identity source",
        schema r##"{"oneOf": [{"required": ["metadata"]}, {"required": ["headers_owned_by"]}, {"required": ["unkey"]}],
        "allOf": [
            {"if": {"required": ["metadata"]}, "then": {"properties": {"tenant": {"$ref": "#/$defs/memberOrConstant"}, "project": {"$ref": "#/$defs/memberOrConstant"}, "subject": {"properties": {"field": {"$ref": "#/$defs/member"}}}}}},
            {"if": {"required": ["payload_header"]}, "then": {"required": ["headers_owned_by"], "properties": {"tenant": {"$ref": "#/$defs/claimOrConstant"}, "project": {"$ref": "#/$defs/claimOrConstant"}, "subject": {"properties": {"field": {"$ref": "#/$defs/claim"}}}}}},
            {"if": {"required": ["headers_owned_by"], "not": {"required": ["payload_header"]}}, "then": {"properties": {"tenant": {"$ref": "#/$defs/headerOrConstant"}, "project": {"$ref": "#/$defs/headerOrConstant"}, "subject": {"properties": {"field": {"$ref": "#/$defs/identityHeader"}}}}}},
            {"if": {"required": ["unkey"]}, "then": {"properties": {"tenant": {"$ref": "#/$defs/keyMemberOrConstant"}, "project": {"$ref": "#/$defs/keyMemberOrConstant"}, "subject": {"properties": {"field": {"$ref": "#/$defs/keyMember"}}}}}}
        ]}"##;

    /// The source's name in this document.
    NAME: Text<String> { parse: parse_name } = "name", "Name", required "",
        schema r##"{"$ref": "#/$defs/name", "examples": ["jwt", "api-key"]}"##;

    /// Where an authentication filter wrote its dynamic metadata: the namespace, then the members above tenant, project and subject. For
    /// `jwt_authn` the second is its `payload_in_metadata`.
    METADATA: Custom {} = "metadata", "Metadata namespace",
        schema r##"{"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/text"}, "examples": [["envoy.filters.http.jwt_authn", "jwt"]]}"##;

    /// The gateway's filter that sets these headers and removes a client's. Naming it says that you have checked.
    HEADERS_OWNED_BY: Text<String> { parse: parse_text } = "headers_owned_by", "Owner of the headers",
        schema r##"{"$ref": "#/$defs/text", "examples": ["envoy.filters.http.ext_authz"]}"##;

    /// The header in which the filter of `headers_owned_by` passes on a verified token's payload, a JSON object in Base64URL, such as
    /// `forward_payload_header` of `jwt_authn` or `outputPayloadToHeader` of Istio. Tenant, project and subject are claims in it. No
    /// backend gets it.
    PAYLOAD_HEADER: Custom {} = "payload_header", "Header with the token's payload",
        schema r##"{"$ref": "#/$defs/identityHeader", "examples": ["x-jwt-payload"]}"##;

    UNKEY: Custom {} = "unkey", schema r##"{"$ref": "#/$defs/keyRegistry"}"##;

    /// Where the tenant stands: a member of the metadata, a header, with `payload_header` a claim, with `unkey` a JSON pointer; or a
    /// constant, `{"value": "shop"}`. A list leads to a nested member: `["firebase", "tenant"]`.
    TENANT: Custom {} = "tenant", "Tenant", required "", schema r#"{"examples": ["tenant_id", "x-tenant-id", {"value": "shop"}]}"#;

    /// The same for the project. It may be left out if a route of the source has `tenant` or `platform` scope.
    PROJECT: Custom {} = "project", "Project", schema r#"{"examples": ["project_id", "x-project-id", {"value": "main"}]}"#;

    SUBJECT: Custom {} = "subject", required "", schema r##"{"$ref": "#/$defs/sourceSubject"}"##;
}

members! {
    /// The user or machine that acts, from `field`, or a constant (`value`). At least one other part of the source is read from the
    /// request.
    source_subject = "sourceSubject", "Subject",
        schema r#"{"if": {"required": ["value"]}, "then": {"properties": {"field": false, "type": false}}, "else": {"required": ["field"]}}"#;

    /// `{type}:{id}`: all callers of this source share keys and answers.
    VALUE: Custom {} = "value", "Constant", schema r##"{"$ref": "#/$defs/subject", "examples": ["service:worker"]}"##;

    /// Where the subject stands, as for `tenant`.
    FIELD: Custom {} = "field", "Field", schema r#"{"examples": ["sub", "x-subject"]}"#;

    /// The type of every subject of this source. Without it the value is `{type}:{id}`, split at the first colon.
    TYPE: Text<String> { parse: parse_type } = "type", "Subject type", schema r##"{"$ref": "#/$defs/subjectType", "examples": ["user", "service"]}"##;
}

members! {
    /// The same tenant or project for every caller of the source, for an API that has only one. A constant alone names nobody: the source
    /// is used only for a request that brings another of its values.
    constant = "constant", "Constant";

    /// The tenant or the project.
    VALUE: Text<String> { parse: parse_constant } = "value", "Value", required "",
        schema r##"{"$ref": "#/$defs/segment", "examples": ["shop"]}"##;
}

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
        let fields = identity::OBJECT.read(at, issues)?;
        let mut sources: Vec<IdentitySource> = Vec::new();
        let mut registry = None;
        if let Some(list) = identity::SOURCES.at(&fields, issues) {
            let items = list.items(issues).unwrap_or_default();
            if items.is_empty() && list.is_array() {
                issues.add(list.pointer.clone(), "name at least one identity source");
            }
            for item in items {
                let Some(source) = read_source(&item, owner, &mut registry, issues) else { continue };
                if sources.iter().any(|other| other.name == source.name) {
                    issues.add(
                        item.pointer,
                        format!("the name `{}` is used twice: give each source its own name", source.name),
                    );
                }
                sources.push(source);
            }
        }
        let forward =
            identity::FORWARD.at(&fields, issues).and_then(|at| read_forward(&at, issues)).unwrap_or_default();
        Some(Self { sources, forward, registry })
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
    owner: IdentityOwner,
    registry: &mut Option<(String, Option<Unkey>)>,
    issues: &mut Issues,
) -> Option<IdentitySource> {
    let fields = source::OBJECT.read(at, issues)?;
    let name = source::NAME.read(&fields, issues);
    let headers_owner = source::HEADERS_OWNED_BY.read(&fields, issues);
    let kinds = [source::METADATA.name, source::HEADERS_OWNED_BY.name, source::UNKEY.name];
    let given = kinds.map(|name| fields.get(name).is_some());
    let payload = source::PAYLOAD_HEADER.at(&fields, issues).map(|at| {
        if let [metadata, false, unkey] = given
            && (metadata || unkey)
        {
            issues.add(&at.pointer, "say in `headers_owned_by` which filter sets this header and removes a client's");
        }
        at.parse(issues, parse_identity_header)
    });
    let namespace = source::METADATA.at(&fields, issues).and_then(|at| {
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
    let api_key = source::UNKEY.at(&fields, issues).and_then(|at| read_api_keys(&at, owner, registry, issues));
    #[cfg(feature = "needs")]
    let origin = SourceOrigin { metadata: namespace.clone().unwrap_or_default(), owner: headers_owner.clone() };
    let kind = match (namespace, headers_owner, &api_key) {
        (Some(path), None, None) => SourceKind::Metadata(path),
        (None, Some(_), None) => match payload {
            Some(header) => SourceKind::Payload(header?),
            None => SourceKind::Headers,
        },
        (None, None, Some(place)) => SourceKind::ApiKeys(place.header.clone()),
        _ => {
            if given.into_iter().filter(|given| *given).count() != 1 {
                issues.add(
                    at.pointer.clone(),
                    "a source has one of `metadata` (the namespace a filter wrote to), `headers_owned_by` (the filter that sets \
                     the headers and removes a client's) and `unkey` (the registry of API keys)",
                );
            }
            return None;
        }
    };
    let tenant = source::TENANT.at(&fields, issues).and_then(|at| kind.read_or_constant(&at, issues));
    let project = source::PROJECT.at(&fields, issues).map(|at| kind.read_or_constant(&at, issues));
    let subject = source::SUBJECT.at(&fields, issues).and_then(|at| {
        let fields = source_subject::OBJECT.read(&at, issues)?;
        if let Some(value) = source_subject::VALUE.at(&fields, issues) {
            for name in [source_subject::FIELD.name, source_subject::TYPE.name]
                .into_iter()
                .filter(|name| fields.get(name).is_some())
            {
                issues.add(child(&at.pointer, name), "a constant subject is the whole subject: leave this member out");
            }
            return read_constant_subject(&value, issues);
        }
        let subject_type = source_subject::TYPE.read_if_given(&fields, issues);
        let Some(field) = source_subject::FIELD.at(&fields, issues) else {
            issues.add(&at.pointer, "name the `field` with the subject, or a constant subject as `value`");
            return None;
        };
        let field = kind.read(&field, issues)?;
        Some(SubjectRule { field, kind: subject_type? })
    });
    let source = IdentitySource {
        name: name?,
        tenant: tenant?,
        project: project.map_or(Some(None), |project| project.map(Some))?,
        subject: subject?,
        api_key,
        #[cfg(feature = "needs")]
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
fn read_constant_subject(value: &JsonCursor<'_>, issues: &mut Issues) -> Option<SubjectRule> {
    let subject = value.parse(issues, parse_subject)?;
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
    let fields = key_registry::OBJECT.read(at, issues)?;
    let header = key_registry::HEADER.read(&fields, issues);
    let prefix = key_registry::PREFIX.read_if_given(&fields, issues);
    *registry = Some((at.pointer.clone(), read_key_registry(&fields, inline, issues)));
    Some(ApiKeyPlace { header: header?, prefix: prefix?.unwrap_or_default() })
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
        let fields = constant::OBJECT.read(at, issues)?;
        constant::VALUE.read(&fields, issues).map(IdentityPlace::Constant)
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
    let fields = identity_forward::OBJECT.read(at, issues)?;
    let forward = Forward {
        tenant: identity_forward::TENANT.read(&fields, issues),
        project: identity_forward::PROJECT.read(&fields, issues),
        subject: identity_forward::SUBJECT.read(&fields, issues),
    };
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
