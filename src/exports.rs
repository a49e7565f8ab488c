//! The exported callbacks (proxy-wasm ABI 0.2.1) and the contexts that they are for.
//!
//! A host does not call a callback that is not exported, and each exported callback costs time on every request. This,
//! the size of the module and its start time are the reasons not to use the SDK's dispatcher
//! (docs/decisions/0002-host-calls.md).
#![allow(unsafe_code)]

use crate::abi::{self, AbiLogLevel, Action, MapType};
use crate::host::WasmHost;
use crate::root::Root;
use edge_idempotency_engine::call::{CallReply, MAX_REPLY_BYTES};
use edge_idempotency_engine::metrics::SeriesTable;
use edge_idempotency_engine::{Driver, FilterAction, SharedLookups};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// The contexts of this VM, by the host's ids. Each configuration of a listener has its own root context. Listeners
/// with the same `vm_id` share a VM, and while a listener is replaced, both its old and its new configuration exist.
#[derive(Default)]
struct Contexts {
    roots: Roots,
    /// Boxed, since a tree moves its values
    streams: BTreeMap<u32, Box<Stream>>,
    /// The metrics of all configurations, also of those that have been replaced: the gateway keeps their series
    series: SeriesTable,
}

/// The context of one request.
struct Stream {
    /// The context of the configuration
    root: u32,
    driver: Driver<WasmHost>,
}

/// The root contexts, one or two for each listener.
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

/// Runs `event` with the VM's contexts; `None` if the host makes a callback during a host call.
fn with_contexts<T>(event: impl FnOnce(&mut Contexts) -> T) -> Option<T> {
    CONTEXTS.with(|contexts| contexts.try_borrow_mut().ok().map(|mut contexts| event(&mut contexts)))
}

/// Runs `event` with a request's driver and the lookups of its configuration. Returns `otherwise` if the context has no
/// driver.
fn with_stream(
    id: u32,
    otherwise: Action,
    event: impl FnOnce(&mut Driver<WasmHost>, &WasmHost, Option<&mut SharedLookups>) -> FilterAction,
) -> Action {
    let found = |contexts: &mut Contexts| {
        let stream = contexts.streams.get_mut(&id)?;
        let host = WasmHost::new(stream.root, id);
        let Some(mut shared) = contexts.roots.get_mut(stream.root).map(Root::shared) else {
            return Some(event(&mut stream.driver, &host, None).into());
        };
        let action = event(&mut stream.driver, &host, shared.lookups.as_deref_mut());
        shared.note(&mut stream.driver, &host, &mut contexts.series);
        Some(action.into())
    };
    with_contexts(found).flatten().unwrap_or(otherwise)
}

/// Runs `event` with the lookups of a configuration and the VM's metrics. Then the requests with a new answer continue.
fn with_lookups(root: u32, event: impl FnOnce(&mut SharedLookups, &WasmHost, &mut SeriesTable)) {
    with_contexts(|contexts| {
        let Some(mut shared) = contexts.roots.get_mut(root).map(Root::shared) else { return };
        let Some(lookups) = shared.lookups.take() else { return };
        event(lookups, &WasmHost::new(root, root), &mut contexts.series);
        while let Some((id, answer)) = lookups.next_answer() {
            // The context of a request that has ended does not exist any more.
            if let Some(stream) = contexts.streams.get_mut(&id)
                && abi::act_for(id).is_ok()
            {
                let host = WasmHost::new(root, id);
                stream.driver.on_lookup_answer(&host, answer, lookups);
                shared.note(&mut stream.driver, &host, &mut contexts.series);
            }
        }
    });
}

/// This export tells the host the version of the ABI.
#[unsafe(no_mangle)]
extern "C" fn proxy_abi_version_0_2_1() {}

/// The first callback: it sets a hook that logs the message of a panic before the panic ends the VM.
#[unsafe(no_mangle)]
extern "C" fn _initialize() {
    std::panic::set_hook(Box::new(|panic| abi::log(AbiLogLevel::Critical, &panic.to_string())));
}

