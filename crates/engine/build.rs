//! Generates the list of provider files (`policies/providers/`) that is compiled in, in a third of their bytes: what they hold
//! again and again is one byte in them (byte pair encoding).

use std::collections::BTreeMap;
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

/// Writes `providers.rs`: the pairs, and names and files, sorted by name, without white space and without the notes for people.
fn providers() {
    let mut files: Vec<PathBuf> = std::fs::read_dir(FILES)
        .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let (mut names, mut texts) = (Vec::new(), Vec::new());
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
        let short = short.unwrap_or(text);
        if !short.is_ascii() {
            println!(
                "cargo::error={name}.json has a character outside of ASCII behind its notes: write it as an escape"
            );
        }
        names.push(name.into_owned());
        texts.push(short.into_bytes());
    }
    let pairs = shorten(&mut texts);
    let mut list = format!("(&{pairs:?}, &[\n");
    for (name, text) in names.iter().zip(texts) {
        let _ = writeln!(list, "    ({name:?}, &{text:?}),");
    }
    list.push_str("])\n");
    let directory = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    if let Err(error) = std::fs::write(directory.join("providers.rs"), list) {
        println!("cargo::error=cannot write providers.rs: {error}");
    }
}

/// Has a byte from 128 on stand for the pair of bytes that is most frequent, then one for the next, and so on. Gives the pairs.
fn shorten(texts: &mut [Vec<u8>]) -> Vec<[u8; 2]> {
    let mut pairs = Vec::new();
    for byte in 128..=u8::MAX {
        let mut counts: BTreeMap<[u8; 2], usize> = BTreeMap::new();
        for pair in texts.iter().flat_map(|text| text.array_windows()) {
            *counts.entry(*pair).or_default() += 1;
        }
        // A pair that stands there thrice costs as much as it saves. The first of several, so that every build has the same.
        let Some(([first, second], _)) =
            counts.into_iter().filter(|(_, count)| *count > 3).rev().max_by_key(|(_, count)| *count)
        else {
            break;
        };
        for text in &mut *texts {
            let mut rest = std::mem::take(text).into_iter().peekable();
            while let Some(next) = rest.next() {
                let is_pair = next == first && rest.next_if_eq(&second).is_some();
                text.push(if is_pair { byte } else { next });
            }
        }
        pairs.push([first, second]);
    }
    pairs
}
