//! One message on its way through the module: what Envoy holds back, and what has gone on.

use testkit::http::{Headers, Message};

/// Which message of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The client's
    Request,
    /// The upstream's
    Response,
}

/// Envoy's `IterationState` of the module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Iteration {
    #[default]
    Continue,
    /// `StopSingleIteration`: body and trailers are still shown
    StopSingle,
    /// `StopAllWatermark`: nothing more is shown
    StopAll,
}

/// The part of the body in the hook.
#[derive(Debug, Default)]
pub(crate) enum Chunk {
    /// No hook for the body runs.
    #[default]
    None,
    /// A part of its own
    Own(Vec<u8>),
    /// The buffer itself: Envoy passes on what it held back.
    Buffered,
}

/// A message.
#[derive(Debug, Default)]
pub(crate) struct Side {
    /// Its headers have come.
    pub(crate) has_begun: bool,
    /// Its end has come, but for trailers.
    pub(crate) has_ended: bool,
    pub(crate) headers: Headers,
    pub(crate) trailers: Option<Headers>,
    pub(crate) iteration: Iteration,
    /// Once Envoy has made a buffer, it stays, also when it is empty.
    pub(crate) buffered: Option<Vec<u8>>,
    pub(crate) chunk: Chunk,
    /// What has gone on
    pub(crate) passed: Option<Message>,
}

impl Side {
    /// The bytes of a body in the hook, or those that are buffered.
    pub(crate) fn body(&self, buffered: bool) -> Option<&Vec<u8>> {
        match &self.chunk {
            Chunk::Own(bytes) if !buffered => Some(bytes),
            Chunk::None if !buffered => None,
            _ => self.buffered.as_ref(),
        }
    }

    pub(crate) fn body_mut(&mut self, buffered: bool) -> Option<&mut Vec<u8>> {
        match &mut self.chunk {
            Chunk::Own(bytes) if !buffered => Some(bytes),
            Chunk::None if !buffered => None,
            _ => self.buffered.as_mut(),
        }
    }

    /// Moves the part in the hook into the buffer (`commonHandleBufferData`).
    pub(crate) fn buffer_chunk(&mut self) {
        if let Chunk::Own(bytes) = &mut self.chunk {
            let bytes = std::mem::take(bytes);
            self.buffered.get_or_insert_default().extend(bytes);
        }
    }

    /// Takes the part in the hook, to pass it on.
    pub(crate) fn take_chunk(&mut self) -> Vec<u8> {
        match std::mem::take(&mut self.chunk) {
            Chunk::None => Vec::new(),
            Chunk::Own(bytes) => bytes,
            Chunk::Buffered => self.buffered.as_mut().map(std::mem::take).unwrap_or_default(),
        }
    }

    /// Takes the headers that have not gone on, to pass them on.
    pub(crate) fn pass_headers(&mut self, end: bool) {
        if !self.has_passed_headers() {
            let headers = self.headers.clone();
            self.passed = Some(Message { headers, complete: end, ..Message::default() });
        }
    }

    pub(crate) const fn has_passed_headers(&self) -> bool {
        self.passed.is_some()
    }

    pub(crate) fn pass_body(&mut self, bytes: Vec<u8>, end: bool) {
        if let Some(passed) = &mut self.passed {
            passed.body.extend(bytes);
            passed.complete |= end;
        }
    }

    pub(crate) fn pass_trailers(&mut self) {
        if let Some(passed) = &mut self.passed {
            passed.trailers = self.trailers.clone();
            passed.complete = true;
        }
    }
}
