//! The whole site.

use crate::navigation::{DOCS, Navigation, SUMMARY};
use crate::pages::{self, Needed};
use crate::sources::{self, write};
use anyhow::{Context as _, Result};
use mdbook_driver::MDBook;
use mdbook_driver::config::Config;
use std::fs;
use std::path::Path;

/// What `make playground` leaves: a page with what it needs, all with relative names.
const PLAYGROUND: &str = "dist/playground";
/// The line of the navigation that has its place.
const PLACE: &str = "<!-- The playground stands here, if it was built. -->\n";

/// Builds the site into `target`, which is emptied first.
pub fn site(repository: &Path, target: &Path) -> Result<()> {
    let navigation = Navigation::read(repository)?;
    let (unfinished, pages) = (beside(target, "new")?, beside(target, "pages")?);
    let mut needed = Needed::default();
    let has_playground = repository.join(PLAYGROUND).join("index.html").is_file();
    let summary = format!("{DOCS}/{SUMMARY}");
    for (source, staged) in navigation.pages().chain([(summary.as_str(), SUMMARY)]) {
        let text = fs::read_to_string(repository.join(source)).with_context(|| source.to_owned())?;
        let mut page = pages::page(repository, &navigation, (source, staged), &text, &mut needed)?;
        if staged == SUMMARY {
            page = page.replace(PLACE, if has_playground { "- [Playground](playground.md)\n" } else { "" });
        }
        write(&pages.join("src").join(staged), page.as_bytes())?;
    }
    for (source, staged) in &needed.pictures {
        let picture = fs::read(repository.join(source)).with_context(|| source.clone())?;
        write(&pages.join("src").join(staged), &picture)?;
    }
    for (name, svg) in &needed.diagrams {
        write(&pages.join("src").join(name), svg.as_bytes())?;
    }
    if has_playground {
        write(&pages.join("src/playground.md"), include_bytes!("../page_playground.md"))?;
    }
    write(&pages.join("site.css"), include_bytes!("../site.css"))?;

    let mut settings: Config = include_str!("../book.toml").parse()?;
    settings.build.build_dir = std::path::absolute(&unfinished)?;
    MDBook::load_with_config(&pages, settings)?.build()?;
    sources::copy(repository, &unfinished, &needed.sources)?;
    if has_playground {
        copy_folder(&repository.join(PLAYGROUND), &unfinished.join("playground"))?;
    } else {
        eprintln!("site: without the playground, which `make playground` builds");
    }
    remove(target)?;
    fs::rename(&unfinished, target)?;
    remove(&pages)
}

/// An empty folder beside the target.
fn beside(target: &Path, what: &str) -> Result<std::path::PathBuf> {
    let name = target.file_name().context("the target has no name")?.to_string_lossy();
    let folder = target.with_file_name(format!("{name}.{what}"));
    remove(&folder)?;
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn remove(folder: &Path) -> Result<()> {
    if folder.exists() { fs::remove_dir_all(folder).with_context(|| folder.display().to_string()) } else { Ok(()) }
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let (path, to) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_folder(&path, &to)?;
        } else {
            write(&to, &fs::read(&path)?)?;
        }
    }
    Ok(())
}
