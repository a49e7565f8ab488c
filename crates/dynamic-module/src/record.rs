//! The record of a request in dynamic metadata, for access logs and spans.
//!
//! With Envoy 1.40 or newer it is one typed message, which Envoy keeps as it comes and reads only if a log or a span asks for it. Before,
//! its members are metadata of their own, which costs twelve times as much.

use crate::calls::RequestHandle;
use edge_idempotency_engine::RECORD_TYPE;
use edge_idempotency_envoy::protobuf::{Field, Fields, append_field, field};

/// The namespace of the record.
const NAMESPACE: &str = "edge_idempotency";

/// A record as a `google.protobuf.Any`; empty if there is none.
#[derive(Default)]
pub(crate) struct TypedRecord(Vec<u8>);

impl TypedRecord {
    const TYPE_URL: u8 = 1;
    const VALUE: u8 = 2;

    /// Takes a serialized `google.protobuf.Struct` whose members are texts, numbers and booleans, in the place of what was there.
    pub(crate) fn replace(&mut self, record: &[u8]) {
        self.0.clear();
        // Room for tags and lengths, too.
        self.0.reserve(RECORD_TYPE.len() + record.len() + 16);
        append_field(&mut self.0, Self::TYPE_URL, RECORD_TYPE.as_bytes());
        append_field(&mut self.0, Self::VALUE, record);
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Gives it to Envoy. `earlier` is what Envoy has had before.
    pub(crate) fn set(&self, request: RequestHandle<'_>, earlier: &Self) {
        if request.set_typed_metadata(NAMESPACE, &self.0).is_err() {
            set_members(request, self.members(), earlier.members());
        }
    }

    fn members(&self) -> &[u8] {
        field(&self.0, Self::VALUE.into()).map(|field| field.bytes).unwrap_or_default()
    }
}

/// Sets the members one by one. A member that has no value any more gets an empty one, since none can be removed.
fn set_members(request: RequestHandle<'_>, record: &[u8], earlier: &[u8]) {
    for (name, value) in members(record) {
        match Fields(value).last() {
            Some(Field { number: NUMBER, fixed, .. }) => {
                request.set_metadata_number(NAMESPACE, name, f64::from_bits(fixed));
            }
            Some(Field { number: FLAG, fixed, .. }) => request.set_metadata_flag(NAMESPACE, name, fixed != 0),
            Some(Field { number: TEXT, bytes, .. }) => request.set_metadata_text(NAMESPACE, name, bytes),
            _ => {}
        }
    }
    for (name, _) in members(earlier).filter(|(name, _)| !members(record).any(|(other, _)| other == *name)) {
        request.set_metadata_text(NAMESPACE, name, b"");
    }
}

/// The names and the values of a record's members.
fn members(record: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    Fields(record).filter_map(|entry| Some((field(entry.bytes, 1)?.bytes, field(entry.bytes, 2)?.bytes)))
}

/// Field numbers of `google.protobuf.Value`.
const NUMBER: u64 = 2;
const TEXT: u64 = 3;
const FLAG: u64 = 4;
