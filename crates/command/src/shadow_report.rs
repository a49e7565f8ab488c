//! `shadow-report`: what enforcing would refuse, counted from access logs. Memory is bounded by the number of groups and of
//! keys, and not by the number of lines.

mod groups;
mod print;
mod raw_keys;

use crate::lines::{InputLine, LogLines};
use crate::record::ShadowFacts;
use groups::Groups;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use raw_keys::RawKeys;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// After how many lines the number of lines is shown anew.
const LINES_A_MESSAGE: u64 = 1 << 16;

/// Which lines count. Times are compared as texts: `2026-11-22T04:05:06.789Z` is after `2026-11-22`.
#[derive(Debug, Default)]
pub(crate) struct TimeRange {
    /// The first time that counts.
    pub(crate) since: Option<String>,
    /// The first time that counts no more.
    pub(crate) until: Option<String>,
}

impl TimeRange {
    /// A line without a time is in the whole range only.
    fn has(&self, time: Option<&str>) -> bool {
        match time {
            Some(time) => {
                self.since.as_deref().is_none_or(|since| time >= since)
                    && self.until.as_deref().is_none_or(|until| time < until)
            }
            None => self.since.is_none() && self.until.is_none(),
        }
    }
}

/// What was read.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// Requests that enforcing would refuse.
    refusals: Groups<7, Refusals>,
    /// Requests without a route that were refused: method, path and code.
    unrouted: Groups<3, Refusals>,
    /// Deliveries to webhook routes, which have no shadow mode, by their endpoints.
    webhooks: Groups<1, Totals>,
    tenants: Groups<1, Totals>,
    endpoints: Groups<1, Totals>,
    /// Of all requests but deliveries.
    totals: Totals,
    /// Of all webhook routes.
    deliveries: u64,
    raw_keys: RawKeys,
    /// Lines that are not empty.
    lines: u64,
    not_json: LeftOut,
    no_record: LeftOut,
    too_long: LeftOut,
    outside_range: LeftOut,
    errors: Vec<FileError>,
}

/// Requests of one tenant, endpoint, policy, code and reason that enforcing would refuse; without an endpoint of one method and
/// path, too.
#[derive(Debug, Default)]
struct Refusals {
    count: u64,
    first: Option<String>,
    last: Option<String>,
}

impl Refusals {
    fn count(&mut self, time: Option<&str>) {
        self.count += 1;
        let Some(time) = time else { return };
        if self.first.as_deref().is_none_or(|first| time < first) {
            self.first = Some(time.to_owned());
        }
        if self.last.as_deref().is_none_or(|last| time > last) {
            self.last = Some(time.to_owned());
        }
    }
}

/// Counts of requests.
#[derive(Debug, Default, Clone, Copy)]
struct Totals {
    requests: u64,
    /// Enforcing would refuse them.
    would_be_refused: u64,
    /// Enforcing would rewrite their key.
    would_be_rewritten: u64,
    /// They were refused, since their route enforces, or since shadow mode does not hold for the rule.
    refused: u64,
}

impl Totals {
    fn count(&mut self, facts: &ShadowFacts<'_>) {
        self.requests += 1;
        match facts.shadow.as_deref() {
            Some("refuse") => self.would_be_refused += 1,
            Some("rewrite") => self.would_be_rewritten += 1,
            _ => {}
        }
        if matches!(facts.outcome.as_deref(), Some("rejected" | "conflict")) {
            self.refused += 1;
        }
    }

    /// The part of the requests that would be refused; from 0 to 1.
    #[allow(clippy::cast_precision_loss, reason = "a share is shown with a few digits")]
    fn share(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.would_be_refused as f64 / self.requests as f64 }
    }
}

/// Lines that were not counted for one reason.
#[derive(Debug, Default)]
struct LeftOut {
    count: u64,
    /// File and line of the first one.
    first: Option<(String, u64)>,
}

impl LeftOut {
    fn add(&mut self, file: &Path, line: u64) {
        self.count += 1;
        self.first.get_or_insert_with(|| (file.display().to_string(), line));
    }
}

/// A file that could not be read to its end. The lines before the error count.
#[derive(Debug)]
struct FileError {
    file: String,
    lines_read: u64,
    message: String,
}

