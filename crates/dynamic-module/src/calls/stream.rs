//! Envoy's functions for a stream, as safe ones.

use super::{EMPTY, Optional, Refused, argument, copied, done, lent, line};
use crate::abi::{self, AttributeId, BodyType, Buffer, FilterPtr, HeaderLine, HeaderType, SchedulerPtr};
use edge_idempotency_engine::LocalReply;
use std::marker::PhantomData;

/// The stream that a hook is for. It must not outlive the hook.
#[derive(Clone, Copy)]
pub(crate) struct RequestHandle<'e> {
    filter: FilterPtr,
    hook: PhantomData<&'e ()>,
}

/// Lines of a header map, copied into one piece of memory.
#[derive(Default)]
pub(crate) struct CopiedLines {
    bytes: Vec<u8>,
    /// Of these the lengths alone count: their pointers are Envoy's
    lengths: Vec<HeaderLine>,
}

impl CopiedLines {
    /// The lines, in order.
    pub(crate) fn lines(&self) -> Option<Vec<(&[u8], &[u8])>> {
        let mut rest = self.bytes.as_slice();
        let mut lines = Vec::with_capacity(self.lengths.len());
        for HeaderLine { key_length, value_length, .. } in &self.lengths {
            let (name, after) = rest.split_at_checked(*key_length)?;
            let (value, after) = after.split_at_checked(*value_length)?;
            lines.push((name, value));
            rest = after;
        }
        Some(lines)
    }
}

impl<'e> RequestHandle<'e> {
    /// # Safety
    /// `filter` has to be the pointer that a hook was called with, and the handle must not be used after the hook has returned or
    /// Envoy has destroyed the filter.
    pub(crate) const unsafe fn new(filter: FilterPtr) -> Self {
        Self { filter, hook: PhantomData }
    }

    /// The number of the worker thread, from 0.
    pub(crate) fn worker_index(self) -> u32 {
        // SAFETY: the filter lives, as for all calls of this handle.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_get_worker_index(self.filter) }
    }

    /// The lines of a header map; none if it does not exist.
    pub(crate) fn header_lines(self, map: HeaderType) -> CopiedLines {
        // SAFETY: the filter lives.
        let count = unsafe { abi::envoy_dynamic_module_callback_http_get_headers_size(self.filter, map) };
        let mut found = Vec::<HeaderLine>::with_capacity(count);
        // SAFETY: the filter lives, and there is room for `count` lines, which is how many Envoy writes.
        if count == 0
            || !unsafe { abi::envoy_dynamic_module_callback_http_get_headers(self.filter, map, found.as_mut_ptr()) }
        {
            return CopiedLines::default();
        }
        // SAFETY: Envoy has written that many lines.
        unsafe { found.set_len(count) };
        let size = found.iter().map(|line| line.key_length + line.value_length).sum();
        let mut bytes = Vec::with_capacity(size);
        for line in &found {
            // SAFETY: Envoy's names and values are valid until the map is changed, which does not happen here.
            unsafe {
                bytes.extend_from_slice(lent(line.key_ptr, line.key_length));
                bytes.extend_from_slice(lent(line.value_ptr, line.value_length));
            }
        }
        CopiedLines { bytes, lengths: found }
    }

    /// Replaces all lines with this name by one line.
    pub(crate) fn set_header(self, map: HeaderType, name: &[u8], value: &[u8]) -> Result<(), Refused> {
        // SAFETY: the filter lives, and name and value are valid during the call. The value's pointer is never null, not even if
        // the value is empty: null would remove the header.
        done(unsafe {
            abi::envoy_dynamic_module_callback_http_set_header(self.filter, map, argument(name), argument(value))
        })
    }

    /// Removes every line with this name.
    pub(crate) fn remove_header(self, map: HeaderType, name: &[u8]) -> Result<(), Refused> {
        // SAFETY: the filter lives, and the name is valid during the call.
        done(unsafe { abi::envoy_dynamic_module_callback_http_set_header(self.filter, map, argument(name), EMPTY) })
    }

    /// Lets Envoy choose the route again.
    pub(crate) fn clear_route_cache(self) {
        // SAFETY: the filter lives.
        unsafe { abi::envoy_dynamic_module_callback_http_clear_route_cache(self.filter) }
    }

    /// How many bytes of a body there are.
    pub(crate) fn body_size(self, body: BodyType) -> usize {
        // SAFETY: the filter lives.
        unsafe { abi::envoy_dynamic_module_callback_http_get_body_size(self.filter, body) }
    }

