//! Answers that are longer than the filter waits for, behind an `ext_proc` that streams them: what the client gets is whole, or a
//! problem document. `body_integrity` has the shorter ones. A filter that goes on in the middle of a body makes Envoy end the answer there, as if it were whole.

use anyhow::{Context as _, Result, ensure};
use e2e::capture::Answer;
use e2e::config::{Change, ListenerSpec};
use e2e::ext_proc::{BodyMode, Processor};
use e2e::gateway::{Seen, TestGateway};
use e2e::raw::Request;
use e2e::runner::{Group, Test, sharing};
use harness::tokens;
use serde_json::{Value, json};

/// The most that the filter waits for, and the gateway's buffer.
const BOUND: usize = 1 << 20;
const BUFFER: u32 = (1 << 20) + (64 << 10);

const PATH: &str = "/api/v1/create";
const LISTENERS: [(&str, BodyMode); 2] = [("streamed", BodyMode::Streamed), ("full duplex", BodyMode::FullDuplex)];

struct StreamedAnswersSetup {
    gateway: TestGateway,
    /// They run as long as the gateway does.
    _processors: Vec<Processor>,
}

pub(crate) fn groups() -> Result<Vec<Group>> {
    Ok(vec![sharing(start, vec![Test::new("a success that is too long is whole and unshaped, or replaced", too_long)])])
}

fn start() -> Result<StreamedAnswersSetup> {
    let policy = json!({
        "version": 1,
        "identity": {"sources": [tokens::source()]},
        "backend": {"kind": "restate", "rewrite_path": true, "cluster": "backend", "operation_id": "x-restate-id"},
        "routes": [{
            "endpoint": "create", "path": PATH, "policy": "REQUIRED_A", "target": "Orders/create",
            "answer": {"status": 201, "location": "/api/v1/create/{body:/id}"},
        }],
    });
    let mut processors = Vec::new();
    let mut listeners = Vec::new();
    for (name, mode) in LISTENERS {
        let processor = Processor::start(mode)?;
        let changes = vec![Change::Behind(processor.filter()), Change::ConnectionBuffer(BUFFER), Change::Trailers];
        listeners.push((name.to_owned(), ListenerSpec { policy: policy.to_string(), changes }));
        processors.push(processor);
    }
    Ok(StreamedAnswersSetup { gateway: TestGateway::start(&listeners)?, _processors: processors })
}

/// JSON of this many bytes.
fn body(length: usize) -> Vec<u8> {
    let (head, end) = ("{\"id\":7,\"padding\":\"", "\"}");
    let padding: String = (0..length - head.len() - end.len()).map(|at| char::from(b'a' + (at % 23) as u8)).collect();
    format!("{head}{padding}{end}").into_bytes()
}

/// How the upstream tells where a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length,
    Chunks,
    Trailers,
}

impl StreamedAnswersSetup {
    /// Each listener's answer over HTTP/1.1 and HTTP/2.
    fn answers(&self, body: &[u8], framing: Framing) -> Result<Vec<(String, Seen)>> {
        let mut headers = vec![("content-type", "application/json"), ("x-restate-id", "inv_1"), ("x-own", "1")];
        if framing != Framing::Length {
            headers.push(("transfer-encoding", "chunked"));
        }
        let headers = headers.into_iter().map(|(name, value)| (name.to_owned(), value.as_bytes().to_vec())).collect();
        let has_trailers = framing == Framing::Trailers;
        let trailers = has_trailers.then(|| ("x-sum".to_owned(), b"1".to_vec())).into_iter().collect();
        let answer = Answer { status: 200, headers, body: body.to_vec(), trailers };
        let token = self.gateway.user_token()?;
        let request = Request::post(PATH).bearer(&token).header("idempotency-key", "k-1").header("te", "trailers");
        let mut answers = Vec::new();
        for (listener, _) in LISTENERS {
            let one = self.gateway.http1_answered(listener, &request, &answer);
            let two = self.gateway.http2_answered(listener, &request, &answer);
            for (protocol, seen) in [("HTTP/1.1", one), ("HTTP/2", two)] {
                let place = format!("{listener}, {protocol}, {framing:?}, {} bytes", body.len());
                answers.push((place.clone(), seen.context(place)?));
            }
        }
        Ok(answers)
    }
}

/// The work is done and its result is stored, so the advice is the same key. If the gateway gives the filter the rest of the body at
/// once, with its end, there is nothing to wait for, and it passes.
fn too_long(setup: &StreamedAnswersSetup) -> Result<()> {
    let sent = body(BOUND + 200_000);
    let mut replaced = 0;
    // With `FULL_DUPLEX_STREAMED` Envoy removes the `content-length`, so nobody knows the length before.
    for framing in [Framing::Length, Framing::Chunks, Framing::Trailers] {
        for (place, seen) in setup.answers(&sent, framing)? {
            let reply = &seen.reply;
            if reply.status == 200 {
                ensure!(reply.body == sent, "{place}: 200 with {} bytes", reply.body.len());
                ensure!(reply.text_header("location").is_none(), "{place}: a Location");
                continue;
            }
            // A part that is longer than the rest of the gateway's buffer does not reach the filter.
            if reply.status == 500 && reply.body == b"Internal Server Error" {
                continue;
            }
            replaced += 1;
            let problem: Value = serde_json::from_slice(&reply.body).with_context(|| place.clone())?;
            let told = json!([reply.status, problem.get("code"), problem.get("retry")]);
            ensure!(told == json!([502, "answer_unavailable", "same_key"]), "{place}: {told}");
            for (name, value) in [
                ("idempotency-status", "stored"),
                ("idempotency-retry", "same_key"),
                ("x-operation-id", "inv_1"),
                ("x-own", "1"),
            ] {
                ensure!(reply.text_header(name) == Some(value), "{place}: {name} {:?}", reply.text_header(name));
            }
        }
    }
    ensure!(replaced > 0, "no answer was replaced");
    Ok(())
}