impl Report {
    /// Reads the files in turn. Progress is shown on standard error if that is a terminal.
    pub(crate) fn read(files: &[PathBuf], range: &TimeRange) -> Self {
        let progress = progress(files);
        let mut report = Self::default();
        for file in files {
            progress.set_message(crate::explain::terminal_text::printable(&file.display().to_string()).into_owned());
            let mut lines_read = 0;
            if let Err(error) = report.read_file(file, range, &progress, &mut lines_read) {
                report.errors.push(FileError {
                    file: file.display().to_string(),
                    lines_read,
                    message: error.to_string(),
                });
            }
        }
        progress.finish_and_clear();
        report
    }

    fn read_file(
        &mut self,
        file: &Path,
        range: &TimeRange,
        progress: &ProgressBar,
        lines_read: &mut u64,
    ) -> std::io::Result<()> {
        let mut lines = LogLines::open(file, progress)?;
        loop {
            let number = lines.number() + 1;
            match lines.next()? {
                None => return Ok(()),
                Some(InputLine::TooLong) => {
                    self.lines += 1;
                    self.too_long.add(file, number);
                }
                Some(InputLine::Text(line)) if line.trim_ascii().is_empty() => {}
                Some(InputLine::Text(line)) => {
                    self.lines += 1;
                    match ShadowFacts::parse(line) {
                        Err(_) => self.not_json.add(file, number),
                        Ok(facts) if facts.outcome.is_none() => self.no_record.add(file, number),
                        Ok(facts) if !range.has(facts.time.as_deref()) => self.outside_range.add(file, number),
                        Ok(facts) => self.count(&facts),
                    }
                }
            }
            *lines_read = number;
            if number.is_multiple_of(LINES_A_MESSAGE) {
                progress.set_prefix(format!("{} lines", self.lines));
            }
        }
    }

    fn count(&mut self, facts: &ShadowFacts<'_>) {
        if facts.case.as_deref() == Some("B") {
            self.webhooks.at([facts.endpoint.as_deref()], |totals| totals.count(facts));
            self.deliveries += 1;
            return;
        }
        self.totals.count(facts);
        self.raw_keys.count(facts);
        self.tenants.at([facts.tenant.as_deref()], |totals| totals.count(facts));
        self.endpoints.at([facts.endpoint.as_deref()], |totals| totals.count(facts));
        let time = facts.time.as_deref();
        let (method, path) =
            if facts.endpoint.is_none() { (facts.method.as_deref(), facts.path.as_deref()) } else { (None, None) };
        if facts.shadow.as_deref() == Some("refuse") {
            let names = [&facts.tenant, &facts.endpoint, &facts.policy, &facts.code, &facts.reason];
            let [tenant, endpoint, policy, code, reason] = names.map(Option::as_deref);
            let names = [tenant, endpoint, policy, code, reason, method, path];
            self.refusals.at(names, |refusals| refusals.count(time));
        } else if path.is_some() && facts.outcome.as_deref() == Some("rejected") {
            self.unrouted.at([method, path, facts.code.as_deref()], |refusals| refusals.count(time));
        }
    }

    /// Whether everything could be read, and there was something.
    pub(crate) fn is_complete(&self) -> bool {
        self.errors.is_empty() && self.totals.requests + self.deliveries > 0
    }

    /// Whether more than this part of the requests would be refused, in percent.
    pub(crate) fn is_over(&self, percent: f64) -> bool {
        self.totals.share() * 100.0 > percent
    }
}

/// Shows the bytes and lines of all files; hidden unless standard error is a terminal.
fn progress(files: &[PathBuf]) -> ProgressBar {
    let sizes: Option<Vec<u64>> = files
        .iter()
        .map(|file| std::fs::metadata(file).ok().filter(std::fs::Metadata::is_file).map(|data| data.len()))
        .collect();
    let (length, template) = match sizes {
        Some(sizes) => {
            (Some(sizes.iter().sum()), "{bytes} of {total_bytes}, {prefix}, {bytes_per_sec}, {eta} left  {msg}")
        }
        None => (None, "{bytes}, {prefix}, {bytes_per_sec}  {msg}"),
    };
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar.set_prefix("0 lines");
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}
