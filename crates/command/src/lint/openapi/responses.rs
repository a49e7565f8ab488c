//! The responses of an operation, compared with its route: refusals of the filter, and headers of answers.

use super::{DescriptionFindings, other_file};
use crate::lint::openapi_list::OPENAPI_INCOMPLETE;
use crate::lints::diagnostics::tree::SpannedNode;
use crate::openapi::interface::RouteInterface;
use crate::openapi::operations::ApiOperation;
use crate::openapi::references::References;
use crate::openapi::responses::{has_problem, lacking};
use std::collections::BTreeSet;

pub(super) fn check<'t>(
    operation: &ApiOperation<'t>,
    interface: &RouteInterface<'_>,
    references: &References<'t>,
    found: &mut DescriptionFindings,
) {
    let member = references.member(operation.node, "responses");
    let written = member.map(|member| member.value.members()).unwrap_or_default();
    let span = member.map_or(&operation.name_span, |member| &member.name_span);
    let at = operation.pointer(&["responses"]);
    let mut resolved: Vec<(&str, &'t SpannedNode)> = Vec::new();
    let mut elsewhere: BTreeSet<&str> = BTreeSet::new();
    for response in written.iter().filter(|response| !response.name.starts_with("x-")) {
        match references.resolve(&response.value) {
            Ok(referred) => resolved.push((&response.name, referred.node)),
            Err(reference) => {
                elsewhere.insert(&response.name);
                let pointer = operation.pointer(&["responses", &response.name]);
                other_file(&reference, pointer, &response.name_span, found);
            }
        }
    }
    let missing: Vec<String> = interface
        .refusals
        .iter()
        .map(|refusal| refusal.status.to_string())
        .filter(|status| {
            let ranges = [status.clone(), format!("{}XX", status.get(..1).unwrap_or_default()), "default".to_owned()];
            // The most exact response counts.
            let found = ranges.iter().find_map(|range| resolved.iter().find(|(name, _)| name == range));
            let is_elsewhere = ranges.iter().any(|range| elsewhere.contains(range.as_str()));
            !is_elsewhere && !found.is_some_and(|(_, response)| has_problem(references, response))
        })
        .collect();
    if !missing.is_empty() {
        let statuses = missing.join(", ");
        found.add(
            &OPENAPI_INCOMPLETE,
            at.clone(),
            span,
            format!("`{}` has no problem document for {statuses}, which the filter answers", operation.title()),
            "add `application/problem+json` to these responses, or apply what `overlay` writes",
        );
    }
    let headers: BTreeSet<&str> = resolved
        .iter()
        .flat_map(|(_, response)| lacking(references, response, &interface.headers))
        .map(|header| header.name.as_str())
        .collect();
    if !headers.is_empty() {
        let names = headers.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        found.add(
            &OPENAPI_INCOMPLETE,
            at,
            span,
            format!("not every response of `{}` has the headers {names}", operation.title()),
            "add them to every response, or apply what `overlay` writes",
        );
    }
}
