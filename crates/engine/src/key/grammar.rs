//! Key grammars. A client's key is `^[A-Za-z0-9._~\-]{1,255}$` and does not begin with `t-`; with `"charset": "visible"` it
//! may contain every visible ASCII character except the comma (docs/contract.md section 3). A signed caller's keys have a
//! prefix, and may contain a few more characters (docs/contract.md section 7).

use crate::codes::Reason;
use crate::percent::is_unreserved;
use std::borrow::Cow;

/// The longest raw key, in bytes.
pub const MAX_LENGTH: usize = 255;

/// The prefix of namespaced keys, with which no raw key may begin.
pub const RESERVED_PREFIX: &str = "t-";

/// Additional characters that a signed caller's keys may contain: `pchar` of RFC 3986 without those with a meaning in
/// lists (`,`), parameters (`;`) and escapes (`%`).
pub const EXTRA_CHARACTERS: &str = "!$&'()*+:=@";

/// What `"charset": "visible"` adds to the alphabet. A comma is not in it: proxies join header lines with commas, and Restate
/// joins service, object key, handler and idempotency key with commas to the text whose hash is the invocation's id.
const VISIBLE_CHARACTERS: &str = "!\"#$%&'()*+/:;<=>?@[\\]^`{|}";

/// The grammar of a caller's keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyGrammar {
    prefix: Cow<'static, str>,
    extra: Cow<'static, str>,
}

/// A key that fits its caller's grammar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawKey<'a>(Cow<'a, str>);

/// The reason why a key is refused. The order of the variants is the order of the checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyError {
    /// The body should hold the key and is no JSON.
    BodyNotJson,
    /// The member with the key, or one on the way to it, is there twice.
    Twice,
    /// The member with the key is no string.
    NotString,
    /// More than one line, or a list.
    Multiple,
    /// A header without a value.
    Empty,
    /// The value begins like a Structured Field string (RFC 8941), but is not one.
    Syntax,
    /// Longer than [`MAX_LENGTH`].
    Length,
    /// A byte outside the alphabet.
    Charset,
    /// Begins with [`RESERVED_PREFIX`].
    ReservedPrefix,
    /// Does not begin with the signed caller's prefix, or is only the prefix.
    CallerPrefix,
    /// Not of the format that the policy asks for.
    Format,
    /// The policy's pattern does not match.
    Pattern,
    /// The time in the key is too far ahead.
    Ahead,
    /// Older than the policy's greatest age.
    Expired,
    /// Two places hold different keys.
    Places,
    /// The namespaced key is longer than [`super::MAX_NAMESPACED_LENGTH`].
    NamespacedLength,
}

impl KeyError {
    /// The reason of a refusal.
    pub const fn reason(self) -> Reason {
        match self {
            Self::Multiple => Reason::KeyMultiple,
            Self::Empty => Reason::KeyEmpty,
            Self::Syntax | Self::CallerPrefix => Reason::KeySyntax,
            Self::Length => Reason::KeyLength,
            Self::Charset => Reason::KeyCharset,
            Self::ReservedPrefix => Reason::KeyReservedPrefix,
            Self::Format | Self::Pattern | Self::Ahead => Reason::KeyFormat,
            Self::Expired => Reason::KeyExpired,
            Self::NamespacedLength => Reason::KeyNamespacedLength,
            Self::BodyNotJson => Reason::KeyBodyNotJson,
            Self::Twice => Reason::KeyTwice,
            Self::NotString => Reason::KeyNotString,
            Self::Places => Reason::KeyPlaces,
        }
    }

    /// Whether another key would not help: the request has to be another one.
    pub(crate) const fn is_of_body(self) -> bool {
        matches!(self, Self::BodyNotJson | Self::Twice | Self::NotString | Self::Places)
    }

