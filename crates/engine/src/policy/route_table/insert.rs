//! Makes the route table: inserts routes into the trees of their hosts.

use super::{Node, NodeId, RouteTable, SUFFIXES, WHOLE, literals, prefixes};
use crate::percent::lenient;
use crate::policy::path::segments;
use crate::policy::route_table::RouteId;
use crate::policy::template::{Template, TemplateSegment};

impl RouteTable {
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
                Some(suffix) => self.hosts.get_or_insert(SUFFIXES, suffix, new),
                None => self.hosts.get_or_insert(WHOLE, host, new),
            },
        };
        self.ensure(id)
    }

    /// The child of a node for a segment; creates it if it does not exist.
    fn child(&mut self, node_id: NodeId, segment: TemplateSegment<'_>) -> NodeId {
        let new = self.nodes.len();
        let Some(node) = self.nodes.get_mut(node_id) else { return node_id };
        let id = match segment {
            TemplateSegment::Literal(text) => self.text_child(literals(node_id), text, new),
            TemplateSegment::Prefixed(prefix, _) => {
                let length = lenient(prefix).count();
                if let Err(place) = node.prefix_lengths.binary_search_by(|other| length.cmp(other)) {
                    node.prefix_lengths.insert(place, length);
                }
                self.text_child(prefixes(node_id), prefix, new)
            }
            TemplateSegment::Parameter(_) => *node.parameter.get_or_insert(new),
        };
        self.ensure(id)
    }

    fn text_child(&mut self, space: usize, text: &str, new: NodeId) -> NodeId {
        if self.alike.is_none()
            && let Some(other) = self.children.alike(space, text)
        {
            self.alike = Some((text.to_owned(), other.to_owned()));
        }
        self.children.get_or_insert(space, text, new)
    }

    /// Two texts in the same place of paths that differ in letter case or in escapes only, the later one first, if one of them
    /// was inserted since the last call.
    pub(in crate::policy) fn take_alike(&mut self) -> Option<(String, String)> {
        self.alike.take()
    }

    fn ensure(&mut self, id: NodeId) -> NodeId {
        if id == self.nodes.len() {
            self.nodes.push(Node::default());
        }
        id
    }

    /// Whether a route has this fixed text as a segment, or in front of a parameter.
    pub(in crate::policy) fn has_text(&self, text: &str) -> bool {
        self.children.has_text(text)
    }
}
