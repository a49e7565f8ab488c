//! The guests of the Go bridge's own tests: each `.wasm` in `krakend/bridge/testdata` is what its `.wat` says.
//! `UPDATE_GUESTS=1` writes them anew.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::path::Path;

#[test]
fn the_binaries_are_what_the_texts_say() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../krakend/bridge/testdata");
    let mut texts = 0;
    for entry in std::fs::read_dir(&directory).unwrap() {
        let text = entry.unwrap().path();
        if text.extension().is_none_or(|extension| extension != "wat") {
            continue;
        }
        texts += 1;
        let module = wat::parse_file(&text).unwrap_or_else(|error| panic!("{error}"));
        let binary = text.with_extension("wasm");
        if std::env::var_os("UPDATE_GUESTS").is_some() {
            std::fs::write(&binary, &module).unwrap();
        }
        let stored = std::fs::read(&binary).unwrap_or_default();
        assert!(stored == module, "{} is not what its text says: run this test with UPDATE_GUESTS=1", binary.display());
    }
    assert!(texts > 0, "there is no guest in {}", directory.display());
}
