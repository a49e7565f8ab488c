//! A slow and simple reader of JSON, and what the scanner finds beside what it finds.

use super::lex::JsonScalar;
use super::scan::{self, NotJson, Pointer, PointerResult};
use super::skip::MAX_DEPTH;
use proptest::prelude::*;

/// A value, with every member that stands in the text.
enum ReferenceNode<'b> {
    /// The text of a scalar; the one of a string with its quotes
    Scalar(&'b [u8]),
    /// Names as UTF-16, and values
    Object(Vec<(Vec<u16>, ReferenceNode<'b>)>),
    Array(Vec<ReferenceNode<'b>>),
}

/// A text, and how far it has been read.
struct Reader<'b> {
    text: &'b str,
    at: usize,
}

impl<'b> Reader<'b> {
    fn whole(text: &'b [u8]) -> Option<ReferenceNode<'b>> {
        let mut reader = Reader { text: std::str::from_utf8(text).ok()?, at: 0 };
        let node = reader.value(0)?;
        (reader.at == text.len()).then_some(node)
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at..)?.chars().next()
    }

    fn take(&mut self, expected: char) -> Option<()> {
        (self.peek()? == expected).then(|| self.at += expected.len_utf8())
    }

    fn space(&mut self) {
        while self.peek().is_some_and(|char| " \t\n\r".contains(char)) {
            self.at += 1;
        }
    }

    /// A value, and the space around it.
    fn value(&mut self, depth: usize) -> Option<ReferenceNode<'b>> {
        self.space();
        let begin = self.at;
        let node = match self.peek()? {
            '{' | '[' if depth == MAX_DEPTH => return None,
            '{' => ReferenceNode::Object(self.list('{', '}', |reader| {
                reader.space();
                let name = reader.string()?;
                reader.space();
                reader.take(':')?;
                Some((name, reader.value(depth + 1)?))
            })?),
            '[' => ReferenceNode::Array(self.list('[', ']', |reader| reader.value(depth + 1))?),
            '"' => {
                self.string()?;
                ReferenceNode::Scalar(&self.text.as_bytes()[begin..self.at])
            }
            _ => {
                let word = |char: char| char.is_ascii_alphanumeric() || "+-.".contains(char);
                while self.peek().is_some_and(word) {
                    self.at += 1;
                }
                let scalar = self.text.get(begin..self.at)?;
                (["true", "false", "null"].contains(&scalar) || is_number(scalar)).then_some(())?;
                ReferenceNode::Scalar(scalar.as_bytes())
            }
        };
        self.space();
        Some(node)
    }

    /// What stands between brackets, with commas between.
    fn list<T>(&mut self, open: char, close: char, mut one: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let mut list = Vec::new();
        self.take(open)?;
        self.space();
        if self.take(close).is_some() {
            return Some(list);
        }
        loop {
            list.push(one(self)?);
            if self.take(close).is_some() {
                return Some(list);
            }
            self.take(',')?;
        }
    }

    /// A string, as UTF-16.
    fn string(&mut self) -> Option<Vec<u16>> {
        let mut units = Vec::new();
        self.take('"')?;
        loop {
            let char = self.peek()?;
            self.at += char.len_utf8();
            match char {
                '"' => return Some(units),
                '\\' => {
                    let kind = self.peek()?;
                    self.at += kind.len_utf8();
                    if kind == 'u' {
                        let digits = self.text.get(self.at..self.at + 4)?;
                        digits.chars().all(|digit| digit.is_ascii_hexdigit()).then_some(())?;
                        units.push(u16::from_str_radix(digits, 16).unwrap());
                        self.at += 4;
                    } else {
                        let at = "\"\\/bfnrt".find(kind)?;
                        units.push(b"\"\\/\x08\x0c\n\r\t"[at].into());
                    }
                }
                '\0'..' ' => return None,
                other => units.extend_from_slice(other.encode_utf16(&mut [0; 2])),
            }
        }
    }
}

/// RFC 8259 section 6.
fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.chars().all(|digit| digit.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    digits(whole) && digits(fraction) && digits(exponent) && (whole == "0" || !whole.starts_with('0'))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExpectedValue<'b> {
    Missing,
    Ambiguous,
    Several,
    Container,
    Scalar(&'b [u8]),
}

fn walk<'b>(node: &ReferenceNode<'b>, segments: &[&str], single: bool) -> ExpectedValue<'b> {
    let ([segment, rest @ ..], ReferenceNode::Object(_) | ReferenceNode::Array(_)) = (segments, node) else {
        return match node {
            ReferenceNode::Scalar(text) if segments.is_empty() => ExpectedValue::Scalar(text),
            ReferenceNode::Scalar(_) => ExpectedValue::Missing,
            _ => ExpectedValue::Container,
        };
    };
    let index = segment.parse::<usize>().ok();
    match node {
        ReferenceNode::Object(_) if single && index.is_some() => ExpectedValue::Missing,
        ReferenceNode::Object(members) => {
            let mut values = members.iter().filter(|(name, _)| name.iter().copied().eq(segment.encode_utf16()));
            match (values.next(), values.next()) {
                (None, _) => ExpectedValue::Missing,
                (Some((_, value)), None) => walk(value, rest, single),
                _ => ExpectedValue::Ambiguous,
            }
        }
        ReferenceNode::Array(items) => {
            let found = index.and_then(|index| items.get(index)).map(|item| walk(item, rest, single));
            match found {
                Some(ExpectedValue::Ambiguous) => ExpectedValue::Ambiguous,
                _ if single && index.is_some() && items.len() > 1 => ExpectedValue::Several,
                found => found.unwrap_or(ExpectedValue::Missing),
            }
        }
        ReferenceNode::Scalar(_) => ExpectedValue::Missing,
    }
}

