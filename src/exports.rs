//! What a host calls (proxy-wasm ABI 0.2.1), and which context each call is for.
//!
//! A callback that is not exported is not called: a host skips what a filter does not need, and every export costs time on
//! every request. That, the module's size and its start time are why this is not the SDK's dispatcher
//! (docs/decisions/0002-host-calls.md).
#![allow(unsafe_code)]

use crate::abi::{self, LogLevel};
use crate::root::Root;
use crate::stores::Stores;
use crate::stream::Stream;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// What a callback tells the host (`proxy_action_t`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Action {
    /// On to the next filter
    Continue = 0,
    /// Not yet, or not at all
    Pause = 1,
}

/// The contexts of this VM. Ids are the host's. Each listener's configuration has a root of its own: those with the same
/// `vm_id` share a VM, and while a listener is replaced its old and its new policy are both there.
#[derive(Default)]
struct Contexts {
    roots: Roots,
    streams: BTreeMap<u32, Stream>,
}

/// The root contexts: one or two for each listener.
#[derive(Default)]
struct Roots(Vec<(u32, Root)>);

impl Roots {
    fn get_mut(&mut self, id: u32) -> Option<&mut Root> {
        self.0.iter_mut().find(|(other, _)| *other == id).map(|(_, root)| root)
    }

    fn insert(&mut self, id: u32) {
        self.remove(id);
        self.0.push((id, Root::default()));
    }

    fn remove(&mut self, id: u32) {
        self.0.retain(|(other, _)| *other != id);
    }
}

thread_local! {
    static CONTEXTS: RefCell<Contexts> = RefCell::default();
}

/// Runs `event` with the VM's contexts; `None` if a host calls back in the middle of a call of ours.
fn with_contexts<T>(event: impl FnOnce(&mut Contexts) -> T) -> Option<T> {
    CONTEXTS.with(|contexts| contexts.try_borrow_mut().ok().map(|mut contexts| event(&mut contexts)))
}

/// Runs `event` with a request's context and the stores of its configuration. What has none is `otherwise`.
fn with_stream(id: u32, otherwise: Action, event: impl FnOnce(&mut Stream, Option<&mut Stores>) -> Action) -> Action {
    let found = |contexts: &mut Contexts| {
        let stream = contexts.streams.get_mut(&id)?;
        let stores = contexts.roots.get_mut(stream.root()).and_then(Root::stores);
        Some(event(stream, stores))
    };
    with_contexts(found).flatten().unwrap_or(otherwise)
}

/// Runs `event` with the stores of a configuration; then everybody goes on who waited for what it brought.
fn with_stores(root_id: u32, event: impl FnOnce(&mut Stores)) {
    with_contexts(|contexts| {
        let Some(stores) = contexts.roots.get_mut(root_id).and_then(Root::stores) else { return };
        event(stores);
        stores.make_calls();
        while let Some((id, answer)) = stores.next_result() {
            // One that has gone meanwhile is no context any more.
            if let Some(stream) = contexts.streams.get_mut(&id)
                && abi::act_for(id).is_ok()
            {
                stream.answered(answer, stores);
            }
        }
    });
}

/// The ABI's version, told by being there.
#[unsafe(no_mangle)]
extern "C" fn proxy_abi_version_0_2_1() {}

/// The first call: from here on a panic's message reaches the log before it ends the VM.
#[unsafe(no_mangle)]
extern "C" fn _initialize() {
    std::panic::set_hook(Box::new(|panic| abi::log(LogLevel::Critical, &panic.to_string())));
}

/// Room for what a call returns; [`abi`] takes it over.
#[unsafe(no_mangle)]
extern "C" fn proxy_on_memory_allocate(size: usize) -> *mut u8 {
    Box::into_raw(Box::<[u8]>::new_uninit_slice(size)).cast()
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_context_create(id: u32, root_id: u32) {
    with_contexts(|contexts| {
        // A root context has no root.
        if root_id == 0 {
            contexts.roots.insert(id);
        } else {
            let policy = contexts.roots.get_mut(root_id).and_then(|root| root.policy());
            contexts.streams.insert(id, Stream::new(id, root_id, policy));
        }
    });
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_vm_start(_: u32, _: usize) -> bool {
    crate::root::greet();
    true
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_configure(root_id: u32, _: usize) -> bool {
    let configure =
        |contexts: &mut Contexts| contexts.roots.get_mut(root_id).is_some_and(|root| root.configure(root_id));
    with_contexts(configure).unwrap_or_default()
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_request_headers(id: u32, _: usize, end_of_stream: u32) -> Action {
    with_stream(id, Action::Pause, |stream, stores| stream.request_headers(end_of_stream != 0, stores))
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_request_body(id: u32, size: usize, end_of_stream: u32) -> Action {
    with_stream(id, Action::Pause, |stream, stores| stream.request_body(size, end_of_stream != 0, stores))
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_request_trailers(id: u32, _: usize) -> Action {
    with_stream(id, Action::Pause, Stream::request_trailers)
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_response_headers(id: u32, _: usize, end_of_stream: u32) -> Action {
    with_stream(id, Action::Continue, |stream, _| stream.response_headers(end_of_stream != 0))
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_response_body(id: u32, size: usize, end_of_stream: u32) -> Action {
    with_stream(id, Action::Continue, |stream, _| stream.response_body(size, end_of_stream != 0))
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_response_trailers(id: u32, _: usize) -> Action {
    with_stream(id, Action::Continue, |stream, _| stream.response_trailers())
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_http_call_response(root_id: u32, token: u32, _: usize, size: usize, _: usize) {
    with_stores(root_id, |stores| stores.replied(token, size));
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_tick(root_id: u32) {
    with_stores(root_id, Stores::tick);
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_delete(id: u32) {
    with_contexts(|contexts| {
        if let Some(stream) = contexts.streams.remove(&id)
            && let Some(stores) = contexts.roots.get_mut(stream.root()).and_then(Root::stores)
        {
            stream.leave(stores);
        }
        contexts.roots.remove(id);
    });
}
