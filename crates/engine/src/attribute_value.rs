//! What a gateway, a header or the registry of API keys gives for one part of an identity.

use std::borrow::Cow;

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttributeValue<'a> {
    /// Absent, `null`, or empty, since gateways write a missing claim as an empty value.
    Absent,
    /// Text; any bytes.
    Text(Cow<'a, [u8]>),
    /// Not a text (a number, a list), or several values.
    Unusable,
}

impl AttributeValue<'_> {
    pub(crate) const fn is_present(&self) -> bool {
        !matches!(self, Self::Absent)
    }
}
