//! The table of docs/security.md: what the backends make of the lines that have an `about`, without the filter in front of them.

use std::{env, fs};

use anyhow::{Context as _, Result, ensure};
use e2e::raw::Request;
use harness::tools::repository;

use super::backends::{BACKENDS, Reading};
use super::{PathLine, PathReadersSetup};

const BEGIN: &str = "<!-- The test `path_readers` measures this table; UPDATE_DOCS=1 writes it. -->\n";
const END: &str = "<!-- The end of the table. -->\n";

/// Compares the table of the page with what is measured; `UPDATE_DOCS=1` writes it. Without all five backends nothing can be said.
pub(crate) fn check(setup: &PathReadersSetup, lines: &[PathLine]) -> Result<()> {
    if setup.backends.len() < BACKENDS.len() {
        eprintln!("SKIPPED: a backend is missing, so the table of docs/security.md is not compared");
        return Ok(());
    }
    let table = table(setup, lines)?;
    let path = repository().join("docs/security.md");
    let page = fs::read_to_string(&path)?;
    let (before, rest) = page.split_once(BEGIN).context("docs/security.md has no place for the table")?;
    let (_, after) = rest.split_once(END).context("the table of docs/security.md has no end")?;
    let measured = format!("{before}{BEGIN}{table}{END}{after}");
    if env::var_os("UPDATE_DOCS").is_some() {
        return fs::write(&path, measured).context("docs/security.md cannot be written");
    }
    ensure!(page == measured, "docs/security.md has another table than this, UPDATE_DOCS=1 writes it:\n{table}");
    Ok(())
}

fn table(setup: &PathReadersSetup, lines: &[PathLine]) -> Result<String> {
    let names: Vec<&str> = BACKENDS.iter().map(|(_, name)| *name).collect();
    let mut table = format!("| the client sends | | {} | the filter |\n", names.join(" | "));
    table += &format!("|---|---|{}---|\n", "---|".repeat(names.len()));
    for line in lines {
        let Some(about) = &line.about else { continue };
        let request = Request::new(&line.method, line.target.as_str());
        table += &format!("| `{} {}` | {about} |", line.method, line.target);
        for backend in &setup.backends {
            let cell = match backend.ask(&request)? {
                Reading::Route { name, .. } => format!("`{name}`"),
                Reading::Status(0) => "closes".to_owned(),
                Reading::Status(status) => status.to_string(),
            };
            table += &format!(" {cell} |");
        }
        table += &match line.filter.as_str() {
            "refused" => " 400 |\n".to_owned(),
            "closed" => " 404 |\n".to_owned(),
            "nothing" => " `unmatched` |\n".to_owned(),
            other => format!(" `{other}` |\n"),
        };
    }
    Ok(table)
}
