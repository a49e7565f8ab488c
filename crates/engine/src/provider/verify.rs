//! Verifies a delivery: signature, keys, signed text and timestamp.

use super::crypto::Algorithm;
use super::crypto::{self, Feed};
use super::form::{self, Sorted};
use super::scheme::{Boundaries, Scheme, Timestamp};
use super::secret::Fit;
use super::signature::{self, SentSignature};
use super::template::TemplatePart;
use super::{Delivery, Header, Provider, Verified, VerifyError, Whole, url};
use crate::body::Body;
use crate::json::scan::{self, Pointer, PointerResult};
use crate::time::{self, TimestampError, Window};
use std::borrow::Cow;

impl Provider {
    /// Verifies a delivery: one of its signatures has to fit one of the schemes and one of `secrets`, and its
    /// timestamp, if the scheme has one, has to be in the window around `now_unix_ms`.
    ///
    /// # Errors
    /// The greatest of the schemes' errors.
    pub fn verify(
        &self,
        delivery: &Delivery<'_>,
        secrets: &[&[u8]],
        now_unix_ms: u64,
    ) -> Result<Verified, VerifyError> {
        let mut error = None;
        for (index, scheme) in self.schemes.iter().enumerate() {
            let Some(keys) = self.keys(scheme, secrets) else { continue };
            match self.verify_scheme(scheme, delivery, &keys, now_unix_ms) {
                Ok(whole) => return Ok(Verified { scheme: index, whole }),
                Err(why) => error = error.max(Some(why)),
            }
        }
        Err(error.unwrap_or(VerifyError::SecretInvalid))
    }

