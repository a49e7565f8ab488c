//! Operations: a caller asks for the answer of an earlier request by its operation id (docs/contract.md section 6). The
//! id's tag fits its own caller only, so a caller cannot reach another caller's answer.

use super::decision::Decision;
use super::matched_route::wider_scope;
use super::refusal::{only_finite, only_get};
use super::request_head::RequestHead;
use super::trace::{TraceEvent, TraceStep};
use super::{Effect, Exchange, HeaderMapKind, RequestFlow};
use crate::headers::{Headers, distinct};
use crate::identity::{
    self, Attributes, Identity, IdentityError, IdentityPart, IdentityRefusal, KeyHolder, Project, Rules,
};
use crate::policy::Policy;
use crate::policy::operations::Operations;
use crate::policy::path::NormalPath;
use crate::problem::{Problem, Reason};
use std::borrow::Cow;

impl Exchange {
    /// Sends a request for an operation to the backend's path of its answer; `None` if the path is not that of an operation.
    #[inline(never)]
    pub(super) fn operation_request<'a>(
        &mut self,
        policy: &'a Policy,
        head: &mut RequestHead<'a>,
        path: &NormalPath<'_>,
        headers: &Headers<'a>,
        attributes: &dyn Attributes,
        effects: &mut Vec<Effect<'a>>,
    ) -> Result<Option<RequestFlow>, Problem> {
        let Some(operations) = policy.operations() else { return Ok(None) };
        let Some((id, wait)) = operations.parse(path.as_str()) else { return Ok(None) };
        self.note(|| TraceEvent::Operation);
        self.telemetry.is_operation = true;
        head.edited.choose(policy, policy.backend_of_operations());
        only_get(head.line.method)?;
        head.refuse_rpc(policy.backend_of_operations())?;
        only_finite(headers).inspect_err(|_| self.begin(TraceStep::Body))?;
        if let Some(flow) = self.await_caller(policy, (None, head.line), false, headers, attributes)? {
            return Ok(Some(flow));
        }
        self.begin(TraceStep::Identity);
        let (caller, projects) = callers(policy, operations, headers, (attributes, self.holder.as_deref()))
            .map_err(|why| Problem::identity(&why))?;
        self.note(|| TraceEvent::Identity(Box::new(caller.clone())));
        self.begin(TraceStep::Key);
        let verified = operations.verify(id, &caller, &projects);
        let Some((invocation, project)) = verified else {
            self.telemetry.verified_identity = Some(Box::new(caller));
            if operations.has_key() {
                return Err(Problem::operation_unknown());
            }
            return Err(self.because(Reason::SecretInvalid, Problem::dependency_unavailable()));
        };
        let caller = Identity { project, ..caller };
        let wait = self.granted(policy, wait, &caller);
        self.telemetry.invocation = Some(invocation.to_owned());
        self.operation = operations.operation_id(invocation, &caller);
        let path = wait.result_path(invocation);
        let decision = Decision::Operation(caller, wait);
        let router = attributes.router();
        // The filter decides how long the router waits, so the client's headers for the router are removed.
        if let Some(router) = router {
            let steers = |name: &&[u8]| name.starts_with(router.prefix.as_bytes());
            let steering = distinct(headers.iter().map(|(name, _)| name).filter(steers).collect());
            effects.extend(steering.into_iter().map(|name| Effect::Remove { map: HeaderMapKind::Request, name }));
        }
        self.edit_recovery(policy, &head.edited, decision, path, router, effects);
        Ok(Some(RequestFlow::Continue))
    }

    /// The operation id that the client sees of an invocation. With operations it has the tag of the request's caller, and
    /// there is none if the caller is not known, or if the invocation may be another caller's. `status`: the answer's.
    pub(super) fn operation_id<'a>(
        &self,
        policy: &Policy,
        decision: &Decision,
        invocation: &'a [u8],
        status: u16,
    ) -> Option<Cow<'a, [u8]>> {
        let Some(operations) = self.operations(policy) else { return Some(Cow::Borrowed(invocation)) };
        if let Some(operation) = &self.operation {
            return Some(Cow::Owned(operation.clone().into_bytes()));
        }
        let is_shared = match decision.sends_key() {
            // In shadow mode the backend has the client's key, which another caller can send as well.
            true => decision.shadowed().is_some(),
            // A workflow answers so, with the id of its one run, if another request has started it.
            false => status == 409 && decision.stored_result().is_none(),
        };
        let to_target = self.route(policy).is_some_and(|route| route.target.is_some());
        let caller = decision.identity().filter(|_| to_target && !is_shared)?;
        let invocation = std::str::from_utf8(invocation).ok()?;
        operations.operation_id(invocation, caller).map(|id| Cow::Owned(id.into_bytes()))
    }

    /// The path at which the request's caller can ask for an operation. The sender of a webhook and a signed caller cannot.
    pub(super) fn operation_path(&self, policy: &Policy, decision: &Decision) -> Option<String> {
        let (operations, operation) = (self.operations(policy)?, self.operation.as_ref()?);
        let subject = decision.identity()?.subject.as_str();
        let is_reserved = policy.reserved_subjects().iter().any(|reserved| reserved == subject);
        (!is_reserved).then(|| operations.path(operation))
    }
}

/// The caller of a request for an operation, and the projects for which the operation may have been made: the caller's own,
/// and the wider scopes of routes. Where routes have wider scopes a caller needs no project.
fn callers<'p>(
    policy: &'p Policy,
    operations: &Operations,
    headers: &Headers<'_>,
    (attributes, holder): (&dyn Attributes, Option<&KeyHolder>),
) -> Result<(Identity, Vec<Project>), IdentityRefusal<'p>> {
    let rules = policy.identity_of(None);
    let resolve = |scope: Option<Project>| {
        let rules_of_scope = Rules { scope, reserved: policy.reserved_subjects(), holder };
        identity::resolve(&rules.sources, &rules_of_scope, headers, attributes)
    };
    let wider: Vec<Project> = operations.wider_scopes().iter().filter_map(|scope| wider_scope(*scope)).collect();
    match (resolve(None), wider.first()) {
        (Ok(caller), _) => {
            let projects = [std::slice::from_ref(&caller.project), &wider].concat();
            Ok((caller, projects))
        }
        (Err(IdentityRefusal { error: IdentityError::Missing(IdentityPart::Project), .. }), Some(scope)) => {
            Ok((resolve(Some(scope.clone()))?, wider))
        }
        (Err(why), _) => Err(why),
    }
}
