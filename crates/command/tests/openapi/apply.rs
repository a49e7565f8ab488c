//! Applies overlays as a reader of descriptions does.

use roas_overlay::apply::Apply as _;
use roas_overlay::v1_1::Overlay;
use roas_overlay::validation::Validate as _;
use serde_json::Value;

/// A description as JSON, whichever form it has.
pub(crate) fn described(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

/// The description after an overlay, which is valid.
pub(crate) fn applied(overlay: &str, description: &Value) -> Value {
    let overlay: Overlay = serde_json::from_value(described(overlay)).unwrap();
    overlay.validate(Default::default()).unwrap_or_else(|errors| panic!("{errors:?}"));
    let mut target = description.clone();
    overlay.apply(&mut target, Default::default()).unwrap();
    target
}
