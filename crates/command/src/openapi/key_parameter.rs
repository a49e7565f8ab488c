//! The header parameter `Idempotency-Key` of an operation.

use super::operations::ApiOperation;
use super::references::References;
use crate::lints::diagnostics::tree::SpannedNode;
use std::ops::Range;

/// The header with the key.
pub(crate) const KEY_HEADER: &str = "Idempotency-Key";

/// A parameter that is the key.
#[derive(Debug, Clone)]
pub(crate) struct KeyParameter<'t> {
    /// Its name as the description writes it
    pub(crate) name: &'t str,
    /// The reference that leads to it, if one does
    pub(crate) reference: Option<&'t str>,
    /// Whether the description says that it is required
    pub(crate) is_required: bool,
    /// The parameter
    pub(crate) node: &'t SpannedNode,
    /// The bytes of its item in the list of parameters
    pub(crate) span: Range<usize>,
}

/// The parameters that are the key of an operation.
#[derive(Debug, Default)]
pub(crate) struct KeyParameters<'t> {
    /// Those of the operation itself
    pub(crate) of_operation: Vec<KeyParameter<'t>>,
    /// Those of its path item, which count for all of its operations
    pub(crate) of_item: Vec<KeyParameter<'t>>,
    /// References that lead out of the file, where the key could be: text and bytes
    pub(crate) unread: Vec<(&'t str, Range<usize>)>,
}

/// Finds the key among the parameters of an operation.
pub(crate) fn find<'t>(references: &References<'t>, operation: &ApiOperation<'t>) -> KeyParameters<'t> {
    let mut found = KeyParameters::default();
    found.of_operation = among(references, operation.node, &mut found.unread);
    found.of_item = among(references, operation.item, &mut found.unread);
    found
}

fn among<'t>(
    references: &References<'t>,
    owner: &'t SpannedNode,
    unread: &mut Vec<(&'t str, Range<usize>)>,
) -> Vec<KeyParameter<'t>> {
    let mut keys = Vec::new();
    for item in references.get(owner, "parameters").map(SpannedNode::items).unwrap_or_default() {
        let reference = references.text(item, "$ref");
        let Ok(parameter) = references.resolve(item) else {
            unread.push((reference.unwrap_or_default(), item.span.clone()));
            continue;
        };
        let node = parameter.node;
        let Some(name) = references.text(node, "name").filter(|name| name.eq_ignore_ascii_case(KEY_HEADER)) else {
            continue;
        };
        if references.text(node, "in") == Some("header") {
            let is_required = references.text(node, "required") == Some("true");
            keys.push(KeyParameter { name, reference, is_required, node, span: item.span.clone() });
        }
    }
    keys
}

impl<'t> KeyParameters<'t> {
    /// The one that counts: the operation's own, else that of its path item.
    pub(crate) fn effective(&self) -> Option<&KeyParameter<'t>> {
        self.of_operation.first().or_else(|| self.of_item.first())
    }
}
