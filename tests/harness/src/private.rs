//! Files and folders that no other user of the machine can read, from the moment that they are there: they hold tokens, secrets and
//! what callers have sent.

use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use anyhow::{Context as _, Result};

/// Makes a folder with the mode 0700, and the folders above it as usual. A folder that is there gets this mode.
pub fn create_folder(path: &Path) -> Result<()> {
    let create = || -> io::Result<()> {
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::set_permissions(path, Permissions::from_mode(0o700))
            }
            created => created,
        }
    };
    create().with_context(|| format!("cannot make {}", path.display()))
}

/// Writes a file with the mode 0600 in the place of one that is there.
pub fn write(path: &Path, text: &str) -> Result<()> {
    let write = || -> io::Result<()> {
        // The mode is for a new file only, and whoever has opened the old one goes on reading the old one.
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(text.as_bytes())
    };
    write().with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn only_the_owner_can_read() {
        let directory = tempfile::tempdir().unwrap();
        let folder = directory.path().join("run/up");
        create_folder(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700);
        // What an earlier run left open is closed.
        fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        create_folder(&folder).unwrap();
        assert_eq!(mode(&folder), 0o700);

        let file = folder.join("env");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        write(&file, "TOKEN=1").unwrap();
        assert_eq!((mode(&file), fs::read_to_string(&file).unwrap().as_str()), (0o600, "TOKEN=1"));
    }
}
