//! The operation id that a client gets, and the path at which it can ask for the answer.

use crate::exchange::{Decision, Effect, Exchange, set};
use crate::policy::{OPERATION_ID, Policy};
use std::borrow::Cow;

/// The operation id that the client sees of an invocation. With operations it has the tag of the request's caller, and
/// there is none if the caller is not known, or if the invocation may be another caller's. `status`: the answer's.
pub(crate) fn operation_id<'a>(
    exchange: &Exchange,
    policy: &Policy,
    decision: &Decision,
    invocation: &'a [u8],
    status: u16,
) -> Option<Cow<'a, [u8]>> {
    let Some(operations) = exchange.operations(policy) else { return Some(Cow::Borrowed(invocation)) };
    if let Some(operation) = &exchange.operation {
        return Some(Cow::Owned(operation.clone().into_bytes()));
    }
    let is_shared = match decision.sends_key() {
        // In shadow mode the backend has the client's key, which another caller can send as well.
        true => decision.shadowed().is_some(),
        // A workflow answers so, with the id of its one run, if another request has started it.
        false => status == 409 && decision.stored_result().is_none(),
    };
    let to_target = exchange.route(policy).is_some_and(|route| route.target.is_some());
    let caller = decision.identity().filter(|_| to_target && !is_shared)?;
    let invocation = std::str::from_utf8(invocation).ok()?;
    operations.operation_id(invocation, caller).map(|id| Cow::Owned(id.into_bytes()))
}

/// Tells the operation id of work under way, and at which path the caller can ask for its answer. The sender of a webhook and a signed
/// caller cannot.
pub(crate) fn set_operation<'a>(
    exchange: &Exchange,
    policy: &'a Policy,
    decision: &Decision,
    effects: &mut Vec<Effect<'a>>,
) {
    let Some(operation) = &exchange.operation else { return };
    set(OPERATION_ID, operation.clone().into_bytes(), effects);
    let Some((operations, caller)) = exchange.operations(policy).zip(decision.identity()) else { return };
    if !policy.reserved_subjects().iter().any(|reserved| reserved == caller.subject.as_str()) {
        set("location", operations.path(operation).into_bytes(), effects);
    }
}
