//! What docs/callers.md says of libraries that retry: a table that is made of the expectations.

use std::{env, fs};

use anyhow::{Context as _, Result, ensure};
use harness::tools::repository;

use super::recipe::{Expected, RECIPES, Recipe};
use super::situations::Situation;

const BEGIN: &str = "<!-- The test `recipes` checks this table of libraries; UPDATE_DOCS=1 writes it. -->\n";
const END: &str = "<!-- The end of the table. -->\n";
/// How many situations call for another request; in those after them another one is useless, or does the work twice.
const TO_REPEAT: usize = 6;

/// Compares the table of the page with the expectations; `UPDATE_DOCS=1` writes it.
pub(crate) fn table() -> Result<()> {
    let page = repository().join("docs/callers.md");
    let old = fs::read_to_string(&page)?;
    let (before, rest) = old.split_once(BEGIN).context("docs/callers.md has no place for the table")?;
    let (_, after) = rest.split_once(END).context("docs/callers.md has no end of the table")?;
    let mut labels: Vec<_> = RECIPES.iter().map(|recipe| recipe.label).collect();
    labels.sort_by_key(|label| label.to_lowercase());
    labels.dedup();
    let mut table = "| library | as it comes | with the file |\n|---|---|---|\n".to_owned();
    for label in labels {
        let cell = |is_configured| {
            let fits = |recipe: &&Recipe| recipe.label == label && recipe.is_configured == is_configured;
            RECIPES.iter().find(fits).map_or_else(|| "-".to_owned(), |recipe| faults(&recipe.expected))
        };
        table += &format!("| {label} | {} | {} |\n", cell(false), cell(true));
    }
    let new = format!("{before}{BEGIN}{table}{END}{after}");
    if env::var_os("UPDATE_DOCS").is_some() {
        return fs::write(&page, new).context("docs/callers.md cannot be written");
    }
    ensure!(old == new, "docs/callers.md has another table than the expectations: UPDATE_DOCS=1 writes it");
    Ok(())
}

/// What a library does that it should not do.
fn faults(expected: &[Expected]) -> String {
    let headings = |is_fault: fn(usize, &Expected) -> bool| {
        let found = Situation::ALL.iter().zip(expected).enumerate().filter(|(at, (_, one))| is_fault(*at, one));
        found.map(|(_, (situation, _))| situation.heading()).collect::<Vec<_>>().join(", ")
    };
    let missed = headings(|at, one| at < TO_REPEAT && (one.attempts == 1 || one.told != "200"));
    let early = headings(|at, one| at < 2 && one.attempts > 1 && !one.obeys);
    let vain = headings(|at, one| at >= TO_REPEAT && one.attempts > 1);
    if expected.iter().all(|one| one.attempts == 1) {
        return "repeats nothing".to_owned();
    }
    let parts = [("does not repeat", missed), ("does not wait after", early), ("repeats", vain)];
    let told: Vec<_> = parts.iter().filter(|(_, on)| !on.is_empty()).map(|(what, on)| format!("{what} {on}")).collect();
    if told.is_empty() { "right".to_owned() } else { told.join("; ") }
}
