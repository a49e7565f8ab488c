//! Properties as Envoy resolves and encodes them: no type tags for metadata, protobuf for messages as a whole.

use serde_json::{Map, Value};

use super::pairs;
use super::state::State;
use super::status::Status;
use super::stream::{Direction, Stream};
use testkit::http::Headers;

/// Top-level names that Envoy knows and this host does not answer.
const NOT_MODELLED: [&str; 7] =
    ["response", "connection", "connection_id", "upstream", "destination", "node", "filter_state"];

/// The address of every client, with its port.
const CLIENT: &str = "192.0.2.7:40000";

/// A value on the way along a path.
enum PropertyNode<'a> {
    /// Bytes as they are: a string, or what the filter set itself.
    Bytes(Vec<u8>),
    /// A value of a `google.protobuf.Struct`.
    Json(&'a Value),
    /// The same, for the struct at the top.
    Struct(&'a Map<String, Value>),
    /// An `envoy.config.core.v3.Metadata` message.
    Metadata(&'a Map<String, Value>),
    /// Its map from namespace to struct.
    Namespaces(&'a Map<String, Value>),
    Request(&'a Stream),
    RequestHeaders(&'a Headers),
    Xds(&'a Stream),
}

/// The encoded value at `path`, whose segments are joined by NUL.
pub(super) fn get(state: &mut State, path: &[u8]) -> Result<Vec<u8>, Status> {
    let path = String::from_utf8_lossy(path).into_owned();
    let mut segments: Vec<&str> = path.split('\0').collect();
    // An empty last segment is not seen.
    if segments.last() == Some(&"") {
        segments.pop();
    }
    match resolve(state, &segments) {
        Ok(node) => encode(node),
        Err(Missing::NotFound) => Err(Status::NotFound),
        Err(Missing::NotModelled) => {
            let shown = segments.join(".");
            state.fail(format!("the property {shown} exists in Envoy and is not modelled here"));
            Err(Status::NotFound)
        }
    }
}

enum Missing {
    NotFound,
    NotModelled,
}

fn resolve<'a>(state: &'a State, segments: &[&str]) -> Result<PropertyNode<'a>, Missing> {
    let (first, rest) = segments.split_first().ok_or(Missing::NotFound)?;
    if *first == "source" {
        return if rest == ["address"] { Ok(PropertyNode::Bytes(CLIENT.into())) } else { Err(Missing::NotModelled) };
    }
    rest.iter().try_fold(top(state, first)?, |node, segment| step(node, segment))
}

fn top<'a>(state: &'a State, name: &str) -> Result<PropertyNode<'a>, Missing> {
    let stream = state.stream();
    let text = |text: &str| Ok(PropertyNode::Bytes(text.as_bytes().to_vec()));
    match name {
        "plugin_name" => return text(&state.options.name),
        "plugin_root_id" => return text(&state.options.root_id),
        "plugin_vm_id" => return text(&state.options.vm_id),
        name if NOT_MODELLED.contains(&name) => return Err(Missing::NotModelled),
        _ => {}
    }
    let stream = stream.ok_or(Missing::NotFound)?;
    match name {
        "metadata" => Ok(PropertyNode::Metadata(&stream.info.metadata)),
        "request" => Ok(PropertyNode::Request(stream)),
        "xds" => Ok(PropertyNode::Xds(stream)),
        name => stream.properties.get(name).map(|value| PropertyNode::Bytes(value.clone())).ok_or(Missing::NotFound),
    }
}

fn step<'a>(node: PropertyNode<'a>, segment: &str) -> Result<PropertyNode<'a>, Missing> {
    match node {
        PropertyNode::Bytes(_) => Err(Missing::NotFound),
        PropertyNode::Struct(members) => members.get(segment).map(PropertyNode::Json).ok_or(Missing::NotFound),
        PropertyNode::Json(Value::Object(members)) => {
            members.get(segment).map(PropertyNode::Json).ok_or(Missing::NotFound)
        }
        PropertyNode::Json(Value::Array(items)) => {
            let item = segment.parse().ok().and_then(|index: usize| items.get(index));
            item.map(PropertyNode::Json).ok_or(Missing::NotFound)
        }
        PropertyNode::Json(_) => Err(Missing::NotFound),
        PropertyNode::Metadata(namespaces) => match segment {
            "filter_metadata" => Ok(PropertyNode::Namespaces(namespaces)),
            "typed_filter_metadata" => Err(Missing::NotModelled),
            _ => Err(Missing::NotFound),
        },
        PropertyNode::Namespaces(namespaces) => match namespaces.get(segment) {
            Some(Value::Object(members)) => Ok(PropertyNode::Struct(members)),
            _ => Err(Missing::NotFound),
        },
        PropertyNode::Request(stream) => request(stream, segment),
        PropertyNode::RequestHeaders(headers) => {
            let lines: Vec<&[u8]> = headers.all(segment).collect();
            if lines.is_empty() { Err(Missing::NotFound) } else { Ok(PropertyNode::Bytes(lines.join(&b","[..]))) }
        }
        PropertyNode::Xds(stream) => xds(stream, segment),
    }
}

