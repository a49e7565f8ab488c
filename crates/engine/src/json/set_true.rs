//! Sets a member of a JSON object to `true` as the text passes in parts of any length. Nothing waits for what comes later.

use super::lex::string;

/// A text that passes. What does not begin with `{` passes unchanged.
#[derive(Debug, Default)]
pub(crate) struct SetTrue {
    /// The member. Its name needs no escapes.
    member: String,
    /// Nothing of the rest is changed.
    pub(crate) ended: bool,
    /// How many brackets are open
    depth: usize,
    in_string: bool,
    /// The next byte of the string is escaped.
    escaped: bool,
    /// The last string of the object itself, with its closing quote, as far as it can be the member's name
    name: Vec<u8>,
    /// The last byte outside of strings that is no space
    last: u8,
    /// The member's value passes, and is left out.
    skips: bool,
    found: bool,
}

impl SetTrue {
    /// Nothing of the text has passed.
    pub(crate) fn new(member: &str) -> Box<Self> {
        Box::new(Self { member: member.to_owned(), ..Self::default() })
    }

    /// What the next part of the text becomes.
    #[inline(never)]
    pub(crate) fn pass(&mut self, part: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(part.len() + self.member.len() + 8);
        for byte in part {
            self.step(*byte, &mut out);
            if !self.skips {
                out.push(*byte);
            }
        }
        out
    }

    /// Takes a byte, and writes what stands before it.
    fn step(&mut self, byte: u8, out: &mut Vec<u8>) {
        if self.in_string {
            self.in_string = byte != b'"' || self.escaped;
            self.escaped = byte == b'\\' && !self.escaped;
            // Each of the name's characters has at most six bytes, as an escape.
            if self.depth == 1 && self.name.len() <= self.member.len() * 6 {
                self.name.push(byte);
            }
            return;
        }
        match byte {
            _ if self.ended => return,
            b' ' | b'\t' | b'\n' | b'\r' => return,
            b'{' | b'[' if self.depth > 0 || byte == b'{' => self.depth += 1,
            _ if self.depth == 0 => self.ended = true,
            b'"' => {
                self.in_string = true;
                self.name.clear();
            }
            b'}' | b']' => self.depth -= 1,
            b',' if self.depth == 1 => self.skips = false,
            b':' if self.depth == 1 && string(&self.name).is_some_and(|(name, _)| name.is(&self.member)) => {
                out.extend(b":true");
                (self.found, self.skips) = (true, true);
            }
            _ => {}
        }
        if self.depth == 0 && !self.ended {
            (self.ended, self.skips) = (true, false);
            if !self.found {
                let comma = if self.last == b'{' { "" } else { "," };
                out.extend([comma, "\"", &self.member, "\":true"].concat().as_bytes());
            }
        }
        self.last = byte;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    /// What the text becomes if it comes in parts of this length.
    fn passed(text: &[u8], part: usize) -> Vec<u8> {
        let mut set = SetTrue::new("replayed");
        text.chunks(part).flat_map(|part| set.pass(part)).collect()
    }

    #[test]
    fn the_member_is_true_and_the_rest_is_as_it_was_written() {
        for (text, expected) in [
            ("{}", r#"{"replayed":true}"#),
            (" { \n} ", " { \n\"replayed\":true} "),
            (r#"{"a":1.0 , "b":"\u00e9"}"#, r#"{"a":1.0 , "b":"\u00e9","replayed":true}"#),
            (r#"{"replayed":false,"a":1}"#, r#"{"replayed":true,"a":1}"#),
            (r#"{"a":1,"replayed" : null }"#, r#"{"a":1,"replayed" :true}"#),
            (r#"{"replayed":{"a":[1,"},"]},"b":2}"#, r#"{"replayed":true,"b":2}"#),
            (r#"{"re\u0070layed":"\"","b":2}"#, r#"{"re\u0070layed":true,"b":2}"#),
            (
                r#"{"a":{"replayed":false},"b":["replayed",{}]}"#,
                r#"{"a":{"replayed":false},"b":["replayed",{}],"replayed":true}"#,
            ),
            (
                r#"{"replayed\\":1,"replayed2":"replayed"}"#,
                r#"{"replayed\\":1,"replayed2":"replayed","replayed":true}"#,
            ),
            (r#"{"a":"}\"{"}"#, r#"{"a":"}\"{","replayed":true}"#),
        ] {
            for part in 1..=text.len() {
                assert_eq!(String::from_utf8(passed(text.as_bytes(), part)).unwrap(), expected, "{text} {part}");
            }
        }
    }

    fn object() -> impl Strategy<Value = Value> {
        let name = "[ab\"\\\\{}:,é]{0,3}|replayed";
        let leaf = prop_oneof![Just(Value::Null), any::<bool>().prop_map(Value::from), name.prop_map(Value::from)];
        let value = leaf.prop_recursive(3, 16, 4, move |inner| {
            let members = prop::collection::btree_map(name, inner.clone(), 0..4);
            prop_oneof![
                prop::collection::vec(inner, 0..4).prop_map(Value::from),
                members.prop_map(|members| members.into_iter().collect()),
            ]
        });
        prop::collection::btree_map(name, value, 0..4).prop_map(|members| members.into_iter().collect())
    }

    proptest! {
        /// Whatever the object and its parts are, the member is true and all others are as before.
        #[test]
        fn an_object_gets_the_member(object in object(), pretty in any::<bool>(), part in 1..40_usize) {
            let text = if pretty { format!("{object:#}") } else { object.to_string() };
            let mut expected = object;
            expected["replayed"] = json!(true);
            prop_assert_eq!(serde_json::from_slice::<Value>(&passed(text.as_bytes(), part)).unwrap(), expected);
        }

        /// What is no object passes as it came, and parts decide nothing.
        #[test]
        fn other_texts_pass(text in "[ \\n]{0,2}[{}\\[\\]\",:\\\\a]{0,20}", part in 1..8_usize) {
            let passed_text = passed(text.as_bytes(), part);
            prop_assert_eq!(&passed_text, &passed(text.as_bytes(), text.len().max(1)));
            if !text.trim_start().starts_with('{') {
                prop_assert_eq!(passed_text, text.into_bytes());
            }
        }
    }
}
