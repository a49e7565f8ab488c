//! Reads the `Idempotency-Key` header, in the bare form (`abc`) and as the Structured Field string of the IETF draft
//! (`"abc"`, draft-ietf-httpapi-idempotency-key-header section 2.1, RFC 8941 section 3.3.3). Both mean the same key.

use super::grammar::{KeyError, KeyGrammar, RESERVED_PREFIX, RawKey};
use std::borrow::Cow;

/// The form of the key in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeySyntax {
    /// `abc`
    Bare,
    /// `"abc"`, with or without parameters
    Quoted,
    /// More than one line, or several values in one line
    Repeated,
}

impl KeySyntax {
    /// The form as metrics name it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::Quoted => "structured",
            Self::Repeated => "repeated",
        }
    }

    /// A key in this form, as the value of a header.
    pub(crate) fn write(self, key: &str) -> String {
        match self {
            Self::Quoted => ["\"", &key.replace('\\', "\\\\").replace('"', "\\\""), "\""].concat(),
            Self::Bare | Self::Repeated => key.to_owned(),
        }
    }

    /// The form of what a client sent, valid or not; `None` if there is no line.
    pub fn of<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Option<Self> {
        let mut lines = lines.into_iter();
        let line = lines.next()?;
        Some(Self::of_line(line, lines.next().is_some()))
    }

    /// The form of the first line; `is_repeated`: there are more.
    fn of_line(line: &[u8], is_repeated: bool) -> Self {
        if is_repeated || has_comma_outside_quotes(line) {
            Self::Repeated
        } else if trim(line).starts_with(b"\"") {
            Self::Quoted
        } else {
            Self::Bare
        }
    }
}

/// Whether a value of the header is this key, in either form without escapes.
pub(crate) fn is_sent_key(value: &[u8], key: &str) -> bool {
    let value = trim(value);
    let unquoted = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    unquoted.unwrap_or(value) == key.as_bytes()
}

/// Reads a client's key from the values of all `Idempotency-Key` lines of a request; `None` if there is no line.
///
/// # Errors
/// The first [`KeyError`] that applies; never [`KeyError::NamespacedLength`].
pub fn read<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Result<Option<(RawKey<'a>, KeySyntax)>, KeyError> {
    read_as(&KeyGrammar::CLIENT, lines)
}

/// As [`read`], for keys of another grammar.
///
/// # Errors
/// Those of [`read`].
pub fn read_as<'a>(
    grammar: &KeyGrammar,
    lines: impl IntoIterator<Item = &'a [u8]>,
) -> Result<Option<(RawKey<'a>, KeySyntax)>, KeyError> {
    let mut lines = lines.into_iter();
    let Some(line) = lines.next() else { return Ok(None) };
    let syntax = KeySyntax::of_line(line, lines.next().is_some());
    read_line(grammar, line, syntax).map(|key| Some((key, syntax)))
}

/// As [`read_as`], for the first line and the form of what was sent.
pub(crate) fn read_line<'a>(grammar: &KeyGrammar, line: &'a [u8], syntax: KeySyntax) -> Result<RawKey<'a>, KeyError> {
    let value = trim(line);
    match (syntax, value.strip_prefix(b"\"")) {
        (KeySyntax::Repeated, _) => Err(KeyError::Multiple),
        (_, Some(rest)) => {
            let string = Quoted::parse(rest).ok_or(KeyError::Syntax)?;
            skip_parameters(string.rest).ok_or(KeyError::Syntax)?;
            grammar.parse_text(string.text())
        }
        (_, None) => grammar.parse_text(Cow::Borrowed(value)),
    }
}

/// Whether a backend may read a namespaced key in this header value.
pub(crate) fn is_forged(line: &[u8]) -> bool {
    unwrapped(line).starts_with(RESERVED_PREFIX.as_bytes())
}

/// Removes all whitespace and quotes from the beginning of a header value, for the check in shadow mode
/// (docs/contract.md section 2). The check holds for a backend that removes any number of quotes.
fn unwrapped(mut line: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'"', rest @ ..] = line {
        line = rest;
    }
    line
}

fn trim(mut value: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = value {
        value = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = value {
        value = rest;
    }
    value
}

/// Whether proxies may have joined the value of several lines: a comma, unless it stands in a Structured Field string. A value
/// that does not begin with a quote has no such string.
fn has_comma_outside_quotes(value: &[u8]) -> bool {
    if !value.contains(&b',') {
        return false;
    }
    if !trim(value).starts_with(b"\"") {
        return true;
    }
    let (mut quoted, mut escaped) = (false, false);
    for byte in value {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => return true,
            _ => {}
        }
    }
    false
}

/// A Structured Field string after its opening quote (RFC 8941 section 4.2.5).
struct Quoted<'a> {
    /// The text between the quotes, with its escapes.
    content: &'a [u8],
    has_escapes: bool,
    rest: &'a [u8],
}

