//! The key as a parameter, in the place of one that the description has.

use super::actions::OverlayActions;
use super::operation::{keys_in, parameter};
use crate::openapi::interface::RouteInterface;
use crate::openapi::key_parameter::{KEY_HEADER, KeyParameter, KeyParameters};
use crate::openapi::references::References;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// The parameter of a route that takes keys.
pub(super) struct NewParameter {
    /// The parameter, with the texts of the one that it replaces
    pub(super) value: Value,
    /// Whether the parameter of the description stays and is changed
    pub(super) is_in_place: bool,
}

impl NewParameter {
    /// The parameter for an operation with these keys; `None` if the route takes no key.
    pub(super) fn new<'t>(
        interface: &RouteInterface<'_>,
        keys: &KeyParameters<'t>,
        references: &References<'t>,
    ) -> Option<Self> {
        let mut value = parameter(interface)?;
        let written = keys.effective();
        let text = |name: &str| references.text(written?.node, name);
        for name in ["description", "example"] {
            if let (Some(text), Some(value)) = (text(name), value.as_object_mut()) {
                value.insert(name.to_owned(), json!(text));
            }
        }
        let is_inline =
            |key: &KeyParameter<'t>| key.reference.is_none() && references.get(key.node, "content").is_none();
        let is_in_place = matches!(keys.of_operation.as_slice(), [key] if is_inline(key));
        Some(Self { value, is_in_place })
    }

    /// Changes the parameter of the description. Its schema goes first, since an update would merge both.
    pub(super) fn update(mut self, operation: &str, keys: &[KeyParameter<'_>], actions: &mut OverlayActions) {
        let names: BTreeSet<&str> = keys.iter().map(|key| key.name).chain([KEY_HEADER]).collect();
        let target = keys_in(operation, &names, &BTreeSet::new());
        actions.remove(format!("{target}.schema"));
        if let Some(value) = self.value.as_object_mut() {
            value.remove("example");
        }
        actions.update(target, self.value);
    }
}
