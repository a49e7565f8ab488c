//! Who calls (docs/contract.md section 3).

use super::pattern;
use crate::properties::generate::{Place, ScopeModel, SourceModel};
use direct::requests::{OwnedLine, Request};
use serde::Deserialize;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde_json::Value as Json;

pattern!(SEGMENT, r"^[A-Za-z0-9.~\-][A-Za-z0-9._~\-]{0,62}$");

pub(crate) fn is_segment(text: &[u8]) -> bool {
    SEGMENT.is_match(text) && text != b"." && text != b".."
}

/// Everything but RFC 3986's unreserved characters as `%XX`.
pub(crate) fn percent_encoded(text: &[u8]) -> String {
    let one = |byte: &u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'.' | b'_' | b'~' | b'-' => char::from(*byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.iter().map(one).collect()
}

/// Who calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallerModel {
    pub(crate) tenant: String,
    /// As it stands in a key
    pub(crate) project: String,
    /// `{type}:{encoded id}`
    pub(crate) subject: String,
}

/// One value of an identity source.
enum SourcePart {
    Absent,
    Text(Vec<u8>),
    Wrong,
}

/// A JSON value that keeps members that occur twice.
enum JsonTree {
    Null,
    Text(String),
    Object(Vec<(String, JsonTree)>),
    Other,
}

impl<'de> Deserialize<'de> for JsonTree {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyValue;
        impl<'de> Visitor<'de> for AnyValue {
            type Value = JsonTree;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("JSON")
            }

            fn visit_unit<E>(self) -> Result<JsonTree, E> {
                Ok(JsonTree::Null)
            }

            fn visit_bool<E>(self, _: bool) -> Result<JsonTree, E> {
                Ok(JsonTree::Other)
            }

            fn visit_i64<E>(self, _: i64) -> Result<JsonTree, E> {
                Ok(JsonTree::Other)
            }

            fn visit_u64<E>(self, _: u64) -> Result<JsonTree, E> {
                Ok(JsonTree::Other)
            }

            fn visit_f64<E>(self, _: f64) -> Result<JsonTree, E> {
                Ok(JsonTree::Other)
            }

