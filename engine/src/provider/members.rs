//! Members that several parts of a provider file share: header names, JSON pointers, the one of several.

use crate::headers;
use crate::json::scan::{MAX_SEGMENTS, Pointer};
use crate::json::{Issues, JsonCursor, ObjectCursor};

/// The one of `names` that is there.
pub(super) fn one_of<'j>(
    fields: &ObjectCursor<'j>,
    names: &[&'static str],
    issues: &mut Issues,
) -> Option<(&'static str, JsonCursor<'j>)> {
    let mut there = names.iter().filter_map(|name| Some((*name, fields.get(name)?)));
    match (there.next(), there.next()) {
        (Some(one), None) => Some(one),
        _ => {
            issues.add(fields.pointer.clone(), format!("exactly one of `{}` has to be there", names.join("`, `")));
            None
        }
    }
}

/// Members that mean nothing beside others.
pub(super) fn stray(fields: &ObjectCursor<'_>, members: &[&str], why: &str, issues: &mut Issues) {
    for (member, at) in fields.entries().filter(|(member, _)| members.contains(member)) {
        issues.add(at.pointer, format!("`{member}` {why}"));
    }
}

pub(super) fn non_empty(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("expected some text".to_owned()) } else { Ok(text.to_owned()) }
}

/// A header's name, in lower case.
pub(super) fn header_name(text: &str) -> Result<String, String> {
    if headers::is_field_name(text) {
        Ok(text.to_ascii_lowercase())
    } else {
        Err("expected the name of a header".to_owned())
    }
}

/// A JSON pointer. What verifies a delivery is read with `single`: the other items of an array would be unverified.
pub(super) fn pointer(text: &str, single: bool) -> Result<Pointer, String> {
    Pointer::parse(text, single)
        .ok_or_else(|| format!("expected a JSON pointer (RFC 6901) of at most {} segments", MAX_SEGMENTS))
}

pub(super) fn slot_name(text: &str) -> Result<String, String> {
    if (1..=7).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_lowercase()) {
        Ok(text.to_owned())
    } else {
        Err("a slot's name is [a-z]{1,7}".to_owned())
    }
}
