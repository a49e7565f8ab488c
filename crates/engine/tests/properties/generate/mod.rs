//! Policies and requests made of near misses.

mod documents;
mod policies;
mod requests;

pub(crate) use documents::{
    BackendModel, FUTURE_KEY, HOOK_TOKEN, KEY_COPY, KeyRulesModel, Kind, OWN_KEY, PARAMETERS, Place, PolicyModel,
    RouteModel, ScopeModel, Segment, SourceModel,
};
pub(crate) use policies::{conflict, policy, routes};
pub(crate) use requests::{exchange, key_value, respelled};
