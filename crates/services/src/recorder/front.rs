//! What stands between the gateway and an API: it has the call run in Restate under the request's key, and answers as the API did.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, anyhow, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderMap, HeaderValue, UPGRADE};
use hyper::upgrade::{self, OnUpgrade};
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::api::{Api, CONNECT, Passing, client, kept};
use super::envelope::{Answer, Call, Lines, Outcome, decode, encode};
use super::long_answers::LongAnswers;
use super::problem::Problem;
use super::reply::{Body, ReadBody, full, read_up_to};

/// With several APIs the filter writes here which one a request is for.
const BACKEND: &str = "x-edge-idempotency";
const KEY: &str = "idempotency-key";
const FINGERPRINT: &str = "idempotency-fingerprint";
const REPLAYED: &str = "idempotent-replayed";
const RETRY: &str = "idempotency-retry";
/// How often a key can be tried anew because the API did nothing under it, as long as Restate keeps answers.
const TRIES: u32 = 64;

/// The proxy.
pub(super) struct Front {
    pub(super) apis: Arc<BTreeMap<String, Api>>,
    /// For each API, how many calls more may be under way
    places: BTreeMap<String, Semaphore>,
    /// Restate's handler at each of its nodes
    handlers: Vec<Uri>,
    /// The place of the node that answered last
    answers: AtomicUsize,
    long: LongAnswers,
    restate: Client<HttpConnector, Full<Bytes>>,
    passing: Passing,
}

impl Front {
    /// `restate` are the addresses of Restate's ingress.
    pub(super) fn new(apis: Arc<BTreeMap<String, Api>>, long: LongAnswers, restate: &[String]) -> Result<Self> {
        let handlers = restate.iter().map(|node| handler(node)).collect::<Result<_>>()?;
        let places = apis.iter().map(|(name, api)| (name.clone(), Semaphore::new(api.upstream.max_calls))).collect();
        let answers = AtomicUsize::new(0);
        Ok(Self { apis, places, handlers, answers, long, restate: client(), passing: client() })
    }

