//! The route table: finds the routes for a host and a normalised path. The time depends on the depth of the path and
//! not on the number of routes. Only where routes have texts in front of parameters, several branches are tried, each
//! node of the table at most once.

use super::authority::canonical;
use super::path::segments;
use super::text_index::TextIndex;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The index of a route in its policy.
pub type RouteId = usize;

/// One segment of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TemplateSegment<'t> {
    /// Fixed text.
    Literal(&'t str),
    /// `{name}`: any one segment.
    Parameter(&'t str),
    /// `key:{name}`: a segment that begins with this text, and goes on.
    Prefixed(&'t str, &'t str),
}

impl<'t> TemplateSegment<'t> {
    /// Reads a segment of a valid template.
    fn read(segment: &'t str) -> Self {
        let Some(rest) = segment.strip_suffix('}') else { return Self::Literal(segment) };
        match rest.split_once('{') {
            None => Self::Literal(segment),
            Some(("", name)) => Self::Parameter(name),
            Some((prefix, name)) => Self::Prefixed(prefix, name),
        }
    }

    /// The name of its parameter.
    const fn name(self) -> Option<&'t str> {
        match self {
            Self::Literal(_) => None,
            Self::Parameter(name) | Self::Prefixed(_, name) => Some(name),
        }
    }

    /// The value of its parameter in a segment of a path, empty for a literal; `None` if the segment does not match.
    fn value(self, segment: &str) -> Option<&str> {
        match self {
            Self::Literal(text) => (text == segment).then_some(""),
            Self::Parameter(_) => Some(segment),
            Self::Prefixed(prefix, _) => segment.strip_prefix(prefix).filter(|value| !value.is_empty()),
        }
    }

    /// Whether some segment of a path matches both.
    pub(super) fn meets(self, other: TemplateSegment<'_>) -> bool {
        match (self, other) {
            (Self::Literal(text), other) => other.value(text).is_some(),
            (one, TemplateSegment::Literal(text)) => one.value(text).is_some(),
            (Self::Prefixed(one, _), TemplateSegment::Prefixed(other, _)) => {
                one.starts_with(other) || other.starts_with(one)
            }
            _ => true,
        }
    }
}

/// A route's path: `/api/v1/carts/{cart_id}/checkout`, `/api/v1/flags/key:{flag}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    text: Arc<str>,
}

impl Template {
    /// Parses a template. Its literal segments have to be normalised, since request paths are.
    ///
    /// # Errors
    /// A sentence that says what to change.
    pub fn parse(text: &str) -> Result<Self, String> {
        if !text.starts_with('/') {
            return Err("a path begins with a slash".to_owned());
        }
        if is_plain(text) {
            return Ok(Self { text: text.into() });
        }
        let mut names: Vec<&str> = Vec::new();
        for segment in segments(text) {
            let (prefix, parameter) = match segment.split_once('{') {
                Some((prefix, rest)) => (prefix, rest.strip_suffix('}')),
                None => (segment, None),
            };
            match parameter {
                Some(name) if !is_parameter_name(name) => {
                    return Err(format!("`{{{name}}}`: a parameter's name is [a-z][a-z0-9_]*"));
                }
                Some(name) if names.contains(&name) => {
                    return Err(format!("the parameter `{{{name}}}` stands in the path twice"));
                }
                _ if prefix.contains('}') || (parameter.is_none() && segment.contains('{')) => {
                    return Err(format!(
                        "`{segment}`: a parameter takes a whole segment, or the rest of one behind a text, as in /{{name}}/ or \
                         /key:{{name}}/"
                    ));
                }
                None => check_literal(segment)?,
                Some(name) => names.push(name),
            }
        }
        let literals: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'{' | b'}')).collect();
        match super::path::NormalPath::parse(&literals) {
            Ok(normal) if normal.has_encoded_slash() => Err("%2F can only stand in a parameter's value".to_owned()),
            Ok(normal) if normal.as_str().as_bytes() != literals => Err(format!(
                "no request can match it, since paths are normalised first: write it as `{}`",
                normal_spelling(text)
            )),
            Ok(_) => Ok(Self { text: text.into() }),
            Err(why) => Err(why.detail().to_owned()),
        }
    }

    /// The template as the document writes it, which is normalised.
    pub(super) fn as_str(&self) -> &str {
        &self.text
    }

    /// The segments; none for `/`.
    pub(super) fn segments(&self) -> impl Iterator<Item = TemplateSegment<'_>> + Clone {
        segments(&self.text).map(TemplateSegment::read)
    }

    /// The names of the parameters, in order.
    pub fn parameters(&self) -> impl Iterator<Item = &str> {
        // Most templates have none, and this is how to see it at once.
        let text = if self.text.contains('{') { &*self.text } else { "" };
        segments(text).map(TemplateSegment::read).filter_map(TemplateSegment::name)
    }

    /// The first segment, if it is a literal.
    pub fn first_literal(&self) -> Option<&str> {
        match self.segments().next() {
            Some(TemplateSegment::Literal(text)) => Some(text),
            _ => None,
        }
    }

    /// Whether some path matches both templates.
    pub(super) fn meets(&self, other: &Self) -> bool {
        self.segments().count() == other.segments().count()
            && self.segments().zip(other.segments()).all(|(one, other)| one.meets(other))
    }

    /// The values of the parameters in `path` (normalised, still percent-encoded); `None` if it does not match.
    pub fn values<'p>(&self, path: &'p str) -> Option<Vec<&'p str>> {
        let mut values = Vec::new();
        let mut given = segments(path);
        for segment in self.segments() {
            let value = segment.value(given.next()?)?;
            if segment.name().is_some() {
                values.push(value);
            }
        }
        given.next().is_none().then_some(values)
    }
}

