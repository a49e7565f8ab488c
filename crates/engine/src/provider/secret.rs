//! Decodes the text of a secret into the bytes of a key.
//!
//! A prefix gives a secret a type: a secret with the prefix of some scheme of the provider is only for schemes with
//! this prefix. So a public key (`whpk_…`) is never used as the secret of an HMAC, which everybody would know.

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::borrow::Cow;

/// Dashboards show keys with and without padding, and some keys have trailing bits.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// The encoding of a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum SecretEncoding {
    /// The text is the key.
    #[default]
    Raw,
    /// Base64
    Base64,
    /// Base64; a text without the prefix that is not Base64 is the key itself.
    Base64OrRaw,
    /// Hexadecimal
    Hex,
    /// Base64 of a DER SubjectPublicKeyInfo (RFC 5280), without line breaks
    Spki,
}

/// The form of a scheme's secrets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SecretForm {
    pub(super) encoding: SecretEncoding,
    /// Removed before decoding
    pub(super) prefix: Option<String>,
    /// Secrets without the prefix are for other schemes
    pub(super) prefix_required: bool,
    /// How every secret begins; a part of the key
    pub(super) begins: Vec<String>,
}

/// How a secret fits a scheme.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fit<'s> {
    /// A key
    Key(Cow<'s, [u8]>),
    /// For this scheme, but empty or not decodable
    Unusable,
    /// For another scheme
    Other,
}

impl SecretForm {
    /// Decodes `secret`. `prefixes` are the prefixes of all schemes of the provider.
    pub(super) fn fit<'s, 'p>(&self, secret: &'s [u8], mut prefixes: impl Iterator<Item = &'p str>) -> Fit<'s> {
        let own = self.prefix.as_deref().and_then(|prefix| secret.strip_prefix(prefix.as_bytes()));
        let text = match own {
            Some(rest) => rest,
            None if self.prefix_required || prefixes.any(|prefix| secret.starts_with(prefix.as_bytes())) => {
                return Fit::Other;
            }
            None => secret,
        };
        let key = match self.encoding {
            SecretEncoding::Raw => Some(Cow::Borrowed(text)),
            SecretEncoding::Base64 => LENIENT.decode(text).ok().map(Cow::Owned),
            SecretEncoding::Base64OrRaw => match LENIENT.decode(text) {
                Ok(key) => Some(Cow::Owned(key)),
                Err(_) => own.is_none().then_some(Cow::Borrowed(text)),
            },
            SecretEncoding::Hex => base16ct::mixed::decode_vec(text).ok().map(Cow::Owned),
            SecretEncoding::Spki => LENIENT.decode(text).ok().and_then(|der| public_key(&der)).map(Cow::Owned),
        };
        match key {
            Some(key) if !key.is_empty() => Fit::Key(key),
            _ => Fit::Unusable,
        }
    }
}

/// The key in a SubjectPublicKeyInfo: an uncompressed P-256 point, or an Ed25519 key. Both have one encoding only.
fn public_key(der: &[u8]) -> Option<Vec<u8>> {
    const P256: &[u8] =
        b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00";
    const ED25519: &[u8] = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";
    let of = |header: &[u8], length| der.strip_prefix(header).filter(|key| key.len() == length).map(<[u8]>::to_vec);
    of(P256, 65).or_else(|| of(ED25519, 32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(encoding: SecretEncoding, prefix: Option<&str>, prefix_required: bool) -> SecretForm {
        SecretForm { encoding, prefix: prefix.map(str::to_owned), prefix_required, begins: Vec::new() }
    }

    fn fit(form: &SecretForm, secret: &str) -> Option<Vec<u8>> {
        match form.fit(secret.as_bytes(), ["whsec_", "whpk_"].into_iter()) {
            Fit::Key(key) => Some(key.into_owned()),
            Fit::Unusable => None,
            Fit::Other => Some(b"other".to_vec()),
        }
    }

    #[test]
    fn secrets_are_decoded_as_their_form_says() {
        let base64 = form(SecretEncoding::Base64, Some("whsec_"), false);
        let either = form(SecretEncoding::Base64OrRaw, Some("whsec_"), false);
        let required = form(SecretEncoding::Base64, Some("whpk_"), true);
        let raw = form(SecretEncoding::Raw, None, false);
        for (form, secret, expected) in [
            (&base64, "whsec_YWJj", Some("abc")),
            (&base64, "YWJj", Some("abc")),
            (&base64, "whsec_YQ==", Some("a")),
            (&base64, "whsec_YQ", Some("a")),
            (&base64, "whsec_YR", Some("a")),
            (&base64, "whsec_!!!!", None),
            (&base64, "whsec_", None),
            (&base64, "", None),
            (&base64, "my secret", None),
            (&base64, "whpk_YWJj", Some("other")),
            (&either, "my secret", Some("my secret")),
            (&either, "YWJj", Some("abc")),
            (&either, "whsec_!!!!", None),
            (&either, "whpk_!!!!", Some("other")),
            (&either, "", None),
            (&required, "whpk_YWJj", Some("abc")),
            (&required, "YWJj", Some("other")),
            (&required, "whsec_YWJj", Some("other")),
            (&raw, "abc\n", Some("abc\n")),
            (&raw, "whsec_YWJj", Some("other")),
            (&raw, "", None),
            (&form(SecretEncoding::Hex, None, false), "616263", Some("abc")),
            (&form(SecretEncoding::Hex, None, false), "6A6b", Some("jk")),
            (&form(SecretEncoding::Hex, None, false), "616", None),
            (&form(SecretEncoding::Hex, None, false), "61 6", None),
        ] {
            assert_eq!(fit(form, secret).as_deref(), expected.map(str::as_bytes), "{form:?} {secret}");
        }
    }
}
