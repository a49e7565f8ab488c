//! The key's grammar (docs/contract.md section 2).

use super::pattern;
use crate::properties::generate::KeyRulesModel;

pattern!(KEY, r"^[A-Za-z0-9._~\-]*$");
pattern!(VISIBLE_KEY, r"^[\x21-\x2b\x2d-\x7e]*$");
pattern!(QUOTED_PARTS, r#""(?:[^"\\]|\\.)*(?:"|\\?$)"#);
pattern!(ESCAPED, r"\\(.)");
pattern!(
    STRUCTURED_STRING,
    &format!(
        r#"^{STRING}(?:; *[a-z*][a-z0-9_.*\-]*(?:=(?:{STRING}|-?[0-9]{{1,15}}|-?[0-9]{{1,12}}\.[0-9]{{1,3}}|\?[01]|:[A-Za-z0-9+/=]*:|[A-Za-z*][!#$%&'*+.^_`|~0-9A-Za-z:/\-]*))?)*$"#
    )
);
/// RFC 8941 section 3.3.3
const STRING: &str = r#""((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)""#;

/// The key that the lines of a request mean, or the reason why they mean none.
pub(crate) fn read_key(lines: &[&[u8]], rules: KeyRulesModel) -> Result<Option<String>, &'static str> {
    let [line] = lines else { return if lines.is_empty() { Ok(None) } else { Err("multiple") } };
    let is_space = |byte: &u8| [b' ', b'\t'].contains(byte);
    let start = line.iter().position(|byte| !is_space(byte)).unwrap_or(line.len());
    let end = line.iter().rposition(|byte| !is_space(byte)).map_or(start, |last| last + 1);
    let mut value = line[start..end].to_vec();
    let is_string = value.starts_with(b"\"");
    let outside = if is_string { QUOTED_PARTS.replace_all(&value, b"".as_slice()).into_owned() } else { value.clone() };
    if outside.contains(&b',') {
        return Err("multiple");
    }
    if is_string {
        let found = STRUCTURED_STRING.captures(&value).ok_or("syntax")?;
        value = ESCAPED.replace_all(&found[1], b"$1".as_slice()).into_owned();
    }
    match value.len() {
        0 => Err("empty"),
        256.. => Err("length"),
        _ if rules.visible && !VISIBLE_KEY.is_match(&value) => Err("charset"),
        _ if !rules.visible && !KEY.is_match(&value) => Err("charset"),
        _ if value.starts_with(b"t-") => Err("reserved_prefix"),
        _ => Ok(Some(String::from_utf8(value).unwrap())),
    }
}

/// The key that the lines of both headers mean.
pub(crate) fn read_keys(lines: &[&[u8]], own: &[&[u8]], rules: KeyRulesModel) -> Result<Option<String>, &'static str> {
    match (read_key(lines, rules)?, read_key(own, rules)?) {
        (Some(one), Some(other)) if one != other => Err("places"),
        (one, other) => Ok(one.or(other)),
    }
}
