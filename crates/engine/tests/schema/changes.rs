//! A document that is changed in one place, in every way.

use super::{Schema, child, with, without};
use serde_json::{Map, Value, json};

/// Texts that are right in one place and wrong in others, and near misses of what is right somewhere.
const TEXTS: &str = r#"
    /a/b~1c /a~ /a~2 /a~0/ /1/2/3/4/5/6/7/8 /1/2/3/4/5/6/7/8/9
    a A _a -a .a a. . .. ... a,b a:b a-b a_b a/b é 0 10 a* ab* * ** a*b
    idempotency-key x-edge-idempotency host Host connection x-tenant x-project-id
    Content-Type content-types If-None-Match Cookie X-Forwarded-For x-forwarded traceparent x-b3-traceid X-Restate-Id
    Retry-After content-x Idempotent-x x-operation-id
    /:id /a/:b /:1 /* /** /a/*/b / // /a /a/ /a//b /./a /a/.. /.a /..a /%41 /%3a /%3A /%2F /%2f /%5C /%00 /%7E /%C3%A9 /% /%4 /a;b /a?b /a#b /é /a|b
    x-a- x-auth- x-envoy- X-a- x-- x-a-b- x-a [ a{9} (a) ^a a{99999} ulid uuid uuid7 any strip 8d 24h
    /x:@!$&'()*+,=~_-. /Cart/x /{a} /{A} /{a}b /b{a} /a:{b}/c{d} /a{b}{c} /a{b}c /%C3%A9{a} /%41{a} /%2F{a} /..{a} /a{b}/c{b} /{a}/{b} /{a}/{a} /{} /{a /a}
    /{operation_id} /a/{operation_id} /a/{operation_id}/b /{a}/{operation_id} /a/b:{operation_id} /%C3%A9/{operation_id} /a/{operation_id}/
    POST post CONNECT M-SEARCH
    https:// https:///a https://a http://a/b?c=d https://a#b ftp://a HTTPS://a https://[::1]/ https://é
    30s 0s 007d s -1s 1.5h 1w 24H
    user user:1 user: :1 User:1 user:a:b user:a%3Ab user:a%3ab user:a%41 user:a%00 user:a%7F user:%FF user:%
    stripe Stripe stripe-2 wh_12345 wh_1234 api-key webhooks.ingest
    api.example.com api.example.com:80 API.example.com api.example.com. [0::1] [::A] 0x7f.1 127.0.0.1 *.example.com *. *example.com a.*.b [::1] [ [] [x] [::1 a..b
    delay Delay delaysec limit-key
    Cart Cart/check Cart/a/check Cart//check /Cart/check Cart/check/ Cart/a/b/check Cart/{a/check Cart/a}/check
    Cart/{cart_id}/check Cart/{tenant}:{cart_id}/check Cart/{tenant}{cart_id}/check 1Cart/check Cart/é/check
    Cart/%41/check Cart/{unknown}/check api/check Cart/{body:/a/b~1c}/check Cart/{form:A.b}/check Cart/{body:a}/check Cart/{body:}/check
    Cart/{body:/a~2}/check Cart/{form:}/check Cart/{head:a}/check Cart/{body:/a/{b}}/check Cart/{body:/1/2/3/4/5/6/7/8/9}/check
    Cart/{body:/a}{form:b}/check Cart/{body:/a}-{form:b}/check Cart/{body:/a/check Cart/{body:/a}/b/check
    enforce shadow full off observe raw json kill pause restate generic conflict refuse webhook interactive
    {body:/id} /{body:/id} /{body:/id}/ /a/{body:/id}.x /a/.{body:/id} /{body:/a/0/b~1c} /{body:id} /{body:} /{body:/} /{body:/a~2} /{body:/a{b}
    /{body:/1/2/3/4/5/6/7/8} /{body:/1/2/3/4/5/6/7/8/9} /../{body:/id} /{body:/id}/.. /{body:/../id} /a/{order_id} /a/{order_id}{body:/x}
    PROHIBITED ACCEPTED REQUIRED_A REQUIRED_B HANDLER_INTERNAL_C required_a tenant platform project
"#;

fn values() -> Vec<Value> {
    let spaced = ["", " ", "\n", "a\n", "a b", "a\0", "GET ", "https://a b", "1 h", "wh 12345"].map(str::to_owned);
    let long = [63, 64, 65, 128, 129, 200, 201].map(|length| "a".repeat(length));
    let subjects = [200, 201].map(|length| format!("user:{}", "a".repeat(length)));
    let texts = TEXTS.split_whitespace().map(str::to_owned).chain(spaced).chain(long).chain(subjects);
    let numbers = [json!(0), json!(1), json!(1.0), json!(2), json!(-1), json!(1.5), json!(1e30)];
    let others =
        [json!(null), json!(true), json!(false), json!([]), json!([1]), json!(["a"]), json!({}), json!({"a": 1})];
    texts.map(Value::from).chain(numbers).chain(others).collect()
}

/// A document with one place changed.
pub(super) struct SingleChange {
    /// What a fault is about
    named: String,
    /// What is written in another way, and how; `None` leaves the member out
    place: String,
    value: Option<Value>,
}

impl SingleChange {
    /// `None` where there is no member to leave out.
    pub(super) fn of(self, document: &Value) -> Option<(String, Value)> {
        let changed = match self.value {
            Some(value) => with(document, &self.place, value),
            None => without(document, &self.place)?,
        };
        Some((self.named, changed))
    }
}

/// Every value in every place, the bounds of numbers, members left out, names of maps replaced.
pub(super) fn single_changes(schema: &Schema, document: &Value) -> Vec<SingleChange> {
    let mut changes = Vec::new();
    let values = values();
    let mut add = |named: String, place: &str, value: Option<Value>| {
        changes.push(SingleChange { named, place: place.to_owned(), value });
    };
    for (pointer, parts) in schema.places(document) {
        let holds_text = document.pointer(&pointer).is_some_and(Value::is_string);
        let fit = values.iter().filter(|value| holds_text || !value.is_string() || *value == "a" || *value == "");
        fit.for_each(|value| add(pointer.clone(), &pointer, Some(value.clone())));
        add(pointer.clone(), &pointer, None);
        for part in parts {
            for (name, step) in [("minimum", -1), ("maximum", 1)] {
                let Some(bound) = part.get(name).and_then(Value::as_i64) else { continue };
                add(pointer.clone(), &pointer, Some(bound.into()));
                add(pointer.clone(), &pointer, Some((bound + step).into()));
            }
            if part["additionalProperties"].is_object() {
                let members = document.pointer(&pointer).and_then(Value::as_object).unwrap();
                let (old, value) = members.iter().next().unwrap();
                for name in values.iter().filter_map(Value::as_str).filter(|name| !members.contains_key(*name)) {
                    let mut renamed: Map<String, Value> = members.clone();
                    renamed.shift_remove(old);
                    renamed.insert(name.to_owned(), value.clone());
                    add(child(&pointer, name), &pointer, Some(renamed.into()));
                }
            }
        }
    }
    changes
}
