//! The stores of one configuration, and the host's calls to them.
//!
//! Calls are made for the root context, whose replies come whoever has left meanwhile; those of a request's context are
//! dropped with it.

use crate::abi::{self, LogLevel, MapType};
use edge_idempotency_engine::lookup::{
    CallId, CallReply, LookupRequest, LookupResult, Lookups, MAX_REPLY_BYTES, StoreKind,
};

pub(crate) struct Stores {
    root: u32,
    lookups: Lookups,
    /// The calls under way, by the host's token.
    calls: Vec<(u32, CallId)>,
}

/// What becomes of a call that no answer comes to.
const NO_REPLY: CallReply<'_> = CallReply { status: None, body: None };

impl Stores {
    pub(crate) const fn new(root: u32, lookups: Lookups) -> Self {
        Self { root, lookups, calls: Vec::new() }
    }

    /// A request asks; `None` if it has to wait. The context acted for is the request's before and after.
    pub(crate) fn ask(&mut self, stream: u32, request: &LookupRequest) -> Option<LookupResult> {
        let answer = self.lookups.look_up(stream, request, abi::now_unix_ms());
        if self.make_calls() {
            // It is there: the callback is its own.
            let _ = abi::act_for(stream);
        }
        // A call that could not be made has failed by now.
        answer.or_else(|| self.lookups.result_for(stream))
    }

    /// Makes the calls that are due; whether there were any, and the context acted for is the root.
    pub(crate) fn make_calls(&mut self) -> bool {
        let mut any = false;
        while let Some(call) = self.lookups.next_call() {
            any = true;
            let made = abi::act_for(self.root)
                .and_then(|()| abi::http_call(&call.cluster, &call.headers, &call.body, call.timeout_ms));
            match made {
                Ok(token) => self.calls.push((token, call.ticket)),
                Err(_) => self.lookups.replied(&call.ticket, &NO_REPLY, abi::now_unix_ms()),
            }
        }
        any
    }

    /// A call has been answered with a body of `size` bytes, or with nothing at all.
    pub(crate) fn replied(&mut self, token: u32, size: usize) {
        let Some(place) = self.calls.iter().position(|(known, _)| *known == token) else { return };
        let (_, ticket) = self.calls.swap_remove(place);
        let lines = abi::header_map(MapType::CallResponseHeaders).unwrap_or_default();
        let body = if size > MAX_REPLY_BYTES { None } else { abi::call_response_body(MAX_REPLY_BYTES).ok() };
        let reply = CallReply { status: abi::pairs(&lines).and_then(|lines| status(&lines)), body: body.as_deref() };
        self.lookups.replied(&ticket, &reply, abi::now_unix_ms());
    }

    pub(crate) fn tick(&mut self) {
        self.lookups.tick(abi::now_unix_ms());
        while let Some(health) = self.lookups.changed_health() {
            let store = match health.kind {
                StoreKind::Bindings => "the registry",
                StoreKind::Secrets => "the secret store",
            };
            match health.trouble {
                Some(why) => abi::log(LogLevel::Warn, &format!("edge-idempotency: {store} gives no answers: {why}")),
                None => abi::log(LogLevel::Info, &format!("edge-idempotency: {store} answers again")),
            }
        }
    }

    pub(crate) fn next_result(&mut self) -> Option<(u32, LookupResult)> {
        self.lookups.next_result()
    }

    pub(crate) fn left(&mut self, stream: u32, request: &LookupRequest) {
        self.lookups.cancel(stream, request);
    }
}

fn status(lines: &[(&[u8], &[u8])]) -> Option<u16> {
    let (_, value) = lines.iter().find(|(name, _)| *name == b":status")?;
    std::str::from_utf8(value).ok()?.parse().ok()
}
