//! Identity sources. The first source that has any value counts, and it must be complete. Parts of different sources
//! are never mixed (invariant I5).

use super::metadata_path::MetadataPath;
use super::payload::PayloadClaim;
use super::{Identity, IdentityPart, Malformed, Project, Subject, Tenant};
use crate::api_keys::{ApiKeyPlace, KeyHolder, KeyMember};
use crate::attribute_value::AttributeValue;
use crate::headers::{FieldValue, Headers, RouterHints};
use crate::time::Clock;
use std::borrow::Cow;
use std::fmt;

/// What a gateway knows about a request in addition to its headers. One that does not have something leaves it as it is here.
pub trait Attributes: Clock {
    /// The dynamic metadata at a path, which an authentication filter has set.
    fn metadata(&self, path: &MetadataPath) -> AttributeValue<'_> {
        let _ = path;
        AttributeValue::Absent
    }
    /// The endpoint that the gateway's route names in `filter_metadata["edge.idempotency"].endpoint`.
    fn route_endpoint(&self) -> AttributeValue<'_> {
        AttributeValue::Absent
    }
    /// The headers that control the gateway's router for one request.
    fn router(&self) -> Option<&'static RouterHints> {
        None
    }
}

/// The place of one part of an identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IdentityPlace {
    /// In a header that a filter of the gateway owns; lower case.
    Header(String),
    /// In the payload of a token, in a header that a filter of the gateway owns.
    Claim(PayloadClaim),
    /// In dynamic metadata.
    Metadata(MetadataPath),
    /// In what the registry of API keys says of the caller's key.
    Key(KeyMember),
    /// In the policy document, which gives every caller this value.
    Constant(String),
}

impl IdentityPlace {
    /// The value at this place. What the registry says of an API key stands beside the request.
    pub fn read<'a>(&'a self, headers: &Headers<'a>, attributes: &'a dyn Attributes) -> AttributeValue<'a> {
        match self {
            Self::Constant(value) => AttributeValue::Text(Cow::Borrowed(value.as_bytes())),
            Self::Key(_) => AttributeValue::Absent,
            Self::Claim(claim) => {
                let [value] = PayloadClaim::read(headers, [Some(claim)]);
                value
            }
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

    /// The claim, if the place is one.
    const fn claim(&self) -> Option<&PayloadClaim> {
        if let Self::Claim(claim) = self { Some(claim) } else { None }
    }

    /// The header that the value stands in, for one that a gateway's filter owns.
    pub fn header(&self) -> Option<&str> {
        match self {
            Self::Header(name) => Some(name),
            Self::Claim(claim) => Some(claim.header()),
            Self::Metadata(_) | Self::Key(_) | Self::Constant(_) => None,
        }
    }

    /// Whether the value is the policy's own, and so says nothing about the request.
    pub const fn is_constant(&self) -> bool {
        matches!(self, Self::Constant(_))
    }
}

/// For people: `header x-tenant-id`, or `metadata envoy.filters.http.jwt_authn / jwt / tenant_id`.
impl fmt::Display for IdentityPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header {name}"),
            Self::Metadata(path) => write!(f, "metadata {}", path.segments().join(" / ")),
            Self::Claim(claim) => write!(f, "claim {} in header {}", claim.pointer(), claim.header()),
            Self::Key(member) => write!(f, "{} of the API key in {}", member.pointer(), member.header),
            Self::Constant(_) => f.write_str("the policy document"),
        }
    }
}

/// The place of the subject and the form of its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubjectRule {
    /// The place of the text. A constant is `{type}:{encoded id}`.
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
    /// Where requests have their API keys, if the registry of API keys gives the parts.
    pub api_key: Option<ApiKeyPlace>,
    /// Where its parts come from
    #[cfg(feature = "needs")]
    pub origin: SourceOrigin,
}

/// Where the parts of a source come from, as the document says it.
#[cfg(feature = "needs")]
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceOrigin {
    /// The namespace of metadata, and the members down to where the source begins to read; empty for another kind of source
    pub metadata: Vec<String>,
    /// The filter that owns the headers
    pub owner: Option<String>,
}

impl IdentitySource {
    /// The places of tenant, project and subject.
    pub fn places(&self) -> [(IdentityPart, Option<&IdentityPlace>); 3] {
        [
            (IdentityPart::Tenant, Some(&self.tenant)),
            (IdentityPart::Project, self.project.as_ref()),
            (IdentityPart::Subject, Some(&self.subject.field)),
        ]
    }

    /// The claims below its metadata path that tenant, project and subject are read from, as paths of names.
    #[cfg(feature = "needs")]
    pub fn claims(&self) -> [Option<&[String]>; 3] {
        self.places().map(|(_, place)| match place {
            Some(IdentityPlace::Metadata(path)) => path.segments().get(self.origin.metadata.len()..),
            _ => None,
        })
    }