impl<'a> Quoted<'a> {
    fn parse(input: &'a [u8]) -> Option<Self> {
        let (mut has_escapes, mut escaped) = (false, false);
        for (at, byte) in input.iter().enumerate() {
            match byte {
                b'"' | b'\\' if escaped => escaped = false,
                _ if escaped => return None,
                b'\\' => (has_escapes, escaped) = (true, true),
                b'"' => {
                    let (content, rest) = input.split_at_checked(at)?;
                    return Some(Self { content, has_escapes, rest: rest.get(1..)? });
                }
                0x20..=0x7e => {}
                _ => return None,
            }
        }
        None
    }
}

impl<'a> Quoted<'a> {
    /// The text that the string stands for: `\"` is a quote and `\\` a backslash.
    fn text(&self) -> Cow<'a, [u8]> {
        if !self.has_escapes {
            return Cow::Borrowed(self.content);
        }
        let mut escaped = false;
        let is_text = |byte: &&u8| {
            escaped = **byte == b'\\' && !escaped;
            !escaped
        };
        Cow::Owned(self.content.iter().filter(is_text).copied().collect())
    }
}

/// Skips `*( ";" *SP key [ "=" bare-item ] )` (RFC 8941 section 4.2.3.2); `None` if something else follows.
fn skip_parameters(mut input: &[u8]) -> Option<()> {
    while !input.is_empty() {
        input = input.strip_prefix(b";")?;
        while let [b' ', rest @ ..] = input {
            input = rest;
        }
        let (first, rest) = input.split_first()?;
        if !(first.is_ascii_lowercase() || *first == b'*') {
            return None;
        }
        input = skip_while(rest, |byte| {
            byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'_' | b'-' | b'.' | b'*')
        });
        if let [b'=', rest @ ..] = input {
            input = skip_bare_item(rest)?;
        }
    }
    Some(())
}

/// Skips a bare item (RFC 8941 section 4.2.3.1); the first character gives its type.
fn skip_bare_item(input: &[u8]) -> Option<&[u8]> {
    let (first, rest) = input.split_first()?;
    match first {
        b'"' => Quoted::parse(rest).map(|string| string.rest),
        b'?' => match rest {
            [b'0' | b'1', rest @ ..] => Some(rest),
            _ => None,
        },
        b':' => {
            let rest = skip_while(rest, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'='));
            rest.strip_prefix(b":")
        }
        b'-' => skip_number(rest),
        b'0'..=b'9' => skip_number(input),
        b'*' | b'A'..=b'Z' | b'a'..=b'z' => {
            Some(skip_while(rest, |byte| crate::headers::is_token_byte(byte) || matches!(byte, b':' | b'/')))
        }
        _ => None,
    }
}

/// Skips a number (RFC 8941 section 4.2.4): at most 15 digits, or at most 12 digits before and 1 to 3 digits after a
/// point.
fn skip_number(input: &[u8]) -> Option<&[u8]> {
    let rest = skip_while(input, |byte| byte.is_ascii_digit());
    let whole = input.len().saturating_sub(rest.len());
    match rest {
        [b'.', fraction @ ..] => {
            let rest = skip_while(fraction, |byte| byte.is_ascii_digit());
            let digits = fraction.len().saturating_sub(rest.len());
            ((1..=12).contains(&whole) && (1..=3).contains(&digits)).then_some(rest)
        }
        _ => (1..=15).contains(&whole).then_some(rest),
    }
}

