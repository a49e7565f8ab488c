//! One HTTP exchange through the filter: which phase it is in, what a pause holds back, and what comes out at either
//! end. The rules are those of Envoy's filter manager with the wasm filter last before the router.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::state::Deferred;
use super::vm::{Called, Vm};
use crate::http::{Headers, LocalReply, Message};

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Request,
    Response,
}

/// What the gateway knows about a request besides its bytes.
#[derive(Clone, Debug, Default)]
pub struct StreamInfo {
    /// Dynamic filter metadata: namespace to struct.
    pub metadata: Map<String, Value>,
    /// The route that matched, if one did.
    pub route: Option<Route>,
}

/// A route of the gateway.
#[derive(Clone, Debug, Default)]
pub struct Route {
    /// Its name.
    pub name: String,
    /// The virtual host it belongs to.
    pub virtual_host: String,
    /// The cluster it leads to.
    pub cluster: String,
    /// Its filter metadata: namespace to struct.
    pub metadata: Map<String, Value>,
}

/// How far an exchange came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The client has a whole answer.
    Answered,
    /// The upstream has the whole request, and no answer came yet.
    AwaitingUpstream,
    /// It is paused, in either direction; without a further event it stays so.
    Paused,
    /// The stream was reset.
    Reset,
}

/// What came of an exchange.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// What the upstream got, complete or not; `None` if it never heard of the request.
    pub upstream: Option<Message>,
    /// What the client got, complete or not.
    pub client: Option<Message>,
    /// How it ended.
    pub ending: Ending,
    /// The response code details of a local reply.
    pub details: Option<String>,
    /// What the filter set as properties, for the access log.
    pub properties: BTreeMap<String, Vec<u8>>,
}

/// Whether messages go on from the filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum RequestFlow {
    #[default]
    Going,
    /// Held; the callbacks for body and trailers still come.
    Stopped,
    /// Held, and no further callback comes.
    StoppedAll,
}

/// One direction of a stream.
#[derive(Debug, Default)]
struct Side {
    begun: bool,
    headers: Headers,
    headers_visible: bool,
    trailers: Option<Headers>,
    trailers_visible: bool,
    /// The piece of body that the running callback is about.
    piece: Vec<u8>,
    piece_visible: bool,
    /// The body held back, and whether the callbacks see all of it instead of the piece.
    held: Vec<u8>,
    holding: bool,
    /// The end came with the headers or with the body.
    ended: bool,
    flow: RequestFlow,
    in_callback: bool,
    /// What has gone on.
    passed: Option<Message>,
}

/// A stream, as its context knows it.
#[derive(Debug)]
pub(super) struct Stream {
    pub info: StreamInfo,
    pub properties: BTreeMap<String, Vec<u8>>,
    request: Side,
    response: Side,
    is_head: bool,
    /// The answer is the filter's or Envoy's own: what the upstream says does not matter any more.
    replied: bool,
    reset: bool,
    details: Option<String>,
    /// The access log runs: all headers can be read once more.
    logging: bool,
    /// The trap was answered; the response callbacks are not asked.
    failed: bool,
}

impl Stream {
    fn side(&self, direction: Direction) -> &Side {
        match direction {
            Direction::Request => &self.request,
            Direction::Response => &self.response,
        }
    }

    fn side_mut(&mut self, direction: Direction) -> &mut Side {
        match direction {
            Direction::Request => &mut self.request,
            Direction::Response => &mut self.response,
        }
    }

    /// Whether an absent map means "not found" instead of "bad argument".
    pub(super) fn is_logging(&self) -> bool {
        self.logging
    }

    pub(super) fn readable(&self, direction: Direction, trailers: bool) -> Option<&Headers> {
        let side = self.side(direction);
        match (self.logging, trailers) {
            (true, true) if direction == Direction::Request => None,
            (true, true) => side.trailers.as_ref(),
            (true, false) => side.begun.then_some(&side.headers),
            (false, true) => side.trailers.as_ref().filter(|_| side.trailers_visible),
            (false, false) => side.headers_visible.then_some(&side.headers),
        }
    }

