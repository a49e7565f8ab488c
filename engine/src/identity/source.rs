//! Identity sources. The first source that has any value counts, and it must be complete. Parts of different sources
//! are never mixed (invariant I5).

use super::{Identity, IdentityPart, Malformed, Project, Subject, Tenant};
use crate::headers::{FieldValue, Headers, RouterHints};
use std::borrow::Cow;

/// What a host knows about a request in addition to its headers.
pub trait Attributes {
    /// The dynamic metadata at a path, which an authentication filter has set.
    fn metadata(&self, path: &MetadataPath) -> AttributeValue<'_>;
    /// The endpoint that the gateway's route names in `filter_metadata["edge.idempotency"].endpoint`.
    fn route_endpoint(&self) -> AttributeValue<'_>;
    /// The headers that control the gateway's router for one request; `None` if it has no such headers.
    fn router(&self) -> Option<&'static RouterHints> {
        None
    }
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttributeValue<'a> {
    /// Absent, `null`, or empty, since gateways write a missing claim as an empty value.
    Absent,
    /// Text; any bytes.
    Text(Cow<'a, [u8]>),
    /// Not a text (a number, a list), or several values.
    Unusable,
}

impl AttributeValue<'_> {
    const fn is_present(&self) -> bool {
        !matches!(self, Self::Absent)
    }
}

/// A path into dynamic metadata: the filter's namespace, then the members down to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataPath {
    segments: Vec<String>,
    joined: String,
}

impl MetadataPath {
    /// Takes the namespace and the members. A segment contains no NUL, since the policy document refuses it.
    pub fn new(segments: Vec<String>) -> Self {
        Self { joined: segments.join("\0"), segments }
    }

    /// The namespace, then the members.
    pub fn segments(&self) -> &[String] {
        &self.segments
    }

    /// The namespace and the members, joined by NUL, which no segment holds.
    pub fn joined(&self) -> &str {
        &self.joined
    }
}

/// The place of one part of an identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentityPlace {
    /// In a header that a filter of the gateway owns; lower case.
    Header(String),
    /// In dynamic metadata.
    Metadata(MetadataPath),
}

impl IdentityPlace {
    fn read<'a>(&self, headers: &Headers<'a>, attributes: &'a dyn Attributes) -> AttributeValue<'a> {
        match self {
            Self::Metadata(path) => match attributes.metadata(path) {
                AttributeValue::Text(text) if text.is_empty() => AttributeValue::Absent,
                value => value,
            },
            Self::Header(name) => match headers.field(name) {
                FieldValue::Absent | FieldValue::One(b"") => AttributeValue::Absent,
                // A gateway joins an array, or two header lines, by a comma.
                FieldValue::One(value) if !value.contains(&b',') => AttributeValue::Text(Cow::Borrowed(value)),
                FieldValue::One(_) | FieldValue::Many => AttributeValue::Unusable,
            },
        }
    }
}

/// The place of the subject and the form of its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubjectRule {
    /// The place of the text.
    pub field: IdentityPlace,
    /// The type, if all subjects of the source have the same one. If not, the text is `{type}:{id}`.
    pub kind: Option<String>,
}

/// One identity source of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentitySource {
    /// Its name in the policy.
    pub name: String,
    /// The place of the tenant.
    pub tenant: IdentityPlace,
    /// The place of the project; a source for tenant-wide callers has none.
    pub project: Option<IdentityPlace>,
    /// The place of the subject.
    pub subject: SubjectRule,
}

/// The reason why a request has no identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityError {
    /// No source has any value, or the first source with a value has no value for this part.
    Missing(IdentityPart),
    /// This part is malformed or ambiguous.
    Invalid(IdentityPart),
    /// The subject is reserved for webhooks or for a signed caller.
    Reserved,
}

/// The rules of a route that [`resolve`] needs in addition to the sources.
pub struct Rules<'p> {
    /// The project segment of a route with a wider scope; `None` if the source gives the project.
    pub scope: Option<Project>,
    /// The types that a `{type}:{id}` subject may have.
    pub types: &'p [String],
    /// Subjects that no identity source may give.
    pub reserved: &'p [String],
}

/// Reads the identity of a request from the first source that has any value.
///
/// # Errors
/// [`IdentityError`] with the first invalid part, or else with the first missing part.
pub fn resolve(
    sources: &[IdentitySource],
    rules: &Rules<'_>,
    headers: &Headers<'_>,
    attributes: &dyn Attributes,
) -> Result<Identity, IdentityError> {
    for source in sources {
        let tenant = source.tenant.read(headers, attributes);
        let project = source.project.as_ref().map_or(AttributeValue::Absent, |place| place.read(headers, attributes));
        let subject = source.subject.field.read(headers, attributes);
        if tenant.is_present() || project.is_present() || subject.is_present() {
            let tenant = part(IdentityPart::Tenant, &tenant, Tenant::parse)?;
            let project = match &rules.scope {
                Some(wider) => Some(wider.clone()),
                None => part(IdentityPart::Project, &project, Project::parse)?,
            };
            let subject =
                part(IdentityPart::Subject, &subject, |text| parse_subject(&source.subject, rules.types, text))?;
            let identity = Identity {
                tenant: tenant.ok_or(IdentityError::Missing(IdentityPart::Tenant))?,
                project: project.ok_or(IdentityError::Missing(IdentityPart::Project))?,
                subject: subject.ok_or(IdentityError::Missing(IdentityPart::Subject))?,
            };
            let reserved = rules.reserved.iter().any(|reserved| reserved == identity.subject.as_str());
            return if reserved { Err(IdentityError::Reserved) } else { Ok(identity) };
        }
    }
    Err(IdentityError::Missing(IdentityPart::Tenant))
}

fn part<T>(
    part: IdentityPart,
    value: &AttributeValue<'_>,
    parse: impl Fn(&[u8]) -> Result<T, Malformed>,
) -> Result<Option<T>, IdentityError> {
    match value {
        AttributeValue::Absent => Ok(None),
        AttributeValue::Text(text) => parse(text).map(Some).map_err(|Malformed| IdentityError::Invalid(part)),
        AttributeValue::Unusable => Err(IdentityError::Invalid(part)),
    }
}

fn parse_subject(rule: &SubjectRule, types: &[String], text: &[u8]) -> Result<Subject, Malformed> {
    if let Some(kind) = &rule.kind {
        return Subject::new(kind, text);
    }
    let colon = text.iter().position(|byte| *byte == b':').ok_or(Malformed)?;
    let (kind, id) = text.split_at_checked(colon).ok_or(Malformed)?;
    let kind = std::str::from_utf8(kind).map_err(|_| Malformed)?;
    if !types.iter().any(|known| known == kind) {
        return Err(Malformed);
    }
    Subject::new(kind, id.strip_prefix(b":").ok_or(Malformed)?)
}
