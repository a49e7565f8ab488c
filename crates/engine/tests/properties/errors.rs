//! What errors tell of the machine they come from: no member with a stack trace is left in any JSON value, and what there is
//! besides stays as it is.

use super::cases;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::{Effect, Exchange, Policy, ResponseFlow, UnreadBody};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value as Json, json};
use std::fmt::Write as _;
use std::sync::LazyLock;

/// Spellings of the name that goes.
const TRACES: [&str; 9] = [
    "stacktrace",
    "stackTrace",
    "STACK_TRACE",
    "stack-trace",
    "_stacktrace-",
    "s-t-acktrac_e",
    "stack",
    "Exception",
    "trace",
];

static POLICIES: LazyLock<[Policy; 2]> = LazyLock::new(|| {
    ["restate", "generic"].map(|kind| {
        let document =
            json!({"version": 1, "backend": {"kind": kind}, "clean_errors": true, "unmatched": "HANDLER_INTERNAL_C", "routes": []});
        Policy::from_json(document.to_string().as_bytes()).unwrap()
    })
});

/// Any JSON value; names that nearly are the one that goes.
fn value() -> impl Strategy<Value = Json> {
    let text = select(vec!["", "a", "é\n\"\\", "stacktrace", "[{,}]", "\u{1f600}\u{7f}"]);
    let scalar = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        (-1e9..1e9).prop_map(Json::from),
        text.prop_map(Json::from),
    ];
    let name = select(vec!["a", "b", "", "stacks", "stacktraces", "stack trace", "é\"\\", "pointer"]);
    scalar.prop_recursive(6, 60, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Json::from),
            prop::collection::vec((name.clone(), inner), 0..5).prop_map(|members| {
                Json::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>())
            }),
        ]
    })
}

/// Draws numbers below a bound from a seed (a linear congruence).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn space(&mut self, out: &mut String) {
        out.push_str(["", "", "", " ", "\n\t"][self.below(5)]);
    }

    /// A member that goes: one of the spellings, some of it escaped, with a value of any kind.
    fn trace(&mut self, out: &mut String) {
        let name = TRACES[self.below(TRACES.len())];
        let escaped = self.below(name.len() * 2);
        out.push('"');
        for (at, letter) in name.char_indices() {
            if at == escaped { write!(out, "\\u{:04x}", letter as u32).unwrap() } else { out.push(letter) }
        }
        out.push('"');
        self.space(out);
        out.push(':');
        self.space(out);
        out.push_str(
            ["1", "null", r#""at /srv/a.js:1""#, r#"[{"stacktrace":[]}, "]}"]"#, r#"{"a":{"b":"}"}}"#, r#""\"\\""#]
                [self.below(6)],
        );
    }

    /// Writes a value with members that go planted among those of its objects.
    fn write(&mut self, value: &Json, planted: &mut usize, out: &mut String) {
        self.space(out);
        match value {
            Json::Array(items) => {
                out.push('[');
                for (number, item) in items.iter().enumerate() {
                    out.push_str(if number == 0 { "" } else { "," });
                    self.write(item, planted, out);
                }
                out.push(']');
            }
            Json::Object(members) => {
                let mut parts = Vec::new();
                let plant = |dice: &mut Self, parts: &mut Vec<String>, planted: &mut usize| {
                    while dice.below(3) == 0 {
                        let mut part = String::new();
                        dice.trace(&mut part);
                        parts.push(part);
                        *planted += 1;
                    }
                };
                plant(self, &mut parts, planted);
                for (name, value) in members {
                    let mut part = Json::from(name.as_str()).to_string();
                    part.push(':');
                    self.write(value, planted, &mut part);
                    parts.push(part);
                    plant(self, &mut parts, planted);
                }
                out.push('{');
                self.space(out);
                out.push_str(&parts.join([",", " , "][self.below(2)]));
                out.push('}');
            }
            scalar => out.push_str(&scalar.to_string()),
        }
        self.space(out);
    }
}

/// The body that the client gets of an error in JSON.
fn told(policy: &Policy, body: &[u8]) -> Vec<u8> {
    let mut exchange = Exchange::new();
    let response: [(&[u8], &[u8]); 2] = [(b":status", b"422"), (b"content-type", b"application/json")];
    let response = Headers::new(response.to_vec());
    let flow = exchange.response_headers(policy, &response, &mut Vec::new());
    let ResponseFlow::AwaitBody(awaited) = flow else { panic!("{flow:?}") };
    let mut effects = Vec::new();
    if body.len() as u64 > awaited.limit {
        exchange.response_body_unread(awaited, UnreadBody::Passes, policy, &mut effects);
    } else {
        exchange.response_body(awaited, policy, body, &mut effects);
    }
    let length = effects.iter().find_map(|effect| match effect {
        Effect::Set { name: "content-length", value, .. } => Some(value.to_vec()),
        _ => None,
    });
    let replaced =
        effects.into_iter().find_map(|effect| if let Effect::Body(body) = effect { Some(body) } else { None });
    assert_eq!(length, replaced.as_ref().map(|body| body.len().to_string().into_bytes()));
    replaced.unwrap_or_else(|| body.to_vec())
}

proptest! {
    #![proptest_config(cases(3000))]

    #[test]
    fn no_stack_trace_is_left_and_nothing_else_goes(value in value(), seed in any::<u64>()) {
        let (mut body, mut planted) = (String::new(), 0);
        Dice(seed).write(&value, &mut planted, &mut body);
        for policy in POLICIES.iter() {
            let told = told(policy, body.as_bytes());
            // What is equal to a value without them has none.
            let told_value: Json = serde_json::from_slice(&told).unwrap_or_else(|error| panic!("{error}: {body}"));
            prop_assert_eq!(&told_value, &value, "of {}", body);
            prop_assert!(planted > 0 || told == body.as_bytes(), "nothing was planted in {}", body);
        }
    }

    /// Whatever comes, what goes on is JSON.
    #[test]
    fn any_error_is_answered_with_json(
        body in prop_oneof![
            prop::collection::vec(any::<u8>(), 0..200),
            prop::collection::vec(select(b"{}[]\",:\\/stacktrace srvapp Cu01/".to_vec()), 0..60),
            prop::collection::vec(
                select(vec!["{", "}", "[", "]", "\"a\"", "\"stacktrace\"", ":", ",", "1", "\"/srv/app\"", " "]), 0..12,
            ).prop_map(|parts| parts.concat().into_bytes()),
        ],
        inside in any::<bool>(),
    ) {
        let body = if inside { [b"{\"a\":\"", body.as_slice(), b"\"}"].concat() } else { body };
        for policy in POLICIES.iter() {
            let told = told(policy, &body);
            if !body.is_empty() {
                let read = serde_json::from_slice::<Json>(&told).err().map(|error| error.to_string());
                // serde_json has limits of its own.
                let limits = ["number out of range", "surrogate", "recursion limit"];
                let fine = read.as_ref().is_none_or(|error| limits.iter().any(|limit| error.contains(limit)));
                prop_assert!(fine, "{:?} of {}", read, told.escape_ascii());
            }
        }
    }
}
