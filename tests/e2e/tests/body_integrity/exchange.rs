//! One request and its answer: what is sent, what the upstream answers, and whether all of it arrived.

use std::fmt;
use std::sync::OnceLock;

use anyhow::Result;
use e2e::capture::Answer;
use e2e::deliveries;
use e2e::raw::{Reply, Request};
use e2e::wire::Message;
use serde_json::{Value, json};

pub(crate) const GITHUB_SECRET: &str = "0123456789abcdef0123456789abcdef";

/// Around the lengths at which buffers and frames end. The longest is the policy's bound for bodies that the filter reads.
const LENGTHS: [usize; 11] = [0, 1, 16_383, 16_384, 16_385, 65_535, 65_536, 65_537, 300_000, (1 << 20) - 1, 1 << 20];
/// The lengths of the pieces in which a client writes a body, again and again.
const PIECES: [&[usize]; 3] = [&[1, 7, 4_096, 2, 16_000, 333], &[10_007], &[16_384, 65_537, 1]];
/// From this length on a body is JSON.
const SHORTEST_JSON: usize = 64;
/// The longest error that the filter cleans.
const LONGEST_CLEANED: usize = 65_536;

/// What the filter does with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// It lets both bodies pass as they come.
    Plain,
    /// It reads the answer, for its `Location`.
    Located,
    /// It reads the request, and compares.
    Compared,
    /// It reads the request as it passes.
    Observed,
    /// It keeps the request while it asks whether its key is in flight.
    InFlight,
    /// All of these.
    Everything,
    /// It keeps the request until its signature is verified.
    Webhook,
    /// It cleans an error in JSON, or replaces it if that is too long to be cleaned.
    Fails,
    /// It replaces a success.
    OneWay,
}

pub(crate) const ROUTES: [Route; 9] = [
    Route::Plain,
    Route::Located,
    Route::Compared,
    Route::Observed,
    Route::InFlight,
    Route::Everything,
    Route::Webhook,
    Route::Fails,
    Route::OneWay,
];

impl Route {
    const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Located => "located",
            Self::Compared => "compared",
            Self::Observed => "observed",
            Self::InFlight => "in-flight",
            Self::Everything => "everything",
            Self::Webhook => "webhook",
            Self::Fails => "fails",
            Self::OneWay => "one-way",
        }
    }

    /// The route of the policy.
    pub(crate) fn declaration(self) -> Value {
        let name = self.name();
        if self == Self::Webhook {
            return json!({
                "endpoint": name, "path": "/webhooks/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {},
                "target": "Orders/webhook",
            });
        }
        let mut route = json!({"endpoint": name, "path": format!("/api/{name}"), "policy": "REQUIRED_A", "target": format!("Orders/{name}")});
        let answer = json!({"status": 201, "location": "/api/orders/{body:/id}"});
        let more = match self {
            Self::Plain | Self::Fails | Self::Webhook => json!({}),
            Self::Located => json!({"answer": answer}),
            Self::Compared => json!({"collision": "enforce"}),
            Self::Observed => json!({"collision": "observe", "fingerprint": "json"}),
            Self::InFlight => json!({"in_flight": "conflict"}),
            Self::Everything => {
                json!({"collision": "enforce", "fingerprint": "json", "in_flight": "conflict", "answer": answer})
            }
            Self::OneWay => json!({"one_way": true}),
        };
        route.as_object_mut().into_iter().for_each(|route| route.extend(more.as_object().cloned().unwrap_or_default()));
        route
    }

    /// The status of the upstream's answer.
    const fn status(self) -> u16 {
        match self {
            Self::Fails => 422,
            Self::OneWay => 202,
            _ => 200,
        }
    }
}

/// How a body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    Length,
    Chunks,
    Trailers,
}

const FRAMINGS: [Framing; 3] = [Framing::Length, Framing::Chunks, Framing::Trailers];

/// A body, and how it is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) length: usize,
    /// Bodies of one length differ.
    variant: usize,
    framing: Framing,
}

impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes with {:?}", self.length, self.framing)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Exchange {
    number: usize,
    route: Route,
    pub(crate) sent: Sent,
    pub(crate) answered: Sent,
    lengths: &'static [usize],
}

/// Who sends, and through what.
#[derive(Clone, Copy)]
pub(crate) struct Sender<'a> {
    pub(crate) token: &'a str,
    /// Whether the gateway's filters let a request's trailers pass.
    pub(crate) keeps_trailers: bool,
}

