//! Requests that the client or the gateway ends.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use anyhow::{Context as _, Result, ensure};
use e2e::config::Change;
use e2e::deliveries;
use e2e::gateway::{TestEnvironment, TestGateway};
use e2e::raw::Request;
use e2e::runner::{Group, Test, sharing};
use serde_json::json;

use super::{SECRET, SECRET_VARIABLE, access_log, listener};

pub(crate) fn group() -> Group {
    sharing(start, vec![Test::new("the client goes away, or is too slow", |setup: &EndingsSetup| setup.ended())])
}

struct EndingsSetup {
    gateway: TestGateway,
    /// A backend that never answers.
    backend: TcpListener,
}

fn start() -> Result<EndingsSetup> {
    let backend = TcpListener::bind("127.0.0.1:0")?;
    let mut slow = listener("hash", "enforce");
    slow.changes.push(Change::Manager("request_timeout", json!("0.2s")));
    let environment = vec![(SECRET_VARIABLE.to_owned(), SECRET.to_owned())];
    let around = TestEnvironment { environment, backend: Some(backend.local_addr()?), ..TestEnvironment::default() };
    let listeners = [("plain".to_owned(), listener("hash", "enforce")), ("slow".to_owned(), slow)];
    Ok(EndingsSetup { gateway: TestGateway::start_within(&around, &listeners)?, backend })
}

impl EndingsSetup {
    fn ended(&self) -> Result<()> {
        let token = self.gateway.user_token()?;
        // The backend has the request, and the client does not wait for the answer.
        let refund = Request::post("/api/v1/refunds").bearer(&token).header("idempotency-key", "k-1");
        let mut client = TcpStream::connect(self.gateway.address("plain")?)?;
        client.write_all(&refund.http1())?;
        let (mut upstream, _) = self.backend.accept()?;
        ensure!(upstream.read(&mut [0; 16])? > 0, "the backend got nothing");
        drop(client);
        let line = access_log(&self.gateway, 1)?.pop().context("no line")?;
        let record = line.get("edge_idempotency").context("no record")?;
        ensure!(line.get("flags").is_some_and(|flags| flags == "DC"), "the client did not go away: {line:?}");
        for (name, value) in [("idempotency_outcome", "forwarded"), ("endpoint", "refunds"), ("tenant", "acme")] {
            ensure!(record.get(name).is_some_and(|member| member == value), "{name} is not {value}: {record}");
        }

        // The filter waits for the body, and the gateway ends the wait.
        let mut client = TcpStream::connect(self.gateway.address("slow")?)?;
        // A signature that its header does not show to be wrong.
        let signature = format!("t={},v1={}", deliveries::now(), "a".repeat(64));
        let head = format!(
            "POST /api/v1/hooks/stripe/wh_planted HTTP/1.1\r\nhost: a\r\nstripe-signature: {signature}\r\ncontent-length: 9\r\n\r\n"
        );
        client.write_all(head.as_bytes())?;
        let mut answer = [0; 12];
        client.read_exact(&mut answer)?;
        ensure!(&answer == b"HTTP/1.1 408", "{}", answer.escape_ascii());
        drop(client);
        let line = access_log(&self.gateway, 2)?.pop().context("no line")?;
        let expected = json!({
            "idempotency_case": "B", "idempotency_policy": "REQUIRED_B", "endpoint": "hooks",
            "original_path": "/api/v1/hooks/{provider}/{webhook_id}", "idempotency_outcome": "rejected",
            // What the client gets instead of the gateway's text.
            "idempotency_code": "backend_error",
        });
        ensure!(line.get("edge_idempotency") == Some(&expected), "{line:?}");
        ensure!(line.get("details").is_some_and(|details| details == "request_overall_timeout"), "{line:?}");
        Ok(())
    }
}
