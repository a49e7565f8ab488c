//! Members of objects, and what `$ref` points to.

use crate::lints::diagnostics::tree::{NodeContent, SpannedMember, SpannedNode};
use percent_encoding::percent_decode_str;
#[cfg(test)]
use std::cell::Cell;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

/// An object with more members gets an index of their names, so that a large description takes no quadratic time.
const INDEXED_FROM: usize = 16;
/// The longest chain of references that is followed.
const MAX_CHAIN: usize = 16;

/// The names of an object's members.
type MemberNames<'t> = HashMap<&'t str, &'t SpannedMember>;

/// A document whose values refer to each other.
pub(crate) struct References<'t> {
    root: &'t SpannedNode,
    /// The indexes of large objects, by the objects' addresses
    indexes: RefCell<HashMap<usize, MemberNames<'t>>>,
    /// How many members were looked at, for the test that a large description takes no quadratic time
    #[cfg(test)]
    looked_at: Cell<usize>,
}

/// A value behind its references.
#[derive(Debug, Clone)]
pub(crate) struct ReferredNode<'t> {
    /// The value
    pub(crate) node: &'t SpannedNode,
    /// The names from the root of the document to the value, if a reference led to it
    pub(crate) names: Option<Vec<String>>,
}

impl<'t> References<'t> {
    /// The document with this root.
    pub(crate) fn new(root: &'t SpannedNode) -> Self {
        Self {
            root,
            indexes: RefCell::default(),
            #[cfg(test)]
            looked_at: Cell::new(0),
        }
    }