    /// The keys of a scheme; `None` if all `secrets` are for other schemes.
    #[inline(never)]
    pub(super) fn keys<'s>(&self, scheme: &Scheme, secrets: &[&'s [u8]]) -> Option<Vec<Cow<'s, [u8]>>> {
        let mut keys = None;
        for secret in secrets {
            let prefixes = self.schemes.iter().filter_map(|scheme| scheme.secret.prefix.as_deref());
            match scheme.secret.fit(secret, prefixes) {
                Fit::Key(key) => keys.get_or_insert_with(Vec::new).push(key),
                Fit::Unusable => {
                    keys.get_or_insert_with(Vec::new);
                }
                Fit::Other => {}
            }
        }
        keys
    }

    /// The keys that a secret makes, one for each scheme that it fits: the length of a secret key in bytes, and `None` for a
    /// public key, whose length says nothing. Without a key the secret verifies nothing.
    pub fn key_lengths(&self, secret: &[u8]) -> Vec<Option<usize>> {
        let mut lengths = Vec::new();
        for scheme in &self.schemes {
            for key in self.keys(scheme, &[secret]).unwrap_or_default() {
                // Without candidates, this only checks that the key is valid.
                if scheme.algorithm.verify(&key, scheme.signature.encoding, &[], &|_| {}).is_ok() {
                    let is_public = matches!(scheme.algorithm, Algorithm::Ed25519 | Algorithm::EcdsaP256);
                    lengths.push((!is_public).then_some(key.len()));
                }
            }
        }
        lengths
    }

    #[inline(never)]
    fn verify_scheme(
        &self,
        scheme: &Scheme,
        delivery: &Delivery<'_>,
        keys: &[Cow<'_, [u8]>],
        now: u64,
    ) -> Result<Option<Whole>, VerifyError> {
        let mut sent = scheme.read_signatures(delivery)?;
        scheme.read_timestamp(delivery, &mut sent)?;
        let time = scheme.check_sent(delivery, &sent)?;
        let signed = self.signed_text(scheme, delivery, &sent)?;
        if keys.is_empty() {
            return Err(VerifyError::SecretInvalid);
        }
        if let Some((window, time)) = time {
            window.check(time, now)?;
        }
        let url = signed.verify(scheme, delivery, keys, &sent)?.ok_or(VerifyError::SignatureMismatch)?;
        scheme.check_boundaries(delivery)?;
        let hashed = scheme.check_body(delivery)?;
        if scheme.boundaries != Some(Boundaries::Absent) {
            return Ok(None);
        }
        let mut text = Vec::with_capacity(delivery.body.len() + url.len());
        signed.feed(&url, &mut |bytes| text.extend_from_slice(bytes));
        let group = self.places(Some(scheme)).find_map(|place| place.source.group_in(&text));
        Ok(Some(Whole { digest: crypto::sha_256(&text), group, hashed }))
    }

    /// Builds the signed text from the template and the delivery.
    #[inline(never)]
    fn signed_text<'d>(
        &self,
        scheme: &Scheme,
        delivery: &Delivery<'d>,
        sent: &SentSignature<'d>,
    ) -> Result<SignedText<'d>, VerifyError> {
        let places: Vec<&Pointer> = scheme
            .template
            .iter()
            .filter_map(|part| if let TemplatePart::Json { place, .. } = part { Some(place) } else { None })
            .collect();
        let mut found = if places.is_empty() {
            Vec::new()
        } else {
            scan::find(delivery.body.bytes(), &places).map_err(|scan::NotJson| VerifyError::MalformedHeader)?
        }
        .into_iter();
        let mut pieces = Vec::with_capacity(scheme.template.len());
        for (index, part) in scheme.template.iter().enumerate() {
            let piece = match part {
                TemplatePart::Literal(text) => SignedPiece::Bytes(Cow::Owned(text.clone().into_bytes())),
                TemplatePart::Body => SignedPiece::Body(delivery.body),
                TemplatePart::Timestamp => SignedPiece::Bytes(sent.timestamp.clone().unwrap_or_default()),
                TemplatePart::Id => match self.first_header(scheme) {
                    Some(name) => SignedPiece::Bytes(Cow::Borrowed(signature::required_header(delivery, name)?)),
                    None => return Err(VerifyError::MissingHeader),
                },
                TemplatePart::Method => SignedPiece::Bytes(Cow::Borrowed(delivery.method)),
                TemplatePart::Url => SignedPiece::Url,
                TemplatePart::HubspotUrl => SignedPiece::Bytes(Cow::Owned(url::hubspot(delivery.url))),
                TemplatePart::Path => SignedPiece::Bytes(Cow::Borrowed(
                    url::UrlParts::new(delivery.url).map(|url| url.path()).unwrap_or_default(),
                )),
                TemplatePart::SortedForm if delivery.is_form() => {
                    SignedPiece::Form(Sorted::new(delivery.body.bytes()).ok_or(VerifyError::SignatureMismatch)?)
                }
                TemplatePart::SortedForm => continue,
                TemplatePart::Header(name) => {
                    SignedPiece::Bytes(Cow::Borrowed(signature::required_header(delivery, name)?))
                }
                TemplatePart::Json { optional, .. } => {
                    SignedPiece::Bytes(signature::value(found.next().unwrap_or(PointerResult::Missing), *optional)?)
                }
            };
            if let SignedPiece::Bytes(text) = &piece {
                scheme.check_part(index, part, text)?;
            }
            pieces.push(piece);
        }
        Ok(SignedText(pieces))
    }
}

impl Scheme {
    /// Checks what was sent beside the signed text. Gives the time with its window, if a timestamp was sent.
    #[inline(never)]
    pub(super) fn check_sent(
        &self,
        delivery: &Delivery<'_>,
        sent: &SentSignature<'_>,
    ) -> Result<Option<(Window, i64)>, VerifyError> {
        for (name, value) in &self.required {
            if delivery.header(name) != Header::One(value.as_bytes()) {
                return Err(VerifyError::UnsupportedScheme);
            }
        }
        let time = match (&self.timestamp, &sent.timestamp) {
            (Some(Timestamp { window, .. }), Some(text)) => {
                Some((*window, time::parse(window.unit, text).ok_or(VerifyError::MalformedHeader)?))
            }
            _ => None,
        };
        if sent.signatures.is_empty() { Err(VerifyError::NoSupportedSignature) } else { Ok(time) }
    }

