//! A small HTTP client that sends exactly what it is given: the path as it stands, headers in their order, repeated as often
//! as wanted, and values of any bytes that HTTP allows. One connection for each request.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::header::{HeaderName, HeaderValue};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::net::TcpStream;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Which protocol a request is sent in, without TLS.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Protocol {
    /// HTTP/1.1.
    #[default]
    Http1,
    /// HTTP/2 with prior knowledge.
    Http2,
}

/// A request to send.
#[derive(Clone, Debug)]
pub struct Request {
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// Header lines, in order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body, sent with a `content-length` unless it is empty.
    pub body: Vec<u8>,
    /// The protocol.
    pub protocol: Protocol,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// Header lines in lower case, in order.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The whole body.
    pub body: Vec<u8>,
}

impl Request {
    /// A request without headers or body.
    pub fn new(method: &str, path: &str) -> Self {
        Self {
            method: method.to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            protocol: Protocol::default(),
        }
    }

    /// `GET path`.
    pub fn get(path: &str) -> Self {
        Self::new("GET", path)
    }

    /// `POST path`.
    pub fn post(path: &str) -> Self {
        Self::new("POST", path)
    }

    /// Adds a header line; lines of the same name stay apart.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.push((name.to_owned(), value.as_ref().to_vec()));
        self
    }

    /// Adds `Authorization: Bearer …`.
    pub fn bearer(self, token: &str) -> Self {
        self.header("authorization", format!("Bearer {token}"))
    }

    /// A JSON body with its content type.
    pub fn json(self, body: &Value) -> Self {
        self.header("content-type", "application/json").body(body.to_string())
    }

    /// A body of any bytes.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sends over HTTP/2.
    pub fn http2(mut self) -> Self {
        self.protocol = Protocol::Http2;
        self
    }

    /// Sends to `http://host:port` and reads the whole answer.
    pub async fn send(&self, base_url: &str) -> Result<Reply> {
        let exchange = async {
            let authority = base_url.strip_prefix("http://").context("the base URL begins with http://")?;
            let stream = TcpStream::connect(authority).await.context("cannot connect")?;
            let io = TokioIo::new(stream);
            match self.protocol {
                Protocol::Http1 => {
                    let (mut sender, connection) = http1::handshake(io).await?;
                    let connection = tokio::spawn(connection);
                    let reply = read(sender.send_request(self.build(&self.path, Some(authority))?).await?).await;
                    connection.abort();
                    reply
                }
                Protocol::Http2 => {
                    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), io).await?;
                    let connection = tokio::spawn(connection);
                    let uri = format!("{base_url}{}", self.path);
                    let reply = read(sender.send_request(self.build(&uri, None)?).await?).await;
                    connection.abort();
                    reply
                }
            }
        };
        match tokio::time::timeout(TIMEOUT, exchange).await {
            Ok(result) => result.with_context(|| format!("{} {base_url}{}", self.method, self.path)),
            Err(_) => bail!("{} {base_url}{}: no answer within {TIMEOUT:?}", self.method, self.path),
        }
    }

    fn build(&self, uri: &str, host: Option<&str>) -> Result<hyper::Request<Full<Bytes>>> {
        let mut request = hyper::Request::builder().method(self.method.as_str()).uri(uri);
        if let Some(host) = host
            && !self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("host"))
        {
            request = request.header("host", host);
        }
        for (name, value) in &self.headers {
            let name = HeaderName::try_from(name.as_str()).with_context(|| format!("header name `{name}`"))?;
            let value = HeaderValue::from_bytes(value).with_context(|| format!("value of header {name}"))?;
            request = request.header(name, value);
        }
        Ok(request.body(Full::new(Bytes::from(self.body.clone())))?)
    }
}

async fn read(response: hyper::Response<Incoming>) -> Result<Reply> {
    let (head, body) = response.into_parts();
    let headers = head.headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect();
    Ok(Reply { status: head.status.as_u16(), headers, body: body.collect().await?.to_bytes().to_vec() })
}

impl Reply {
    /// The first line of a header, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(candidate, _)| candidate.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(value).ok()
    }

    /// The body as text; bytes that are none are replaced.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON, null if it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The `code` of a problem document, or an empty string.
    pub fn code(&self) -> String {
        self.json().get("code").and_then(Value::as_str).unwrap_or_default().to_owned()
    }
}
