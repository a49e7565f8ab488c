//! The signature algorithms. They take the signed text in pieces, so that no body is copied.

use crate::body::Body;
use base16ct::{lower, mixed};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::Hmac;
use hmac::digest::Output;
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};
use subtle::ConstantTimeEq as _;

/// A signature algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    /// HMAC (RFC 2104) with SHA-1
    HmacSha1,
    /// HMAC with SHA-256
    HmacSha256,
    /// HMAC with SHA-512
    HmacSha512,
    /// SHA-256 over the secret followed by the text: HubSpot's signatures version 1 and 2
    Sha256SecretFirst,
    /// The signature is the secret itself
    Token,
    /// Ed25519 (RFC 8032)
    Ed25519,
    /// ECDSA with P-256 and SHA-256, signatures in DER
    EcdsaP256,
}

/// The encoding of a signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SignatureEncoding {
    /// Hexadecimal digits in lower case
    Hex,
    /// Hexadecimal digits in any case
    HexAnyCase,
    /// Base64 with padding
    Base64,
}

/// Writes the signed text, piece by piece, into a function.
pub(crate) type Feed<'f> = dyn Fn(&mut dyn FnMut(&[u8])) + 'f;

/// The secret is not a valid key for the algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BadKey;

impl Algorithm {
    /// The maximum number of signatures of one delivery that are checked. Each asymmetric signature needs a
    /// computation.
    pub(super) const fn most_signatures(self) -> usize {
        match self {
            Self::Ed25519 | Self::EcdsaP256 => 4,
            _ => 16,
        }
    }

    /// Whether `candidate` has the alphabet and the length of a signature of this algorithm. A token can be any text.
    pub(super) fn is_well_formed(self, encoding: SignatureEncoding, candidate: &[u8]) -> bool {
        let bytes = match self {
            Self::Token => return true,
            Self::HmacSha1 => 20..=20,
            Self::HmacSha256 | Self::Sha256SecretFirst => 32..=32,
            Self::HmacSha512 | Self::Ed25519 => 64..=64,
            // DER: two integers of at most 33 bytes, each behind two bytes, all of it behind two bytes.
            Self::EcdsaP256 => 8..=72,
        };
        encoding.decode(&[candidate]).first().is_some_and(|signature| bytes.contains(&signature.len()))
    }

    /// Whether one of `candidates` is the signature of the text under `key`. The text is hashed once, except with
    /// Ed25519, which hashes it once for each candidate. Comparisons take constant time.
    pub(super) fn verify(
        self,
        key: &[u8],
        encoding: SignatureEncoding,
        candidates: &[&[u8]],
        text: &Feed<'_>,
    ) -> Result<bool, BadKey> {
        match self {
            Self::HmacSha1 => hmac::<Sha1Mac>(key, text).map(|tag| encoding.matches(&tag, candidates)),
            Self::HmacSha256 => hmac::<Sha256Mac>(key, text).map(|tag| encoding.matches(&tag, candidates)),
            Self::HmacSha512 => hmac::<Sha512Mac>(key, text).map(|tag| encoding.matches(&tag, candidates)),
            Self::Sha256SecretFirst => {
                let mut hash = Sha256::new_with_prefix(key);
                text(&mut |piece| hash.update(piece));
                Ok(encoding.matches(&hash.finalize(), candidates))
            }
            Self::Token => Ok(any_equals(key, candidates)),
            Self::Ed25519 => asymmetric::ed25519(key, &encoding.decode(candidates), text),
            Self::EcdsaP256 => asymmetric::p256(key, &encoding.decode(candidates), text),
        }
    }
}

type Sha1Mac = Hmac<Sha1>;
type Sha256Mac = Hmac<Sha256>;
type Sha512Mac = Hmac<Sha512>;

#[inline(never)]
fn hmac<M: hmac::Mac + hmac::digest::KeyInit>(key: &[u8], text: &Feed<'_>) -> Result<Output<M>, BadKey> {
    let mut mac = <M as hmac::Mac>::new_from_slice(key).map_err(|_| BadKey)?;
    text(&mut |piece| mac.update(piece));
    Ok(mac.finalize().into_bytes())
}

