//! Images are read back as a control plane reads them.

use super::*;
use flate2::read::GzDecoder;
use std::io::Read as _;
use tempfile::TempDir;

const MODULE: &[u8] = b"\0asm of a test";

fn manifest(layout: &Path, digest: &str) -> Value {
    let index = document(&layout.join("index.json")).unwrap();
    assert_eq!(index["manifests"][0]["digest"], digest);
    blob_json(layout, &index["manifests"][0])
}

fn blob(layout: &Path, descriptor: &Value) -> Vec<u8> {
    let bytes = crate::read(&layout.join("blobs/sha256").join(hash(descriptor).unwrap())).unwrap();
    assert_eq!(crate::sha256(&bytes), hash(descriptor).unwrap());
    assert_eq!(descriptor["size"], bytes.len());
    bytes
}

fn blob_json(layout: &Path, descriptor: &Value) -> Value {
    serde_json::from_slice(&blob(layout, descriptor)).unwrap()
}

/// Name, mode, owner and content of each entry of a layer.
fn entries(layout: &Path, descriptor: &Value) -> Vec<(String, u32, u64, String)> {
    let blob = blob(layout, descriptor);
    tar::Archive::new(GzDecoder::new(&*blob))
        .entries()
        .unwrap()
        .map(|entry| {
            let mut entry = entry.unwrap();
            let mut content = String::new();
            entry.read_to_string(&mut content).unwrap();
            let header = entry.header();
            let path = entry.path().unwrap().display().to_string();
            (path, header.mode().unwrap(), header.uid().unwrap(), content)
        })
        .collect()
}

#[test]
fn the_image_of_the_module_has_one_layer_with_the_plugin() {
    let folder = TempDir::new().unwrap();
    let layout = folder.path().join("image");
    let digest =
        module_image(MODULE, &layout, &[("org.opencontainers.image.version".to_owned(), "1".to_owned())]).unwrap();
    let manifest = manifest(&layout, &digest);
    assert_eq!(manifest["mediaType"], MANIFEST);
    assert_eq!(manifest["annotations"]["org.opencontainers.image.version"], "1");
    let [layer] = manifest["layers"].as_array().unwrap().as_slice() else { panic!("{manifest}") };
    assert_eq!(layer["mediaType"], LAYER);
    assert_eq!(
        entries(&layout, layer),
        [("plugin.wasm".to_owned(), 0o644, 0, String::from_utf8_lossy(MODULE).into_owned())]
    );
    let config = blob_json(&layout, &manifest["config"]);
    let mut archive = Vec::new();
    GzDecoder::new(&*blob(&layout, layer)).read_to_end(&mut archive).unwrap();
    assert_eq!(config["rootfs"]["diff_ids"][0], format!("sha256:{}", crate::sha256(&archive)));
}

#[test]
fn the_artefact_has_two_layers_and_one_is_the_module() {
    let folder = TempDir::new().unwrap();
    let digest = module_artifact(MODULE, folder.path(), &[]).unwrap();
    let manifest = manifest(folder.path(), &digest);
    let [module, config] = manifest["layers"].as_array().unwrap().as_slice() else { panic!("{manifest}") };
    assert_eq!((&module["mediaType"], &config["mediaType"]), (&json!(WASM_LAYER), &json!(WASM_CONFIG)));
    assert_eq!(blob(folder.path(), module), MODULE);
}

#[test]
fn the_same_content_has_the_same_digest_and_another_another() {
    let folder = TempDir::new().unwrap();
    let build = |name: &str, module: &[u8]| module_image(module, &folder.path().join(name), &[]).unwrap();
    let first = build("a", MODULE);
    assert_eq!(first, build("b", MODULE));
    assert_ne!(first, build("a", b"another"));
}

#[test]
fn a_folder_becomes_a_sorted_layer_and_two_processors_an_index() {
    let folder = TempDir::new().unwrap();
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("usr/bin")).unwrap();
    fs::write(tree.join("usr/bin/program"), "run").unwrap();
    fs::write(tree.join("b"), "2").unwrap();
    fs::write(tree.join("a"), "1").unwrap();
    std::os::unix::fs::symlink("a", tree.join("c")).unwrap();
    let mut executable = fs::metadata(tree.join("usr/bin/program")).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut executable, 0o777);
    fs::set_permissions(tree.join("usr/bin/program"), executable).unwrap();

    let image = |architecture: &str| {
        let container = Container {
            architecture,
            entrypoint: &["/usr/bin/program".to_owned()],
            command: &[],
            user: "65532:65532",
            layers: std::slice::from_ref(&tree),
        };
        let layout = folder.path().join(architecture);
        let digest = container_image(&container, &layout, &[]).unwrap();
        (layout, digest)
    };
    let ((amd64, digest), (arm64, _)) = (image("amd64"), image("arm64"));
    let manifest = manifest(&amd64, &digest);
    let entries = entries(&amd64, &manifest["layers"][0]);
    let names: Vec<&str> = entries.iter().map(|entry| entry.0.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "usr", "usr/bin", "usr/bin/program"]);
    assert_eq!((entries[5].1, entries[0].1), (0o755, 0o644));
    let config = blob_json(&amd64, &manifest["config"]);
    assert_eq!(config["config"], json!({"User": "65532:65532", "Entrypoint": ["/usr/bin/program"]}));

    let both = folder.path().join("both");
    index(&[amd64, arm64], &both, &[]).unwrap();
    let index = blob_json(&both, &document(&both.join("index.json")).unwrap()["manifests"][0]);
    let platforms: Vec<&Value> =
        index["manifests"].as_array().unwrap().iter().map(|image| &image["platform"]["architecture"]).collect();
    assert_eq!(platforms, ["amd64", "arm64"]);
    assert_eq!(blob_json(&both, &index["manifests"][0]), manifest);
}

#[test]
fn a_folder_that_is_no_layout_is_not_replaced() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("mine"), "").unwrap();
    let error = module_image(MODULE, folder.path(), &[]).unwrap_err();
    assert!(error.to_string().contains("is no OCI layout"), "{error}");
}
