//! An external processor (Envoy's filter `ext_proc`) that leaves answers as they are. Where the gateway lets it, it keeps a
//! body until its end, and then gives it back in pieces.
//!
//! Only the few fields that this needs of `envoy/service/ext_proc/v3/external_processor.proto` are read and written here.

use std::net::SocketAddr;

use anyhow::{Context as _, Result};
use bytes::{Buf as _, Bytes, BytesMut};
use h2::SendStream;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue, Request, Response};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::runner::runtime;

/// How a processor gets an answer's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyMode {
    /// In pieces, each of which passes when the processor has replied to it
    Streamed,
    /// In pieces, and the processor sends as many of its own as it likes
    FullDuplex,
}

/// The length of the pieces that the processor sends.
const PIECE: usize = 16_000;

/// A running processor.
pub struct Processor {
    address: SocketAddr,
    mode: BodyMode,
    task: JoinHandle<()>,
}

impl Processor {
    /// Listens on a free port.
    pub fn start(mode: BodyMode) -> Result<Self> {
        let listener = runtime()?.block_on(TcpListener::bind("127.0.0.1:0")).context("there is no free port")?;
        let address = listener.local_addr()?;
        let task = runtime()?.spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(serve(connection, mode));
            }
        });
        Ok(Self { address, mode, task })
    }

    /// A filter that asks this processor about answers.
    pub fn filter(&self) -> Value {
        let body_mode = match self.mode {
            BodyMode::Streamed => "STREAMED",
            BodyMode::FullDuplex => "FULL_DUPLEX_STREAMED",
        };
        json!({"name": "envoy.filters.http.ext_proc", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
            "grpc_service": {"google_grpc": {"target_uri": self.address.to_string(), "stat_prefix": "ext_proc"}},
            "message_timeout": "10s",
            "processing_mode": {
                "request_header_mode": "SKIP",
                "response_header_mode": "SEND",
                "response_body_mode": body_mode,
                "response_trailer_mode": "SEND",
            },
        }})
    }
}

impl Drop for Processor {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(connection: TcpStream, mode: BodyMode) -> Result<()> {
    let mut connection = h2::server::handshake(connection).await?;
    while let Some(stream) = connection.accept().await {
        let (request, respond) = stream?;
        tokio::spawn(process(request, respond, mode));
    }
    Ok(())
}

/// Serves one exchange: each message of the gateway is about one part of its answer.
async fn process(request: Request<h2::RecvStream>, mut respond: SendResponse<Bytes>, mode: BodyMode) -> Result<()> {
    let head = Response::builder().header("content-type", "application/grpc").body(())?;
    let mut replies = respond.send_response(head, false)?;
    let mut requests = request.into_body();
    let mut received = BytesMut::new();
    // The parts of the body that have no reply yet.
    let mut parts: Vec<Vec<u8>> = Vec::new();
    while let Some(data) = requests.data().await {
        let data = data?;
        requests.flow_control().release_capacity(data.len())?;
        received.extend_from_slice(&data);
        while let Some(message) = next_message(&mut received) {
            for (field, value) in fields(&message) {
                match field {
                    RESPONSE_HEADERS => send(&mut replies, &member(2, &[]))?,
                    RESPONSE_BODY if mode == BodyMode::Streamed => send(&mut replies, &member(4, &member(1, &[])))?,
                    RESPONSE_BODY => {
                        let part = fields(value);
                        parts.push(
                            part.iter().find(|(field, _)| *field == 1).map_or(Vec::new(), |(_, body)| body.to_vec()),
                        );
                        if part.iter().any(|(field, _)| *field == 2) {
                            send_body(&mut replies, &std::mem::take(&mut parts), true)?;
                        }
                    }
                    RESPONSE_TRAILERS => {
                        send_body(&mut replies, &std::mem::take(&mut parts), false)?;
                        send(&mut replies, &member(6, &[]))?;
                    }
                    _ => {}
                }
            }
        }
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from_static("0"));
    replies.send_trailers(trailers)?;
    Ok(())
}

/// The fields of a `ProcessingRequest` with a part of an answer.
const RESPONSE_HEADERS: u64 = 3;
const RESPONSE_BODY: u64 = 5;
const RESPONSE_TRAILERS: u64 = 7;

/// Gives the body back. `is_end`: no trailers follow.
fn send_body(replies: &mut SendStream<Bytes>, parts: &[Vec<u8>], is_end: bool) -> Result<()> {
    let body = parts.concat();
    let mut pieces = body.chunks(PIECE).peekable();
    while let Some(piece) = pieces.next() {
        let mut streamed = member(1, piece);
        if is_end && pieces.peek().is_none() {
            streamed.extend([2 << 3, 1]);
        }
        // A `body_mutation` with a `streamed_response`.
        send(replies, &member(4, &member(1, &member(3, &member(3, &streamed)))))?;
    }
    Ok(())
}

/// Sends a message with the prefix of gRPC.
fn send(replies: &mut SendStream<Bytes>, message: &[u8]) -> Result<()> {
    let mut bytes = vec![0];
    bytes.extend(u32::try_from(message.len())?.to_be_bytes());
    bytes.extend(message);
    Ok(replies.send_data(bytes.into(), false)?)
}

/// Takes a message that has come whole.
fn next_message(received: &mut BytesMut) -> Option<BytesMut> {
    let length = received.get(1..5)?.try_into().ok().map(u32::from_be_bytes)?;
    let length = usize::try_from(length).ok()?;
    if received.len() < 5 + length {
        return None;
    }
    received.advance(5);
    Some(received.split_to(length))
}

/// The fields of a message, each with its bytes. Those of a number are left out: here it is `true`.
fn fields(mut message: &[u8]) -> Vec<(u64, &[u8])> {
    let mut found = Vec::new();
    while let Some(key) = number(&mut message) {
        let Some(length) = number(&mut message) else { break };
        let length = if key & 7 == 2 { usize::try_from(length).unwrap_or(usize::MAX) } else { 0 };
        let Some((value, rest)) = message.split_at_checked(length) else { break };
        found.push((key >> 3, value));
        message = rest;
    }
    found
}

fn number(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// A field with bytes.
fn member(field: u64, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for mut number in [field << 3 | 2, value.len() as u64] {
        while number >= 0x80 {
            bytes.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        bytes.push(number as u8);
    }
    bytes.extend(value);
    bytes
}