/// Compares every candidate, also after an equal one, so that the time does not show which one was equal.
#[inline(never)]
fn any_equals(expected: &[u8], candidates: &[&[u8]]) -> bool {
    candidates.iter().fold(subtle::Choice::from(0), |found, candidate| found | expected.ct_eq(candidate)).into()
}

impl SignatureEncoding {
    /// Whether one of `candidates` is the encoded `tag`. Only the canonical encoding counts: no Base64 without padding,
    /// with another alphabet or with trailing bits.
    #[inline(never)]
    fn matches(self, tag: &[u8], candidates: &[&[u8]]) -> bool {
        match self {
            Self::Base64 => any_equals(STANDARD.encode(tag).as_bytes(), candidates),
            Self::Hex => any_equals(lower::encode_string(tag).as_bytes(), candidates),
            Self::HexAnyCase => {
                let candidates: Vec<Vec<u8>> =
                    candidates.iter().map(|candidate| candidate.to_ascii_lowercase()).collect();
                let candidates: Vec<&[u8]> = candidates.iter().map(Vec::as_slice).collect();
                any_equals(lower::encode_string(tag).as_bytes(), &candidates)
            }
        }
    }

    /// The candidates that can be decoded.
    #[inline(never)]
    fn decode(self, candidates: &[&[u8]]) -> Vec<Vec<u8>> {
        let decode = |candidate: &&[u8]| match self {
            Self::Base64 => STANDARD.decode(candidate).ok(),
            Self::Hex => lower::decode_vec(candidate).ok(),
            Self::HexAnyCase => mixed::decode_vec(candidate).ok(),
        };
        candidates.iter().filter_map(decode).collect()
    }
}

/// SHA-256 of a text.
pub(super) fn sha_256(text: &[u8]) -> [u8; 32] {
    Sha256::digest(text).into()
}

/// SHA-256 of a body. A key can be bound to it.
pub fn body_digest(body: &Body<'_>) -> [u8; 32] {
    let mut hash = Sha256::new();
    body.pieces().iter().for_each(|piece| hash.update(piece));
    hash.finalize().into()
}

/// HMAC (RFC 2104) with SHA-256 over the text that `text` writes.
pub(crate) fn hmac_sha_256(key: &[u8], text: &Feed<'_>) -> Option<[u8; 32]> {
    hmac::<Sha256Mac>(key, text).ok().map(Into::into)
}

/// Whether two texts are equal, in constant time.
pub(crate) fn equal(expected: &[u8], text: &[u8]) -> bool {
    any_equals(expected, &[text])
}

mod asymmetric {
    use super::{BadKey, Feed};
    use ed25519_dalek::VerifyingKey;
    use p256::ecdsa::signature::hazmat::PrehashVerifier as _;
    use sha2::{Digest as _, Sha256};

    #[inline(never)]
    pub(super) fn ed25519(key: &[u8], candidates: &[Vec<u8>], text: &Feed<'_>) -> Result<bool, BadKey> {
        let key = VerifyingKey::try_from(key).map_err(|_| BadKey)?;
        // With a key of small order, some signatures fit every text.
        if key.is_weak() {
            return Ok(false);
        }
        let verifies = |candidate: &Vec<u8>| {
            let signature = ed25519_dalek::Signature::from_slice(candidate).ok()?;
            let mut verifier = key.verify_stream(&signature).ok()?;
            text(&mut |piece| verifier.update(piece));
            verifier.finalize_and_verify().ok()
        };
        Ok(candidates.iter().any(|candidate| verifies(candidate).is_some()))
    }

    #[inline(never)]
    pub(super) fn p256(key: &[u8], candidates: &[Vec<u8>], text: &Feed<'_>) -> Result<bool, BadKey> {
        let key = p256::ecdsa::VerifyingKey::from_sec1_bytes(key).map_err(|_| BadKey)?;
        let mut hash = Sha256::new();
        text(&mut |piece| hash.update(piece));
        let hash = hash.finalize();
        let verifies = |candidate: &Vec<u8>| {
            from_der(candidate).is_some_and(|signature| key.verify_prehash(&hash, &signature).is_ok())
        };
        Ok(candidates.iter().any(verifies))
    }