/// Allocates memory for the result of a host call; [`abi`] takes ownership of it.
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
            let root = contexts.roots.get_mut(root_id);
            let (policy, waits) = root.map(|root| (root.policy(), root.waits())).unwrap_or_default();
            let driver = Driver::new(id, policy, waits);
            contexts.streams.insert(id, Box::new(Stream { root: root_id, driver }));
        }
    });
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_vm_start(_: u32, _: usize) -> bool {
    crate::root::log_version();
    true
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_configure(root_id: u32, _: usize) -> bool {
    with_contexts(|contexts| {
        let host = WasmHost::new(root_id, root_id);
        let configured = contexts.roots.get_mut(root_id).is_some_and(|root| root.configure(&host));
        if configured {
            contexts.series.announce(&host);
        }
        configured
    })
    .unwrap_or_default()
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_request_headers(id: u32, _: usize, end_of_stream: u32) -> Action {
    with_stream(id, Action::Pause, |driver, host, lookups| driver.on_request_headers(host, end_of_stream != 0, lookups))
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_request_body(id: u32, size: usize, end_of_stream: u32) -> Action {
    with_stream(id, Action::Pause, |driver, host, lookups| {
        driver.on_request_body(host, size, end_of_stream != 0, lookups)
    })
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_request_trailers(id: u32, _: usize) -> Action {
    with_stream(id, Action::Pause, |driver, host, lookups| driver.on_request_trailers(host, lookups))
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_response_headers(id: u32, _: usize, end_of_stream: u32) -> Action {
    with_stream(id, Action::Continue, |driver, host, lookups| {
        driver.on_response_headers(host, end_of_stream != 0, lookups)
    })
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_response_body(id: u32, size: usize, end_of_stream: u32) -> Action {
    with_stream(id, Action::Continue, |driver, host, _| driver.on_response_body(host, size, end_of_stream != 0))
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_response_trailers(id: u32, _: usize) -> Action {
    with_stream(id, Action::Continue, |driver, host, _| driver.on_response_trailers(host))
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_http_call_response(root_id: u32, token: u32, _: usize, size: usize, _: usize) {
    with_lookups(root_id, |lookups, host, series| {
        let lines = abi::header_map(MapType::CallResponseHeaders).unwrap_or_default();
        let body = if size > MAX_REPLY_BYTES { None } else { abi::call_response_body(MAX_REPLY_BYTES).ok() };
        let status = abi::pairs(&lines).and_then(|lines| status(&lines));
        lookups.on_call_reply(host, token, &CallReply { status, body: body.as_deref() }, series);
    });
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_tick(root_id: u32) {
    with_lookups(root_id, |lookups, host, series| lookups.on_tick(host, series));
    with_contexts(|contexts| {
        end_stalled_waits(contexts, root_id);
        let host = WasmHost::new(root_id, root_id);
        contexts.series.flush(&host);
        if let Some(root) = contexts.roots.get_mut(root_id) {
            root.recorder().on_tick(&host);
        }
    });
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_delete(id: u32) {
    with_contexts(|contexts| {
        if let Some(stream) = contexts.streams.remove(&id)
            && let Some(lookups) = contexts.roots.get_mut(stream.root).and_then(Root::lookups)
        {
            stream.driver.cancel_lookup(lookups);
        }
        if let Some(root) = contexts.roots.get_mut(id) {
            let host = WasmHost::new(id, id);
            contexts.series.flush(&host);
            root.recorder().report(&host);
        }
        contexts.roots.remove(id);
    });
}

/// Ends the waits for bodies that the gateway keeps back, until a body has arrived.
fn end_stalled_waits(contexts: &mut Contexts, root_id: u32) {
    let Some(root) = contexts.roots.get_mut(root_id) else { return };
    if root.gateway_passes_bodies() {
        return;
    }
    let streams = contexts.streams.iter_mut().filter(|(_, stream)| stream.root == root_id);
    for (id, stream) in streams {
        let host = WasmHost::new(root_id, *id);
        if stream.driver.on_tick() && abi::act_for(*id).is_ok() && stream.driver.end_stalled_wait(&host) {
            root.report_stall();
            root.shared().note(&mut stream.driver, &host, &mut contexts.series);
        }
    }
}

/// The status in a reply's header lines.
fn status(lines: &[(&[u8], &[u8])]) -> Option<u16> {
    let (_, value) = lines.iter().find(|(name, _)| *name == b":status")?;
    std::str::from_utf8(value).ok()?.parse().ok()
}