/// Pointers that are looked for together: segments, and whether arrays on the way have one item only.
const PLACES: [(&[&str], bool); 6] = [
    (&["id"], false),
    (&["a", "id"], false),
    (&["0", "id"], true),
    (&["a", "1"], false),
    (&["a", "b", "id"], false),
    (&["a", "0", "b"], true),
];

/// Asserts that the scanner and the reader agree on a text, for all places at once and for none.
fn agree(text: &[u8]) {
    let read = Reader::whole(text);
    assert_eq!(scan::find(text, &[]).is_ok(), read.is_some(), "{}", text.escape_ascii());
    let pointers =
        PLACES.map(|(segments, single)| Pointer::parse(&format!("/{}", segments.join("/")), single).unwrap());
    let found = scan::find(text, &pointers.each_ref());
    let Some(read) = read else { return assert_eq!(found, Err(NotJson), "{}", text.escape_ascii()) };
    for ((segments, single), found) in PLACES.into_iter().zip(found.unwrap()) {
        let found = match found {
            PointerResult::Missing => ExpectedValue::Missing,
            PointerResult::Ambiguous => ExpectedValue::Ambiguous,
            PointerResult::Several => ExpectedValue::Several,
            PointerResult::Value(JsonScalar::Container) => ExpectedValue::Container,
            PointerResult::Value(JsonScalar::Null) => ExpectedValue::Scalar(b"null"),
            PointerResult::Value(JsonScalar::Boolean(text) | JsonScalar::Number(text)) => ExpectedValue::Scalar(text),
            PointerResult::Value(JsonScalar::Text(content)) => {
                let at = content.raw().as_ptr().addr() - text.as_ptr().addr();
                ExpectedValue::Scalar(&text[at - 1..at + content.raw().len() + 1])
            }
        };
        assert_eq!(found, walk(&read, segments, single), "{segments:?} {}", text.escape_ascii());
    }
}

/// What may stand in a string; some of it must not.
const IN_STRINGS: [&[u8]; 20] = [
    b"",
    b"\\\"",
    b"\\\\",
    b"\\/",
    b"\\n",
    b"\\u00e9",
    b"\\ud83e\\udd80",
    b"\\ud800",
    b"\\x",
    b"\\u12g4",
    b"\"",
    b"\\",
    "é".as_bytes(),
    "€".as_bytes(),
    "🦀".as_bytes(),
    b"\x1f",
    b"\x7f",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf4\x90\x80\x80",
];

#[test]
fn what_is_special_is_found_at_every_place_of_a_block() {
    for before in 0..=140 {
        for after in [0, 1, 7, 63, 64, 65, 130] {
            for special in IN_STRINGS {
                let (before, after) = ("a".repeat(before), "b".repeat(after));
                let string = [b"\"", before.as_bytes(), special, after.as_bytes(), b"\""].concat();
                for (open, close) in [("[", "]"), ("{\"x\":{\"y\":", "}}"), ("{\"a\":[[", "]]}")] {
                    let text = [open.as_bytes(), &string, close.as_bytes()].concat();
                    agree(&text);
                    agree(&text[..text.len() - close.len()]);
                }
                agree(&[b"{\"x\":{".as_slice(), &string, b":1}}"].concat());
            }
        }
    }
}

