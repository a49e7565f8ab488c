//! Canonical JSON (RFC 8785): members sorted, no space, one spelling of each string and each number.
//!
//! It differs from the RFC in one point. The RFC reads numbers as doubles, which gives numbers such as 9007199254740992
//! and 9007199254740993 one text. Here a number keeps all of its digits, in the RFC's layout. The two texts are equal
//! for every number that a double holds with its shortest digits (docs/decisions/0015-fingerprints.md).

use super::lex::{JsonScalar, scalar, skip_space, string};
use super::scan::{Pointer, PointerSegment};
use crate::headers::sorted;
use std::cmp::Ordering;
use std::ops::Range;

/// The maximum nesting. A text that is nested more deeply has no canonical form here, because the time for sorting grows
/// with the depth.
const MAX_DEPTH: usize = 64;

/// What is left of the pointers to members that are left out, behind a value on their way.
type Without<'p> = [&'p [PointerSegment]];

/// The canonical form of a JSON text, without the members at these pointers. `None` if it is not JSON in UTF-8, if an object has a member twice, if a string
/// has a surrogate without its pair, or if it is nested more than [`MAX_DEPTH`] deep.
pub(crate) fn canonical(text: &[u8], without: &[Pointer]) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let without: Vec<_> = without.iter().map(Pointer::segments).collect();
    let rest = value(skip_space(text), &mut out, &without, MAX_DEPTH)?;
    skip_space(rest).is_empty().then_some(out)
}

/// Writes the value at the beginning of `text`. Returns what follows it.
fn value<'b>(text: &'b [u8], out: &mut Vec<u8>, without: &Without<'_>, depth: usize) -> Option<&'b [u8]> {
    match text {
        [b'{', rest @ ..] => object(skip_space(rest), out, without, depth.checked_sub(1)?),
        [b'[', rest @ ..] => array(skip_space(rest), out, without, depth.checked_sub(1)?),
        _ => {
            let (scalar, rest) = scalar(text)?;
            match scalar {
                JsonScalar::Text(text) => write_string(std::str::from_utf8(&text.decode()).ok()?, out),
                JsonScalar::Number(number) => write_number(number, out)?,
                JsonScalar::Boolean(word) => out.extend_from_slice(word),
                JsonScalar::Null => out.extend_from_slice(b"null"),
                JsonScalar::Container => return None,
            }
            Some(rest)
        }
    }
}

/// What is left of the pointers behind the child that `leads` a segment to it.
fn behind<'p>(without: &Without<'p>, leads: impl Fn(&PointerSegment) -> bool) -> Vec<&'p [PointerSegment]> {
    let tails = without.iter().filter_map(|segments| segments.split_first().filter(|(first, _)| leads(first)));
    tails.map(|(_, tail)| tail).collect()
}

fn array<'b>(mut text: &'b [u8], out: &mut Vec<u8>, without: &Without<'_>, depth: usize) -> Option<&'b [u8]> {
    out.push(b'[');
    if let [b']', rest @ ..] = text {
        out.push(b']');
        return Some(rest);
    }
    for index in 0.. {
        let without = behind(without, |segment| segment.index == Some(index));
        match skip_space(value(text, out, &without, depth)?) {
            [b',', rest @ ..] => {
                out.push(b',');
                text = skip_space(rest);
            }
            [b']', rest @ ..] => {
                out.push(b']');
                return Some(rest);
            }
            _ => return None,
        }
    }
    None
}

/// A member of an object: its name, and the place of name and value in the output. The order is that of the names' UTF-16
/// code units (RFC 8785 section 3.2.3).
struct CanonicalMember {
    /// The name's first eight bytes as [`in_order`] gives them, so that most comparisons do not read the names
    first: u64,
    /// Whether the name has a character from U+E000 on
    is_high: bool,
    name: String,
    place: Range<usize>,
}

impl CanonicalMember {
    fn new(name: String, place: Range<usize>) -> Self {
        let mut first = [0; 8];
        first.iter_mut().zip(name.bytes()).for_each(|(to, byte)| *to = in_order(byte));
        let is_high = name.bytes().any(|byte| byte >= HIGH);
        Self { first: u64::from_be_bytes(first), is_high, name, place }
    }
}

/// The first byte of U+E000 in UTF-8
const HIGH: u8 = 0xee;

/// Puts a byte of UTF-8 at its place in the order of UTF-16: the characters from U+10000 on (first byte 0xf0 to 0xf4) come
/// before U+E000 to U+FFFF (0xee and 0xef). Elsewhere the bytes of UTF-8 have the order of UTF-16.
const fn in_order(byte: u8) -> u8 {
    if byte >= HIGH { byte | 0x10 } else { byte }
}

