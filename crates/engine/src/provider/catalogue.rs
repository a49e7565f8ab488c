//! The provider files in the module. A file is parsed when a policy names its provider.

use super::Provider;

/// Name and file, sorted by name. build.rs removes the members that are notes for people.
static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/providers.rs"));

/// The providers that come with the filter.
#[derive(Debug, Clone, Copy)]
pub struct Catalogue(&'static [(&'static str, &'static str)]);

impl Catalogue {
    /// The files that are compiled in.
    pub const fn compiled_in() -> Self {
        Self(FILES)
    }

    /// The names of all providers, in order.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(name, _)| *name)
    }

    /// Reads a provider's file; `None` if there is no such provider.
    pub fn provider(self, name: &str) -> Option<Provider> {
        let index = self.0.binary_search_by(|(other, _)| (*other).cmp(name)).ok()?;
        let (name, file) = self.0.get(index)?;
        Provider::read(name, file.as_bytes()).ok()
    }
}
