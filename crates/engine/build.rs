//! Generates the list of provider files (`policies/providers/`) that is compiled in.

use std::fmt::Write as _;
use std::path::PathBuf;

/// The folder of the provider files, relative to this crate.
const FILES: &str = "../../policies/providers";

/// Members of a provider file that are notes for people.
const FOR_PEOPLE: [&str; 7] =
    ["$schema", "name", "docs_url", "no_identifier", "handler_headers", "max_body_bytes", "notes"];
/// The member of `retry` that the filter reads.
const OF_RETRY: &str = "same_body_on_resend";
/// Members of an identifier that are notes for people.
const OF_IDENTIFIERS: [&str; 4] = ["of", "same_on_retry", "same_on_resend", "source"];

fn main() {
    println!("cargo::rerun-if-changed={FILES}");
    providers();
}

/// Writes `providers.rs`: names and files, sorted by name, without white space and without the notes for people.
fn providers() {
    let mut files: Vec<PathBuf> = std::fs::read_dir(FILES)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let mut list = String::from("&[\n");
    for path in files {
        // A file that is not a JSON object is compiled in unchanged. A test reports it.
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let short = serde_json::from_str(&text).map(|mut file: serde_json::Map<_, _>| {
            file.retain(|member, _| !FOR_PEOPLE.contains(&member.as_str()));
            if let Some(retry) = file.get_mut("retry").and_then(serde_json::Value::as_object_mut) {
                retry.retain(|member, known| member == OF_RETRY && *known == true);
                if retry.is_empty() {
                    file.remove("retry");
                }
            }
            let identifiers = file.get_mut("identifiers").and_then(serde_json::Value::as_array_mut);
            for identifier in identifiers.into_iter().flatten().filter_map(serde_json::Value::as_object_mut) {
                let is_default = |member: &str, value: &serde_json::Value| member == "unique" && *value != false;
                identifier
                    .retain(|member, value| !OF_IDENTIFIERS.contains(&member.as_str()) && !is_default(member, value));
            }
            serde_json::Value::Object(file).to_string()
        });
        let _ = writeln!(list, "    ({name:?}, {:?}),", short.as_ref().unwrap_or(&text));
    }
    list.push_str("]\n");
    let directory = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    if let Err(error) = std::fs::write(directory.join("providers.rs"), list) {
        println!("cargo::error=cannot write providers.rs: {error}");
    }
}
