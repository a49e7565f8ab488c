//! The identifier of a delivery, which stays the same when the provider sends the delivery again.

use super::form;
use super::{Delivery, Header};
use crate::codes::Reason;
use crate::json::scan::{self, JsonScalar, Pointer, PointerResult};

/// The longest identifier that is used literally in a key, in bytes.
pub(super) const MAX_LITERAL: usize = 255;

/// One of the places where a provider's identifier can be. The first place with an identifier counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slot {
    /// Its name; empty if it is the only slot
    pub(super) name: String,
    /// The pattern of the identifiers that may be used literally in a key
    pub(super) pattern: Option<Pattern>,
    /// Whether another event has another identifier; `false` where it is known not to
    pub(super) unique: bool,
    pub(super) place: IdentifierPlace,
}

/// The place of an identifier, and whether the signature covers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct IdentifierPlace {
    pub(super) source: IdentifierSource,
    pub(super) signed: bool,
}

/// Where an identifier is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum IdentifierSource {
    /// In a header
    Header(String),
    /// In the JSON body: a string, or an integer if `integer` is set
    Json {
        /// The place
        place: Pointer,
        /// An integer instead of a string
        integer: bool,
    },
    /// In a form body: the first of these groups whose fields are all there
    Form(Vec<Composite>),
}

/// Form fields that together are an identifier, joined by `-`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Composite {
    pub(super) names: Vec<String>,
    /// The index of the only field whose value may contain a `-`, so that the joined text has one division only.
    pub(super) dashed: usize,
}

/// The pattern of a slot's literal identifiers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Pattern {
    /// A UUID (RFC 9562) in any case
    Uuid,
    /// Any text with this prefix
    Prefix(String),
}

/// The kind of place that an identifier was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentifierKind {
    /// A header
    Header,
    /// The JSON body
    Json,
    /// A form field
    Form,
    /// Several form fields
    Composite,
}

impl IdentifierKind {
    /// The kind as logs name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Header => "header",
            Self::Json => "json",
            Self::Form => "form",
            Self::Composite => "composite",
        }
    }
}

/// The identifier of one delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identifier {
    /// The index of its slot
    pub(super) slot: usize,
    pub(super) text: Vec<u8>,
    /// Whether the text is the digest of the whole signed text
    pub(super) whole: bool,
    /// What it was read from
    pub kind: IdentifierKind,
    /// Whether the signature covers it
    pub signed: bool,
}

/// The reason why a delivery has no identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoIdentifier {
    /// It is not there
    Missing,
    /// It is there and empty
    Empty,
    /// It is there twice
    Ambiguous,
    /// It is not of the declared type
    WrongType,
    /// It should be in a JSON body, and the body is not JSON
    NotJson,
    /// It should be in a JSON body, and both the body and its content type are of another type
    OtherType,
    /// The delivery holds several events
    Several,
}

impl NoIdentifier {
    /// The reason of a refusal.
    pub const fn reason(self) -> Reason {
        match self {
            Self::Missing => Reason::DeliveryIdMissing,
            Self::Empty => Reason::DeliveryIdEmpty,
            Self::Ambiguous => Reason::DeliveryIdAmbiguous,
            Self::WrongType => Reason::DeliveryIdNotString,
            Self::NotJson | Self::OtherType => Reason::DeliveryBodyNotJson,
            Self::Several => Reason::MultipleEvents,
        }
    }

    /// Whether the identifier is only absent, so that the next slot is read. An ambiguous identifier, or one of the
    /// wrong type, is an error of the delivery.
    pub const fn is_absence(self) -> bool {
        matches!(self, Self::Missing | Self::Empty | Self::OtherType | Self::Several)
    }
}

