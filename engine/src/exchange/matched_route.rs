//! The route of a request: by endpoint, path and method.

use super::refusal::{misplaced_slash, no_segment};
use super::request_head::{EditedLines, RequestHead, RequestLine};
use super::trace::{TraceEvent, TraceStep};
use super::{Exchange, unmatched_name};
use crate::headers::Headers;
use crate::identity::{AttributeValue, Attributes, Identity, Project, Subject};
use crate::percent::{percent_decode, percent_encode};
use crate::policy::path::{NormalPath, PathError, hides_dots};
use crate::policy::target::Target;
use crate::policy::{KeySubject, Mode, Policy, PolicyKind, Route, RouteLookup, Scope, Unmatched};
use crate::problem::Problem;
use std::borrow::Cow;

/// A request with its route.
#[derive(Clone, Copy)]
pub(super) struct RoutedRequest<'r, 'a> {
    pub(super) line: RequestLine<'r>,
    /// The normalised path, without the query
    pub(super) path: &'r str,
    pub(super) matched: &'r MatchedRoute<'a, 'r>,
    pub(super) edited: &'r EditedLines<'a>,
    pub(super) headers: &'r Headers<'a>,
}

/// The route of a request, or the policy for unmatched requests.
pub(super) struct MatchedRoute<'p, 'r> {
    pub(super) kind: PolicyKind,
    pub(super) mode: Mode,
    scope: Scope,
    pub(super) route: Option<&'p Route>,
    /// Whether a key is removed, and not refused, where none is allowed.
    pub(super) strips_prohibited: bool,
    pub(super) values: Vec<&'r str>,
    /// The values of the verified body's members that the target names
    pub(super) members: Vec<Vec<u8>>,
}

impl<'p, 'r> MatchedRoute<'p, 'r> {
    /// A route and the values of its path parameters.
    pub(super) fn of(route: &'p Route, values: Vec<&'r str>) -> Self {
        Self {
            kind: route.policy,
            mode: route.mode,
            scope: route.scope,
            route: Some(route),
            strips_prohibited: route.strips_prohibited,
            values,
            members: Vec::new(),
        }
    }

    /// The project segment of a scope wider than a project.
    pub(super) const fn wider_scope(&self) -> Option<Project> {
        wider_scope(self.scope)
    }

    /// The identity that the namespaced keys of a caller have: the caller's, without the subject where all callers share
    /// keys.
    pub(super) fn key_owner<'i>(&self, caller: &'i Identity) -> Cow<'i, Identity> {
        if self.route.is_some_and(|route| route.subject == KeySubject::None) {
            Cow::Owned(Identity { subject: Subject::none(), ..caller.clone() })
        } else {
            Cow::Borrowed(caller)
        }
    }

    /// The target, if the path is rewritten.
    pub(super) fn target(&self) -> Option<&'p Target> {
        self.route?.target.as_deref()
    }

    /// The values of the path's parameters, decoded.
    pub(super) fn decoded(&self) -> Vec<Vec<u8>> {
        // The path is normalised, so its escapes are well formed.
        self.values.iter().map(|value| percent_decode(value.as_bytes()).unwrap_or_default()).collect()
    }

    /// The headers that carry the path's parameters to the backend. A value is percent-encoded except for unreserved
    /// characters, so it has one spelling and no control byte.
    #[inline(never)]
    pub(super) fn parameters(&self) -> Vec<(&'p str, Vec<u8>)> {
        let names = self.route.map(|route| route.parameter_headers.as_slice()).unwrap_or_default();
        let encoded = |(name, value): (&'p String, &&str)| {
            let mut text = String::with_capacity(value.len());
            // The path is normalised, so its escapes are well formed.
            percent_encode(&percent_decode(value.as_bytes()).unwrap_or_default(), &mut text);
            (name.as_str(), text.into_bytes())
        };
        names.iter().zip(&self.values).map(encoded).collect()
    }

    /// The value of a path parameter, still escaped.
    pub(super) fn value(&self, name: &str) -> Option<&'r str> {
        let index = self.route?.template.parameters().position(|parameter| parameter == name)?;
        self.values.get(index).copied()
    }
}

