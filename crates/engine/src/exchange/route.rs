//! The route of a request: by endpoint, path and method.

use super::caller::wider_scope;
use super::head::{EditedLines, RequestHead, RequestLine};
use super::refusal::{misplaced_slash, no_segment};
use super::trace::{TraceEvent, TraceStep};
use super::{Exchange, Place};
use crate::headers::Headers;
use crate::identity::{AttributeValue, Attributes, Identity, Project, Subject};
use crate::percent::{percent_decode, percent_encode};
use crate::policy::answer::LocationTemplate;
use crate::policy::path::{PathError, hides_dots};
use crate::policy::target::Target;
use crate::policy::{
    KeyInLogs, KeySubject, Mode, Policy, PolicyKind, RequestUrl, Route, RouteLookup, Scope, Unmatched,
};
use crate::problem::Problem;
use std::borrow::Cow;

/// A request with its route.
#[derive(Clone, Copy)]
pub(crate) struct RoutedRequest<'r, 'a> {
    pub(crate) line: RequestLine<'r>,
    /// The normalised path, without the query
    pub(crate) path: &'r str,
    pub(crate) matched: &'r MatchedRoute<'a, 'r>,
    pub(crate) edited: &'r EditedLines<'a>,
    pub(crate) headers: &'r Headers<'a>,
}

/// The route of a request, or the policy for unmatched requests.
pub(crate) struct MatchedRoute<'p, 'r> {
    pub(crate) kind: PolicyKind,
    pub(crate) mode: Mode,
    scope: Scope,
    pub(crate) route: Option<&'p Route>,
    pub(crate) values: Vec<&'r str>,
    /// The values of the verified body's members that the target names
    pub(crate) members: Vec<Vec<u8>>,
    /// Why enforcing would refuse the request whatever its key is
    pub(crate) refused: Option<Box<Problem>>,
}

impl<'p, 'r> MatchedRoute<'p, 'r> {
    /// A route and the values of its path parameters.
    pub(crate) fn of(route: &'p Route, values: Vec<&'r str>) -> Self {
        Self {
            kind: route.policy,
            mode: route.mode,
            scope: route.scope,
            route: Some(route),
            values,
            members: Vec::new(),
            refused: None,
        }
    }

    /// What holds for a request without a route.
    pub(crate) fn unmatched(policy: &Policy, kind: PolicyKind) -> Self {
        Self {
            kind,
            mode: policy.mode,
            scope: Scope::Project,
            route: None,
            values: Vec::new(),
            members: Vec::new(),
            refused: None,
        }
    }

    /// The project segment of a scope wider than a project.
    pub(crate) const fn wider_scope(&self) -> Option<Project> {
        wider_scope(self.scope)
    }

    /// The identity that the namespaced keys of a caller have: the caller's, without the subject where all callers share
    /// keys.
    pub(crate) fn key_owner<'i>(&self, caller: &'i Identity) -> Cow<'i, Identity> {
        if self.route.is_some_and(|route| route.subject == KeySubject::None) {
            Cow::Owned(Identity { subject: Subject::none(), ..caller.clone() })
        } else {
            Cow::Borrowed(caller)
        }
    }

    /// The target, if the path is rewritten.
    pub(crate) fn target(&self) -> Option<&'p Target> {
        self.route?.target.as_deref()
    }

    /// The values of the path's parameters, decoded.
    pub(crate) fn decoded(&self) -> Vec<Vec<u8>> {
        // The path is normalised, so its escapes are well formed.
        self.values.iter().map(|value| percent_decode(value.as_bytes()).unwrap_or_default()).collect()
    }

    /// The headers that carry the path's parameters to the backend. A value is percent-encoded except for unreserved
    /// characters, so it has one spelling and no control byte.
    pub(crate) fn parameters(&self) -> Vec<(&'p str, Vec<u8>)> {
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
    pub(crate) fn value(&self, name: &str) -> Option<&'r str> {
        let index = self.route?.template.parameters().position(|parameter| parameter == name)?;
        self.values.get(index).copied()
    }
}

