//! Answers that are long, or slow: they pass through as they come.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::{TestEnvironment, TestGateway};
use e2e::runner::Test;
use e2e::wire::PATIENCE;
use harness::tokens;
use serde_json::json;

const LISTENER: &str = "streaming";
const LENGTH: usize = 100 << 20;
/// What a gateway that buffered such an answer could not do with, and what one that does not can.
const ROOM: u64 = 40 << 20;
static PIECE: [u8; 1 << 16] = [b'x'; 1 << 16];
const FIRST: &[u8] = b"the first part";
const LAST: &[u8] = b", and the last";
/// More than is read of an answer that a `Location` needs, and not the same everywhere, so that its order shows.
static TOO_LONG: LazyLock<Vec<u8>> = LazyLock::new(|| (0..300_000).flat_map(u32::to_be_bytes).collect());

pub(crate) struct StreamingWorld {
    gateway: TestGateway,
    /// Lets the slow answer go on.
    go_on: Mutex<Sender<()>>,
}

pub(crate) fn start() -> Result<StreamingWorld> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let around = TestEnvironment { backend: Some(listener.local_addr()?), ..TestEnvironment::default() };
    let (go_on, wait) = channel();
    thread::spawn(move || serve(&listener, &wait));
    let route = |name| {
        let (path, target) = (format!("/api/v1/{name}"), format!("Answers/{name}"));
        json!({"endpoint": name, "path": path, "methods": ["GET"], "policy": "ACCEPTED", "target": target})
    };
    let shaped = |name| {
        let mut route = route(name);
        let answer = json!({"status": 201, "location": "/answers/{body:/id}"});
        route.as_object_mut().map(|members| members.insert("answer".to_owned(), answer));
        route
    };
    let routes = [route("large"), route("large-error"), route("slow"), shaped("large-shaped"), shaped("slow-shaped")];
    let policy = json!({
        "version": 1,
        "identity": {"sources": [tokens::source()]},
        "backend": {"kind": "restate", "cluster": "backend", "rewrite_path": true},
        "routes": routes,
    });
    let listener = ListenerSpec { policy: policy.to_string(), changes: vec![Change::EveryPath] };
    let gateway = TestGateway::start_within(&around, &[(LISTENER.to_owned(), listener)])?;
    Ok(StreamingWorld { gateway, go_on: Mutex::new(go_on) })
}

pub(crate) fn tests() -> Vec<Test<StreamingWorld>> {
    vec![
        Test::new("100 MiB pass, and are not kept", |setup: &StreamingWorld| large(setup, "large", 200)),
        Test::new("100 MiB of an error do not pass, and are not kept", |setup: &StreamingWorld| {
            large(setup, "large-error", 500)
        }),
        Test::new("100 MiB of an answer that cannot be shaped pass, and are not kept", |setup: &StreamingWorld| {
            large(setup, "large-shaped", 200)
        }),
        Test::new("what has come of a slow answer has gone on", |setup: &StreamingWorld| slow(setup, "slow", FIRST)),
        Test::new("a slow answer that is too long to be shaped goes on before its end", |setup: &StreamingWorld| {
            slow(setup, "slow-shaped", &TOO_LONG)
        }),
    ]
}

/// Answers by path; it stands in for a backend with answers that Restate would not store.
fn serve(listener: &TcpListener, wait: &Receiver<()>) {
    while let Ok((mut stream, _)) = listener.accept() {
        // A connection that breaks shows as a failed answer in the test that used it.
        let _ = answer(&mut stream, wait);
    }
}

fn answer(stream: &mut TcpStream, wait: &Receiver<()>) -> Result<()> {
    let head = head(stream)?;
    let first = if head.contains("/slow-shaped ") { &TOO_LONG } else { FIRST };
    let (status, length) = match () {
        () if head.contains("/large-error ") => ("500 Told", LENGTH),
        () if head.contains("/large ") || head.contains("/large-shaped ") => ("200 Told", LENGTH),
        () => ("200 Told", first.len() + LAST.len()),
    };
    let headers = "content-type: application/json\r\nx-restate-id: inv_1\r\nconnection: close";
    write!(stream, "HTTP/1.1 {status}\r\n{headers}\r\ncontent-length: {length}\r\n\r\n")?;
    if length == LENGTH {
        for _ in 0..LENGTH / PIECE.len() {
            stream.write_all(&PIECE)?;
        }
        return Ok(());
    }
    stream.write_all(first)?;
    stream.flush()?;
    wait.recv_timeout(PATIENCE)?;
    stream.write_all(LAST)?;
    Ok(())
}

fn head(stream: &mut TcpStream) -> Result<String> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

/// Sends a request with a key, and gives the connection with the answer's head.
fn get(setup: &StreamingWorld, name: &str) -> Result<(TcpStream, String)> {
    let token = setup.gateway.token(&json!({"tenant_id": "acme", "project_id": "p", "sub": "u"}))?;
    let address: SocketAddr = setup.gateway.address(LISTENER)?;
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let headers = format!("host: a\r\nauthorization: Bearer {token}\r\nidempotency-key: k\r\nconnection: close");
    write!(stream, "GET /api/v1/{name} HTTP/1.1\r\n{headers}\r\n\r\n")?;
    let head = head(&mut stream)?;
    Ok((stream, head))
}

fn large(setup: &StreamingWorld, name: &str, status: u16) -> Result<()> {
    let before = setup.gateway.peak_memory()?;
    let (mut stream, head) = get(setup, name)?;
    ensure!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
    let mut piece = vec![0; PIECE.len()];
    let mut length = 0;
    loop {
        match stream.read(&mut piece)? {
            0 => break,
            read => length += read,
        }
    }
    let expected = if status < 400 { LENGTH..LENGTH + 1 } else { 1..1024 };
    ensure!(expected.contains(&length), "{length} bytes came: {head}");
    let grown = setup.gateway.peak_memory()?.saturating_sub(before);
    ensure!(grown < ROOM, "the gateway has grown by {grown} bytes");
    Ok(())
}

fn slow(setup: &StreamingWorld, name: &str, expected: &[u8]) -> Result<()> {
    let (mut stream, head) = get(setup, name)?;
    ensure!(head.starts_with("HTTP/1.1 200 "), "{head}");
    let mut first = vec![0; expected.len()];
    stream.read_exact(&mut first).context("the first part waits for the last")?;
    ensure!(first == expected, "{}", first.escape_ascii());
    setup.go_on.lock().unwrap_or_else(PoisonError::into_inner).send(())?;
    let mut last = Vec::new();
    stream.read_to_end(&mut last)?;
    ensure!(last == LAST, "{}", last.escape_ascii());
    Ok(())
}
