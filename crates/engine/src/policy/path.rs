//! Path normalisation: one spelling of a path for the filter, the gateway and the upstream (docs/contract.md section 2).
//!
//! By RFC 3986 section 6.2.2, unreserved characters are decoded, the other escapes get upper case, and dot segments are
//! removed. In addition, slashes are merged, one trailing slash is removed and the query is cut off. A path that two
//! programs could read differently is refused. RFC 3986 calls paths with other slashes other paths, and so do many backends
//! (Django's resource is `/orders/`, and `/orders` redirects to it): these get the slashes that the client sent.

use crate::bytes::ByteSet;
use crate::percent::{hex_byte, is_unreserved, percent_decode, push_escape};
use std::borrow::Cow;

/// The reason to refuse a path or an authority: two programs could read it differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathError {
    /// The path does not begin with a slash (`*`, an authority, an empty path).
    NotAbsolute,
    /// A `%` that two hexadecimal digits do not follow.
    Escape,
    /// An escaped control character: a router's regular expression may take a line break at the end for nothing.
    Control,
    /// Escaped bytes that are no UTF-8.
    Utf8,
    /// A backslash, plain or escaped.
    Backslash,
    /// A semicolon.
    Semicolon,
    /// An escaped slash outside the value of a path parameter that may have one.
    EncodedSlash,
    /// A path that differs from another route's in letter case or in escapes only.
    OtherReading,
    /// A space, a control byte or `#`.
    Forbidden,
    /// A decoded value that is empty, `.` or `..`, or has such a segment after an escaped slash.
    DotSegment,
    /// The authority is not a host and at most one port.
    Authority,
    /// The authority is another spelling of a host that routes are declared for.
    HostSpelling,
}

impl PathError {
    /// The `detail` of the problem document: what the client has to change.
    pub const fn detail(self) -> &'static str {
        match self {
            Self::NotAbsolute => "The request target is no absolute path. Send a path that begins with a slash.",
            Self::Escape => {
                "The path holds a % that is not followed by two hexadecimal digits. Write a literal % as %25."
            }
            Self::Control => {
                "The path holds an escaped control character or line separator, such as %00 or %0A. Leave it out."
            }
            Self::Utf8 => {
                "The path holds escaped bytes that are no UTF-8. Percent-encode the bytes of the text in UTF-8."
            }
            Self::Backslash => "The path holds a backslash. Separate segments with /.",
            Self::Semicolon => {
                "The path holds a semicolon. Path parameters are not supported; write a literal one as %3B."
            }
            Self::EncodedSlash => {
                "The path holds an escaped slash (%2F) where this API takes no value with slashes. Send a value without one."
            }
            Self::OtherReading => {
                "The path differs from another path of this API in letter case or in escapes only, so that programs could \
                 read it differently. Write it as the API's documentation does."
            }
            Self::DotSegment => "The path holds a value that is empty, or has . or .. as a segment.",
            Self::Authority => {
                "The Host header is not a host name or address with at most one port (1 to 65535). Send it as in \
                 api.example.com or api.example.com:8443."
            }
            Self::HostSpelling => {
                "The Host header spells a host of this API in another way. Send it in lower case, without a port and without \
                 a final dot, and an address in its shortest form."
            }
            Self::Forbidden => "The path holds a space, a control character or #. Percent-encode it.",
        }
    }
}

/// A normalised path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NormalPath<'a> {
    text: Cow<'a, str>,
    /// The path with the slashes that the client sent, if they are others
    with_slashes: Option<Cow<'a, str>>,
    encoded_slash: bool,
    needs_visible_key: Option<PathError>,
}