    /// A signature in DER (RFC 3279 section 2.2.3): a sequence of two integers. It accepts what `Signature::from_der` accepts, which
    /// brings a reader for all of ASN.1 into the module.
    pub(super) fn from_der(der: &[u8]) -> Option<p256::ecdsa::Signature> {
        let [0x30, length, integers @ ..] = der else { return None };
        let (r, rest) = integer(integers)?;
        let (s, rest) = integer(rest)?;
        let is_whole = usize::from(*length) == integers.len() && rest.is_empty();
        p256::ecdsa::Signature::from_scalars(r, s).ok().filter(|_| is_whole)
    }

    /// The integer that the text begins with, and what follows it. It is positive, and has no byte too many.
    fn integer(der: &[u8]) -> Option<([u8; 32], &[u8])> {
        let [0x02, length, rest @ ..] = der else { return None };
        let (value, rest) = rest.split_at_checked(usize::from(*length))?;
        let digits = match value {
            [0, digits @ ..] if digits.first().is_some_and(|first| *first >= 0x80) => digits,
            [1..0x80, ..] => value,
            _ => return None,
        };
        let mut scalar = [0; 32];
        let start = scalar.len().checked_sub(digits.len())?;
        scalar.get_mut(start..)?.copy_from_slice(digits);
        Some((scalar, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verify(algorithm: Algorithm, encoding: SignatureEncoding, candidates: &[&str]) -> bool {
        let candidates: Vec<&[u8]> = candidates.iter().map(|text| text.as_bytes()).collect();
        algorithm
            .verify(b"key", encoding, &candidates, &|sink| {
                sink(b"The quick brown fox ");
                sink(b"");
                sink(b"jumps over the lazy dog");
            })
            .unwrap()
    }

    #[test]
    fn signatures_in_der_are_read_as_the_library_reads_them() {
        let scalar = |first: u8, length: usize| {
            let mut scalar = [0; 32];
            scalar[32 - length..].fill(0x7a);
            scalar[32 - length] = first;
            scalar
        };
        let read = std::cell::Cell::new(0);
        let check = |der: &[u8]| {
            let expected = p256::ecdsa::Signature::from_der(der).ok();
            read.set(read.get() + usize::from(expected.is_some()));
            assert_eq!(asymmetric::from_der(der), expected, "{der:02x?}");
        };
        for (r, s) in
            [(scalar(1, 32), scalar(0x80, 32)), (scalar(0xff, 31), scalar(1, 1)), (scalar(0x80, 1), scalar(0x7f, 32))]
        {
            let der = p256::ecdsa::Signature::from_scalars(r, s).unwrap().to_der();
            let der = der.as_bytes();
            check(der);
            for place in 0..der.len() {
                for byte in 0..=255 {
                    let mut changed = der.to_vec();
                    changed[place] = byte;
                    check(&changed);
                    changed.insert(place, byte);
                    check(&changed);
                    changed[1] = changed[1].wrapping_add(1);
                    check(&changed);
                }
                check(&der[..place]);
                check(&[&der[..place], &der[place + 1..]].concat());
            }
            for long in [[0x81, der[1]].as_slice(), &[0x82, 0, der[1]], &[0x80]] {
                check(&[&der[..1], long, &der[2..]].concat());
            }
        }
        assert!(read.get() > 10_000, "{}", read.get());
        // The order of the curve, zero, and 33 bytes.
        for der in [
            "3026022100ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551020101".to_owned(),
            "3006020100020101".to_owned(),
            format!("30260221{}020101", "01".repeat(33)),
        ] {
            check(&base16ct::lower::decode_vec(der).unwrap());
        }
    }

    #[test]
    fn well_known_digests() {
        for (algorithm, tag) in [
            (Algorithm::HmacSha1, "de7c9b85b8b78aa6bc8a7a36f70a90701c9db4d9"),
            (Algorithm::HmacSha256, "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8"),
            (
                Algorithm::HmacSha512,
                "b42af09057bac1e2d41708e48a902e09b5ff7f12ab428a4fe86653c73dd248fb\
                 82f948a549f7b791a5b41915ee4d1ec3935357e4e2317250d0372afa2ebeeb3a",
            ),
        ] {
            assert!(verify(algorithm, SignatureEncoding::Hex, &[tag]), "{algorithm:?}");
            assert!(verify(algorithm, SignatureEncoding::Hex, &["", "00", tag]), "{algorithm:?}");
            assert!(!verify(algorithm, SignatureEncoding::Hex, &[&tag.to_ascii_uppercase()]), "{algorithm:?}");
            assert!(verify(algorithm, SignatureEncoding::HexAnyCase, &[&tag.to_ascii_uppercase()]), "{algorithm:?}");
            assert!(!verify(algorithm, SignatureEncoding::Base64, &[tag]), "{algorithm:?}");
            assert!(!verify(algorithm, SignatureEncoding::Hex, &[]), "{algorithm:?}");
        }
        let base64 = "97yD9DBThCSxMpjmqm+xQ+9NWaFJRhdZl0edvC0aPNg=";
        assert!(verify(Algorithm::HmacSha256, SignatureEncoding::Base64, &[base64]));
        // The same bytes, written in other ways.
        for other in [
            "97yD9DBThCSxMpjmqm+xQ+9NWaFJRhdZl0edvC0aPNg",
            "97yD9DBThCSxMpjmqm-xQ-9NWaFJRhdZl0edvC0aPNg=",
            "97yD9DBThCSxMpjmqm+xQ+9NWaFJRhdZl0edvC0aPNh=",
            " 97yD9DBThCSxMpjmqm+xQ+9NWaFJRhdZl0edvC0aPNg=",
        ] {
            assert!(!verify(Algorithm::HmacSha256, SignatureEncoding::Base64, &[other]), "{other}");
        }
    }

    #[test]
    fn the_text_is_hashed_once_for_all_signatures() {
        let passes = |algorithm: Algorithm, key: &[u8], candidate: &[u8]| {
            let count = std::cell::Cell::new(0);
            let text: &Feed<'_> = &|_| count.set(count.get() + 1);
            assert_eq!(
                algorithm.verify(key, SignatureEncoding::Base64, &[candidate; 3], text),
                Ok(false),
                "{algorithm:?}"
            );
            count.get()
        };
        assert_eq!(passes(Algorithm::HmacSha256, b"key", b"AAAA"), 1);
        assert_eq!(passes(Algorithm::Token, b"key", b"AAAA"), 0);
        let base_point = base16ct::mixed::decode_vec(
            b"046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296\
              4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5",
        );
        assert_eq!(passes(Algorithm::EcdsaP256, &base_point.unwrap(), b"MAYCAQECAQE="), 1);
        // Ed25519 hashes the signature together with the text.
        let base_point =
            base16ct::mixed::decode_vec(b"5866666666666666666666666666666666666666666666666666666666666666");
        let zeros = STANDARD.encode([0; 64]);
        assert_eq!(passes(Algorithm::Ed25519, &base_point.unwrap(), zeros.as_bytes()), 3);
    }

    #[test]
    fn keys_of_small_order_verify_nothing() {
        let (key, zeros) = ([0; 32], STANDARD.encode([0; 64]));
        let verified = Algorithm::Ed25519.verify(&key, SignatureEncoding::Base64, &[zeros.as_bytes()], &|_| {});
        assert_eq!(verified, Ok(false));
        for key in [[2; 31].as_slice(), &[0xff; 33], &[4; 65]] {
            assert_eq!(Algorithm::Ed25519.verify(key, SignatureEncoding::Base64, &[], &|_| {}), Err(BadKey));
            assert_eq!(Algorithm::EcdsaP256.verify(key, SignatureEncoding::Base64, &[], &|_| {}), Err(BadKey));
        }
    }

    #[test]
    fn tokens_are_the_secret() {
        assert!(verify(Algorithm::Token, SignatureEncoding::Hex, &["kex", "key"]));
        for other in ["", "ke", "keys", "Key"] {
            assert!(!verify(Algorithm::Token, SignatureEncoding::Hex, &[other]), "{other}");
        }
    }
}