    /// The `detail` of the problem document: what the client has to change. For the errors of a policy's rules
    /// [`super::KeyRules::detail`] has the limits too.
    pub const fn detail(self) -> &'static str {
        match self {
            Self::BodyNotJson => {
                "The idempotency key of this operation can be in the JSON body, and the body is no JSON in UTF-8."
            }
            Self::Twice => "The JSON body has the member with the idempotency key, or one around it, more than once.",
            Self::NotString => "The member of the JSON body with the idempotency key is no string.",
            Self::Places => {
                "The request has different idempotency keys in two places. Send one of them, or the same key in both."
            }
            Self::Multiple => "More than one idempotency key was sent. Send one key, in one line and without a comma.",
            Self::Empty => "The idempotency key is empty. Send a key of 1 to 255 characters, or none.",
            Self::Syntax => {
                "The idempotency key begins with a double quote but is no Structured Field string (RFC 8941). \
                 Send the key bare, or close the quote."
            }
            Self::Length => "The idempotency key is longer than 255 characters.",
            Self::Charset => {
                "The idempotency key holds a character outside A-Z, a-z, 0-9 and . _ ~ -, such as a colon. Write - or . in its place \
                 (order-123 for order:123), or send a UUID (version 4)."
            }
            Self::ReservedPrefix => "Idempotency keys that begin with t- are reserved. Choose another key.",
            Self::CallerPrefix => {
                "The idempotency key does not begin as the keys of this signed caller do, or nothing follows."
            }
            Self::Format | Self::Pattern => "The idempotency key does not have the form of this operation's keys.",
            Self::Ahead => {
                "The time in the idempotency key is more than 5 minutes in the future. Check the clock of the program that \
                 makes the keys."
            }
            Self::Expired => "The idempotency key is too old for this operation.",
            Self::NamespacedLength => {
                "The idempotency key together with the caller's tenant, project and subject is longer than 640 bytes. \
                 Send a shorter key."
            }
        }
    }
}

impl KeyGrammar {
    /// The grammar of clients.
    pub const CLIENT: Self = Self { prefix: Cow::Borrowed(""), extra: Cow::Borrowed("") };
    /// The grammar of clients with `"charset": "visible"`.
    pub const VISIBLE: Self = Self { prefix: Cow::Borrowed(""), extra: Cow::Borrowed(VISIBLE_CHARACTERS) };

    /// The grammar of a signed caller: every key is `prefix` and at least one more character, each of the client's alphabet or of
    /// [`EXTRA_CHARACTERS`].
    ///
    /// # Errors
    /// The error of any key with this prefix.
    pub fn of_caller(prefix: &str) -> Result<Self, KeyError> {
        let grammar = Self { prefix: prefix.to_owned().into(), extra: Cow::Borrowed(EXTRA_CHARACTERS) };
        match grammar.parse(format!("{prefix}x").as_bytes()) {
            Ok(_) => Ok(grammar),
            Err(why) => Err(why),
        }
    }

    /// Checks length, alphabet and prefix, in this order.
    ///
    /// # Errors
    /// [`KeyError::Empty`], [`KeyError::Length`], [`KeyError::Charset`], [`KeyError::ReservedPrefix`] or
    /// [`KeyError::CallerPrefix`].
    pub fn parse<'k>(&self, bytes: &'k [u8]) -> Result<RawKey<'k>, KeyError> {
        self.parse_text(Cow::Borrowed(bytes))
    }

    /// As [`KeyGrammar::parse`].
    pub(crate) fn parse_text<'k>(&self, bytes: Cow<'k, [u8]>) -> Result<RawKey<'k>, KeyError> {
        match bytes.len() {
            0 => return Err(KeyError::Empty),
            length if length > MAX_LENGTH => return Err(KeyError::Length),
            _ => {}
        }
        let extra = self.extra.as_bytes();
        if !bytes.iter().all(|byte| is_key_byte(*byte) || extra.contains(byte)) {
            return Err(KeyError::Charset);
        }
        let text = match bytes {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).map_err(|_| KeyError::Charset)?,
            Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).map_err(|_| KeyError::Charset)?,
        };
        if text.starts_with(RESERVED_PREFIX) {
            return Err(KeyError::ReservedPrefix);
        }
        let has_prefix = text.strip_prefix(self.prefix.as_ref()).is_some_and(|rest| !rest.is_empty());
        if has_prefix { Ok(RawKey(text)) } else { Err(KeyError::CallerPrefix) }
    }
}