impl<'a> NormalPath<'a> {
    /// Normalises the path of a request target in origin form, without its query.
    ///
    /// # Errors
    /// [`PathError`]. An escaped slash is not an error here, since a path parameter's value may contain one.
    pub fn parse(path: &'a [u8]) -> Result<Self, PathError> {
        if !matches!(path, [b'/', ..]) {
            return Err(PathError::NotAbsolute);
        }
        let before_slash = path.strip_suffix(b"/").filter(|rest| rest.len() > 1);
        if let Some(text) = already_normal(before_slash.unwrap_or(path)) {
            let with_slashes = before_slash.and_then(|_| std::str::from_utf8(path).ok()).map(Cow::Borrowed);
            return Ok(Self { text: Cow::Borrowed(text), with_slashes, encoded_slash: false, needs_visible_key: None });
        }
        let (decoded, encoded_slash) = decode_unreserved(path)?;
        check_text(&decoded)?;
        let kept = remove_dot_segments(&decoded)?;
        let text = joined(kept.iter().copied().filter(|segment| !segment.is_empty()));
        // A program that reads a URL takes what follows two slashes at the beginning for a host.
        let with_slashes = joined(kept.into_iter().skip_while(|segment| segment.is_empty()));
        if encoded_slash && segments(&text).any(hides_dots) {
            return Err(PathError::DotSegment);
        }
        let with_slashes = (with_slashes != text).then_some(Cow::Owned(with_slashes));
        Ok(Self { text: Cow::Owned(text), with_slashes, encoded_slash, needs_visible_key: None })
    }

    /// A recovery path that [`NormalPath::parse`] refuses as `why`, because of its key.
    pub(crate) const fn of_visible_key(text: String, encoded_slash: bool, why: PathError) -> Self {
        Self { text: Cow::Owned(text), with_slashes: None, encoded_slash, needs_visible_key: Some(why) }
    }

    /// The error of the path, unless it is a recovery path of a route with `"charset": "visible"`.
    pub const fn needs_visible_key(&self) -> Option<PathError> {
        self.needs_visible_key
    }

    /// The path, beginning with a slash.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The path with the slashes that the client sent, except that it begins with one: a slash at the end and empty segments
    /// stay.
    pub fn with_slashes(&self) -> &str {
        self.with_slashes.as_deref().unwrap_or(&self.text)
    }

    /// The path with its empty segments, if it has any, as a program reads it that takes them for values.
    pub(super) fn with_empty_segments(&self) -> Option<&str> {
        let path = self.with_slashes.as_deref().filter(|path| path.contains("//"))?;
        Some(path.strip_suffix('/').unwrap_or(path))
    }

    /// Whether the path contains `%2F`.
    pub const fn has_encoded_slash(&self) -> bool {
        self.encoded_slash
    }
}

/// Whether the filter would accept the path in a request, and would not change it; one with `%2F` where a route takes it.
pub(crate) fn is_normal(path: &str) -> bool {
    NormalPath::parse(path.as_bytes()).is_ok_and(|normal| normal.as_str() == path)
}

/// Whether a segment, or the value of a path parameter, has `.`, `..` or nothing between escaped slashes. A backend that decodes
/// a path before it splits it would read another path than the filters in front of this one.
pub(crate) fn hides_dots(text: &str) -> bool {
    text.split("%2F").any(|part| matches!(part, "" | "." | ".."))
}

/// The segments of a path that begins with a slash; empty ones are left out.
pub(crate) fn segments(path: &str) -> impl Iterator<Item = &str> + Clone {
    Segments(path)
}

#[derive(Clone)]
struct Segments<'p>(&'p str);

impl<'p> Iterator for Segments<'p> {
    type Item = &'p str;

    fn next(&mut self) -> Option<&'p str> {
        let mut rest = self.0;
        while let Some(after) = rest.strip_prefix('/') {
            rest = after;
        }
        if rest.is_empty() {
            return None;
        }
        let end = rest.bytes().position(|byte| byte == b'/').unwrap_or(rest.len());
        let (segment, rest) = rest.split_at_checked(end)?;
        self.0 = rest;
        Some(segment)
    }
}

/// Splits a request target into path and query (`?` excluded; `None` if there is none).
pub fn split_query(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    match target.iter().position(|byte| *byte == b'?').and_then(|at| target.split_at_checked(at)) {
        Some((path, query)) => (path, query.strip_prefix(b"?")),
        None => (target, None),
    }
}

/// The path if it is normalised already, so that nothing has to be copied.
pub(super) fn already_normal(path: &[u8]) -> Option<&str> {
    let mut after_slash = false;
    for &byte in path {
        if !(PATH.has(byte) || byte == b'/') || (after_slash && matches!(byte, b'/' | b'.')) {
            return None;
        }
        after_slash = byte == b'/';
    }
    if after_slash && path.len() > 1 { None } else { std::str::from_utf8(path).ok() }
}

/// `pchar` of RFC 3986 section 3.3, without escapes and without the semicolon.
pub(crate) static PATH: ByteSet = ByteSet::alphanumeric().with(b"._~-!$&'()*+,=:@");

