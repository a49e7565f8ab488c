//! An external processor (Envoy's filter `ext_proc`) that leaves requests and answers as they are. Where the gateway lets it, it
//! gives a body back in pieces of its own: all at the end, or each part as it comes.
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

/// How a processor gets a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyMode {
    /// Whole
    Buffered,
    /// In pieces, each of which passes when the processor has replied to it
    Streamed,
    /// In pieces, and the processor sends as many of its own as it likes: here all at the end of the body
    FullDuplex,
    /// The same, and the processor gives each piece back as it comes
    FullDuplexAtOnce,
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
        self.filter_with(json!({"request_header_mode": "SKIP"}))
    }

    /// A filter that asks this processor about requests and answers.
    pub fn filter_of_both(&self) -> Value {
        self.filter_with(json!({
            "request_header_mode": "SEND",
            "request_body_mode": self.mode.name(),
            "request_trailer_mode": "SEND",
        }))
    }

    fn filter_with(&self, mut mode: Value) -> Value {
        let of_answers = [
            ("response_header_mode", "SEND"),
            ("response_body_mode", self.mode.name()),
            ("response_trailer_mode", "SEND"),
        ];
        if let Some(mode) = mode.as_object_mut() {
            mode.extend(of_answers.map(|(name, value)| (name.to_owned(), value.into())));
        }
        json!({"name": "envoy.filters.http.ext_proc", "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor",
            "grpc_service": {"google_grpc": {"target_uri": self.address.to_string(), "stat_prefix": "ext_proc"}},
            "message_timeout": "10s",
            "processing_mode": mode,
        }})
    }
}

impl BodyMode {
    const fn name(self) -> &'static str {
        match self {
            Self::Buffered => "BUFFERED",
            Self::Streamed => "STREAMED",
            Self::FullDuplex | Self::FullDuplexAtOnce => "FULL_DUPLEX_STREAMED",
        }
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

/// Serves one exchange: each message of the gateway is about one part of its request or of its answer.
async fn process(request: Request<h2::RecvStream>, mut respond: SendResponse<Bytes>, mode: BodyMode) -> Result<()> {
    let head = Response::builder().header("content-type", "application/grpc").body(())?;
    let mut replies = respond.send_response(head, false)?;
    let mut requests = request.into_body();
    let mut received = BytesMut::new();
    // The parts of the body that have no reply yet. An answer may begin before its request has ended.
    let (mut of_request, mut of_answer) = (Vec::new(), Vec::new());
    while let Some(data) = requests.data().await {
        let data = data?;
        requests.flow_control().release_capacity(data.len())?;
        received.extend_from_slice(&data);
        while let Some(message) = next_message(&mut received) {
            for (field, value) in fields(&message) {
                let is_request = matches!(field, REQUEST_HEADERS | REQUEST_BODY | REQUEST_TRAILERS);
                let parts: &mut Vec<u8> = if is_request { &mut of_request } else { &mut of_answer };
                match field {
                    REQUEST_HEADERS | RESPONSE_HEADERS => send(&mut replies, &member(field - 1, &[]))?,
                    REQUEST_BODY | RESPONSE_BODY if matches!(mode, BodyMode::Buffered | BodyMode::Streamed) => {
                        send(&mut replies, &member(field - 1, &member(1, &[])))?;
                    }
                    REQUEST_BODY | RESPONSE_BODY => {
                        let part = fields(value);
                        part.iter().filter(|(field, _)| *field == 1).for_each(|(_, body)| parts.extend(*body));
                        let is_end = part.iter().any(|(field, _)| *field == 2);
                        if is_end || mode == BodyMode::FullDuplexAtOnce {
                            send_body(&mut replies, field - 1, &std::mem::take(parts), is_end)?;
                        }
                    }
                    REQUEST_TRAILERS | RESPONSE_TRAILERS => {
                        send_body(&mut replies, field - 3, &std::mem::take(parts), false)?;
                        send(&mut replies, &member(field - 1, &[]))?;
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

/// The fields of a `ProcessingRequest` with a part of a request or of an answer. The field of the reply in a `ProcessingResponse` has
/// the number before.
const REQUEST_HEADERS: u64 = 2;
const RESPONSE_HEADERS: u64 = 3;
const REQUEST_BODY: u64 = 4;
const RESPONSE_BODY: u64 = 5;
const REQUEST_TRAILERS: u64 = 6;
const RESPONSE_TRAILERS: u64 = 7;

/// Gives a body, or a part of it, back in the reply's field of this number. `is_end`: neither more nor trailers follow.
fn send_body(replies: &mut SendStream<Bytes>, field: u64, body: &[u8], is_end: bool) -> Result<()> {
    let mut pieces: Vec<&[u8]> = body.chunks(PIECE).collect();
    if is_end && pieces.is_empty() {
        pieces.push(&[]);
    }
    let count = pieces.len();
    for (number, piece) in pieces.into_iter().enumerate() {
        let mut streamed = member(1, piece);
        if is_end && number + 1 == count {
            streamed.extend([2 << 3, 1]);
        }
        // A `body_mutation` with a `streamed_response`.
        send(replies, &member(field, &member(1, &member(3, &member(3, &streamed)))))?;
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
