//! One line of a JSON access log and the filter's record in it (docs/contract.md section 9).
//!
//! The record may stand in three places: below `edge_idempotency`, below `edge_idempotency.value` (Envoy's `TYPED` filter
//! state), or beside the line's own members. A line has a record if one of these objects has `idempotency_outcome`.

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;

/// The member of a line with the record.
const NESTED: &str = "edge_idempotency";
/// The member of Envoy's `TYPED` filter state with the record.
const TYPED: &str = "value";
/// The member that every record has.
const OUTCOME: &str = "idempotency_outcome";

/// What `shadow-report` reads of a line. A member that is absent, `null`, an object or an array is `None`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ShadowFacts<'a> {
    /// `time` of the line
    pub(crate) time: Option<Cow<'a, str>>,
    /// `method` of the line
    pub(crate) method: Option<Cow<'a, str>>,
    /// `original_path`
    pub(crate) path: Option<Cow<'a, str>>,
    /// `idempotency_case`
    pub(crate) case: Option<Cow<'a, str>>,
    /// `idempotency_outcome`
    pub(crate) outcome: Option<Cow<'a, str>>,
    /// `idempotency_shadow`: `refuse` or `rewrite`
    pub(crate) shadow: Option<Cow<'a, str>>,
    /// `idempotency_code`
    pub(crate) code: Option<Cow<'a, str>>,
    /// `idempotency_reason`
    pub(crate) reason: Option<Cow<'a, str>>,
    /// `idempotency_policy`
    pub(crate) policy: Option<Cow<'a, str>>,
    /// `tenant` of the record; if it has none, of the line
    pub(crate) tenant: Option<Cow<'a, str>>,
    /// `endpoint`
    pub(crate) endpoint: Option<Cow<'a, str>>,
    /// `idempotency_key_raw`, whole: it is compared and not kept
    pub(crate) raw_key: Option<Cow<'a, str>>,
    /// `idempotency_key_namespaced`, whole
    pub(crate) namespaced_key: Option<Cow<'a, str>>,
}

impl<'a> ShadowFacts<'a> {
    /// Reads a line.
    ///
    /// # Errors
    /// The line is no JSON object.
    pub(crate) fn parse(line: &'a [u8]) -> Result<Self, serde_json::Error> {
        let mut facts = Self::default();
        let mut deserializer = serde_json::Deserializer::from_slice(line);
        RecordMembers { facts: &mut facts, depth: Depth::Line }.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(facts)
    }
}

/// The greatest length of a value, in bytes: no name that the filter writes is longer, and what is kept of a log of others is
/// bounded.
const LONGEST_VALUE: usize = 256;

/// The first [`LONGEST_VALUE`] bytes, or a few less if a character would be cut.
fn cut(value: Cow<'_, str>) -> Cow<'_, str> {
    if value.len() <= LONGEST_VALUE {
        return value;
    }
    let (beginning, _) = value.split_at(value.floor_char_boundary(LONGEST_VALUE));
    Cow::Owned(format!("{beginning}…"))
}

/// Where the members that are being read stand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    Line,
    Nested,
    Typed,
}

/// Reads the members of an object into `facts`.
struct RecordMembers<'f, 'a> {
    facts: &'f mut ShadowFacts<'a>,
    depth: Depth,
}

impl<'de> DeserializeSeed<'de> for RecordMembers<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.depth == Depth::Line { deserializer.deserialize_map(self) } else { deserializer.deserialize_any(self) }
    }
}

impl<'de> Visitor<'de> for RecordMembers<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut record = None;
        while let Some(Scalar(Some(name))) = members.next_key()? {
            let deeper = match (self.depth, name.as_ref()) {
                (Depth::Line, NESTED) => Some(Depth::Nested),
                (Depth::Nested, TYPED) => Some(Depth::Typed),
                _ => None,
            };
            if let Some(depth) = deeper {
                let mut facts = ShadowFacts::default();
                members.next_value_seed(RecordMembers { facts: &mut facts, depth })?;
                record = facts.outcome.is_some().then_some(facts);
                continue;
            }
            let field = match (self.depth, name.as_ref()) {
                (Depth::Line, "time") => &mut self.facts.time,
                (Depth::Line, "method") => &mut self.facts.method,
                (_, "original_path") => &mut self.facts.path,
                (_, "idempotency_case") => &mut self.facts.case,
                (_, OUTCOME) => &mut self.facts.outcome,
                (_, "idempotency_shadow") => &mut self.facts.shadow,
                (_, "idempotency_code") => &mut self.facts.code,
                (_, "idempotency_reason") => &mut self.facts.reason,
                (_, "idempotency_policy") => &mut self.facts.policy,
                (_, "tenant") => &mut self.facts.tenant,
                (_, "endpoint") => &mut self.facts.endpoint,
                (_, "idempotency_key_raw") => &mut self.facts.raw_key,
                (_, "idempotency_key_namespaced") => &mut self.facts.namespaced_key,
                _ => {
                    members.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            let is_key = name.starts_with("idempotency_key_");
            let value = members.next_value::<Scalar<'_>>()?.0;
            *field = if is_key { value } else { value.map(cut) };
        }
        // The members of one object count. But the tenant of a request that is refused before the filter reads its
        // identity stands at most in the line, where an operator has put it.
        if let Some(record) = record {
            let line = std::mem::take(self.facts);
            let tenant = record.tenant.or(line.tenant);
            *self.facts = ShadowFacts { time: line.time, method: line.method, tenant, ..record };
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

/// A string, or a number or a boolean as text.
struct Scalar<'a>(Option<Cow<'a, str>>);

impl<'de> Deserialize<'de> for Scalar<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ScalarVisitor)
    }
}

