//! The request document of `explain`.

use base64::Engine as _;
use edge_idempotency_engine::headers::is_field_name;
use edge_idempotency_engine::json::Json;
use edge_idempotency_engine::json::{Issues, JsonCursor, ObjectCursor};
use edge_idempotency_engine::memory_gateway::BorrowedLine;
use edge_idempotency_engine::{AttributeValue, Attributes, Clock, MetadataPath, RouterHints};
use simulated_stores::SimulatedStores;
use std::borrow::Cow;
use std::fmt;

/// One request, as a gateway would show it to the filter.
#[derive(Debug)]
pub struct Request {
    /// Pseudo headers first; names in lower case.
    pub headers: Vec<(Vec<u8>, Vec<u8>)>,
    /// The request target, as sent.
    pub target: String,
    /// The body, exactly as sent.
    pub body: Vec<u8>,
    /// The clock, in milliseconds since 1970-01-01 UTC.
    pub now_unix_ms: u64,
    /// What the stores hold that bindings and secrets are looked up at
    pub stores: SimulatedStores,
    /// Whether the document says what the stores hold
    pub has_lookups: bool,
    metadata: Option<Json<'static>>,
    route_metadata: Option<Json<'static>>,
}

/// Every problem of a request document.
#[derive(Debug)]
pub struct RequestErrors(Issues);

impl fmt::Display for RequestErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a request document:")?;
        self.0.0.iter().try_for_each(|issue| write!(f, "\n  {issue}"))
    }
}

impl Request {
    /// Parses a request document. `now_unix_ms` is the clock of a document that has none, in milliseconds since 1970-01-01 UTC.
    ///
    /// # Errors
    /// Every problem of the document.
    pub fn parse(document: &[u8], now_unix_ms: u64) -> Result<Self, RequestErrors> {
        let mut issues = Issues::default();
        let request = match Json::parse(document) {
            Ok(json) => Self::read(&JsonCursor::root(&json), now_unix_ms, &mut issues),
            Err(error) => {
                issues.add("", error.to_string());
                None
            }
        };
        match request {
            Some(request) if issues.0.is_empty() => Ok(request),
            _ => Err(RequestErrors(issues)),
        }
    }

    fn read(root: &JsonCursor<'_>, now_unix_ms: u64, issues: &mut Issues) -> Option<Self> {
        let known =
            ["method", "url", "headers", "body", "body_base64", "metadata", "route_metadata", "now_unix", "lookups"];
        let fields = root.fields(&known, issues)?;
        let method = fields.need("method", issues).and_then(|at| {
            at.parse(issues, |text| if is_field_name(text) { Ok(text) } else { Err("expected a method".to_owned()) })
        });
        let url = fields.need("url", issues).and_then(|at| at.parse(issues, split_url));
        let lines = read_headers(&fields, issues);
        let text = fields.get("body").and_then(|at| at.text(issues)).map(|text| text.as_bytes().to_vec());
        let binary = fields.get("body_base64").map(|at| {
            if text.is_some() {
                issues.add(at.pointer.clone(), "`body` is given, too: remove one of the two");
            }
            at.parse(issues, decode_base64).unwrap_or_default()
        });
        let now_unix = fields.get("now_unix").map(|at| at.integer(0..=u64::MAX / 1000, issues).unwrap_or_default());
        let stores = fields.get("lookups").map(|at| {
            serde_json::to_value(at.json())
                .map_err(|error| error.to_string())
                .and_then(|json| SimulatedStores::read(&json))
        });
        let stores = stores.transpose();
        let stores = stores.unwrap_or_else(|message| {
            issues.add("/lookups", message);
            None
        });
        let mut object = |name: &str| {
            let at = fields.get(name)?;
            at.map(issues)?;
            Some(at.json().detached())
        };
        let (metadata, route_metadata) = (object("metadata"), object("route_metadata"));
        let (method, (scheme, authority, target)) = (method?, url?);
        let mut headers: Vec<(Vec<u8>, Vec<u8>)> =
            [(":authority", authority), (":path", target), (":method", method), (":scheme", scheme)]
                .into_iter()
                .map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec()))
                .collect();
        headers.extend(lines);
        Some(Self {
            headers,
            target: target.to_owned(),
            body: text.or(binary).unwrap_or_default(),
            now_unix_ms: now_unix.map_or(now_unix_ms, |seconds| seconds * 1000),
            has_lookups: stores.is_some(),
            stores: stores.unwrap_or_default(),
            metadata,
            route_metadata,
        })
    }
}