/// So many exchanges: of each pair of a route and a request's length as many as of the others, the rest by chance.
pub(crate) fn some(count: usize, seed: u64) -> Vec<Exchange> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut pairs: Vec<(Route, usize)> = Vec::new();
    let mut all = Vec::new();
    for number in 0..count {
        if pairs.is_empty() {
            pairs = ROUTES.iter().flat_map(|route| LENGTHS.map(|length| (*route, length))).collect();
            random.shuffle(&mut pairs);
        }
        let (route, length) = pairs.pop().unwrap_or((Route::Plain, 0));
        let mut sent = |length| Sent {
            length,
            variant: random.usize(..VARIANTS),
            framing: random.choice(FRAMINGS).unwrap_or(Framing::Length),
        };
        let (sent, mut answered) = (sent(length), sent(0));
        answered.length = random.choice(LENGTHS).unwrap_or(0);
        if route == Route::Fails {
            // An error that is no JSON passes as it is.
            answered.length = answered.length.max(SHORTEST_JSON);
        }
        all.push(Exchange { number, route, sent, answered, lengths: random.choice(PIECES).unwrap_or(&[1]) });
    }
    all
}

const VARIANTS: usize = 3;

impl Sent {
    fn body(self) -> Vec<u8> {
        static LETTERS: OnceLock<Vec<u8>> = OnceLock::new();
        let letters = LETTERS.get_or_init(|| {
            let mut random = fastrand::Rng::with_seed(7);
            (0..LENGTHS.into_iter().max().unwrap_or(0) + 100 * VARIANTS).map(|_| random.lowercase() as u8).collect()
        });
        let letters = letters.get(100 * self.variant..).unwrap_or_default();
        let first = |count: usize| letters.get(..count).unwrap_or_default();
        if self.length < SHORTEST_JSON {
            return first(self.length).to_vec();
        }
        // An error loses its second member.
        let (head, end) = (&b"{\"id\":7,\"stacktrace\":\"main.rs\",\"padding\":\""[..], &b"\"}"[..]);
        [head, first(self.length - head.len() - end.len()), end].concat()
    }

    /// In a header, so that the upstream knows what was sent, and what to answer.
    fn told(self) -> String {
        let framing = FRAMINGS.iter().position(|framing| *framing == self.framing).unwrap_or_default();
        format!("{} {} {framing}", self.length, self.variant)
    }

    fn read(header: &str) -> Option<Self> {
        let mut numbers = header.split(' ').map(|number| number.parse::<usize>().ok());
        let mut next = || numbers.next().flatten();
        Some(Self { length: next()?, variant: next()?, framing: *FRAMINGS.get(next()?)? })
    }

    fn trailers(self) -> Vec<(String, Vec<u8>)> {
        let trailer = || ("x-sum".to_owned(), self.variant.to_string().into_bytes());
        (self.framing == Framing::Trailers).then(trailer).into_iter().collect()
    }

    /// What is wrong with what arrived.
    fn fault(self, body: &[u8], trailers: &[(String, Vec<u8>)]) -> Option<String> {
        let sent = self.body();
        if sent != body {
            let same = sent.iter().zip(body).take_while(|(sent, got)| sent == got).count();
            return Some(format!("{} of {} bytes, and {same} of them as sent", body.len(), sent.len()));
        }
        // Where there is no body there may be no trailers: HTTP/1.1 then has nowhere to put them.
        let trailers: Vec<_> = trailers.iter().filter(|(name, _)| name == "x-sum").cloned().collect();
        (self.length > 0 && trailers != self.trailers())
            .then(|| format!("the trailers {trailers:?} instead of {:?}", self.trailers()))
    }
}

/// The header with what was sent and what to answer, and the one with what the upstream found.
const ASKED: &str = "x-asked";
const FOUND: &str = "x-found";
/// The header of a request whose trailers a filter of Envoy's loses.
const LOST: &str = "x-trailers-are-lost";

/// The upstream's answer to a request.
pub(crate) fn answer(request: &Message) -> Answer {
    if request.start.starts_with(b"POST /authorize") {
        return Answer::default();
    }
    let asked = request.headers.iter().find(|(name, _)| name == ASKED).map(|(_, value)| String::from_utf8_lossy(value));
    let asked = asked.unwrap_or_default();
    let parts: Vec<&str> = asked.split(", ").collect();
    let [status, sent, answered] = parts[..] else {
        return Answer { status: 500, ..Answer::default() };
    };
    let (Ok(status), Some(sent), Some(answered)) = (status.parse(), Sent::read(sent), Sent::read(answered)) else {
        return Answer { status: 500, ..Answer::default() };
    };
    let is_lost = request.headers.iter().any(|(name, _)| name == LOST);
    let trailers = if is_lost && request.trailers.is_empty() { sent.trailers() } else { request.trailers.clone() };
    let found = sent.fault(&request.body, &trailers).unwrap_or_else(|| "whole".to_owned());
    let mut headers =
        vec![("content-type", "application/json".to_owned()), ("x-restate-id", "inv_1".to_owned()), (FOUND, found)];
    if answered.framing == Framing::Chunks {
        headers.push(("transfer-encoding", "chunked".to_owned()));
    }
    let headers = headers.into_iter().map(|(name, value)| (name.to_owned(), value.into_bytes())).collect();
    Answer { status, headers, body: answered.body(), trailers: answered.trailers() }
}

