//! A stand-in for a server of HTTP/1.1: it keeps the requests that it got, and answers each as a test says.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request that came.
#[derive(Debug, Clone)]
pub(crate) struct Received {
    /// Method and path
    pub(crate) line: String,
    /// Lines of the head, as they came
    pub(crate) head: String,
    pub(crate) body: String,
}

/// A server. It ends with the test's process.
pub(crate) struct StandIn {
    pub(crate) url: String,
    received: Arc<Mutex<Vec<Received>>>,
}

impl StandIn {
    /// A server that answers with this status and body.
    pub(crate) fn answering(answer: impl Fn(&Received) -> (u16, String) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let received = Arc::new(Mutex::new(Vec::new()));
        let kept = received.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let request = read(&mut stream);
                let (status, body) = answer(&request);
                kept.lock().unwrap().push(request);
                let length = body.len();
                let head = format!("HTTP/1.1 {status} Told\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n");
                stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
            }
        });
        Self { url, received }
    }

    /// What came since the last call.
    pub(crate) fn received(&self) -> Vec<Received> {
        std::mem::take(&mut *self.received.lock().unwrap())
    }
}

fn read(stream: &mut TcpStream) -> Received {
    let (mut got, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let text = String::from_utf8_lossy(&got).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let lower = head.to_ascii_lowercase();
            let length = lower.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
            if body.len() >= length.parse::<usize>().unwrap() {
                let line = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1").to_owned();
                return Received { line, head: head.to_owned(), body: body.to_owned() };
            }
        }
        let read = stream.read(&mut part).unwrap();
        assert!(read > 0, "the request ended early: {text}");
        got.extend(&part[..read]);
    }
}
