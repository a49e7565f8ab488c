//! Says why a text is no JSON document: names the usual mistakes as what they are, each with its line and column.

use super::lex::string;
use super::tree::JsonError;

/// How many bytes at the beginning show whether a document is text.
const BEGINNING: usize = 200;

/// The reason why `text` is no JSON, as a sentence without its final dot. Lines and columns count from 1, columns in
/// bytes.
#[inline(never)]
pub(crate) fn reason(text: &[u8], error: &JsonError) -> String {
    if error.is_duplicate() {
        return error.to_string();
    }
    if let Some(what) = of_the_whole(text) {
        return what.to_owned();
    }
    if let Some((line, column)) = yaml(text) {
        if contains(text, b"static_resources:") || contains(text, b"typed_config:") {
            return "this is a configuration of Envoy: the document is the JSON text in it, under the `value` of the plugin's \
                    `configuration`"
                .to_owned();
        }
        return format!(
            "this is YAML, from line {line} column {column} on: the document is JSON; convert it, for example with \
             `yq -o=json policy.yaml > policy.json`"
        );
    }
    // A mistake behind the place of the error is not its cause.
    match first_mistake(text).map(|(at, mistake)| (place(text, at), mistake)) {
        Some(((line, column), (what, cure))) if (line, column) <= error.place() => {
            format!("{what} at line {line} column {column}: {cure}")
        }
        _ => error.to_string(),
    }
}

