//! What is known of a delivery before its body has come: which header lines verification will read, and whether it can
//! still succeed.

use super::identifier::IdentifierSource;
use super::scheme::{Scheme, SignatureSource, TimeSource, Timestamp};
use super::signature::{self, is_numbered};
use super::template::TemplatePart;
use super::{Delivery, Provider, VerifyError};
use std::borrow::Cow;

/// How many bytes the header lines have that verification reads, names and values. Those of the catalogue's providers have
/// a few hundred, unless an identifier is long.
const MAX_LINES: usize = 8192;

impl Provider {
    /// Whether verification, or the search for the identifier, reads header lines with this very name.
    #[inline(never)]
    pub fn reads_line(&self, name: &[u8]) -> bool {
        let is = |header: &str| header.as_bytes() == name;
        let identifies = |source: &IdentifierSource| matches!(source, IdentifierSource::Header(header) if is(header));
        is("content-type")
            || self.identifiers.iter().any(|slot| identifies(&slot.place.source))
            || self.schemes.iter().any(|scheme| {
                scheme.reads_line(name, &is)
                    || scheme.identifier.as_ref().is_some_and(|place| identifies(&place.source))
            })
    }

    /// Checks a delivery whose body has not come. `head` has an empty body, `secrets` are the secrets if they are known
    /// already, and `now_unix_ms` is the clock.
    ///
    /// # Errors
    /// The delivery cannot be verified, whatever its body is; the greatest of the schemes' errors.
    pub fn check_head(
        &self,
        head: &Delivery<'_>,
        secrets: Option<&[&[u8]]>,
        now_unix_ms: &dyn Fn() -> u64,
    ) -> Result<(), VerifyError> {
        let lines = head.headers.iter().filter(|(name, _)| self.reads_line(name));
        if lines.map(|(name, value)| name.len() + value.len()).sum::<usize>() > MAX_LINES {
            return Err(VerifyError::MalformedHeader);
        }
        let mut error = None;
        for scheme in &self.schemes {
            let keys = match secrets.map(|secrets| self.keys(scheme, secrets)) {
                Some(None) => continue,
                Some(Some(keys)) => Some(keys),
                None => None,
            };
            match self.check_head_of(scheme, head, keys.as_deref(), now_unix_ms) {
                Ok(()) => return Ok(()),
                Err(why) => error = error.max(Some(why)),
            }
        }
        Err(error.unwrap_or(VerifyError::SecretInvalid))
    }

    /// Makes the checks of verification that need no body, in the order of verification.
    #[inline(never)]
    fn check_head_of(
        &self,
        scheme: &Scheme,
        head: &Delivery<'_>,
        keys: Option<&[Cow<'_, [u8]>]>,
        now_unix_ms: &dyn Fn() -> u64,
    ) -> Result<(), VerifyError> {
        if matches!(scheme.signature.source, SignatureSource::Json(_)) {
            return Ok(());
        }
        let mut sent = scheme.read_signatures(head)?;
        if !matches!(&scheme.timestamp, Some(Timestamp { source: TimeSource::Json(_), .. })) {
            scheme.read_timestamp(head, &mut sent)?;
        }
        let time = scheme.check_sent(head, &sent)?;
        for part in &scheme.template {
            let name = match part {
                TemplatePart::Header(name) => Some(name.as_str()),
                TemplatePart::Id => self.first_header(scheme),
                _ => continue,
            };
            signature::required_header(head, name.ok_or(VerifyError::MissingHeader)?)?;
        }
        if keys.is_some_and(<[_]>::is_empty) {
            return Err(VerifyError::SecretInvalid);
        }
        if let Some((window, time)) = time {
            window.check(time, now_unix_ms())?;
        }
        let mut candidates = sent.signatures.iter().take(scheme.algorithm.most_signatures());
        if candidates.any(|candidate| scheme.algorithm.is_well_formed(scheme.signature.encoding, candidate)) {
            Ok(())
        } else {
            Err(VerifyError::SignatureMismatch)
        }
    }
}

impl Scheme {
    /// Whether this scheme reads header lines with this name, which `is` compares.
    fn reads_line(&self, name: &[u8], is: &dyn Fn(&str) -> bool) -> bool {
        let signature = match &self.signature.source {
            SignatureSource::Headers(names) => names.iter().any(|header| is(header)),
            SignatureSource::Numbered(prefix) => is_numbered(name, prefix),
            SignatureSource::Json(_) => false,
        };
        signature
            || matches!(&self.timestamp, Some(Timestamp { source: TimeSource::Header(header), .. }) if is(header))
            || self.required.iter().any(|(header, _)| is(header))
            || self.template.iter().any(|part| matches!(part, TemplatePart::Header(header) if is(header)))
    }
}
