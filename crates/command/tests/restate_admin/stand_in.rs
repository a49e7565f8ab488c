//! A listener in the place of Restate's admin API, which answers as a test says.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::Result;
use serde_json::{Value, json};

/// What a test answers to a path and a query; nothing closes the connection.
type Answer = dyn Fn(&str, &str) -> Option<(u16, String)> + Send + Sync;

/// What a sound server says of itself.
pub(super) fn version() -> String {
    json!({"version": "1.7.12", "min_admin_api_version": 2, "max_admin_api_version": 4}).to_string()
}

/// Restate's own answer to a purge of what it does not have, seen on 1.7.12.
pub(super) fn unknown_invocation() -> (u16, String) {
    let message = "The requested invocation 'inv_1' does not exist";
    (404, json!({"message": message, "restate_code": null}).to_string())
}

/// What is asked of a sound server: the version, the services, a query of `sys_invocation`, or a change.
pub(super) struct Sound {
    /// The service that Restate has besides `Refunds`
    pub(super) guard: &'static str,
    /// The rows for a query in SQL
    pub(super) rows: Box<dyn Fn(&str) -> Value + Send + Sync>,
    /// The answer to a change
    pub(super) change: fn(&str) -> Option<(u16, String)>,
}

impl Default for Sound {
    fn default() -> Self {
        Self { guard: "IdempotencyGuard", rows: Box::new(|_| json!([])), change: |_| Some((200, String::new())) }
    }
}

/// A listener. It ends with the process of the tests.
pub(super) struct StandIn {
    pub(super) url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl StandIn {
    pub(super) fn start(answer: impl Fn(&str) -> Option<(u16, String)> + Send + Sync + 'static) -> Result<Self> {
        Self::listen(move |path, _| answer(path))
    }

    /// A server that answers as Restate does.
    pub(super) fn sound(sound: Sound) -> Result<Self> {
        Self::listen(move |path, sql| match path {
            "/version" => Some((200, version())),
            "/services" => {
                let services: Vec<Value> = ["Refunds", sound.guard].iter().map(|name| json!({"name": name})).collect();
                Some((200, json!({"services": services}).to_string()))
            }
            "/query" => Some((200, json!({"rows": (sound.rows)(sql)}).to_string())),
            _ => (sound.change)(path),
        })
    }

    fn listen(answer: impl Fn(&str, &str) -> Option<(u16, String)> + Send + Sync + 'static) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}", listener.local_addr()?);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer): (_, Arc<Answer>) = (Arc::clone(&requests), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                thread::spawn(move || serve(stream, &seen, answer.as_ref()));
            }
        });
        Ok(Self { url, requests })
    }

    /// The paths of the changes so far.
    pub(super) fn changes(&self) -> Vec<String> {
        let heads = self.requests();
        heads.iter().filter_map(|head| head.strip_prefix("PATCH ")?.split(' ').next().map(str::to_owned)).collect()
    }

    /// The heads of the requests so far.
    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Answers one request and closes the connection.
fn serve(mut stream: TcpStream, seen: &Mutex<Vec<String>>, answer: &Answer) -> Result<()> {
    let (mut request, mut part) = (Vec::new(), [0; 4096]);
    let (head, length) = loop {
        let read = stream.read(&mut part)?;
        anyhow::ensure!(read > 0, "the request ended early");
        request.extend(part.get(..read).unwrap_or_default());
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, _)) = text.split_once("\r\n\r\n") {
            let length =
                head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
            break (head.to_owned(), head.len() + 4 + length.unwrap_or(0));
        }
    };
    while request.len() < length {
        let read = stream.read(&mut part)?;
        anyhow::ensure!(read > 0, "the body ended early");
        request.extend(part.get(..read).unwrap_or_default());
    }
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let start = (head.len() + 4).min(request.len());
    let body: Value = serde_json::from_slice(request.get(start..).unwrap_or_default()).unwrap_or_default();
    let sql = body.get("query").and_then(Value::as_str).unwrap_or_default();
    seen.lock().unwrap_or_else(PoisonError::into_inner).push(head);
    if let Some((status, body)) = answer(&path, sql) {
        let length = body.len();
        let location = if status == 307 { "location: http://elsewhere.invalid/version\r\n" } else { "" };
        write!(
            stream,
            "HTTP/1.1 {status} Status\r\n{location}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        )?;
        // What is closed with bytes that nobody has read is reset, and the client may lose the answer.
        stream.shutdown(Shutdown::Write)?;
        while stream.read(&mut part)? > 0 {}
    }
    Ok(())
}