fn request<'a>(stream: &'a Stream, segment: &str) -> Result<PropertyNode<'a>, Missing> {
    let headers = stream.readable(Direction::Request, false).ok_or(Missing::NotFound);
    let value = |name: &str| {
        let value = headers.as_ref().ok().and_then(|headers| headers.get(name));
        value.map(<[u8]>::to_vec).ok_or(Missing::NotFound)
    };
    let path = || value(":path");
    let split = |path: &[u8]| path.iter().position(|byte| *byte == b'?').unwrap_or(path.len());
    Ok(PropertyNode::Bytes(match segment {
        "headers" => return headers.map(PropertyNode::RequestHeaders),
        "method" => value(":method")?,
        "host" => value(":authority")?,
        "scheme" => value(":scheme")?,
        "path" => path()?,
        "url_path" => {
            let mut path = path()?;
            path.truncate(split(&path));
            path
        }
        "query" => {
            let path = path()?;
            path.get(split(&path) + 1..).unwrap_or_default().to_vec()
        }
        "id" | "time" | "size" | "total_size" | "duration" | "protocol" | "referer" | "useragent" => {
            return Err(Missing::NotModelled);
        }
        _ => return Err(Missing::NotFound),
    }))
}

fn xds<'a>(stream: &'a Stream, segment: &str) -> Result<PropertyNode<'a>, Missing> {
    let route = stream.info.route.as_ref().ok_or(Missing::NotFound);
    let text = |text: &str| Ok(PropertyNode::Bytes(text.as_bytes().to_vec()));
    match segment {
        "route_name" => text(&route?.name),
        "virtual_host_name" => text(&route?.virtual_host),
        "cluster_name" => text(&route?.cluster),
        "route_metadata" => route.map(|route| PropertyNode::Metadata(&route.metadata)),
        "cluster_metadata"
        | "upstream_host_metadata"
        | "virtual_host_metadata"
        | "listener_metadata"
        | "listener_direction"
        | "filter_chain_name"
        | "node" => Err(Missing::NotModelled),
        _ => Err(Missing::NotFound),
    }
}

fn encode(node: PropertyNode<'_>) -> Result<Vec<u8>, Status> {
    match node {
        PropertyNode::Bytes(bytes) => Ok(bytes),
        PropertyNode::Json(value) => encode_value(value),
        PropertyNode::Struct(members) => encode_members(members),
        PropertyNode::Namespaces(namespaces) => encode_members(namespaces),
        PropertyNode::Metadata(namespaces) => Ok(protobuf::metadata(namespaces)),
        PropertyNode::Request(_) | PropertyNode::RequestHeaders(_) | PropertyNode::Xds(_) => {
            Err(Status::SerializationFailure)
        }
    }
}

/// A string is its bytes, a number 8 bytes, a bool one; maps and lists are pairs; null cannot be encoded.
fn encode_value(value: &Value) -> Result<Vec<u8>, Status> {
    match value {
        Value::Null => Err(Status::SerializationFailure),
        Value::Bool(value) => Ok(vec![u8::from(*value)]),
        Value::Number(number) => Ok(double(number).to_vec()),
        Value::String(text) => Ok(text.as_bytes().to_vec()),
        Value::Array(items) => {
            let items = items.iter().map(|item| Ok((encode_value(item)?, []))).collect::<Result<Vec<_>, Status>>()?;
            Ok(pairs::encode(&items))
        }
        Value::Object(members) => encode_members(members),
    }
}

fn encode_members(members: &Map<String, Value>) -> Result<Vec<u8>, Status> {
    let members = members.iter().map(|(name, value)| Ok((name, encode_value(value)?)));
    Ok(pairs::encode(&members.collect::<Result<Vec<_>, Status>>()?))
}

fn double(number: &serde_json::Number) -> [u8; 8] {
    number.as_f64().unwrap_or(f64::NAN).to_le_bytes()
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
            Value::Number(number) => [&[2 << 3 | 1][..], &super::double(number)].concat(),
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