impl Ord for CanonicalMember {
    fn cmp(&self, other: &Self) -> Ordering {
        self.first.cmp(&other.first).then_with(|| {
            if self.is_high && other.is_high {
                self.name.bytes().map(in_order).cmp(other.name.bytes().map(in_order))
            } else {
                self.name.cmp(&other.name)
            }
        })
    }
}

impl PartialOrd for CanonicalMember {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for CanonicalMember {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for CanonicalMember {}

fn object<'b>(mut text: &'b [u8], out: &mut Vec<u8>, without: &Without<'_>, depth: usize) -> Option<&'b [u8]> {
    out.push(b'{');
    if let [b'}', rest @ ..] = text {
        out.push(b'}');
        return Some(rest);
    }
    let begin = out.len();
    let (mut members, mut leaves_out): (Vec<CanonicalMember>, bool) = (Vec::new(), false);
    let rest = loop {
        let [b'"', after @ ..] = text else { return None };
        let (name, after) = string(after)?;
        let name = String::from_utf8(name.decode().into_owned()).ok()?;
        let [b':', after @ ..] = skip_space(after) else { return None };
        let start = out.len();
        write_string(&name, out);
        out.push(b':');
        let without = behind(without, |segment| segment.name == name);
        let after = skip_space(value(skip_space(after), out, &without, depth)?);
        if without.iter().any(|left| left.is_empty()) {
            out.truncate(start);
            leaves_out = true;
        }
        members.push(CanonicalMember::new(name, start..out.len()));
        match after {
            [b',', rest @ ..] => {
                out.push(b',');
                text = skip_space(rest);
            }
            [b'}', rest @ ..] => break rest,
            _ => return None,
        }
    };
    if leaves_out || !members.is_sorted_by(|first, second| first < second) {
        let members = sorted(members);
        if !members.is_sorted_by(|first, second| first < second) {
            return None;
        }
        let mut sorted = Vec::with_capacity(out.len().saturating_sub(begin));
        // The place of a member that is left out is empty.
        for member in members.iter().filter(|member| !member.place.is_empty()) {
            if !sorted.is_empty() {
                sorted.push(b',');
            }
            sorted.extend_from_slice(out.get(member.place.clone())?);
        }
        out.truncate(begin);
        out.append(&mut sorted);
    }
    out.push(b'}');
    Some(rest)
}

/// RFC 8785 section 3.2.2.2.
fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            8 => out.extend(b"\\b"),
            9 => out.extend(b"\\t"),
            10 => out.extend(b"\\n"),
            12 => out.extend(b"\\f"),
            13 => out.extend(b"\\r"),
            0..0x20 => {
                out.extend(b"\\u00");
                out.extend(base16ct::lower::encode(&[byte], &mut [0; 2]).unwrap_or_default());
            }
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

/// Writes a number in the layout of ECMAScript's `Number::toString` (RFC 8785 section 3.2.2.3), with all of its digits
/// except for zeros at both ends. `None` if its exponent is beyond 18 digits.
fn write_number(number: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let (negative, unsigned) = match number {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, number),
    };
    let is_exponent = |byte: &u8| matches!(byte, b'e' | b'E');
    let mut halves = unsigned.splitn(2, is_exponent);
    let (mantissa, exponent) = (halves.next()?, halves.next().unwrap_or(b"0"));
    let mut parts = mantissa.splitn(2, |byte| *byte == b'.');
    let (whole, fraction) = (parts.next()?, parts.next().unwrap_or_default());
    let digits: Vec<u8> = [whole, fraction].concat();
    let leading = digits.iter().take_while(|digit| **digit == b'0').count();
    let digits = digits.get(leading..)?;
    let trailing = digits.iter().rev().take_while(|digit| **digit == b'0').count();
    let digits = digits.get(..digits.len().checked_sub(trailing)?)?;
    let Some((first, others)) = digits.split_first() else {
        out.push(b'0');
        return Some(());
    };
    // The value is 0.{digits} times ten to the power of `point`.
    let sign_free = exponent.strip_prefix(b"-").or_else(|| exponent.strip_prefix(b"+")).unwrap_or(exponent);
    let significant = sign_free.iter().skip_while(|digit| **digit == b'0').count();
    let exponent: i64 = if significant > 18 { None } else { std::str::from_utf8(exponent).ok()?.parse().ok() }?;
    let point = exponent.checked_add(i64::try_from(whole.len()).ok()?)?.checked_sub(i64::try_from(leading).ok()?)?;
    if negative {
        out.push(b'-');
    }
    let count = i64::try_from(digits.len()).ok()?;
    let zeros = |number: i64| std::iter::repeat_n(b'0', usize::try_from(number).unwrap_or_default());
    if (count..=21).contains(&point) {
        out.extend_from_slice(digits);
        out.extend(zeros(point.checked_sub(count)?));
    } else if (1..=21).contains(&point) {
        let (before, after) = digits.split_at_checked(usize::try_from(point).ok()?)?;
        out.extend_from_slice(before);
        out.push(b'.');
        out.extend_from_slice(after);
    } else if (-5..=0).contains(&point) {
        out.extend(b"0.");
        out.extend(zeros(point.checked_neg()?));
        out.extend_from_slice(digits);
    } else {
        out.push(*first);
        if !others.is_empty() {
            out.push(b'.');
            out.extend_from_slice(others);
        }
        let exponent = point.checked_sub(1)?;
        out.extend(if exponent < 0 { b"e-" } else { b"e+" });
        out.extend(exponent.unsigned_abs().to_string().into_bytes());
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    fn text(json: &str) -> Option<String> {
        canonical(json.as_bytes(), &[]).map(|text| String::from_utf8(text).unwrap())
    }

    /// The examples of RFC 8785: sections 3.2.2, 3.2.3 and appendix B.
    #[test]
    fn the_rfcs_examples() {
        let whole = r#"{
            "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
            "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
            "literals": [null, true, false]
        }"#;
        // The first number has more digits than its double, and keeps them.
        let expected = r#"{"literals":[null,true,false],"numbers":[333333333.33333329,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}"#;
        assert_eq!(text(whole).unwrap(), expected);
        let sorted = r#"{"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\ud83d\ude00": 5, "\u0080": 6, "\u00f6": 7}"#;
        assert_eq!(
            text(sorted).unwrap(),
            "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"\u{f6}\":7,\"\u{20ac}\":1,\"\u{1f600}\":5,\"\u{fb33}\":3}"
        );
        for (given, expected) in [
            ("-0", "0"),
            ("0.0e5", "0"),
            ("5e-324", "5e-324"),
            ("1.7976931348623157e308", "1.7976931348623157e+308"),
            ("9007199254740992", "9007199254740992"),
            ("295147905179352830000", "295147905179352830000"),
            ("1e21", "1e+21"),
            ("999999999999999900000", "999999999999999900000"),
            ("0.000001", "0.000001"),
            ("1e-7", "1e-7"),
            ("333333333.3333332", "333333333.3333332"),
            ("0.0000033333333333333333", "0.0000033333333333333333"),
            ("-1E+02", "-100"),
            ("100e-2", "1"),
            ("12.5e1", "125"),
        ] {
            assert_eq!(text(given).as_deref(), Some(expected), "{given}");
        }
    }

