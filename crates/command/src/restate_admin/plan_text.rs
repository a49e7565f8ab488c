//! A plan for people.

use super::connection::Admin;
use super::durations::{exact, seconds_of};
use super::plan::{Plan, Row, SETTING, State};
use crate::explain::terminal_text::printable;
use std::fmt::Write as _;

impl Plan {
    /// The plan: a line for each setting, with a sign before it, and below it what to write where this command cannot change it.
    pub(crate) fn to_text(&self, admin: &Admin, policy: &str) -> String {
        let mut text = format!("{policy} and Restate {} at {}\n\n", printable(&admin.version), admin.address());
        let width = self.rows.iter().map(|row| name(row).chars().count()).max().unwrap_or_default();
        for row in &self.rows {
            let name = name(row);
            let _ = writeln!(text, "{} {name:width$}  {SETTING}  {}", sign(row), value(row));
            for note in &row.notes {
                let _ = writeln!(text, "      {}", printable(note));
            }
        }
        if !self.undeclared.is_empty() {
            text.push_str("\nServices of targets for which the policy declares no retention:\n");
            for (service, actual) in &self.undeclared {
                let _ = writeln!(text, "  {}: {}", printable(service), printable(actual));
            }
        }
        text.push('\n');
        text.push_str(&self.summary());
        text
    }

    fn summary(&self) -> String {
        if self.is_clean() {
            return "Restate has what the policy declares.".to_owned();
        }
        let counts = [
            (State::Change, "to change"),
            (State::Clamped, "held back by the server's limit"),
            (State::ByHand, "to change by hand"),
            (State::Missing, "of services that Restate does not know"),
            (State::Refused, "refused"),
            (State::Equal, "as declared"),
            (State::Unkeyed, "of handlers without keys"),
        ];
        let counts = counts.into_iter().map(|(state, what)| (self.count(state), what)).filter(|(count, _)| *count > 0);
        let counts: Vec<String> = counts.map(|(count, what)| format!("{count} {what}")).collect();
        format!("Settings: {}.", counts.join(", "))
    }
}

fn name(row: &Row) -> String {
    let handler = row.handler.as_ref().map(|handler| format!("/{handler}")).unwrap_or_default();
    printable(&format!("{}{handler}", row.declared.service)).into_owned()
}

const fn sign(row: &Row) -> char {
    match row.state {
        State::Equal | State::Unkeyed => '=',
        State::Change => '~',
        _ => '!',
    }
}

/// `1d`, or `1d -> 7d`, and why.
fn value(row: &Row) -> String {
    let because = match &row.declared.class {
        None => "backend.guard.retention".to_owned(),
        Some(class) => format!("class {class}"),
    };
    let because = format!("  ({})", printable(&because));
    let actual = row.actual.as_deref().map(|actual| seconds_of(actual).map_or_else(|| actual.to_owned(), exact));
    match (actual, row.state) {
        (Some(actual), State::Equal | State::Unkeyed) => {
            let done = if row.applied { "changed to " } else { "" };
            format!("{done}{}{because}", printable(&actual))
        }
        (Some(actual), _) => format!("{} -> {}{because}", printable(&actual), printable(&row.wish())),
        (None, _) => format!("-> {}{because}", printable(&row.wish())),
    }
}
