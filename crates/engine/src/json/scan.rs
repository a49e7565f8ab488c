//! Finds the values at JSON pointers (RFC 6901) in one pass over a JSON text (RFC 8259), without a tree. The whole text
//! is checked, so a value never comes from a text that another parser would refuse.
//!
//! A duplicate member on the way makes the result ambiguous, in any spelling (`id`, `\u0069d`).

pub(crate) use crate::json::lex::JsonScalar;
use crate::json::lex::{Text, scalar, skip_space, string};
use crate::json::skip::{Closes, MAX_DEPTH, skip_container};

/// The maximum number of segments of a pointer.
pub(crate) const MAX_SEGMENTS: usize = 8;

/// A JSON pointer (RFC 6901).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pointer {
    segments: Vec<PointerSegment>,
    /// Whether arrays on the way must have one item only.
    single: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PointerSegment {
    pub(super) name: String,
    pub(super) index: Option<usize>,
}

impl Pointer {
    /// Parses an RFC 6901 pointer; `None` if it is malformed, points at the whole text, or is too long.
    pub(crate) fn parse(text: &str, single: bool) -> Option<Self> {
        let mut names = Vec::new();
        for raw in text.strip_prefix('/')?.split('/') {
            let plain = raw.replace("~1", "").replace("~0", "");
            if plain.contains('~') {
                return None;
            }
            names.push(raw.replace("~1", "/").replace("~0", "~"));
        }
        Some(Self { single, ..Self::of_names(names)? })
    }

    /// Its segments.
    pub(super) fn segments(&self) -> &[PointerSegment] {
        &self.segments
    }

    /// The pointer that leads through members of these names, or items of these indices; `None` if it is too long.
    pub(crate) fn of_names(names: impl IntoIterator<Item = String>) -> Option<Self> {
        let segment = |name: String| {
            let canonical = name == "0" || (!name.starts_with('0') && name.bytes().all(|byte| byte.is_ascii_digit()));
            PointerSegment { index: if canonical { name.parse().ok() } else { None }, name }
        };
        let segments: Vec<_> = names.into_iter().map(segment).collect();
        (segments.len() <= MAX_SEGMENTS).then_some(Self { segments, single: false })
    }
}

/// The result for a pointer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PointerResult<'b> {
    /// Nothing.
    Missing,
    /// A member on the way is a duplicate.
    Ambiguous,
    /// An array on the way has more than one item, and the pointer is `single`.
    Several,
    /// A value.
    Value(JsonScalar<'b>),
}

/// The text is not JSON, or is nested too deeply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotJson;

/// Finds the values of all `pointers` in one pass over `text`. The results are in the order of the pointers.
///
/// # Errors
/// [`NotJson`] if the text is anything but one JSON value in UTF-8 of bounded depth.
pub(crate) fn find<'b>(text: &'b [u8], pointers: &[&Pointer]) -> Result<Vec<PointerResult<'b>>, NotJson> {
    let mut search = Search::new(pointers);
    scan(text, &mut search).ok_or(NotJson)?;
    Ok(search.targets.into_iter().map(|target| target.found).collect())
}

/// Skips a value of a text that is known to be JSON.
pub(crate) fn skip_value(text: &[u8]) -> Option<&[u8]> {
    let mut rest = text;
    let mut depth = 0_usize;
    loop {
        rest = match rest {
            [b'{' | b'[', after @ ..] => {
                depth += 1;
                skip_space(after)
            }
            [b'}' | b']', after @ ..] => {
                depth = depth.checked_sub(1)?;
                after
            }
            [b',' | b':', after @ ..] => {
                rest = skip_space(after);
                continue;
            }
            _ => scalar(rest)?.1,
        };
        if depth == 0 {
            return Some(rest);
        }
        rest = skip_space(rest);
    }
}

/// The progress of one pointer.
struct SearchedPointer<'p, 'b> {
    pointer: &'p Pointer,
    /// How many of the open containers are on the way of the pointer. The next segment is for the innermost one of
    /// them.
    on: usize,
    /// For each level, how often the member has occurred, or how many items have begun.
    counts: [usize; MAX_SEGMENTS],
    /// Whether the next value is on the way.
    next: bool,
    found: PointerResult<'b>,
}

struct Search<'p, 'b> {
    targets: Vec<SearchedPointer<'p, 'b>>,
    /// Whether some [`SearchedPointer::next`] is set.
    next: bool,
    /// MemoryLimit for [`skip_container`]
    closes: Closes,
}

