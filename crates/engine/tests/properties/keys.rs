//! The key's grammar, and I2: no two callers, and no two keys of one caller, ever give the same namespaced key.

use super::generate::{KeyRulesModel, key_value};
use super::{cases, model};
use direct::attributes::JsonAttributes;
use direct::requests::{self, Request};
use edge_idempotency_engine::Policy;
use edge_idempotency_engine::identity::{Identity, Project, Subject, Tenant};
use edge_idempotency_engine::key::{
    self, KeyCharset, KeyError, KeyGrammar, KeyRules, KeySyntax, MAX_NAMESPACED_LENGTH, RawKey,
};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;

proptest! {
    #![proptest_config(cases(20_000))]

    #[test]
    fn the_header_is_read_as_the_grammar_says(
        lines in prop_oneof![9 => vec(key_value(), 1), 1 => vec(key_value(), 0..4)],
        visible in any::<bool>(),
    ) {
        let lines: Vec<&[u8]> = lines.iter().map(Vec::as_slice).collect();
        let charset = if visible { KeyCharset::Visible } else { KeyCharset::Unreserved };
        let found = key::read_as(charset.grammar(), lines.iter().copied()).map_err(|invalid| invalid.reason().name());
        let text = found.as_ref().map(|found| found.as_ref().map(|(raw, _)| raw.as_str().to_owned())).map_err(|why| *why);
        prop_assert_eq!(&text, &model::read_key(&lines, KeyRulesModel { visible, named: false }));
        if let (Ok(Some((_, form))), [line]) = (found, lines.as_slice()) {
            prop_assert_eq!(form == KeySyntax::Quoted, line.trim_ascii_start().starts_with(b"\""));
        }
    }

    /// Each key that a Structured Field string can hold is the same key bare, if it has a bare form.
    #[test]
    fn both_forms_of_a_visible_key_are_one_key(raw in "[!-+\\--~]{1,40}") {
        let string = format!("\"{}\"", raw.replace('\\', "\\\\").replace('"', "\\\""));
        let read = |line: &str| {
            let read = key::read_as(&KeyGrammar::VISIBLE, [line.as_bytes()]);
            read.map(|found| found.unwrap().0.as_str().to_owned())
        };
        let expected = if raw.starts_with("t-") { Err(KeyError::ReservedPrefix) } else { Ok(raw.clone()) };
        prop_assert_eq!(read(&string), expected.clone());
        if !raw.starts_with('"') {
            prop_assert_eq!(read(&raw), expected);
        }
    }
}

/// An identity and a raw key.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    tenant: String,
    project: Project,
    kind: &'static str,
    id: Vec<u8>,
    raw: String,
}

impl Named {
    fn identity(&self) -> Option<Identity> {
        Some(Identity {
            tenant: Tenant::parse(self.tenant.as_bytes()).ok()?,
            project: self.project.clone(),
            subject: match self.kind {
                "_none" if self.id == b"_" => Subject::none(),
                kind => Subject::new(kind, &self.id).ok()?,
            },
        })
    }

    fn key(&self) -> Option<String> {
        key::encode(&self.identity()?, &self.raw).ok()
    }
}

/// Texts that differ by what the form itself is made of.
fn near(pieces: &'static [&'static str]) -> impl Strategy<Value = String> {
    vec(select(pieces), 1..4).prop_map(|pieces| pieces.concat())
}

fn named() -> impl Strategy<Value = Named> {
    let project = prop_oneof![
        4 => near(&["a", "t-", ".", "~", "tenant", "_tenant"]).prop_map(|text| Project::parse(text.as_bytes()).ok()),
        1 => Just(Some(Project::Tenant)),
        1 => Just(Some(Project::Platform)),
    ];
    let tenant = near(&["a", "t-", "-", ".", "~", "_tenant"]);
    let kind = select(vec!["user", "user_", "service", "u"]);
    let id = near(&["a", ":", "%", "%3A", "a:", " ", "user", "\u{e9}", "_tenant"]).prop_map(String::into_bytes);
    let id = prop_oneof![9 => id.boxed(), 1 => vec(32_u8..=255, 1..4).boxed()];
    let subject = prop_oneof![9 => (kind, id).boxed(), 1 => Just(("_none", b"_".to_vec())).boxed()];
    let raw = near(&["a", ":", "a:", "-", "user:", "%3A", "_tenant:", "sched:1", "/", "\"", "\\", "t-a:", "+="]);
    (tenant, project, subject, raw).prop_filter_map("not an identity", |(tenant, project, (kind, id), raw)| {
        let named = Named { tenant, project: project?, kind, id, raw };
        named.identity().map(|_| named)
    })
}

