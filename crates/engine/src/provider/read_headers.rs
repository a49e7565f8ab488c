//! The headers that a provider's file reads, and which of their lines a verified delivery keeps. Many servers take `_` for `-`,
//! and a delivery may be signed in one of several headers. So a header that looks like the one that was verified could tell the
//! backend something else than the signature covers.

use super::identifier::{Identifier, IdentifierSource, Slot};
use super::scheme::{Scheme, SignatureSource, TimeSource};
use super::template::TemplatePart;
use super::{Provider, Verified};
use crate::headers::NameSet;

/// The identifier headers that a verified delivery keeps. The signature covers them or not.
#[derive(Debug, Clone, Copy)]
pub enum IdentifierHeaders<'i> {
    /// The one that the delivery's identifier was read from
    Of(Option<&'i Identifier>),
    /// All of the scheme: the filter made no key, since the handler reads them
    All,
}

/// The names of all headers that the parts of a provider file read.
#[inline(never)]
pub(super) fn names(schemes: &[Scheme], identifiers: &[Slot], other_signature_headers: &[String]) -> NameSet {
    let mut names = NameSet::default();
    let mut add = |name: &str| names.insert(name);
    other_signature_headers.iter().for_each(|name| add(name));
    for scheme in schemes {
        match &scheme.signature.source {
            SignatureSource::Headers(headers) => headers.iter().for_each(|name| add(name)),
            SignatureSource::Numbered(prefix) => add(&format!("{prefix}*")),
            SignatureSource::Json(_) => {}
        }
        scheme.checked_headers().for_each(&mut add);
    }
    let own = schemes.iter().filter_map(|scheme| scheme.identifier.as_ref());
    let places = own.chain(identifiers.iter().map(|slot| &slot.place));
    places.filter_map(|place| place.source.header()).for_each(add);
    names
}

impl Scheme {
    /// The headers whose values the scheme signs or compares, without `{id}` and without the signature itself.
    fn checked_headers(&self) -> impl Iterator<Item = &str> {
        let signed = self.template.iter().filter_map(|part| match part {
            TemplatePart::Header(name) => Some(name.as_str()),
            _ => None,
        });
        let time = self.timestamp.iter().filter_map(|timestamp| match &timestamp.source {
            TimeSource::Header(name) => Some(name.as_str()),
            _ => None,
        });
        signed.chain(time).chain(self.required.iter().map(|(name, _)| name.as_str()))
    }
}

impl IdentifierSource {
    fn header(&self) -> Option<&str> {
        match self {
            Self::Header(name) => Some(name),
            _ => None,
        }
    }
}

impl Provider {
    /// Whether the provider reads a header with this name, in any spelling.
    pub fn reads(&self, name: &[u8]) -> bool {
        self.read_headers.contains(name)
    }

    /// The header with this very name, if a verified delivery keeps it: its scheme has signed or compared the value, or the
    /// identifier was read from it.
    #[inline(never)]
    pub fn kept_header(&self, name: &[u8], verified: &Verified, identifiers: IdentifierHeaders<'_>) -> Option<&str> {
        let scheme = self.schemes.get(verified.scheme)?;
        let id = self.first_header(scheme).filter(|_| scheme.template.contains(&TemplatePart::Id));
        let is_read = |(slot, _): &(usize, _)| match identifiers {
            // The digest of a whole signed text was read from no header.
            IdentifierHeaders::Of(identifier) => identifier.is_some_and(|found| !found.whole && found.slot == *slot),
            IdentifierHeaders::All => true,
        };
        let places = self.places(Some(scheme)).enumerate().filter(is_read);
        let mut kept = scheme.checked_headers().chain(id).chain(places.filter_map(|(_, place)| place.source.header()));
        kept.find(|kept| kept.as_bytes() == name)
    }
}
