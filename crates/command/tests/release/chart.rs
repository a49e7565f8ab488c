//! The chart installs what `render` writes, and nothing else.

use super::tool;
use crate::render_kubernetes::crd;
use crate::repository;
use serde_json::Value;
use std::io::Write as _;
use std::process::{Command, Output};

const UNTESTED: &str = "the chart is not rendered";

/// The texts as Helm renders them.
fn template(helm: &std::path::Path, texts: &[(&str, &str)]) -> Output {
    let mut command = Command::new(helm);
    command.args(["template", "edge"]).arg(repository().join("deploy/chart/edge-idempotency"));
    let mut files = Vec::new();
    for (name, text) in texts {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text.as_bytes()).unwrap();
        command.arg("--set-file").arg(format!("resources.{name}={}", file.path().display()));
        files.push(file);
    }
    command.output().unwrap()
}

fn documents(text: &str) -> Vec<Value> {
    let documents: Vec<Option<Value>> = serde_saphyr::from_multiple(text).unwrap();
    documents.into_iter().flatten().filter(|document| !document.is_null()).collect()
}

fn sorted(text: &str) -> Vec<String> {
    let mut documents: Vec<String> = documents(text).iter().map(Value::to_string).collect();
    documents.sort();
    documents
}

/// What `render` prints for a policy in a form, or `None` if the form does not take the policy.
fn rendered(policy: &str, options: &[&str]) -> Option<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_edge-idempotency"))
        .current_dir(repository())
        .args(["render", "kubernetes", "--policy", policy])
        .args(options)
        .output()
        .unwrap();
    output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
}

#[test]
#[ignore = "make test-all: Helm renders every example in every form"]
fn it_renders_what_render_renders_for_every_example() {
    let Some(helm) = tool("helm", UNTESTED) else { return };
    let module = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(module.path(), b"\0asm\x01\0\0\0").unwrap();
    let mut compared = 0;
    for entry in std::fs::read_dir(repository().join("policies/examples")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let document: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let upstreams: Vec<String> = crate::check::rendered::upstream_names(&document)
            .into_iter()
            .map(|name| format!("--upstream={name}=http://{name}.default:8080"))
            .collect();
        let upstreams: Vec<&str> = upstreams.iter().map(String::as_str).collect();
        let file = ["--module", module.path().to_str().unwrap()];
        let digest = format!("--module-digest=sha256:{}", "7c".repeat(32));
        let image = ["--module=oci://registry.example.com/edge", &digest];
        let forms = [
            [&["--form=envoy-filter", "--namespace=istio-system"], &file[..], &upstreams].concat(),
            [&["--form=envoy-patch-policy", "--gateway=edge"], &file[..], &upstreams].concat(),
            [&["--form=traffic-extension"], &image[..]].concat(),
            [&["--form=envoy-extension-policy"], &image[..], &upstreams].concat(),
        ];
        for form in forms {
            let Some(text) = rendered(path.to_str().unwrap(), &form) else { continue };
            let output = template(&helm, &[("one", &text)]);
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let printed = String::from_utf8(output.stdout).unwrap();
            // Helm brings them into an order of its own, by kind.
            for part in text.split("\n---\n") {
                assert!(printed.contains(part.trim()), "comments are kept\n{part}\n{printed}");
            }
            assert_eq!(sorted(&printed), sorted(&text), "{form:?} for {}", path.display());
            for document in documents(&printed) {
                assert_eq!(crd::errors(&document), [""; 0], "{form:?} for {}", path.display());
            }
            compared += 1;
        }
    }
    assert!(compared > 40, "{compared}");
}

#[test]
fn several_gateways_are_several_texts() {
    let Some(helm) = tool("helm", UNTESTED) else { return };
    let resource = |name: &str| {
        format!("apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\nmetadata: {{name: {name}}}\n")
    };
    let output = template(
        &helm,
        &[("b", &resource("second")), ("a", &format!("{}---\n{}", resource("first"), resource("also")))],
    );
    let names: Vec<Value> = documents(&String::from_utf8(output.stdout).unwrap())
        .iter()
        .map(|one| one["metadata"]["name"].clone())
        .collect();
    assert_eq!(names, ["first", "also", "second"]);
}

#[test]
fn what_render_does_not_write_is_refused() {
    let Some(helm) = tool("helm", UNTESTED) else { return };
    let secret = "apiVersion: v1\nkind: Secret\n";
    for (texts, expected) in [
        (&[][..], "nothing to install"),
        (&[("a", "# nothing\n")], "resources.a has no resource"),
        (&[("a", secret)], "resources.a has a resource of \"v1\""),
        (&[("a", "kind: [")], "resources.a is no YAML"),
    ] {
        let output = template(&helm, texts);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(expected), "{texts:?}: {said}");
    }
}

#[test]
fn helm_finds_no_fault() {
    let Some(helm) = tool("helm", UNTESTED) else { return };
    let chart = repository().join("deploy/chart/edge-idempotency");
    let resource = "apiVersion: networking.istio.io/v1alpha3\nkind: EnvoyFilter\nmetadata: {name: edge}\n";
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(resource.as_bytes()).unwrap();
    let option = format!("resources.a={}", file.path().display());
    let output =
        Command::new(helm).arg("lint").arg("--strict").arg(chart).args(["--set-file", &option]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("0 chart(s) failed"), "{said}");
}