/// The project segment of a scope wider than a project.
pub(super) const fn wider_scope(scope: Scope) -> Option<Project> {
    match scope {
        Scope::Project => None,
        Scope::Tenant => Some(Project::Tenant),
        Scope::Platform => Some(Project::Platform),
    }
}

impl Exchange {
    /// Finds the route by endpoint, path and method.
    pub(super) fn match_route<'p, 'r>(
        &mut self,
        policy: &'p Policy,
        head: &RequestHead<'_>,
        (authority, path): (&str, &'r NormalPath<'_>),
        attributes: &dyn Attributes,
    ) -> Result<MatchedRoute<'p, 'r>, Problem> {
        let named = policy.named_endpoint(attributes);
        let is_named = !matches!(named, AttributeValue::Absent);
        let declared = match named {
            AttributeValue::Absent => policy.declared(authority, path.as_str(), head.line.method),
            AttributeValue::Text(endpoint) => {
                let place = (authority, path.as_str());
                policy.named(&endpoint, place, head.line.method).ok_or_else(Problem::policy_invalid)?
            }
            AttributeValue::Unusable => return Err(Problem::policy_invalid()),
        };
        // Only the value of a path parameter may contain an escaped slash, and only where the route says so.
        let has_misplaced_slash = |route: &Route, values: &[&str]| {
            path.has_encoded_slash() && !(route.encoded_slash && values.iter().any(|value| value.contains("%2F")))
        };
        match declared {
            RouteLookup::Route(route, _) if policy.is_closed_declared(route, path.as_str()) => {
                self.begin(TraceStep::Path);
                self.note(|| TraceEvent::Closed);
                Err(Problem::not_found())
            }
            RouteLookup::Route(route, values) => {
                self.note(|| TraceEvent::Route(route.id));
                self.route_id = Some(route.id);
                self.telemetry.policy = Some(route.policy.name());
                if has_misplaced_slash(route, &values) {
                    return Err(misplaced_slash());
                }
                refuse_dots(&values)?;
                let matched = MatchedRoute::of(route, values);
                self.keep_path_values(&matched);
                Ok(matched)
            }
            RouteLookup::OtherReading => Err(Problem::path_ambiguous(PathError::OtherReading)),
            RouteLookup::OtherMethods(methods) => Err(Problem::method_not_allowed(&methods)),
            RouteLookup::Nothing if path.has_encoded_slash() => Err(misplaced_slash()),
            // The path may be that of another route, whose policy would not be applied.
            RouteLookup::Nothing if is_named => Err(Problem::not_found()),
            RouteLookup::Nothing => {
                self.telemetry.policy = Some(unmatched_name(policy.unmatched()));
                let kind = match policy.unmatched() {
                    Unmatched::Reject => return Err(Problem::not_found()),
                    _ if policy.is_closed_undeclared(path.as_str()) || policy.is_closed_to_default(path.as_str()) => {
                        return Err(Problem::not_found());
                    }
                    Unmatched::Prohibited => PolicyKind::Prohibited,
                    Unmatched::HandlerInternalC => PolicyKind::HandlerInternalC,
                };
                self.note(|| TraceEvent::Unmatched);
                Ok(MatchedRoute {
                    kind,
                    mode: policy.mode(),
                    scope: Scope::Project,
                    route: None,
                    strips_prohibited: policy.strips_prohibited(),
                    values: Vec::new(),
                    members: Vec::new(),
                })
            }
        }
    }
}

/// Refuses values of path parameters that are `.` or `..`, or have one of them, or nothing, between escaped slashes. The path as
/// a whole shows these only where the value is a whole segment.
pub(super) fn refuse_dots(values: &[&str]) -> Result<(), Problem> {
    match values.iter().any(|value| hides_dots(value)) {
        true => Err(no_segment()),
        false => Ok(()),
    }
}
