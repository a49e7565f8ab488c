//! The route table: finds the routes for a host and a normalised path. The time depends on the depth of the path and
//! not on the number of routes. Only where routes have texts in front of parameters, several branches are tried, each
//! node of the table at most once.

mod insert;

use super::authority::canonical;
use super::path::{NormalPath, segments};
use super::template::Template;
use super::text_index::TextIndex;
use crate::percent::split_decoded;
use std::borrow::Cow;

/// The index of a route in its policy.
pub type RouteId = usize;

/// The result of a lookup: the routes of the path, which differ in their methods, and the values of the parameters.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RouteMatch<'t, 'p> {
    /// In the order of the document.
    pub routes: &'t [RouteId],
    /// In the order of the template, still percent-encoded.
    pub values: Vec<&'p str>,
}

/// What a path is for this table, and whether it is something else for a backend's router.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PathLookup<'t, 'p> {
    /// The routes of the path.
    pub found: Option<RouteMatch<'t, 'p>>,
    /// Whether a router that ignores letter case, that decodes a path before it compares it, or that takes empty segments for
    /// values, finds other routes.
    pub has_other_reading: bool,
}

/// One way from the root of a host down the path.
#[derive(Default)]
struct Descent<'p> {
    values: Vec<&'p str>,
    /// Whether a text is also taken for one that differs in letter case or in escapes only.
    is_lenient: bool,
    /// Whether there was such a text.
    met_alike: bool,
}

/// All routes of a policy by host and path: one tree of segments for each host.
#[derive(Debug, Default)]
pub(crate) struct RouteTable {
    /// The roots of hosts, and of wildcards, by the text after the `*` of `*.example.com`, dot included.
    hosts: TextIndex,
    /// The root of routes without a host.
    any: Option<NodeId>,
    nodes: Vec<Node>,
    /// The template that was inserted last for all hosts, and its nodes with the ends of their texts in it. Routes of one
    /// resource stand together, and the next one's path is found from where it leaves this one.
    last: Option<Template>,
    last_nodes: Vec<(usize, NodeId)>,
    /// The children of nodes: literals, and texts in front of parameters, in the two spaces of each node.
    children: TextIndex,
    /// The first text beside one that differs from it in letter case or in escapes only, and that one.
    alike: Option<(String, String)>,
}

/// An index of [`RouteTable::nodes`].
type NodeId = usize;

#[derive(Debug, Default)]
struct Node {
    /// The lengths of the texts in front of parameters, once they are decoded, the longest first.
    prefix_lengths: Vec<usize>,
    parameter: Option<NodeId>,
    /// The only route.
    route: Option<RouteId>,
    /// All routes, if there are several.
    routes: Vec<RouteId>,
}

impl Node {
    fn routes(&self) -> &[RouteId] {
        if self.routes.is_empty() { self.route.as_slice() } else { &self.routes }
    }

    fn push(&mut self, id: RouteId) {
        match self.route {
            None => self.route = Some(id),
            Some(first) if self.routes.is_empty() => self.routes = vec![first, id],
            Some(_) => self.routes.push(id),
        }
    }
}

/// The spaces of whole hosts, and of those behind a `*`, in [`RouteTable::hosts`].
const WHOLE: usize = 0;
const SUFFIXES: usize = 1;

/// The space of a node's literals in [`RouteTable::children`].
const fn literals(node: NodeId) -> usize {
    node * 2
}

/// The space of the texts in front of a node's parameters.
const fn prefixes(node: NodeId) -> usize {
    node * 2 + 1
}

impl RouteTable {
    /// A table with room for this many routes, each with a segment of its own.
    pub(crate) fn with_capacity(routes: usize) -> Self {
        let mut table = Self::default();
        table.nodes.reserve(routes);
        table.children = TextIndex::with_capacity(routes);
        table
    }

    /// Whether an authority is another spelling of a host that has routes.
    pub(super) fn is_respelled(&self, authority: &str) -> bool {
        if self.hosts.is_empty() {
            return false;
        }
        match canonical(authority) {
            Cow::Borrowed(_) => false,
            Cow::Owned(host) => host != authority && self.roots(&host).next().is_some(),
        }
    }

