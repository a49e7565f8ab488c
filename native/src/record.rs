//! The record of a request as dynamic metadata, for access logs: `%DYNAMIC_METADATA(edge_idempotency)%`.

use crate::calls::{Refused, RequestHandle};
use edge_idempotency_envoy::protobuf::{Field, Fields, field};
use std::borrow::Cow;

/// The namespace of the record.
const NAMESPACE: &str = "edge_idempotency";

/// Sets the record, a serialized `google.protobuf.Struct` whose members are texts, numbers and booleans. `earlier` is the record of
/// an earlier call.
pub(crate) fn set(request: RequestHandle<'_>, record: &[u8], earlier: &[u8]) {
    // Envoy merges the members into those that there are, so one that has no value any more gets an empty one.
    let gone: Vec<_> = members(earlier).filter(|(name, _)| !members(record).any(|(other, _)| other == *name)).collect();
    let mut message = Cow::Borrowed(record);
    for (name, _) in &gone {
        append_null(message.to_mut(), name);
    }
    if request.set_metadata(NAMESPACE, &message) == Err(Refused) {
        // Before Envoy 1.40 members are set one by one.
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
        for (name, _) in gone {
            request.set_metadata_text(NAMESPACE, name, b"");
        }
    }
}

/// The names and the values of a record's members.
fn members(record: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    Fields(record).filter_map(|entry| Some((field(entry.bytes, 1)?.bytes, field(entry.bytes, 2)?.bytes)))
}

/// Appends a member with `null_value`. Names of members are short.
fn append_null(message: &mut Vec<u8>, name: &[u8]) {
    if let Ok(size) = u8::try_from(name.len())
        && size < 0x70
    {
        message.extend_from_slice(&[1 << 3 | 2, size + 6, 1 << 3 | 2, size]);
        message.extend_from_slice(name);
        message.extend_from_slice(&[2 << 3 | 2, 2, 1 << 3, 0]);
    }
}

/// Field numbers of `google.protobuf.Value`.
const NUMBER: u64 = 2;
const TEXT: u64 = 3;
const FLAG: u64 = 4;
