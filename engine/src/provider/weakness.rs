//! Finds weak secrets, for the command that checks a policy. The filter does not use it.

use super::Provider;
use super::crypto::Algorithm;
use std::fmt;

/// The minimum length of an HMAC key or a token, in bytes. RFC 2104 (section 3) recommends the length of the hash's
/// output, 20 bytes and more, but some providers' secrets are shorter. Below 128 bits, someone who has seen one
/// delivery may find the key by trying.
const SHORT: usize = 16;

/// The weakness of a secret, without its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weakness {
    /// It is not a key: it has another form than the provider's secrets, or is empty
    Unusable,
    /// It is a key of this many bytes
    Short(usize),
}

impl fmt::Display for Weakness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unusable => f.write_str("the secret does not have the form of this provider's: it verifies nothing"),
            Self::Short(length) => write!(
                f,
                "the secret makes a key of {length} byte{}, fewer than {SHORT}: whoever has seen one delivery may find it \
                 by trying",
                if *length == 1 { "" } else { "s" }
            ),
        }
    }
}

impl Provider {
    /// The weakness of a secret of this provider, if it has one.
    pub fn weakness(&self, secret: &[u8]) -> Option<Weakness> {
        let mut lengths = Vec::new();
        for scheme in &self.schemes {
            for key in self.keys(scheme, &[secret]).unwrap_or_default() {
                // Without candidates, this only checks that the key is valid.
                if scheme.algorithm.verify(&key, scheme.signature.encoding, &[], &|_| {}).is_ok() {
                    let public = matches!(scheme.algorithm, Algorithm::Ed25519 | Algorithm::EcdsaP256);
                    lengths.push(if public { SHORT } else { key.len() });
                }
            }
        }
        match lengths.into_iter().min() {
            None => Some(Weakness::Unusable),
            Some(length) => (length < SHORT).then_some(Weakness::Short(length)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provider::Catalogue;

    #[test]
    fn keys_are_measured_as_they_are_used() {
        let weakness = |provider: &str, secret: &str| {
            Catalogue::compiled_in().provider(provider).unwrap().weakness(secret.as_bytes())
        };
        assert_eq!(weakness("github", "0123456789abcdef"), None);
        assert_eq!(weakness("github", "0123456789abcde"), Some(Weakness::Short(15)));
        assert_eq!(weakness("github", "x"), Some(Weakness::Short(1)));
        assert_eq!(weakness("github", ""), Some(Weakness::Unusable));
        // Base64 of 15 and of 16 bytes.
        assert_eq!(weakness("standard_webhooks", "whsec_MDEyMzQ1Njc4OWFiY2Rl"), Some(Weakness::Short(15)));
        assert_eq!(weakness("standard_webhooks", "whsec_MDEyMzQ1Njc4OWFiY2RlZg=="), None);
        assert_eq!(weakness("standard_webhooks", "whsec_!"), Some(Weakness::Unusable));
        assert_eq!(weakness("standard_webhooks", "whpk_MDEyMzQ1Njc4OWFiY2Rl"), Some(Weakness::Unusable));
        assert_eq!(weakness("standard_webhooks", "whpk_WGZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmZmY="), None);
        assert_eq!(weakness("discord", "not hexadecimal"), Some(Weakness::Unusable));
        assert!(!format!("{} {}", Weakness::Short(3), Weakness::Unusable).is_empty());
    }
}
