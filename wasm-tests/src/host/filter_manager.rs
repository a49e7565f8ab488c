//! Envoy's filter manager with the wasm filter last before the router: in which order the filter is asked about the parts
//! of a message, what its answers hold back, and when a local reply takes the place of a response.

use testkit::http::{Headers, LocalReply};

use super::state::Deferred;
use super::stream::{Direction, FlowState, Side, Stream};
use super::vm::{Called, Vm};

/// What the guest wants with a part of a message.
enum FilterAnswer {
    Continue,
    Pause,
    /// Nothing of the body is shown before the message goes on.
    PauseAll,
    /// Another answer is under way; this part goes nowhere.
    Nothing,
}

impl Vm {
    pub(super) fn stream(&mut self, id: u32) -> Option<&mut Stream> {
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

    pub(super) fn offer_headers(&mut self, id: u32, direction: Direction, headers: Headers, end: bool) {
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
            FilterAnswer::Continue => {
                self.side(id, direction, |side| side.headers_visible = false);
                self.pass_headers(id, direction, end);
            }
            FilterAnswer::Pause => self.side(id, direction, |side| side.flow = FlowState::Stopped),
            FilterAnswer::PauseAll => self.side(id, direction, |side| side.flow = FlowState::StoppedAll),
            FilterAnswer::Nothing => {}
        }
    }

    pub(super) fn offer_body(&mut self, id: u32, direction: Direction, piece: Vec<u8>, end: bool) {
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
        if side.flow == FlowState::StoppedAll {
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
            FilterAnswer::Continue => {
                let mut go_on = None;
                self.side(id, direction, |side| {
                    side.holding = false;
                    side.piece_visible = false;
                    let piece = std::mem::take(&mut side.piece);
                    if side.flow == FlowState::Stopped {
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
            FilterAnswer::Pause | FilterAnswer::PauseAll => {
                let mut length = 0;
                self.side(id, direction, |side| {
                    let piece = std::mem::take(&mut side.piece);
                    side.held.extend(piece);
                    side.holding = true;
                    side.flow = FlowState::Stopped;
                    length = side.held.len();
                });
                if length > limit {
                    self.too_large(id, direction);
                }
            }
            FilterAnswer::Nothing => {}
        }
    }

    pub(super) fn offer_trailers(&mut self, id: u32, direction: Direction, trailers: Headers) {
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
        if side.flow == FlowState::StoppedAll {
            return;
        }
        side.trailers_visible = true;
        let count = side.trailers.as_ref().map_or(0, Headers::len);
        match self.ask(id, direction, "trailers", &[size(count)]) {
            FilterAnswer::Continue => {
                let mut stopped = false;
                self.side(id, direction, |side| {
                    side.trailers_visible = false;
                    stopped = side.flow == FlowState::Stopped;
                });
                if stopped { self.resume(id, direction) } else { self.pass_trailers(id, direction) }
            }
            FilterAnswer::Pause | FilterAnswer::PauseAll => {
                self.side(id, direction, |side| side.flow = FlowState::Stopped);
            }
            FilterAnswer::Nothing => {}
        }
    }

    /// Lets go of what is held: headers, body, trailers. After a stop of everything the callbacks that were left out
    /// come first.
    fn resume(&mut self, id: u32, direction: Direction) {
        let is_whole = |side: &Side| {
            side.flow == FlowState::StoppedAll || side.ended || side.trailers.is_some() || side.held.is_empty()
        };
        let whole = self.state().streams.get(&id).is_none_or(|stream| is_whole(stream.side(direction)));
        if self.state().options.whole_bodies && !whole {
            self.state_mut().fail("the filter let a message go on in the middle of its body");
        }
        let Some(stream) = self.stream(id).filter(|stream| stream.takes(direction)) else { return };
        let side = stream.side_mut(direction);
        let stopped_all = match std::mem::take(&mut side.flow) {
            FlowState::Going => return,
            flow => flow == FlowState::StoppedAll,
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
        self.local_reply(id, LocalReply { status, body: body.into(), details, ..LocalReply::default() });
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
    fn ask(&mut self, id: u32, direction: Direction, part: &str, args: &[u32]) -> FilterAnswer {
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
                FilterAnswer::Nothing
            }
            // It was answered meanwhile, so it does not matter what the callback returned.
            _ if !still_wanted => FilterAnswer::Nothing,
            Called::Missing | Called::Returned(0) => FilterAnswer::Continue,
            Called::Returned(1) => FilterAnswer::Pause,
            Called::Returned(4) if part == "headers" => FilterAnswer::PauseAll,
            Called::Returned(other) => {
                self.state_mut().fail(format!("{name} returned {other}; the ABI has 0 and 1"));
                FilterAnswer::Pause
            }
        }
    }

    fn side(&mut self, id: u32, direction: Direction, change: impl FnOnce(&mut Side)) {
        if let Some(stream) = self.stream(id) {
            change(stream.side_mut(direction));
        }
    }

    fn pass_headers(&mut self, id: u32, direction: Direction, end: bool) {
        self.side(id, direction, |side| side.pass_headers(end));
    }

    fn pass_body(&mut self, id: u32, direction: Direction, body: &[u8], end: bool) {
        self.side(id, direction, |side| side.pass_body(body, end));
    }

    fn pass_trailers(&mut self, id: u32, direction: Direction) {
        self.side(id, direction, Side::pass_trailers);
    }
}

fn size(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
