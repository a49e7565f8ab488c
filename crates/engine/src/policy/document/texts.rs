//! Texts that several parts of the document have: durations, URLs, names, subjects.

use crate::identity::Subject;
use crate::json::scan::Pointer;

/// Parses a duration such as `30s`, `15m`, `24h` or `7d` into seconds.
///
/// # Errors
/// A sentence that says what to write.
pub fn parse_duration(text: &str) -> Result<u64, String> {
    let units = [('s', 1), ('m', 60), ('h', 3600), ('d', 86_400)];
    units
        .iter()
        .find_map(|(unit, seconds)| Some((text.strip_suffix(*unit)?, *seconds)))
        .and_then(|(count, seconds)| {
            let digits = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
            count.parse::<u64>().ok().filter(|count| digits && *count > 0)?.checked_mul(seconds)
        })
        .ok_or_else(|| "expected a duration, a number and a unit, such as `30s`, `15m`, `24h` or `7d`".to_owned())
}

/// Parses an absolute http or https URL that fits into a header.
pub(crate) fn parse_url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"\"<>\\^`{|}#".contains(&byte);
    if rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/')) && text.bytes().all(plain) {
        Ok(text.to_owned())
    } else {
        Err("expected an absolute http or https URL without a fragment".to_owned())
    }
}

/// Checks a name that fits into metrics and logs.
pub(crate) fn check_name(text: &str) -> Result<&str, String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if (1..=128).contains(&text.len()) && !text.starts_with('_') && text.bytes().all(plain) {
        Ok(text)
    } else {
        Err("a name has 1 to 128 characters of A-Z a-z 0-9 . _ - and does not begin with _".to_owned())
    }
}

/// Parses a name that fits into metrics and logs.
pub(crate) fn parse_name(text: &str) -> Result<String, String> {
    check_name(text).map(str::to_owned)
}

/// Checks that a text is not empty.
pub(crate) fn check_text(text: &str) -> Result<&str, String> {
    if text.is_empty() || text.contains('\0') { Err("expected a text that is not empty".to_owned()) } else { Ok(text) }
}

/// Parses a text that is not empty.
pub(crate) fn parse_text(text: &str) -> Result<String, String> {
    check_text(text).map(str::to_owned)
}

/// Parses a pointer to a member of a JSON text.
pub(crate) fn parse_pointer(text: &str) -> Result<Pointer, String> {
    Pointer::parse(text, false)
        .ok_or_else(|| "expected a JSON pointer of at most 8 parts, such as `/meta/id`".to_owned())
}

/// Checks that a text is a pointer to a member of a JSON text.
pub(crate) fn check_pointer(text: &str) -> Result<String, String> {
    parse_pointer(text).map(|_| text.to_owned())
}

/// Parses a subject as documents write it.
pub(crate) fn parse_subject(text: &str) -> Result<Subject, String> {
    text.split_once(':')
        .and_then(|(kind, id)| Subject::from_encoded(kind, id).ok())
        .ok_or_else(|| "expected `{type}:{id}`, such as `service:worker`".to_owned())
}
