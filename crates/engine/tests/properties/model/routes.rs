//! Where a request leads: hosts, templates and methods, searched from end to end.

use super::paths::{percent_decoded, segments};
use crate::properties::generate::{PolicyModel, RouteModel, Segment};
use regex::bytes::Regex;
use std::sync::LazyLock;

/// The values of a template's parameters, if a path fits it.
pub(crate) fn values<'p>(route: &RouteModel, path: &'p str) -> Option<Vec<&'p str>> {
    let given = segments(path);
    if given.len() != route.path.len() {
        return None;
    }
    let mut values = Vec::new();
    for (segment, value) in route.path.iter().zip(given) {
        match segment {
            Segment::Literal(text) if *text != value => return None,
            Segment::Literal(_) => {}
            Segment::Parameter => values.push(value),
            Segment::Prefixed(prefix) => values.push(value.strip_prefix(prefix).filter(|rest| !rest.is_empty())?),
        }
    }
    Some(values)
}

/// Whether segments fit a template for a reader that decodes them and ignores the case of letters.
fn fits_leniently(route: &RouteModel, given: &[&str]) -> bool {
    let read = |text: &str| percent_decoded(text).to_ascii_lowercase();
    given.len() == route.path.len()
        && route.path.iter().zip(given).all(|(segment, value)| match segment {
            Segment::Literal(text) => read(text) == read(value),
            Segment::Parameter => true,
            Segment::Prefixed(prefix) => {
                read(value).len() > read(prefix).len() && read(value).starts_with(&read(prefix))
            }
        })
}

/// Whether an authority is a host and at most one port.
pub(super) fn is_authority(authority: &str) -> bool {
    static AUTHORITY: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*\])(?::(?<port>[0-9]{1,5}))?$").unwrap()
    });
    let Some(parts) = AUTHORITY.captures(authority.as_bytes()) else { return false };
    parts.name("port").is_none_or(|port| authority[port.range()].parse::<u32>().unwrap() <= 65_535)
}

/// Whether an authority is a host of the policy in another spelling: in capitals, with a port, with a final dot, or an IPv6
/// address in a longer form.
pub(super) fn is_other_spelling(policy: &PolicyModel, authority: &str) -> bool {
    static SPELLING: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^(?<host>\[[^\]]*\]|[^:]*?)\.?(?::[0-9]*)?$").unwrap());
    let Some(parts) = SPELLING.captures(authority.as_bytes()) else { return false };
    let mut host = authority[parts.name("host").unwrap().range()].to_lowercase();
    if let Ok(address) = host.trim_matches(['[', ']']).parse::<std::net::Ipv6Addr>() {
        host = format!("[{address}]");
    }
    let of_policy = |pattern: &&str| host_rank(Some(pattern), &host).is_some();
    host != authority && policy.routes.iter().flat_map(|route| &route.hosts).any(of_policy)
}

/// The host's pattern that a request belongs to, more particular ones first: the host, wildcards from the longest, all.
fn host_rank(pattern: Option<&str>, authority: &str) -> Option<usize> {
    match pattern {
        None => Some(usize::MAX),
        Some(pattern) => match pattern.strip_prefix('*') {
            Some(suffix) => authority.ends_with(suffix).then_some(usize::MAX - suffix.len()),
            None => (pattern == authority).then_some(0),
        },
    }
}

pub(crate) fn methods(route: &RouteModel) -> Vec<&str> {
    let head = (route.methods.contains(&"GET") && !route.methods.contains(&"HEAD")).then_some("HEAD");
    route.methods.iter().copied().chain(head).collect()
}

/// Where a request leads.
pub(crate) enum Declared<'p, 'r> {
    Route(&'p RouteModel, Vec<&'r str>),
    OtherMethods(Vec<&'p RouteModel>),
    Nothing,
    /// A lenient reader finds other routes
    OtherReading,
}

pub(crate) fn declared<'p, 'r>(
    policy: &'p PolicyModel,
    authority: &str,
    path: &'r str,
    sent: &str,
    method: &str,
) -> Declared<'p, 'r> {
    // Literals first, then the longest text in front of a parameter.
    let shape = |route: &RouteModel| -> Vec<usize> {
        let rank = |segment: &Segment| match segment {
            Segment::Literal(_) => 0,
            Segment::Prefixed(prefix) => 1000 - prefix.len(),
            Segment::Parameter => 1000,
        };
        route.path.iter().map(rank).collect()
    };
    let best = |fits: &dyn Fn(&RouteModel) -> bool| -> Vec<&'p RouteModel> {
        let mut fitting: Vec<(usize, Vec<usize>, &RouteModel)> = Vec::new();
        for route in policy.routes.iter().filter(|route| fits(route)) {
            let hosts: Vec<Option<&str>> =
                if route.hosts.is_empty() { vec![None] } else { route.hosts.iter().copied().map(Some).collect() };
            let ranks = hosts.into_iter().filter_map(|pattern| host_rank(pattern, authority));
            fitting.extend(ranks.map(|rank| (rank, shape(route), route)));
        }
        let best = fitting.iter().map(|(rank, shape, ..)| (*rank, shape.clone())).min();
        fitting.retain(|(rank, shape, ..)| Some((*rank, shape)) == best.as_ref().map(|(rank, shape)| (*rank, shape)));
        fitting.into_iter().map(|(.., route)| route).collect()
    };
    let routes = best(&|route| values(route, path).is_some());
    let differ = |others: &[&RouteModel]| {
        others.iter().map(|route| &route.endpoint).ne(routes.iter().map(|route| &route.endpoint))
    };
    let others = best(&|route| fits_leniently(route, &segments(path)));
    let with_empty: Vec<&str> = sent.strip_suffix('/').unwrap_or(sent).split('/').skip(1).collect();
    let of_empty = if sent.contains("//") { best(&|route| fits_leniently(route, &with_empty)) } else { Vec::new() };
    if (differ(&others) || !of_empty.is_empty() && differ(&of_empty))
        && !(routes.is_empty() && policy.unmatched == "REJECT" && !super::watches_unmatched(policy))
    {
        return Declared::OtherReading;
    }
    if routes.is_empty() {
        return Declared::Nothing;
    }
    by_method(routes.into_iter().map(|route| (route, values(route, path).unwrap())).collect(), method)
}

pub(super) fn by_method<'p, 'r>(routes: Vec<(&'p RouteModel, Vec<&'r str>)>, method: &str) -> Declared<'p, 'r> {
    let all = routes.iter().map(|(route, _)| *route).collect();
    match routes.into_iter().find(|(route, _)| methods(route).contains(&method)) {
        Some((route, values)) => Declared::Route(route, values),
        None => Declared::OtherMethods(all),
    }
}