    /// The values of tenant, project and subject. `holder` is what the registry says of the request's API key.
    pub fn values<'a>(
        &'a self,
        headers: &Headers<'a>,
        attributes: &'a dyn Attributes,
        holder: Option<&'a KeyHolder>,
    ) -> [AttributeValue<'a>; 3] {
        let places = self.places().map(|(_, place)| place);
        let claims = places.map(|place| place.and_then(IdentityPlace::claim));
        let mut values: [AttributeValue<'a>; 3] = PayloadClaim::read(headers, claims);
        for (value, place) in values.iter_mut().zip(places) {
            if let Some(place) = place.filter(|place| place.claim().is_none()) {
                *value = place.read(headers, attributes);
            }
        }
        let (Some(_), Some(KeyHolder(told))) = (&self.api_key, holder) else { return values };
        let of_key = |place: Option<&IdentityPlace>| matches!(place, Some(IdentityPlace::Key(_)));
        let [tenant, project, subject] = values;
        let [(_, at_tenant), (_, at_project), (_, at_subject)] = self.places();
        let or_told =
            |value, place, told: &'a AttributeValue<'static>| if of_key(place) { told.clone() } else { value };
        let [told_tenant, told_project, told_subject] = told;
        [
            or_told(tenant, at_tenant, told_tenant),
            or_told(project, at_project, told_project),
            or_told(subject, at_subject, told_subject),
        ]
    }

    /// Whether the request has a value of this source. A constant of the policy is no value in this sense, since every
    /// request has it.
    fn is_asked(&self, values: &[AttributeValue<'_>; 3]) -> bool {
        let places = self.places().into_iter().map(|(_, place)| place);
        places.zip(values).any(|(place, value)| place.is_some_and(|place| !place.is_constant()) && value.is_present())
    }

    /// The header with the payload that its claims are in; lower case.
    pub fn payload_header(&self) -> Option<&str> {
        self.places().into_iter().find_map(|(_, place)| place?.claim()).map(PayloadClaim::header)
    }

    /// Whether a part of it is in a header.
    pub(crate) fn has_header(&self) -> bool {
        self.places().iter().any(|(_, place)| place.is_some_and(|place| place.header().is_some()))
    }
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

/// What is wrong with one part of an identity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityFault {
    /// There is no value.
    Missing,
    /// The value is no string, or one of several.
    NotOneString,
    /// The value is outside the grammar of its part.
    Malformed(Malformed),
}

impl IdentityFault {
    /// The fault as problem documents name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::NotOneString | Self::Malformed(_) => "invalid",
        }
    }

    /// The fault as logs name it, in more detail.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::NotOneString => "wrong_type",
            Self::Malformed(Malformed::Length) => "length",
            Self::Malformed(Malformed::Characters) => "characters",
            Self::Malformed(Malformed::SubjectType) => "subject_type",
        }
    }

    const fn is_missing(self) -> bool {
        matches!(self, Self::Missing)
    }
}

/// One part of an identity that is missing or wrong, and where the policy looked for it. It never holds a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdentityFinding<'p> {
    /// The name of the source, or of the signed caller
    pub source: &'p str,
    /// The part
    pub part: IdentityPart,
    /// The place; `None` if the source has no such member
    pub place: Option<&'p IdentityPlace>,
    /// The fault
    pub fault: IdentityFault,
}

/// The most findings of one refusal.
const MAX_FINDINGS: usize = 12;

/// Why a request has no identity, and where that shows. It borrows from the policy, so making it allocates nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdentityRefusal<'p> {
    /// The reason
    pub error: IdentityError,
    /// The source that counts; all sources if none of them has a value.
    sources: &'p [IdentitySource],
    /// The faults of tenant, project and subject.
    faults: [Option<IdentityFault>; 3],
}

impl<'p> IdentityRefusal<'p> {
    /// A refusal with the faults of tenant, project and subject, of which there is at least one. An invalid part comes
    /// before a missing part.
    pub(crate) fn new(sources: &'p [IdentitySource], faults: [Option<IdentityFault>; 3]) -> Self {
        let parts = [IdentityPart::Tenant, IdentityPart::Project, IdentityPart::Subject];
        let invalid = parts.iter().zip(faults).find(|(_, fault)| fault.is_some_and(|fault| !fault.is_missing()));
        let error = match invalid {
            Some((part, _)) => IdentityError::Invalid(*part),
            None => IdentityError::Missing(first_missing(sources, faults)),
        };
        Self { error, sources, faults }
    }

    /// A refusal that the sources' places do not explain.
    pub(crate) const fn of(error: IdentityError) -> Self {
        Self { error, sources: &[], faults: [None; 3] }
    }