impl Pattern {
    /// Parses `uuid`, or a prefix followed by `*`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match text.strip_suffix('*') {
            None if text == "uuid" => Ok(Self::Uuid),
            Some(prefix) if !prefix.is_empty() => Ok(Self::Prefix(prefix.to_owned())),
            _ => Err("expected `uuid`, or how it begins, followed by `*`".to_owned()),
        }
    }

    pub(super) fn matches(&self, text: &[u8]) -> bool {
        match self {
            Self::Prefix(prefix) => text.starts_with(prefix.as_bytes()),
            Self::Uuid => {
                text.len() == 36
                    && text.iter().enumerate().all(|(at, byte)| match at {
                        8 | 13 | 18 | 23 => *byte == b'-',
                        _ => byte.is_ascii_hexdigit(),
                    })
            }
        }
    }
}

impl Identifier {
    /// The identifier of a signed text whose parts cannot be separated: the digest of the whole text.
    pub(super) fn of_signed_text(digest: &[u8; 32], fields: usize) -> Self {
        let kind = if fields > 1 { IdentifierKind::Composite } else { IdentifierKind::Form };
        Self { slot: 0, text: digest.to_vec(), whole: true, kind, signed: true }
    }
}

impl IdentifierSource {
    /// The number of fields of the first group whose names all occur in a text; `None` if there is no such group. A
    /// name in the text does not prove that there is such a field, but it does not depend on the division of the text
    /// into parts.
    pub(super) fn group_in(&self, text: &[u8]) -> Option<usize> {
        let Self::Form(groups) = self else { return None };
        let occurs = |name: &String| text.windows(name.len().max(1)).any(|part| part == name.as_bytes());
        groups.iter().map(|group| &group.names).find(|names| names.iter().all(occurs)).map(Vec::len)
    }
}

/// Reads the identifier from the first of `places` that has one; `None` if there are no places.
pub(super) fn find<'p>(
    places: impl Iterator<Item = &'p IdentifierPlace>,
    delivery: &Delivery<'_>,
) -> Result<Option<Identifier>, NoIdentifier> {
    let mut absent = None;
    for (slot, place) in places.enumerate() {
        match place.source.read(delivery) {
            Ok((text, kind)) => return Ok(Some(Identifier { slot, text, whole: false, kind, signed: place.signed })),
            Err(why) if why.is_absence() => {
                // `Missing` is the least specific reason, so any other one replaces it.
                if absent.is_none_or(|other| other == NoIdentifier::Missing) {
                    absent = Some(why);
                }
            }
            Err(why) => return Err(why),
        }
    }
    absent.map_or(Ok(None), Err)
}

impl IdentifierSource {
    fn read(&self, delivery: &Delivery<'_>) -> Result<(Vec<u8>, IdentifierKind), NoIdentifier> {
        match self {
            Self::Header(name) => match delivery.header(name) {
                Header::Absent => Err(NoIdentifier::Missing),
                Header::Ambiguous => Err(NoIdentifier::Ambiguous),
                Header::One([]) => Err(NoIdentifier::Empty),
                Header::One(value) => Ok((value.to_vec(), IdentifierKind::Header)),
            },
            Self::Json { place, integer } => match scalar_at(delivery, place)? {
                JsonScalar::Text(text) if !integer => match text.decode().into_owned() {
                    empty if empty.is_empty() => Err(NoIdentifier::Empty),
                    text => Ok((text, IdentifierKind::Json)),
                },
                JsonScalar::Number(number) if *integer && is_integer(number) => {
                    Ok((number.to_vec(), IdentifierKind::Json))
                }
                _ => Err(NoIdentifier::WrongType),
            },
            Self::Form(composites) => {
                if !delivery.is_form() {
                    return Err(NoIdentifier::Missing);
                }
                composites
                    .iter()
                    .find_map(|composite| composite.read(delivery.body.bytes()))
                    .ok_or(NoIdentifier::Missing)
            }
        }
    }
}

/// The value at a place of a JSON body.
pub(super) fn scalar_at<'d>(delivery: &Delivery<'d>, place: &Pointer) -> Result<JsonScalar<'d>, NoIdentifier> {
    let found = scan::find(delivery.body.bytes(), &[place]).map_err(|scan::NotJson| {
        // A body of another content type has no identifier, a body that should be JSON is broken.
        if delivery.is_not_json() { NoIdentifier::OtherType } else { NoIdentifier::NotJson }
    })?;
    match found.first().copied().unwrap_or(PointerResult::Missing) {
        PointerResult::Missing => Err(NoIdentifier::Missing),
        PointerResult::Ambiguous => Err(NoIdentifier::Ambiguous),
        PointerResult::Several => Err(NoIdentifier::Several),
        PointerResult::Value(value) => Ok(value),
    }
}

