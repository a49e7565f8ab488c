//! A request as a person gives it to `explain`: a curl command, or a method, a URL, headers and data, with the token of the caller.
//!
//! | module | subject |
//! |---|---|
//! | `curl` | a pasted curl command |
//! | `shell`, `ansi_c` | its words, as the shell makes them |
//! | `sent` | what a client and a gateway make of a URL before the filter sees it |
//! | `jwt` | the caller's token |

mod ansi_c;
pub mod curl;
mod jwt;
mod sent;
mod shell;

use base64::Engine as _;
use edge_idempotency_engine::Policy;
use edge_idempotency_engine::headers::is_field_name;
use serde_json::{Map, Value, json};

/// A request that was described.
#[derive(Debug, Default)]
pub struct RequestInput {
    /// The method
    pub method: String,
    /// The URL
    pub url: String,
    /// Names in lower case
    pub headers: Vec<(String, String)>,
    /// Headers that curl is told not to send
    pub removed: Vec<String>,
    /// The body
    pub body: Vec<u8>,
    /// What was left out, and what a reader has to know
    pub notes: Vec<String>,
}

/// A command as its shell reads it.
#[derive(Debug, PartialEq, Eq)]
struct PastedCommand {
    words: Vec<String>,
    /// Texts in the words that the shell would replace, such as `$KEY`
    replaced: Vec<String>,
    /// What a reader has to know
    notes: Vec<String>,
}

/// The files that a command names.
pub trait Files {
    /// The bytes of a file; `-` is standard input.
    ///
    /// # Errors
    /// It cannot be read.
    fn file(&mut self, name: &str) -> Result<Vec<u8>, String>;

    /// The text itself, or the bytes of the file behind an `@`.
    ///
    /// # Errors
    /// As [`Files::file`].
    fn text_or_file(&mut self, text: &str) -> Result<Vec<u8>, String> {
        text.strip_prefix('@').map_or_else(|| Ok(text.as_bytes().to_vec()), |file| self.file(file))
    }
}

/// A described request as a request document.
#[derive(Debug)]
pub struct DescribedRequest {
    /// The request document
    pub document: Value,
    /// What was left out, and what a reader has to know
    pub notes: Vec<String>,
}

impl RequestInput {
    /// Adds a header as curl's `-H` takes it: `Name: value`, `Name;` with an empty value, `Name:` to leave it out.
    ///
    /// # Errors
    /// It is none of these.
    pub fn add_header(&mut self, line: &str) -> Result<(), String> {
        let (name, value) = match line.split_once(':') {
            Some((name, value)) => (name, Some(value.trim())),
            None => (line.strip_suffix(';').unwrap_or_default(), None),
        };
        if !is_field_name(name) {
            return Err(malformed_header(line));
        }
        if value.is_some_and(|value| value.contains(['\r', '\n', '\0'])) {
            return Err(format!("-H {name}: the value of a header must not contain a line break or a zero byte"));
        }
        let name = name.to_ascii_lowercase();
        match value {
            Some("") => self.removed.push(name),
            value => self.headers.push((name, value.unwrap_or_default().to_owned())),
        }
        Ok(())
    }

    /// Adds a header if the request does not have it.
    fn add_missing_header(&mut self, name: &str, value: &str) {
        if !self.headers.iter().any(|(other, _)| other == name) {
            self.headers.push((name.to_owned(), value.to_owned()));
        }
    }

    /// The request as the filter sees it. `token` is the caller's token, or its claims as JSON; without it, the token of a header
    /// `Authorization: Bearer …` is taken. It is not verified.
    ///
    /// # Errors
    /// A sentence that says what to change.
    pub fn describe(mut self, token: Option<&str>, policy: &Policy, now_unix: u64) -> Result<DescribedRequest, String> {
        self.settle()?;
        let header = self.headers.iter().find(|(name, _)| name == "authorization");
        let token = token.or_else(|| header.and_then(|(_, value)| jwt::bearer(value)));
        let mut metadata = None;
        if let Some(token) = token {
            let passed_on = jwt::passed_on(&jwt::claims(token)?, policy, now_unix);
            metadata = Some(passed_on.metadata);
            // jwt_authn removes a client's own.
            self.headers.retain(|(name, _)| !passed_on.headers.iter().any(|(own, _)| own == name));
            self.headers.extend(passed_on.headers);
            self.notes.extend(passed_on.notes);
        }
        Ok(DescribedRequest { document: self.to_document(metadata), notes: self.notes })
    }

    /// The request document (docs/contract.md section 11) of a request that is settled.
    fn to_document(&self, metadata: Option<Value>) -> Value {
        let headers: Vec<Value> = self.headers.iter().map(|(name, value)| json!([name, value])).collect();
        let mut document = Map::new();
        document.insert("method".to_owned(), json!(self.method));
        document.insert("url".to_owned(), json!(self.url));
        document.insert("headers".to_owned(), json!(headers));
        if let Some(metadata) = metadata {
            document.insert("metadata".to_owned(), metadata);
        }
        match std::str::from_utf8(&self.body) {
            Ok("") => None,
            Ok(text) => document.insert("body".to_owned(), json!(text)),
            Err(_) => {
                let encoded = base64::engine::general_purpose::STANDARD.encode(&self.body);
                document.insert("body_base64".to_owned(), json!(encoded))
            }
        };
        Value::Object(document)
    }
}

/// What is wrong with a header. The line may hold a token, so at most its first word is repeated, if it can be a name.
fn malformed_header(line: &str) -> String {
    let word = line.split([':', ' ', '\t']).next().unwrap_or_default();
    let is_name = word.len() < line.len()
        && (1..=32).contains(&word.len())
        && word.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-');
    let which = if is_name { format!(" (it begins with `{word}`)") } else { String::new() };
    let why = if line.contains(':') { "the text before its colon is not a header name" } else { "it has no colon" };
    format!("a header{which} does not have the form `Name: value`: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_becomes_a_request_document() {
        let mut request =
            RequestInput { method: "POST".to_owned(), url: "https://a?x=1".to_owned(), ..Default::default() };
        for line in ["Idempotency-Key: k", "Host: b:8443", "X-None:", "X-Empty;"] {
            request.add_header(line).unwrap();
        }
        request.settle().unwrap();
        request.body = vec![0xff];
        let expected = json!({
            "method": "POST",
            "url": "https://b/?x=1",
            "headers": [["idempotency-key", "k"], ["x-empty", ""]],
            "metadata": {},
            "body_base64": "/w==",
        });
        assert_eq!(request.to_document(Some(json!({}))), expected);
        for bad in ["", "a b: c", ": c", "name", ":path: /", "a: b\r\nc: d"] {
            assert!(request.add_header(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_malformed_header_is_not_repeated() {
        let error = |line: &str| RequestInput::default().add_header(line).unwrap_err();
        for line in
            ["Authorization Bearer planted", "planted1", "planted", "planted1 a: b", "Bearer\tplanted", "{planted: a}"]
        {
            assert!(!error(line).contains("planted"), "{line}: {}", error(line));
        }
        assert!(error("Authorization Bearer planted").contains("(it begins with `Authorization`)"));
        assert!(error("Authorization Bearer planted").contains("`Name: value`: it has no colon"));
        assert!(error("Content Type: a").contains("before its colon"));
    }
}
