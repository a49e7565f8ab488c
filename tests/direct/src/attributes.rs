//! Stand-ins for what a gateway knows about a request: filter metadata, and the endpoint that its route names.

use std::borrow::Cow;

use edge_idempotency_engine::{AttributeValue, Attributes, Clock, MetadataPath, RouterHints};
use serde_json::Value;

/// The metadata namespace and the member with which a gateway's route names its endpoint.
const ROUTE_ENDPOINT: [&str; 2] = ["edge.idempotency", "endpoint"];

/// A gateway that knows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAttributes;

impl Attributes for NoAttributes {}

/// A gateway that knows the time only, in milliseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, Debug)]
pub struct TimeOnly(pub u64);

impl Clock for TimeOnly {
    fn now_unix_ms(&self) -> u64 {
        self.0
    }
}

impl Attributes for TimeOnly {}

/// Gives stand-ins a clock that stands at the beginning of 1970.
macro_rules! without_time {
    ($($stand_in:ty),+) => {$(
        impl Clock for $stand_in {
            fn now_unix_ms(&self) -> u64 {
                0
            }
        }
    )+};
}
without_time!(NoAttributes, JsonAttributes, UntypedAttributes<'_>, FixedClaims, AnyAttributes);

/// Metadata with JSON's types, as the gateway's whole metadata message gives them: texts can be used, other values
/// cannot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JsonAttributes {
    /// The request's filter metadata, by namespace.
    pub metadata: Value,
    /// The endpoint that the gateway's route names.
    pub endpoint: Option<Value>,
}

impl JsonAttributes {
    /// Takes the filter metadata of a request and of its route, both by namespace.
    pub fn new(metadata: Value, route_metadata: &Value) -> Self {
        Self { metadata, endpoint: member(route_metadata, ROUTE_ENDPOINT).cloned() }
    }
}

impl Attributes for JsonAttributes {
    fn metadata(&self, path: &MetadataPath) -> AttributeValue<'_> {
        typed(member(&self.metadata, path.segments().iter().map(String::as_str)))
    }

    fn route_endpoint(&self) -> AttributeValue<'_> {
        typed(self.endpoint.as_ref())
    }

    fn router(&self) -> Option<&'static RouterHints> {
        Some(&edge_idempotency_envoy::ROUTER)
    }
}

/// The value at a path; a segment under a list is an index.
fn member<'v, 's>(root: &'v Value, path: impl IntoIterator<Item = &'s str>) -> Option<&'v Value> {
    path.into_iter().try_fold(root, |value, segment| match value {
        Value::Array(items) => items.get(segment.parse::<usize>().ok()?),
        other => other.get(segment),
    })
}

fn typed(value: Option<&Value>) -> AttributeValue<'_> {
    match value {
        None | Some(Value::Null) => AttributeValue::Absent,
        Some(Value::String(text)) => AttributeValue::Text(Cow::Borrowed(text.as_bytes())),
        Some(_) => AttributeValue::Unusable,
    }
}

/// The same metadata as Envoy's properties give single values: bytes without a type. A number is its eight bytes, a
/// list and an object are pairs, which begin with their count.
#[derive(Clone, Copy, Debug)]
pub struct UntypedAttributes<'a>(pub &'a JsonAttributes);

impl Attributes for UntypedAttributes<'_> {
    fn metadata(&self, path: &MetadataPath) -> AttributeValue<'_> {
        let segments = path.segments().iter();
        let found = segments.into_iter().try_fold(&self.0.metadata, |value, segment| value.get(segment));
        let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
        match found {
            None | Some(Value::Null) => AttributeValue::Absent,
            Some(Value::Bool(value)) => AttributeValue::Text(Cow::Owned(vec![u8::from(*value)])),
            Some(Value::String(text)) => AttributeValue::Text(Cow::Borrowed(text.as_bytes())),
            Some(Value::Number(number)) => {
                let bytes = number.as_f64().unwrap_or_default().to_le_bytes().to_vec();
                // What could be text is told from it by the adapter.
                if bytes.iter().any(u8::is_ascii_control) {
                    AttributeValue::Text(Cow::Owned(bytes))
                } else {
                    AttributeValue::Unusable
                }
            }
            Some(Value::Array(items)) if items.contains(&Value::Null) => AttributeValue::Unusable,
            Some(Value::Array(items)) => {
                AttributeValue::Text(Cow::Owned([&count(items.len()), b"acme".as_slice()].concat()))
            }
            Some(Value::Object(members)) => AttributeValue::Text(Cow::Owned(count(members.len()).to_vec())),
        }
    }

    fn route_endpoint(&self) -> AttributeValue<'_> {
        self.0.route_endpoint()
    }

    fn router(&self) -> Option<&'static RouterHints> {
        Some(&edge_idempotency_envoy::ROUTER)
    }
}

/// Claims by the last segment of their path, whatever stands in front of it: for benchmarks, since nothing is parsed.
#[derive(Clone, Copy, Debug)]
pub struct FixedClaims(pub &'static [(&'static str, &'static str)]);

impl Attributes for FixedClaims {
    fn metadata(&self, path: &MetadataPath) -> AttributeValue<'_> {
        let last = path.segments().last().map(String::as_str);
        let claim = self.0.iter().find(|(name, _)| Some(*name) == last);
        claim.map_or(AttributeValue::Absent, |(_, value)| AttributeValue::Text(Cow::Borrowed(value.as_bytes())))
    }
}

/// Any bytes: what a path gives is chosen by its length, and may be none or unusable (`None`).
#[derive(Clone, Debug, Default)]
pub struct AnyAttributes {
    /// The values to choose from; `None` stands for an unusable one.
    pub metadata: Vec<Option<Vec<u8>>>,
    /// The endpoint that the gateway's route names.
    pub endpoint: Option<Vec<u8>>,
}

impl Attributes for AnyAttributes {
    fn metadata(&self, path: &MetadataPath) -> AttributeValue<'_> {
        match self.metadata.get(path.segments().iter().map(String::len).sum::<usize>() % self.metadata.len().max(1)) {
            None => AttributeValue::Absent,
            Some(None) => AttributeValue::Unusable,
            Some(Some(bytes)) => AttributeValue::Text(Cow::Borrowed(bytes)),
        }
    }

    fn route_endpoint(&self) -> AttributeValue<'_> {
        self.endpoint.as_deref().map_or(AttributeValue::Absent, |bytes| AttributeValue::Text(Cow::Borrowed(bytes)))
    }
}
