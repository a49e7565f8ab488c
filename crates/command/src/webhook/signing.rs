//! Keys and signatures, in the forms of provider files: the inverse of what the engine verifies.

use super::provider::{SchemeFile, SecretFile};
use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ed25519_dalek::Signer as _;
use ed25519_dalek::pkcs8::DecodePrivateKey as _;
use hmac::{Hmac, Mac};
use sha1::Sha1;
use sha2::{Digest as _, Sha256, Sha512};

/// Secrets are copied with and without padding.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// What signs a delivery.
pub(super) enum SigningKey {
    /// The decoded secret of an HMAC, a digest or a token
    Shared(Vec<u8>),
    Ed25519(Box<ed25519_dalek::SigningKey>),
    P256(Box<p256::ecdsa::SigningKey>),
}

impl SigningKey {
    /// The key of a scheme. `secret` is what the gateway verifies with, or for signatures with a public key the private key
    /// as PEM (PKCS #8).
    ///
    /// # Errors
    /// The secret has another form. It is not repeated.
    pub(super) fn read(scheme: &SchemeFile, secret: &[u8]) -> Result<Self, String> {
        let pem = || std::str::from_utf8(secret).map_err(|_| "the private key is not PEM".to_owned());
        let wrong = |kind: &str| {
            format!(
                "this provider signs with a private key: expected one of {kind} as PEM (`-----BEGIN PRIVATE KEY-----`)"
            )
        };
        match scheme.algorithm.as_str() {
            "ed25519" => ed25519_dalek::SigningKey::from_pkcs8_pem(pem()?)
                .map(|key| Self::Ed25519(Box::new(key)))
                .map_err(|_| wrong("Ed25519")),
            "ecdsa-p256" => p256::ecdsa::SigningKey::from_pkcs8_pem(pem()?)
                .map(|key| Self::P256(Box::new(key)))
                .map_err(|_| wrong("P-256")),
            _ => Ok(Self::Shared(decoded(&scheme.secret, secret)?)),
        }
    }

    /// A new key pair for a scheme that signs with one; `None` for other schemes.
    pub(super) fn generate(scheme: &SchemeFile) -> Result<Option<Self>, String> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| format!("no random bytes: {error}"))?;
        Ok(match scheme.algorithm.as_str() {
            "ed25519" => Some(Self::Ed25519(Box::new(ed25519_dalek::SigningKey::from_bytes(&bytes)))),
            "ecdsa-p256" => {
                let key = p256::ecdsa::SigningKey::from_slice(&bytes)
                    .map_err(|_| "the random bytes make no key: run the command again")?;
                Some(Self::P256(Box::new(key)))
            }
            _ => None,
        })
    }

    /// The public half in the form in which the gateway has it; `None` for a shared secret.
    pub(super) fn public(&self, form: &SecretFile) -> Option<String> {
        // The headers of SubjectPublicKeyInfo (RFC 5480 and RFC 8410).
        const P256: &[u8] =
            b"\x30\x59\x30\x13\x06\x07\x2a\x86\x48\xce\x3d\x02\x01\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07\x03\x42\x00";
        const ED25519: &[u8] = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";
        let (header, key) = match self {
            Self::Shared(_) => return None,
            Self::Ed25519(key) => (ED25519, key.verifying_key().to_bytes().to_vec()),
            Self::P256(key) => (P256, key.verifying_key().to_encoded_point(false).as_bytes().to_vec()),
        };
        let text = match form.encoding.as_deref() {
            Some("hex") => base16ct::lower::encode_string(&key),
            Some("spki") => STANDARD.encode([header, &key].concat()),
            _ => STANDARD.encode(key),
        };
        Some(format!("{}{text}", form.prefix.as_deref().unwrap_or_default()))
    }

    /// The signature of a text, encoded as the scheme says. A token is the secret itself.
    pub(super) fn sign(&self, scheme: &SchemeFile, text: &[u8]) -> Result<Vec<u8>, String> {
        let bytes = match (self, scheme.algorithm.as_str()) {
            (Self::Shared(key), "token") => return Ok(key.clone()),
            (Self::Shared(key), "hmac-sha1") => hmac::<Hmac<Sha1>>(key, text)?,
            (Self::Shared(key), "hmac-sha256") => hmac::<Hmac<Sha256>>(key, text)?,
            (Self::Shared(key), "hmac-sha512") => hmac::<Hmac<Sha512>>(key, text)?,
            (Self::Shared(key), "sha256-secret-first") => {
                Sha256::new().chain_update(key).chain_update(text).finalize().to_vec()
            }
            (Self::Ed25519(key), _) => key.sign(text).to_bytes().to_vec(),
            (Self::P256(key), _) => {
                let signature: p256::ecdsa::Signature = p256::ecdsa::signature::Signer::sign(key.as_ref(), text);
                signature.to_der().as_bytes().to_vec()
            }
            (Self::Shared(_), other) => return Err(format!("the algorithm {other} is not known here")),
        };
        let encoded = match scheme.signature.encoding.as_deref() {
            Some("base64") => STANDARD.encode(bytes),
            _ => base16ct::lower::encode_string(&bytes),
        };
        Ok(encoded.into_bytes())
    }
}

fn hmac<M: Mac + hmac::digest::KeyInit>(key: &[u8], text: &[u8]) -> Result<Vec<u8>, String> {
    let mut mac = <M as Mac>::new_from_slice(key).map_err(|_| "the secret is no key of this algorithm")?;
    mac.update(text);
    Ok(mac.finalize().into_bytes().to_vec())
}

/// Whether a secret is one of this scheme, by its prefix. `prefixes` are those of all schemes of the provider.
pub(super) fn fits<'p>(form: &SecretFile, secret: &[u8], mut prefixes: impl Iterator<Item = &'p str>) -> bool {
    match &form.prefix {
        Some(prefix) if secret.starts_with(prefix.as_bytes()) => true,
        _ => !form.prefix_required && !prefixes.any(|prefix| secret.starts_with(prefix.as_bytes())),
    }
}

/// The key in a secret.
fn decoded(form: &SecretFile, secret: &[u8]) -> Result<Vec<u8>, String> {
    let own = form.prefix.as_deref().and_then(|prefix| secret.strip_prefix(prefix.as_bytes()));
    let text = own.unwrap_or(secret);
    let key = match form.encoding.as_deref() {
        Some("base64") => LENIENT.decode(text).map_err(|_| "the secret is not Base64"),
        Some("base64_or_raw") => match LENIENT.decode(text) {
            Err(_) if own.is_some() => Err("the secret is not Base64 after its prefix"),
            decoded => Ok(decoded.unwrap_or_else(|_| text.to_vec())),
        },
        Some("hex") => base16ct::mixed::decode_vec(text).map_err(|_| "the secret is not hexadecimal"),
        _ => Ok(text.to_vec()),
    };
    key.map_err(str::to_owned)
}