    pub(super) fn writable(&mut self, direction: Direction, trailers: bool) -> Option<&mut Headers> {
        let side = self.side_mut(direction);
        if !trailers {
            return side.headers_visible.then_some(&mut side.headers);
        }
        // In the last body callback any change of trailers, a removal too, creates them.
        if side.trailers.is_none() && side.piece_visible && side.ended {
            side.trailers_visible = true;
            side.trailers = Some(Headers::new());
        }
        side.trailers.as_mut().filter(|_| side.trailers_visible)
    }

    /// A change now would be lost: the map can still be reached, but it has gone on.
    pub(super) fn is_too_late(&self, direction: Direction, trailers: bool) -> bool {
        let side = self.side(direction);
        !trailers && side.headers_visible && side.passed.is_some()
    }

    /// The body the guest sees: all that is held, or the piece at hand; nothing outside its callbacks.
    pub(super) fn body(&self, direction: Direction) -> &[u8] {
        let side = self.side(direction);
        match (side.holding, side.piece_visible) {
            (true, _) => &side.held,
            (false, true) => &side.piece,
            (false, false) => &[],
        }
    }

    pub(super) fn body_mut(&mut self, direction: Direction) -> Option<&mut Vec<u8>> {
        let side = self.side_mut(direction);
        match (side.holding, side.piece_visible) {
            (true, _) => Some(&mut side.held),
            (false, true) => Some(&mut side.piece),
            (false, false) => None,
        }
    }

    /// Asked to go on, in either direction, Envoy takes the request's maps away at once.
    pub(super) fn hide_request(&mut self) {
        self.request.headers_visible = false;
        self.request.trailers_visible = false;
        self.request.piece_visible = false;
    }

    fn ending(&self) -> Ending {
        let complete = |side: &Side| side.passed.as_ref().is_some_and(|message| message.complete);
        match (self.reset, complete(&self.response), complete(&self.request)) {
            (true, ..) => Ending::Reset,
            (_, true, _) => Ending::Answered,
            _ if self.response.begun => Ending::Paused,
            (_, _, true) => Ending::AwaitingUpstream,
            _ => Ending::Paused,
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.ending(), Ending::Answered | Ending::Reset)
    }

    /// Whether messages of that direction still matter.
    fn takes(&self, direction: Direction) -> bool {
        !self.is_over() && (direction == Direction::Response || !self.replied)
    }

    fn exchange(&self) -> Exchange {
        Exchange {
            upstream: self.request.passed.clone(),
            client: self.response.passed.clone(),
            ending: self.ending(),
            details: self.details.clone(),
            properties: self.properties.clone(),
        }
    }
}

impl Direction {
    fn callback(self, part: &str) -> &'static str {
        match (self, part) {
            (Self::Request, "headers") => "proxy_on_request_headers",
            (Self::Request, "body") => "proxy_on_request_body",
            (Self::Request, _) => "proxy_on_request_trailers",
            (Self::Response, "headers") => "proxy_on_response_headers",
            (Self::Response, "body") => "proxy_on_response_body",
            (Self::Response, _) => "proxy_on_response_trailers",
        }
    }
}

/// A whole exchange in one go, and its steps.
impl Vm {
    /// Sends a request through, lets the upstream answer if it got all of it, and closes the stream.
    ///
    /// A body comes in one piece; then its end, in an empty piece as HTTP/1 has it, or the trailers.
    pub fn exchange(&mut self, info: StreamInfo, request: &Message, response: &Message) -> Exchange {
        let id = self.open(info);
        self.send_request(id, request);
        if self.view(id).is_some_and(|exchange| exchange.ending == Ending::AwaitingUpstream) {
            self.send_response(id, response);
        }
        self.close(id)
    }

    /// A new stream context, of the first configuration.
    pub fn open(&mut self, info: StreamInfo) -> u32 {
        self.open_under(super::state::ROOT, info)
    }