/// The same text, cut into parts elsewhere: what would collide if the form were careless.
fn moved(named: &Named, by: usize) -> Option<Named> {
    let text = format!(
        "{}:{}:{}:{}:{}",
        named.tenant,
        named.project.as_str(),
        named.kind,
        String::from_utf8_lossy(&named.id),
        named.raw
    );
    let mut parts: Vec<&str> = text.split(':').collect();
    let count = parts.len();
    parts.rotate_left(by % count);
    let [tenant, project, _, id, raw @ ..] = parts.as_slice() else { return None };
    let project = Project::parse(project.as_bytes()).ok()?;
    Some(Named { tenant: (*tenant).into(), project, kind: named.kind, id: id.as_bytes().into(), raw: raw.join(":") })
}

proptest! {
    #![proptest_config(cases(10_000))]

    /// I2
    #[test]
    fn different_callers_and_keys_never_meet(one in named(), other in named(), by in 0_usize..8) {
        for other in [Some(other), moved(&one, by)].into_iter().flatten() {
            if let (Some(first), Some(second)) = (one.key(), other.key()) {
                prop_assert_eq!(one == other, first == second, "{:?} {:?}", one, other);
            }
        }
    }

    /// I2: what is encoded can be told apart again, so nothing is lost on the way.
    #[test]
    fn decoding_gives_back_what_was_encoded(named in named()) {
        let identity = named.identity().unwrap();
        let text = key::encode(&identity, &named.raw).unwrap();
        let project = named.project.as_str();
        let subject = format!("{}:{}", named.kind, model::percent_encoded(&named.id));
        prop_assert_eq!(&text, &format!("t-{}:{project}:{subject}:{}", named.tenant, named.raw));
        let decoded = key::decode(&text).unwrap();
        prop_assert_eq!(decoded.identity, identity);
        prop_assert_eq!(decoded.raw, named.raw);
    }

    /// I2, the other way: a text has one meaning, or none.
    #[test]
    fn encoding_gives_back_what_was_decoded(pieces in vec(select(vec![
        "t-", "a", ":", ":", ":", "user", "_none", "_", "_none:_:", "_tenant", "_platform", "%3A", "%3a", "%41", "%", ".", "..", " ", "é", "~", "\n",
    ]), 0..14), prefixed in any::<bool>()) {
        let text = if prefixed { format!("t-a:p:user:{}", pieces.concat()) } else { pieces.concat() };
        if let Ok(decoded) = key::decode(&text) {
            prop_assert_eq!(key::encode(&decoded.identity, decoded.raw).unwrap(), text);
        }
    }

    #[test]
    fn no_namespaced_key_is_longer_than_the_limit(tenant in 1_usize..66, project in 1_usize..66, id in 1_usize..203, raw in 1_usize..400) {
        let named = Named {
            tenant: "t".repeat(tenant),
            project: Project::Platform,
            kind: "user",
            id: "u".repeat(id).into(),
            raw: "k".repeat(raw),
        };
        let project_fits = Project::parse("p".repeat(project).as_bytes()).is_ok();
        prop_assert_eq!(project_fits, project <= 63);
        let Some(identity) = named.identity() else {
            prop_assert!(tenant > 63 || id > 200);
            return Ok(());
        };
        let length = 2 + tenant + 1 + "_platform".len() + 1 + "user:".len() + id + 1 + raw;
        prop_assert_eq!(key::encode(&identity, &named.raw).is_ok(), length <= MAX_NAMESPACED_LENGTH);
    }
}

