//! The state of one HTTP exchange: which phase it is in, what a pause holds back, and what has gone on at either end.
//! Nothing here calls the filter; `filter_manager` does.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use testkit::http::{Headers, Message};

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
    /// Filter metadata of the route that matched: namespace to struct.
    pub route_metadata: Map<String, Value>,
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
pub(super) enum FlowState {
    #[default]
    Going,
    /// Held; the callbacks for body and trailers still come.
    Stopped,
    /// Held, and no further callback comes.
    StoppedAll,
}

/// One direction of a stream.
#[derive(Debug, Default)]
pub(super) struct Side {
    pub(super) begun: bool,
    pub(super) headers: Headers,
    pub(super) headers_visible: bool,
    pub(super) trailers: Option<Headers>,
    pub(super) trailers_visible: bool,
    /// The piece of body that the running callback is about.
    pub(super) piece: Vec<u8>,
    pub(super) piece_visible: bool,
    /// The body held back, and whether the callbacks see all of it instead of the piece.
    pub(super) held: Vec<u8>,
    pub(super) holding: bool,
    /// The end came with the headers or with the body.
    pub(super) ended: bool,
    pub(super) flow: FlowState,
    pub(super) in_callback: bool,
    /// What has gone on.
    pub(super) passed: Option<Message>,
}

/// A stream, as its context knows it.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) info: StreamInfo,
    pub(super) properties: BTreeMap<String, Vec<u8>>,
    pub(super) request: Side,
    pub(super) response: Side,
    pub(super) is_head: bool,
    /// The answer is the filter's or Envoy's own: what the upstream says does not matter any more.
    pub(super) replied: bool,
    pub(super) reset: bool,
    pub(super) details: Option<String>,
    /// The access log runs: all headers can be read once more.
    pub(super) logging: bool,
    /// The trap was answered; the response callbacks are not asked.
    pub(super) failed: bool,
}

impl Stream {
    /// A stream whose request has not begun.
    pub(super) fn new(info: StreamInfo) -> Self {
        Self {
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
        }
    }

    pub(super) fn side(&self, direction: Direction) -> &Side {
        match direction {
            Direction::Request => &self.request,
            Direction::Response => &self.response,
        }
    }

    pub(super) fn side_mut(&mut self, direction: Direction) -> &mut Side {
        match direction {
            Direction::Request => &mut self.request,
            Direction::Response => &mut self.response,
        }
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

    pub(super) fn ending(&self) -> Ending {
        let complete = |side: &Side| side.passed.as_ref().is_some_and(|message| message.complete);
        match (self.reset, complete(&self.response), complete(&self.request)) {
            (true, ..) => Ending::Reset,
            (_, true, _) => Ending::Answered,
            _ if self.response.begun => Ending::Paused,
            (_, _, true) => Ending::AwaitingUpstream,
            _ => Ending::Paused,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.ending(), Ending::Answered | Ending::Reset)
    }

    /// Whether messages of that direction still matter.
    pub(super) fn takes(&self, direction: Direction) -> bool {
        !self.is_over() && (direction == Direction::Response || !self.replied)
    }

    pub(super) fn exchange(&self) -> Exchange {
        Exchange {
            upstream: self.request.passed.clone(),
            client: self.response.passed.clone(),
            ending: self.ending(),
            details: self.details.clone(),
            properties: self.properties.clone(),
        }
    }
}

impl Side {
    /// The headers go on.
    pub(super) fn pass_headers(&mut self, end: bool) {
        let headers = self.headers.clone();
        self.passed = Some(Message { headers, body: Vec::new(), trailers: None, complete: end });
    }

    /// A part of the body goes on; with the end its trailers do too.
    pub(super) fn pass_body(&mut self, body: &[u8], end: bool) {
        if let Some(passed) = &mut self.passed {
            passed.body.extend(body);
            if end {
                passed.trailers.clone_from(&self.trailers);
                passed.complete = true;
            }
        }
    }

    /// The trailers go on, and with them the end.
    pub(super) fn pass_trailers(&mut self) {
        if let Some(passed) = &mut self.passed {
            passed.trailers.clone_from(&self.trailers);
            passed.complete = true;
        }
    }
}

impl Direction {
    pub(super) fn callback(self, part: &str) -> &'static str {
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
