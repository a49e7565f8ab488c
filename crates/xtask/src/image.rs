//! OCI images as layouts: folders that registries' tools push as they are. The same content gives the same bytes.
//!
//! The few documents of an image are written as JSON here. The crate `oci-spec` has types for them, but it keeps annotations in a hash map,
//! whose order changes from run to run, and so would the digests.

use anyhow::{Context, Result, bail};
use flate2::{Compression, GzBuilder};
use serde_json::{Map, Value, json};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header, HeaderMode};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// What Istio and Envoy Gateway read: <https://github.com/solo-io/wasm/blob/master/spec/spec.md>.
const WASM_LAYER: &str = "application/vnd.module.wasm.content.layer.v1+wasm";
const WASM_CONFIG: &str = "application/vnd.module.wasm.config.v1+json";

/// The name that both control planes look for in a layer.
const PLUGIN: &str = "plugin.wasm";

/// Texts about an image, such as its version, in the order of the command line.
pub(crate) type Annotations = [(String, String)];

/// What runs in a container.
pub(crate) struct Container<'a> {
    /// As Go names it: `amd64` or `arm64`.
    pub(crate) architecture: &'a str,
    /// The program with its first arguments.
    pub(crate) entrypoint: &'a [String],
    /// The arguments that a user replaces.
    pub(crate) command: &'a [String],
    /// The number of the user and of the group, with a colon between.
    pub(crate) user: &'a str,
    /// Each folder becomes a layer, the lowest first.
    pub(crate) layers: &'a [PathBuf],
}

/// Writes the module as an image `FROM scratch` with the file `plugin.wasm`, and returns the digest of its manifest.
pub(crate) fn module_image(module: &[u8], layout: &Path, annotations: &Annotations) -> Result<String> {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_size(module.len().try_into()?);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    let mut archive = Builder::new(Vec::new());
    archive.append_data(&mut header, PLUGIN, module)?;
    let mut layout = Layout::create(layout)?;
    let layer = layout.layer(&archive.into_inner()?)?;
    // The module runs on every processor.
    let container = json!({});
    layout.image("wasm", &container, &[layer], annotations)
}

/// Writes the module as an artefact of exactly two layers, the bare module and a configuration, and returns the digest of its manifest.
pub(crate) fn module_artifact(module: &[u8], layout: &Path, annotations: &Annotations) -> Result<String> {
    let mut layout = Layout::create(layout)?;
    let about = json!({"type": "envoy_proxy", "abiVersions": ["0.2.1"], "config": {"rootIds": ["edge-idempotency"]}});
    let config = layout.blob(WASM_CONFIG, about.to_string().as_bytes())?;
    let wasm = layout.blob(WASM_LAYER, module)?;
    layout.manifest(&config, &[wasm, config.clone()], annotations)
}

/// Writes an image that runs a program, and returns the digest of its manifest.
pub(crate) fn container_image(container: &Container<'_>, layout: &Path, annotations: &Annotations) -> Result<String> {
    let mut layout = Layout::create(layout)?;
    let mut layers = Vec::new();
    for folder in container.layers {
        let bytes = archive(folder).with_context(|| format!("cannot make a layer of {}", folder.display()))?;
        layers.push(layout.layer(&bytes)?);
    }
    let mut run = Map::new();
    run.insert("User".to_owned(), json!(container.user));
    run.insert("Entrypoint".to_owned(), json!(container.entrypoint));
    if !container.command.is_empty() {
        run.insert("Cmd".to_owned(), json!(container.command));
    }
    layout.image(container.architecture, &Value::Object(run), &layers, annotations)
}

/// Writes an index of images for several processors, and returns its digest. The images' blobs become the index's own.
pub(crate) fn index(images: &[PathBuf], layout: &Path, annotations: &Annotations) -> Result<String> {
    let mut layout = Layout::create(layout)?;
    let mut manifests = Vec::new();
    for image in images {
        let (mut descriptor, architecture) = layout.adopt(image).with_context(|| image.display().to_string())?;
        insert(&mut descriptor, "platform", json!({"architecture": architecture, "os": "linux"}));
        manifests.push(descriptor);
    }
    let mut document = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
    annotate(&mut document, annotations);
    let blob = layout.blob(INDEX, document.to_string().as_bytes())?;
    layout.finish(&blob)
}

/// A layer: its descriptor, and the digest of the archive before compression.
struct Layer {
    descriptor: Value,
    diff_id: String,
}

struct Layout {
    folder: PathBuf,
}

impl Layout {
    /// An empty layout in the place of one that is there. Another folder with content is not touched.
    fn create(folder: &Path) -> Result<Layout> {
        let marker = folder.join("oci-layout");
        if marker.exists() {
            fs::remove_dir_all(folder).with_context(|| format!("cannot replace {}", folder.display()))?;
        } else if folder.read_dir().is_ok_and(|mut entries| entries.next().is_some()) {
            bail!("{} is there and is no OCI layout: name another folder", folder.display());
        }
        let blobs = folder.join("blobs/sha256");
        fs::create_dir_all(&blobs).with_context(|| format!("cannot create {}", blobs.display()))?;
        crate::write(&marker, json!({"imageLayoutVersion": "1.0.0"}).to_string().as_bytes())?;
        Ok(Layout { folder: folder.to_owned() })
    }