/// A `key` object, with what its formats mean in regular expressions.
fn rules() -> impl Strategy<Value = (Json, &'static str)> {
    let hex = "[0-9a-fA-F]";
    let formats: Vec<(&str, String)> = vec![
        ("any", String::new()),
        ("uuid", format!("^{hex}{{8}}(-{hex}{{4}}){{3}}-{hex}{{12}}$")),
        ("uuid7", format!("^{hex}{{8}}-{hex}{{4}}-7{hex}{{3}}-[89abAB]{hex}{{3}}-{hex}{{12}}$")),
        ("ulid", "^[0-7][0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{25}$".to_owned()),
    ];
    let patterns = ["", "^.{3,20}$", "a", "^[^a-f]*$", "(?i)^(a|b|7)+", r"\d", "-7", "^refund[.]", "Z$"];
    (select(formats), select(patterns.to_vec()))
        .prop_map(|((format, form), pattern)| (json!({"format": format, "pattern": pattern}), &*form.leak()))
}

fn compiled_rules(rules: &Json) -> std::sync::Arc<KeyRules> {
    let document = json!({"version": 1, "backend": {"kind": "generic"},
        "identity": {"sources": [{"name": "s", "metadata": ["m"], "tenant": "t", "project": "p", "subject": {"field": "s"}}]},
        "routes": [{"endpoint": "x", "path": "/x", "policy": "REQUIRED_A", "key": rules}]});
    let policy = Policy::from_json(document.to_string().as_bytes()).unwrap();
    policy.route(0).unwrap().key.clone().unwrap_or_default()
}

/// Keys of a format, and what is nearly one.
fn formed_key() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => "[0-9a-fA-F]{8}-[0-9a-f]{4}-[47][0-9A-F]{3}-[89abc][0-9a-f]{3}-[0-9a-f]{12}",
        1 => "[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{2}-[89ab][0-9a-f]{4}-[0-9a-f]{12}",
        3 => "[0-9][0-9A-HJKMNP-TV-Za-z]{25}",
        1 => "[0-7][0-9A-Z]{24,26}",
        2 => "refund[.][0-9a-f-]{0,30}",
        2 => "[A-Za-z0-9._~-]{1,40}",
    ]
}

proptest! {
    #![proptest_config(cases(3000))]

    /// A rule refuses a key or leaves it as it is: what passes is what came, and a key of the grammar.
    #[test]
    fn a_key_that_passes_the_rules_is_unchanged((rules, form) in rules(), keys in vec(formed_key(), 8), quoted in any::<bool>()) {
        let compiled = compiled_rules(&rules);
        let matches = |pattern: &str, key: &str| regex::Regex::new(pattern).unwrap().is_match(key);
        for raw in keys {
            let line = if quoted { format!("\"{raw}\"") } else { raw.clone() };
            let read = key::read_as(&KeyGrammar::CLIENT, [line.as_bytes()]);
            let found = read.and_then(|found| {
                let (key, _) = found.unwrap();
                compiled.check(&key, Some(&|| panic!("no rule needs the clock"))).map(|()| key.as_str().to_owned())
            });
            let text = |name: &str| rules[name].as_str().unwrap();
            let expected = if let Err(why) = RawKey::parse(raw.as_bytes()) {
                Err(why)
            } else if !matches(form, &raw) {
                Err(KeyError::Format)
            } else if !matches(text("pattern"), &raw) {
                Err(KeyError::Pattern)
            } else {
                Ok(raw.clone())
            };
            prop_assert_eq!(found, expected, "{}", rules);
        }
    }

    /// Keys grow older only: a key that is refused as too old is so from then on, one that is refused as ahead was so
    /// before, and a key's own time is never too old.
    #[test]
    fn expiry_is_monotone_in_time(time in 0_u64..(1 << 48), max_age in 1_u64..10_000_000, mut clocks in vec(any::<(bool, i32)>(), 2..10), ulid in any::<bool>()) {
        let digits = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
        let base32 = |place: u32| char::from(digits[usize::try_from(time >> (5 * place) & 31).unwrap()]);
        let hex = format!("{time:012x}");
        let (format, raw) = if ulid {
            ("ulid", (0..10).rev().map(base32).chain("ABCDEFGHJKMNPQRS".chars()).collect::<String>())
        } else {
            ("uuid7", format!("{}-{}-7000-8000-000000000000", &hex[..8], &hex[8..]))
        };
        let rules = compiled_rules(&json!({"format": format, "max_age": format!("{max_age}s")}));
        let raw = RawKey::parse(raw.as_bytes()).unwrap();
        let at = |now: u64| rules.check(&raw, Some(&|| now));
        prop_assert_eq!(at(time), Ok(()));
        clocks.push((true, 0));
        let edge = |aged: bool| if aged { time + max_age * 1000 } else { time.saturating_sub(300_000) };
        let mut times: Vec<u64> = clocks.into_iter().map(|(aged, by)| edge(aged).saturating_add_signed(i64::from(by))).collect();
        times.sort_unstable();
        let phase = |now: u64| match at(now) {
            Err(KeyError::Ahead) => 0,
            Ok(()) => 1,
            Err(KeyError::Expired) => 2,
            Err(other) => panic!("{other:?}"),
        };
        let phases: Vec<u8> = times.iter().map(|now| phase(*now)).collect();
        prop_assert!(phases.is_sorted(), "{:?} {:?}", times, phases);
        let expected = times.iter().map(|now| match now {
            now if now + 300_000 < time => 0,
            now if now.saturating_sub(time) <= max_age * 1000 => 1,
            _ => 2,
        });
        prop_assert_eq!(phases, expected.collect::<Vec<u8>>());
    }
}

