//! What `explain` shows of the identity sources: where each of them looked, and what it held. The values are those of the
//! user's own request document.

use edge_idempotency_engine::api_keys::KeyHolder;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::identity::{AttributeValue, Attributes, IdentityPlace, IdentitySource, asked_source};
use serde_json::{Map, Value, json};
use std::fmt;

/// One source.
#[derive(Debug)]
pub(crate) struct SourceView {
    name: String,
    /// Whether it is the first source with a value, which counts.
    counts: bool,
    parts: Vec<PartView>,
}

/// One part of a source: tenant, project or subject.
#[derive(Debug)]
struct PartView {
    name: &'static str,
    place: IdentityPlace,
    /// The value; or why there is none: `missing`, or `invalid` for what is no string or one of several.
    held: Result<String, &'static str>,
}

/// Reads every place of every source. `holder` is what the registry says of the request's API key.
pub(crate) fn read(
    sources: &[IdentitySource],
    headers: &Headers<'_>,
    attributes: &dyn Attributes,
    holder: Option<&KeyHolder>,
) -> Vec<SourceView> {
    let asked = asked_source(sources, headers, attributes).map(|source| source.name.as_str());
    let mut views: Vec<SourceView> = Vec::new();
    for source in sources {
        let mut parts = Vec::new();
        for ((part, place), value) in source.places().into_iter().zip(source.values(headers, attributes, holder)) {
            let Some(place) = place else { continue };
            let held = match value {
                AttributeValue::Text(text) => Ok(String::from_utf8_lossy(&text).into_owned()),
                AttributeValue::Absent => Err("missing"),
                AttributeValue::Unusable => Err("invalid"),
            };
            parts.push(PartView { name: part.name(), place: place.clone(), held });
        }
        let counts = asked == Some(source.name.as_str());
        views.push(SourceView { name: source.name.clone(), counts, parts });
    }
    views
}

impl SourceView {
    /// The source's name in the policy.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is the first source with a value.
    pub(crate) const fn counts(&self) -> bool {
        self.counts
    }

    /// Whether one of its parts stands in the request's metadata.
    pub(crate) fn reads_metadata(&self) -> bool {
        self.parts.iter().any(|part| matches!(part.place, IdentityPlace::Metadata(_)))
    }

    /// Whether the registry of API keys gives its parts.
    pub(crate) fn reads_api_keys(&self) -> bool {
        self.parts.iter().any(|part| matches!(part.place, IdentityPlace::Key(_)))
    }

    /// `{"source", "counts", "tenant"?: {"header" | "metadata" | "header" and "pointer" | "constant", "value" | "problem"}, …}`
    pub(crate) fn to_json(&self) -> Value {
        let mut members = Map::new();
        members.insert("source".to_owned(), json!(self.name));
        members.insert("counts".to_owned(), json!(self.counts));
        for part in &self.parts {
            let mut shown = match &part.place {
                IdentityPlace::Header(name) => json!({"header": name}),
                IdentityPlace::Claim(claim) => json!({"header": claim.header(), "pointer": claim.pointer()}),
                IdentityPlace::Metadata(path) => json!({"metadata": path.segments()}),
                IdentityPlace::Key(member) => json!({"header": member.header, "pointer": member.pointer()}),
                IdentityPlace::Constant(_) => json!({"constant": true}),
            };
            if let Some(shown) = shown.as_object_mut() {
                match &part.held {
                    Ok(value) => shown.insert("value".to_owned(), json!(value)),
                    Err(problem) => shown.insert("problem".to_owned(), json!(problem)),
                };
            }
            members.insert(part.name.to_owned(), shown);
        }
        Value::Object(members)
    }
}

/// A line for the source, and one for each of its parts.
impl fmt::Display for SourceView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "  {}{}", self.name, if self.counts { " (this source counts)" } else { "" })?;
        self.parts.iter().try_for_each(|part| match &part.held {
            Ok(value) => write!(f, "\n    {}: {value} ({})", part.name, part.place),
            Err(problem) => write!(f, "\n    {}: {problem} ({})", part.name, part.place),
        })
    }
}
