//! Reads signatures and timestamps from a delivery.

use super::scheme::{Scheme, SignatureGrammar, SignatureSource, TimeSource};
use super::{Delivery, Header, VerifyError};
use crate::json::scan::{self, JsonScalar, Pointer, PointerResult};

use std::borrow::Cow;

/// The highest number of numbered headers.
const MAX_NUMBERED: u8 = 100;

/// The signatures and the timestamp of a delivery.
#[derive(Debug, Default)]
pub(super) struct SentSignature<'d> {
    /// The signatures of the scheme, in order
    pub(super) signatures: Vec<Cow<'d, [u8]>>,
    /// A timestamp from the signature header
    pub(super) timestamp: Option<Cow<'d, [u8]>>,
}

impl Scheme {
    /// Reads the signatures. It is not an error here if none of them is of this scheme.
    #[inline(never)]
    pub(super) fn read_signatures<'d>(&self, delivery: &Delivery<'d>) -> Result<SentSignature<'d>, VerifyError> {
        let mut sent = SentSignature::default();
        let mut lines = 0;
        match &self.signature.source {
            SignatureSource::Headers(names) => {
                for name in names {
                    if let Some(line) = line(delivery.header(name))? {
                        lines += 1;
                        self.read_line(line, &mut sent)?;
                    }
                }
            }
            SignatureSource::Numbered(prefix) => {
                for (name, line) in delivery.headers.iter() {
                    if is_numbered(name, prefix) && !line.trim_ascii().is_empty() {
                        lines += 1;
                        self.read_line(line.trim_ascii(), &mut sent)?;
                    }
                }
            }
            SignatureSource::Json(place) => {
                lines += 1;
                sent.signatures.push(text(delivery, place)?);
            }
        }
        if lines == 0 {
            return Err(VerifyError::MissingHeader);
        }
        Ok(sent)
    }

    /// Reads the timestamp, if the scheme has one. A timestamp in the signature header was read with it.
    #[inline(never)]
    pub(super) fn read_timestamp<'d>(
        &self,
        delivery: &Delivery<'d>,
        sent: &mut SentSignature<'d>,
    ) -> Result<(), VerifyError> {
        match self.timestamp.as_ref().map(|timestamp| &timestamp.source) {
            None => {}
            Some(TimeSource::Header(name)) => {
                sent.timestamp = Some(Cow::Borrowed(required_header(delivery, name)?));
            }
            Some(TimeSource::Pair(_)) if sent.timestamp.is_none() => return Err(VerifyError::MalformedHeader),
            Some(TimeSource::Pair(_)) => {}
            Some(TimeSource::Json(place)) => sent.timestamp = Some(text(delivery, place)?),
        }
        Ok(())
    }

    fn read_line<'d>(&self, line: &'d [u8], sent: &mut SentSignature<'d>) -> Result<(), VerifyError> {
        match &self.signature.grammar {
            SignatureGrammar::Single(prefix) => match line.strip_prefix(prefix.as_bytes()) {
                None | Some([]) => return Err(VerifyError::MalformedHeader),
                Some(signature) => sent.signatures.push(Cow::Borrowed(signature)),
            },
            SignatureGrammar::Pairs { separator, key } => {
                let clock = match &self.timestamp {
                    Some(timestamp) => timestamp.source.pair(),
                    None => None,
                };
                for item in line.split(|byte| byte == separator) {
                    let (name, value) = halves(item, b'=').ok_or(VerifyError::MalformedHeader)?;
                    let (name, value) = (name.trim_ascii(), value.trim_ascii());
                    if name == key.as_bytes() {
                        sent.signatures.push(Cow::Borrowed(value));
                    } else if clock.is_some_and(|clock| name == clock.as_bytes()) {
                        // Two timestamps are ambiguous.
                        if sent.timestamp.replace(Cow::Borrowed(value)).is_some() {
                            return Err(VerifyError::MalformedHeader);
                        }
                    }
                }
            }
            SignatureGrammar::Versions { separator, version } => {
                for item in line.split(|byte| byte == separator) {
                    if let Some((found, signature)) = halves(item, b',')
                        && found == version.as_bytes()
                    {
                        sent.signatures.push(Cow::Borrowed(signature));
                    }
                }
            }
        }
        Ok(())
    }
}

impl TimeSource {
    fn pair(&self) -> Option<&str> {
        match self {
            Self::Pair(key) => Some(key),
            _ => None,
        }
    }
}

/// A header that may be absent; an empty one counts as absent.
fn line(header: Header<'_>) -> Result<Option<&[u8]>, VerifyError> {
    match header {
        Header::Absent | Header::One([]) => Ok(None),
        Header::One(line) => Ok(Some(line)),
        Header::Ambiguous => Err(VerifyError::AmbiguousHeader),
    }
}

/// A header that must not be absent.
pub(super) fn required_header<'d>(delivery: &Delivery<'d>, name: &str) -> Result<&'d [u8], VerifyError> {
    line(delivery.header(name))?.ok_or(VerifyError::MissingHeader)
}

/// A string or a number of the JSON body that must not be absent.
fn text<'d>(delivery: &Delivery<'d>, place: &Pointer) -> Result<Cow<'d, [u8]>, VerifyError> {
    let found = scan::find(delivery.body.bytes(), &[place]).map_err(|scan::NotJson| VerifyError::MalformedHeader)?;
    value(found.first().copied().unwrap_or(PointerResult::Missing), false)
}

/// The text of a JSON value in a signed text.
pub(super) fn value<'d>(found: PointerResult<'d>, optional: bool) -> Result<Cow<'d, [u8]>, VerifyError> {
    match found {
        PointerResult::Value(JsonScalar::Text(text)) => Ok(text.decode()),
        PointerResult::Value(JsonScalar::Number(text) | JsonScalar::Boolean(text)) => Ok(Cow::Borrowed(text)),
        PointerResult::Missing | PointerResult::Value(JsonScalar::Null) if optional => Ok(Cow::Borrowed(b"")),
        PointerResult::Missing | PointerResult::Value(JsonScalar::Null) => Err(VerifyError::MissingHeader),
        PointerResult::Ambiguous => Err(VerifyError::AmbiguousHeader),
        PointerResult::Several | PointerResult::Value(JsonScalar::Container) => Err(VerifyError::MalformedHeader),
    }
}

fn halves(item: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let (left, rest) = item.split_at_checked(item.iter().position(|byte| *byte == at)?)?;
    Some((left, rest.get(1..)?))
}

pub(super) fn is_numbered(name: &[u8], prefix: &str) -> bool {
    name.strip_prefix(prefix.as_bytes())
        .filter(|digits| matches!(digits, [b'1'..=b'9', ..]))
        .and_then(|digits| std::str::from_utf8(digits).ok()?.parse::<u8>().ok())
        .is_some_and(|number| (1..=MAX_NUMBERED).contains(&number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_headers() {
        for good in ["x-s-1", "x-s-9", "x-s-100"] {
            assert!(is_numbered(good.as_bytes(), "x-s-"), "{good}");
        }
        for bad in ["x-s-", "x-s-0", "x-s-01", "x-s-101", "x-s-1a", "x-s-+1", "x-s--1", "x-t-1"] {
            assert!(!is_numbered(bad.as_bytes(), "x-s-"), "{bad}");
        }
    }
}