/// A template with its literal texts as normalised paths have them, for an error message.
#[inline(never)]
fn normal_spelling(template: &str) -> String {
    let text = |text: &str| {
        let path = format!("/{text}");
        let normal = super::path::NormalPath::parse(path.as_bytes()).ok();
        normal.and_then(|normal| normal.as_str().strip_prefix('/').map(str::to_owned)).unwrap_or(path)
    };
    let mut normal = String::new();
    for segment in segments(template).map(TemplateSegment::read) {
        normal.push('/');
        match segment {
            TemplateSegment::Literal(literal) => normal.push_str(&text(literal)),
            TemplateSegment::Parameter(name) => normal.push_str(&format!("{{{name}}}")),
            TemplateSegment::Prefixed(prefix, name) => normal.push_str(&format!("{}{{{name}}}", text(prefix))),
        }
    }
    if normal.is_empty() { "/".to_owned() } else { normal }
}

/// Whether a path is a template without parameters that is normalised, and has no character with a meaning in a template:
/// most templates are, and need no other check.
fn is_plain(path: &str) -> bool {
    path.starts_with('/')
        && super::path::already_normal(path.as_bytes()).is_some()
        && !path.bytes().any(|byte| matches!(byte, b':' | b'*'))
}

/// Checks a segment without a parameter. Other routers' ways to write a parameter are refused: here they would be literals,
/// and no request would match them.
fn check_literal(segment: &str) -> Result<(), String> {
    let name = segment.strip_prefix(':').or_else(|| segment.strip_prefix('<')?.strip_suffix('>'));
    if let Some(name) = name.filter(|name| name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_'))
    {
        let name: String = name.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
        return Err(format!("`{segment}`: a parameter is written `{{{}}}`", name.to_ascii_lowercase()));
    }
    if !segment.is_empty() && segment.bytes().all(|byte| byte == b'*') {
        return Err(format!("`{segment}`: a path has no wildcards; a parameter `{{name}}` stands for one segment"));
    }
    Ok(())
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn is_parameter_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
}

/// The result of a lookup: the routes of the path, which differ in their methods, and the values of the parameters.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RouteMatch<'t, 'p> {
    /// In the order of the document.
    pub routes: &'t [RouteId],
    /// In the order of the template, still percent-encoded.
    pub values: Vec<&'p str>,
}

/// All routes of a policy by host and path: one tree of segments for each host.
#[derive(Debug, Default)]
pub(crate) struct RouteTable {
    /// The roots of hosts without a wildcard.
    hosts: BTreeMap<String, NodeId>,
    /// The roots of wildcards, by the text after the `*` of `*.example.com`, dot included.
    suffixes: BTreeMap<String, NodeId>,
    /// The root of routes without a host.
    any: Option<NodeId>,
    nodes: Vec<Node>,
    /// The template that was inserted last for all hosts, and its nodes with the ends of their texts in it. Routes of one
    /// resource stand together, and the next one's path is found from where it leaves this one.
    last: Option<Template>,
    last_nodes: Vec<(usize, NodeId)>,
    /// The children of nodes: literals, and texts in front of parameters, in the two spaces of each node.
    children: TextIndex,
}