    /// The roots of a host: its own, and those of its wildcards from the longest on.
    fn roots<'t>(&'t self, host: &'t str) -> impl Iterator<Item = NodeId> + 't {
        let wildcards = host.match_indices('.').filter_map(|(dot, _)| self.hosts.get(SUFFIXES, host.get(dot..)?));
        self.hosts.get(WHOLE, host).into_iter().chain(wildcards)
    }

    /// Finds the routes for a request. The order of precedence is: routes of its host, routes of the longest wildcard,
    /// routes without a host. A host has to be equal to the whole authority, byte for byte. A literal segment takes precedence
    /// over a parameter behind a text, the longest such text over a shorter one, and each of them over a parameter that takes
    /// the whole segment, from left to right.
    ///
    /// A path in which a text stands in another letter case, or with other escapes, is looked up a second time as a lenient
    /// router would do it; one with empty segments as a lenient router that keeps them.
    pub(crate) fn find<'t, 'p>(&'t self, authority: &str, path: &'p NormalPath<'_>) -> PathLookup<'t, 'p> {
        let mut descent = Descent::default();
        let found = self.find_by(&mut descent, authority, segments(path.as_str()));
        let routes = found.as_ref().map(|found| found.routes);
        let lenient = || Descent { is_lenient: true, ..Descent::default() };
        let has_other_case = descent.met_alike
            && self.find_by(&mut lenient(), authority, segments(path.as_str())).map(|read| read.routes) != routes;
        let has_values = |path: &str| {
            let read = self.find_by(&mut lenient(), authority, path.split('/').skip(1));
            read.is_some_and(|read| Some(read.routes) != routes)
        };
        let has_other_reading = has_other_case || path.with_empty_segments().is_some_and(has_values);
        PathLookup { found, has_other_reading }
    }

    /// The routes of a normalised path, whatever else it could be read as.
    pub(crate) fn routes_of<'t, 'p>(&'t self, authority: &str, path: &'p str) -> Option<RouteMatch<'t, 'p>> {
        self.find_by(&mut Descent::default(), authority, segments(path))
    }

    fn find_by<'t, 'p>(
        &'t self,
        descent: &mut Descent<'p>,
        authority: &str,
        segments: impl Iterator<Item = &'p str> + Clone,
    ) -> Option<RouteMatch<'t, 'p>> {
        if !self.hosts.is_empty()
            && let Some(found) = self.roots(authority).find_map(|root| self.find_below(descent, root, segments.clone()))
        {
            return Some(found);
        }
        self.find_below(descent, self.any?, segments)
    }

    fn find_below<'t, 'p>(
        &'t self,
        descent: &mut Descent<'p>,
        root: NodeId,
        segments: impl Iterator<Item = &'p str> + Clone,
    ) -> Option<RouteMatch<'t, 'p>> {
        let routes = self.descend(root, segments, descent)?;
        Some(RouteMatch { routes, values: std::mem::take(&mut descent.values) })
    }

