//! An audit line for each result that was to be purged: one JSON object (docs/contract.md section 11). It names the key as the
//! policy's `key_in_logs` says, and never what was stored.

use super::invocations::{Invocation, PurgeOutcome};
use crate::explain::terminal_text;
use crate::input::variable;
use edge_idempotency_engine::policy::KeyInLogs;
use edge_idempotency_engine::telemetry::key_in_logs;
use jiff::Timestamp;
use serde_json::{Map, json};
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Where audit lines go: to standard output, and to a file if one is named.
pub(crate) struct Audit {
    action: &'static str,
    admin: String,
    who: String,
    form: KeyInLogs,
    file: Option<(PathBuf, File)>,
}

/// What an audit line is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A stored result
    Result,
    /// A claim of the guard
    Claim,
    /// A call that a handler made
    Call,
}

impl Purpose {
    const fn name(self) -> &'static str {
        match self {
            Self::Result => "result",
            Self::Claim => "claim",
            Self::Call => "call",
        }
    }
}

impl Audit {
    /// Opens the file before anything is purged. `by`: who acts, else the user of this process.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn open(
        action: &'static str,
        admin: &str,
        by: Option<&str>,
        form: KeyInLogs,
        file: Option<&Path>,
    ) -> Result<Self, String> {
        let user = || {
            ["SUDO_USER", "USER", "LOGNAME"].into_iter().find_map(|name| variable(name).filter(|user| !user.is_empty()))
        };
        let who = match by {
            Some(by) => by.to_owned(),
            None => user().map_or_else(|| "unknown".to_owned(), |user| String::from_utf8_lossy(&user).into_owned()),
        };
        let file = file.map(|path| {
            // With `key_in_logs: full` the lines hold subjects, which is nothing for other users of the machine.
            let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path);
            file.map(|file| (path.to_owned(), file))
                .map_err(|error| format!("{}: {error}; nothing was purged", path.display()))
        });
        Ok(Self { action, admin: admin.to_owned(), who, form, file: file.transpose()? })
    }

    /// Writes a line, to each of the two places also if the other one fails. `about`: the namespaced key. `result`: what Restate
    /// said, or that it said nothing.
    ///
    /// # Errors
    /// One of the two cannot be written, or the reader of standard output has gone: whoever purges stops here. The error holds
    /// the line, because what it is about has happened.
    pub(crate) fn line(
        &mut self,
        purpose: Purpose,
        invocation: &Invocation,
        about: &str,
        result: &Result<PurgeOutcome, String>,
    ) -> Result<(), String> {
        let mut line = Map::new();
        line.insert("time".to_owned(), json!(Timestamp::now().to_string()));
        line.insert("who".to_owned(), json!(self.who));
        line.insert("action".to_owned(), json!(self.action));
        line.insert("what".to_owned(), json!(purpose.name()));
        line.insert("admin".to_owned(), json!(self.admin));
        line.insert("id".to_owned(), json!(invocation.id));
        line.insert("operation".to_owned(), json!(invocation.operation()));
        if let Some(key) = key_in_logs(self.form, about) {
            line.insert("key".to_owned(), json!(key));
        }
        let (word, detail) = match result {
            Ok(PurgeOutcome::Refused(detail)) => ("failed", Some(detail)),
            Ok(purged) => (purged.name(), None),
            Err(detail) => ("unknown", Some(detail)),
        };
        line.insert("result".to_owned(), json!(word));
        if let Some(detail) = detail {
            line.insert("detail".to_owned(), json!(detail));
        }
        let text = terminal_text::json_line(&line.into());
        let mut output = std::io::stdout().lock();
        let printed = writeln!(output, "{text}").and_then(|()| output.flush());
        let mut failures: Vec<String> =
            printed.err().map(|error| format!("standard output: {error}")).into_iter().collect();
        if let Some((path, file)) = &mut self.file {
            let is_file = file.metadata().is_ok_and(|metadata| metadata.is_file());
            let written = writeln!(file, "{text}").and_then(|()| if is_file { file.sync_data() } else { Ok(()) });
            failures.extend(written.err().map(|error| format!("{}: {error}", path.display())));
        }
        if failures.is_empty() {
            return Ok(());
        }
        Err(format!(
            "an audit line cannot be written, so nothing more is purged: {}. It is about what has happened:\n{text}",
            failures.join("; ")
        ))
    }
}