/// Decodes unreserved characters, escapes characters that a path must not contain, and writes the other escapes in
/// upper case. Also returns whether there is an escaped slash.
fn decode_unreserved(path: &[u8]) -> Result<(String, bool), PathError> {
    let mut out = String::with_capacity(path.len() + 8);
    let mut encoded_slash = false;
    let mut rest = path;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'%' => {
                let (digits, after) = rest.split_first_chunk().ok_or(PathError::Escape)?;
                rest = after;
                match hex_byte(digits).ok_or(PathError::Escape)? {
                    0..b' ' | 0x7f => return Err(PathError::Control),
                    b'\\' => return Err(PathError::Backslash),
                    decoded if is_unreserved(decoded) => out.push(char::from(decoded)),
                    escaped => {
                        encoded_slash |= escaped == b'/';
                        push_escape(escaped, &mut out);
                    }
                }
            }
            b'/' => out.push('/'),
            b'\\' => return Err(PathError::Backslash),
            b';' => return Err(PathError::Semicolon),
            b'#' | 0..=b' ' | 0x7f => return Err(PathError::Forbidden),
            plain if PATH.has(plain) => out.push(char::from(plain)),
            other => push_escape(other, &mut out),
        }
    }
    Ok((out, encoded_slash))
}

/// Refuses escapes of bytes that are no UTF-8, and of control characters and line separators outside ASCII. Programs differ in
/// what they make of them.
fn check_text(path: &str) -> Result<(), PathError> {
    let is_outside_ascii = |escape: &[u8]| matches!(escape, [b'%', b'8'..=b'9' | b'A'..=b'F', _]);
    if !path.as_bytes().windows(3).any(is_outside_ascii) {
        return Ok(());
    }
    let decoded = percent_decode(path.as_bytes()).ok_or(PathError::Escape)?;
    let text = std::str::from_utf8(&decoded).map_err(|_| PathError::Utf8)?;
    let separates = |char: char| matches!(char, '\u{80}'..='\u{9f}' | '\u{2028}' | '\u{2029}');
    if text.contains(separates) { Err(PathError::Control) } else { Ok(()) }
}

/// The segments without dot segments (RFC 3986 section 5.2.4); the last one is empty if the path ends with a slash. If `..`
/// would remove a segment with an escaped slash, that is an error: a program that decodes first sees two segments there.
fn remove_dot_segments(path: &str) -> Result<Vec<&str>, PathError> {
    let mut kept: Vec<&str> = Vec::new();
    let mut parts = path.split('/').skip(1).peekable();
    while let Some(segment) = parts.next() {
        match segment {
            "." | ".." => {
                if segment == ".." && kept.pop().is_some_and(|gone| gone.contains("%2F")) {
                    return Err(PathError::EncodedSlash);
                }
                if parts.peek().is_none() {
                    kept.push("");
                }
            }
            other => kept.push(other),
        }
    }
    Ok(kept)
}

