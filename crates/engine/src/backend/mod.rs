//! The backend behind the gateway: what of requests and responses depends on its kind (docs/backends.md).
//!
//! | module | subject |
//! |---|---|
//! | `kind` | what each kind of backend can do, in a table |
//! | `restate` | the paths, statuses and headers of Restate's ingress |
//! | `head` | what is read of a response's headers, and what of them clients do not see |

mod head;
mod kind;
pub(crate) mod restate;

pub(crate) use head::{ErrorSource, ResponseHead};
pub use kind::{BackendAbilities, BackendKind};

use crate::bytes::equal;
use crate::headers::{NamePrefilter, NameSet, RESPONSE_NAMES};
use std::sync::Arc;

/// Where the ids of invocations are looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InvocationStore {
    /// The gateway's cluster of Restate
    pub(crate) cluster: String,
    /// `Host`
    pub(crate) authority: String,
    /// How long an answer may take, in milliseconds
    pub(crate) timeout_ms: u32,
}

/// Where the guard is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GuardService {
    /// The gateway's cluster of the backend
    pub(crate) cluster: String,
    /// `Host`
    pub(crate) authority: String,
    /// The path of its handler `claim`
    pub(crate) path: String,
    /// How long an answer may take, in milliseconds
    pub(crate) timeout_ms: u32,
}

/// The response header with the operation id, as clients see it.
pub const OPERATION_ID: &str = "x-operation-id";

/// A backend, in the form that requests need.
#[derive(Debug, Default)]
pub(crate) struct Backend {
    protocol: Protocol,
    /// Response headers that are hidden from clients
    hide: NameSet,
    /// The response header with the operation id, as the backend sends it; lower case
    operation_id: Option<String>,
    /// Lets the names of response headers pass that concern the filter
    names: NamePrefilter,
    /// The value of [`REWRITE_MARK`](crate::policy::REWRITE_MARK) on requests for it
    pub(crate) mark: String,
    /// Whether the paths of its targets are written by the filter
    pub(crate) rewrite_path: bool,
    /// Path prefixes that are closed to clients, without a trailing slash
    pub(crate) reserved_paths: Vec<String>,
    /// Request headers that it does not get
    pub(crate) strip: NameSet,
    /// Names of request headers that it gets although the filter would remove them; lower case
    pub(crate) keep_headers: Vec<String>,
    /// The request header in which it gets the namespaced key as well; lower case
    pub(crate) key_header: Option<String>,
    /// Where the ids of invocations are looked up; `None` if no result of its routes is found by id
    pub(crate) invocations: Option<Arc<InvocationStore>>,
    /// The guard; `None` if none of its routes detects collisions
    pub(crate) guard: Option<Arc<GuardService>>,
}

/// How a backend says what it has done with a key.
#[derive(Debug, Default)]
pub(crate) enum Protocol {
    /// As Restate's ingress does
    #[default]
    Restate,
    /// By one of these response headers (lower case) on a replay, and by nothing else
    Generic {
        /// Names of headers
        replay_headers: Vec<String>,
    },
}

impl Backend {
    /// A backend, which hides nothing yet.
    pub(crate) fn new(kind: BackendKind, operation_id: Option<String>, replay_headers: Vec<String>) -> Self {
        let protocol = match kind {
            BackendKind::Restate => Protocol::Restate,
            BackendKind::Generic => Protocol::Generic { replay_headers },
        };
        Self { protocol, operation_id, ..Self::default() }
    }

    /// Hides response headers from clients: names, or prefixes with `*`.
    pub(crate) fn hide<'n>(&mut self, patterns: impl Iterator<Item = &'n String>) {
        patterns.for_each(|pattern| self.hide.insert(pattern));
        let marks = match &self.protocol {
            Protocol::Restate => &[],
            Protocol::Generic { replay_headers } => replay_headers.as_slice(),
        };
        let own = self.operation_id.iter().chain(marks).map(String::as_str);
        let read: Vec<&str> = RESPONSE_NAMES.into_iter().chain(own).collect();
        self.names = NamePrefilter::new(&self.hide, &read);
    }

    /// Whether it gets a header with this very name although the filter would remove it.
    pub(crate) fn keeps_header(&self, name: &[u8]) -> bool {
        self.keep_headers.iter().any(|kept| kept.as_bytes() == name)
    }

    /// How it says what it has done with a key.
    pub(crate) const fn protocol(&self) -> &Protocol {
        &self.protocol
    }

    /// Whether a response header with this very name has the operation id.
    pub(crate) fn names_operation(&self, name: &[u8]) -> bool {
        self.operation_id.as_ref().is_some_and(|id| equal(id.as_bytes(), name))
    }

    /// The method with which a target is called instead of the client's; `None` if it takes the client's.
    pub(crate) const fn target_method(&self, method: &[u8]) -> Option<&'static str> {
        match (&self.protocol, method) {
            // Restate's handlers are called with GET and POST only.
            (Protocol::Restate, b"PUT" | b"PATCH" | b"DELETE") => Some("POST"),
            _ => None,
        }
    }

    /// What it can do.
    pub(crate) const fn abilities(&self) -> &'static BackendAbilities {
        match self.protocol {
            Protocol::Restate => BackendKind::Restate.abilities(),
            Protocol::Generic { .. } => BackendKind::Generic.abilities(),
        }
    }

    /// Whether a response comes from Restate, or from the gateway in its place. `to_target`: the request went to a target.
    pub(crate) const fn is_restates(&self, head: &ResponseHead<'_>, to_target: bool) -> bool {
        // Only Restate sends the first two headers. Any other response from a target comes from Restate or the gateway.
        self.is_restate() && (head.invoked || head.source.is_some() || to_target)
    }

    /// Whether it speaks as Restate's ingress does.
    const fn is_restate(&self) -> bool {
        matches!(self.protocol, Protocol::Restate)
    }
}
