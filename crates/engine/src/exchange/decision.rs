//! What was decided about a request that is forwarded.

use crate::identity::Identity;
use crate::key::KeySyntax;
use crate::problem::Problem;
use crate::recovery::Wait;

/// A namespaced key, and the caller whose namespace it has.
#[derive(Debug)]
pub(crate) struct CallerKey {
    pub(crate) caller: Identity,
    pub(crate) text: String,
    /// The syntax in which the caller wrote the key; `None` for a key that the filter made
    pub(crate) syntax: Option<KeySyntax>,
}

/// The decision about a request that is forwarded, by what it is for the backend.
#[derive(Debug)]
pub(crate) enum Decision {
    /// A request without a key, with the caller's identity if the route needs one.
    Unkeyed(Option<Identity>),
    /// A request with this key.
    Keyed(CallerKey),
    /// A request in shadow mode: it keeps the client's key, and what would have become of it has no effect.
    Shadow {
        /// What would have become of it
        enforced: EnforcedDecision,
        /// Whether the backend gets the client's key
        sends_key: bool,
    },
    /// A request for the result under the key of an earlier request.
    Recovery(CallerKey, Wait),
    /// A request for the result of an operation.
    Operation(Identity, Wait),
}

/// What the filter would have done with a request's key without shadow mode.
#[derive(Debug)]
pub(crate) enum EnforcedDecision {
    /// It would have forwarded the request with this key.
    Keyed(CallerKey),
    /// It would have forwarded the request without a key.
    Unkeyed(Option<Identity>),
    /// It would have refused the request. The identity is there if the request needs one to be forwarded.
    Refused(Box<Problem>, Option<Identity>),
}

impl Default for Decision {
    /// A request about which nothing was decided, because it was refused before.
    fn default() -> Self {
        Self::Unkeyed(None)
    }
}

impl Decision {
    /// The identity of the caller, if the request needs one.
    pub(crate) const fn identity(&self) -> Option<&Identity> {
        match self {
            Self::Keyed(CallerKey { caller, .. })
            | Self::Recovery(CallerKey { caller, .. }, _)
            | Self::Operation(caller, _)
            | Self::Shadow { enforced: EnforcedDecision::Keyed(CallerKey { caller, .. }), .. } => Some(caller),
            Self::Unkeyed(identity)
            | Self::Shadow {
                enforced: EnforcedDecision::Unkeyed(identity) | EnforcedDecision::Refused(_, identity),
                ..
            } => identity.as_ref(),
        }
    }

    /// Adds the identity to a decision that has none.
    pub(crate) fn add_identity(&mut self, caller: Identity) {
        match self {
            Self::Unkeyed(identity)
            | Self::Shadow {
                enforced: EnforcedDecision::Unkeyed(identity) | EnforcedDecision::Refused(_, identity),
                ..
            } => *identity = Some(caller),
            Self::Keyed(_)
            | Self::Recovery(..)
            | Self::Operation(..)
            | Self::Shadow { enforced: EnforcedDecision::Keyed(_), .. } => {}
        }
    }

    /// The key of the request itself, also in shadow mode, where the backend does not get it.
    pub(crate) const fn own_key(&self) -> Option<&CallerKey> {
        match self {
            Self::Keyed(key) | Self::Shadow { enforced: EnforcedDecision::Keyed(key), .. } => Some(key),
            _ => None,
        }
    }

    /// The namespaced key of the request, or of the one whose result it asks for.
    pub(crate) fn key(&self) -> Option<&str> {
        let key = match self {
            Self::Recovery(key, _) => Some(key),
            _ => self.own_key(),
        };
        key.map(|key| key.text.as_str())
    }

    /// Whether the backend gets a key: the namespaced one, or in shadow mode the client's.
    pub(crate) const fn sends_key(&self) -> bool {
        match self {
            Self::Keyed(_) => true,
            Self::Shadow { sends_key, .. } => *sends_key,
            Self::Unkeyed(_) | Self::Recovery(..) | Self::Operation(..) => false,
        }
    }

    /// In shadow mode, what would have become of the request.
    pub(crate) const fn shadowed(&self) -> Option<&EnforcedDecision> {
        match self {
            Self::Shadow { enforced, .. } => Some(enforced),
            _ => None,
        }
    }

    /// If the request asks for a stored result, whether it waits for it.
    pub(crate) const fn stored_result(&self) -> Option<Wait> {
        match self {
            Self::Recovery(_, wait) | Self::Operation(_, wait) => Some(*wait),
            _ => None,
        }
    }

    /// Whether the request asks for the result of an operation.
    pub(crate) const fn is_operation(&self) -> bool {
        matches!(self, Self::Operation(..))
    }
}
