//! The exported callbacks (proxy-wasm ABI 0.2.1) and the contexts that they are for.
//!
//! A host does not call a callback that is not exported, and each exported callback costs time on every request. This,
//! the size of the module and its start time are the reasons not to use the SDK's dispatcher
//! (docs/decisions/0002-host-calls.md).
#![allow(unsafe_code)]

use crate::abi::{self, AbiLogLevel, Action, MapType};
use crate::attributes;
use crate::host::WasmHost;
use edge_idempotency_engine::{CallReply, Configuration, FilterAction, MAX_REPLY_BYTES, Metrics, Stream, TICK_MS};
use hashbrown::HashTable;
use std::cell::RefCell;

/// The contexts of this VM, by the host's ids. Each configuration of a listener has its own root context. Listeners
/// with the same `vm_id` share a VM, and while a listener is replaced, both its old and its new configuration exist.
#[derive(Default)]
struct Contexts {
    streams: Streams,
    roots: Roots,
    metrics: Metrics,
}

/// The contexts of requests, by their ids. They are boxed, because a table moves its values.
#[derive(Default)]
struct Streams(HashTable<(u32, Box<StreamContext>)>);

impl Streams {
    fn get_mut(&mut self, id: u32) -> Option<&mut StreamContext> {
        self.0.find_mut(hash(id), |(other, _)| *other == id).map(|(_, context)| context.as_mut())
    }

    fn insert(&mut self, id: u32, context: Box<StreamContext>) {
        self.remove(id);
        self.0.insert_unique(hash(id), (id, context), |(id, _)| hash(*id));
    }

    fn remove(&mut self, id: u32) -> Option<Box<StreamContext>> {
        let found = self.0.find_entry(hash(id), |(other, _)| *other == id).ok()?;
        Some(found.remove().0.1)
    }
}

/// The host numbers its contexts, so what counts is that neighbours are apart.
fn hash(id: u32) -> u64 {
    u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The context of one request.
struct StreamContext {
    /// The context of the configuration
    root: u32,
    stream: Stream,
}

/// The root contexts, one or two for each listener.
#[derive(Default)]
struct Roots(Vec<(u32, Configuration)>);

impl Roots {
    fn get_mut(&mut self, id: u32) -> Option<&mut Configuration> {
        self.0.iter_mut().find(|(other, _)| *other == id).map(|(_, configuration)| configuration)
    }

    /// Sets the configuration of a root context.
    fn set(&mut self, id: u32, configuration: Configuration) {
        self.remove(id);
        self.0.push((id, configuration));
    }

    fn remove(&mut self, id: u32) -> Option<Configuration> {
        let index = self.0.iter().position(|(other, _)| *other == id)?;
        Some(self.0.swap_remove(index).1)
    }
}

thread_local! {
    static CONTEXTS: RefCell<Contexts> = RefCell::default();
}

/// Runs `event` with the VM's contexts; `None` if the host makes a callback during a host call.
fn with_contexts<T>(event: impl FnOnce(&mut Contexts) -> T) -> Option<T> {
    CONTEXTS.with(|contexts| contexts.try_borrow_mut().ok().map(|mut contexts| event(&mut contexts)))
}

/// What happens to a stream.
type StreamEvent<'e> = dyn FnMut(&mut Stream, &WasmHost, &mut Configuration) -> FilterAction + 'e;

/// Runs `event` with a stream and its configuration. Returns `otherwise` if there is no such context. The module has the search
/// for them once, and not in each callback.
fn with_stream(id: u32, otherwise: Action, event: &mut StreamEvent<'_>) -> Action {
    let found = |contexts: &mut Contexts| {
        let StreamContext { root, stream } = contexts.streams.get_mut(id)?;
        let (root, host) = (*root, WasmHost::new(*root, id));
        // A configuration may be removed before its last streams, which are not counted any more.
        let Some(configuration) = contexts.roots.get_mut(root) else {
            return Some(event(stream, &host, &mut Configuration::default()).into());
        };
        let action = event(stream, &host, configuration);
        wake(configuration, &mut contexts.streams, root);
        Some(action.into())
    };
    with_contexts(found).flatten().unwrap_or(otherwise)
}

/// Runs `event` with a configuration.
fn with_configuration(root: u32, event: impl FnOnce(&mut Configuration, &WasmHost)) {
    with_contexts(|contexts| {
        let Some(configuration) = contexts.roots.get_mut(root) else { return };
        event(configuration, &WasmHost::new(root, root));
        wake(configuration, &mut contexts.streams, root);
    });
}

/// Wakes the streams of a configuration that go on.
fn wake(configuration: &mut Configuration, streams: &mut Streams, root: u32) {
    while let Some(id) = configuration.next_to_wake() {
        // The context of a request that has ended does not exist any more.
        if let Some(context) = streams.get_mut(id)
            && abi::act_for(id).is_ok()
        {
            context.stream.on_wake(&WasmHost::new(root, id), configuration);
        }
    }
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
            contexts.roots.set(id, Configuration::default());
        } else {
            let stream = match contexts.roots.get_mut(root_id) {
                Some(configuration) => Stream::new(id, configuration),
                None => Stream::new(id, &Configuration::default()),
            };
            contexts.streams.insert(id, Box::new(StreamContext { root: root_id, stream }));
        }
    });
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_vm_start(_: u32, _: usize) -> bool {
    let (version, hash) = (env!("CARGO_PKG_VERSION"), env!("EDGE_IDEMPOTENCY_GIT_HASH"));
    abi::log(AbiLogLevel::Info, &format!("edge-idempotency {version} ({hash})"));
    true
}