    /// Checks that the signature covers the body: by the signed text, or by a hash of the body in the signed URL.
    /// Returns whether there is a hash. A hash in the URL is always compared, for any body and any content type.
    #[inline(never)]
    fn check_body(&self, delivery: &Delivery<'_>) -> Result<bool, VerifyError> {
        let form = self.template.contains(&TemplatePart::SortedForm);
        let mut hashes = url::query(delivery.url)
            .filter(|field| self.body_hash.as_ref().is_some_and(|name| form::is(field.name, name)));
        let Some(hash) = hashes.next() else {
            let covered = self.template.contains(&TemplatePart::Body) || (form && delivery.is_form());
            let needed = form || self.body_hash.is_some();
            let missing = needed && !covered && !delivery.body.is_empty();
            return if missing { Err(VerifyError::MissingBodyHash) } else { Ok(false) };
        };
        if hashes.next().is_some() {
            return Err(VerifyError::AmbiguousBodyHash);
        }
        let expected = base16ct::lower::encode_string(&crypto::body_digest(delivery.body));
        let hash: Vec<u8> = form::decoded(hash.value).collect();
        if crypto::equal(expected.as_bytes(), &hash) { Ok(true) } else { Err(VerifyError::BodyHashMismatch) }
    }
}

impl From<TimestampError> for VerifyError {
    fn from(error: TimestampError) -> Self {
        match error {
            TimestampError::Expired => Self::TimestampExpired,
            TimestampError::Future => Self::TimestampFuture,
        }
    }
}

/// The text that a signature covers.
struct SignedText<'d>(Vec<SignedPiece<'d>>);

enum SignedPiece<'d> {
    Bytes(Cow<'d, [u8]>),
    Body(&'d Body<'d>),
    /// The public URL, in the spelling that is tried
    Url,
    Form(Sorted<'d>),
}

impl SignedText<'_> {
    /// Tries every key and every spelling of the URL. Gives the URL with which a signature fits.
    #[inline(never)]
    fn verify(
        &self,
        scheme: &Scheme,
        delivery: &Delivery<'_>,
        keys: &[Cow<'_, [u8]>],
        sent: &SentSignature<'_>,
    ) -> Result<Option<Vec<u8>>, VerifyError> {
        let urls = if scheme.any_port && self.0.iter().any(|piece| matches!(piece, SignedPiece::Url)) {
            url::with_and_without_port(delivery.url)
        } else {
            vec![delivery.url.to_vec()]
        };
        let most = scheme.algorithm.most_signatures();
        let signatures: Vec<&[u8]> = sent.signatures.iter().take(most).map(AsRef::as_ref).collect();
        let mut bad_keys = 0;
        for key in keys {
            for url in &urls {
                let feed: &Feed<'_> = &|sink| self.feed(url, sink);
                match scheme.algorithm.verify(key, scheme.signature.encoding, &signatures, feed) {
                    Ok(true) => return Ok(Some(url.clone())),
                    Ok(false) => {}
                    Err(crypto::BadKey) => {
                        bad_keys += 1;
                        break;
                    }
                }
            }
        }
        if bad_keys == keys.len() { Err(VerifyError::SecretInvalid) } else { Ok(None) }
    }

    fn feed(&self, url: &[u8], sink: &mut dyn FnMut(&[u8])) {
        for piece in &self.0 {
            match piece {
                SignedPiece::Bytes(bytes) => sink(bytes),
                SignedPiece::Body(body) => body.pieces().iter().for_each(|piece| sink(piece)),
                SignedPiece::Url => sink(url),
                SignedPiece::Form(form) => form.feed(sink),
            }
        }
    }
}