    /// Hands pieces of Envoy's memory to `read`: of these parts of a body, in order, the bytes from `start` on, at most `max` of them.
    /// `read` must not change the body.
    pub(crate) fn with_body<T>(
        self,
        parts: impl IntoIterator<Item = BodyType>,
        start: usize,
        max: usize,
        read: impl FnOnce(&[&[u8]]) -> T,
    ) -> T {
        let (mut skip, mut room, mut pieces) = (start, max, Vec::new());
        for chunk in parts.into_iter().flat_map(|part| self.chunks(part)) {
            // SAFETY: Envoy's chunks are valid until the body is changed. `read` cannot keep them. Nobody changes the body of a
            // request, and the only reader of a response's body copies it.
            let bytes = unsafe { lent(chunk.ptr, chunk.length) };
            let piece = bytes.get(skip.min(bytes.len())..).unwrap_or_default();
            let piece = piece.get(..room.min(piece.len())).unwrap_or_default();
            skip = skip.saturating_sub(bytes.len());
            room -= piece.len();
            if !piece.is_empty() {
                pieces.push(piece);
            }
        }
        read(&pieces)
    }

    /// Where the pieces of a body are.
    fn chunks(self, body: BodyType) -> Vec<Buffer> {
        // SAFETY: the filter lives.
        let count = unsafe { abi::envoy_dynamic_module_callback_http_get_body_chunks_size(self.filter, body) };
        let mut chunks = Vec::<Buffer>::with_capacity(count);
        // SAFETY: the filter lives, and there is room for `count` chunks, which is how many Envoy writes.
        let are_there = count > 0
            && unsafe {
                abi::envoy_dynamic_module_callback_http_get_body_chunks(self.filter, body, chunks.as_mut_ptr())
            };
        if are_there {
            // SAFETY: Envoy has written that many chunks.
            unsafe { chunks.set_len(count) };
        }
        chunks
    }

    /// Removes all bytes of a body.
    pub(crate) fn drain_body(self, body: BodyType) {
        // SAFETY: the filter lives. Without a body there is nothing to remove.
        unsafe { abi::envoy_dynamic_module_callback_http_drain_body(self.filter, body, usize::MAX) };
    }

    /// Adds bytes to the end of a body.
    pub(crate) fn append_body(self, body: BodyType, data: &[u8]) -> Result<(), Refused> {
        // SAFETY: the filter lives, and the bytes are valid during the call.
        done(unsafe { abi::envoy_dynamic_module_callback_http_append_body(self.filter, body, argument(data)) })
    }

    /// Whether the part of the request's body that Envoy shows is all that it has kept, so that both are the same bytes.
    pub(crate) fn shows_kept_request(self) -> bool {
        // SAFETY: the filter lives.
        unsafe { abi::envoy_dynamic_module_callback_http_received_buffered_request_body(self.filter) }
    }

    /// The same for the response.
    pub(crate) fn shows_kept_response(self) -> bool {
        // SAFETY: the filter lives.
        unsafe { abi::envoy_dynamic_module_callback_http_received_buffered_response_body(self.filter) }
    }

    /// Sends a local reply. Envoy may destroy the filter during the call.
    pub(crate) fn reply(self, reply: &LocalReply<'_>) {
        let mut lines: Vec<HeaderLine> = reply.headers.iter().map(|(name, value)| line(name, value)).collect();
        // SAFETY: the filter lives until the call, and headers, body and details are valid during it.
        unsafe {
            abi::envoy_dynamic_module_callback_http_send_response(
                self.filter,
                u32::from(reply.status),
                lines.as_mut_ptr(),
                lines.len(),
                argument(reply.body),
                argument(reply.details.as_bytes()),
            );
        }
    }

    /// Lets the paused request go on. Envoy may destroy the filter during the call.
    pub(crate) fn resume_request(self) {
        // SAFETY: the filter lives until the call.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_continue_decoding(self.filter) }
    }

    /// Lets the paused response go on. Envoy may destroy the filter during the call.
    pub(crate) fn resume_response(self) {
        // SAFETY: the filter lives until the call.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_continue_encoding(self.filter) }
    }

    /// A text of the metadata of the gateway's route.
    pub(crate) fn route_metadata(self, namespace: &str, key: &str) -> Option<Vec<u8>> {
        let mut result = EMPTY;
        // SAFETY: the filter lives, the names are valid, and the result can be written, during the call.
        let found = unsafe {
            abi::envoy_dynamic_module_callback_http_get_metadata_string(
                self.filter,
                abi::MetadataSource::Route,
                argument(namespace.as_bytes()),
                argument(key.as_bytes()),
                &raw mut result,
            )
        };
        // SAFETY: Envoy's bytes are valid until something is set.
        found.then(|| unsafe { copied(result) })
    }

