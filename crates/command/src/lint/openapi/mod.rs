//! What `check --openapi` looks for: differences between an OpenAPI description and a policy.
//!
//! | module | subject |
//! |---|---|
//! | `key` | the parameter `Idempotency-Key` of an operation |
//! | `responses` | refusals of the filter and headers of answers |

mod key;
mod responses;

use crate::lint::openapi_list::{
    NOT_OPENAPI, OPENAPI_NO_OPERATION, OPENAPI_NO_ROUTE, OPENAPI_OPEN_WRITE, OPENAPI_POLICY_DIFFERS, OPENAPI_WEBHOOK,
};
use crate::lints::PolicyFinding;
use crate::lints::diagnostics::lint::Lint;
use crate::lints::diagnostics::source::SourceText;
use crate::lints::diagnostics::tree::SpannedNode;
use crate::lints::diagnostics::{CheckedFile, Finding};
use crate::lints::list::NOT_SEEN;
use crate::openapi::description;
use crate::openapi::interface::RouteInterface;
use crate::openapi::operations::{self, ApiOperation};
use crate::openapi::references::References;
use crate::openapi::routing::{OperationRouter, Routing};
use crate::openapi::unread::unread_reference;
use edge_idempotency_engine::Policy;
use std::collections::BTreeSet;
use std::ops::Range;

/// The extension that names the policy of an operation.
const POLICY: &str = "x-idempotency-policy";

/// Findings in a description.
#[derive(Default)]
pub(super) struct DescriptionFindings(Vec<Finding>);

impl DescriptionFindings {
    /// Adds a finding. `help`: what to write instead; empty if the message says it.
    pub(super) fn add(
        &mut self,
        lint: &'static Lint,
        pointer: String,
        span: &Range<usize>,
        message: String,
        help: impl Into<String>,
    ) {
        let (pointer, span, help) = (Some(pointer), span.clone(), help.into());
        self.0.push(Finding { lint, severity: lint.severity, pointer, span, message, help });
    }
}

/// What a policy and a description file say of each other.
struct Comparison {
    of_policy: Vec<PolicyFinding>,
    of_description: Vec<Finding>,
    summary: Option<String>,
}

/// Compares a description with a policy: findings in the policy document, and the description with its own. Of a policy that does not
/// start nothing is told here.
pub(crate) fn check(policy: &[u8], described: SourceText) -> (Vec<PolicyFinding>, CheckedFile) {
    let of_policy = |of_policy| Comparison { of_policy, of_description: Vec::new(), summary: None };
    let compared = match (Policy::from_json(policy), description::read(&described)) {
        (Err(_), _) => of_policy(Vec::new()),
        (Ok(_), Err(error)) => {
            let mut found = DescriptionFindings::default();
            found.add(&NOT_OPENAPI, String::new(), &(error.at..error.at), error.message, error.help);
            Comparison { of_description: found.0, ..of_policy(Vec::new()) }
        }
        (Ok(started), Ok(tree)) => compare(&started, &tree),
    };
    let Comparison { of_policy, of_description, summary } = compared;
    (of_policy, CheckedFile { source: described, findings: of_description, summary })
}

fn compare(policy: &Policy, tree: &SpannedNode) -> Comparison {
    let references = References::new(tree);
    let (operations, unread) = operations::of_description(&references);
    let router = OperationRouter::new(policy);
    let mut found = DescriptionFindings::default();
    for part in unread {
        found.add(&NOT_SEEN, part.pointer, &part.span, part.message, part.help);
    }
    let interfaces: Vec<RouteInterface<'_>> = policy.routes().map(|route| RouteInterface::new(policy, route)).collect();
    let mut described: BTreeSet<usize> = BTreeSet::new();
    for operation in &operations {
        match router.of_operation(operation) {
            Routing::Route(route) => {
                described.insert(route.id);
                if let Some(interface) = interfaces.get(route.id) {
                    check_operation(operation, interface, &references, &mut found);
                }
            }
            Routing::StoredAnswer => {}
            miss => without_route(policy, operation, &miss, &mut found),
        }
    }
    let of_callers = interfaces.iter().filter(|interface| !interface.is_webhook());
    let of_policy = of_callers.filter(|interface| !described.contains(&interface.route.id)).map(no_operation).collect();
    let (count, routes) = (operations.len(), described.len());
    let summary = format!(
        "description with {count} operation{}, for {routes} route{}",
        if count == 1 { "" } else { "s" },
        if routes == 1 { "" } else { "s" }
    );
    Comparison { of_policy, of_description: found.0, summary: Some(summary) }
}