/// Whether a number is an integer in its only spelling: without fraction or exponent, and not `-0`.
pub(super) fn is_integer(number: &[u8]) -> bool {
    let digits = number.strip_prefix(b"-").unwrap_or(number);
    digits.iter().all(u8::is_ascii_digit) && number != b"-0"
}

impl Composite {
    /// Reads all fields. Each has to occur once and not be empty, and only the one at `dashed` may contain a `-`.
    pub(super) fn read(&self, body: &[u8]) -> Option<(Vec<u8>, IdentifierKind)> {
        let mut parts: Vec<Option<Vec<u8>>> = vec![None; self.names.len()];
        for field in form::fields(body) {
            let Some(at) = self.names.iter().position(|name| form::is(field.name, name)) else { continue };
            let part = parts.get_mut(at)?;
            if part.is_some() {
                return None;
            }
            *part = Some(form::decoded(field.value).collect());
        }
        let mut text = Vec::new();
        for (at, part) in parts.into_iter().enumerate() {
            let part = part.filter(|part| !part.is_empty() && (at == self.dashed || !part.contains(&b'-')))?;
            if at > 0 {
                text.push(b'-');
            }
            text.extend(part);
        }
        Some((text, if self.names.len() > 1 { IdentifierKind::Composite } else { IdentifierKind::Form }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn composite(names: &[&str], dashed: usize, body: &str) -> Option<String> {
        let composite = Composite { names: names.iter().map(|name| (*name).to_owned()).collect(), dashed };
        composite.read(body.as_bytes()).map(|(text, _)| String::from_utf8(text).unwrap())
    }

    #[test]
    fn a_composite_needs_all_its_fields_once_and_not_empty() {
        let names = ["a", "b"];
        assert_eq!(composite(&names, 1, "x=1&b=2&a=1").as_deref(), Some("1-2"));
        assert_eq!(composite(&names, 1, "%61=1&b=2+3").as_deref(), Some("1-2 3"));
        assert_eq!(composite(&names, 1, "a=1&b=2-3").as_deref(), Some("1-2-3"));
        assert_eq!(composite(&names, 0, "a=1-2&b=3").as_deref(), Some("1-2-3"));
        for body in ["", "a=1", "a=1&b", "a=1&b=", "a=&b=2", "a=1&b=2&b=2", "a=1&a=2&b=3", "a=1&%61=1&b=2", "a=1-2&b=3"]
        {
            assert_eq!(composite(&names, 1, body), None, "{body}");
        }
    }

    #[test]
    fn patterns() {
        let uuid = Pattern::parse("uuid").unwrap();
        assert!(uuid.matches(b"38053878-a5d4-4295-a906-cca8f58027c9"));
        assert!(uuid.matches(b"38053878-A5D4-4295-A906-CCA8F58027C9"));
        for bad in [
            "",
            "38053878a5d44295a906cca8f58027c9",
            "38053878-a5d4-4295-a906-cca8f58027cg",
            "38053878-a5d4-4295-a9060cca8f58027c9",
        ] {
            assert!(!uuid.matches(bad.as_bytes()), "{bad}");
        }
        assert!(Pattern::parse("CA*").unwrap().matches(b"CA9-completed-3"));
        assert!(!Pattern::parse("CA*").unwrap().matches(b"SM9-sent"));
        for bad in ["", "*", "UUID", "CA"] {
            assert!(Pattern::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn integers_have_one_spelling() {
        for good in ["0", "-1", "12345678901234567890"] {
            assert!(is_integer(good.as_bytes()), "{good}");
        }
        for bad in ["-0", "1.0", "1e3", "1E3"] {
            assert!(!is_integer(bad.as_bytes()), "{bad}");
        }
    }
}
