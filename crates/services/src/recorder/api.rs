//! Calls an API: once, or again as long as it says that it did nothing.

use std::time::Duration;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, UPGRADE};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::config::{OnUnknown, Upstream};
use super::envelope::{Call, Lines, Outcome};
use super::reply::{Body, ReadBody, read_up_to};

/// Before a call is repeated for the first time; each further time takes twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
pub(super) const CONNECT: Duration = Duration::from_secs(5);

/// Headers that are about one connection (RFC 9110, section 7.6.1), and `Expect`, which the recorder has answered.
const OF_A_CONNECTION: [&str; 8] =
    ["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "expect"];

/// Removes the headers that are about one connection. The length of a body is told anew.
pub(super) fn end_to_end(headers: &mut HeaderMap) {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| HeaderName::try_from(name.trim()).ok())
        // Whoever sends it may not take another header away.
        .filter(|name| OF_A_CONNECTION.contains(&name.as_str()))
        .collect();
    for name in OF_A_CONNECTION.map(HeaderName::from_static).into_iter().chain(named).chain([CONTENT_LENGTH]) {
        headers.remove(name);
    }
}

/// The same, but WebSockets may come about. Through HTTP/2 without TLS (`h2c`) a client would call the API past the filter.
fn end_to_end_or_websocket(headers: &mut HeaderMap) {
    let is_websocket = headers.get(UPGRADE).is_some_and(|to| to.as_bytes().eq_ignore_ascii_case(b"websocket"));
    end_to_end(headers);
    if is_websocket {
        headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    }
}

/// A client of HTTP/1.1 that follows no redirect and has its own connections.
pub(super) fn client<B>() -> Client<HttpConnector, B>
where
    B: hyper::body::Body + Send + 'static,
    B::Data: Send,
{
    let mut connector = HttpConnector::new();
    connector.set_connect_timeout(Some(CONNECT));
    connector.set_nodelay(true);
    Client::builder(TokioExecutor::new()).build(connector)
}

/// Where a request goes: the operator's host and port, and the request's path and query.
///
/// # Errors
/// If the target is no path.
pub(super) fn address(upstream: &Upstream, target: &str) -> Result<Uri> {
    let mut parts = upstream.url.clone().into_parts();
    parts.path_and_query = Some(target.parse().with_context(|| format!("`{target}` is no path"))?);
    Ok(Uri::from_parts(parts)?)
}

/// An API, and the connections to it.
#[derive(Debug)]
pub(super) struct Api {
    pub(super) upstream: Upstream,
    client: Client<HttpConnector, Full<Bytes>>,
}

/// The answer of an API.
pub(super) struct Told {
    pub(super) outcome: Outcome,
    pub(super) headers: Lines,
    pub(super) body: Bytes,
    /// The body of an answer that is too long to keep
    pub(super) long: Option<Body>,
}

impl Told {
    pub(super) fn without_answer(outcome: Outcome) -> Self {
        Self { outcome, headers: Lines::default(), body: Bytes::new(), long: None }
    }
}

impl Api {
    pub(super) fn new(upstream: Upstream) -> Self {
        Self { upstream, client: client() }
    }

    /// Why the API takes no connection; `None` if it does.
    pub(super) async fn refusal(&self) -> Option<String> {
        let address = self.upstream.url.authority()?;
        let host = address.host().trim_start_matches('[').trim_end_matches(']');
        let connected = timeout(CONNECT, TcpStream::connect((host, address.port_u16().unwrap_or(80)))).await;
        match connected {
            Ok(connected) => connected.err().map(|error| error.to_string()),
            Err(_) => Some(format!("no answer in {} s", CONNECT.as_secs())),
        }
    }

