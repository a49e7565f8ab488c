//! Bodies of what the recorder answers: one that passes from the API, or a whole one.

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};

/// A body of either kind.
pub(super) type Body = UnsyncBoxBody<Bytes, hyper::Error>;

/// A whole body.
pub(super) fn full(body: Bytes) -> Body {
    Full::new(body).map_err(|never| match never {}).boxed_unsync()
}