impl<'a> RawKey<'a> {
    /// A client's key ([`KeyGrammar::CLIENT`]).
    ///
    /// # Errors
    /// [`KeyError::Empty`], [`KeyError::Length`], [`KeyError::Charset`] or [`KeyError::ReservedPrefix`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, KeyError> {
        KeyGrammar::CLIENT.parse(bytes)
    }

    /// The key's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The alphabet: RFC 3986's unreserved characters.
pub(crate) const fn is_key_byte(byte: u8) -> bool {
    is_unreserved(byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_in_the_alphabet_or_refused() {
        let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._~-";
        for byte in 0..=u8::MAX {
            let key = [byte];
            let expected = if alphabet.as_bytes().contains(&byte) { Ok(()) } else { Err(KeyError::Charset) };
            assert_eq!(RawKey::parse(&key).map(|_| ()), expected, "byte {byte:#04x}");
            let expected = if matches!(byte, 0x21..=0x7e) && byte != b',' { Ok(()) } else { Err(KeyError::Charset) };
            assert_eq!(KeyGrammar::VISIBLE.parse(&key).map(|_| ()), expected, "byte {byte:#04x}");
        }
    }

    #[test]
    fn length_is_judged_before_the_alphabet_and_the_alphabet_before_the_prefix() {
        assert!(RawKey::parse(&[b'a'; 255]).is_ok());
        assert_eq!(RawKey::parse(&[b'a'; 256]), Err(KeyError::Length));
        assert_eq!(RawKey::parse(&[0xff; 256]), Err(KeyError::Length));
        assert_eq!(RawKey::parse(b"t-\xff"), Err(KeyError::Charset));
        assert_eq!(RawKey::parse(b"t-a"), Err(KeyError::ReservedPrefix));
        assert_eq!(RawKey::parse(b"t-"), Err(KeyError::ReservedPrefix));
        assert_eq!(RawKey::parse(b""), Err(KeyError::Empty));
        assert_eq!(KeyGrammar::VISIBLE.parse(b"t-a/b"), Err(KeyError::ReservedPrefix));
        for fine in ["t", "T-a", "ta", "-t-a", "8e03978e-40d5-43e8-bc93-6894a57f9324"] {
            assert_eq!(RawKey::parse(fine.as_bytes()).unwrap().as_str(), fine);
        }
    }

    #[test]
    fn a_signed_caller_s_keys_begin_as_agreed() {
        let grammar = KeyGrammar::of_caller("sched:").unwrap();
        let long = format!("sched:{}", "a".repeat(250));
        for (key, expected) in [
            ("sched:nightly:1793000000000", Ok(())),
            ("sched::", Ok(())),
            ("sched:", Err(KeyError::CallerPrefix)),
            ("SCHED:a", Err(KeyError::CallerPrefix)),
            ("a:sched:b", Err(KeyError::CallerPrefix)),
            ("t-a:b", Err(KeyError::ReservedPrefix)),
            ("sched:a/b", Err(KeyError::Charset)),
            ("", Err(KeyError::Empty)),
            (long.as_str(), Err(KeyError::Length)),
        ] {
            assert_eq!(grammar.parse(key.as_bytes()).map(|_| ()), expected, "{key}");
        }
    }

    #[test]
    fn no_grammar_lets_in_what_lists_escapes_quotes_or_namespaces_are_made_of() {
        assert!(",;%\"\\/?# \t\0".chars().all(|character| !EXTRA_CHARACTERS.contains(character)));
        for (prefix, expected) in [
            ("t-", KeyError::ReservedPrefix),
            ("t-sched:", KeyError::ReservedPrefix),
            ("sched/", KeyError::Charset),
            (&"a".repeat(255), KeyError::Length),
        ] {
            assert_eq!(KeyGrammar::of_caller(prefix), Err(expected), "{prefix}");
        }
        assert_eq!(KeyGrammar::of_caller("t").unwrap().parse(b"t-a"), Err(KeyError::ReservedPrefix));
    }
}