    /// A new stream context, of the configuration with this root context.
    pub fn open_under(&mut self, root: u32, info: StreamInfo) -> u32 {
        let id = self.new_context();
        let stream = Stream {
            info,
            properties: BTreeMap::new(),
            request: Side::default(),
            response: Side::default(),
            is_head: false,
            replied: false,
            reset: false,
            details: None,
            logging: false,
            failed: false,
        };
        self.state_mut().streams.insert(id, stream);
        self.callback("proxy_on_context_create", id, &[id, root]);
        id
    }

    /// The client sends a whole request.
    pub fn send_request(&mut self, id: u32, request: &Message) {
        self.send(id, Direction::Request, request);
    }

    /// The upstream answers.
    pub fn send_response(&mut self, id: u32, response: &Message) {
        self.send(id, Direction::Response, response);
    }

    fn send(&mut self, id: u32, direction: Direction, message: &Message) {
        let bare = message.body.is_empty() && message.trailers.is_none();
        self.offer_headers(id, direction, message.headers.clone(), bare);
        if !message.body.is_empty() {
            self.offer_body(id, direction, message.body.clone(), false);
        }
        match &message.trailers {
            Some(trailers) => self.offer_trailers(id, direction, trailers.clone()),
            None if !bare => self.offer_body(id, direction, Vec::new(), true),
            None => {}
        }
    }

    /// The client sends its request's headers.
    pub fn request_headers(&mut self, id: u32, headers: impl Into<Headers>, end_of_stream: bool) {
        self.offer_headers(id, Direction::Request, headers.into(), end_of_stream);
    }

    /// The client sends a piece of body.
    pub fn request_body(&mut self, id: u32, piece: &[u8], end_of_stream: bool) {
        self.offer_body(id, Direction::Request, piece.to_vec(), end_of_stream);
    }

    /// The client sends trailers, and with them the end.
    pub fn request_trailers(&mut self, id: u32, trailers: impl Into<Headers>) {
        self.offer_trailers(id, Direction::Request, trailers.into());
    }

    /// The upstream sends its response's headers.
    pub fn response_headers(&mut self, id: u32, headers: impl Into<Headers>, end_of_stream: bool) {
        self.offer_headers(id, Direction::Response, headers.into(), end_of_stream);
    }

    /// The upstream sends a piece of body.
    pub fn response_body(&mut self, id: u32, piece: &[u8], end_of_stream: bool) {
        self.offer_body(id, Direction::Response, piece.to_vec(), end_of_stream);
    }

    /// The upstream sends trailers, and with them the end.
    pub fn response_trailers(&mut self, id: u32, trailers: impl Into<Headers>) {
        self.offer_trailers(id, Direction::Response, trailers.into());
    }

    /// How an exchange stands; `None` if there is no such stream.
    pub fn view(&self, id: u32) -> Option<Exchange> {
        self.state().streams.get(&id).map(Stream::exchange)
    }

    /// Ends a stream, whether it was answered or the client has gone: access log, done, delete.
    pub fn close(&mut self, id: u32) -> Exchange {
        if self.stream(id).is_none() {
            self.state_mut().fail(format!("the test closes stream {id}, which is not open"));
        }
        if let Some(stream) = self.stream(id) {
            stream.logging = true;
        }
        self.callback("proxy_on_log", id, &[id]);
        if let Some(stream) = self.stream(id) {
            stream.logging = false;
            stream.hide_request();
            stream.response.headers_visible = false;
            stream.response.trailers_visible = false;
        }
        self.callback("proxy_on_done", id, &[id]);
        self.callback("proxy_on_delete", id, &[id]);
        match self.state_mut().streams.remove(&id) {
            Some(stream) => stream.exchange(),
            None => Exchange {
                upstream: None,
                client: None,
                ending: Ending::Reset,
                details: None,
                properties: BTreeMap::new(),
            },
        }
    }

    fn stream(&mut self, id: u32) -> Option<&mut Stream> {
        self.state_mut().streams.get_mut(&id)
    }

