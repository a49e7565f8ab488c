//! A copy of the repository that may be changed. A file whose content is the same is not written again, so that cargo builds only
//! what depends on a change.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::project::Checkout;

/// A copy below `target/`.
pub(crate) struct CheckoutCopy {
    pub(crate) root: PathBuf,
}

impl CheckoutCopy {
    /// Makes a copy, or brings an old one up to date. The files of `changed` have another content in it.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub(crate) fn make(project: &Checkout, name: &str, changed: &BTreeMap<PathBuf, String>) -> anyhow::Result<Self> {
        let copy = Self { root: project.work.join(name) };
        let files = project.files()?;
        let list = copy.root.join(".files");
        // What was there the last time and is not any more.
        for old in fs::read_to_string(&list).unwrap_or_default().lines().map(Path::new) {
            if !files.iter().any(|file| file == old) {
                let _ = fs::remove_file(copy.root.join(old));
            }
        }
        for file in &files {
            let (from, to) = (project.root.join(file), copy.root.join(file));
            if let Some(folder) = to.parent() {
                fs::create_dir_all(folder)?;
            }
            if let Some(text) = changed.get(file) {
                write(&to, text.as_bytes())?;
            } else if from.is_symlink() {
                let _ = fs::remove_file(&to);
                std::os::unix::fs::symlink(fs::read_link(&from)?, &to)?;
            } else {
                write(&to, &fs::read(&from)?)?;
                fs::set_permissions(&to, fs::metadata(&from)?.permissions())?;
            }
        }
        let lines: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        fs::write(list, lines.join("\n"))?;
        Ok(copy)
    }
}

/// Writes a file, unless it has this content.
///
/// # Errors
/// It cannot be written.
pub(crate) fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    Ok(fs::write(path, content)?)
}
