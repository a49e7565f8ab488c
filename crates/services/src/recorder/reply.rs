//! Bodies of what the recorder answers: one that passes from the API, or a whole one.

use std::mem::take;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Frame, Incoming};

/// A body of either kind.
pub(super) type Body = UnsyncBoxBody<Bytes, hyper::Error>;

/// A whole body.
pub(super) fn full(body: Bytes) -> Body {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}

/// A body that was read up to a limit.
pub(super) enum ReadBody {
    Whole(Bytes),
    /// It is longer: what was read, and then the rest.
    Long(Body),
}

/// Reads a body; of one with more than `most` bytes little more than that is read.
pub(super) async fn read_up_to(most: usize, mut body: Incoming) -> Result<ReadBody, hyper::Error> {
    let mut read = BytesMut::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            read.extend_from_slice(&data);
        }
        if read.len() > most {
            return Ok(ReadBody::Long(Continued { begun: read.freeze(), rest: body }.boxed_unsync()));
        }
    }
    Ok(ReadBody::Whole(read.freeze()))
}

/// A body whose beginning has been read.
struct Continued {
    begun: Bytes,
    rest: Incoming,
}

impl hyper::body::Body for Continued {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if self.begun.is_empty() {
            return Pin::new(&mut self.rest).poll_frame(context);
        }
        Poll::Ready(Some(Ok(Frame::data(take(&mut self.begun)))))
    }
}
