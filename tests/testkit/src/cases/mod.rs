//! Behaviour cases: a policy, a request, and everything that upstream and client must then see, as data. The format is
//! described in `format.rs`; CONTRIBUTING.md has an example.
//!
//! Nothing here knows what runs a case. A runner gives an [`CaseOutcome`], and [`compare`] says where that differs.

mod compare;
mod format;
mod text;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

pub use compare::{Difference, compare, compare_outcomes};
pub use text::Text;

use crate::http::{Headers, Message};

/// The file cases are in.
#[derive(Clone, Debug)]
pub struct CaseFile {
    /// Its name, without `.json`.
    pub name: String,
    /// What it is about.
    pub about: String,
    /// Requests, and what comes of them.
    pub cases: Vec<Case>,
    /// Policies that must not start.
    pub start_errors: Vec<StartErrors>,
}

/// One request, and what comes of it.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its name, unique in its file.
    pub name: String,
    /// The policy document.
    pub policy: Vec<u8>,
    /// The VM's environment variables.
    pub environment: BTreeMap<String, String>,
    /// The clock, in milliseconds since 1970-01-01 UTC; `None` where it does not matter.
    pub now_unix_ms: Option<u64>,
    /// The request as it reaches the filter.
    pub request: Message,
    /// What the stores hold that bindings and secrets are looked up at; `None` if they cannot be reached.
    pub lookups: Option<Value>,
    /// Filter metadata that filters before left, by namespace.
    pub metadata: Map<String, Value>,
    /// Filter metadata of the gateway's route, by namespace.
    pub route_metadata: Map<String, Value>,
    /// What the upstream answers, if it is asked.
    pub response: Message,
    /// What the upstream must get: nothing, or exactly this.
    pub upstream: Option<Message>,
    /// What the client must get.
    pub client: Client,
    /// The series that count the exchange, with their labels, each once, and the values that histograms are given
    /// ([`sample`]); `None` if the case does not say.
    pub metrics: Option<Vec<String>>,
    /// The record for logs, every member of it; `None` if the case does not say.
    pub record: Option<Map<String, Value>>,
}

/// What the client must get.
#[derive(Clone, Debug)]
pub struct Client {
    /// The status.
    pub status: u16,
    /// Headers that must be there, in one line each, or (`None`) must not.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    /// Members of the problem document; `null` for one that must not be there.
    pub problem: Option<Map<String, Value>>,
    /// The body, byte for byte.
    pub body: Option<Vec<u8>>,
    /// All trailers.
    pub trailers: Option<Headers>,
}

/// A policy that must not start, and the JSON pointers of all its errors.
#[derive(Clone, Debug)]
pub struct StartErrors {
    /// Its name, unique in its file.
    pub name: String,
    /// The policy document.
    pub policy: Vec<u8>,
    /// The VM's environment variables.
    pub environment: BTreeMap<String, String>,
    /// The JSON pointers, each as often as there are errors at it, in any order.
    pub pointers: Vec<String>,
}

/// What a run of a case came to.
#[derive(Clone, Debug, Default)]
pub struct CaseOutcome {
    /// What the upstream got, pseudo headers included; `None` if it never heard of the request.
    pub upstream: Option<Message>,
    /// What the client got, with `:status`; `None` if it waits for ever.
    pub client: Option<Message>,
    /// The series that counted the exchange, sorted, each as often as it counted.
    pub metrics: Vec<String>,
    /// The record that the filter gave to the access log.
    pub record: Option<Map<String, Value>>,
    /// What was logged, to be shown when something differs.
    pub log: Vec<String>,
    /// What went wrong besides: traps, host calls nobody implements, a probe that found the filter broken.
    pub failures: Vec<String>,
}

/// A value that a histogram was given, as [`Case::metrics`] has it.
pub fn sample(histogram: &str, value: u64) -> String {
    format!("{histogram} {value}")
}

impl StartErrors {
    /// Everything in which a policy's errors, each as `pointer: message`, are not those expected; none is a start.
    pub fn compare(&self, errors: &[String]) -> Vec<Difference> {
        let mut expected = self.pointers.clone();
        let mut seen: Vec<String> = errors.iter().map(|error| pointer(error).to_owned()).collect();
        expected.sort();
        seen.sort();
        let told = |errors: &[String]| if errors.is_empty() { "a start".to_owned() } else { errors.join("\n      ") };
        let what = "the pointers of the policy's errors".to_owned();
        if expected == seen {
            Vec::new()
        } else {
            vec![Difference { what, expected: told(&expected), seen: told(errors) }]
        }
    }
}

/// The JSON pointer in front of an error; the document as a whole is the empty one.
fn pointer(error: &str) -> &str {
    match error.split_once(": ").map_or(error, |(pointer, _)| pointer) {
        "(document)" => "",
        pointer => pointer,
    }
}

/// Where the case files of this repository are.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cases")
}

/// The root of this repository, which `policy_file` is relative to.
pub fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Loads every `*.json` of a directory, by name.
///
/// # Errors
/// Everything that is wrong with the files: what cannot be read, unknown members, names used twice, no case at all.
pub fn load_dir(directory: &Path) -> Result<Vec<CaseFile>, String> {
    let entries = std::fs::read_dir(directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(|error| format!("{}: {error}", directory.display()))?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    let (mut files, mut errors) = (Vec::new(), Vec::new());
    for path in &paths {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
        match text.and_then(|text| parse(stem(path), &text)) {
            Ok(file) => files.push(file),
            Err(error) => errors.push(format!("{}: {error}", path.display())),
        }
    }
    if paths.is_empty() {
        errors.push(format!("{}: no case files", directory.display()));
    }
    if errors.is_empty() { Ok(files) } else { Err(errors.join("\n")) }
}

/// Reads one case file.
///
/// # Errors
/// What is wrong with it.
pub fn parse(name: &str, text: &str) -> Result<CaseFile, String> {
    format::File::read(text)?.finish(name)
}

fn stem(path: &Path) -> &str {
    path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default()
}

/// What a test says of a run: nothing, or all differences and the log.
///
/// # Errors
/// There are differences.
pub fn verdict(differences: &[Difference], log: &[String]) -> Result<(), String> {
    if differences.is_empty() {
        return Ok(());
    }
    let mut lines: Vec<String> = differences.iter().map(ToString::to_string).collect();
    lines.extend(log.iter().map(|line| format!("log: {line}")));
    Err(lines.join("\n"))
}
