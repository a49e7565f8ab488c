//! Reads dynamic metadata and route metadata from Envoy's properties, and sets the property with a request's record.
//!
//! A property has no type: a string is its bytes, a number is eight bytes, a boolean one, and a list or an object is like header lines.
//! The property `metadata` is a protobuf message, which has types, and costs one host call for all claims of a caller.

use crate::abi::{self, Status};
use edge_idempotency_engine::RECORD_TYPE;
use edge_idempotency_engine::{AttributeValue, MetadataPath, equal_bytes};
use edge_idempotency_envoy::protobuf::{Field, Fields};
use std::borrow::Cow;

/// `route_metadata.filter_metadata["edge.idempotency"].endpoint` of the gateway's route.
const ROUTE_ENDPOINT: &[u8] = b"xds\0route_metadata\0filter_metadata\0edge.idempotency\0endpoint";

/// The dynamic metadata of the current request, an `envoy.config.core.v3.Metadata` message; `None` if it cannot be read.
pub(crate) fn metadata() -> Option<Vec<u8>> {
    match abi::property(b"metadata") {
        Ok(message) => Some(message),
        Err(Status::NOT_FOUND) => Some(Vec::new()),
        Err(_) => None,
    }
}

/// The value at a path of [`metadata`].
pub(crate) fn value_at<'m>(metadata: Option<&'m [u8]>, path: &MetadataPath) -> AttributeValue<'m> {
    let Some(metadata) = metadata else { return AttributeValue::Unusable };
    match value(metadata, path.segments()) {
        Some(Field { number: STRING, bytes: text @ [_, ..], .. }) => AttributeValue::Text(Cow::Borrowed(text)),
        Some(Field { number: STRING | NULL, .. }) | None => AttributeValue::Absent,
        Some(_) => AttributeValue::Unusable,
    }
}

/// The endpoint that the gateway's route names.
pub(crate) fn route_endpoint() -> AttributeValue<'static> {
    match abi::property(ROUTE_ENDPOINT) {
        Ok(bytes) if !bytes.is_empty() => AttributeValue::Text(Cow::Owned(bytes)),
        Ok(_) | Err(_) => AttributeValue::Absent,
    }
}

/// The property with the record of a request. In Envoy's access log its name is `wasm.edge_idempotency`.
const RECORD: &[u8] = b"edge_idempotency";

/// Declares the type of [`RECORD`]: else Envoy would take it for bytes. To be called in the context of a configuration.
///
/// # Errors
/// The host has no such function. Then access logs show the record as bytes.
pub(crate) fn declare_record() -> Result<(), Status> {
    // `DeclarePropertyArguments` of Envoy's source/extensions/common/wasm/ext/declare_property.proto:
    // `string name = 1; bool readonly = 2; WasmType type = 3; bytes schema = 4; LifeSpan span = 5`.
    const PROTOBUF: u8 = 3;
    let mut arguments = Vec::new();
    for (field, bytes) in [(1, RECORD), (4, RECORD_TYPE.as_bytes())] {
        arguments.extend([field << 3 | 2, u8::try_from(bytes.len()).unwrap_or_default()]);
        arguments.extend(bytes);
    }
    arguments.extend([3 << 3, PROTOBUF]);
    abi::foreign_function("declare_property", &arguments).map(drop)
}

/// Sets the record of the current request.
pub(crate) fn set_record(record: &[u8]) -> Result<(), Status> {
    abi::set_property(RECORD, record)
}

/// How many bytes of the current request have been received: names and values of its headers, and its body.
pub(crate) fn request_size() -> Option<u64> {
    let size = abi::property(b"request\0total_size").ok()?;
    Some(u64::from_le_bytes(size.try_into().ok()?))
}

/// Address and port of the client of the current request.
pub(crate) fn sender_address() -> Option<Vec<u8>> {
    abi::property(b"source\0address").ok()
}

/// `google.protobuf.Value`'s field numbers, one for each type.
const NULL: u64 = 1;
const STRING: u64 = 3;
const STRUCT: u64 = 5;
const LIST: u64 = 6;

/// The `google.protobuf.Value` at a path through a message in which field 1 of `envoy.config.core.v3.Metadata` is a map of Structs; field 1
/// of a Struct is a map of Values, and field 1 of a ListValue is a repeated Value.
fn value<'m>(metadata: &'m [u8], segments: &[String]) -> Option<Field<'m>> {
    let (namespace, rest) = segments.split_first()?;
    let (first, rest) = rest.split_first()?;
    let mut value = entry(entry(metadata, namespace)?, first)?;
    for segment in rest {
        value = match Fields(value).next()? {
            Field { number: STRUCT, bytes, .. } => entry(bytes, segment)?,
            Field { number: LIST, bytes, .. } => Fields(bytes).nth(segment.parse().ok()?)?.bytes,
            _ => return None,
        };
    }
    Fields(value).next()
}

/// The value for `key` in a message whose field 1 is a map. Protobuf's libraries write each key once, and in front of its value.
fn entry<'m>(message: &'m [u8], key: &str) -> Option<&'m [u8]> {
    Fields(message).filter(|field| field.number == 1).find_map(|entry| {
        let mut pair = Fields(entry.bytes);
        if equal_bytes(pair.next()?.bytes, key.as_bytes()) { Some(pair.next()?.bytes) } else { None }
    })
}
