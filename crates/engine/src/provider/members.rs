//! Members that several parts of a provider file share: header names, JSON pointers, alternatives.

use crate::headers;
use crate::json::scan::{MAX_SEGMENTS, Pointer};
use crate::json::{Issues, JsonCursor, ObjectCursor};

/// The only one of `names` that is a member; anything else is an issue.
pub(super) fn one_of<'j>(
    fields: &ObjectCursor<'j>,
    names: &[&'static str],
    issues: &mut Issues,
) -> Option<(&'static str, JsonCursor<'j>)> {
    let mut present = names.iter().filter_map(|name| Some((*name, fields.get(name)?)));
    match (present.next(), present.next()) {
        (Some(one), None) => Some(one),
        _ => {
            issues.add(fields.pointer.clone(), format!("write exactly one of `{}`", names.join("`, `")));
            None
        }
    }
}

/// Reports members that have no meaning together with others.
pub(super) fn stray(fields: &ObjectCursor<'_>, members: &[&str], why: &str, issues: &mut Issues) {
    for (member, at) in fields.entries().filter(|(member, _)| members.contains(member)) {
        issues.add(at.pointer, format!("`{member}` {why}"));
    }
}

pub(super) fn non_empty(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("expected a text that is not empty".to_owned()) } else { Ok(text.to_owned()) }
}

/// Parses a header name into lower case.
pub(super) fn header_name(text: &str) -> Result<String, String> {
    if headers::is_field_name(text) {
        Ok(text.to_ascii_lowercase())
    } else {
        Err("expected the name of a header".to_owned())
    }
}

/// Parses a JSON pointer. With `single`, arrays on the way must have one item only, since other items would not be
/// verified.
pub(super) fn pointer(text: &str, single: bool) -> Result<Pointer, String> {
    Pointer::parse(text, single)
        .ok_or_else(|| format!("expected a JSON pointer (RFC 6901) of at most {} segments", MAX_SEGMENTS))
}

pub(super) fn slot_name(text: &str) -> Result<String, String> {
    if (1..=7).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_lowercase()) {
        Ok(text.to_owned())
    } else {
        Err("a slot's name has the form [a-z]{1,7}".to_owned())
    }
}