fn no_operation(interface: &RouteInterface<'_>) -> PolicyFinding {
    let route = interface.route;
    let methods = route.methods.iter().filter(|method| *method != "HEAD").cloned().collect::<Vec<_>>().join(", ");
    PolicyFinding::new(
        &OPENAPI_NO_OPERATION,
        format!("/routes/{}/path", route.id),
        format!("`{}` ({methods} {}) has no operation in the description", route.endpoint, route.template),
        "describe it; a path of the description counts behind the path of its server in `servers`",
    )
}

fn without_route(policy: &Policy, operation: &ApiOperation<'_>, miss: &Routing<'_>, found: &mut DescriptionFindings) {
    let title = operation.title();
    let reads = ["GET", "HEAD", "OPTIONS", "TRACE"].contains(&operation.method.as_str());
    let (lint, message, help) = match miss {
        Routing::Ambiguous(why) => (
            &OPENAPI_NO_ROUTE,
            format!("the gateway answers `{title}` 400 `path_ambiguous`: {why}"),
            "write the path in its normalised form, as docs/contract.md section 2 says".to_owned(),
        ),
        Routing::OtherMethods(methods) => (
            &OPENAPI_NO_ROUTE,
            format!(
                "`{title}` has no route: the policy has its path with {} only, so the gateway answers 405",
                methods.join(", ")
            ),
            format!("add `{}` to `methods` of a route with this path, or a route of its own", operation.method),
        ),
        _ if policy.needs().forwards_unmatched().is_none() => (
            &OPENAPI_NO_ROUTE,
            format!("`{title}` has no route, so the gateway answers 404"),
            "add a route with this path, which begins with the path of the server in `servers`".to_owned(),
        ),
        _ if reads => return,
        _ => (
            &OPENAPI_OPEN_WRITE,
            format!("`{title}` has no route and is forwarded without a key, so a retry runs the work twice"),
            "add a route with this path, which begins with the path of the server in `servers`".to_owned(),
        ),
    };
    found.add(lint, operation.pointer(&[]), &operation.name_span, message, help);
}

fn check_operation<'t>(
    operation: &ApiOperation<'t>,
    interface: &RouteInterface<'_>,
    references: &References<'t>,
    found: &mut DescriptionFindings,
) {
    let policy = interface.route.policy.name();
    let written = references.member(operation.node, POLICY);
    if let Some(member) = written
        && member.value.text() != Some(policy)
    {
        let said = member.value.text().map_or("an object or a list".to_owned(), |text| format!("`{text}`"));
        found.add(
            &OPENAPI_POLICY_DIFFERS,
            operation.pointer(&[POLICY]),
            &member.value.span,
            format!("{said} is not the policy of `{}`, which is `{policy}`", interface.route.endpoint),
            format!("write `{POLICY}: {policy}`, or change the route"),
        );
    }
    if interface.is_webhook() && written.is_none() {
        found.add(
            &OPENAPI_WEBHOOK,
            operation.pointer(&[]),
            &operation.name_span,
            format!(
                "`{}` takes deliveries of a provider of webhooks, and the description has it as an operation for callers",
                operation.title()
            ),
            format!("remove it from the description, or write `{POLICY}: {policy}` if senders of webhooks read this description"),
        );
    }
    key::check(operation, interface, references, found);
    if !interface.is_webhook() {
        responses::check(operation, interface, references, found);
    }
}

/// A reference that was not followed.
fn other_file(reference: &str, pointer: String, span: &Range<usize>, found: &mut DescriptionFindings) {
    let (message, help) = unread_reference(reference);
    found.add(&NOT_SEEN, pointer, span, message, help);
}
