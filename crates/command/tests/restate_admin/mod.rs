//! `edge-idempotency keys` and `retention` against a listener in the place of Restate: there is none, a broken one or something else, and
//! answers that a real one cannot be made to give. `tests/e2e/tests/admin` has the real one.

mod asking;
mod failures;
mod partial;
mod stand_in;

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// The command's path.
fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_edge-idempotency"))
}

/// What a run of the command left.
#[derive(Debug)]
struct Ran {
    code: i32,
    stdout: String,
    stderr: String,
}

impl Ran {
    fn exits(self, code: i32) -> Result<Self> {
        ensure!(self.code == code, "exit status {} instead of {code}\n{}\n{}", self.code, self.stdout, self.stderr);
        Ok(self)
    }

    /// One of the two outputs has the text.
    fn says(&self, text: &str) -> Result<()> {
        ensure!(self.stdout.contains(text) || self.stderr.contains(text), "`{text}` is not in {self:?}");
        Ok(())
    }

    fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.stdout).with_context(|| format!("{self:?}"))
    }

    /// The audit lines: what each is about, and its result.
    fn audit(&self) -> Result<Vec<(String, String)>> {
        let lines = self.stdout.lines().map(|line| {
            let line: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
            let member = |name: &str| line.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
            ensure!(
                !member("time").is_empty() && !member("who").is_empty() && member("key").starts_with("sha256:"),
                "{line}"
            );
            Ok((member("what"), member("result")))
        });
        lines.collect()
    }
}

/// Runs the command without a terminal.
fn run_command<A: AsRef<OsStr>>(
    admin: &str,
    environment: &[(&str, &str)],
    args: impl IntoIterator<Item = A>,
) -> Result<Ran> {
    let output = Command::new(program())
        .args(args)
        .env_remove("RESTATE_AUTH_TOKEN")
        .env("RESTATE_ADMIN_URL", admin)
        .env("USER", "tester")
        .envs(environment.iter().copied())
        .stdin(Stdio::null())
        .output()?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).context("output that is not UTF-8");
    Ok(Ran {
        code: output.status.code().context("the command was ended by a signal")?,
        stdout: text(output.stdout)?,
        stderr: text(output.stderr)?,
    })
}
