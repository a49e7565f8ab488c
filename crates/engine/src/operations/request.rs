//! The request for an operation, which is sent to the backend's path of its answer.

use super::rules::Operations;
use crate::api_keys::{Asked, await_caller};
use crate::exchange::{
    Caller, Decision, Effect, Exchange, HeaderMapKind, IncomingRequest, Place, RequestFlow, RequestHead, TraceEvent,
    TraceStep, only_finite, only_get, wider_scope,
};
use crate::headers::distinct;
use crate::identity::{Identity, IdentityError, IdentityPart, IdentityRefusal, Project};
use crate::policy::path::NormalPath;
use crate::problem::{Problem, Reason};
use crate::recovery::StoredResult;

/// Sends a request for an operation to the backend's path of its answer; `None` if the path is not that of an operation.
pub(crate) fn operation_request<'a>(
    exchange: &mut Exchange,
    incoming: IncomingRequest<'_, 'a>,
    head: &mut RequestHead<'a>,
    path: &NormalPath<'_>,
    effects: &mut Vec<Effect<'a>>,
) -> Result<Option<RequestFlow>, Problem> {
    let IncomingRequest { policy, headers, attributes } = incoming;
    let Some(operations) = policy.operations() else { return Ok(None) };
    let Some((id, wait)) = operations.parse(path.as_str()) else { return Ok(None) };
    exchange.note(|| TraceEvent::Operation);
    exchange.place = Place::Operation;
    head.edited.limit_to(policy, policy.backend_of_operations());
    only_get(head.line.method)?;
    head.refuse_rpc(policy.backend_of_operations())?;
    only_finite(headers).inspect_err(|_| exchange.begin(TraceStep::Body))?;
    let asked = Asked { route: None, line: head.line, may_wait: false, headers, attributes };
    if let Some(flow) = await_caller(exchange, policy, &asked)? {
        return Ok(Some(flow));
    }
    exchange.begin(TraceStep::Identity);
    let caller = Caller::of(exchange, policy, None, headers, attributes);
    let (caller, projects) = resolve(&caller, operations).map_err(|why| Problem::identity(&why))?;
    exchange.note(|| TraceEvent::Identity(Box::new(caller.clone())));
    exchange.begin(TraceStep::Key);
    let verified = operations.verify(id, &caller, &projects);
    let Some((invocation, project)) = verified else {
        exchange.facts.verified_identity = Some(caller);
        if operations.has_key() {
            return Err(Problem::operation_unknown());
        }
        return Err(exchange.with_reason(Reason::SecretInvalid, Problem::dependency_unavailable()));
    };
    let caller = Identity { project, ..caller };
    let wait = exchange.granted(policy, wait, &caller);
    exchange.invocation = Some(invocation.to_owned());
    exchange.operation = operations.operation_id(invocation, &caller);
    let router = attributes.router();
    // The filter decides how long the router waits, so the client's headers for the router are removed.
    if let Some(router) = router {
        let steers = |name: &&[u8]| name.starts_with(router.prefix.as_bytes());
        let steering = distinct(headers.iter().map(|(name, _)| name).filter(steers).collect());
        effects.extend(steering.into_iter().map(|name| Effect::Remove { map: HeaderMapKind::Request, name }));
    }
    let result = StoredResult { path: wait.result_path(invocation), router };
    result.send(exchange, policy, &head.edited, Decision::Operation(caller, wait), effects);
    Ok(Some(RequestFlow::Continue))
}

/// The caller, and the projects for which the operation may have been made: the caller's own, and the wider scopes of routes. Where routes
/// have wider scopes a caller needs no project.
fn resolve<'c>(caller: &Caller<'c>, operations: &Operations) -> Result<(Identity, Vec<Project>), IdentityRefusal<'c>> {
    let wider: Vec<Project> = operations.wider_scopes().iter().filter_map(|scope| wider_scope(*scope)).collect();
    match (caller.resolve(), wider.first()) {
        (Ok(caller), _) => {
            let projects = [std::slice::from_ref(&caller.project), &wider].concat();
            Ok((caller, projects))
        }
        (Err(IdentityRefusal { error: IdentityError::Missing(IdentityPart::Project), .. }), Some(scope)) => {
            Ok((caller.resolve_in(Some(scope.clone()))?, wider))
        }
        (Err(why), _) => Err(why),
    }
}
