//! Requests in a gateway in memory, and what it was asked to do.
#![allow(clippy::unwrap_used, dead_code, reason = "tests, each of which uses a part of it")]

use edge_idempotency_engine::memory_gateway::{BorrowedLine, MemoryGateway};

/// A header's name and value.
pub(crate) type StaticLine = BorrowedLine<'static>;

/// A gateway that has this request. A response of its own has the status 408.
pub(crate) fn requesting(request: &[StaticLine]) -> MemoryGateway<'static> {
    let mut gateway = MemoryGateway::default();
    gateway.request.headers = request.to_vec();
    gateway.request.body.replace(b"{}".to_vec());
    gateway.response.headers = vec![(b":status", b"408")];
    gateway
}

/// A request of a caller with a key. None of its body has come.
pub(crate) fn posting(path: &'static [u8]) -> MemoryGateway<'static> {
    let gateway = requesting(&[
        (b":method", b"POST"),
        (b":authority", b"a"),
        (b":path", path),
        (b"x-t", b"acme"),
        (b"x-p", b"shop"),
        (b"x-s", b"u1"),
        (b"idempotency-key", b"k"),
    ]);
    gateway.request.body.take();
    gateway
}

/// How many lines of its log contain a text.
pub(crate) fn logged(gateway: &MemoryGateway<'_>, text: &str) -> usize {
    gateway.log.borrow().iter().filter(|(_, line)| line.contains(text)).count()
}

/// The statuses of the filter's replies.
pub(crate) fn statuses(gateway: &MemoryGateway<'_>) -> Vec<u16> {
    gateway.replies.borrow().iter().map(|reply| reply.status).collect()
}

/// The body of the last call.
pub(crate) fn called_with(gateway: &MemoryGateway<'_>) -> Vec<u8> {
    gateway.calls.borrow().last().unwrap().body.clone()
}

/// The path that was set last.
pub(crate) fn path_set(gateway: &MemoryGateway<'_>) -> String {
    let edits = gateway.edits.borrow();
    let path = edits.iter().rev().find(|edit| edit.name == b":path").and_then(|edit| edit.value.clone());
    String::from_utf8(path.unwrap_or_default()).unwrap()
}
