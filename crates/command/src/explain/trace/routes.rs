//! Path and route: how the path is read, which route counts, and which routes nearly matched.

use super::{Found, Step, Told};
use edge_idempotency_engine::exchange::TraceEvent;
use edge_idempotency_engine::policy::{Route, Template, split_query};
use edge_idempotency_engine::problem::Code;
use std::fmt::Write as _;

/// The most routes that are shown as nearly matching.
const MOST_NEAR: usize = 5;

/// A route that did not count, and why.
struct NearRoute<'p> {
    route: &'p Route,
    why: String,
    /// The lower, the nearer
    distance: usize,
}

impl Told<'_> {
    fn authority(&self) -> String {
        self.values(":authority").pop().unwrap_or_default()
    }

    fn method(&self) -> String {
        self.values(":method").pop().unwrap_or_default()
    }

    pub(super) fn path_step(&self, found: &Found<'_>) -> Step {
        let (sent, query) = split_query(self.request.target.as_bytes());
        let sent = String::from_utf8_lossy(sent);
        let text = match (found.problem, self.path) {
            (_, Some(path)) if found.has(|event| matches!(event, TraceEvent::Closed)) => format!(
                "{path} is closed to clients: it is a path of the backend's own (`/restate`, `/dev.restate.`, `reserved_paths`), or its \
                 first segment is the guard, or the service of a target."
            ),
            // The path is one, so it is the query or the authority.
            (Some(problem), Some(_)) => format!("{sent} on {}: {}", self.authority(), problem.detail),
            (Some(problem), None) => format!("{sent}: {}", problem.detail),
            (None, Some(path)) if path == sent => format!("{path} is already in its normal form."),
            (None, Some(path)) => format!("{sent} is read as {path}."),
            (None, None) => format!("{sent} cannot be read."),
        };
        let query = query.map(|query| {
            format!("The query ?{} plays no part in the choice of the route.", String::from_utf8_lossy(query))
        });
        Step::new(found.step, text).with(query)
    }

    pub(super) fn route_step(&self, found: &Found<'_>, hints: &mut Vec<String>) -> Step {
        let method = self.method();
        let path = self.path.unwrap_or_default();
        let is_operation = found.has(|event| matches!(event, TraceEvent::Operation));
        let is_recovery = found.has(|event| matches!(event, TraceEvent::Recovery(_)));
        let text = match (self.route, found.problem.map(|problem| problem.code)) {
            (_, Some(Code::PathAmbiguous)) => {
                format!("{path}: {}", found.problem.map(|problem| problem.detail.as_ref()).unwrap_or_default())
            }
            _ if is_operation => format!("{path} asks for an operation by its id (`operations`)."),
            (Some(route), Some(Code::MethodNotAllowed)) => {
                format!("{} has this path, but not the method {method}.", route.endpoint)
            }
            (Some(route), _) if is_recovery => {
                format!("{path} asks for a stored result of `{}`, by its key.", route.endpoint)
            }
            (Some(route), _) => format!("`{}` matches: {}", route.endpoint, self.declared(route)),
            (None, Some(Code::MethodNotAllowed)) => {
                let allow = found.problem.and_then(|problem| problem.allow.clone()).unwrap_or_default();
                hints.push(format!("Send one of the methods {allow}, or declare {method} in a route with this path."));
                format!("The path is declared, but not with the method {method}: its methods are {allow}.")
            }
            (None, Some(Code::PolicyInvalid)) => {
                "The gateway's route names an endpoint that the policy does not have.".to_owned()
            }
            (None, Some(Code::NotFound)) if self.policy.is_closed_undeclared(path) => format!(
                "No route matches {method} {path}, and its first segment is a service of Restate: what no route declares there \
                 is closed to clients."
            ),
            (None, Some(_)) => format!("No route matches {method} {path}."),
            (None, None) => format!(
                "No route matches {method} {path}. The request follows `unmatched`: {}.",
                self.exchange.policy_name().unwrap_or_default()
            ),
        };
        let mut step = Step::new(found.step, text);
        if let Some(route) = self.route {
            let values = route.template.values(path).unwrap_or_default();
            let pairs = route.template.parameters().zip(values);
            step.details.extend(pairs.map(|(name, value)| format!("the parameter {{{name}}} is {value}")));
        }
        let backend = self.policy.backend_name(self.route).filter(|_| self.route.is_some() || found.problem.is_none());
        step.details.extend(backend.filter(|_| !is_operation).map(|name| format!("its backend is `{name}`")));
        if is_operation || is_recovery {
            return step;
        }
        let mut near = self.near_routes(path, &method);
        near.sort_by_key(|near| near.distance);
        // Of several routes with one path, the one with the method is the nearest.
        let mut paths = std::collections::BTreeSet::new();
        near.retain(|near| paths.insert((near.route.template.to_string(), self.hosts(near.route))));
        if let (None, Some(nearest), Some(problem)) = (self.route, near.first(), found.problem)
            && !matches!(problem.code, Code::MethodNotAllowed | Code::PathAmbiguous)
        {
            hints.push(format!("The nearest route is {}: {}.", self.declared(nearest.route), nearest.why));
        }
        let more = near.len().saturating_sub(MOST_NEAR);
        step.details.extend(near.iter().take(MOST_NEAR).map(|near| {
            format!("`{}` does not count ({}): {}", near.route.endpoint, self.declared(near.route), near.why)
        }));
        if more > 0 {
            step.details.push(format!("{more} more routes are near"));
        }
        step
    }

    /// `POST /api/v1/refunds on api.example.com`
    fn declared(&self, route: &Route) -> String {
        let mut text = format!("{} {}", route.methods.join(", "), route.template);
        let hosts = self.hosts(route);
        if !hosts.is_empty() {
            let _ = write!(text, " on {}", hosts.join(", "));
        }
        text
    }

    /// The `hosts` of a route.
    fn hosts(&self, route: &Route) -> &[String] {
        self.policy.needs_of(route).map(|needs| needs.hosts.as_slice()).unwrap_or_default()
    }

    /// The routes that match in all but one respect, or that another route outranks.
    fn near_routes(&self, path: &str, method: &str) -> Vec<NearRoute<'_>> {
        let counts = self.route.map(|route| route.id);
        let routes = (0..).map_while(|id| self.policy.route(id)).filter(|route| Some(route.id) != counts);
        routes.filter_map(|route| self.near(route, path, method)).collect()
    }

    fn near<'p>(&self, route: &'p Route, path: &str, method: &str) -> Option<NearRoute<'p>> {
        let has_method = route.methods.iter().any(|known| known == method);
        let authority = self.authority();
        let hosts = self.hosts(route);
        let on_host = hosts.is_empty() || hosts.iter().any(|host| is_on(host, &authority));
        let small = authority.to_ascii_lowercase();
        let spelling = match small != authority && hosts.iter().any(|host| is_on(host, &small)) {
            true => ", with capitals, and hosts are compared byte for byte",
            false => "",
        };
        let near = |why: String, distance| Some(NearRoute { route, why, distance });
        if route.template.values(path).is_some() {
            return match (on_host, has_method, self.route) {
                (false, true, _) => near(format!("its host is another one; the request's is {authority}{spelling}"), 1),
                (false, false, _) => near("host and method are others".to_owned(), 4),
                (true, false, None) => near(format!("the method is {method}"), 0),
                // A path with a route of the method: the other methods are no near miss.
                (true, false, Some(_)) => None,
                (true, true, Some(route)) => {
                    near(format!("the path of `{}` is more exact, or its host is", route.endpoint), 2)
                }
                (true, true, None) => None,
            };
        }
        if self.route.is_some() {
            return None;
        }
        let (why, distance) = difference(&route.template, path)?;
        let (mut why, mut distance) = (why, distance + 2);
        if !has_method {
            let _ = write!(why, "; and the method is {method}");
            distance += 2;
        }
        if !on_host {
            let _ = write!(why, "; and the host is {authority}");
            distance += 2;
        }
        near(why, distance)
    }
}

