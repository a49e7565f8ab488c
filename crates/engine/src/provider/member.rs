//! Members of a verified body that a route's target names (docs/contract.md section 5).

use super::identifier::{Composite, NoIdentifier, is_integer, scalar_at};
use super::members::{non_empty, pointer};
use super::template::TemplatePart;
use super::{Delivery, Provider, Verified, form};
use crate::codes::Reason;
use crate::json::scan::{JsonScalar, Pointer};

/// A member of a body, as a target names it: `body:/data/object/id`, `form:MessageSid`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BodyMember {
    /// The JSON pointer, or the name of the field
    name: String,
    place: MemberPlace,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum MemberPlace {
    Json(Pointer),
    Form(Composite),
}

/// The reason why a verified delivery has no value for a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoMember {
    /// It is not there.
    Missing,
    /// It is there twice, is no string and no integer, or its value cannot be a part of an object key.
    Unusable,
    /// It should be in a JSON body, and the body is not JSON.
    NotJson,
    /// The signature of this delivery does not cover it.
    Unsigned,
}

impl NoMember {
    /// The reason of a refusal.
    pub const fn reason(self) -> Reason {
        match self {
            Self::Missing => Reason::TargetMemberMissing,
            Self::Unusable => Reason::TargetMemberUnusable,
            Self::NotJson => Reason::DeliveryBodyNotJson,
            Self::Unsigned => Reason::TargetMemberUnsigned,
        }
    }
}

impl BodyMember {
    /// Parses what stands between the braces of a placeholder; `None` if it names no member of a body.
    ///
    /// # Errors
    /// A sentence that says what to change.
    pub(crate) fn parse(text: &str) -> Option<Result<Self, String>> {
        let (kind, name) = text.split_once(':')?;
        let place = match kind {
            "body" => pointer(name, false).map(MemberPlace::Json),
            "form" => non_empty(name).map(|name| MemberPlace::Form(Composite { names: vec![name], dashed: 0 })),
            _ => Err("write `body:` and a JSON pointer, or `form:` and the name of a field".to_owned()),
        };
        let member = place.map(|place| Self { name: name.to_owned(), place });
        Some(member.map_err(|why| format!("`{{{text}}}`: {why}")))
    }

    /// The JSON pointer, or the name of the field.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl Provider {
    /// Whether there are deliveries whose signature covers the whole body, and so its members.
    pub fn may_sign_members(&self) -> bool {
        self.schemes.iter().any(super::Scheme::covers_body)
    }

    /// The value of a member of a verified delivery.
    ///
    /// # Errors
    /// The reason why there is none.
    pub fn member(
        &self,
        member: &BodyMember,
        delivery: &Delivery<'_>,
        verified: &Verified,
    ) -> Result<Vec<u8>, NoMember> {
        match &member.place {
            _ if !self.signs(member, delivery, verified) => Err(NoMember::Unsigned),
            MemberPlace::Json(place) => match scalar_at(delivery, place) {
                Ok(JsonScalar::Text(text)) => Ok(text.decode().into_owned()),
                Ok(JsonScalar::Number(number)) if is_integer(number) => Ok(number.to_vec()),
                Err(NoIdentifier::Missing) => Err(NoMember::Missing),
                Err(NoIdentifier::NotJson | NoIdentifier::OtherType) => Err(NoMember::NotJson),
                _ => Err(NoMember::Unusable),
            },
            MemberPlace::Form(_) if !delivery.is_form() => Err(NoMember::Missing),
            MemberPlace::Form(field) => match field.read(delivery.body.bytes()) {
                Some((text, _)) => Ok(text),
                None if form::fields(delivery.body.bytes()).any(|field| form::is(field.name, &member.name)) => {
                    Err(NoMember::Unusable)
                }
                None => Err(NoMember::Missing),
            },
        }
    }

    /// Whether the signature of this delivery covers a member, so that nobody who has seen the delivery can send it with another
    /// value.
    fn signs(&self, member: &BodyMember, delivery: &Delivery<'_>, verified: &Verified) -> bool {
        let Some(scheme) = self.schemes.get(verified.scheme) else { return false };
        let whole = verified.whole.as_ref();
        match &member.place {
            _ if !scheme.covers_body() => false,
            // As for identifiers: a signed form could come as a URL with another body.
            MemberPlace::Json(_) => {
                whole.is_none_or(|whole| whole.hashed && whole.group.is_none() && !delivery.is_form())
            }
            // Names and values stand side by side in the signed text. If the name is there once, the value begins behind it.
            MemberPlace::Form(_) if scheme.template.contains(&TemplatePart::SortedForm) => {
                let mut text = delivery.url.to_vec();
                let sorted = form::Sorted::new(delivery.body.bytes());
                sorted.iter().for_each(|form| form.feed(&mut |bytes| text.extend_from_slice(bytes)));
                let name = member.name.as_bytes();
                text.windows(name.len().max(1)).filter(|part| *part == name).nth(1).is_none()
            }
            MemberPlace::Form(_) => whole.is_none(),
        }
    }
}