struct ScalarVisitor;

impl<'de> Visitor<'de> for ScalarVisitor {
    type Value = Scalar<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Scalar<'de>, E> {
        Ok(Scalar(Some(Cow::Borrowed(text))))
    }

    fn visit_str<E>(self, text: &str) -> Result<Scalar<'de>, E> {
        Ok(Scalar(Some(Cow::Owned(text.to_owned()))))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Scalar<'de>, E> {
        Ok(Scalar(Some(Cow::Owned(value.to_string()))))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Scalar<'de>, E> {
        Ok(Scalar(Some(Cow::Owned(value.to_string()))))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Scalar<'de>, E> {
        Ok(Scalar(Some(Cow::Owned(value.to_string()))))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Scalar<'de>, E> {
        Ok(Scalar(Some(Cow::Owned(value.to_string()))))
    }

    fn visit_unit<E>(self) -> Result<Scalar<'de>, E> {
        Ok(Scalar(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Scalar<'de>, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Scalar(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Scalar<'de>, A::Error> {
        while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Scalar(None))
    }
}

/// The record of a whole line; `None` if the line has none.
pub(crate) fn record_of(line: &Map<String, Value>) -> Option<&Map<String, Value>> {
    let nested = line.get(NESTED).and_then(Value::as_object);
    let typed = nested.and_then(|nested| nested.get(TYPED)).and_then(Value::as_object);
    [typed, nested, Some(line)].into_iter().flatten().find(|object| object.get(OUTCOME).is_some_and(Value::is_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The record has the same members in each of its places, and both readers find it.
    #[test]
    fn a_record_is_found_in_each_of_its_places() {
        let record = r#"{"idempotency_outcome":"forwarded","idempotency_shadow":"refuse","tenant":"ac\u006de","restate_cache_hit":false,"idempotency_identity":[{"endpoint":"no"}]}"#;
        let typed = format!(r#"{{"@type":"type.googleapis.com/google.protobuf.Struct","value":{record}}}"#);
        for line in [
            format!(r#"{{"time":"t","edge_idempotency":{record},"status":200}}"#),
            format!(r#"{{"edge_idempotency":{typed},"time":"t","route":null,"endpoint":"another"}}"#),
            record.replacen('{', r#"{"time":"t","#, 1),
        ] {
            let facts = ShadowFacts::parse(line.as_bytes()).unwrap();
            let read =
                (facts.time.as_deref(), facts.outcome.as_deref(), facts.shadow.as_deref(), facts.tenant.as_deref());
            assert_eq!(read, (Some("t"), Some("forwarded"), Some("refuse"), Some("acme")), "{line}");
            assert_eq!(facts.endpoint, None, "{line}");
            let value: Map<String, Value> = serde_json::from_str(&line).unwrap();
            assert_eq!(record_of(&value).unwrap()["tenant"], "acme", "{line}");
        }
    }

    #[test]
    fn long_values_are_cut() {
        let long = "ü".repeat(200);
        let line = format!(r#"{{"idempotency_outcome":"{long}","tenant":"a{long}","endpoint":"b"}}"#);
        let facts = ShadowFacts::parse(line.as_bytes()).unwrap();
        assert_eq!(facts.outcome.unwrap(), format!("{}…", "ü".repeat(128)));
        assert_eq!(facts.tenant.unwrap(), format!("a{}…", "ü".repeat(127)));
        assert_eq!(facts.endpoint.unwrap(), "b");
    }

    #[test]
    fn what_holds_no_record_has_no_outcome() {
        for line in [
            "{}",
            r#"{"edge_idempotency":null,"status":404}"#,
            r#"{"edge_idempotency":"-"}"#,
            r#"{"edge_idempotency":[{"idempotency_outcome":"forwarded"}]}"#,
            r#"{"edge_idempotency":{"value":7}}"#,
            r#"{"idempotency_outcome":{"a":[1,2.5,-3,true]}}"#,
        ] {
            assert_eq!(ShadowFacts::parse(line.as_bytes()).unwrap().outcome, None, "{line}");
            assert_eq!(record_of(&serde_json::from_str(line).unwrap()), None, "{line}");
        }
        for line in ["", "[]", "7", "{", "{} {}", "{\"time\":\"\u{1}\"}", "[2026-11-22] text", "\u{feff}{}"] {
            assert!(ShadowFacts::parse(line.as_bytes()).is_err(), "{line}");
        }
        assert!(ShadowFacts::parse(b"{\"time\":\"\xff\"}").is_err());
    }
}
