//! Files, standard input and variables that commands read.

use crate::lines;
use crate::output::{print_document, tell};
use edge_idempotency_engine::{Policy, PolicyErrors};
use serde_json::json;
use std::ffi::OsString;
use std::io::Read;
use std::path::Path;

/// A variable of this command's environment.
pub(crate) fn variable(name: &str) -> Option<Vec<u8>> {
    std::env::var_os(name).map(OsString::into_encoded_bytes)
}

/// A policy; `None` if the document was read and is no policy: then its errors have been printed.
pub(crate) fn read_policy(file: &Path, as_json: bool) -> Result<Option<Policy>, String> {
    compiled(&read(file)?, file, as_json)
}

/// A policy and the members of its document; `None` if it was read and is no policy: then its errors have been printed.
pub(crate) fn read_policy_document(file: &Path, as_json: bool) -> Result<Option<(Policy, serde_json::Value)>, String> {
    let bytes = read(file)?;
    let Some(policy) = compiled(&bytes, file, as_json)? else { return Ok(None) };
    let document = serde_json::from_slice(&bytes).map_err(|error| format!("{}: {error}", file.display()))?;
    Ok(Some((policy, document)))
}

fn compiled(document: &[u8], file: &Path, as_json: bool) -> Result<Option<Policy>, String> {
    match Policy::from_json(document) {
        Ok(policy) => Ok(Some(policy)),
        Err(errors) => {
            if as_json {
                print_document(&json!({"errors": issues(&errors.0)}).to_string())?;
            }
            let PolicyErrors(list) = &errors;
            tell!("{}: {}", file.display(), errors.headline());
            list.iter().for_each(|error| tell!("  {error}"));
            Ok(None)
        }
    }
}

fn issues(list: &[edge_idempotency_engine::json::Issue]) -> serde_json::Value {
    list.iter().map(|issue| json!({"pointer": issue.pointer, "message": issue.message})).collect()
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = if path == Path::new("-") {
        std::io::stdin().lock().read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|mut file| file.read_to_end(&mut bytes))
    };
    read.map(|_| bytes).map_err(|error| format!("{}: {error}", path.display()))
}

/// The first line of standard input that is not empty, and the number of those behind it. All of the input is read, so that
/// the command that writes it does not fail; only one line is kept.
///
/// # Errors
/// Standard input cannot be read, or its first line is longer than 1 MiB.
pub(crate) fn first_line_of_input() -> Result<(Option<String>, usize), String> {
    let error = |error: std::io::Error| format!("standard input: {error}");
    let mut lines = lines::LogLines::open(Path::new("-"), &indicatif::ProgressBar::hidden()).map_err(error)?;
    let (mut first, mut more) = (None, 0);
    while let Some(line) = lines.next().map_err(error)? {
        match line {
            lines::InputLine::Text(text) if text.trim_ascii().is_empty() => {}
            _ if first.is_some() => more += 1,
            lines::InputLine::Text(text) => first = Some(String::from_utf8_lossy(text).into_owned()),
            lines::InputLine::TooLong => return Err("the line is longer than 1 MiB: it is no line of a log".to_owned()),
        }
    }
    Ok((first, more))
}
