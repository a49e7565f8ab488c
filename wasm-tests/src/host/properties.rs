//! The properties that the filter reads, encoded as Envoy does: a string is its bytes, a message is protobuf.

use serde_json::{Map, Value};

use super::state::State;
use super::status::Status;

/// The address of every client, with its port.
const CLIENT: &str = "192.0.2.7:40000";

/// The encoded value at `path`, whose segments are joined by NUL.
pub(super) fn get(state: &mut State, path: &[u8]) -> Result<Vec<u8>, Status> {
    let info = state.stream().map(|stream| &stream.info);
    match path {
        b"source\0address" => Ok(CLIENT.into()),
        b"metadata" => info.map(|info| protobuf::metadata(&info.metadata)).ok_or(Status::NotFound),
        b"xds\0route_metadata\0filter_metadata\0edge.idempotency\0endpoint" => {
            let endpoint =
                |route: &Map<String, Value>| Some(route.get("edge.idempotency")?.get("endpoint")?.as_str()?.into());
            info.and_then(|info| endpoint(&info.route_metadata)).ok_or(Status::NotFound)
        }
        _ => {
            let shown = String::from_utf8_lossy(path).replace('\0', ".");
            state.fail(format!("the property {shown} is not modelled here"));
            Err(Status::NotFound)
        }
    }
}

/// The wire format of `Metadata`, `Struct`, `Value` and `ListValue`, which does keep the types apart.
mod protobuf {
    use serde_json::{Map, Value};

    pub(super) fn metadata(namespaces: &Map<String, Value>) -> Vec<u8> {
        let entry = |(name, value): (&String, &Value)| {
            let members = value.as_object().map(structure).unwrap_or_default();
            field(1, &[field(1, name.as_bytes()), field(2, &members)].concat())
        };
        namespaces.iter().flat_map(entry).collect()
    }

    fn structure(members: &Map<String, Value>) -> Vec<u8> {
        let entry = |(name, member): (&String, &Value)| {
            field(1, &[field(1, name.as_bytes()), field(2, &value(member))].concat())
        };
        members.iter().flat_map(entry).collect()
    }

    fn value(value_: &Value) -> Vec<u8> {
        match value_ {
            Value::Null => vec![1 << 3, 0],
            Value::Number(number) => [&[2 << 3 | 1][..], &number.as_f64().unwrap_or(f64::NAN).to_le_bytes()].concat(),
            Value::String(text) => field(3, text.as_bytes()),
            Value::Bool(flag) => vec![4 << 3, u8::from(*flag)],
            Value::Object(members) => field(5, &structure(members)),
            Value::Array(items) => field(6, &items.iter().flat_map(|item| field(1, &value(item))).collect::<Vec<u8>>()),
        }
    }

    /// A length-delimited field.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut out = vec![number << 3 | 2];
        let mut length = bytes.len();
        while length > 0x7f {
            out.push(u8::try_from(length & 0x7f).unwrap_or_default() | 0x80);
            length >>= 7;
        }
        out.push(u8::try_from(length).unwrap_or_default());
        out.extend(bytes);
        out
    }
}