    /// The source that counts; all sources if none of them has a value.
    pub(crate) const fn sources(&self) -> &'p [IdentitySource] {
        self.sources
    }

    /// The parts that are missing or wrong, in the order of the sources; at most 12. A constant is never missing.
    pub fn findings(&self) -> Vec<IdentityFinding<'p>> {
        let mut findings = Vec::new();
        for source in self.sources {
            for ((part, place), fault) in source.places().into_iter().zip(self.faults) {
                let is_constant = place.is_some_and(IdentityPlace::is_constant);
                if let Some(fault) = fault.filter(|_| !is_constant && findings.len() < MAX_FINDINGS) {
                    findings.push(IdentityFinding { source: &source.name, part, place, fault });
                }
            }
        }
        findings
    }
}

/// The first part that is missing and not a constant; the tenant without any source.
fn first_missing(sources: &[IdentitySource], faults: [Option<IdentityFault>; 3]) -> IdentityPart {
    let places = sources.first().map(IdentitySource::places).into_iter().flatten().zip(faults);
    let missing = |(place, fault): &((IdentityPart, Option<&IdentityPlace>), Option<IdentityFault>)| {
        fault.is_some() && !place.1.is_some_and(IdentityPlace::is_constant)
    };
    places.into_iter().find(missing).map_or(IdentityPart::Tenant, |((part, _), _)| part)
}

/// The rules of a route, and what is known of the caller, that [`resolve`] needs in addition to the sources.
pub struct Rules<'p> {
    /// The project segment of a route with a wider scope; `None` if the source gives the project.
    pub scope: Option<Project>,
    /// Subjects that no identity source may give.
    pub reserved: &'p [String],
    /// What the registry says of the request's API key, if it was asked: then the source of API keys counts.
    pub holder: Option<&'p KeyHolder>,
}

/// The source that counts for a request: the first one with any value, where an API key is a value. `None` if there is none.
pub fn asked_source<'p>(
    sources: &'p [IdentitySource],
    headers: &Headers<'_>,
    attributes: &dyn Attributes,
) -> Option<&'p IdentitySource> {
    sources.iter().find(|source| match &source.api_key {
        Some(place) => !matches!(place.find(headers), Ok(None)),
        None => source
            .places()
            .into_iter()
            .filter_map(|(_, place)| place)
            .any(|place| !place.is_constant() && place.read(headers, attributes).is_present()),
    })
}

/// Reads the identity of a request from the first source that has any value.
///
/// # Errors
/// [`IdentityRefusal`] with the first invalid part, or else with the first missing part.
pub fn resolve<'p>(
    sources: &'p [IdentitySource],
    rules: &Rules<'_>,
    headers: &Headers<'_>,
    attributes: &dyn Attributes,
) -> Result<Identity, IdentityRefusal<'p>> {
    for source in sources {
        let values = source.values(headers, attributes, rules.holder);
        let is_holders = rules.holder.is_some() && source.api_key.is_some();
        if !is_holders && !source.is_asked(&values) {
            continue;
        }
        let [tenant, project, subject] = values;
        let tenant = part(tenant, Tenant::parse);
        let project = match &rules.scope {
            Some(wider) => Ok(wider.clone()),
            None => part(project, Project::parse),
        };
        let subject = part(subject, |text| parse_subject(&source.subject, &text));
        return match (tenant, project, subject) {
            (Ok(tenant), Ok(project), Ok(subject)) => {
                if rules.reserved.iter().any(|reserved| reserved == subject.as_str()) {
                    return Err(IdentityRefusal::of(IdentityError::Reserved));
                }
                Ok(Identity { tenant, project, subject })
            }
            (tenant, project, subject) => {
                let faults = [tenant.err(), project.err(), subject.err()];
                Err(IdentityRefusal::new(std::slice::from_ref(source), faults))
            }
        };
    }
    let project = rules.scope.is_none().then_some(IdentityFault::Missing);
    Err(IdentityRefusal::new(sources, [Some(IdentityFault::Missing), project, Some(IdentityFault::Missing)]))
}

fn part<'v, T>(
    value: AttributeValue<'v>,
    parse: impl FnOnce(Cow<'v, [u8]>) -> Result<T, Malformed>,
) -> Result<T, IdentityFault> {
    match value {
        AttributeValue::Absent => Err(IdentityFault::Missing),
        AttributeValue::Text(text) => parse(text).map_err(IdentityFault::Malformed),
        AttributeValue::Unusable => Err(IdentityFault::NotOneString),
    }
}

fn parse_subject(rule: &SubjectRule, text: &[u8]) -> Result<Subject, Malformed> {
    if let IdentityPlace::Constant(constant) = &rule.field {
        let (kind, id) = constant.split_once(':').ok_or(Malformed::SubjectType)?;
        return Subject::from_encoded(kind, id);
    }
    if let Some(kind) = &rule.kind {
        return Subject::new(kind, text);
    }
    let colon = text.iter().position(|byte| *byte == b':').ok_or(Malformed::SubjectType)?;
    let (kind, id) = text.split_at_checked(colon).ok_or(Malformed::SubjectType)?;
    let kind = std::str::from_utf8(kind).map_err(|_| Malformed::SubjectType)?;
    Subject::new(kind, id.strip_prefix(b":").ok_or(Malformed::SubjectType)?)
}
