//! I2 for object keys: different callers, different values of path parameters and different members of verified bodies never meet
//! in one object, in the path as it is sent and once the backend has decoded it.

use super::{cases, model};
use direct::attributes::NoAttributes;
use direct::requests::{Request, Verdict, run};
use edge_idempotency_engine::Policy;
use edge_idempotency_engine::identity::{Identity, Project, Subject, Tenant};
use edge_idempotency_engine::policy::{BackendKind, Target};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use serde_json::{Value, json};
use std::sync::LazyLock;
use testkit::signatures::{hex, hmac_sha256};

/// What an object key can be made of.
fn template() -> impl Strategy<Value = String> {
    let whole = [
        "{a}:{b}",
        "{tenant}:{b}:{a}",
        "{a}:{subject}",
        "{tenant}:{project}:{subject}:{a}",
        "{a}:x:{b}",
        "x-{a}:{b}-y",
        "{tenant}:{project}:x:{body:/c}",
        "{a}:{body:/c}:{form:d}",
        "{tenant}:{body:/c}:{b}",
        "{body:/c}:{tenant}",
    ];
    let pieces = [
        "{tenant}",
        "{project}",
        "{subject}",
        "{a}",
        "{b}",
        "{body:/c}",
        "{form:d}",
        ":",
        ":",
        ":",
        "::",
        "-",
        "x",
        "x:",
        ":y",
        ".",
        "@",
    ];
    prop_oneof![
        1 => select(whole.to_vec()).prop_map(str::to_owned),
        3 => vec(select(pieces.to_vec()), 1..8).prop_map(|pieces| pieces.concat()),
    ]
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Values {
    tenant: String,
    project: String,
    subject: (&'static str, String),
    parameters: [String; 2],
    /// Of bodies
    members: [String; 2],
}

impl Values {
    fn identity(&self) -> Identity {
        Identity {
            tenant: Tenant::parse(self.tenant.as_bytes()).unwrap(),
            project: Project::parse(self.project.as_bytes()).unwrap(),
            subject: Subject::new(self.subject.0, self.subject.1.as_bytes()).unwrap(),
        }
    }

    fn path(&self, target: &Target) -> Option<String> {
        let [json, form] = &self.members;
        let members = target.members().iter().map(|member| if member.name() == "/c" { json } else { form });
        let values: Vec<Vec<u8>> =
            self.parameters.iter().chain(members).map(|value| value.clone().into_bytes()).collect();
        target.path(&values, Some(&self.identity())).map(|path| path.into_owned())
    }

    /// The same text in two parameters, divided at another colon.
    fn cut_elsewhere(&self, at: Index) -> [String; 2] {
        let text = self.parameters.join(":");
        let colons: Vec<usize> = text.match_indices(':').map(|(colon, _)| colon).collect();
        let (first, second) = text.split_at(*at.get(&colons));
        [first.to_owned(), second[1..].to_owned()]
    }

    /// The values that a template names.
    fn of(&self, template: &str) -> Vec<(&'static str, String)> {
        let named = [
            ("{tenant}", self.tenant.clone()),
            ("{project}", self.project.clone()),
            ("{subject}", format!("{}:{}", self.subject.0, self.subject.1)),
            ("{a}", self.parameters[0].clone()),
            ("{b}", self.parameters[1].clone()),
            ("{body:/c}", self.members[0].clone()),
            ("{form:d}", self.members[1].clone()),
        ];
        named.into_iter().filter(|(name, _)| template.contains(name)).collect()
    }
}

fn values() -> impl Strategy<Value = Values> {
    let segment = || {
        select(vec!["a", "x", "xx", "-", "a-", "y", ".", "a.b", "~"])
            .prop_filter("a segment", |text| *text != ".")
            .prop_map(str::to_owned)
    };
    let text = || {
        vec(select(vec!["a", "x", "y", ":", "%", "%3A", "-", "/", ".", "@", "é", "user"]), 1..4)
            .prop_map(|pieces| pieces.concat())
    };
    (segment(), segment(), select(vec!["user", "a"]), text(), [text(), text()], [text(), text()]).prop_map(
        |(tenant, project, kind, id, parameters, members)| Values {
            tenant,
            project,
            subject: (kind, id),
            parameters,
            members,
        },
    )
}

proptest! {
    #![proptest_config(cases(20_000))]

    #[test]
    fn different_values_never_meet_in_one_object(template in template(), one in values(), other in values(), share in prop_oneof![3 => any::<[bool; 7]>(), 1 => Just([true; 7])], cut in any::<Index>()) {
        let Ok(target) = Target::parse(&format!("Obj/{template}/run"), &["a", "b"], false, BackendKind::Generic) else { return Ok(()) };
        // Values that differ in a few places only are likelier to meet.
        let mut other = other;
        if share[0] { other.tenant.clone_from(&one.tenant); }
        if share[1] { other.project.clone_from(&one.project); }
        if share[2] { other.subject.clone_from(&one.subject); }
        if share[3] { other.parameters[0].clone_from(&one.parameters[0]); }
        if share[4] { other.parameters[1].clone_from(&one.parameters[1]); }
        if share[5] { other.members[0].clone_from(&one.members[0]); }
        if share[6] { other.members[1].clone_from(&one.members[1]); }
        if share == [true; 7] { other.parameters = one.cut_elsewhere(cut); }
        let (Some(first), Some(second)) = (one.path(&target), other.path(&target)) else { return Ok(()) };
        let same = one.of(&template) == other.of(&template);
        prop_assert_eq!(first == second, same, "{} {}", first, second);
        let decoded = (model::percent_decoded(&first), model::percent_decoded(&second));
        prop_assert_eq!(decoded.0 == decoded.1, same, "{} {} are one object, {}", first, second, decoded.0.escape_ascii());
        // The object key is one segment.
        prop_assert_eq!(first.matches('/').count(), 3, "{}", first);
    }
}

/// A route whose target names a member, for deliveries that are signed byte for byte.
static HOOKS: LazyLock<Policy> = LazyLock::new(|| {
    let document = json!({
        "version": 1,
        "allow_inline_secrets": true,
        "backend": {"kind": "restate", "rewrite_path": true, "cluster": "restate"},
        "routes": [{
            "endpoint": "hooks", "path": "/hooks/{webhook_id}", "policy": "HANDLER_INTERNAL_C",
            "target": "Promises/{tenant}:{project}:github:{body:/id}/resolve", "on_unmatched": "acknowledge",
            "webhook": {"provider": "github"}
        }],
        "webhooks": {"static": {"wh_01GITHUB": {
            "tenant": "acme", "project": "shop", "provider": "github", "secrets": ["secret-of-the-hook-0123456789"]
        }}}
    });
    Policy::from_json(document.to_string().as_bytes()).unwrap()
});

/// What becomes of a verified delivery with this body: the path for the backend, or nothing.
fn path_of(body: &[u8]) -> Option<String> {
    let signature = format!("sha256={}", hex(&hmac_sha256(b"secret-of-the-hook-0123456789", body)));
    let lines = [
        (":method", "POST"),
        (":authority", "api.example.com"),
        (":path", "/hooks/wh_01GITHUB"),
        ("x-hub-signature-256", &signature),
    ];
    let headers = lines.map(|(name, value)| (name.as_bytes().to_vec(), value.as_bytes().to_vec())).to_vec();
    let request = Request { headers, body: body.to_vec(), ..Request::default() };
    match run(&HOOKS, &request, &NoAttributes).1 {
        Verdict::Forwarded { headers, .. } => {
            let path = headers.into_iter().find(|(name, _)| name == b":path").unwrap().1;
            Some(String::from_utf8(path).unwrap())
        }
        Verdict::Acknowledged(detail) => {
            assert!(detail.contains(" at /id, "), "{detail}");
            None
        }
        Verdict::Refused(problem) => panic!("{}: {problem:?}", body.escape_ascii()),
    }
}

/// A JSON value, often one that could stand in an object key.
fn member() -> impl Strategy<Value = Value> {
    let pieces = vec![
        "a",
        "1",
        ":",
        "%",
        "%3A",
        "/",
        ".",
        "..",
        "?",
        "#",
        ";",
        "\\",
        "\0",
        "\n",
        "\u{85}",
        "\u{2028}",
        "é",
        " ",
        "acme:shop",
    ];
    prop_oneof![
        4 => vec(select(pieces), 0..5).prop_map(|pieces| pieces.concat().into()),
        1 => ".{0,12}".prop_map(Value::from),
        1 => "[a-z]{500,520}".prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => select(vec![json!(null), json!(true), json!(1.5), json!(1e300), json!([]), json!({"id": "x"})]),
    ]
}

proptest! {
    #![proptest_config(cases(4_000))]

    /// Whatever the body holds, the object is one of this tenant, project and provider, and its key says which value named it.
    #[test]
    fn a_member_of_a_body_is_one_piece_of_the_object_key(value in member(), rest in member()) {
        let Some(path) = path_of(json!({"other": rest, "id": value}).to_string().as_bytes()) else { return Ok(()) };
        let segments: Vec<&str> = path.split('/').collect();
        prop_assert_eq!(segments.len(), 6, "{}", path);
        prop_assert_eq!((&segments[..4], segments[5]), (&["", "restate", "call", "Promises"][..], "resolve"));
        let key = String::from_utf8(model::percent_decoded(segments[4])).unwrap();
        let pieces: Vec<&str> = key.split(':').collect();
        prop_assert_eq!(&pieces[..3], ["acme", "shop", "github"], "{}", key);
        prop_assert_eq!(pieces.len(), 4, "{}", key);
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        prop_assert_eq!(String::from_utf8(model::percent_decoded(pieces[3])).unwrap(), text.clone());
        prop_assert!((1..=512).contains(&text.len()) && !text.chars().any(char::is_control), "{}", path);
    }

    /// Whatever a provider signs, nothing but a path of this form comes out.
    #[test]
    fn any_signed_bytes_make_a_path_of_this_form_or_none(pieces in vec(select(BODIES.to_vec()), 0..8), bytes in vec(any::<u8>(), 0..6)) {
        let Some(path) = path_of(&[pieces.concat(), bytes].concat()) else { return Ok(()) };
        let key = path.strip_prefix("/restate/call/Promises/acme:shop:github:").and_then(|rest| rest.strip_suffix("/resolve"));
        prop_assert!(key.is_some_and(|key| !key.is_empty() && !key.contains(['/', ':'])), "{}", path);
    }
}

/// Pieces of bodies.
const BODIES: [&[u8]; 14] = [
    b"{",
    b"}",
    b"\"id\":",
    b"\"\\u0069d\":",
    b"\"a\"",
    b"1",
    b"-0",
    b",",
    b"[",
    b"]",
    b"\"\\ud800\"",
    b"\"a/../b\"",
    b"{\"id\":\"ch:1\"}",
    b" ",
];
