//! Paths: their normal form, segments, and what a backend that decodes them sees.

use super::{pattern, percent_encoded};

/// RFC 3986 section 5.2.4, to the letter; `None` if a segment with an escaped slash goes.
fn remove_dot_segments(path: &str) -> Option<String> {
    let (mut input, mut output) = (path.to_owned(), String::new());
    while !input.is_empty() {
        if let Some(rest) = input.strip_prefix("../").or_else(|| input.strip_prefix("./")) {
            input = rest.to_owned();
        } else if input.starts_with("/./") || input == "/." {
            input = format!("/{}", input.get(3..).unwrap_or_default());
        } else if input.starts_with("/../") || input == "/.." {
            input = format!("/{}", input.get(4..).unwrap_or_default());
            let gone = output.split_off(output.rfind('/').unwrap_or(0));
            if gone.contains("%2F") {
                return None;
            }
        } else if input == "." || input == ".." {
            input.clear();
        } else {
            let end = input.char_indices().skip(1).find(|(_, char)| *char == '/').map_or(input.len(), |(at, _)| at);
            output.push_str(&input[..end]);
            input = input[end..].to_owned();
        }
    }
    Some(output)
}

pattern!(pub(super) MALFORMED, "%(?:$|.$|[^0-9A-Fa-f]|.[^0-9A-Fa-f])");
pattern!(BAD_PATH, r"^[^/]|^$|%(?:$|.$|[^0-9A-Fa-f]|.[^0-9A-Fa-f])|%[01][0-9A-Fa-f]|%7[Ff]|%5[Cc]|[\\;#\x00-\x20\x7f]");

/// A path in its one spelling; `None` if it is ambiguous.
pub(crate) fn normalised(path: &[u8]) -> Option<String> {
    let mut path = with_slashes(path)?;
    while path.contains("//") {
        path = path.replace("//", "/");
    }
    if path.len() > 1 && path.ends_with('/') {
        path.pop();
    }
    let dots = |segment: &str| segment.contains("%2F") && hides_dots(segment);
    (!path.split('/').any(dots)).then_some(path)
}

/// A path that is not ambiguous, with the slashes that it came with behind the first one.
pub(crate) fn with_slashes(path: &[u8]) -> Option<String> {
    if BAD_PATH.is_match(path) {
        return None;
    }
    let mut decoded = String::new();
    let mut rest = path;
    while let Some((&first, after)) = rest.split_first() {
        let (byte, is_plain) = if first == b'%' {
            rest = &after[2..];
            (u8::from_str_radix(std::str::from_utf8(&after[..2]).unwrap(), 16).unwrap(), false)
        } else {
            rest = after;
            (first, b"/!$&'()*+,=:@".contains(&first))
        };
        decoded.push_str(&if is_plain { char::from(byte).to_string() } else { percent_encoded(&[byte]) });
    }
    let Ok(text) = String::from_utf8(percent_decoded(&decoded)) else { return None };
    if text.chars().any(|char| char.is_control() || char == '\u{2028}' || char == '\u{2029}') {
        return None;
    }
    Some(format!("/{}", remove_dot_segments(&decoded)?.trim_start_matches('/')))
}

/// Whether a backend that decodes a value before it splits the path would see `.`, `..` or nothing as a segment.
pub(super) fn hides_dots(value: &str) -> bool {
    value.split("%2F").any(|part| ["", ".", ".."].contains(&part))
}

pub(crate) fn segments(path: &str) -> Vec<&str> {
    path.split('/').filter(|segment| !segment.is_empty()).collect()
}

pub(crate) fn percent_decoded(text: &str) -> Vec<u8> {
    let mut decoded = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        decoded.push(if first == b'%' {
            rest = &after[2..];
            u8::from_str_radix(std::str::from_utf8(&after[..2]).unwrap(), 16).unwrap()
        } else {
            first
        });
    }
    decoded
}
