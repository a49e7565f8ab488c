//! Objects of texts, numbers and truths: problem documents and log lines.

use std::fmt::Write as _;

/// A JSON object that is being written; members keep their order.
#[derive(Debug)]
pub(crate) struct Object(String);

impl Object {
    /// One without members.
    pub(crate) fn new() -> Self {
        Self("{".to_owned())
    }

    /// Adds a text.
    pub(crate) fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        push_string(value, &mut self.0);
    }

    /// Adds a text, if there is one.
    pub(crate) fn text_if(&mut self, name: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.text(name, value);
        }
    }

    /// Adds a number.
    pub(crate) fn number(&mut self, name: &str, value: u64) {
        self.name(name);
        // Writing to a String cannot fail.
        let _ = write!(self.0, "{value}");
    }

    /// Adds `true` or `false`.
    pub(crate) fn boolean(&mut self, name: &str, value: bool) {
        self.name(name);
        self.0.push_str(if value { "true" } else { "false" });
    }

    /// The object as a JSON text.
    pub(crate) fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }

    fn name(&mut self, name: &str) {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        push_string(name, &mut self.0);
        self.0.push(':');
    }
}

/// RFC 8259 section 7; what need not be escaped is not.
pub(crate) fn push_string(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\0'..' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(character));
            }
            plain => out.push(plain),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_stand_in_order() {
        let mut object = Object::new();
        object.text("b", "x");
        object.number("a", u64::MAX);
        object.boolean("c", true);
        object.boolean("d", false);
        assert_eq!(object.finish(), r#"{"b":"x","a":18446744073709551615,"c":true,"d":false}"#);
        assert_eq!(Object::new().finish(), "{}");
    }

    #[test]
    fn every_text_reads_as_itself() {
        let every: String = ('\0'..='\u{2fff}').chain(['\u{ffff}', '🦀', char::MAX]).collect();
        let mut object = Object::new();
        object.text(&every, &every);
        let read: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&object.finish()).unwrap();
        assert_eq!(read.into_iter().collect::<Vec<_>>(), [(every.clone(), every.into())]);
    }
}
