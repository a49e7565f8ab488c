//! Requests with a body whose payload is compared with that of the key's first request, and a stand-in for the guard
//! service, and for the backend, that answers every claim as the first one.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::thread;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::client::{self, Request};
use crate::policy;

/// The name of the cluster in which claims are made. It is also the upstream of the requests: an answer of Envoy's own would
/// come before the filter has seen the body.
pub(crate) const GUARD: &str = "guard";

/// The length of a request's body, in bytes.
const BODY: usize = 1 << 10;

/// How the payload is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CollisionVariant {
    /// `collision`
    pub(crate) mode: &'static str,
    /// `fingerprint`
    pub(crate) fingerprint: &'static str,
}

impl CollisionVariant {
    pub(crate) const OFF: Self = Self { mode: "off", fingerprint: "raw" };
    pub(crate) const OBSERVE: Self = Self { mode: "observe", fingerprint: "raw" };
    pub(crate) const ENFORCE: Self = Self { mode: "enforce", fingerprint: "raw" };
    pub(crate) const OBSERVE_JSON: Self = Self { mode: "observe", fingerprint: "json" };
    pub(crate) const ENFORCE_JSON: Self = Self { mode: "enforce", fingerprint: "json" };
    pub(crate) const ALL: [Self; 5] = [Self::OFF, Self::OBSERVE, Self::ENFORCE, Self::OBSERVE_JSON, Self::ENFORCE_JSON];

    /// The policy of a platform with this many routes, with this comparison on the one that is called.
    pub(crate) fn policy(self, routes: usize) -> Value {
        let mut policy = policy::whole(routes);
        if let Some(backend) = policy.get_mut("backend").and_then(Value::as_object_mut) {
            backend.insert("cluster".to_owned(), GUARD.into());
            backend.insert("guard".to_owned(), json!({"service": "IdempotencyGuard", "retention": "7d"}));
        }
        let routes = policy.get_mut("routes").and_then(Value::as_array_mut);
        let called = |route: &&mut Value| route.get("path").and_then(Value::as_str) == Some(policy::KEYED_PATH);
        if let Some(route) = routes.and_then(|routes| routes.iter_mut().find(called)).and_then(Value::as_object_mut) {
            route.insert("collision".to_owned(), self.mode.into());
            route.insert("fingerprint".to_owned(), self.fingerprint.into());
        }
        policy
    }
}

/// A JSON body as an order's is.
pub(crate) fn body() -> Vec<u8> {
    let line = |number: usize| json!({"sku": format!("sku-{number:05}"), "quantity": 1 + number % 5, "price": 19.9});
    let lines: Vec<Value> = (0..14).map(line).collect();
    let mut order =
        json!({"customer": "cus_8e03978e", "currency": "eur", "amount": 125_900, "lines": lines, "note": ""});
    let note = ".".repeat(BODY.saturating_sub(order.to_string().len()));
    if let Some(members) = order.as_object_mut() {
        members.insert("note".to_owned(), note.into());
    }
    order.to_string().into_bytes()
}

/// Answers claims and requests at this socket as long as the program runs, each with its own body. It runs beside the gateway, whose
/// worker's CPU time has no part of it.
pub(crate) fn answer_claims(socket: &Path) -> Result<()> {
    let listener = UnixListener::bind(socket).with_context(|| format!("cannot listen at {}", socket.display()))?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A broken connection ends here; the gateway then sees that its claim got no answer.
            thread::spawn(move || answer_connection(stream));
        }
    });
    Ok(())
}

fn answer_connection(mut stream: UnixStream) -> Result<()> {
    let mut buffer = Vec::new();
    let mut chunk = [0; 4_096];
    loop {
        let count = stream.read(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        buffer.extend(chunk.get(..count).unwrap_or_default());
        while let Some(claim) = client::message(&mut buffer)? {
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                claim.body.len()
            );
            stream.write_all(&[head.as_bytes(), &claim.body].concat())?;
        }
    }
}

/// A keyed request with a body.
pub(crate) fn with_order<'a>(path: &str, headers: impl IntoIterator<Item = (&'a str, &'a str)>) -> Request {
    let body = body();
    let length = [("content-length", body.len().to_string())];
    let length = length.iter().map(|(name, value)| (*name, value.as_str()));
    let headers: Vec<(&str, &str)> = headers.into_iter().collect();
    Request::new("POST", path, headers.into_iter().chain(length)).with_key().with_body(&body)
}