fn skip_while(mut input: &[u8], wanted: impl Fn(u8) -> bool) -> &[u8] {
    while let [first, rest @ ..] = input {
        if !wanted(*first) {
            break;
        }
        input = rest;
    }
    input
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(line: &[u8]) -> Result<(String, KeySyntax), KeyError> {
        read([line]).map(|key| key.map(|(key, form)| (key.as_str().to_owned(), form)).unwrap())
    }

    #[test]
    fn both_forms_mean_the_same_key() {
        for line in ["abc", " abc\t", "  abc"] {
            assert_eq!(one(line.as_bytes()), Ok(("abc".into(), KeySyntax::Bare)), "{line}");
        }
        for line in [
            "\"abc\"",
            " \"abc\" ",
            "\"abc\";a",
            "\"abc\";a=1;b",
            "\"abc\"; a=-1.5",
            "\"abc\";a_1-.*=1",
            "\"abc\";a=\"x,\\\"y\"",
            "\"abc\";a=?1;b=tok/en:x;c=:aGk=:;*d=*",
        ] {
            assert_eq!(one(line.as_bytes()), Ok(("abc".into(), KeySyntax::Quoted)), "{line}");
        }
    }

    #[test]
    fn reasons_are_found_in_their_order() {
        let long = "a".repeat(256);
        let cases: [(&[u8], KeyError); 37] = [
            (b"a,b", KeyError::Multiple),
            (b",", KeyError::Multiple),
            (b"\"a\",\"b\"", KeyError::Multiple),
            (b"\"a\", ", KeyError::Multiple),
            (b"\"a\\\\\",b", KeyError::Multiple),
            (b"a\\,b", KeyError::Multiple),
            (b"a\"b,c\"d", KeyError::Multiple),
            (b"", KeyError::Empty),
            (b" \t ", KeyError::Empty),
            (b"\"\"", KeyError::Empty),
            (b"\"\";a=1", KeyError::Empty),
            (b"\"", KeyError::Syntax),
            (b"\"abc", KeyError::Syntax),
            (b"\"abc, def", KeyError::Syntax),
            (b"\"abc\"x", KeyError::Syntax),
            (b"\"abc\" ;a", KeyError::Syntax),
            (b"\"abc\";", KeyError::Syntax),
            (b"\"abc\";A=1", KeyError::Syntax),
            (b"\"abc\";a=", KeyError::Syntax),
            (b"\"abc\";a=1.", KeyError::Syntax),
            (b"\"abc\";a=?2", KeyError::Syntax),
            (b"\"abc\";a=:aGk=", KeyError::Syntax),
            (b"\"abc\";a=\"x", KeyError::Syntax),
            (b"\"a\\bc\"", KeyError::Syntax),
            (b"\"a\\b\"\"", KeyError::Syntax),
            (b"\"a\xffc\"", KeyError::Syntax),
            (b"\"a\tc\"", KeyError::Syntax),
            (b"\"a\\\"c\"", KeyError::Charset),
            (b"\"a\\\",b\"", KeyError::Charset),
            (b"\"a,c\"", KeyError::Charset),
            (b"\"a c\"", KeyError::Charset),
            (b"abc\"", KeyError::Charset),
            (b"a c", KeyError::Charset),
            (b"abc;a=1", KeyError::Charset),
            (b"\xc3\xa9", KeyError::Charset),
            (b"t-abc", KeyError::ReservedPrefix),
            (b"\"t-abc\"", KeyError::ReservedPrefix),
        ];
        for (line, reason) in cases {
            assert_eq!(one(line), Err(reason), "{}", String::from_utf8_lossy(line));
        }
        assert_eq!(one(long.as_bytes()), Err(KeyError::Length));
        assert_eq!(one(format!("\"{long}\"").as_bytes()), Err(KeyError::Length));
        assert_eq!(one(format!("\"{}\\\"\"", "a".repeat(255)).as_bytes()), Err(KeyError::Length));
        assert_eq!(one(format!("\"{}\\\"\"", "a".repeat(254)).as_bytes()), Err(KeyError::Charset));
    }

    #[test]
    fn visible_keys_are_the_same_in_both_forms() {
        let visible = |line: &str| {
            let read = read_as(&KeyGrammar::VISIBLE, [line.as_bytes()]);
            read.map(|key| key.map(|(key, form)| (key.as_str().to_owned(), form)).unwrap())
        };
        for key in [
            "order:123",
            "ab+/=",
            "a/b",
            "x@y",
            "a%2Fb",
            "a\"b",
            "a\\b",
            "a'b",
            "a?b#c",
            "a;b=1",
            "\\",
            "{1}",
            "a\\\"b",
        ] {
            assert_eq!(visible(key), Ok((key.to_owned(), KeySyntax::Bare)), "{key}");
            let quoted = format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
            assert_eq!(visible(&quoted), Ok((key.to_owned(), KeySyntax::Quoted)), "{quoted}");
        }
        assert_eq!(visible("\"\\\"a\""), Ok(("\"a".to_owned(), KeySyntax::Quoted)));
        for (line, why) in [
            ("a,b", KeyError::Multiple),
            ("a\"b,c\"d", KeyError::Multiple),
            ("\"a\", \"b\"", KeyError::Multiple),
            ("\"a,b\"", KeyError::Charset),
            ("a b", KeyError::Charset),
            ("\"a b\"", KeyError::Charset),
            ("\"a\"b", KeyError::Syntax),
            ("\"a", KeyError::Syntax),
            ("t-a/b", KeyError::ReservedPrefix),
            ("\"t-a/b\"", KeyError::ReservedPrefix),
        ] {
            assert_eq!(visible(line), Err(why), "{line}");
        }
        let quotes = |number: usize| format!("\"{}\"", "\\\"".repeat(number));
        assert!(visible(&quotes(255)).is_ok());
        assert_eq!(visible(&quotes(256)), Err(KeyError::Length));
    }

    #[test]
    fn lines_are_counted_before_anything_is_read() {
        assert_eq!(read([]), Ok(None));
        assert_eq!(read([b"abc".as_slice(), b"abc"]), Err(KeyError::Multiple));
        assert_eq!(read([b"".as_slice(), b""]), Err(KeyError::Multiple));
        assert_eq!(read([b"\"".as_slice(), b"\xff"]), Err(KeyError::Multiple));
    }

    #[test]
    fn what_shadow_mode_looks_at_is_neither_quoted_nor_padded() {
        for line in ["t-a", " t-a", "\"t-a\"", "\t\" t-a", "\"\"t-a", " \" \"t-a"] {
            assert!(is_forged(line.as_bytes()), "{line}");
        }
    }
}
