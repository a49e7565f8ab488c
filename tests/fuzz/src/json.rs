//! The identifier in a JSON body, beside what serde_json reads.

use crate::own;
use edge_idempotency_engine::provider::{NoIdentifier, Provider};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::json;
use std::fmt;
use std::sync::LazyLock;

struct Place {
    segments: &'static [&'static str],
    /// Arrays on the way hold one item only
    single: bool,
    integer: bool,
    provider: Provider,
}

static PLACES: LazyLock<Vec<Place>> = LazyLock::new(|| {
    let place = |segments: &'static [&'static str], single, integer| {
        let escaped = segments.iter().map(|segment| format!("/{}", segment.replace('~', "~0").replace('/', "~1")));
        let mut identifier = json!({"json": escaped.collect::<String>(), "single": single, "signed": false});
        if integer {
            identifier["type"] = "integer".into();
        }
        let file = json!({"schemes": own::token_schemes(), "identifiers": [identifier]});
        Place { segments, single, integer, provider: own::provider(&file) }
    };
    vec![
        place(&["id"], false, false),
        place(&["id"], false, true),
        place(&["0", "id"], true, false),
        place(&["data", "0", "id"], false, false),
        place(&["a/b", "c~d", "\u{e9}"], false, false),
    ]
});

/// A JSON body: the identifier is what serde_json finds at its place, and refused where members stand twice; what
/// serde_json does not take is not taken, but for the limits that only serde_json has.
pub fn json(body: &[u8]) {
    let tree = serde_json::from_slice::<Tree>(body);
    for place in PLACES.iter() {
        let identifier = own::identifier(&place.provider, "application/json", body);
        match &tree {
            Ok(tree) => match (identifier, find(tree, place)) {
                (Ok(Some(found)), Ok(Some(text))) => {
                    let key = place.provider.raw_key(&found, None, None);
                    assert!(own::expected_key(&text).is_none_or(|expected| expected == key), "{key}");
                }
                // An integer that serde_json makes a float.
                (Ok(Some(_)) | Err(NoIdentifier::WrongType), Ok(None)) => {}
                (found, expected) => assert_eq!(found.map(drop), expected.map(drop), "{}", place.segments.join("/")),
            },
            Err(error) => {
                let text = error.to_string();
                let limits = ["number out of range", "surrogate", "recursion limit", "unexpected end of hex escape"];
                if !limits.iter().any(|limit| text.contains(limit)) {
                    assert_eq!(identifier, Err(NoIdentifier::NotJson), "{text}");
                }
            }
        }
    }
}

/// `Ok(None)` where serde_json cannot tell an integer.
fn find(tree: &Tree, place: &Place) -> Result<Option<Vec<u8>>, NoIdentifier> {
    match walk(tree, place.segments, place.single)? {
        Tree::Text(text) if !place.integer && text.is_empty() => Err(NoIdentifier::Empty),
        Tree::Text(text) if !place.integer => Ok(Some(text.as_bytes().to_vec())),
        Tree::Integer(text) if place.integer => Ok(Some(text.as_bytes().to_vec())),
        Tree::Float if place.integer => Ok(None),
        _ => Err(NoIdentifier::WrongType),
    }
}

fn walk<'t>(tree: &'t Tree, segments: &[&str], single: bool) -> Result<&'t Tree, NoIdentifier> {
    let [segment, rest @ ..] = segments else { return Ok(tree) };
    let index = segment.parse::<usize>().ok();
    match (tree, index) {
        (Tree::Object(_), Some(_)) if single => Err(NoIdentifier::Missing),
        (Tree::Object(members), _) => {
            let mut values = members.iter().filter(|(name, _)| name == segment).map(|(_, value)| value);
            match (values.next(), values.next()) {
                (None, _) => Err(NoIdentifier::Missing),
                (Some(value), None) => walk(value, rest, single),
                _ => Err(NoIdentifier::Ambiguous),
            }
        }
        (Tree::Array(items), Some(index)) => match items.get(index).map(|item| walk(item, rest, single)) {
            Some(Err(NoIdentifier::Ambiguous)) => Err(NoIdentifier::Ambiguous),
            _ if single && items.len() > 1 => Err(NoIdentifier::Several),
            found => found.unwrap_or(Err(NoIdentifier::Missing)),
        },
        _ => Err(NoIdentifier::Missing),
    }
}

/// What serde_json reads, with every member that stands there.
#[derive(PartialEq)]
pub(crate) enum Tree {
    Object(Vec<(String, Tree)>),
    Array(Vec<Tree>),
    Text(String),
    Integer(String),
    Float,
    Other,
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Tree;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Tree, E> {
        Ok(Tree::Other)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Tree, E> {
        Ok(Tree::Integer(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Tree, E> {
        Ok(Tree::Integer(value.to_string()))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Tree, E> {
        Ok(Tree::Float)
    }

    fn visit_unit<E>(self) -> Result<Tree, E> {
        Ok(Tree::Other)
    }

    fn visit_str<E>(self, text: &str) -> Result<Tree, E> {
        Ok(Tree::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Tree::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Tree, A::Error> {
        let mut list = Vec::new();
        while let Some(member) = members.next_entry()? {
            list.push(member);
        }
        Ok(Tree::Object(list))
    }
}
