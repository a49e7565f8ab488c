//! A stand-in for the API server of Kubernetes. It has no resources: lists are empty, no watch sees a change, nothing has a name.

use std::net::SocketAddr;

use anyhow::Result;
use e2e::capture::{Answer, Capture};
use e2e::wire::Message;
use serde_json::{Value, json};

const METADATA: &str = "PartialObjectMetadataList";

/// Listens on a free port.
pub(super) fn start() -> Result<Capture> {
    Capture::answering(answer)
}

/// What Istio's control plane finds it with.
pub(super) fn kubeconfig(address: SocketAddr) -> String {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "none",
        "clusters": [{"name": "none", "cluster": {"server": format!("http://{address}")}}],
        "users": [{"name": "none", "user": {}}],
        "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
    })
    .to_string()
}

fn answer(request: &Message) -> Answer {
    let line = String::from_utf8_lossy(&request.start).into_owned();
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let has = |parameter: &str| query.split('&').any(|own| own == parameter);
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    // /api/v1/… and /apis/{group}/{version}/…
    let resource = match parts.as_slice() {
        ["api", _, rest @ ..] | ["apis", _, _, rest @ ..] => rest,
        _ => &[],
    };
    let is_list = matches!(resource, [_] | ["namespaces", _, _]);
    let accepts = request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("accept"));
    let accepts = accepts.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).unwrap_or_default();
    match () {
        () if method != "GET" => failed(404, "NotFound"),
        () if path == "/version" => said(200, &json!({"major": "1", "minor": "35", "gitVersion": "v1.35.0"})),
        // Clients then list first.
        () if has("sendInitialEvents=true") => failed(422, "Invalid"),
        () if has("watch=true") || has("watch=1") => loop {
            std::thread::park();
        },
        // Who asks for metadata alone wants to see the name of the list's kind.
        () if is_list && accepts.contains(METADATA) => said(
            200,
            &json!({"kind": METADATA, "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": "1"}, "items": []}),
        ),
        () if is_list => said(200, &json!({"metadata": {"resourceVersion": "1"}, "items": []})),
        () => failed(404, "NotFound"),
    }
}

fn failed(code: u16, reason: &str) -> Answer {
    said(code, &json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}))
}

fn said(status: u16, body: &Value) -> Answer {
    Answer { status, body: body.to_string().into_bytes(), ..Answer::default() }
}
