//! The client key's grammar: `^[A-Za-z0-9._~\-]{1,255}$`, not starting with `t-` (DESIGN section 3).

use std::fmt;

/// The longest raw key, in bytes.
pub const MAX_LENGTH: usize = 255;

/// Namespaced keys begin so; a client's key may not.
pub const RESERVED_PREFIX: &str = "t-";

/// A client's key that fits the grammar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RawKey<'a>(&'a str);

/// Why a key is refused; the order of the variants is the order in which the reasons are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invalid {
    /// More than one line, or a list.
    Multiple,
    /// A header without a value.
    Empty,
    /// Begins as a Structured Field string (RFC 8941) and is none.
    Syntax,
    /// Longer than [`MAX_LENGTH`].
    Length,
    /// A byte outside the alphabet.
    Charset,
    /// Begins with [`RESERVED_PREFIX`].
    ReservedPrefix,
    /// With its namespace longer than [`super::MAX_NAMESPACED_LENGTH`].
    NamespacedLength,
}

impl Invalid {
    /// The reason as problem documents, metrics and logs name it.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Multiple => "multiple",
            Self::Empty => "empty",
            Self::Syntax => "syntax",
            Self::Length => "length",
            Self::Charset => "charset",
            Self::ReservedPrefix => "reserved_prefix",
            Self::NamespacedLength => "namespaced_length",
        }
    }

    /// What to change, for the person who reads the problem document.
    pub const fn detail(self) -> &'static str {
        match self {
            Self::Multiple => {
                "More than one idempotency key was sent. Send exactly one Idempotency-Key header with one key and no comma."
            }
            Self::Empty => {
                "The Idempotency-Key header is empty. Send a key of 1 to 255 characters, or leave the header out."
            }
            Self::Syntax => {
                "The Idempotency-Key header begins with a double quote but is no Structured Field string (RFC 8941). \
                 Send the key bare, or close the quote."
            }
            Self::Length => "The idempotency key is longer than 255 characters.",
            Self::Charset => {
                "The idempotency key holds a character outside A-Z, a-z, 0-9 and . _ ~ -. A UUID (version 4) always fits."
            }
            Self::ReservedPrefix => "Idempotency keys that begin with t- are reserved. Choose another key.",
            Self::NamespacedLength => {
                "The idempotency key together with the caller's tenant, project and subject is longer than 640 bytes. \
                 Send a shorter key."
            }
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for Invalid {}

impl<'a> RawKey<'a> {
    /// Checks length, alphabet and prefix, in this order.
    ///
    /// # Errors
    /// [`Invalid::Empty`], [`Invalid::Length`], [`Invalid::Charset`] or [`Invalid::ReservedPrefix`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Invalid> {
        if bytes.is_empty() {
            return Err(Invalid::Empty);
        }
        if bytes.len() > MAX_LENGTH {
            return Err(Invalid::Length);
        }
        if !bytes.iter().copied().all(is_key_byte) {
            return Err(Invalid::Charset);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| Invalid::Charset)?;
        if text.starts_with(RESERVED_PREFIX) {
            return Err(Invalid::ReservedPrefix);
        }
        Ok(Self(text))
    }

    /// The key's text.
    pub const fn as_str(self) -> &'a str {
        self.0
    }
}

/// The alphabet: RFC 3986's unreserved characters.
pub(crate) const fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'~' | b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_in_the_alphabet_or_refused() {
        let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~-";
        for byte in 0..=u8::MAX {
            let key = [byte];
            let expected = if alphabet.as_bytes().contains(&byte) { Ok(()) } else { Err(Invalid::Charset) };
            assert_eq!(RawKey::parse(&key).map(|_| ()), expected, "byte {byte:#04x}");
        }
    }

    #[test]
    fn length_is_judged_before_the_alphabet_and_the_alphabet_before_the_prefix() {
        assert!(RawKey::parse(&[b'a'; 255]).is_ok());
        assert_eq!(RawKey::parse(&[b'a'; 256]), Err(Invalid::Length));
        assert_eq!(RawKey::parse(&[0xff; 256]), Err(Invalid::Length));
        assert_eq!(RawKey::parse(b"t-\xff"), Err(Invalid::Charset));
        assert_eq!(RawKey::parse(b"t-a"), Err(Invalid::ReservedPrefix));
        assert_eq!(RawKey::parse(b"t-"), Err(Invalid::ReservedPrefix));
        assert_eq!(RawKey::parse(b""), Err(Invalid::Empty));
        for fine in ["t", "T-a", "ta", "-t-a", "8e03978e-40d5-43e8-bc93-6894a57f9324"] {
            assert_eq!(RawKey::parse(fine.as_bytes()).map(RawKey::as_str), Ok(fine));
        }
    }
}