impl Exchange {
    /// The same on a route that leaves both bodies as they come.
    pub(crate) fn plain(self) -> Self {
        Self { route: Route::Plain, ..self }
    }

    pub(crate) const fn lengths(&self) -> &'static [usize] {
        self.lengths
    }

    /// The request; over HTTP/2 it is sent in pieces of these lengths.
    pub(crate) fn request(&self, sender: Sender<'_>) -> Request {
        let Self { number, route, sent, answered, .. } = *self;
        let body = sent.body();
        let mut request = if route == Route::Webhook {
            deliveries::github("/webhooks/github/wh_01JGITHUB", GITHUB_SECRET, &format!("d-{number}"), body)
        } else {
            let request = Request::post(format!("/api/{}", route.name())).body(body);
            request.bearer(sender.token).header("idempotency-key", format!("k-{number}"))
        };
        request.trailers = sent.trailers();
        request.headers.push(("te".to_owned(), b"trailers".to_vec()));
        if !sender.keeps_trailers {
            request.headers.push((LOST.to_owned(), b"1".to_vec()));
        }
        let asked = format!("{}, {}, {}", route.status(), sent.told(), answered.told());
        request.headers.push((ASKED.to_owned(), asked.into_bytes()));
        if sent.framing == Framing::Length {
            request.headers.push(("content-length".to_owned(), sent.length.to_string().into_bytes()));
        }
        request
    }

    /// The same over HTTP/1.1: the head, and then each piece by itself.
    pub(crate) fn pieces(&self, sender: Sender<'_>) -> Vec<Vec<u8>> {
        let request = self.request(sender);
        let body = request.body.clone();
        let is_chunked = self.sent.framing != Framing::Length;
        let mut head = Request { body: Vec::new(), trailers: Vec::new(), ..request };
        if is_chunked {
            head.headers.push(("content-length".to_owned(), Vec::new()));
        }
        // Without a length of its own a request gets one.
        let head =
            String::from_utf8_lossy(&head.http1()).replace("content-length: \r\n", "transfer-encoding: chunked\r\n");
        let mut pieces = vec![head.into_bytes()];
        let mut rest = body.as_slice();
        for length in self.lengths.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at(rest.len().min(*length));
            let framed = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
            pieces.push(if is_chunked { framed } else { piece.to_vec() });
            rest = after;
        }
        if is_chunked {
            let mut end = b"0\r\n".to_vec();
            for (name, value) in self.sent.trailers() {
                end.extend([name.as_bytes(), b": ", &value, b"\r\n"].concat());
            }
            end.extend(b"\r\n");
            pieces.push(end);
        }
        pieces
    }

    /// What is wrong with an answer, and with what the upstream got.
    pub(crate) fn fault(&self, reply: Result<Reply>) -> Option<String> {
        let fault = match reply {
            Ok(reply) => self.found(&reply)?,
            Err(error) => format!("the client got no answer: {error:#}"),
        };
        Some(format!("{:?}, sent {:?}, answered {:?}: {fault}", self.route, self.sent, self.answered))
    }

    fn found(&self, reply: &Reply) -> Option<String> {
        let Self { route, answered, .. } = *self;
        // On a busy machine the guard may take longer than the filter waits for it: the request is refused, and no part of it passes.
        if reply.status == 503 && reply.json().get("code") == Some(&json!("dependency_unavailable")) {
            return None;
        }
        let told = || format!("the client got {} with {} bytes", reply.status, reply.body.len());
        match reply.text_header(FOUND) {
            Some("whole") => {}
            // Nothing is left of an answer that the filter has replaced.
            None if route == Route::OneWay => {}
            found => {
                return Some(format!("the upstream got {}; {}", found.unwrap_or("nothing, or does not say"), told()));
            }
        }
        let document = || reply.json();
        let is_as_told = match route {
            Route::Fails if answered.length > LONGEST_CLEANED => {
                reply.status == 422 && document().get("code") == Some(&json!("backend_error"))
            }
            Route::Fails => {
                let mut sent: Value = serde_json::from_slice(&answered.body()).unwrap_or_default();
                sent.as_object_mut().and_then(|sent| sent.shift_remove("stacktrace"));
                reply.status == 422 && document() == sent
            }
            Route::OneWay => reply.status == 202 && document().get("status") == Some(&json!("processing")),
            _ => {
                let is_shaped = matches!(route, Route::Located | Route::Everything) && answered.length >= SHORTEST_JSON;
                if let Some(fault) = answered.fault(&reply.body, &reply.trailers) {
                    return Some(format!("{}: {fault}", told()));
                }
                let expected = if is_shaped { (201, Some("/api/orders/7")) } else { (200, None) };
                (reply.status, reply.text_header("location")) == expected
            }
        };
        (!is_as_told).then(told)
    }
}