impl<'p, 'b> Search<'p, 'b> {
    fn new(pointers: &[&'p Pointer]) -> Self {
        let target = |pointer: &&'p Pointer| SearchedPointer {
            pointer,
            on: 0,
            counts: [0; MAX_SEGMENTS],
            next: true,
            found: PointerResult::Missing,
        };
        let targets: Vec<_> = pointers.iter().map(target).collect();
        Self { next: !targets.is_empty(), targets, closes: [0; MAX_DEPTH] }
    }

    /// A member begins in the innermost of `depth` containers.
    fn member(&mut self, depth: usize, name: Text<'b>) {
        for target in self.targets.iter_mut().filter(|target| target.on == depth) {
            let Some(level) = depth.checked_sub(1) else { continue };
            let Some(segment) = target.pointer.segments.get(level) else { continue };
            if (target.pointer.single && segment.index.is_some()) || !name.is(&segment.name) {
                continue;
            }
            if let Some(count) = target.counts.get_mut(level) {
                if *count > 0 {
                    target.found = PointerResult::Ambiguous;
                } else {
                    target.next = true;
                    self.next = true;
                }
                *count += 1;
            }
        }
    }

    /// An item begins in the innermost of `depth` containers.
    fn item(&mut self, depth: usize) {
        for target in self.targets.iter_mut().filter(|target| target.on == depth) {
            let Some(level) = depth.checked_sub(1) else { continue };
            let Some(segment) = target.pointer.segments.get(level) else { continue };
            let Some(count) = target.counts.get_mut(level) else { continue };
            target.next = segment.index == Some(*count) && target.found == PointerResult::Missing;
            if target.pointer.single
                && segment.index.is_some()
                && *count > 0
                && target.found != PointerResult::Ambiguous
            {
                target.found = PointerResult::Several;
                target.next = false;
            }
            self.next |= target.next;
            *count += 1;
        }
    }

    /// A scalar value.
    fn scalar(&mut self, depth: usize, value: JsonScalar<'b>) {
        if !std::mem::take(&mut self.next) {
            return;
        }
        for target in self.targets.iter_mut().filter(|target| target.next) {
            target.next = false;
            if depth == target.pointer.segments.len() && target.found == PointerResult::Missing {
                target.found = PointerResult::Value(value);
            }
        }
    }

    /// A container begins; `depth` counts it. Returns whether a pointer leads into it.
    fn open(&mut self, depth: usize) -> bool {
        let mut on = false;
        if !std::mem::take(&mut self.next) {
            return on;
        }
        for target in self.targets.iter_mut().filter(|target| target.next) {
            target.next = false;
            if depth <= target.pointer.segments.len() {
                target.on = depth;
                on = true;
            } else if target.found == PointerResult::Missing {
                target.found = PointerResult::Value(JsonScalar::Container);
            }
        }
        on
    }

    /// The innermost container, into which a pointer leads, ends; `depth` still counts it.
    fn close(&mut self, depth: usize) {
        for target in self.targets.iter_mut().filter(|target| target.on == depth) {
            target.on = depth.saturating_sub(1);
        }
    }
}

/// Finds the values of all pointers in `text`. `None` if the text is not JSON.
fn scan<'b>(text: &'b [u8], search: &mut Search<'_, 'b>) -> Option<()> {
    let rest = value(skip_space(text), 0, search)?;
    skip_space(rest).is_empty().then_some(())
}

/// Reads a value in `depth` containers. Returns what follows it.
fn value<'b>(text: &'b [u8], depth: usize, search: &mut Search<'_, 'b>) -> Option<&'b [u8]> {
    let [open @ (b'{' | b'['), content @ ..] = text else {
        let (value, after) = scalar(text)?;
        search.scalar(depth, value);
        return Some(after);
    };
    if !search.open(depth + 1) {
        return skip_container(text, depth, &mut search.closes);
    }
    // A pointer leads here, so there are at most as many levels as it has segments.
    let rest = container(content, *open == b'{', depth + 1, search)?;
    search.close(depth + 1);
    Some(rest)
}

