//! The same requests over HTTP/2 with prior knowledge, trailers included.

use std::net::SocketAddr;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::net::TcpStream;
use tokio::task::{JoinHandle, JoinSet};

use crate::raw::{Reply, Request};
use crate::runner::runtime;
use crate::wire::{HeaderLine, PATIENCE};

/// Sends one request on a connection of its own. What the protocol's own library refuses to send is an error.
pub fn exchange(address: SocketAddr, request: &Request) -> Result<Reply> {
    runtime()?.block_on(async {
        match tokio::time::timeout(PATIENCE, send(address, request)).await {
            Ok(reply) => reply,
            Err(_) => bail!("no answer over HTTP/2 within {PATIENCE:?}"),
        }
    })
}

async fn send(address: SocketAddr, request: &Request) -> Result<Reply> {
    let stream = TcpStream::connect(address).await.context("cannot connect")?;
    let (sender, connection) = h2::client::handshake(stream).await?;
    let connection = tokio::spawn(connection);
    let reply = on(sender, request).await;
    connection.abort();
    reply
}

/// A connection for several requests, also at once.
pub struct Connection {
    sender: h2::client::SendRequest<Bytes>,
    task: JoinHandle<Result<(), h2::Error>>,
}

impl Connection {
    /// Connects.
    pub async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        let (sender, connection) = h2::client::handshake(stream).await?;
        Ok(Self { sender, task: tokio::spawn(connection) })
    }

    /// Sends a request whose body comes in DATA frames of these lengths, again and again.
    pub async fn exchange(&self, request: &Request, lengths: &[usize]) -> Result<Reply> {
        match tokio::time::timeout(PATIENCE, in_pieces(self.sender.clone(), request, lengths)).await {
            Ok(reply) => reply,
            Err(_) => bail!("no answer over HTTP/2 within {PATIENCE:?}"),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Requests under way, on connections that are open until this is dropped.
pub struct UnderWay {
    connections: JoinSet<Result<(), h2::Error>>,
    answers: JoinSet<Result<u16>>,
}

impl UnderWay {
    /// Sends a request `each` times on so many connections, and waits for no answer.
    pub async fn begin(address: SocketAddr, request: &Request, connections: usize, each: usize) -> Result<Self> {
        let mut under_way = Self { connections: JoinSet::new(), answers: JoinSet::new() };
        for _ in 0..connections {
            let stream = TcpStream::connect(address).await.context("cannot connect")?;
            // Hundreds of short answers at once are what was asked for.
            let mut options = h2::client::Builder::new();
            options.data_frame_budget(usize::MAX);
            let (sender, connection) = options.handshake(stream).await?;
            under_way.connections.spawn(connection);
            for _ in 0..each {
                let (sender, request) = (sender.clone(), request.clone());
                under_way.answers.spawn(async move { Ok(on(sender, &request).await?.status) });
            }
        }
        Ok(under_way)
    }

    /// The statuses of so many answers, in the order in which they come.
    pub async fn statuses(&mut self, answers: usize) -> Result<Vec<u16>> {
        let mut statuses = Vec::new();
        while statuses.len() < answers {
            let answer = tokio::time::timeout(PATIENCE, self.answers.join_next()).await;
            let answer = answer.with_context(|| format!("only {} answers", statuses.len()))?;
            statuses.push(answer.context("no further request")???);
        }
        Ok(statuses)
    }
}

async fn on(sender: h2::client::SendRequest<Bytes>, request: &Request) -> Result<Reply> {
    in_pieces(sender, request, &[usize::MAX]).await
}

async fn in_pieces(sender: h2::client::SendRequest<Bytes>, request: &Request, lengths: &[usize]) -> Result<Reply> {
    let target = std::str::from_utf8(&request.target).context("the target is no text")?;
    let mut head = http::Request::builder()
        .method(request.method.as_str())
        .uri(format!("http://{}{target}", request.authority))
        .body(())?;
    *head.headers_mut() = map(&request.headers)?;
    let ends = request.body.is_empty() && request.trailers.is_empty();
    let (response, mut stream) = sender.ready().await?.send_request(head, ends)?;
    let sent = send_rest(&mut stream, request, lengths).await;
    // Who refuses a request may reset the stream before all of it is sent; the answer counts.
    let answer = match (response.await, sent) {
        (Ok(answer), _) => answer,
        (Err(error), Ok(())) => return Err(error.into()),
        (Err(error), Err(sending)) => return Err(error).context(format!("sending failed: {sending}")),
    };
    let (head, mut body) = answer.into_parts();
    let mut whole = Vec::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk?;
        body.flow_control().release_capacity(chunk.len())?;
        whole.extend_from_slice(&chunk);
    }
    let lines =
        |map: &HeaderMap| map.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
    let trailers = body.trailers().await?.as_ref().map(lines).unwrap_or_default();
    let (status, headers) = (head.status.as_u16(), lines(&head.headers));
    Ok(Reply { status, headers, body: whole, trailers, ..Reply::default() })
}

async fn send_rest(stream: &mut h2::SendStream<Bytes>, request: &Request, lengths: &[usize]) -> Result<()> {
    let mut rest = Bytes::from(request.body.clone());
    for length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let piece = rest.split_to(rest.len().min(*length));
        stream.send_data(piece, rest.is_empty() && request.trailers.is_empty())?;
        // The connection's task writes the frame meanwhile.
        tokio::task::yield_now().await;
    }
    if !request.trailers.is_empty() {
        stream.send_trailers(map(&request.trailers)?)?;
    }
    Ok(())
}

fn map(lines: &[HeaderLine]) -> Result<HeaderMap> {
    let mut map = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::try_from(name.as_str()).with_context(|| format!("header name `{name}`"))?;
        let value = HeaderValue::from_bytes(value).with_context(|| format!("value of header {name}"))?;
        map.append(name, value);
    }
    Ok(map)
}
