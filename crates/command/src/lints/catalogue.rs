//! The provider files of the catalogue (`policies/providers/`), with the notes for people, which the filter does not have.

/// Name and content of each file, sorted by name.
static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/provider_notes.rs"));

/// Name and content of each file, sorted by name.
pub fn files() -> impl Iterator<Item = (&'static str, &'static str)> {
    FILES.iter().copied()
}

/// The content of a provider's file, which is JSON.
pub fn file(name: &str) -> Option<&'static str> {
    let index = FILES.binary_search_by(|(other, _)| (*other).cmp(name)).ok()?;
    FILES.get(index).map(|(_, content)| *content)
}
