//! What docs/clients.md says of libraries that retry: two tables, which are made of the expectations, and parts of the example files.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::{Context as _, Result, ensure};
use harness::tools::repository;

use super::recipe::{Expected, RECIPES, Recipe};
use super::situations::Situation;

const END: &str = "<!-- The end of the table. -->\n";

fn page() -> PathBuf {
    repository().join("docs/clients.md")
}

fn begin(what: &str) -> String {
    format!("<!-- The test `recipes` checks this table of libraries {what}; UPDATE_DOCS=1 writes it. -->\n")
}

/// Compares the tables of the page with the expectations; `UPDATE_DOCS=1` writes them.
pub(crate) fn tables() -> Result<()> {
    let old = fs::read_to_string(page())?;
    let mut new = old.clone();
    for (what, is_configured) in [("with the configuration of their files", true), ("without configuration", false)] {
        let begin = begin(what);
        let (before, rest) =
            new.split_once(&begin).with_context(|| format!("docs/clients.md has no place for {begin}"))?;
        let (_, after) =
            rest.split_once(END).with_context(|| format!("docs/clients.md has no end of the table after {begin}"))?;
        let recipes = RECIPES.iter().filter(|recipe| recipe.is_configured == is_configured);
        new = format!("{before}{begin}{}{END}{after}", table(recipes));
    }
    if env::var_os("UPDATE_DOCS").is_some() {
        return fs::write(page(), new).context("docs/clients.md cannot be written");
    }
    ensure!(old == new, "docs/clients.md has other tables than the expectations: UPDATE_DOCS=1 writes them");
    Ok(())
}

fn table<'r>(recipes: impl Iterator<Item = &'r Recipe>) -> String {
    let headings: Vec<_> = Situation::ALL.iter().map(|situation| situation.heading()).collect();
    let mut table = format!("| library | {} |\n|---|{}\n", headings.join(" | "), "---|".repeat(headings.len()));
    let mut rows: Vec<_> = recipes.collect();
    rows.sort_by_key(|recipe| recipe.label.to_lowercase());
    for recipe in rows {
        let cells: Vec<_> = recipe.expected.iter().map(cell).collect();
        table += &format!("| {} | {} |\n", recipe.label, cells.join(" | "));
    }
    table
}

fn cell(expected: &Expected) -> String {
    let Expected { attempts, told, obeys } = expected;
    let told = if told.parse::<u16>().is_ok() { (*told).to_owned() } else { format!("`{told}`") };
    match (attempts, told.as_str(), obeys) {
        (1, ..) => told,
        (_, "200", true) => "**again**, in time".to_owned(),
        (_, "200", false) => "**again**".to_owned(),
        _ => format!("again, then {told}"),
    }
}

/// A block of code in the page, and the file that is named last before it.
struct Snippet<'p> {
    file: &'p str,
    text: Vec<&'p str>,
}

/// The text of each example stands in the page as it stands in its file.
pub(crate) fn snippets() -> Result<()> {
    let page = fs::read_to_string(page())?;
    let snippets = blocks(&page)?;
    let folder = repository().join("examples/retries");
    let mut files: Vec<String> = fs::read_dir(&folder)?
        .filter_map(|entry| entry.ok().filter(|entry| entry.path().is_file()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    files.push("reqwest/src/lib.rs".to_owned());
    for file in &files {
        ensure!(
            snippets.iter().any(|snippet| snippet.file == file),
            "docs/clients.md shows nothing of examples/retries/{file}"
        );
    }
    for Snippet { file, text } in snippets {
        ensure!(
            stands_in(&folder.join(file), &text)?,
            "examples/retries/{file} does not have this text of docs/clients.md: {text:#?}"
        );
    }
    Ok(())
}

/// Whether the lines stand in the file, all of them moved to the right by as many spaces or one tab.
fn stands_in(file: &Path, lines: &[&str]) -> Result<bool> {
    let content = fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?;
    Ok(["", "  ", "    ", "        ", "\t"].iter().any(|margin| {
        let moved =
            lines.iter().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("{margin}{line}\n") });
        content.contains(&moved.collect::<String>())
    }))
}

/// The blocks of the two sections about libraries.
fn blocks(page: &str) -> Result<Vec<Snippet<'_>>> {
    let (_, rest) = page.split_once("\n## Existing SDKs\n").context("no section about SDKs")?;
    let (section, _) =
        rest.split_once("\n**Refusals and connections.**").context("no end of the section about libraries")?;
    let (mut found, mut file, mut open): (Vec<Snippet<'_>>, &str, bool) = (Vec::new(), "", false);
    for line in section.lines() {
        if line.starts_with("```") {
            if !open {
                ensure!(!file.is_empty(), "a block of code without a link to its file: {line}");
                found.push(Snippet { file, text: Vec::new() });
            }
            open = !open;
        } else if open {
            found.last_mut().context("no block")?.text.push(line);
        } else if let Some((_, link)) = line.split_once("(../examples/retries/") {
            file = link.split_once(')').context("a link without end")?.0;
        }
    }
    Ok(found)
}
