//! API keys: what Unkey is asked, what its verdict means, how long it counts, and that the keys are kept nowhere.

use super::{CacheSetup, START, not_found, request, shown};
use edge_idempotency_engine::api_keys::ApiKey;
use edge_idempotency_engine::lookup::{KeyQuestion, LookupRequest, StoreKind};
use serde_json::{Value, json};

const KEYS: StoreKind = StoreKind::ApiKeys;

/// Unkey's reply about a key of this tenant.
pub(super) fn held(tenant: &str) -> Value {
    let data = json!({
        "valid": true, "code": "VALID", "keyId": "key_1", "identity": {"externalId": tenant},
        "meta": {"project_id": "shop"},
    });
    json!({"meta": {"requestId": "req_1"}, "data": data})
}

fn asked(setup: &mut CacheSetup, key: &str, reply: &Value) -> String {
    let (_, None) = setup.ask(KEYS, key) else { panic!("{key} is in the cache") };
    let call = setup.call();
    setup.reply_bytes(&call, Some(200), Some(reply.to_string().as_bytes()));
    setup.answers().remove(0).1
}

#[test]
fn unkey_is_asked_for_the_key_and_its_permissions() {
    let mut setup = CacheSetup::new();
    let mut body = |permissions: Option<&str>| {
        let question = KeyQuestion { key: ApiKey::new("sk_1").unwrap(), permissions: permissions.map(Into::into) };
        let asked = LookupRequest::about_key(question);
        assert!(!format!("{asked:?}").contains("sk_1"), "{asked:?}");
        assert!(setup.lookups.look_up(1, &asked, &|| None, START).is_none());
        let (id, call) = setup.call();
        assert!(!format!("{id:?}").contains("sk_1"), "{id:?}");
        assert_eq!(call.cluster, "keys");
        serde_json::from_slice::<Value>(&call.body).unwrap()
    };
    assert_eq!(body(None), json!({"key": "sk_1", "credits": {"cost": 0}}));
    // Another question is another result.
    let permissions = json!({"key": "sk_1", "credits": {"cost": 0}, "permissions": "a AND b"});
    assert_eq!(body(Some("a AND b")), permissions);
}

#[test]
fn a_revoked_key_counts_for_the_time_of_the_cache_and_no_longer() {
    let mut setup = CacheSetup::new();
    assert_eq!(asked(&mut setup, "sk_1", &held("acme")), "acme:shop:key_1");
    for _ in 0..29 {
        setup.pass(1.0);
        setup.lookups.tick(setup.now);
        assert_eq!(setup.ask(KEYS, "sk_1").1.as_deref(), Some("acme:shop:key_1"));
        // A call needs the key, which only a request has.
        for call in setup.calls() {
            setup.reply_bytes(&call, None, None);
        }
    }
    setup.pass(1.0);
    setup.lookups.tick(setup.now);
    assert_eq!(setup.calls().len(), 0, "nobody has asked");
    assert_eq!(asked(&mut setup, "sk_1", &not_found()), "unknown:api_key_not_found");
    assert_eq!(setup.ask(KEYS, "sk_1").1.as_deref(), Some("unknown:api_key_not_found"));
    setup.pass(10.0);
    assert_eq!(asked(&mut setup, "sk_1", &held("acme")), "acme:shop:key_1");
}

#[test]
fn while_unkey_is_down_nothing_is_used_beyond_its_time() {
    let mut setup = CacheSetup::new();
    asked(&mut setup, "sk_1", &held("acme"));
    setup.pass(30.0);
    setup.lookups.tick(setup.now);
    let (_, None) = setup.ask(KEYS, "sk_1") else { panic!("the cache has it") };
    let call = setup.call();
    setup.reply_bytes(&call, None, None);
    assert_eq!(setup.answers().remove(0).1, "unavailable:registry_unreachable");
}

#[test]
fn a_request_that_comes_shortly_before_the_end_has_the_key_asked_for_again() {
    let mut setup = CacheSetup::new();
    asked(&mut setup, "sk_1", &held("acme"));
    setup.pass(27.0);
    assert_eq!(setup.ask(KEYS, "sk_1").1.as_deref(), Some("acme:shop:key_1"));
    let call = setup.call();
    setup.reply_bytes(&call, Some(200), Some(held("other").to_string().as_bytes()));
    assert_eq!(setup.ask(KEYS, "sk_1").1.as_deref(), Some("other:shop:key_1"));
}

#[test]
fn a_rate_limit_is_asked_for_again_when_it_has_passed() {
    let mut setup = CacheSetup::new();
    let limited = |reset: u64| {
        let limits = json!([{"exceeded": true, "reset": reset}, {"exceeded": false, "reset": START + 3_600_000}]);
        json!({"data": {"valid": false, "code": "RATE_LIMITED", "ratelimits": limits}})
    };
    assert_eq!(asked(&mut setup, "sk_1", &limited(START + 2_500)), "limited:3");
    setup.pass(2.9);
    assert_eq!(setup.ask(KEYS, "sk_1").1.as_deref(), Some("limited:1"));
    setup.pass(0.1);
    assert_eq!(asked(&mut setup, "sk_1", &held("acme")), "acme:shop:key_1");
    // A reset in the past.
    assert_eq!(asked(&mut setup, "sk_3", &limited(1)), "limited:1");
    // A limit of a day is told, and asked for again within the time of negative results.
    assert_eq!(asked(&mut setup, "sk_2", &limited(START + 86_400_000 * 30)), "limited:86400");
    setup.pass(10.0);
    assert!(setup.ask(KEYS, "sk_2").1.is_none());
}

#[test]
fn keys_that_are_made_up_cost_bounded_memory_and_calls() {
    let mut setup = CacheSetup::new();
    asked(&mut setup, "sk_warm", &held("acme"));
    let mut calls = 0;
    for number in 0..50_000 {
        setup.ask(KEYS, &format!("sk_{number}"));
        for call in setup.calls() {
            calls += 1;
            setup.reply_bytes(&call, Some(200), Some(not_found().to_string().as_bytes()));
        }
        setup.answers();
        // 50,000 keys in 20 seconds, which is within the time of the warm one.
        setup.now += u64::from(number % 5 == 0) * 2;
    }
    let [positive, negative, under_way] = setup.lookups.sizes();
    assert!(calls <= 1024 + 20 * 50 + 50, "{calls}");
    assert!(positive == 1 && negative <= 4096 && under_way == 0, "{positive} {negative} {under_way}");
    assert_eq!(setup.ask(KEYS, "sk_warm").1.as_deref(), Some("acme:shop:key_1"));
}

#[test]
fn a_webhook_id_is_no_api_key_and_an_api_key_no_webhook_id() {
    let mut setup = CacheSetup::new();
    assert_eq!(asked(&mut setup, "wh_01JSTRIPE", &super::verified("acme")), "unknown:api_key_of_another_kind");
    let asked = request(StoreKind::Bindings, "sk_00001", false);
    assert!(setup.lookups.look_up(90, &asked, &|| None, setup.now).is_none());
    let call = setup.call();
    setup.reply_bytes(&call, Some(200), Some(held("acme").to_string().as_bytes()));
    assert_eq!(setup.answers().remove(0).1, "unknown:binding_of_another_kind");
    assert!(
        setup
            .lookups
            .look_up(91, &asked, &|| None, setup.now)
            .is_some_and(|answer| shown(&answer).starts_with("unknown"))
    );
}
