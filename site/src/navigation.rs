//! `docs/SUMMARY.md` has all pages of the site, in the order of the navigation.

use crate::paths;
use anyhow::{Context as _, Result, ensure};
use pulldown_cmark::{Event, Parser, Tag};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The folder that the links of the navigation begin in.
pub const DOCS: &str = "docs";
/// The navigation, in that folder.
pub const SUMMARY: &str = "SUMMARY.md";

/// The pages of the site: each with its file in the repository, and its file for mdBook.
pub struct Navigation {
    pages: BTreeMap<String, String>,
}

impl Navigation {
    /// Reads it, and fails if a page below docs/ is not in it.
    pub fn read(repository: &Path) -> Result<Self> {
        let file = repository.join(DOCS).join(SUMMARY);
        let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
        let mut pages = BTreeMap::new();
        for event in Parser::new(&text) {
            let Event::Start(Tag::Link { dest_url, .. }) = event else { continue };
            let source = paths::join(DOCS, &dest_url).with_context(|| format!("{SUMMARY}: {dest_url}"))?;
            let in_site = staged(&source);
            ensure!(pages.insert(source, in_site).is_none(), "{SUMMARY} has {dest_url} twice");
        }
        let navigation = Self { pages };
        let mut below = Vec::new();
        markdown_below(repository, DOCS, &mut below)?;
        let missing: Vec<_> = below.into_iter().filter(|page| navigation.in_site(page).is_none()).collect();
        ensure!(missing.is_empty(), "{DOCS}/{SUMMARY} leaves out {}: add a line for it", missing.join(", "));
        Ok(navigation)
    }

    /// The name that a page of the repository has for mdBook. The navigation itself stands beside every page.
    pub fn in_site(&self, page: &str) -> Option<&str> {
        if page == format!("{DOCS}/{SUMMARY}") { Some("index.md") } else { self.pages.get(page).map(String::as_str) }
    }

    /// All pages: the file in the repository, and the name for mdBook.
    pub fn pages(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pages.iter().map(|(source, staged)| (source.as_str(), staged.as_str()))
    }
}

/// The pages of docs/ are at the top of the site; those that stand beside the code are in the folder `repository`.
fn staged(source: &str) -> String {
    match source.strip_prefix("docs/") {
        Some(page) => page.replace("README.md", "index.md"),
        None => format!("repository/{}", source.replace("/README.md", ".md")),
    }
}

fn markdown_below(repository: &Path, folder: &str, found: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(repository.join(folder)).with_context(|| folder.to_owned())? {
        let entry = entry?;
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            markdown_below(repository, &path, found)?;
        } else if path.ends_with(".md") {
            found.push(path);
        }
    }
    Ok(())
}
