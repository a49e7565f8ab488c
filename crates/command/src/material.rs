//! Files and standard input that a request is made of, and the clock.

use crate::explain::request_input::Files;
use std::io::Read as _;
use std::path::Path;

/// Files and standard input. Standard input is read once.
#[derive(Debug, Default)]
pub(crate) struct Material {
    input_is_read: bool,
}

impl Material {
    /// Notes that standard input is read by somebody else.
    ///
    /// # Errors
    /// It was read already.
    pub(crate) fn take_input(&mut self) -> Result<(), String> {
        if std::mem::replace(&mut self.input_is_read, true) {
            return Err("standard input (-) can be read only once: write one of the two into a file".to_owned());
        }
        Ok(())
    }
}

impl Files for Material {
    fn file(&mut self, name: &str) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        let read = if name == "-" {
            self.take_input()?;
            std::io::stdin().lock().read_to_end(&mut bytes)
        } else {
            std::fs::File::open(Path::new(name)).and_then(|mut file| file.read_to_end(&mut bytes))
        };
        read.map(|_| bytes).map_err(|error| format!("{name}: {error}"))
    }
}

/// The clock, in milliseconds since 1970-01-01 UTC.
pub(crate) fn now_unix_ms() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}
