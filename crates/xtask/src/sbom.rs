//! What a built file consists of, in CycloneDX.
//!
//! `cargo tree` resolves the features of one package for one target as `cargo build --package` does, so the list has what is compiled into
//! the file and nothing else. Tools that ask `cargo metadata` get the features of the whole workspace at once.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use toml::Table;

/// What is described.
pub(crate) struct Artifact<'a> {
    /// The file
    pub(crate) file: &'a Path,
    /// The package that it is built of
    pub(crate) package: &'a str,
    pub(crate) target: &'a str,
    /// What it is called, if not as the file: the file is then the part that is the project's own
    pub(crate) name: Option<&'a str>,
    /// When it was built: the commit's time, in RFC 3339
    pub(crate) time: Option<&'a str>,
    /// Files that describe what stands beside it, such as the distribution's packages of an image
    pub(crate) parts: &'a [PathBuf],
}

/// A crate of the tree.
#[derive(Debug, PartialEq, Eq)]
struct Crate {
    name: String,
    version: String,
    license: String,
    features: String,
    /// Its place in the tree
    depth: usize,
}

/// The description of an artefact.
pub(crate) fn describe(artifact: &Artifact<'_>, root: &Path) -> Result<Value> {
    let crates = read_tree(&tree(artifact, root)?)?;
    let lock: Table = std::fs::read_to_string(root.join("Cargo.lock"))?.parse().context("Cargo.lock")?;
    let mut components = BTreeMap::new();
    let mut edges: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut above: Vec<String> = Vec::new();
    let mut crates = crates.into_iter();
    let own = crates.next().context("cargo tree printed nothing")?;
    above.push(reference(&own));
    edges.insert(reference(&own), Vec::new());
    for one in crates {
        above.truncate(one.depth);
        let user = above.last().context("cargo tree printed a depth of 0 twice")?;
        let here = reference(&one);
        let uses = edges.entry(user.clone()).or_default();
        if !uses.contains(&here) {
            uses.push(here.clone());
        }
        edges.entry(here.clone()).or_default();
        above.push(here.clone());
        components.insert(here, component(&one, &lock));
    }
    let mut components: Vec<Value> = components.into_values().collect();
    components.extend(toolchain(artifact.target)?);
    for part in artifact.parts {
        let more: Vec<Value> =
            serde_json::from_slice(&crate::read(part)?).with_context(|| part.display().to_string())?;
        components.extend(more);
    }
    let file = artifact.file.file_name().context("the file has no name")?.to_string_lossy();
    let dependencies: Vec<Value> = edges.iter().map(|(name, uses)| json!({"ref": name, "dependsOn": uses})).collect();
    let mut metadata = json!({
        "component": {
            "type": "application",
            "bom-ref": reference(&own),
            "name": artifact.name.unwrap_or(&file),
            "version": own.version,
            "licenses": [{"expression": own.license}],
            "hashes": [{"alg": "SHA-256", "content": crate::sha256(&crate::read(artifact.file)?)}],
            "properties": [
                {"name": "cargo:package", "value": artifact.package},
                {"name": "cargo:target", "value": artifact.target},
            ],
        },
    });
    if let (Some(time), Some(metadata)) = (artifact.time, metadata.as_object_mut()) {
        metadata.insert("timestamp".to_owned(), json!(time));
    }
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": metadata,
        "components": components,
        "dependencies": dependencies,
    }))
}