    /// The root of the document.
    pub(crate) fn root(&self) -> &'t SpannedNode {
        self.root
    }

    /// The member of an object with exactly this name, the last one of several; `None` for another value. `<<` merges other
    /// objects (YAML 1.1).
    pub(crate) fn member(&self, node: &'t SpannedNode, name: &str) -> Option<&'t SpannedMember> {
        let members = node.members();
        if members.len() < INDEXED_FROM {
            self.count(members.len());
            let own = members.iter().rev().find(|member| member.name == name);
            return own.or_else(|| merged(members).find(|member| member.name == name));
        }
        let mut indexes = self.indexes.borrow_mut();
        let index = indexes.entry(std::ptr::from_ref(node).addr()).or_insert_with(|| {
            self.count(members.len());
            let others = merged(members).collect::<Vec<_>>().into_iter().rev();
            others.chain(members).map(|member| (member.name.as_str(), member)).collect()
        });
        index.get(name).copied()
    }

    /// The members of an object, own ones first, and those that `<<` merges; none of another value.
    pub(crate) fn members(&self, node: &'t SpannedNode) -> Vec<&'t SpannedMember> {
        let own = node.members();
        let mut members: Vec<&'t SpannedMember> = own.iter().collect();
        if own.iter().any(|member| member.name == "<<") {
            let mut names: BTreeSet<&str> = own.iter().map(|member| member.name.as_str()).collect();
            members.extend(merged(own).filter(|member| names.insert(&member.name)));
        }
        members
    }

    /// The value of the member with exactly this name.
    pub(crate) fn get(&self, node: &'t SpannedNode, name: &str) -> Option<&'t SpannedNode> {
        Some(&self.member(node, name)?.value)
    }

    /// The text of the member with exactly this name.
    pub(crate) fn text(&self, node: &'t SpannedNode, name: &str) -> Option<&'t str> {
        self.get(node, name)?.text()
    }

    /// What a value refers to by `$ref`, or the value itself.
    ///
    /// # Errors
    /// The reference leads to another file, to nothing, or in a circle; the error is its text.
    pub(crate) fn resolve(&self, node: &'t SpannedNode) -> Result<ReferredNode<'t>, String> {
        let mut referred = ReferredNode { node, names: None };
        let mut text = "";
        for _ in 0..MAX_CHAIN {
            let Some(reference) = self.text(referred.node, "$ref") else { return Ok(referred) };
            text = reference;
            let found = reference.strip_prefix('#').and_then(|pointer| self.pointed(pointer));
            referred = found.ok_or_else(|| reference.to_owned())?;
        }
        Err(text.to_owned())
    }

    /// The value at a JSON pointer in the form of a URI fragment (RFC 6901 section 6).
    fn pointed(&self, pointer: &str) -> Option<ReferredNode<'t>> {
        let decoded = percent_decode_str(pointer).decode_utf8().ok()?;
        let mut names = Vec::new();
        let mut node = self.root;
        let tokens = decoded.strip_prefix('/').map(|rest| rest.split('/')).into_iter().flatten();
        for token in tokens {
            let name = token.replace("~1", "/").replace("~0", "~");
            node = match &node.content {
                NodeContent::List(items) => items.get(name.parse::<usize>().ok()?)?,
                NodeContent::Map(_) => self.get(node, &name)?,
                NodeContent::Scalar(_) => return None,
            };
            names.push(name);
        }
        Some(ReferredNode { node, names: Some(names) })
    }

    /// Counts members that were looked at.
    fn count(&self, members: usize) {
        #[cfg(test)]
        self.looked_at.set(self.looked_at.get() + members);
        let _ = members;
    }

    /// How many members were looked at.
    #[cfg(test)]
    pub(crate) fn looked_at(&self) -> usize {
        self.looked_at.get()
    }
}

/// The members of the objects that `<<` merges, those of the first object first.
fn merged(members: &[SpannedMember]) -> impl Iterator<Item = &SpannedMember> {
    let merging = members.iter().filter(|member| member.name == "<<");
    merging.flat_map(|member| std::iter::once(&member.value).chain(member.value.items())).flat_map(|map| map.members())
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
    fn references_lead_to_values_of_the_document() {
        let tree = yaml::read(
            "paths:\n  /a/{b}: {get: {responses: {'400': {$ref: '#/components/responses/Bad'}}}}\n\
             components:\n  responses: {Bad: {$ref: '#/x/1'}, Far: {$ref: 'other.yaml#/a'}, Loop: {$ref: '#/components/responses/Loop'}, \
             Path: {$ref: '#/paths/~1a~1%7Bb%7D/get'}, None: {$ref: '#/none'}}\nx: [1, {description: no}]\n",
        )
        .unwrap();
        let references = References::new(&tree);
        let responses = references.get(references.get(&tree, "components").unwrap(), "responses").unwrap();
        let resolve = |name: &str| references.resolve(references.get(responses, name).unwrap());
        let bad = resolve("Bad").unwrap();
        assert_eq!(references.text(bad.node, "description"), Some("false"));
        assert_eq!(bad.names.unwrap(), ["x", "1"]);
        assert_eq!(resolve("Path").unwrap().names.unwrap(), ["paths", "/a/{b}", "get"]);
        for (name, text) in [("Far", "other.yaml#/a"), ("Loop", "#/components/responses/Loop"), ("None", "#/none")] {
            assert_eq!(resolve(name).unwrap_err(), text);
        }
        assert!(references.resolve(&tree).unwrap().names.is_none());
    }

    #[test]
    fn merged_members_stand_behind_own_ones_in_small_and_large_objects() {
        for filler in [0, 20] {
            let more: String = (0..filler).map(|number| format!("  m{number}: x\n")).collect();
            let text = format!(
                "base: &base {{a: base, b: base}}\nlate: &late {{b: late, c: late}}\nz:\n  <<: [*base, *late]\n  a: own\n{more}"
            );
            let tree = yaml::read(&text).unwrap();
            let references = References::new(&tree);
            let node = references.get(&tree, "z").unwrap();
            let texts = ["a", "b", "c", "d"].map(|name| references.text(node, name));
            assert_eq!(texts, [Some("own"), Some("base"), Some("late"), None], "{filler}");
        }
    }

    /// Each value of two large objects is found once. Without an index 4,000,000 names would be compared.
    #[test]
    fn a_large_object_is_read_once() {
        const COUNT: usize = 2_000;
        let names: String = (0..COUNT).map(|number| format!("  n{number}: {{$ref: '#/b/n{number}'}}\n")).collect();
        let values: String = (0..COUNT).map(|number| format!("  n{number}: x\n")).collect();
        let tree = yaml::read(&format!("a:\n{names}b:\n{values}")).unwrap();
        let references = References::new(&tree);
        let all = references.get(&tree, "a").unwrap().members();
        assert!(
            all.iter()
                .all(|member| references.resolve(&member.value).is_ok_and(|found| found.node.text() == Some("x")))
        );
        assert!(references.looked_at() < 10 * COUNT, "{} members were looked at", references.looked_at());
    }
}