/// Whether an authority is a host of a route: the same, or below `*.example.com`.
fn is_on(host: &str, authority: &str) -> bool {
    match host.strip_prefix('*') {
        Some(suffix) => authority.len() > suffix.len() && authority.ends_with(suffix),
        None => host == authority,
    }
}

/// How a path differs from a template, if it does so in little: one segment, letter case, a segment more or less.
fn difference(template: &Template, path: &str) -> Option<(String, usize)> {
    let shown = template.to_string();
    let wanted: Vec<&str> = shown.split('/').filter(|segment| !segment.is_empty()).collect();
    let given: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
    let matches = |wanted: &str, given: &str| {
        Template::parse(&format!("/{wanted}")).is_ok_and(|one| one.values(&format!("/{given}")).is_some())
    };
    if wanted.len() == given.len() {
        let different: Vec<(&str, &str)> = wanted
            .iter()
            .zip(&given)
            .filter(|(wanted, given)| !matches(wanted, given))
            .map(|(w, g)| (*w, *g))
            .collect();
        if different.iter().all(|(wanted, given)| wanted.eq_ignore_ascii_case(given)) {
            return Some((
                "letters are upper or lower case in another way, and paths are compared byte for byte".into(),
                0,
            ));
        }
        return match different.as_slice() {
            [(wanted, given)] => {
                // More than a third of the letters is another word.
                let letters = strsim::levenshtein(wanted, given);
                let is_near = letters * 3 <= wanted.len().max(given.len())
                    || wanted.contains('{')
                    || given.starts_with(wanted)
                    || wanted.starts_with(given);
                is_near.then(|| (format!("the path has `{given}` where the route has `{wanted}`"), letters.min(9)))
            }
            _ => None,
        };
    }
    let (longer, shorter) = if wanted.len() > given.len() { (&wanted, &given) } else { (&given, &wanted) };
    if longer.len() - shorter.len() != 1 || shorter.is_empty() {
        return None;
    }
    // Leaves out each segment of the longer one in turn, the last one first.
    (0..longer.len()).rev().find_map(|left_out| {
        let rest = longer.iter().enumerate().filter(|(index, _)| *index != left_out).map(|(_, segment)| *segment);
        let fits = rest
            .zip(shorter)
            .all(|(long, short)| if wanted.len() > given.len() { matches(long, short) } else { matches(short, long) });
        let segment = longer.get(left_out).filter(|_| fits)?;
        Some(if wanted.len() > given.len() {
            (format!("the path lacks the segment `{segment}`"), 3)
        } else {
            (format!("the path has the segment `{segment}` more"), 3)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(template: &str, path: &str) -> Option<String> {
        difference(&Template::parse(template).unwrap(), path).map(|(why, _)| why)
    }

    #[test]
    fn small_differences_are_named_and_great_ones_are_not() {
        for (template, path, expected) in [
            ("/api/v1/refunds", "/api/v1/refund", Some("the path has `refund` where the route has `refunds`")),
            ("/api/v1/Refunds", "/api/v1/refunds", Some("letters are upper or lower case")),
            ("/api/v1/orders/{id}", "/api/v1/orders", Some("the path lacks the segment `{id}`")),
            ("/api/v1/orders/{id}", "/v1/orders/7", Some("the path lacks the segment `api`")),
            ("/v1/orders", "/api/v1/orders", Some("the path has the segment `api` more")),
            ("/v1/flags/key:{flag}", "/v1/flags/dark", Some("the path has `dark` where the route has `key:{flag}`")),
            ("/a", "/b/c/d", None),
            ("/a/b/c", "/x/y/c", None),
        ] {
            let found = told(template, path);
            match expected {
                Some(text) => {
                    assert!(found.as_ref().is_some_and(|found| found.contains(text)), "{template} {path}: {found:?}")
                }
                None => assert_eq!(found, None, "{template} {path}"),
            }
        }
    }
}