            fn visit_str<E>(self, text: &str) -> Result<JsonTree, E> {
                Ok(JsonTree::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<JsonTree, A::Error> {
                while items.next_element::<JsonTree>()?.is_some() {}
                Ok(JsonTree::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<JsonTree, A::Error> {
                let mut object = Vec::new();
                while let Some(member) = members.next_entry()? {
                    object.push(member);
                }
                Ok(JsonTree::Object(object))
            }
        }
        deserializer.deserialize_any(AnyValue)
    }
}

/// RFC 4648 section 5, bit by bit; padding may be left out.
fn base64url(text: &[u8]) -> Option<Vec<u8>> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let end = text.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    let (digits, padding) = text.split_at(end);
    let mut bits = String::new();
    for digit in digits {
        bits += &format!("{:06b}", ALPHABET.iter().position(|known| known == digit)?);
    }
    let whole = bits.len() / 8 * 8;
    // What is left is less than a digit, and zero.
    let is_canonical = bits.len() - whole < 6 && !bits[whole..].contains('1');
    let fits = padding.len() <= (4 - digits.len() % 4) % 4;
    let bytes = bits.as_bytes()[..whole].chunks(8).map(|byte| std::str::from_utf8(byte).unwrap());
    (is_canonical && fits).then(|| bytes.map(|byte| u8::from_str_radix(byte, 2).unwrap()).collect())
}

/// The claim in a payload.
fn claim(payload: &[u8], names: &[&str]) -> SourcePart {
    let tree = base64url(payload).and_then(|text| serde_json::from_slice(&text).ok());
    let Some(mut value @ JsonTree::Object(_)) = tree else { return SourcePart::Wrong };
    for name in names {
        let JsonTree::Object(members) = value else { return SourcePart::Absent };
        let mut found = members.into_iter().filter(|(member, _)| member == name);
        value = match (found.next(), found.next()) {
            (None, _) => return SourcePart::Absent,
            (Some((_, value)), None) => value,
            (Some(_), Some(_)) => return SourcePart::Wrong,
        };
    }
    match value {
        JsonTree::Null => SourcePart::Absent,
        JsonTree::Text(text) if text.is_empty() => SourcePart::Absent,
        JsonTree::Text(text) => SourcePart::Text(text.into_bytes()),
        JsonTree::Object(_) | JsonTree::Other => SourcePart::Wrong,
    }
}

fn part(place: &Place, request: &Request) -> SourcePart {
    match place {
        Place::Constant(value) => SourcePart::Text(value.as_bytes().to_vec()),
        Place::Header(name) | Place::Claim(name, _) => {
            let lines: Vec<&OwnedLine> = request.headers.iter().filter(|(line, _)| line == name.as_bytes()).collect();
            match lines.as_slice() {
                [] => SourcePart::Absent,
                [(_, value)] if value.is_empty() => SourcePart::Absent,
                [(_, value)] if let Place::Claim(_, names) = place => claim(value, names),
                [(_, value)] if !value.contains(&b',') => SourcePart::Text(value.clone()),
                _ => SourcePart::Wrong,
            }
        }
        Place::Metadata(steps) => {
            let found = steps.iter().try_fold(&request.attributes.metadata, |value, step| value.get(step));
            match found {
                None | Some(Json::Null) => SourcePart::Absent,
                Some(Json::String(text)) if text.is_empty() => SourcePart::Absent,
                Some(Json::String(text)) => SourcePart::Text(text.clone().into_bytes()),
                Some(_) => SourcePart::Wrong,
            }
        }
    }
}

pattern!(TYPE, r"^[a-z][a-z0-9_]{0,62}$");

fn subject(source: &SourceModel, text: &[u8]) -> Option<String> {
    if let Place::Constant(subject) = source.subject {
        return Some(subject.to_owned());
    }
    let (kind, id) = match source.kind {
        Some(kind) => (kind, text),
        None => {
            let colon = text.iter().position(|byte| *byte == b':')?;
            let kind = std::str::from_utf8(&text[..colon]).ok().filter(|kind| TYPE.is_match(kind.as_bytes()))?;
            (kind, &text[colon + 1..])
        }
    };
    let encoded = percent_encoded(id);
    let fits = (1..=200).contains(&encoded.len()) && !id.iter().any(|byte| *byte < 0x20 || *byte == 0x7f);
    fits.then(|| format!("{kind}:{encoded}"))
}

/// The caller, or the code of the refusal.
pub(crate) fn caller(
    sources: &[SourceModel],
    reserved: &[&str],
    scope: ScopeModel,
    request: &Request,
) -> Result<CallerModel, &'static str> {
    for source in sources {
        let tenant = part(&source.tenant, request);
        let project = source.project.as_ref().map_or(SourcePart::Absent, |place| part(place, request));
        let subject_part = part(&source.subject, request);
        // A constant is in every request, and so says nothing about one.
        let says = |place: &Place, part: &SourcePart| {
            !matches!((place, part), (Place::Constant(_), _) | (_, SourcePart::Absent))
        };
        if !says(&source.tenant, &tenant)
            && !source.project.as_ref().is_some_and(|place| says(place, &project))
            && !says(&source.subject, &subject_part)
        {
            continue;
        }
        let read = |part: &SourcePart, parse: &dyn Fn(&[u8]) -> Option<String>| match part {
            SourcePart::Absent => Ok(None),
            SourcePart::Wrong => Err("identity_invalid"),
            SourcePart::Text(text) => parse(text).map(Some).ok_or("identity_invalid"),
        };
        let segment = |text: &[u8]| is_segment(text).then(|| String::from_utf8(text.to_vec()).unwrap());
        let tenant = read(&tenant, &segment)?;
        let project = match scope {
            ScopeModel::Project => read(&project, &segment)?,
            ScopeModel::Tenant => Some("_tenant".to_owned()),
            ScopeModel::Platform => Some("_platform".to_owned()),
        };
        let subject = read(&subject_part, &|text| subject(source, text))?;
        let (Some(tenant), Some(project), Some(subject)) = (tenant, project, subject) else {
            return Err("identity_missing");
        };
        let is_reserved = reserved.contains(&subject.as_str());
        return if is_reserved { Err("identity_reserved") } else { Ok(CallerModel { tenant, project, subject }) };
    }
    Err("identity_missing")
}