/// An index of [`RouteTable::nodes`].
type NodeId = usize;

#[derive(Debug, Default)]
struct Node {
    /// The lengths of the texts in front of parameters, the longest first.
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
        let (nodes, children) = (Vec::with_capacity(routes), TextIndex::with_capacity(routes));
        Self { nodes, children, ..Self::default() }
    }

    /// Inserts a route. Returns the earlier routes with the same host and the same template, except for the names of
    /// parameters.
    pub(crate) fn insert(&mut self, host: Option<&str>, template: &Template, id: RouteId) -> Vec<RouteId> {
        let (mut end, mut node_id) = (0, self.root(host));
        match host {
            None => {
                self.keep_common(&template.text);
                (end, node_id) = self.last_nodes.last().copied().unwrap_or((end, node_id));
            }
            Some(_) => self.last_nodes.clear(),
        }
        for segment in segments(template.text.get(end..).unwrap_or_default()) {
            node_id = self.child(node_id, TemplateSegment::read(segment));
            end += 1 + segment.len();
            self.last_nodes.push((end, node_id));
        }
        self.last = host.is_none().then(|| template.clone());
        let Some(node) = self.nodes.get_mut(node_id) else { return Vec::new() };
        let earlier = node.routes().to_vec();
        node.push(id);
        earlier
    }

    /// Keeps those of the last template's nodes that this one has, too.
    fn keep_common(&mut self, text: &str) {
        let last = self.last.as_ref().map_or("", |last| &last.text);
        let common = last.bytes().zip(text.bytes()).take_while(|(one, other)| one == other).count();
        let ends_segment = |end: usize| matches!(text.as_bytes().get(end), None | Some(b'/'));
        while self.last_nodes.pop_if(|(end, _)| *end > common || !ends_segment(*end)).is_some() {}
    }

    /// The root of a host; creates it if it does not exist.
    fn root(&mut self, host: Option<&str>) -> NodeId {
        let new = self.nodes.len();
        let id = match host {
            None => *self.any.get_or_insert(new),
            Some(host) => match host.strip_prefix('*') {
                Some(suffix) => *self.suffixes.entry(suffix.to_owned()).or_insert(new),
                None => *self.hosts.entry(host.to_owned()).or_insert(new),
            },
        };
        self.ensure(id)
    }

    /// The child of a node for a segment; creates it if it does not exist.
    fn child(&mut self, node_id: NodeId, segment: TemplateSegment<'_>) -> NodeId {
        let new = self.nodes.len();
        let Some(node) = self.nodes.get_mut(node_id) else { return node_id };
        let id = match segment {
            TemplateSegment::Literal(text) => self.children.get_or_insert(literals(node_id), text, new),
            TemplateSegment::Prefixed(prefix, _) => {
                if let Err(place) = node.prefix_lengths.binary_search_by(|length| prefix.len().cmp(length)) {
                    node.prefix_lengths.insert(place, prefix.len());
                }
                self.children.get_or_insert(prefixes(node_id), prefix, new)
            }
            TemplateSegment::Parameter(_) => *node.parameter.get_or_insert(new),
        };
        self.ensure(id)
    }

    fn ensure(&mut self, id: NodeId) -> NodeId {
        if id == self.nodes.len() {
            self.nodes.push(Node::default());
        }
        id
    }

    /// Whether a route has this fixed text as a segment, or in front of a parameter.
    pub(super) fn has_text(&self, text: &str) -> bool {
        self.children.has_text(text)
    }

    /// Whether an authority is another spelling of a host that has routes.
    pub(super) fn is_respelled(&self, authority: &str) -> bool {
        if self.hosts.is_empty() && self.suffixes.is_empty() {
            return false;
        }
        match canonical(authority) {
            Cow::Borrowed(_) => false,
            Cow::Owned(host) => host != authority && self.roots(&host).next().is_some(),
        }
    }

    /// The roots of a host: its own, and those of its wildcards from the longest on.
    fn roots<'t>(&'t self, host: &'t str) -> impl Iterator<Item = NodeId> + 't {
        let wildcards = host.match_indices('.').filter_map(|(dot, _)| self.suffixes.get(host.get(dot..)?));
        self.hosts.get(host).into_iter().chain(wildcards).copied()
    }

    /// Finds the routes for a request. The order of precedence is: routes of its host, routes of the longest wildcard,
    /// routes without a host. A host has to be equal to the whole authority, byte for byte. A literal segment takes precedence over a parameter behind a text, the longest such text over a
    /// shorter one, and each of them over a parameter that takes the whole segment, from left to right.
    pub(crate) fn find<'t, 'p>(&'t self, authority: &str, path: &'p str) -> Option<RouteMatch<'t, 'p>> {
        if !(self.hosts.is_empty() && self.suffixes.is_empty()) {
            if let Some(found) = self.roots(authority).find_map(|root| self.find_below(root, path)) {
                return Some(found);
            }
        }
        self.find_below(self.any?, path)
    }

    fn find_below<'t, 'p>(&'t self, root: NodeId, path: &'p str) -> Option<RouteMatch<'t, 'p>> {
        let mut values = Vec::new();
        let routes = self.descend(root, segments(path), &mut values)?;
        Some(RouteMatch { routes, values })
    }

    fn descend<'t, 'p>(
        &'t self,
        node_id: NodeId,
        mut rest: impl Iterator<Item = &'p str> + Clone,
        values: &mut Vec<&'p str>,
    ) -> Option<&'t [RouteId]> {
        let node = self.nodes.get(node_id)?;
        let Some(segment) = rest.next() else {
            return Some(node.routes()).filter(|routes| !routes.is_empty());
        };
        // A segment with an escaped slash matches parameters only, since a literal contains none.
        let literal = self.children.get(literals(node_id), segment);
        if let Some(found) = literal.and_then(|literal| self.descend(literal, rest.clone(), values)) {
            return Some(found);
        }
        let before = values.len();
        let prefixed = node.prefix_lengths.iter().filter_map(|length| {
            let (prefix, value) = segment.split_at_checked(*length).filter(|(_, value)| !value.is_empty())?;
            Some((self.children.get(prefixes(node_id), prefix)?, value))
        });
        let plain = node.parameter.map(|parameter| (parameter, segment));
        for (child, value) in prefixed.chain(plain) {
            values.push(value);
            let found = self.descend(child, rest.clone(), values);
            if found.is_some() {
                return found;
            }
            values.truncate(before);
        }
        None
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
        let found = table.find(host, path)?;
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
    fn templates_meet_where_one_path_fits_both() {
        for (one, other, expected) in [
            ("/key:{a}", "/key:b", true),
            ("/key:{a}", "/key:", false),
            ("/key:{a}", "/kex:b", false),
            ("/key:{a}", "/key:x{b}", true),
            ("/key:{a}", "/kex:{b}", false),
            ("/key:{a}", "/{b}", true),
            ("/a", "/a", true),
            ("/a", "/b", false),
        ] {
            let (one, other) = (Template::parse(one).unwrap(), Template::parse(other).unwrap());
            assert_eq!((one.meets(&other), other.meets(&one)), (expected, expected), "{one} {other}");
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
    }

    #[test]
    fn templates_that_nothing_can_match_are_refused() {
        for bad in [
            "",
            "a",
            "/a//b",
            "/a/",
            "/./a",
            "/%61",
            "/a%3a",
            "/a%2Fb",
            "/a;b",
            "/{a}b",
            "/a{b}c",
            "/{a}{b}",
            "/a}{b}",
            "/a{",
            "/a}",
            "/{a",
            "/{}",
            "/a{}",
            "/{A}",
            "/{a}/{a}",
            "/{a}/b{a}",
            "/a b",
            "/%{a1}",
            "/%2{f}",
            "/%C3%A{a}",
            "/a%2F{b}",
        ] {
            assert!(Template::parse(bad).is_err(), "{bad}");
        }
        for fine in ["/", "/a", "/{a}", "/a/{b}/c/{d_1}", "/a:b", "/a%3Ab", "/.well-known/x", "/a{b}", "/a:{b}/%3A{c}"]
        {
            assert_eq!(Template::parse(fine).unwrap().to_string(), fine);
        }
    }
}