    #[test]
    fn what_is_not_one_value_has_no_canonical_form() {
        for bad in [
            "",
            " ",
            "{",
            "[1,]",
            "{\"a\":1,}",
            "{\"a\" 1}",
            "[1 2]",
            "1 2",
            "01",
            "+1",
            ".5",
            "1.",
            "NaN",
            "\"\\ud800\"",
            "\"\\ude00\\ud83d\"",
            "{\"\\udead\":1}",
            "{\"a\":1,\"b\":2,\"a\":1}",
            "{\"a\":1,\"\\u0061\":1}",
            "\u{feff}{}",
            "{}\0",
            "1e1000000000000000000",
        ] {
            assert_eq!(text(bad), None, "{bad:?}");
        }
        assert_eq!(canonical(b"\"\xff\"", &[]), None);
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert_eq!(text(&nested(MAX_DEPTH)), Some(nested(MAX_DEPTH)));
        assert_eq!(text(&nested(MAX_DEPTH + 1)), None);
    }

    #[test]
    fn members_are_left_out_where_pointers_lead() {
        let pointers =
            ["/id", "/params/_meta", "/a/1/b", "/l/0", "/~1", "/x/y"].map(|text| Pointer::parse(text, false).unwrap());
        for (body, expected) in [
            (r#"{"id":1}"#, r#"{}"#),
            (r#"{"id":1,"jsonrpc":"2.0"}"#, r#"{"jsonrpc":"2.0"}"#),
            (r#"{"z":1,"\u0069d":{"id":2},"a":0}"#, r#"{"a":0,"z":1}"#),
            (r#"{"params":{"_meta":{"t":1},"id":7},"_meta":2}"#, r#"{"_meta":2,"params":{"id":7}}"#),
            (r#"{"a":[{"b":1},{"b":1},{"b":1}]}"#, r#"{"a":[{"b":1},{},{"b":1}]}"#),
            (r#"{"a":{"1":{"b":1,"c":2}}}"#, r#"{"a":{"1":{"c":2}}}"#),
            // An item of an array stays: the others would change their places.
            (r#"{"l":[1,2],"/":3}"#, r#"{"l":[1,2]}"#),
            (r#"[{"id":1}]"#, r#"[{"id":1}]"#),
            (r#"{"x":3}"#, r#"{"x":3}"#),
        ] {
            let form = canonical(body.as_bytes(), &pointers).map(|text| String::from_utf8(text).unwrap());
            assert_eq!(form.as_deref(), Some(expected), "{body}");
        }
        for bad in [r#"{"id":1,"id":1}"#, r#"{"id":01}"#, r#"{"a":1,"id":{"b":1,"b":1}}"#, r#"{"id":1,}"#] {
            assert_eq!(canonical(bad.as_bytes(), &pointers), None, "{bad}");
        }
    }

    #[test]
    fn numbers_keep_their_digits() {
        let (first, second) = (text("9007199254740993").unwrap(), text("9007199254740992").unwrap());
        assert_ne!(first, second);
        assert_eq!(text("1e000000000000000000000000000000001").unwrap(), "10");
        assert_eq!(text("1.0").unwrap(), text("1").unwrap());
        assert_eq!(text("1e400").unwrap(), "1e+400");
    }

    /// Any JSON value with numbers that a double holds.
    fn json() -> impl Strategy<Value = Value> {
        let number = prop_oneof![
            any::<f64>().prop_filter_map("a number", |number| serde_json::Number::from_f64(number).map(Value::from)),
            (-(1_i64 << 53)..=1 << 53).prop_map(Value::from),
            (any::<i32>(), -30..30)
                .prop_map(|(digits, power)| { Value::from(format!("{digits}e{power}").parse::<f64>().unwrap()) }),
        ];
        let text = prop_oneof![".{0,6}", "[\u{0}-\u{1f}\"\\\\/a]{0,6}", "[a\u{e000}\u{ffff}\u{10000}\u{1f600}]{0,3}"];
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            number,
            text.clone().prop_map(Value::from)
        ];
        leaf.prop_recursive(4, 40, 6, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::vec((text.clone(), inner), 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    /// Writes a value with space, with every second character of a string as an escape, and with the members in another order.
    fn spelled(value: &Value) -> String {
        let escaped = |text: &str| {
            let units = text.encode_utf16().map(|unit| format!("\\u{unit:04X}"));
            format!("\"{}\"", units.collect::<String>())
        };
        match value {
            Value::String(text) => escaped(text),
            Value::Array(items) => format!("[ {}\n]", items.iter().map(spelled).collect::<Vec<_>>().join(" ,\t")),
            Value::Object(members) => {
                let members =
                    members.iter().rev().map(|(name, value)| format!("{} : {}", escaped(name), spelled(value)));
                format!("{{\r{} }}", members.collect::<Vec<_>>().join(","))
            }
            other => other.to_string(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_form_is_the_librarys(value in json()) {
            let expected = serde_json_canonicalizer::to_string(&value).unwrap();
            prop_assert_eq!(text(&value.to_string()), Some(expected.clone()));
            prop_assert_eq!(text(&spelled(&value)), Some(expected.clone()), "{}", spelled(&value));
            // The canonical form is its own canonical form.
            prop_assert_eq!(text(&expected), Some(expected.clone()));
        }

        #[test]
        fn names_have_the_order_of_utf_16(
            prefix in "[a\u{ffff}\u{10000}]{0,9}",
            first in "[\u{0}a\u{7ff}\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}]{0,3}",
            second in "[\u{0}a\u{7ff}\u{d7ff}\u{e000}\u{ffff}\u{10000}\u{10ffff}]{0,3}",
        ) {
            let [first, second] = [first, second].map(|rest| format!("{prefix}{rest}"));
            let member = |name: &String| CanonicalMember::new(name.clone(), 0..0);
            prop_assert_eq!(member(&first).cmp(&member(&second)), first.encode_utf16().cmp(second.encode_utf16()));
        }

        /// A text has a form exactly if serde_json reads it, and has no duplicate members, which this does not make.
        #[test]
        fn any_bytes_are_json_or_have_no_form(bytes in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..40),
            r#"[\[\]{}:,"a0-9eE+\-. \\\\untrlsf]{0,16}"#.prop_map(String::into_bytes),
        ]) {
            let known = serde_json::from_slice::<Value>(&bytes);
            let has_form = canonical(&bytes, &[]).is_some();
            // serde_json refuses numbers beyond a double, and keeps the last of duplicate members.
            prop_assert!(has_form <= (known.is_ok() || bytes.iter().any(|byte| matches!(byte, b'e' | b'E' | b'0'..=b'9'))));
            prop_assert!(!has_form || crate::json::scan::find(&bytes, &[]).is_ok());
        }

        #[test]
        fn different_integers_have_different_forms(first in any::<u128>(), second in any::<u128>()) {
            let (one, other) = (text(&first.to_string()), text(&second.to_string()));
            prop_assert_eq!(one == other, first == second);
            prop_assert_ne!(text(&first.to_string()), text(&format!("{}1", first)));
        }
    }
}