    pub(super) async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
        let answer = match request.headers().contains_key(KEY) {
            true => self.keyed(request).await,
            false => self.unkeyed(request).await,
        };
        Ok(answer.unwrap_or_else(Problem::answer))
    }

    /// The API that the filter names, or the only one.
    fn api(&self, headers: &HeaderMap) -> Result<(&str, &Api), Problem> {
        let named =
            headers.get(BACKEND).and_then(|name| name.to_str().ok()).and_then(|name| self.apis.get_key_value(name));
        let only = if self.apis.len() == 1 { self.apis.first_key_value() } else { None };
        let (name, api) = named.or(only).ok_or(Problem::NoUpstream)?;
        Ok((name, api))
    }

    async fn unkeyed(&self, mut request: Request<Incoming>) -> Result<Response<Body>, Problem> {
        let (_, api) = self.api(request.headers())?;
        if request.method() == Method::CONNECT {
            return Err(Problem::Upgrade);
        }
        let client = upgrade::on(&mut request);
        let mut response = api.pass(request, &self.passing).await.map_err(|_| Problem::Unreachable)?;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS {
            tokio::spawn(join(client, upgrade::on(&mut response)));
        }
        Ok(response.map(BodyExt::boxed_unsync))
    }

    async fn keyed(&self, request: Request<Incoming>) -> Result<Response<Body>, Problem> {
        let (name, api) = self.api(request.headers())?;
        let (head, body) = request.into_parts();
        // The status of gRPC is in trailers, which are not kept.
        let is_grpc =
            head.headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"));
        if head.headers.contains_key(UPGRADE) || head.method == Method::CONNECT || is_grpc {
            return Err(Problem::Upgrade);
        }
        let key = one(&head.headers, KEY)?.ok_or(Problem::Key)?;
        let fingerprint = one(&head.headers, FINGERPRINT)?;
        let _place = match self.places.get(name).map(Semaphore::try_acquire) {
            Some(Ok(place)) => place,
            _ => return Err(Problem::Busy),
        };
        let body = match read_up_to(api.upstream.max_body_bytes, body).await {
            Ok(ReadBody::Whole(body)) => body,
            Ok(ReadBody::Long(_)) => return Err(Problem::TooLarge(api.upstream.max_body_bytes)),
            Err(_) => return Err(Problem::Interrupted),
        };
        let target = head.uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        let operation = operation(&head.method, head.uri.path());
        let authority = head.uri.authority().map(|authority| authority.as_str());
        let call = Call {
            nonce: nonce(),
            upstream: name.to_owned(),
            method: head.method.to_string(),
            target,
            fingerprint,
            on_unknown: api.upstream.on_unknown,
            headers: Lines::of(&kept(&head.headers, authority, &api.upstream)),
        };
        let envelope = Bytes::from(encode(&call, &body).map_err(|_| Problem::Store)?);
        let mut long = self.long.expect(&call.nonce);
        for attempt in 0..TRIES {
            // What `keys show` and `keys purge` look for stands in front. All suffixes are equally long, so no two keys become one.
            let key = format!("{key}.{operation}.{attempt:02}");
            let (answer, body) = self.run(api, &key, envelope.clone()).await.map_err(|error| {
                eprintln!("{key}: {error:#}");
                Problem::Store
            })?;
            if matches!((&call.fingerprint, &answer.fingerprint), (Some(this), Some(first)) if this != first) {
                return Err(Problem::Reused);
            }
            let replayed = answer.nonce != call.nonce;
            // An earlier request found that the API did nothing, so this one may try.
            if !(replayed && answer.outcome.is_free()) {
                return told(&answer, body, long.take(), replayed);
            }
        }
        Err(Problem::Exhausted)
    }

    /// Has Restate run a call under a key, or waits for the one that runs, or gets what is kept. If a node fails, or takes longer than
    /// any call can, the next one is asked: it finds what the first one began, by the key.
    async fn run(&self, api: &Api, key: &str, envelope: Bytes) -> Result<(Answer, Bytes)> {
        let longest = api.upstream.longest_call() + CONNECT;
        let mut failed = anyhow!("Restate has no address");
        let first = self.answers.load(Ordering::Relaxed);
        for (place, node) in self.handlers.iter().enumerate().cycle().skip(first).take(self.handlers.len()) {
            let answer = timeout(longest, self.run_at(node, key, envelope.clone())).await;
            match answer.unwrap_or_else(|_| Err(anyhow!("no answer within {longest:?}"))) {
                Ok(answer) => {
                    self.answers.store(place, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(error) => failed = error.context(node.to_string()),
            }
        }
        Err(failed)
    }

    async fn run_at(&self, node: &Uri, key: &str, envelope: Bytes) -> Result<(Answer, Bytes)> {
        let request = Request::post(node)
            .header(KEY, key)
            .header(CONTENT_TYPE, "application/octet-stream")
            .body(Full::new(envelope))?;
        let response = self.restate.request(request).await?;
        let status = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        ensure!(status == StatusCode::OK, "Restate answered {status}: {}", String::from_utf8_lossy(&body));
        decode(body)
    }
}

/// Passes bytes between two connections that were upgraded, until both have ended.
async fn join(client: OnUpgrade, api: OnUpgrade) {
    if let Ok((client, api)) = tokio::try_join!(client, api) {
        let (mut client, mut api) = (TokioIo::new(client), TokioIo::new(api));
        // It may break off at any time, and nobody is there who could be told.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut api).await;
    }
}

/// The recorder's handler in Restate, whose ingress is at this address.
fn handler(restate: &str) -> Result<Uri> {
    let handler = format!("{}/restate/call/Recorder/call", restate.trim_end_matches('/'));
    let handler: Uri = handler.parse().with_context(|| format!("`{restate}` is no URL"))?;
    ensure!(handler.scheme_str() == Some("http"), "expected `http://HOST:PORT` of Restate's ingress");
    Ok(handler)
}

/// The answer of the API, as it came.
fn told(answer: &Answer, body: Bytes, long: Option<Body>, replayed: bool) -> Result<Response<Body>, Problem> {
    let (status, body) = match answer.outcome {
        Outcome::Answered(status) | Outcome::Refused(status) => (status, full(body)),
        Outcome::TooLong(status) => (status, long.ok_or(Problem::TooLong(status))?),
        Outcome::Unreachable => return Err(Problem::Unreachable),
        Outcome::Unknown => return Err(Problem::Unknown),
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(status).map_err(|_| Problem::Store)?;
    *response.headers_mut() = answer.headers.headers();
    // What the API itself says in these headers is about nothing that it did.
    response.headers_mut().remove(REPLAYED);
    response.headers_mut().remove(RETRY);
    if replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// The value of a header that may stand there once.
fn one(headers: &HeaderMap, name: &str) -> Result<Option<String>, Problem> {
    let mut values = headers.get_all(name).iter();
    let first = values.next().map(|value| value.to_str().map(str::to_owned).map_err(|_| Problem::Key)).transpose()?;
    if values.next().is_some() { Err(Problem::Key) } else { Ok(first) }
}

/// Keys of different operations are different keys, as with the middlewares of `examples/`.
fn operation(method: &Method, path: &str) -> String {
    let digest = Sha256::digest(format!("{method} {path}"));
    URL_SAFE_NO_PAD.encode(digest.get(..12).unwrap_or_default())
}

/// Tells this request from all others.
fn nonce() -> String {
    format!("{:032x}", fastrand::u128(..))
}
