//! The provider files in the module. A file is parsed when a policy names its provider.

use super::Provider;

/// The pairs of bytes that bytes from 128 on stand for, and name and file, sorted by name, in these bytes. build.rs removes the
/// members that are notes for people.
type Files = (&'static [[u8; 2]], &'static [(&'static str, &'static [u8])]);

static FILES: Files = include!(concat!(env!("OUT_DIR"), "/providers.rs"));

/// The providers that come with the filter.
#[derive(Debug, Clone, Copy)]
pub struct Catalogue(&'static Files);

impl Catalogue {
    /// The files that are compiled in.
    pub const fn compiled_in() -> Self {
        Self(&FILES)
    }

    /// The names of all providers, in order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        self.0.1.iter().map(|(name, _)| *name)
    }

    /// Reads a provider's file; `None` if there is no such provider.
    pub fn provider(self, name: &str) -> Option<Provider> {
        let (pairs, files) = self.0;
        let index = files.binary_search_by(|(other, _)| (*other).cmp(name)).ok()?;
        let (name, file) = files.get(index)?;
        let mut json = Vec::new();
        write_out(file, pairs, &mut json);
        Provider::read(name, &json).ok()
    }
}

/// Writes a file with the bytes that each of its bytes stands for. A pair has only bytes that were there before it.
fn write_out(file: &[u8], pairs: &[[u8; 2]], json: &mut Vec<u8>) {
    for byte in file {
        match byte.checked_sub(128).and_then(|index| pairs.get(usize::from(index))) {
            Some(pair) => write_out(pair, pairs, json),
            None => json.push(*byte),
        }
    }
}