impl Exchange {
    /// Finds the route by endpoint, path and method.
    pub(crate) fn match_route<'p, 'r>(
        &mut self,
        policy: &'p Policy,
        head: &RequestHead<'_>,
        url: RequestUrl<'r, '_>,
        attributes: &dyn Attributes,
    ) -> Result<MatchedRoute<'p, 'r>, Problem> {
        let (line, path) = (head.line, url.path);
        let named = policy.named_endpoint(attributes);
        let is_named = !matches!(named, AttributeValue::Absent);
        let declared = match named {
            AttributeValue::Absent => policy.declared(url, head.line.method),
            AttributeValue::Text(endpoint) => {
                policy.named(&endpoint, url, head.line.method).ok_or_else(Problem::policy_invalid)?
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
                self.place = Place::Route(route.id);
                self.policy_name = Some(route.policy.name());
                if has_misplaced_slash(route, &values) {
                    return self.watched(policy, line, misplaced_slash(), policy.only_watches());
                }
                if let Err(problem) = refuse_dots(&values) {
                    return self.watched(policy, line, problem, policy.only_watches());
                }
                let matched = MatchedRoute::of(route, values);
                self.keep_path_values(&matched);
                Ok(matched)
            }
            RouteLookup::OtherReading => {
                let problem = Problem::path_ambiguous(PathError::OtherReading);
                self.watched(policy, line, problem, policy.only_watches())
            }
            RouteLookup::OtherMethods(routes) => {
                let methods: Vec<&str> =
                    routes.iter().flat_map(|route| route.methods.iter()).map(String::as_str).collect();
                self.watched(policy, line, Problem::method_not_allowed(&methods), policy.watches_methods(&routes))
            }
            RouteLookup::Nothing if path.has_encoded_slash() => {
                self.watched(policy, line, misplaced_slash(), policy.only_watches())
            }
            // The path may be that of another route, whose policy would not be applied.
            RouteLookup::Nothing if is_named => Err(Problem::not_found()),
            RouteLookup::Nothing => {
                self.policy_name = Some(policy.unmatched.name());
                let is_closed =
                    policy.is_closed_undeclared(path.as_str()) || policy.is_closed_to_default(path.as_str());
                let kind = match policy.unmatched {
                    Unmatched::Reject => {
                        let passes = policy.watches_unmatched() && !is_closed;
                        return self.watched(policy, line, Problem::not_found(), passes);
                    }
                    _ if is_closed => return Err(Problem::not_found()),
                    Unmatched::Prohibited => PolicyKind::Prohibited,
                    Unmatched::HandlerInternalC => PolicyKind::HandlerInternalC,
                };
                self.show_undeclared(policy, line);
                Ok(MatchedRoute::unmatched(policy, kind))
            }
        }
    }

    /// Refuses a request before its key is looked at. In shadow mode, where it `passes`, it goes on without a route.
    pub(crate) fn watched<'p, 'r>(
        &mut self,
        policy: &'p Policy,
        line: RequestLine<'_>,
        problem: Problem,
        passes: bool,
    ) -> Result<MatchedRoute<'p, 'r>, Problem> {
        if passes {
            self.note(|| TraceEvent::WouldBeRefused(Box::new(problem.clone())));
            self.place = Place::Unknown;
        }
        self.show_undeclared(policy, line);
        if !passes {
            return Err(problem);
        }
        Ok(MatchedRoute { refused: Some(Box::new(problem)), ..MatchedRoute::unmatched(policy, PolicyKind::Prohibited) })
    }

    /// In shadow mode whoever reads the log looks for the route that the policy lacks.
    fn show_undeclared(&mut self, policy: &Policy, line: RequestLine<'_>) {
        let is_shown = policy.mode == Mode::Shadow && policy.key_in_logs == KeyInLogs::Hash;
        if is_shown && self.route_index().is_none() {
            self.facts.sent_path = Some(shape(line.raw_path));
        }
    }

    /// Keeps the values of the path's parameters that the route's `Location` will need.
    pub(crate) fn keep_path_values(&mut self, matched: &MatchedRoute<'_, '_>) {
        let location = matched.route.and_then(|route| route.answer.as_ref()?.location.as_ref());
        if location.is_some_and(LocationTemplate::reads_path) {
            self.path_values = matched.decoded();
        }
    }
}

/// A path without what tells about a person or an order: a segment with a digit, an escape or an `@`, and a long one, is `{}`. A
/// version (`v1`) stays.
fn shape(path: &[u8]) -> String {
    const LONGEST: usize = 40;
    let path = String::from_utf8_lossy(path.get(..256).unwrap_or(path));
    let is_value = |segment: &&str| {
        let is_version = segment.strip_prefix('v').is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()));
        !is_version
            && (segment.len() > LONGEST
                || segment.contains(|char: char| !char.is_ascii() || matches!(char, '0'..='9' | '%' | '@')))
    };
    let segments: Vec<&str> = path.split('/').map(|segment| if is_value(&segment) { "{}" } else { segment }).collect();
    segments.join("/")
}

/// Refuses values of path parameters that are `.` or `..`, or have one of them, or nothing, between escaped slashes. The path as
/// a whole shows these only where the value is a whole segment.
pub(crate) fn refuse_dots(values: &[&str]) -> Result<(), Problem> {
    match values.iter().any(|value| hides_dots(value)) {
        true => Err(no_segment()),
        false => Ok(()),
    }
}