/// Reads an object or an array on the way of a pointer, after its opening bracket; `depth` counts it. Returns what
/// follows it.
fn container<'b>(text: &'b [u8], object: bool, depth: usize, search: &mut Search<'_, 'b>) -> Option<&'b [u8]> {
    let close = if object { b'}' } else { b']' };
    let mut rest = skip_space(text);
    if let Some(after) = rest.strip_prefix(&[close]) {
        return Some(after);
    }
    loop {
        if object {
            let (name, after) = string(rest.strip_prefix(b"\"")?)?;
            search.member(depth, name);
            rest = skip_space(skip_space(after).strip_prefix(b":")?);
        } else {
            search.item(depth);
        }
        match skip_space(value(rest, depth, search)?) {
            [b',', after @ ..] => rest = skip_space(after),
            [end, after @ ..] if *end == close => return Some(after),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at<'b>(text: &'b str, pointer: &str) -> Result<PointerResult<'b>, NotJson> {
        find(text.as_bytes(), &[&Pointer::parse(pointer, false).unwrap()]).map(|found| found[0])
    }

    fn text(text: &str, pointer: &str) -> Option<Vec<u8>> {
        match at(text, pointer) {
            Ok(PointerResult::Value(JsonScalar::Text(found))) => Some(found.decode().into_owned()),
            _ => None,
        }
    }

    #[test]
    fn finds_values_on_every_level() {
        let body =
            r#" {"a": {"id": "no", "b": [1, {"id": "x"}]}, "id": "top", "a/b": "slash", "": "empty", "0": "zero"} "#;
        for (pointer, expected) in
            [("/id", "top"), ("/a/id", "no"), ("/a/b/1/id", "x"), ("/a~1b", "slash"), ("/", "empty"), ("/0", "zero")]
        {
            assert_eq!(text(body, pointer).as_deref(), Some(expected.as_bytes()), "{pointer}");
        }
        for pointer in ["/b", "/a/b/0/id", "/a/b/2/id", "/a/b/01/id", "/a/b/-/id", "/id/x", "/a/a/id"] {
            assert_eq!(at(body, pointer), Ok(PointerResult::Missing), "{pointer}");
        }
        assert_eq!(at(body, "/a/b/0"), Ok(PointerResult::Value(JsonScalar::Number(b"1"))));
        assert_eq!(at(body, "/a/b"), Ok(PointerResult::Value(JsonScalar::Container)));
        for (body, value) in [
            (r#"{"id":null}"#, JsonScalar::Null),
            (r#"{"id":true}"#, JsonScalar::Boolean(b"true")),
            (r#"{"id":-0.5e+3}"#, JsonScalar::Number(b"-0.5e+3")),
            (r#"{"id":[]}"#, JsonScalar::Container),
        ] {
            assert_eq!(at(body, "/id"), Ok(PointerResult::Value(value)), "{body}");
        }
        assert_eq!(at("7", "/id"), Ok(PointerResult::Missing));
        assert_eq!(at(r#"[{"id":"x"}]"#, "/id"), Ok(PointerResult::Missing));
    }

    #[test]
    fn several_places_are_found_in_one_pass() {
        let pointers = ["/a/x", "/a/y", "/b/0", "/a"].map(|text| Pointer::parse(text, false).unwrap());
        let found = find(br#"{"a":{"y":1,"x":2},"b":[3]}"#, &pointers.each_ref()).unwrap();
        let number = |text| PointerResult::Value(JsonScalar::Number(text));
        assert_eq!(found, [number(b"2"), number(b"1"), number(b"3"), PointerResult::Value(JsonScalar::Container)]);
    }

    #[test]
    fn a_member_that_stands_twice_on_the_way_is_ambiguous() {
        for body in [
            r#"{"e":{"id":"1","id":"2"}}"#,
            r#"{"e":{"id":"1","id":"1"}}"#,
            r#"{"e":{"id":"1","\u0069d":"1"}}"#,
            r#"{"e":{"id":"1"},"e":{}}"#,
            r#"{"e":{},"e":{"id":"1"}}"#,
            r#"{"e":1,"e":{"id":"1"}}"#,
            r#"{"e":{"id":"1"},"\u0065":null}"#,
            r#"{"e":{"id":{"a":1},"id":"1"}}"#,
        ] {
            assert_eq!(at(body, "/e/id"), Ok(PointerResult::Ambiguous), "{body}");
        }
        // Duplicates outside the pointer's path do not matter.
        assert_eq!(text(r#"{"x":1,"x":2,"e":{"id":"1","o":{"id":1,"id":2}},"id":1,"id":2}"#, "/e/id").unwrap(), b"1");
    }

    #[test]
    fn a_single_item_is_required_where_asked_for() {
        let pointer = Pointer::parse("/0/id", true).unwrap();
        let found = |body: &'static str| find(body.as_bytes(), &[&pointer]).unwrap()[0];
        assert!(matches!(found(r#"[{"id":"a"}]"#), PointerResult::Value(JsonScalar::Text(_))));
        assert_eq!(found(r#"[{"id":"a"},{"id":"a"}]"#), PointerResult::Several);
        assert_eq!(found(r#"[1,{"id":"a"}]"#), PointerResult::Several);
        assert_eq!(found(r#"[{"id":"a","id":"b"},1]"#), PointerResult::Ambiguous);
        for body in ["[]", "[[]]", "[1]", r#"{"0":{"id":"a"}}"#] {
            assert_eq!(found(body), PointerResult::Missing, "{body}");
        }
    }

    #[test]
    fn escapes_are_decoded_and_surrogates_kept_apart() {
        for (body, expected) in [
            (r#"{"id":"a\"\\\/\b\f\n\r\t"}"#, b"a\"\\/\x08\x0c\n\r\t".as_slice()),
            (r#"{"id":"\u0041\u00e9\u20ac\ud83e\udd80"}"#, "Aé€🦀".as_bytes()),
            (r#"{"id":"\ud800"}"#, b"\xed\xa0\x80"),
            (r#"{"id":"\udc00\ud800"}"#, b"\xed\xb0\x80\xed\xa0\x80"),
            (r#"{"id":"\ud800\u0041"}"#, b"\xed\xa0\x80A"),
            (r#"{"\u0069\u0064":"é"}"#, "é".as_bytes()),
            (r#"{"note":"\"id\":\"fake\",","id":"real"}"#, b"real"),
        ] {
            assert_eq!(text(body, "/id").as_deref(), Some(expected), "{body}");
        }
    }

    #[test]
    fn only_one_json_value_in_utf_8_is_read() {
        for body in [
            "",
            " ",
            "{",
            "}",
            "[",
            "{]",
            "[}",
            "nul",
            "tru",
            "01",
            "-",
            "1.",
            ".5",
            "1e",
            "+1",
            "0x1",
            "NaN",
            "'a'",
            "\"a",
            "\"\\",
            "\"\\x\"",
            "\"\\u12g4\"",
            "\"\\u123\"",
            "\"\n\"",
            "\"1234567\u{1}\"",
            "[1,]",
            "[,1]",
            "[1 2]",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "{\"a\":1}x",
            "{\"a\":1}{}",
            "1 1",
            "//",
            "\u{feff}{}",
            "{\"id\":\"evt_1\",}",
        ] {
            assert_eq!(at(body, "/id"), Err(NotJson), "{body:?}");
        }
        for body in ["0", "-0", "1.5E-9", "\"\u{7f}\"", "\"123456789\\n\"", "[ ]", "{ }", "\r\n\t[ [ ] , { } ]\n"] {
            assert!(at(body, "/id").is_ok(), "{body:?}");
        }
    }

    #[test]
    fn strings_are_utf_8() {
        // Every two and three bytes, and those beginnings and ends of four at which something changes.
        let edges = [
            0x00, 0x1f, 0x20, 0x7f, 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc1, 0xc2, 0xdf, 0xe0, 0xed, 0xf0, 0xf4,
            0xf5, 0xff_u8,
        ];
        let check = |bytes: &[u8]| {
            if bytes.iter().any(|byte| b"\"\\".contains(byte)) {
                return;
            }
            let expected = std::str::from_utf8(bytes).is_ok() && bytes.iter().all(|byte| *byte >= 0x20);
            for padding in ["", "1234567"] {
                let text = [b"\"", padding.as_bytes(), bytes, padding.as_bytes(), b"\""].concat();
                assert_eq!(find(&text, &[]).is_ok(), expected, "{bytes:x?}");
            }
        };
        for one in 0..=255 {
            for two in 0..=255 {
                check(&[one, two]);
                edges.iter().filter(|_| one >= 0x80).for_each(|three| check(&[one, two, *three]));
            }
        }
        for one in 0xf0..=0xf5 {
            for two in edges {
                edges.iter().for_each(|three| edges.iter().for_each(|four| check(&[one, two, *three, *four])));
            }
        }
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(at(&nested(MAX_DEPTH), "/id").is_ok());
        assert_eq!(at(&nested(MAX_DEPTH + 1), "/id"), Err(NotJson));
        assert_eq!(at(&"[".repeat(1 << 20), "/id"), Err(NotJson));
        assert_eq!(at(&"{\"a\":".repeat(1 << 18), "/id"), Err(NotJson));
    }

    #[test]
    fn agrees_with_serde_json_on_what_json_is() {
        // Every text of up to five of these tokens.
        let tokens = ["{", "}", "[", "]", ":", ",", "\"a\"", "1", " "];
        for count in 0..=5_u32 {
            for number in 0..(tokens.len() as u64).pow(count) {
                let (mut text, mut left) = (String::new(), number);
                for _ in 0..count {
                    text.push_str(tokens[(left % tokens.len() as u64) as usize]);
                    left /= tokens.len() as u64;
                }
                let expected = serde_json::from_str::<serde_json::Value>(&text).is_ok();
                assert_eq!(at(&text, "/a").is_ok(), expected, "{text:?}");
            }
        }
    }

    #[test]
    fn pointers_are_checked() {
        for bad in ["", "id", "/a~", "/a~2", "/1/2/3/4/5/6/7/8/9"] {
            assert_eq!(Pointer::parse(bad, false), None, "{bad}");
        }
    }
}
