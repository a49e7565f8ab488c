//! The operations of a description.

use super::references::References;
use super::servers::{self, ServerPlace};
use crate::diagnostics::tree::SpannedNode;
use std::ops::Range;
use std::rc::Rc;

/// The members of a path item that are operations.
pub(crate) const METHODS: [&str; 9] = ["get", "put", "post", "delete", "options", "head", "patch", "trace", "query"];

/// An operation of a description.
#[derive(Debug, Clone)]
pub(crate) struct ApiOperation<'t> {
    /// The method in upper case
    pub(crate) method: String,
    /// The path as the description writes it
    pub(crate) path: &'t str,
    /// The names from the root of the document to the operation
    pub(crate) names: Vec<String>,
    /// The bytes of its method
    pub(crate) name_span: Range<usize>,
    /// The operation
    pub(crate) node: &'t SpannedNode,
    /// The path item
    pub(crate) item: &'t SpannedNode,
    /// Where it can be called
    pub(crate) servers: Rc<[ServerPlace]>,
}

/// A path item that cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct UnreadItem {
    /// The path
    pub(crate) path: String,
    /// The reference that leads out of the file
    pub(crate) reference: String,
    /// The bytes of the path
    pub(crate) span: Range<usize>,
}

/// The operations of a description in their order, and path items that stand in other files.
pub(crate) fn of_description<'t>(references: &References<'t>) -> (Vec<ApiOperation<'t>>, Vec<UnreadItem>) {
    let root = references.root();
    let of_document: Rc<[ServerPlace]> =
        servers::places(references, root).unwrap_or_else(|| vec![servers::default_place()]).into();
    let (mut operations, mut unread) = (Vec::new(), Vec::new());
    for path in references.get(root, "paths").map(SpannedNode::members).unwrap_or_default() {
        if !path.name.starts_with('/') {
            continue;
        }
        let item = match references.resolve(&path.value) {
            Ok(item) => item,
            Err(reference) => {
                let (path, span) = (path.name.clone(), path.name_span.clone());
                unread.push(UnreadItem { path, reference, span });
                continue;
            }
        };
        let names = item.names.unwrap_or_else(|| vec!["paths".to_owned(), path.name.clone()]);
        let of_item = servers::places(references, item.node).map_or_else(|| Rc::clone(&of_document), Rc::from);
        let mut add = |method: String, names: Vec<String>, name_span: &Range<usize>, node: &'t SpannedNode| {
            let own = servers::places(references, node).map_or_else(|| Rc::clone(&of_item), Rc::from);
            let (path, item, name_span) = (path.name.as_str(), item.node, name_span.clone());
            operations.push(ApiOperation { method, path, names, name_span, node, item, servers: own });
        };
        for member in item.node.members() {
            if METHODS.contains(&member.name.as_str()) {
                let names = [names.as_slice(), std::slice::from_ref(&member.name)].concat();
                add(member.name.to_ascii_uppercase(), names, &member.name_span, &member.value);
            }
            // OpenAPI 3.2 has other methods here, in the spelling in which they are sent.
            for other in member.value.members().iter().filter(|_| member.name == "additionalOperations") {
                let names = [names.as_slice(), &[member.name.clone(), other.name.clone()]].concat();
                add(other.name.clone(), names, &other.name_span, &other.value);
            }
        }
    }
    (operations, unread)
}

impl ApiOperation<'_> {
    /// The operation as people write it: `POST /orders`.
    pub(crate) fn title(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// The names from the root of the document to the path item.
    pub(crate) fn item_names(&self) -> &[String] {
        let is_other = self.names.iter().rev().nth(1).is_some_and(|name| name == "additionalOperations");
        let length = if is_other { 2 } else { 1 };
        self.names.get(..self.names.len().saturating_sub(length)).unwrap_or_default()
    }

    /// The JSON pointer of the operation, or of a value below it.
    pub(crate) fn pointer(&self, below: &[&str]) -> String {
        pointer(self.names.iter().map(String::as_str).chain(below.iter().copied()))
    }
}

/// The JSON pointer of a value behind names (RFC 6901).
pub(crate) fn pointer<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    names.into_iter().map(|name| format!("/{}", name.replace('~', "~0").replace('/', "~1"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::yaml;

    #[test]
    fn operations_have_their_servers_and_their_places() {
        let text = "openapi: 3.2.0\nservers: [{url: /v1}]\npaths:\n  x-note: {get: {}}\n  /a/{b}:\n    summary: no operation\n    \
                    get: {}\n    post: {servers: [{url: /other}]}\n    additionalOperations: {COPY: {}}\n  /c: {$ref: '#/components/pathItems/c'}\n  \
                    /d: {$ref: 'd.yaml'}\ncomponents: {pathItems: {c: {servers: [{url: /c}], query: {}}}}\n";
        let tree = yaml::read(text).unwrap();
        let (operations, unread) = of_description(&References::new(&tree));
        let told: Vec<_> =
            operations.iter().map(|one| (one.title(), one.servers[0].path.clone(), one.pointer(&["x"]))).collect();
        let row = |title: &str, server: &str, pointer: &str| (title.to_owned(), server.to_owned(), pointer.to_owned());
        assert_eq!(
            told,
            [
                row("GET /a/{b}", "/v1", "/paths/~1a~1{b}/get/x"),
                row("POST /a/{b}", "/other", "/paths/~1a~1{b}/post/x"),
                row("COPY /a/{b}", "/v1", "/paths/~1a~1{b}/additionalOperations/COPY/x"),
                row("QUERY /c", "/c", "/components/pathItems/c/query/x"),
            ]
        );
        assert_eq!(operations[2].item_names(), ["paths", "/a/{b}"]);
        assert_eq!(operations[3].item_names(), ["components", "pathItems", "c"]);
        assert_eq!((unread[0].path.as_str(), unread[0].reference.as_str()), ("/d", "d.yaml"));
        assert_eq!(text.get(operations[1].name_span.clone()), Some("post"));
    }
}
