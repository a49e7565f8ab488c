//! I3: a delivery gets the same raw key in every release.

use serde_json::Map;
use testkit::vectors::{self, ExpectedKey, expected};

const BREAKING: &str = "tests/vectors/webhook_keys.json is not what the vectors and providers give. Backends have stored results under these keys \
     for days: a delivery that is tried again across the upgrade runs its effect twice. Changing a row is a breaking change; \
     rows may be added, with `UPDATE_GOLDEN=1 cargo test --test cases providers::golden`";

/// The golden file has the raw key of every vector that has one, and no other.
pub(crate) fn raw_keys_are_what_they_were() -> Result<(), String> {
    let mut keys = vectors::golden_keys();
    let add = std::env::var_os("UPDATE_GOLDEN").is_some_and(|value| value == "1");
    let mut seen = Map::new();
    for vector in vectors::all().iter().filter(|vector| vector.valid) {
        let ExpectedKey::Key(key) = expected(vector) else { continue };
        if add {
            keys.entry(&vector.id).or_insert_with(|| key.clone().into());
        }
        seen.insert(vector.id.clone(), key.into());
    }
    if add {
        std::fs::write(vectors::golden_file(), serde_json::to_string_pretty(&keys).unwrap() + "\n").unwrap();
    }
    let differing: Vec<&String> = keys.keys().chain(seen.keys()).filter(|id| keys.get(*id) != seen.get(*id)).collect();
    if differing.is_empty() { Ok(()) } else { Err(format!("rows {differing:?} differ: {BREAKING}")) }
}
