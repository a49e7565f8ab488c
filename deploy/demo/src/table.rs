//! What was expected and what was seen.

use std::fmt::Display;

use crate::style::Style;

/// One thing that was looked at.
struct Row {
    step: usize,
    what: String,
    expected: String,
    seen: String,
}

impl Row {
    fn ok(&self) -> bool {
        self.expected == self.seen
    }
}

/// The story's ledger: every check of every step.
#[derive(Default)]
pub(crate) struct Table {
    steps: Vec<String>,
    rows: Vec<Row>,
    /// The numbers of the steps that were not played, and why.
    left_out: Vec<(usize, String)>,
}

impl Table {
    /// Opens a step and gives its number.
    pub(crate) fn step(&mut self, title: &str) -> usize {
        self.steps.push(title.to_owned());
        self.steps.len()
    }

    /// Opens a step that is not played, and gives its number. `why` also says what to do about it.
    pub(crate) fn leave_out(&mut self, title: &str, why: &str) -> usize {
        let number = self.step(title);
        self.left_out.push((number, why.to_owned()));
        number
    }

    /// Adds a check to the step that is open. Both sides are compared as they are shown; a difference is told.
    pub(crate) fn check(&mut self, what: &str, expected: impl Display, seen: impl Display) -> Option<String> {
        let (expected, seen) = (expected.to_string(), seen.to_string());
        let row = Row { step: self.steps.len(), what: what.to_owned(), expected, seen };
        let difference = (!row.ok()).then(|| format!("{what}: expected {}, seen {}", row.expected, row.seen));
        self.rows.push(row);
        difference
    }

    /// Whether everything was as expected, and there was something to expect.
    pub(crate) fn ok(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(Row::ok)
    }

    /// `14 steps, 60 checks, 60 as expected`, and what was left out, each reason once.
    pub(crate) fn count(&self) -> String {
        let right = self.rows.iter().filter(|row| row.ok()).count();
        let wrong = self.rows.len() - right;
        let played = self.steps.len() - self.left_out.len();
        let mut count = format!("{played} steps, {} checks, {right} as expected", self.rows.len());
        if wrong > 0 {
            count.push_str(&format!(", {wrong} NOT"));
        }
        let mut reasons: Vec<&str> = self.left_out.iter().map(|(_, why)| why.as_str()).collect();
        reasons.dedup();
        if !reasons.is_empty() {
            count.push_str(&format!(", {} steps left out: {}", self.left_out.len(), reasons.join("; ")));
        }
        count
    }

    /// The table, a block for each step.
    pub(crate) fn render(&self, style: Style) -> String {
        let width = |column: fn(&Row) -> &str, name: &str| {
            self.rows.iter().map(|row| column(row).chars().count()).chain([name.len()]).max().unwrap_or(0)
        };
        let what = width(|row| &row.what, "check");
        let expected = width(|row| &row.expected, "expected");
        let seen = width(|row| &row.seen, "seen");
        let mut text = format!("    {:what$}  {:expected$}  {:seen$}  ok\n", "check", "expected", "seen");
        for (index, title) in self.steps.iter().enumerate() {
            let number = index + 1;
            text.push_str(&style.bold(&format!("{number:>2}  {title}")));
            text.push('\n');
            for (_, why) in self.left_out.iter().filter(|(step, _)| *step == number) {
                text.push_str(&format!("    left out: {why}\n"));
            }
            for row in self.rows.iter().filter(|row| row.step == number) {
                let verdict = if row.ok() { style.green("ok") } else { style.red("DIFFERS") };
                let line = format!("    {:what$}  {:expected$}  {:seen$}  ", row.what, row.expected, row.seen);
                text.push_str(&line);
                text.push_str(&verdict);
                text.push('\n');
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::default();
        assert_eq!(table.step("First call"), 1);
        assert_eq!(table.check("status", 200, 200), None);
        assert_eq!(table.step("Retry"), 2);
        table.check("effects", 1, 1);
        table
    }

    #[test]
    fn all_as_expected() {
        let table = table();
        assert!(table.ok());
        assert_eq!(table.count(), "2 steps, 2 checks, 2 as expected");
        let expected = "    check    expected  seen  ok\n \
                        1  First call\n    status   200       200   ok\n \
                        2  Retry\n    effects  1         1     ok\n";
        assert_eq!(table.render(Style::plain()), expected);
    }

    #[test]
    fn a_difference_shows_and_counts() {
        let mut table = table();
        let difference = table.check("operation id", "inv_1", "inv_2");
        assert_eq!(difference.unwrap(), "operation id: expected inv_1, seen inv_2");
        assert!(!table.ok());
        assert_eq!(table.count(), "2 steps, 3 checks, 2 as expected, 1 NOT");
        assert!(table.render(Style::plain()).contains("operation id  inv_1     inv_2  DIFFERS\n"));
    }

    #[test]
    fn what_is_left_out_is_told_and_counted() {
        let mut table = table();
        for title in ["A webhook", "The store is down"] {
            table.leave_out(title, "no store");
        }
        assert!(table.ok());
        assert_eq!(table.count(), "2 steps, 2 checks, 2 as expected, 2 steps left out: no store");
        let text = table.render(Style::plain());
        assert!(
            text.ends_with(" 3  A webhook\n    left out: no store\n 4  The store is down\n    left out: no store\n"),
            "{text}"
        );
    }

    #[test]
    fn nothing_checked_is_not_success() {
        assert!(!Table::default().ok());
    }
}