/// Claims that could be taken for one another.
fn claims() -> Vec<Json> {
    vec![
        json!("1"),
        json!(1),
        json!(1.5),
        json!("1.5"),
        json!("true"),
        json!(true),
        json!("acme"),
        json!(["acme"]),
        json!("acme,inc"),
        json!(["acme", "inc"]),
        json!("Acme"),
        json!(null),
        json!("null"),
        json!(""),
        json!({}),
        json!(9_007_199_254_740_992_u64),
        json!(9_007_199_254_740_993_u64),
        json!("9007199254740993"),
        json!("é"),
        json!("e\u{301}"),
        json!("a\0"),
        json!("a"),
        json!(" a"),
        json!(f64::from_le_bytes(*b"acme-inc")),
        json!("acme-inc"),
        json!([["acme"]]),
        json!("user:a"),
        json!("user:A"),
    ]
}

const JWT: &str = r#"{"version": 1, "backend": {"kind": "restate"},
    "identity": {"sources": [
        {"name": "jwt", "metadata": ["jwt", "p"], "tenant": "t", "project": "p", "subject": {"field": "s", "type": "user"}},
        {"name": "typed", "metadata": ["typed", "p"], "tenant": "t", "project": "p", "subject": {"field": "s"}}
    ]},
    "routes": [{"endpoint": "x", "path": "/x", "policy": "REQUIRED_A"}]}"#;

fn keyed(policy: &Policy, source: &str, claims: &[Json; 3], raw: &str) -> Option<String> {
    let headers = [(":path", "/x"), (":method", "POST"), (":authority", "a"), ("idempotency-key", raw)];
    let request = Request {
        headers: headers.map(|(name, value)| (name.into(), value.into())).to_vec(),
        attributes: JsonAttributes {
            metadata: json!({source: {"p": {"t": claims[0], "p": claims[1], "s": claims[2]}}}),
            endpoint: None,
        },
        ..Request::default()
    };
    requests::run(policy, &request, &request.attributes).0.key().map(str::to_owned)
}

/// I2 from the token to the key: claims that differ, if only in their type, are refused or stay apart.
#[test]
fn claims_that_differ_never_give_one_key() {
    let policy = Policy::from_json(JWT.as_bytes()).unwrap();
    for source in ["jwt", "typed"] {
        let mut known: BTreeMap<String, String> = BTreeMap::new();
        for place in 0..3 {
            for (claim, raw) in
                claims().into_iter().flat_map(|claim| ["k", "K", "user-k"].map(|raw| (claim.clone(), raw)))
            {
                let mut all = [json!("acme"), json!("shop"), json!("user:u1")];
                all[place] = claim;
                let Some(key) = keyed(&policy, source, &all, raw) else { continue };
                let who = format!("{} {raw}", json!(all));
                let other = known.entry(key.clone()).or_insert_with(|| who.clone());
                assert_eq!(*other, who, "{key}");
            }
        }
        assert!(known.len() > 30, "{source}: {known:?}");
    }
}