    /// The side of a stream that still takes messages; anything else is a slip of the test.
    fn open_side(&mut self, id: u32, direction: Direction, first: bool) -> Option<&mut Side> {
        let problem = match self.state().streams.get(&id) {
            None => Some("is not open"),
            Some(stream) if !stream.takes(direction) => return None,
            Some(stream) if direction == Direction::Response && stream.request.passed.is_none() && !stream.replied => {
                Some("is answered by an upstream that never got the request")
            }
            Some(stream) if stream.side(direction).begun == first => {
                Some("gets its headers not exactly once and first")
            }
            Some(stream) if !first && (stream.side(direction).ended || stream.side(direction).trailers.is_some()) => {
                Some("gets more after its end")
            }
            Some(_) => None,
        };
        if let Some(problem) = problem {
            self.state_mut().fail(format!("the test's stream {id} {problem}"));
            return None;
        }
        self.stream(id).map(|stream| stream.side_mut(direction))
    }
}

/// The filter manager.
impl Vm {
    fn offer_headers(&mut self, id: u32, direction: Direction, headers: Headers, end: bool) {
        let Some(side) = self.open_side(id, direction, true) else { return };
        side.begun = true;
        side.ended = end;
        if let Some(stream) = self.stream(id)
            && direction == Direction::Request
        {
            stream.is_head = headers.get(":method") == Some(b"HEAD");
        }
        self.headers_arrive(id, direction, headers, end);
    }

    fn headers_arrive(&mut self, id: u32, direction: Direction, headers: Headers, end: bool) {
        let stop_iteration = self.state().options.stop_iteration;
        let count = headers.len();
        let Some(stream) = self.stream(id) else { return };
        let failed = stream.failed;
        let side = stream.side_mut(direction);
        side.begun = true;
        side.ended = end;
        side.headers = headers;
        if failed {
            return self.pass_headers(id, direction, end);
        }
        side.headers_visible = true;
        match self.ask(id, direction, "headers", &[size(count), u32::from(end)]) {
            Answer::Continue => {
                self.side(id, direction, |side| side.headers_visible = false);
                self.pass_headers(id, direction, end);
            }
            Answer::Pause => self.side(id, direction, |side| {
                side.flow = if stop_iteration { RequestFlow::Stopped } else { RequestFlow::StoppedAll };
            }),
            Answer::Nothing => {}
        }
    }

    fn offer_body(&mut self, id: u32, direction: Direction, piece: Vec<u8>, end: bool) {
        if let Some(side) = self.open_side(id, direction, false) {
            side.ended |= end;
            self.body_arrives(id, direction, piece, end);
        }
    }

    fn body_arrives(&mut self, id: u32, direction: Direction, piece: Vec<u8>, end: bool) {
        let limit = self.state().options.body_limit;
        let Some(stream) = self.stream(id) else { return };
        let failed = stream.failed;
        let side = stream.side_mut(direction);
        if failed {
            return self.pass_body(id, direction, &piece, end);
        }
        if side.flow == RequestFlow::StoppedAll {
            // The connection is no longer read above the limit, so nothing is too large here.
            side.held.extend(piece);
            return;
        }
        let was_holding = side.holding;
        if was_holding {
            side.held.extend(piece);
            if side.held.len() > limit {
                return self.too_large(id, direction);
            }
        } else {
            side.piece = piece;
        }
        side.piece_visible = true;
        let length = if was_holding { side.held.len() } else { side.piece.len() };
        match self.ask(id, direction, "body", &[size(length), u32::from(end)]) {
            Answer::Continue => {
                let mut go_on = None;
                self.side(id, direction, |side| {
                    side.holding = false;
                    side.piece_visible = false;
                    let piece = std::mem::take(&mut side.piece);
                    if side.flow == RequestFlow::Stopped {
                        side.held.extend(piece);
                    } else {
                        let mut all = std::mem::take(&mut side.held);
                        all.extend(piece);
                        go_on = Some(all);
                    }
                });
                match go_on {
                    Some(body) => self.pass_body(id, direction, &body, end),
                    None => self.resume(id, direction),
                }
            }
            Answer::Pause => {
                let mut length = 0;
                self.side(id, direction, |side| {
                    let piece = std::mem::take(&mut side.piece);
                    side.held.extend(piece);
                    side.holding = true;
                    side.flow = RequestFlow::Stopped;
                    length = side.held.len();
                });
                if length > limit {
                    self.too_large(id, direction);
                }
            }
            Answer::Nothing => {}
        }
    }

