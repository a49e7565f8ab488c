//! Where an outcome differs from what a case expects, or from another outcome.

use std::fmt;

use serde_json::{Map, Value};

use super::{Case, CaseOutcome};
use crate::http::{Headers, Message};

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// What differs.
    pub what: String,
    /// How it should be.
    pub expected: String,
    /// How it is.
    pub seen: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n    expected: {}\n    seen:     {}", self.what, self.expected, self.seen)
    }
}

const NOTHING: &str = "(nothing)";

/// Everything in which an outcome is not what the case says.
///
/// The upstream's message is compared whole but for `:scheme`; lines of different names may come in any order. Of the
/// client's answer only what the case names is compared, and of a problem document also that it is marked as one.
pub fn compare(case: &Case, outcome: &CaseOutcome) -> Vec<Difference> {
    let mut differences = Differences::default();
    for failure in &outcome.failures {
        differences.add("a failure", NOTHING, failure);
    }
    differences.message("upstream", case.upstream.as_ref(), outcome.upstream.as_ref(), &[":scheme"]);
    if let Some(expected) = &case.metrics {
        let mut expected = expected.clone();
        expected.sort();
        differences.series(&expected, &outcome.metrics);
    }
    if case.record.is_some() {
        differences.check("the record", &sorted(case.record.as_ref()), &sorted(outcome.record.as_ref()));
    }
    let Some(client) = &outcome.client else {
        differences.add("the client", &format!("status {}", case.client.status), "no answer");
        return differences.0;
    };
    differences.whole("the client's answer", client);
    let status = client.headers.status().map_or_else(|| NOTHING.to_owned(), |status| status.to_string());
    differences.check("the client's status", &case.client.status.to_string(), &status);
    for (name, value) in &case.client.headers {
        let expected = value.as_slice().iter().map(Vec::as_slice);
        differences.check(&format!("the client's {name}"), &shown(expected), &shown(client.headers.all(name)));
    }
    if let Some(body) = &case.client.body {
        differences.check("the client's body", &quoted(body), &quoted(&client.body));
    }
    if let Some(trailers) = &case.client.trailers {
        let seen = client.trailers.clone().unwrap_or_default();
        differences.lines("the client's trailer", trailers, &seen, &[]);
    }
    if let Some(problem) = &case.client.problem {
        differences.problem(problem, client);
    }
    differences.0
}

/// Everything in which two runs of one case differ: what upstream and client saw, whole.
pub fn compare_outcomes(first: &CaseOutcome, second: &CaseOutcome) -> Vec<Difference> {
    let mut differences = Differences::default();
    differences.message("upstream", first.upstream.as_ref(), second.upstream.as_ref(), &[]);
    differences.message("client", first.client.as_ref(), second.client.as_ref(), &[]);
    differences.series(&first.metrics, &second.metrics);
    differences.check("the record", &sorted(first.record.as_ref()), &sorted(second.record.as_ref()));
    differences.0
}

/// A record in one order, a line for each member. Without a member there is none.
fn sorted(record: Option<&Map<String, Value>>) -> String {
    let Some(record) = record.filter(|record| !record.is_empty()) else { return NOTHING.to_owned() };
    let mut members: Vec<String> = record.iter().map(|(name, value)| format!("{name}: {value}")).collect();
    members.sort();
    members.join("\n      ")
}

#[derive(Default)]
struct Differences(Vec<Difference>);

impl Differences {
    fn add(&mut self, what: &str, expected: &str, seen: &str) {
        self.0.push(Difference { what: what.to_owned(), expected: expected.to_owned(), seen: seen.to_owned() });
    }

    fn check(&mut self, what: &str, expected: &str, seen: &str) {
        if expected != seen {
            self.add(what, expected, seen);
        }
    }

    fn series(&mut self, expected: &[String], seen: &[String]) {
        self.check("the series that counted", &expected.join("\n      "), &seen.join("\n      "));
    }

    fn whole(&mut self, what: &str, message: &Message) {
        if !message.complete {
            self.add(what, "whole", "cut off");
        }
    }