impl Request {
    /// The header lines.
    pub fn lines(&self) -> Vec<BorrowedLine<'_>> {
        self.headers.iter().map(|(name, value)| (name.as_slice(), value.as_slice())).collect()
    }

    /// Whether the request comes with metadata of the gateway.
    pub const fn has_metadata(&self) -> bool {
        self.metadata.is_some()
    }
}

impl Clock for Request {
    fn now_unix_ms(&self) -> u64 {
        self.now_unix_ms
    }
}

impl Attributes for Request {
    fn metadata(&self, path: &MetadataPath) -> AttributeValue<'_> {
        lookup(self.metadata.as_ref(), path.segments().iter().map(String::as_str))
    }

    fn route_endpoint(&self) -> AttributeValue<'_> {
        lookup(self.route_metadata.as_ref(), ["edge.idempotency", "endpoint"])
    }

    fn router(&self) -> Option<&'static RouterHints> {
        Some(&edge_idempotency_envoy::ROUTER)
    }
}

fn lookup<'a, 's>(root: Option<&'a Json<'static>>, path: impl IntoIterator<Item = &'s str>) -> AttributeValue<'a> {
    let mut value = root;
    for segment in path {
        value = match value {
            Some(Json::Object(members)) => members.iter().find(|(name, _)| name == segment).map(|(_, json)| json),
            Some(Json::Array(items)) => segment.parse().ok().and_then(|index: usize| items.get(index)),
            _ => None,
        };
    }
    match value {
        None | Some(Json::Null) => AttributeValue::Absent,
        Some(Json::String(text)) => AttributeValue::Text(Cow::Borrowed(text.as_bytes())),
        Some(_) => AttributeValue::Unusable,
    }
}

/// Scheme, authority and request target of an absolute URL; nothing is normalised.
fn split_url(url: &str) -> Result<(&str, &str, &str), String> {
    let absolute = "expected an absolute URL, such as `https://api.example.com/api/v1/refunds`";
    let (scheme, rest) = url.split_once("://").ok_or(absolute)?;
    let (authority, target) = match rest.find(['/', '?']).and_then(|at| rest.split_at_checked(at)) {
        Some((authority, target)) if target.starts_with('/') => (authority, target),
        None => (rest, "/"),
        Some(_) => return Err("write a path before the query, at least `/`".to_owned()),
    };
    if scheme.is_empty() || authority.is_empty() { Err(absolute.to_owned()) } else { Ok((scheme, authority, target)) }
}

fn read_headers(fields: &ObjectCursor<'_>, issues: &mut Issues) -> Vec<(Vec<u8>, Vec<u8>)> {
    let lines = fields.get("headers").and_then(|at| at.items(issues)).unwrap_or_default();
    lines.iter().filter_map(|line| read_header(line, issues)).collect()
}

/// `[name, value]` or `[name, {"base64": value}]`
fn read_header(line: &JsonCursor<'_>, issues: &mut Issues) -> Option<(Vec<u8>, Vec<u8>)> {
    let pair = line.items(issues)?;
    let [name, value] = pair.as_slice() else {
        issues.add(line.pointer.clone(), "expected [name, value]");
        return None;
    };
    let name = name.parse(issues, |text| {
        if is_field_name(text) { Ok(text.to_ascii_lowercase()) } else { Err("expected a header name".to_owned()) }
    })?;
    let value = if value.is_text() {
        value.text(issues)?.as_bytes().to_vec()
    } else {
        let fields = value.fields(&["base64"], issues)?;
        fields.need("base64", issues)?.parse(issues, decode_base64)?
    };
    // No gateway shows such a value to a filter (RFC 9110 section 5.5).
    if value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
        issues.add(line.pointer.clone(), "the value of a header must not contain a line break or a zero byte");
        return None;
    }
    Some((name.into_bytes(), value))
}

fn decode_base64(text: &str) -> Result<Vec<u8>, String> {
    base64::engine::general_purpose::STANDARD.decode(text).map_err(|error| format!("not base64: {error}"))
}