    fn offer_trailers(&mut self, id: u32, direction: Direction, trailers: Headers) {
        if let Some(side) = self.open_side(id, direction, false) {
            side.trailers = Some(trailers);
            self.trailers_arrive(id, direction);
        }
    }

    fn trailers_arrive(&mut self, id: u32, direction: Direction) {
        let Some(stream) = self.stream(id) else { return };
        let failed = stream.failed;
        let side = stream.side_mut(direction);
        if failed {
            return self.pass_trailers(id, direction);
        }
        if side.flow == RequestFlow::StoppedAll {
            return;
        }
        side.trailers_visible = true;
        let count = side.trailers.as_ref().map_or(0, Headers::len);
        match self.ask(id, direction, "trailers", &[size(count)]) {
            Answer::Continue => {
                let mut stopped = false;
                self.side(id, direction, |side| {
                    side.trailers_visible = false;
                    stopped = side.flow == RequestFlow::Stopped;
                });
                if stopped { self.resume(id, direction) } else { self.pass_trailers(id, direction) }
            }
            Answer::Pause => self.side(id, direction, |side| side.flow = RequestFlow::Stopped),
            Answer::Nothing => {}
        }
    }

    /// Lets go of what is held: headers, body, trailers. After a stop of everything the callbacks that were left out
    /// come first.
    fn resume(&mut self, id: u32, direction: Direction) {
        let Some(stream) = self.stream(id).filter(|stream| stream.takes(direction)) else { return };
        let side = stream.side_mut(direction);
        let stopped_all = match std::mem::take(&mut side.flow) {
            RequestFlow::Going => return,
            flow => flow == RequestFlow::StoppedAll,
        };
        let has_trailers = side.trailers.is_some();
        let end = side.ended && !has_trailers;
        let held = std::mem::take(&mut side.held);
        let headers_wait = side.passed.is_none();
        if headers_wait {
            self.pass_headers(id, direction, end && held.is_empty());
        }
        match (held.is_empty(), stopped_all) {
            (false, true) => self.body_arrives(id, direction, held, end),
            (false, false) => self.pass_body(id, direction, &held, end),
            (true, _) if end && !headers_wait => self.pass_body(id, direction, &[], true),
            (true, _) => {}
        }
        match (has_trailers, stopped_all) {
            (true, true) => self.trailers_arrive(id, direction),
            (true, false) => self.pass_trailers(id, direction),
            (false, _) => {}
        }
    }

    pub(super) fn run_deferred(&mut self, id: u32, action: Deferred) {
        match action {
            Deferred::Reply(reply) => self.local_reply(id, reply),
            Deferred::Continue(direction) => {
                let inside = self.state().streams.get(&id).is_some_and(|stream| stream.side(direction).in_callback);
                if inside {
                    self.state_mut().fail("the filter continued a stream from inside the callback that it would pause");
                }
                self.resume(id, direction);
            }
            Deferred::Reset => {
                if let Some(stream) = self.stream(id).filter(|stream| !stream.is_over()) {
                    stream.reset = true;
                }
            }
        }
    }