    /// Calls the API until it has answered, or until nobody can tell whether it has worked.
    pub(super) async fn call(&self, call: &Call, body: &Bytes) -> Told {
        // A call may have taken long before it failed, so the time for further ones begins then.
        let (mut first_failure, mut pause) = (None, FIRST_PAUSE);
        loop {
            let told = self.once(call, body).await;
            let give_up = *first_failure.get_or_insert_with(Instant::now) + self.upstream.retry_for;
            let again =
                told.outcome.is_free() || told.outcome == Outcome::Unknown && call.on_unknown == OnUnknown::Retry;
            let asked = told.headers.headers().get(RETRY_AFTER).and_then(seconds).unwrap_or_default();
            let wait = pause.max(asked);
            if !again || Instant::now() + wait > give_up {
                return told;
            }
            sleep(wait).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn once(&self, call: &Call, body: &Bytes) -> Told {
        let Ok(request) = self.request(call, body) else {
            // What no HTTP client can send has reached nobody.
            return Told::without_answer(Outcome::Unreachable);
        };
        let end = Instant::now() + self.upstream.timeout;
        let (head, body) = match timeout_at(end, self.client.request(request)).await {
            Ok(Ok(response)) => response.into_parts(),
            Ok(Err(error)) if error.is_connect() => return Told::without_answer(Outcome::Unreachable),
            Ok(Err(_)) | Err(_) => return Told::without_answer(Outcome::Unknown),
        };
        let status = head.status.as_u16();
        let mut headers = head.headers;
        let does_nothing =
            self.upstream.not_run.contains(&status) && (status < 500 || headers.contains_key(RETRY_AFTER));
        end_to_end(&mut headers);
        let headers = Lines::of(&headers);
        match timeout_at(end, read_up_to(self.upstream.max_answer_bytes, body)).await {
            Ok(Ok(ReadBody::Whole(body))) => {
                let outcome = if does_nothing { Outcome::Refused(status) } else { Outcome::Answered(status) };
                Told { outcome, headers, body, long: None }
            }
            Ok(Ok(ReadBody::Long(body))) => {
                Told { outcome: Outcome::TooLong(status), headers, body: Bytes::new(), long: Some(body) }
            }
            Ok(Err(_)) | Err(_) => Told::without_answer(Outcome::Unknown),
        }
    }

    fn request(&self, call: &Call, body: &Bytes) -> Result<Request<Full<Bytes>>> {
        let mut request = Request::new(Full::new(body.clone()));
        *request.method_mut() = Method::from_bytes(call.method.as_bytes())?;
        *request.uri_mut() = address(&self.upstream, &call.target)?;
        *request.headers_mut() = call.headers.headers();
        Ok(request)
    }

    /// Hands a request without a key on, with credentials, and the answer back as it comes.
    pub(super) async fn pass(&self, from: Request<Incoming>, client: &Passing) -> Result<Response<Incoming>> {
        let (mut head, body) = from.into_parts();
        head.uri = address(&self.upstream, head.uri.path_and_query().map_or("/", |target| target.as_str()))?;
        end_to_end_or_websocket(&mut head.headers);
        head.version = hyper::Version::HTTP_11;
        head.extensions.clear();
        let mut response = client.request(Request::from_parts(head, body)).await?;
        let length = response.headers().get(CONTENT_LENGTH).cloned();
        match response.status() {
            StatusCode::SWITCHING_PROTOCOLS => end_to_end_or_websocket(response.headers_mut()),
            _ => end_to_end(response.headers_mut()),
        }
        // The answer to HEAD has the length of a body that it does not have.
        length.into_iter().for_each(|length| {
            response.headers_mut().insert(CONTENT_LENGTH, length);
        });
        Ok(response)
    }
}

/// The connections of requests without a key.
pub(super) type Passing = Client<HttpConnector, Incoming>;

/// The headers of a request that go into an envelope: all but those of a connection and of credentials. An API that is asked for a
/// compressed answer would give one that a later client may not read.
pub(super) fn kept(headers: &HeaderMap, authority: Option<&str>, upstream: &Upstream) -> HeaderMap {
    let mut kept = headers.clone();
    end_to_end(&mut kept);
    for name in super::config::CREDENTIALS {
        if !upstream.keep_headers.iter().any(|keep| keep == name) {
            kept.remove(name);
        }
    }
    kept.remove("accept-encoding");
    // In HTTP/2 the host is no header line.
    if let Some(host) = authority.and_then(|authority| HeaderValue::try_from(authority).ok()) {
        kept.insert(HOST, host);
    }
    kept
}

fn seconds(value: &HeaderValue) -> Option<Duration> {
    value.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}