    fn message(&mut self, who: &str, expected: Option<&Message>, seen: Option<&Message>, apart: &[&str]) {
        let (expected, seen) = match (expected, seen) {
            (None, None) => return,
            (Some(expected), Some(seen)) => (expected, seen),
            (expected, seen) => {
                let told = |message: Option<&Message>| message.map_or("no request".to_owned(), summary);
                return self.add(who, &told(expected), &told(seen));
            }
        };
        if expected.complete {
            self.whole(who, seen);
        }
        self.lines(who, &expected.headers, &seen.headers, apart);
        self.check(&format!("{who} body"), &quoted(&expected.body), &quoted(&seen.body));
        let none = Headers::new();
        let trailers = |message: &Message| message.trailers.clone().unwrap_or_else(|| none.clone());
        self.lines(&format!("{who} trailer"), &trailers(expected), &trailers(seen), apart);
    }

    fn lines(&mut self, who: &str, expected: &Headers, seen: &Headers, apart: &[&str]) {
        let mut names: Vec<&str> = expected.iter().chain(seen.iter()).map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        for name in names.into_iter().filter(|name| !apart.contains(name)) {
            self.check(&format!("{who} {name}"), &shown(expected.all(name)), &shown(seen.all(name)));
        }
    }

    fn problem(&mut self, expected: &Map<String, Value>, client: &Message) {
        for (name, value) in
            [("content-type", "application/problem+json"), ("cache-control", "no-store"), ("content-language", "en")]
        {
            let seen = shown(client.headers.all(name));
            self.check(&format!("the problem's {name}"), &quoted(value.as_bytes()), &seen);
        }
        // RFC 9110 section 15.5.2
        if client.headers.status() == Some(401) && client.headers.get("www-authenticate").is_none() {
            self.add("the problem's www-authenticate", "a challenge", NOTHING);
        }
        let Ok(Value::Object(document)) = serde_json::from_slice(&client.body) else {
            return self.add("the client's body", "a problem document", &quoted(&client.body));
        };
        for (name, value) in expected {
            let shown = |value: Option<&Value>| value.map_or_else(|| NOTHING.to_owned(), Value::to_string);
            let seen = document.get(name);
            self.check(
                &format!("the problem's {name}"),
                &shown(Some(value).filter(|value| !value.is_null())),
                &shown(seen),
            );
        }
        // The status stands in the document too, whether or not the case repeats it.
        let status = client.headers.status().map(Value::from);
        if document.get("status") != status.as_ref() {
            let shown = |value: Option<&Value>| value.map_or_else(|| NOTHING.to_owned(), Value::to_string);
            self.add("the problem's status", &shown(status.as_ref()), &shown(document.get("status")));
        }
    }
}

fn summary(message: &Message) -> String {
    let value = |name: &str| message.headers.get(name).map(quoted).unwrap_or_default();
    format!("a request, {} {} {:?}", value(":method"), value(":path"), message.headers)
}

fn shown<'a>(values: impl Iterator<Item = &'a [u8]>) -> String {
    let values: Vec<String> = values.map(quoted).collect();
    if values.is_empty() { NOTHING.to_owned() } else { values.join(" and ") }
}

/// Readable, and short enough to read: a long value is cut, with its length and a digest of all of it so that two
/// different ones never look the same.
fn quoted(bytes: &[u8]) -> String {
    const MOST: usize = 600;
    match bytes.get(..MOST) {
        Some(start) if bytes.len() > MOST => {
            format!("\"{}\"… ({} bytes, {:016x})", plain(start), bytes.len(), digest(bytes))
        }
        _ => format!("\"{}\"", plain(bytes)),
    }
}

/// Escapes what is not printable; quotes stay as they are, since most long values are JSON.
fn plain(bytes: &[u8]) -> String {
    let quote = |byte: u8| matches!(byte, b'"' | b'\'').then(|| char::from(byte).to_string());
    bytes.iter().map(|byte| quote(*byte).unwrap_or_else(|| byte.escape_ascii().to_string())).collect()
}

/// FNV-1a.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
