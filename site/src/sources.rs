//! Copies of the files and folders that pages link to. So the site shows the files of its own version, wherever it is published.

use anyhow::{Context as _, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What was built or fetched.
const NOT_OURS: [&str; 5] = ["target", "dist", "node_modules", "crds", "build"];

/// Where the copy of a file, or the list of a folder, is in the site. A server shows `.txt` as text, whatever the file is. mdBook makes `.html`
/// of `.md`, wherever it stands in a link.
pub fn address(path: &str, is_folder: bool) -> String {
    let path = path.replace(".md", "_md");
    if is_folder { format!("source/{path}/index.html") } else { format!("source/{path}.txt") }
}

/// Copies them.
pub fn copy(repository: &Path, site: &Path, paths: &BTreeSet<String>) -> Result<()> {
    for path in paths {
        if repository.join(path).is_dir() {
            list(repository, site, path)?;
        } else {
            copy_file(repository, site, path)?;
        }
    }
    Ok(())
}

fn copy_file(repository: &Path, site: &Path, path: &str) -> Result<()> {
    write(&site.join(address(path, false)), &fs::read(repository.join(path)).with_context(|| path.to_owned())?)
}

/// Copies a folder, and writes the list of its files and folders.
fn list(repository: &Path, site: &Path, path: &str) -> Result<()> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(repository.join(path)).with_context(|| path.to_owned())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') && !NOT_OURS.contains(&&*name) {
            names.insert((entry.file_type()?.is_dir(), name));
        }
    }
    let mut lines = String::new();
    for (is_folder, name) in names {
        let below = format!("{path}/{name}");
        let (shown, link) = if is_folder {
            list(repository, site, &below)?;
            (format!("{name}/"), format!("{name}/index.html"))
        } else {
            copy_file(repository, site, &below)?;
            (name.clone(), address(&name, false).replacen("source/", "", 1))
        };
        lines += &format!("<li><a href=\"{link}\">{shown}</a></li>\n");
    }
    let home = "../".repeat(path.split('/').count() + 1);
    let page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{path}</title>\n</head>\n<body>\n<p><a href=\"{home}index.html\">Edge idempotency</a></p>\n<h1>{path}</h1>\n<ul>\n{lines}</ul>\n</body>\n</html>\n"
    );
    write(&site.join(address(path, true)), page.as_bytes())
}

/// Writes a file, and makes its folder.
pub fn write(path: &Path, content: &[u8]) -> Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    fs::write(path, content).with_context(|| path.display().to_string())
}