    fn descend<'t, 'p>(
        &'t self,
        node_id: NodeId,
        mut rest: impl Iterator<Item = &'p str> + Clone,
        descent: &mut Descent<'p>,
    ) -> Option<&'t [RouteId]> {
        let node = self.nodes.get(node_id)?;
        let Some(segment) = rest.next() else {
            return Some(node.routes()).filter(|routes| !routes.is_empty());
        };
        // A segment with an escaped slash matches parameters only, since a literal contains none.
        let literal = self.find_child(literals(node_id), segment, descent);
        if let Some(found) = literal.and_then(|literal| self.descend(literal, rest.clone(), descent)) {
            return Some(found);
        }
        let before = descent.values.len();
        for length in &node.prefix_lengths {
            let Some((prefix, value)) = split_decoded(segment, *length).filter(|(_, value)| !value.is_empty()) else {
                continue;
            };
            let Some(child) = self.find_child(prefixes(node_id), prefix, descent) else { continue };
            descent.values.push(value);
            if let Some(found) = self.descend(child, rest.clone(), descent) {
                return Some(found);
            }
            descent.values.truncate(before);
        }
        let parameter = node.parameter?;
        descent.values.push(segment);
        let found = self.descend(parameter, rest, descent);
        if found.is_none() {
            descent.values.truncate(before);
        }
        found
    }

    fn find_child(&self, space: usize, text: &str, descent: &mut Descent<'_>) -> Option<NodeId> {
        let found = self.children.find(space, text)?;
        descent.met_alike |= !found.is_exact;
        (found.is_exact || descent.is_lenient).then_some(found.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(routes: &[(Option<&str>, &str)]) -> RouteTable {
        let mut table = RouteTable::default();
        for (id, (host, path)) in routes.iter().enumerate() {
            assert_eq!(table.insert(*host, &Template::parse(path).unwrap(), id), Vec::<RouteId>::new(), "{path}");
        }
        table
    }

    fn find(table: &RouteTable, host: &str, path: &str) -> Option<(usize, Vec<String>)> {
        let found = table.routes_of(host, path)?;
        Some((found.routes[0], found.values.iter().map(|value| (*value).to_owned()).collect()))
    }

    #[test]
    fn a_route_finds_its_place_from_the_one_before_it() {
        let paths = [
            "/a/b/c",
            "/a/b/cd",
            "/a/b",
            "/a",
            "/ab",
            "/a/b/c/d",
            "/a/{x}/c",
            "/a/{x}",
            "/a/{xy}/c",
            "/a/k:{x}",
            "/",
            "/a/b/d",
        ];
        // `/a/{xy}/c` is the same as the path two before it, and has the same host here.
        for hosts in [[None, None], [None, Some("h")]] {
            let mut table = RouteTable::default();
            for (id, path) in paths.iter().enumerate() {
                let earlier = table.insert(hosts[id % 2], &Template::parse(path).unwrap(), id);
                assert_eq!(earlier, if *path == "/a/{xy}/c" { vec![6] } else { Vec::new() }, "{path}");
            }
            for (id, path) in paths.iter().enumerate() {
                let plain = path.replace("{x}", "1").replace("{xy}", "1");
                let found = find(&table, hosts[id % 2].unwrap_or(""), &plain).map(|(found, _)| found);
                assert_eq!(found, Some(if id == 8 { 6 } else { id }), "{path}");
            }
        }
    }

    #[test]
    fn literals_outrank_parameters_from_left_to_right_and_nothing_hides_the_rest() {
        let table = table(&[
            (None, "/a/b"),
            (None, "/a/{x}"),
            (None, "/a/{x}/c"),
            (None, "/a/b/{y}"),
            (None, "/{x}/{y}/{z}/d"),
            (None, "/"),
        ]);
        assert_eq!(find(&table, "", "/a/b"), Some((0, vec![])));
        assert_eq!(find(&table, "", "/a/z"), Some((1, vec!["z".into()])));
        assert_eq!(find(&table, "", "/a/z/c"), Some((2, vec!["z".into()])));
        assert_eq!(find(&table, "", "/a/b/c"), Some((3, vec!["c".into()])));
        assert_eq!(find(&table, "", "/a/b/q/d"), Some((4, vec!["a".into(), "b".into(), "q".into()])));
        assert_eq!(find(&table, "", "/"), Some((5, vec![])));
        for nothing in ["/a", "/a/b/c/e", "/b", "/a/b/c/d/e"] {
            assert_eq!(find(&table, "", nothing), None, "{nothing}");
        }
    }

    #[test]
    fn the_longest_text_in_front_of_a_parameter_outranks_shorter_ones_and_plain_parameters() {
        let table = table(&[
            (None, "/{x}"),
            (None, "/key:{x}"),
            (None, "/key:a{x}"),
            (None, "/key:ab"),
            (None, "/key:a{x}/c"),
            (None, "/{x}/d"),
            (None, "/key:{x}/{y}/e"),
            (None, "/%C3%A9{x}"),
        ]);
        for (path, id, values) in [
            ("/key:b", 1, vec!["b"]),
            ("/key:ab", 3, vec![]),
            ("/key:abc", 2, vec!["bc"]),
            ("/key:a", 1, vec!["a"]),
            ("/key:", 0, vec!["key:"]),
            ("/key%3Ab", 0, vec!["key%3Ab"]),
            ("/key", 0, vec!["key"]),
            ("/key:ax/c", 4, vec!["x"]),
            ("/key:ax/d", 5, vec!["key:ax"]),
            ("/key:ax/y/e", 6, vec!["ax", "y"]),
            ("/key:a%2Fb", 2, vec!["%2Fb"]),
            ("/%C3%A9b", 7, vec!["b"]),
            ("/%C3%A9", 0, vec!["%C3%A9"]),
        ] {
            let values = values.into_iter().map(str::to_owned).collect();
            assert_eq!(find(&table, "", path), Some((id, values)), "{path}");
        }
        assert_eq!(find(&table, "", "/key:ax/f"), None);
        let template = Template::parse("/key:{x}/{y}").unwrap();
        assert_eq!(template.parameters().collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(template.values("/key:a/b"), Some(vec!["a", "b"]));
        assert_eq!(template.values("/key:/b"), None);
        assert_eq!(template.values("/kay:a/b"), None);
    }

    #[test]
    fn a_text_counts_in_its_own_place_only() {
        let table = table(&[(None, "/a/b/k{x}/y"), (None, "/a/k"), (None, "/a/b/k"), (None, "/a/k{x}/z")]);
        for (path, expected) in [
            ("/a/b/k1/y", Some(0)),
            ("/a/k", Some(1)),
            ("/a/b/k", Some(2)),
            ("/a/k1/z", Some(3)),
            ("/a/b/k1/z", None),
            ("/a/b/k/z", None),
            ("/a/k1/y", None),
            ("/a/k/y", None),
        ] {
            assert_eq!(find(&table, "", path).map(|found| found.0), expected, "{path}");
        }
    }

    #[test]
    fn hosts_match_byte_for_byte() {
        let table = table(&[
            (None, "/x"),
            (Some("api.example.com"), "/x"),
            (Some("*.example.com"), "/x"),
            (Some("*.eu.example.com"), "/x"),
            (Some("[::1]"), "/x"),
        ]);
        for (host, expected) in [
            ("api.example.com", 1),
            ("API.example.com", 2),
            ("api.example.com.", 0),
            ("api.EXAMPLE.com", 0),
            ("www.example.com", 2),
            ("a.eu.example.com", 3),
            ("example.com", 0),
            ("[::1]", 4),
            ("api.example.com:443", 0),
            ("www.example.com:443", 0),
            ("[::1]:80", 0),
            ("", 0),
        ] {
            assert_eq!(find(&table, host, "/x").map(|found| found.0), Some(expected), "{host}");
        }
    }

    #[test]
    fn other_spellings_of_hosts_are_known() {
        let with_hosts = table(&[
            (None, "/x"),
            (Some("api.example.com"), "/x"),
            (Some("*.example.net"), "/x"),
            (Some("[::1]"), "/x"),
            (Some("192.0.2.1"), "/x"),
        ]);
        for (host, expected) in [
            ("api.example.com", false),
            ("API.example.com", true),
            ("api.example.com.", true),
            ("api.example.com..", false),
            ("api.example.com:8443", true),
            ("a.example.net", false),
            ("A.example.net", true),
            ("a.example.net:80", true),
            ("example.net.", false),
            ("OTHER.example:80", false),
            ("[::1]", false),
            ("[0::1]", true),
            ("[::1]:80", true),
            ("[::2]:80", false),
            ("192.0.2.1", false),
            ("192.0.513", true),
            ("192.0.2.2", false),
        ] {
            assert_eq!(with_hosts.is_respelled(host), expected, "{host}");
            assert!(!table(&[(None, "/x")]).is_respelled(host), "{host}");
        }
    }

    #[test]
    fn the_same_place_is_reported() {
        let mut table = RouteTable::default();
        assert!(table.insert(None, &Template::parse("/a/{x}").unwrap(), 0).is_empty());
        assert_eq!(table.insert(None, &Template::parse("/a/{y}").unwrap(), 1), [0]);
        assert!(table.insert(None, &Template::parse("/a/k{x}").unwrap(), 3).is_empty());
        assert_eq!(table.insert(None, &Template::parse("/a/k{y}").unwrap(), 4), [3]);
        assert!(table.insert(Some("h"), &Template::parse("/a/{y}").unwrap(), 2).is_empty());
        assert_eq!(table.insert(None, &Template::parse("/a/{z}").unwrap(), 5), [0, 1]);
        assert_eq!(table.routes_of("", "/a/b").map(|found| found.routes.to_vec()), Some(vec![0, 1, 5]));
    }
}