/// The path of these segments.
fn joined<'s>(segments: impl Iterator<Item = &'s str>) -> String {
    let mut out = String::new();
    for segment in segments {
        out.push('/');
        out.push_str(segment);
    }
    if out.is_empty() {
        out.push('/');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(path: &str) -> String {
        NormalPath::parse(path.as_bytes()).unwrap().as_str().to_owned()
    }

    #[test]
    fn other_spellings_of_a_path_are_that_path() {
        for spelling in [
            "/api/v1/x",
            "//api//v1///x",
            "/api/v1/x/",
            "/api/v1/x//",
            "/api/v1/%78",
            "/%61pi/v1/x",
            "/api/./v1/x",
            "/api/%2e/v1/x",
            "/api/y/../v1/x",
            "/api/y/%2E%2e/v1/x",
            "/../api/v1/x",
            "/api/v1/x/.",
            "/api/v1/x/y/..",
        ] {
            assert_eq!(normal(spelling), "/api/v1/x", "{spelling}");
        }
        for root in ["/", "//", "/.", "/..", "/a/..", "/%2e"] {
            assert_eq!(normal(root), "/", "{root}");
        }
    }

    #[test]
    fn a_normal_path_is_not_copied() {
        for path in ["/", "/a", "/api/v1/orders/17:cancel"] {
            assert!(matches!(NormalPath::parse(path.as_bytes()).unwrap().text, Cow::Borrowed(_)), "{path}");
        }
    }

    #[test]
    fn dot_segments_go_before_slashes_merge() {
        assert_eq!(normal("/a//../b"), "/a/b");
        assert_eq!(normal("/a/b//../../c"), "/a/c");
    }

    #[test]
    fn slashes_stay_for_backends_that_tell_them_apart() {
        for (path, expected) in [
            ("/", "/"),
            ("//", "/"),
            ("/a/", "/a/"),
            ("/a//", "/a//"),
            ("//a/", "/a/"),
            ("///a//b/", "/a//b/"),
            ("/a/.", "/a/"),
            ("/a/b/..", "/a/"),
            ("/a//../b", "/a/b"),
            ("/%61//%2e/b%c3%a9/", "/a//b%C3%A9/"),
        ] {
            let path = NormalPath::parse(path.as_bytes());
            assert_eq!(
                path.map(|path| path.with_slashes().to_owned()).ok().unwrap_or_default(),
                expected,
                "{expected}"
            );
        }
        let empty =
            |path: &'static str| NormalPath::parse(path.as_bytes()).unwrap().with_empty_segments().map(str::to_owned);
        assert_eq!(
            [empty("/a/"), empty("//a"), empty("/a//"), empty("/a//b/")],
            [None, None, Some("/a/".into()), Some("/a//b".into())]
        );
    }

    #[test]
    fn names_that_only_begin_with_dots_stay() {
        assert_eq!(normal("/.well-known/...//.x/..y"), "/.well-known/.../.x/..y");
    }

    #[test]
    fn reserved_characters_keep_their_escapes_in_upper_case() {
        assert_eq!(normal("/a%3ab%2fc%25%c3%a9"), "/a%3Ab%2Fc%25%C3%A9");
        assert_eq!(normal("/a:b@c!$&'()*+,="), "/a:b@c!$&'()*+,=");
        assert_eq!(normal("/a%252e"), "/a%252e");
        assert_eq!(normal("/a|b\"<>^`{}"), "/a%7Cb%22%3C%3E%5E%60%7B%7D");
        assert_eq!(normal("/caf\u{e9}"), "/caf%C3%A9");
    }

    #[test]
    fn what_readers_could_disagree_about_is_refused() {
        for (path, why) in [
            ("", PathError::NotAbsolute),
            ("*", PathError::NotAbsolute),
            ("host:443", PathError::NotAbsolute),
            ("/%", PathError::Escape),
            ("/%4", PathError::Escape),
            ("/%zz", PathError::Escape),
            ("/%+1", PathError::Escape),
            ("/%00", PathError::Control),
            ("/a%0A", PathError::Control),
            ("/a%1fb", PathError::Control),
            ("/a%7F", PathError::Control),
            ("/a%C2%85", PathError::Control),
            ("/a%e2%80%a8", PathError::Control),
            ("/a%C0%AFb", PathError::Utf8),
            ("/%C0%AE%C0%AE/a", PathError::Utf8),
            ("/a%ED%A0%80", PathError::Utf8),
            ("/a%FF", PathError::Utf8),
            ("/a%C3/%A9", PathError::Utf8),
            ("/caf\u{85}", PathError::Control),
            ("/a\\b", PathError::Backslash),
            ("/a%5Cb", PathError::Backslash),
            ("/a%5cb", PathError::Backslash),
            ("/a;x=1", PathError::Semicolon),
            ("/a#b", PathError::Forbidden),
            ("/a b", PathError::Forbidden),
            ("/a/b%2fc/../d", PathError::EncodedSlash),
            ("/a\tb", PathError::Forbidden),
            ("/a\u{7f}b", PathError::Forbidden),
        ] {
            assert_eq!(NormalPath::parse(path.as_bytes()), Err(why), "{path:?}");
        }
    }

    #[test]
    fn an_escaped_slash_is_remembered() {
        assert!(NormalPath::parse(b"/a%2Fb").unwrap().has_encoded_slash());
        assert!(!NormalPath::parse(b"/a/b%25").unwrap().has_encoded_slash());
    }

    #[test]
    fn the_query_is_cut_at_the_first_question_mark() {
        assert_eq!(split_query(b"/a?b?c"), (b"/a".as_slice(), Some(b"b?c".as_slice())));
        assert_eq!(split_query(b"/a?"), (b"/a".as_slice(), Some(b"".as_slice())));
        assert_eq!(split_query(b"/a"), (b"/a".as_slice(), None));
    }
}