fn tree(artifact: &Artifact<'_>, root: &Path) -> Result<String> {
    let output = Command::new("cargo")
        .current_dir(root)
        .args(["tree", "--locked", "--package", artifact.package, "--target", artifact.target])
        .args(["--edges", "normal,no-proc-macro", "--prefix", "depth", "--format", "|{p}|{l}|{f}|"])
        .output()
        .context("cannot run cargo")?;
    if !output.status.success() {
        bail!("cargo tree: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn read_tree(text: &str) -> Result<Vec<Crate>> {
    text.lines().map(|line| read_crate(line).with_context(|| format!("cargo tree printed {line:?}"))).collect()
}

/// A line such as `2|sha2 v0.10.9|MIT OR Apache-2.0|default,std| (*)`; behind the version of the workspace's own crates is their folder.
fn read_crate(line: &str) -> Option<Crate> {
    let mut parts = line.split('|');
    let depth = parts.next()?.parse().ok()?;
    let mut package = parts.next()?.split(' ');
    let (name, version) = (package.next()?, package.next()?.strip_prefix('v')?);
    Some(Crate {
        name: name.to_owned(),
        version: version.to_owned(),
        // Older manifests have a slash between licences.
        license: parts.next()?.replace(" / ", " OR ").replace('/', " OR "),
        features: parts.next()?.to_owned(),
        depth,
    })
}

fn reference(one: &Crate) -> String {
    format!("pkg:cargo/{}@{}", one.name, one.version)
}

fn component(one: &Crate, lock: &Table) -> Value {
    let text = |package: &toml::Value, member| package.get(member)?.as_str().map(str::to_owned);
    let is_it = |package: &&toml::Value| {
        text(package, "name").as_deref() == Some(&one.name) && text(package, "version").as_deref() == Some(&one.version)
    };
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let checksum = packages.and_then(|all| all.iter().find(is_it)).and_then(|package| text(package, "checksum"));
    let mut component = json!({
        "type": "library",
        "bom-ref": reference(one),
        "name": one.name,
        "version": one.version,
        "purl": reference(one),
        "scope": "required",
    });
    if let Some(members) = component.as_object_mut() {
        if !one.license.is_empty() {
            members.insert("licenses".to_owned(), json!([{"expression": one.license}]));
        }
        if let Some(checksum) = checksum {
            members.insert("hashes".to_owned(), json!([{"alg": "SHA-256", "content": checksum}]));
        }
        if !one.features.is_empty() {
            members.insert("properties".to_owned(), json!([{"name": "cargo:features", "value": one.features}]));
        }
    }
    component
}

/// The parts that come with the compiler. Their own dependencies are not listed.
fn toolchain(target: &str) -> Result<Vec<Value>> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot run rustc")?;
    let text = String::from_utf8(output.stdout)?;
    let release = text.lines().find_map(|line| line.strip_prefix("release: ")).context("rustc says no release")?;
    let reference = format!("pkg:generic/rust-std@{release}");
    let mut parts = vec![json!({
        "type": "library", "bom-ref": reference, "name": "rust-std", "version": release, "purl": reference,
        "description": "Rust's standard library, with the crates that it is built of",
        "licenses": [{"expression": "MIT OR Apache-2.0"}],
    })];
    if target.ends_with("-musl") {
        parts.push(json!({
            "type": "library", "bom-ref": "musl", "name": "musl",
            "description": format!("The C library that Rust {release} links statically for {target}"),
            "licenses": [{"license": {"id": "MIT"}}],
        }));
    }
    Ok(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_tree_is_read() {
        let own = read_crate("0|edge-idempotency v0.1.0 (/home/me/edge idempotency)|Apache-2.0||").unwrap();
        assert_eq!((own.name.as_str(), own.version.as_str(), own.features.as_str()), ("edge-idempotency", "0.1.0", ""));
        let other = read_crate("12|siphasher v1.0.3|MIT/Apache-2.0|default,std| (*)").unwrap();
        assert_eq!(
            (other.depth, other.license.as_str(), other.features.as_str()),
            (12, "MIT OR Apache-2.0", "default,std")
        );
        assert!(read_crate("warning: something").is_none());
    }

    /// The module has its allocator only on wasm32, and no crate that only the command has.
    #[test]
    fn the_module_consists_of_its_own_crates() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let file = root.join("Cargo.toml");
        let describe = |target| {
            let artifact =
                Artifact { file: &file, package: "edge-idempotency", target, name: None, time: None, parts: &[] };
            let description = describe(&artifact, root).unwrap();
            let components = description["components"].as_array().unwrap();
            for one in components {
                // Cargo.lock has the checksums of what a registry keeps.
                let own = one["name"].as_str().unwrap().starts_with("edge-idempotency") || one["name"] == "rust-std";
                assert_eq!(one["hashes"][0]["content"].is_string(), !own, "{one}");
            }
            components.iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        let wasm = describe("wasm32-unknown-unknown");
        for name in ["edge-idempotency-engine", "sha2", "talc", "rust-std"] {
            assert!(wasm.iter().any(|one| one == name), "{name} is not in {wasm:?}");
        }
        for name in ["clap", "tempfile", "serde_derive", "ureq"] {
            assert!(!wasm.iter().any(|one| one == name), "{name} is in {wasm:?}");
        }
        assert!(!describe("x86_64-unknown-linux-gnu").iter().any(|one| one == "talc"));
    }
}