/// `false` makes the gateway refuse the configuration; all errors are in its log.
#[unsafe(no_mangle)]
extern "C" fn proxy_on_configure(root_id: u32, _: usize) -> bool {
    with_contexts(|contexts| {
        let (host, document) = (WasmHost::new(root_id, root_id), abi::configuration().unwrap_or_default());
        let environment = abi::environment().unwrap_or_default();
        let variable = |name: &str| {
            let value = |line: &Vec<u8>| line.strip_prefix(name.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec);
            environment.iter().find_map(value)
        };
        let Ok(configuration) = Configuration::load(&host, &document, variable, &contexts.metrics) else {
            return false;
        };
        if let Some(replaced) = contexts.roots.remove(root_id) {
            replaced.on_end(&host);
        }
        contexts.roots.set(root_id, configuration);
        // If this fails, access logs show records as bytes.
        let _ = attributes::declare_record();
        // If this fails, there are no ticks: no metrics, no refreshes ahead of time, and nothing ends the wait for a body that
        // the gateway keeps back. Requests and lookups still work.
        let _ = abi::set_tick_period(TICK_MS);
        true
    })
    .unwrap_or_default()
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_request_headers(id: u32, _: usize, end_of_stream: u32) -> Action {
    with_stream(id, Action::Pause, &mut |stream, host, shared| {
        stream.on_request_headers(host, shared, end_of_stream != 0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_request_body(id: u32, size: usize, end_of_stream: u32) -> Action {
    with_stream(id, Action::Pause, &mut |stream, host, shared| {
        stream.on_request_body(host, shared, size, end_of_stream != 0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_request_trailers(id: u32, _: usize) -> Action {
    with_stream(id, Action::Pause, &mut Stream::on_request_trailers)
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_response_headers(id: u32, _: usize, end_of_stream: u32) -> Action {
    with_stream(id, Action::Continue, &mut |stream, host, shared| {
        stream.on_response_headers(host, shared, end_of_stream != 0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_response_body(id: u32, size: usize, end_of_stream: u32) -> Action {
    with_stream(id, Action::Continue, &mut |stream, host, shared| {
        stream.on_response_body(host, shared, size, end_of_stream != 0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_response_trailers(id: u32, _: usize) -> Action {
    with_stream(id, Action::Continue, &mut Stream::on_response_trailers)
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_http_call_response(root_id: u32, token: u32, _: usize, size: usize, _: usize) {
    with_configuration(root_id, |configuration, host| {
        let lines = abi::header_map(MapType::CallResponseHeaders).unwrap_or_default();
        let body = if size > MAX_REPLY_BYTES { None } else { abi::call_response_body(MAX_REPLY_BYTES).ok() };
        let status = abi::pairs(&lines).and_then(|lines| status(&lines));
        configuration.on_call_reply(host, token, &CallReply { status, body: body.as_deref() });
    });
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_tick(root_id: u32) {
    with_configuration(root_id, Configuration::on_tick);
}

#[unsafe(no_mangle)]
extern "C" fn proxy_on_delete(id: u32) {
    with_contexts(|contexts| {
        if let Some(mut context) = contexts.streams.remove(id)
            && let Some(configuration) = contexts.roots.get_mut(context.root)
        {
            context.stream.on_end(configuration);
        }
        if let Some(configuration) = contexts.roots.remove(id) {
            configuration.on_end(&WasmHost::new(id, id));
        }
    });
}

/// The status in a reply's header lines.
fn status(lines: &[(&[u8], &[u8])]) -> Option<u16> {
    let (_, value) = lines.iter().find(|(name, _)| *name == b":status")?;
    std::str::from_utf8(value).ok()?.parse().ok()
}