    /// Writes a blob and returns its descriptor.
    fn blob(&mut self, media_type: &str, bytes: &[u8]) -> Result<Value> {
        let hash = crate::sha256(bytes);
        crate::write(&self.folder.join("blobs/sha256").join(&hash), bytes)?;
        Ok(json!({"mediaType": media_type, "digest": format!("sha256:{hash}"), "size": bytes.len()}))
    }

    /// Compresses an archive.
    fn layer(&mut self, archive: &[u8]) -> Result<Layer> {
        let mut compressed = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
        compressed.write_all(archive)?;
        let descriptor = self.blob(LAYER, &compressed.finish()?)?;
        Ok(Layer { descriptor, diff_id: format!("sha256:{}", crate::sha256(archive)) })
    }

    fn image(
        &mut self,
        architecture: &str,
        run: &Value,
        layers: &[Layer],
        annotations: &Annotations,
    ) -> Result<String> {
        let diff_ids: Vec<&str> = layers.iter().map(|layer| layer.diff_id.as_str()).collect();
        let config = json!({
            "architecture": architecture,
            "os": "linux",
            "config": run,
            "rootfs": {"type": "layers", "diff_ids": diff_ids},
        });
        let config = self.blob(CONFIG, config.to_string().as_bytes())?;
        let layers: Vec<Value> = layers.iter().map(|layer| layer.descriptor.clone()).collect();
        self.manifest(&config, &layers, annotations)
    }

    fn manifest(&mut self, config: &Value, layers: &[Value], annotations: &Annotations) -> Result<String> {
        let mut manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers});
        annotate(&mut manifest, annotations);
        let manifest = self.blob(MANIFEST, manifest.to_string().as_bytes())?;
        self.finish(&manifest)
    }

    /// Copies the blobs of another layout, and returns the descriptor of its image and the image's architecture.
    fn adopt(&mut self, other: &Path) -> Result<(Value, Value)> {
        let index = document(&other.join("index.json"))?;
        let descriptor = index.pointer("/manifests/0").context("index.json names no image")?.clone();
        let blobs = other.join("blobs/sha256");
        let manifest = document(&blobs.join(hash(&descriptor)?))?;
        let config =
            document(&blobs.join(hash(manifest.get("config").context("the manifest has no configuration")?)?))?;
        let architecture = config.get("architecture").context("the configuration has no architecture")?.clone();
        for entry in fs::read_dir(&blobs)? {
            let entry = entry?;
            fs::copy(entry.path(), self.folder.join("blobs/sha256").join(entry.file_name()))?;
        }
        Ok((descriptor, architecture))
    }

    /// Names what the layout is about, and returns its digest.
    fn finish(&self, descriptor: &Value) -> Result<String> {
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [descriptor]});
        crate::write(&self.folder.join("index.json"), index.to_string().as_bytes())?;
        Ok(format!("sha256:{}", hash(descriptor)?))
    }
}

/// The content of a folder as an archive: sorted, owned by root, with one time for all files. Executable files stay executable.
fn archive(folder: &Path) -> Result<Vec<u8>> {
    let mut archive = Builder::new(Vec::new());
    archive.mode(HeaderMode::Deterministic);
    archive.follow_symlinks(false);
    append(&mut archive, folder, Path::new(""))?;
    Ok(archive.into_inner()?)
}

fn append(archive: &mut Builder<Vec<u8>>, root: &Path, inside: &Path) -> Result<()> {
    let mut names = fs::read_dir(root.join(inside))?
        .map(|entry| entry.map(|entry| entry.file_name()))
        .collect::<Result<Vec<_>, _>>()?;
    names.sort();
    for name in names {
        let inside = inside.join(name);
        let path = root.join(&inside);
        archive.append_path_with_name(&path, &inside).with_context(|| path.display().to_string())?;
        if path.symlink_metadata()?.is_dir() {
            append(archive, root, &inside)?;
        }
    }
    Ok(())
}

fn annotate(document: &mut Value, annotations: &Annotations) {
    if !annotations.is_empty() {
        let texts: Map<String, Value> = annotations.iter().map(|(name, text)| (name.clone(), json!(text))).collect();
        insert(document, "annotations", Value::Object(texts));
    }
}

fn insert(document: &mut Value, name: &str, value: Value) {
    if let Some(members) = document.as_object_mut() {
        members.insert(name.to_owned(), value);
    }
}

fn document(path: &Path) -> Result<Value> {
    serde_json::from_slice(&crate::read(path)?).with_context(|| format!("{} is no JSON", path.display()))
}

/// The digest of a descriptor without its algorithm.
fn hash(descriptor: &Value) -> Result<&str> {
    let digest = descriptor.get("digest").and_then(Value::as_str).context("a descriptor has no digest")?;
    digest.strip_prefix("sha256:").with_context(|| format!("{digest} is no SHA-256"))
}

#[cfg(test)]
mod tests;
