//! What a test does with a stream: it opens it, sends what client and upstream send, looks at it, and closes it.

use std::collections::BTreeMap;

use testkit::http::{Headers, Message};

use super::stream::{Direction, Ending, Exchange, Stream, StreamInfo};
use super::vm::Vm;

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
        self.state_mut().streams.insert(id, Stream::new(info));
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
}
