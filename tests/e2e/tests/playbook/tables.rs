//! The tables: text with commas, names of columns in the first line. No value has a comma or a quote.

use std::fmt;

use anyhow::{Result, ensure};

/// A row. A column that the table does not have is empty.
#[derive(Clone)]
pub(crate) struct TableRow {
    values: Vec<(&'static str, &'static str)>,
    line: usize,
}

impl TableRow {
    pub(crate) fn get(&self, column: &str) -> &'static str {
        self.values.iter().find(|(name, _)| *name == column).map_or("", |(_, value)| value)
    }
}

impl fmt::Display for TableRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let values: Vec<&str> = self.values.iter().map(|(_, value)| *value).collect();
        write!(f, "line {} ({})", self.line, values.join(", "))
    }
}

/// The rows of each scenario, in order. The rows of a scenario stand together.
pub(crate) fn scenarios(text: &'static str, columns: &[&'static str]) -> Result<Vec<(&'static str, Vec<TableRow>)>> {
    let mut lines = text.lines().enumerate();
    let head = lines.next().map_or("", |(_, line)| line);
    ensure!(head.split(',').eq(columns.iter().copied()), "the columns are {head}");
    let mut scenarios: Vec<(&'static str, Vec<TableRow>)> = Vec::new();
    for (index, line) in lines {
        let values: Vec<(&'static str, &'static str)> = columns.iter().copied().zip(line.split(',')).collect();
        let row = TableRow { values, line: index + 1 };
        ensure!(line.split(',').count() == columns.len(), "{row} has another number of values");
        let name = row.get("scenario");
        match scenarios.iter_mut().find(|(known, _)| *known == name) {
            Some((_, rows)) => {
                ensure!(rows.last().is_some_and(|last| last.line == index), "{row} stands apart");
                rows.push(row);
            }
            None => scenarios.push((name, vec![row])),
        }
    }
    Ok(scenarios)
}