    /// The bytes of a string in the filter state. They are valid until the hook returns: only filters change them, and no other
    /// filter runs meanwhile.
    pub(crate) fn filter_state(self, key: &str) -> Option<&'e [u8]> {
        let mut result = EMPTY;
        // SAFETY: the filter lives, the key is valid, and the result can be written, during the call.
        let found = unsafe {
            abi::envoy_dynamic_module_callback_http_get_filter_state_bytes(
                self.filter,
                argument(key.as_bytes()),
                &raw mut result,
            )
        };
        // SAFETY: Envoy keeps the object until the stream ends.
        found.then(|| unsafe { lent(result.ptr, result.length) })
    }

    /// How many bytes of the request have been received.
    pub(crate) fn request_size(self) -> Option<u64> {
        let mut result = 0;
        // SAFETY: the filter lives, and the result can be written, during the call.
        let found = unsafe {
            abi::envoy_dynamic_module_callback_http_filter_get_attribute_int(
                self.filter,
                AttributeId::RequestTotalSize,
                &raw mut result,
            )
        };
        found.then_some(result)
    }

    /// Address and port of the client.
    pub(crate) fn sender_address(self) -> Option<Vec<u8>> {
        let mut result = EMPTY;
        // SAFETY: the filter lives, and the result can be written, during the call.
        let found = unsafe {
            abi::envoy_dynamic_module_callback_http_filter_get_attribute_string(
                self.filter,
                AttributeId::SourceAddress,
                &raw mut result,
            )
        };
        // SAFETY: Envoy's bytes are valid until the hook returns.
        found.then(|| unsafe { copied(result) })
    }

    /// Sets the typed dynamic metadata of a namespace to a serialized `google.protobuf.Any`, in the place of what was there.
    pub(crate) fn set_typed_metadata(self, namespace: &str, message: &[u8]) -> Result<(), Refused> {
        static SET: Optional<abi::SetTypedMetadata> = Optional::new();
        // SAFETY: the type is that of this function.
        let set =
            unsafe { SET.get(c"envoy_dynamic_module_callback_http_set_dynamic_typed_metadata") }.ok_or(Refused)?;
        // SAFETY: the filter lives, and namespace and message are valid during the call.
        done(unsafe { set(self.filter, argument(namespace.as_bytes()), argument(message)) })
    }

    /// Sets a text in the dynamic metadata.
    pub(crate) fn set_metadata_text(self, namespace: &str, key: &[u8], value: &[u8]) {
        // SAFETY: the filter lives, and all three are valid during the call.
        unsafe {
            abi::envoy_dynamic_module_callback_http_set_dynamic_metadata_string(
                self.filter,
                argument(namespace.as_bytes()),
                argument(key),
                argument(value),
            );
        }
    }

    /// Sets a number in the dynamic metadata.
    pub(crate) fn set_metadata_number(self, namespace: &str, key: &[u8], value: f64) {
        // SAFETY: the filter lives, and the names are valid during the call.
        unsafe {
            abi::envoy_dynamic_module_callback_http_set_dynamic_metadata_number(
                self.filter,
                argument(namespace.as_bytes()),
                argument(key),
                value,
            );
        }
    }

    /// Sets a boolean in the dynamic metadata.
    pub(crate) fn set_metadata_flag(self, namespace: &str, key: &[u8], value: bool) {
        // SAFETY: the filter lives, and the names are valid during the call.
        unsafe {
            abi::envoy_dynamic_module_callback_http_set_dynamic_metadata_bool(
                self.filter,
                argument(namespace.as_bytes()),
                argument(key),
                value,
            );
        }
    }

    /// What calls this stream's hook for events of other threads.
    pub(crate) fn scheduler(self) -> StreamScheduler {
        // SAFETY: the filter lives. The scheduler belongs to this module until it is dropped.
        StreamScheduler(unsafe { abi::envoy_dynamic_module_callback_http_filter_scheduler_new(self.filter) })
    }
}

/// Calls the hook `scheduled` of a stream on its worker thread.
pub(crate) struct StreamScheduler(SchedulerPtr);

// SAFETY: Envoy says that a scheduler may be used on every thread, also after the stream has ended.
unsafe impl Send for StreamScheduler {}

impl StreamScheduler {
    /// Calls the hook soon; never, if the stream has ended.
    pub(crate) fn commit(&self) {
        // SAFETY: the scheduler lives until it is dropped.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_scheduler_commit(self.0, 0) }
    }
}

impl Drop for StreamScheduler {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { abi::envoy_dynamic_module_callback_http_filter_scheduler_delete(self.0) }
    }
}
