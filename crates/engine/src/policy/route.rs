//! A compiled route.

use super::Target;
use super::answer::AnswerMapping;
use super::document::{Mode, PolicyKind, RouteMembers};
use super::route_table::RouteId;
use super::template::Template;
use crate::api_keys::ApiKeyRules;
use crate::collision::CollisionRules;
use crate::json::scan::Pointer;
use crate::key::KeyRules;
use std::ops::Deref;
use std::sync::Arc;

/// A compiled route.
#[derive(Debug)]
pub struct Route {
    /// Its index
    pub id: RouteId,
    /// Its name in metrics, logs and gateway routes
    pub endpoint: String,
    /// Its path
    pub template: Template,
    /// Its methods, `HEAD` included where `GET` is
    pub methods: Arc<[String]>,
    /// The policy
    pub policy: PolicyKind,
    /// What the document says and requests need as it is written
    pub members: RouteMembers,
    /// The index of its backend; 0 is the default
    pub(crate) backend: usize,
    /// The target, if the path is rewritten
    pub target: Option<Arc<Target>>,
    /// How it detects that a key comes again with another request
    pub(crate) collision: Option<Box<CollisionRules>>,
    /// The target that is asked whether the first request with a key is in flight, if duplicates are refused then
    pub(crate) in_flight: Option<Arc<Target>>,
    /// The target whose stored results callers can recover
    pub recovery: Option<Arc<Target>>,
    /// Whether decisions have an effect
    pub mode: Mode,
    /// The index of its identity rules
    pub(crate) identity: usize,
    /// The signed callers that may call it, as indices
    pub callers: Vec<usize>,
    /// Whether a delivery without a value for the target is acknowledged, and not refused
    pub acknowledges: bool,
    /// The rules for clients' keys; `None` if the grammar is all
    pub key: Option<Arc<KeyRules>>,
    /// The headers that carry the path's parameters to the backend, in the order of the parameters; lower case. Empty
    /// without `parameter_headers`
    pub parameter_headers: Vec<String>,
    /// What becomes of the target's answers with status 200
    pub(crate) answer: Option<AnswerMapping>,
    /// The member of an answer that says whether the handler had done the work before (Case C)
    pub(crate) internal_hit: Option<Pointer>,
    /// What it asks of API keys
    pub(crate) api_key: ApiKeyRules,
}
/// A route has its plain members as if they were its own.
impl Deref for Route {
    type Target = RouteMembers;

    fn deref(&self) -> &RouteMembers {
        &self.members
    }
}
