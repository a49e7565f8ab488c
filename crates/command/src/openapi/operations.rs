//! The operations of a description.

use super::references::{References, pointer};
use super::servers::{self, ServerPlace};
use super::unread::{UnreadPart, unread_reference};
use crate::lints::diagnostics::tree::SpannedNode;
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

/// The operations of a description in their order, and the parts that were not read.
pub(crate) fn of_description<'t>(references: &References<'t>) -> (Vec<ApiOperation<'t>>, Vec<UnreadPart>) {
    let root = references.root();
    let (mut operations, mut unread) = (Vec::new(), Vec::new());
    let of_document: Rc<[ServerPlace]> =
        servers::places(references, root, &[], &mut unread).unwrap_or_else(|| vec![servers::default_place()]).into();
    for path in references.get(root, "paths").map(|paths| references.members(paths)).unwrap_or_default() {
        if !path.name.starts_with('/') {
            continue;
        }
        let names = vec!["paths".to_owned(), path.name.clone()];
        let part = |message: String, help: &'static str| UnreadPart {
            title: path.name.clone(),
            pointer: pointer(names.iter().map(String::as_str)),
            span: path.name_span.clone(),
            message,
            help,
        };
        if path.name.contains(['?', '#']) {
            let message = "a path has no `?` and no `#`, so its operations were not read".to_owned();
            unread.push(part(message, "describe a query as parameters with `in: query`"));
            continue;
        }
        let item = match references.resolve(&path.value) {
            Ok(item) => item,
            Err(reference) => {
                let (message, help) = unread_reference(&reference);
                unread.push(part(message, help));
                continue;
            }
        };
        if item.names.is_some() {
            let beside = references.members(&path.value).into_iter().map(|member| member.name.as_str());
            let beside: Vec<&str> =
                beside.filter(|name| !["$ref", "<<", "summary", "description"].contains(name)).collect();
            if !beside.is_empty() {
                let message = format!("the members beside `$ref` were not read: `{}`", beside.join("`, `"));
                unread.push(part(message, "write them into the path item to which `$ref` leads"));
            }
        }
        let names = item.names.unwrap_or(names);
        let of_item = servers::places(references, item.node, &names, &mut unread)
            .map_or_else(|| Rc::clone(&of_document), Rc::from);
        let mut add = |method: String, names: Vec<String>, name_span: &Range<usize>, node: &'t SpannedNode| {
            let own =
                servers::places(references, node, &names, &mut unread).map_or_else(|| Rc::clone(&of_item), Rc::from);
            let (path, item, name_span) = (path.name.as_str(), item.node, name_span.clone());
            operations.push(ApiOperation { method, path, names, name_span, node, item, servers: own });
        };
        for member in references.members(item.node) {
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
        assert_eq!((unread[0].title.as_str(), unread[0].pointer.as_str()), ("/d", "/paths/~1d"));
        assert_eq!(text.get(operations[1].name_span.clone()), Some("post"));
    }

    #[test]
    fn operations_of_merged_mappings_are_read_and_what_is_not_read_is_told() {
        let text = "openapi: 3.1.0\nservers: [{url: '{base}/v1'}]\nx-b: &b {post: {}, get: {}}\npaths:\n  /orders: {<<: *b, get: {x: y}}\n  \
                    /both: {$ref: '#/x-b', put: {}}\n  /circle: {$ref: '#/paths/~1circle'}\n  \
                    /a?x=1: {get: {}}\n";
        let tree = yaml::read(text).unwrap();
        let (operations, unread) = of_description(&References::new(&tree));
        let titles: Vec<_> = operations.iter().map(ApiOperation::title).collect();
        assert_eq!(titles, ["GET /orders", "POST /orders", "POST /both", "GET /both"]);
        assert!(operations[0].node.members()[0].name == "x" && operations[0].servers[0].path.is_empty());
        let told: Vec<_> = unread.iter().map(|part| (part.title.as_str(), part.message.as_str())).collect();
        assert_eq!(
            told,
            [
                ("{base}/v1", "the URL of a server has a variable without a default, so the server was not read"),
                ("/both", "the members beside `$ref` were not read: `put`"),
                (
                    "/circle",
                    "`#/paths/~1circle` leads to another file, to nothing or in a circle, and was not followed"
                ),
                ("/a?x=1", "a path has no `?` and no `#`, so its operations were not read"),
            ]
        );
    }
}