#[test]
fn every_beginning_of_a_text_is_refused() {
    let text = r#"{"id":"é\n","x":{"id":[1,-2.5e+3,{"a":"\ud83e\udd80 and more than sixty-four bytes of a string, so that a block ends in it"}],
        "y" : true , "z":[ null ,[], { } ,false]},"a":{"b":{"id":7}}}"#;
    agree(text.as_bytes());
    (0..text.len()).for_each(|end| agree(&text.as_bytes()[..end]));
}

/// A JSON text with space, escapes, and members that come twice.
fn json() -> impl Strategy<Value = Vec<u8>> {
    let space = || prop_oneof![6 => Just(""), 1 => Just(" "), 1 => Just("\n\t\r  "), 1 => Just("                  ")];
    let pieces = prop_oneof![
        "[a-z]{0,9}".prop_map(String::into_bytes),
        "[ -~&&[^\"\\\\]]{60,70}".prop_map(String::into_bytes),
        prop::sample::select(&IN_STRINGS[1..8]).prop_map(<[u8]>::to_vec),
        prop::sample::select(&IN_STRINGS[12..15]).prop_map(<[u8]>::to_vec),
    ];
    let string = prop::collection::vec(pieces, 0..4)
        .prop_map(|pieces| [b"\"".to_vec(), pieces.concat(), b"\"".to_vec()].concat());
    let names = ["id", "a", "b", "0", "\\u0069d", "x"];
    let name = prop_oneof![
        4 => prop::sample::select(names.to_vec()).prop_map(|name| format!("\"{name}\"").into_bytes()),
        1 => string.clone(),
    ];
    let scalars = ["true", "false", "null", "0", "-0", "17", "-1.5E+10", "123456789012345678901234567890", "1e5"];
    let leaf = prop_oneof![string, prop::sample::select(scalars.to_vec()).prop_map(|text| text.as_bytes().to_vec())];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        let spaced = (space(), inner, space())
            .prop_map(|(before, text, after)| [before.as_bytes(), &text, after.as_bytes()].concat());
        let member = (space(), name.clone(), space(), spaced.clone()).prop_map(|(before, name, after, value)| {
            [before.as_bytes(), &name, after.as_bytes(), b":", &value].concat()
        });
        let list = |open: &'static str, close: &'static str, items: Vec<Vec<u8>>| {
            [open.as_bytes(), &items.join(&b','), close.as_bytes()].concat()
        };
        prop_oneof![
            prop::collection::vec(spaced, 0..6).prop_map(move |items| list("[", "]", items)),
            prop::collection::vec(member, 0..6).prop_map(move |members| list("{", "}", members)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_scanner_finds_what_the_reader_finds(text in json()) {
        prop_assert!(Reader::whole(&text).is_some(), "{}", text.escape_ascii());
        agree(&text);
    }

    /// A text whose bytes were changed, taken out, put in, or cut off.
    #[test]
    fn they_agree_on_broken_texts(
        text in json(),
        changes in prop::collection::vec(
            (0..5, any::<prop::sample::Index>(), any::<u8>(), prop::sample::select(b"{}[]:,\"\\ 0-e.tn\x1f\x80\xc3".to_vec())),
            1..4,
        ),
    ) {
        let mut text = text;
        for (kind, at, byte, token) in changes {
            let at = at.index(text.len() + 1);
            match kind {
                0 if at < text.len() => text[at] = byte,
                1 if at < text.len() => text[at] = token,
                2 if at < text.len() => drop(text.remove(at)),
                3 => text.truncate(at),
                _ => text.insert(at, token),
            }
        }
        agree(&text);
    }

    /// A text in which one bracket is another one.
    #[test]
    fn they_agree_on_brackets(text in json(), at in any::<prop::sample::Index>(), bracket in prop::sample::select(b"{}[]".to_vec())) {
        let mut text = text;
        let places: Vec<usize> = (0..text.len()).filter(|at| b"{}[]".contains(&text[*at])).collect();
        if !places.is_empty() {
            text[places[at.index(places.len())]] = bracket;
        }
        agree(&text);
    }
}