/// What the whole text is, if its beginning shows that it is not JSON at all.
fn of_the_whole(text: &[u8]) -> Option<&'static str> {
    let beginning = text.get(..BEGINNING).unwrap_or(text);
    let first = text.trim_ascii_start().first();
    // RFC 8259 section 2: outside of strings JSON has no other control character. A Struct begins with the tag of an
    // entry, its length and the tag of the entry's name.
    let is_binary = beginning.iter().any(|byte| *byte < b' ' && !b"\t\n\r".contains(byte));
    let is_message = !matches!(first, Some(b'{' | b'[')) || matches!(text, [b'\n', _, b'\n', ..]);
    match (text, first) {
        (_, None) => Some("the document is empty; in Envoy it is the `value` of the plugin's `configuration`"),
        ([0xef, 0xbb, 0xbf, ..], _) => {
            Some("a byte order mark at line 1 column 1: save the document as UTF-8 without one")
        }
        ([0xff, 0xfe, ..] | [0xfe, 0xff, ..], _) => Some(
            "this is UTF-16, as the byte order mark at line 1 column 1 shows: save the document as UTF-8 without one",
        ),
        _ if is_binary && is_message => Some(
            "this is a protobuf message such as a Struct, and no text: in Envoy the plugin's `configuration` has to be a \
             `type.googleapis.com/google.protobuf.StringValue` whose `value` is the document",
        ),
        _ => None,
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// Line and column of the first line of YAML, if the first line that says something is one: `name: …`, `- …` or `---`.
fn yaml(text: &[u8]) -> Option<(usize, usize)> {
    let lines = text.split(|byte| *byte == b'\n').map(|line| (line, line.trim_ascii())).enumerate();
    let (index, (line, content)) =
        lines.into_iter().find(|(_, (_, content))| !content.is_empty() && content.first() != Some(&b'#'))?;
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_$-".contains(byte);
    let name_end = content.iter().position(|byte| !is_name(byte)).unwrap_or_default();
    let is_member = name_end > 0 && matches!(content.get(name_end..), Some([b':'] | [b':', b' ' | b'\t', ..]));
    let is_yaml =
        is_member || content.starts_with(b"- ") || content.starts_with(b"--- ") || content.starts_with(b"%YAML");
    let indent = line.len().saturating_sub(line.trim_ascii_start().len());
    (is_yaml || content == b"---").then_some((index + 1, indent + 1))
}

/// A mistake, and what to do about it.
type Mistake = (&'static str, &'static str);

/// The first thing outside of strings that JSON does not have, and where it stands.
fn first_mistake(text: &[u8]) -> Option<(usize, Mistake)> {
    const COMMENT: Mistake = ("a comment", "JSON has no comments; remove it");
    let mut rest = text;
    let mut comma = None;
    while let Some((first, after)) = rest.split_first() {
        let at = text.len().saturating_sub(rest.len());
        rest = after;
        match (first, after.first()) {
            (b'"', _) => rest = string(after)?.1,
            (b'#', _) | (b'/', Some(b'/' | b'*')) => return Some((at, COMMENT)),
            (b'\'', _) => return Some((at, ("a single quote", "strings stand in double quotes"))),
            (b'}' | b']', _) if comma.is_some() => {
                return comma.map(|at| (at, ("a comma with nothing behind it", "remove it")));
            }
            _ => {}
        }
        if !first.is_ascii_whitespace() {
            comma = (*first == b',').then_some(at);
        }
    }
    None
}

/// Line and column of a byte.
fn place(text: &[u8], at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.iter().filter(|byte| **byte == b'\n').count();
    let column = before.iter().rev().take_while(|byte| **byte != b'\n').count();
    (line + 1, column + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;

    fn told(text: &[u8]) -> String {
        reason(text, &Json::parse(text).unwrap_err())
    }

    #[test]
    fn the_usual_mistakes_are_named_where_they_stand() {
        for (text, expected) in [
            ("{\n \"a\": [1, 2,\n ]\n}", "a comma with nothing behind it at line 2 column 12: remove it"),
            ("{\"a\": 1 , }", "a comma with nothing behind it at line 1 column 9: remove it"),
            ("{\n  // why\n \"a\": 1}", "a comment at line 2 column 3: JSON has no comments; remove it"),
            ("{\"a\": 1 /* why */}", "a comment at line 1 column 9: JSON has no comments; remove it"),
            ("{\"a\": 1, # why\n\"b\": 1}", "a comment at line 1 column 10: JSON has no comments; remove it"),
            ("# why\n{}", "a comment at line 1 column 1: JSON has no comments; remove it"),
            ("{} // why", "a comment at line 1 column 4: JSON has no comments; remove it"),
            ("{'a': 1}", "a single quote at line 1 column 2: strings stand in double quotes"),
            ("{\"é\": 1,}", "a comma with nothing behind it at line 1 column 9: remove it"),
        ] {
            assert_eq!(told(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn a_mistake_behind_the_error_is_not_told() {
        for text in ["{\"a\" 1, // why\n}", "{\"a\": tru, \"b\": [1,]}", "{\"a\": \"// # ,}", "{\"a\": \"#\", \"b\": }"]
        {
            assert_eq!(told(text.as_bytes()), Json::parse(text.as_bytes()).unwrap_err().to_string(), "{text}");
        }
    }

    #[test]
    fn yaml_is_told_by_its_first_line() {
        for (text, place) in [
            ("version: 1\nroutes: []\n", "line 1 column 1"),
            ("# a policy\n\n  $schema: x", "line 3 column 3"),
            ("routes:\n- endpoint: a", "line 1 column 1"),
            ("---\nversion: 1", "line 1 column 1"),
            ("- version: 1\r\n", "line 1 column 1"),
        ] {
            let told = told(text.as_bytes());
            assert!(told.starts_with(&format!("this is YAML, from {place} on: ")), "{text}: {told}");
        }
        for text in ["version", "version:1", ": 1", "a b: c", "\"version\": 1", "# only a comment", "-1-"] {
            assert!(!told(text.as_bytes()).contains("YAML"), "{text}");
        }
    }

    #[test]
    fn what_is_no_text_in_utf_8_is_told_from_its_beginning() {
        let struct_of_long_name = [b"\n{\n\x60".as_slice(), &[b'a'; 96], b"\x12\x09\x11"].concat();
        for (text, expected) in [
            (b"".as_slice(), "the document is empty"),
            (b" \r\n\t", "the document is empty"),
            (b"\xef\xbb\xbf{}", "a byte order mark at line 1 column 1"),
            (b"\xff\xfe{\0}\0", "this is UTF-16"),
            (b"\xfe\xff\0{\0}", "this is UTF-16"),
            (b"\n\x14\n\x07version\x12\x09\x11\0\0\0\0\0\0\xf0?", "this is a protobuf message"),
            (b"\x2a\x16\n\x14\n\x07version\x12\x09", "this is a protobuf message"),
            (b"\x08\x07", "this is a protobuf message"),
            (&struct_of_long_name, "this is a protobuf message"),
        ] {
            assert!(told(text).starts_with(expected), "{text:?}: {}", told(text));
        }
        assert!(told(b"{\"a\": \"\x01\"}").starts_with("control character"), "{}", told(b"{\"a\": \"\x01\"}"));
    }
}
