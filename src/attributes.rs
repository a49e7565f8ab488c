//! Reads dynamic metadata and route metadata from Envoy's properties, and sets the property with a request's record.
//!
//! Properties have no types: a string is its bytes, a number is eight bytes, a boolean is the byte 0 or 1, and a list or
//! an object contains zero bytes. And `null` is an error, like a list that contains `null`. A value that could be one of
//! these is read again as a part of a protobuf message, which has types.

use crate::abi::{self, Status};
use edge_idempotency_engine::RECORD_TYPE;
use edge_idempotency_engine::{AttributeValue, MetadataPath};
use edge_idempotency_envoy::protobuf::{Field, Fields, field};
use std::borrow::Cow;

/// `route_metadata.filter_metadata["edge.idempotency"].endpoint` of the gateway's route.
const ROUTE_ENDPOINT: &[u8] = b"xds\0route_metadata\0filter_metadata\0edge.idempotency\0endpoint";

/// The size of a number property, in bytes.
const NUMBER_SIZE: usize = 8;

/// The value at a path of the current request's dynamic metadata.
pub(crate) fn metadata(path: &MetadataPath) -> AttributeValue<'static> {
    match abi::property(path.property().as_bytes()) {
        Ok(bytes) if may_be_no_string(&bytes) && kind(path.segments()) != Some(STRING) => AttributeValue::Unusable,
        Ok(bytes) if !bytes.is_empty() => AttributeValue::Text(Cow::Owned(bytes)),
        Ok(_) | Err(Status::NOT_FOUND) => AttributeValue::Absent,
        Err(_) if kind(path.segments()) == Some(NULL) => AttributeValue::Absent,
        Err(_) => AttributeValue::Unusable,
    }
}

/// Whether a property can be something else than a string.
fn may_be_no_string(property: &[u8]) -> bool {
    property.len() == NUMBER_SIZE || property.iter().any(|byte| matches!(byte, 0 | 1))
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

/// The type of the metadata at this path, as a field number of `google.protobuf.Value`.
fn kind(segments: &[String]) -> Option<u64> {
    typed_kind(&abi::property(b"metadata").ok()?, segments)
}

/// Follows `segments` through an `envoy.config.core.v3.Metadata` message, `map<string, Struct> filter_metadata = 1`; a
/// Struct is `map<string, Value> fields = 1`, a ListValue `repeated Value values = 1`.
fn typed_kind(metadata: &[u8], segments: &[String]) -> Option<u64> {
    let (namespace, rest) = segments.split_first()?;
    let (first, rest) = rest.split_first()?;
    let mut value = entry(entry(metadata, namespace)?, first)?;
    for segment in rest {
        value = match Fields(value).last()? {
            Field { number: STRUCT, bytes, .. } => entry(bytes, segment)?,
            Field { number: LIST, bytes, .. } => Fields(bytes).nth(segment.parse().ok()?)?.bytes,
            _ => return None,
        };
    }
    Fields(value).last().map(|field| field.number)
}

/// The value for `key` in a message whose field 1 is a map. The last entry counts.
fn entry<'m>(message: &'m [u8], key: &str) -> Option<&'m [u8]> {
    let entries = Fields(message).filter(|field| field.number == 1).map(|field| field.bytes);
    let found = entries.filter(|entry| field(entry, 1).is_some_and(|name| name.bytes == key.as_bytes())).last()?;
    field(found, 2).map(|value| value.bytes)
}
