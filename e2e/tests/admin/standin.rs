//! A listener in the place of Restate's admin API, which answers as a test says.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::Result;

/// What a test answers to a path; nothing closes the connection.
type Answer = dyn Fn(&str) -> Option<(u16, String)> + Send + Sync;

/// A listener. It ends with the process of the tests.
pub(crate) struct StandIn {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl StandIn {
    pub(crate) fn start(answer: impl Fn(&str) -> Option<(u16, String)> + Send + Sync + 'static) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}", listener.local_addr()?);
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, answer): (_, Arc<Answer>) = (Arc::clone(&requests), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = serve(stream, &seen, answer.as_ref());
            }
        });
        Ok(Self { url, requests })
    }

    /// The heads of the requests so far.
    pub(crate) fn requests(&self) -> Vec<String> {
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
    seen.lock().unwrap_or_else(PoisonError::into_inner).push(head);
    if let Some((status, body)) = answer(&path) {
        let length = body.len();
        let location = if status == 307 { "location: http://elsewhere.invalid/version\r\n" } else { "" };
        write!(
            stream,
            "HTTP/1.1 {status} Status\r\n{location}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
        )?;
    }
    Ok(())
}