    /// A response that is not the upstream's. It runs through the response callbacks unless a response was on its way
    /// through them already; once the client has its headers, there is nothing left but a reset.
    fn local_reply(&mut self, id: u32, reply: LocalReply) {
        let Some(stream) = self.stream(id).filter(|stream| !stream.is_over()) else { return };
        if stream.replied {
            return self.state_mut().fail("the filter answered a stream twice");
        }
        if stream.response.passed.is_some() {
            stream.reset = true;
            return;
        }
        stream.replied = true;
        stream.details = Some(reply.details.split_ascii_whitespace().collect::<Vec<_>>().join("_"));
        let is_head = stream.is_head;
        let direct = stream.response.begun;
        let mut message = reply.into_message();
        if is_head {
            message.body.clear();
        }
        if direct {
            stream.response.headers = message.headers.clone();
            stream.response.passed = Some(message);
            return;
        }
        let bare = message.body.is_empty();
        self.headers_arrive(id, Direction::Response, message.headers, bare);
        if !bare && self.stream(id).is_some_and(|stream| stream.takes(Direction::Response)) {
            self.side(id, Direction::Response, |side| side.ended = true);
            self.body_arrives(id, Direction::Response, message.body, true);
        }
    }

    fn too_large(&mut self, id: u32, direction: Direction) {
        let (status, body) = match direction {
            Direction::Request => (413, "Payload Too Large"),
            Direction::Response => (500, "Internal Server Error"),
        };
        let details = format!("{direction:?}_payload_too_large").to_ascii_lowercase();
        self.local_reply(id, LocalReply { status, headers: Headers::new(), body: body.into(), details });
    }

    /// The answer to a stream whose VM has trapped: 503, and the response callbacks are not asked.
    fn fail_stream(&mut self, id: u32) {
        let Some(stream) = self.stream(id) else { return };
        if stream.failed {
            return;
        }
        stream.failed = true;
        // It takes the place of an answer of the filter's own that is still on its way.
        stream.replied = false;
        let details = "wasm_fail_stream".to_owned();
        self.local_reply(id, LocalReply { status: 503, details, ..LocalReply::default() });
    }

    /// Asks the guest about a part of a message.
    fn ask(&mut self, id: u32, direction: Direction, part: &str, args: &[u32]) -> Answer {
        let name = direction.callback(part);
        let mut all = vec![id];
        all.extend(args);
        self.side(id, direction, |side| side.in_callback = true);
        let called = self.callback(name, id, &all);
        self.side(id, direction, |side| side.in_callback = false);
        let still_wanted = self.state().streams.get(&id).is_some_and(|stream| stream.takes(direction));
        match called {
            Called::Trapped => {
                self.fail_stream(id);
                Answer::Nothing
            }
            // It was answered meanwhile, so it does not matter what the callback returned.
            _ if !still_wanted => Answer::Nothing,
            Called::Missing | Called::Returned(0) => Answer::Continue,
            Called::Returned(1) => Answer::Pause,
            Called::Returned(other) => {
                self.state_mut().fail(format!("{name} returned {other}; the ABI has 0 and 1"));
                Answer::Pause
            }
        }
    }

    fn side(&mut self, id: u32, direction: Direction, change: impl FnOnce(&mut Side)) {
        if let Some(stream) = self.stream(id) {
            change(stream.side_mut(direction));
        }
    }

    fn pass_headers(&mut self, id: u32, direction: Direction, end: bool) {
        self.side(id, direction, |side| {
            let headers = side.headers.clone();
            side.passed = Some(Message { headers, body: Vec::new(), trailers: None, complete: end });
        });
    }

    fn pass_body(&mut self, id: u32, direction: Direction, body: &[u8], end: bool) {
        self.side(id, direction, |side| {
            if let Some(passed) = &mut side.passed {
                passed.body.extend(body);
                if end {
                    passed.trailers = side.trailers.clone();
                    passed.complete = true;
                }
            }
        });
    }

    fn pass_trailers(&mut self, id: u32, direction: Direction) {
        self.side(id, direction, |side| {
            if let Some(passed) = &mut side.passed {
                passed.trailers = side.trailers.clone();
                passed.complete = true;
            }
        });
    }
}

/// What the guest wants with a part of a message.
enum Answer {
    Continue,
    Pause,
    /// Another answer is under way; this part goes nowhere.
    Nothing,
}

fn size(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
