//! The recipes of docs/callers.md for libraries that retry: each library sends requests through a real Envoy with the filter, without
//! configuration and with that of its file in `examples/retries`. The first attempt fails in ten ways, and the second one would succeed.

mod page;
mod programs;
mod recipe;
mod relay;
mod rust;
mod situations;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::scripted::{ScriptedRequest, ScriptedUpstream};
use anyhow::{Context as _, Result, ensure};
use e2e::config::{Change, ListenerSpec};
use e2e::gateway::{TestEnvironment, TestGateway};
use e2e::runner::{Group, Test, separate, sharing};
use harness::tokens;
use serde_json::{Value, json};

use programs::{RecipeCall, Told};
use recipe::{RECIPES, Recipe};
use relay::Relay;
use situations::Situation;

/// A listener with `answers` for SDKs, and one without.
const WITH_ANSWERS: &str = "with answers";
const SHIPPED: &str = "shipped";
const PATH: &str = "/v1/refunds";
/// A name follows.
const WITHOUT_KEY: &str = "/v1/notes/";
const NAMESPACE: &str = "t-acme:shop:user:u1:";
const BODY: &str = r#"{"order_id": "order-1001", "amount": 4200}"#;
/// How many programs run at once: each of them waits most of the time.
const AT_ONCE: usize = 12;
/// Less than the `Retry-After` of a situation. A slow machine makes a wait longer, never shorter.
const RETRY_AFTER: Duration = Duration::from_millis(950);

pub(crate) fn groups() -> Result<Vec<Group>> {
    let (mut tests, mut left_out, mut told) = (Vec::new(), Vec::new(), Vec::new());
    for recipe in &RECIPES {
        let missing = programs::missing(recipe);
        if let Some(why) = &missing
            && !told.contains(&recipe.label)
        {
            told.push(recipe.label);
            eprintln!("SKIPPED: {}, whose recipe is in examples/retries, is not tested: {why}", recipe.label);
        }
        for situation in Situation::ALL {
            let name = format!("{}: {}", recipe.name(), situation.heading());
            if missing.is_some() {
                left_out.push(name);
            } else {
                tests.push(Test::new(name, move |setup: &RecipesSetup| setup.check(recipe, situation)));
            }
        }
    }
    let group = sharing(RecipesSetup::start, tests);
    let page = Test::new("the page has the table", |&()| page::table());
    Ok(vec![left_out.into_iter().fold(group, Group::leaving_out), separate(vec![page])])
}

/// What all libraries did: they run side by side before the first test.
struct RecipesSetup {
    upstream: ScriptedUpstream,
    /// The relay of each key that has one.
    relays: BTreeMap<String, Relay>,
    /// What the application got, by the recipe's name; else why the program failed.
    told: BTreeMap<String, Result<Told, String>>,
    /// As long as the programs run.
    _gateway: TestGateway,
}

/// The name of the script; it is the key, or the end of the path.
fn script(recipe: &Recipe, situation: Situation) -> String {
    format!("{}-{situation:?}", recipe.name())
}

impl RecipesSetup {
    fn start() -> Result<Self> {
        let upstream = ScriptedUpstream::start()?;
        let around = TestEnvironment { backend: Some(upstream.address()), ..TestEnvironment::default() };
        let answers = json!({"retry_headers": ["stripe-should-retry"], "error_member": true});
        let gateway =
            TestGateway::start_within(&around, &[listener(SHIPPED, &json!({})), listener(WITH_ANSWERS, &answers)])?;
        let token = gateway.user_token()?;
        let mut relays = BTreeMap::new();
        let mut calls = Vec::new();
        for recipe in RECIPES.iter().filter(|recipe| programs::missing(recipe).is_none()) {
            let is_told_by_answers = recipe.is_configured && recipe.is_stripe();
            let address = gateway.address(if is_told_by_answers { WITH_ANSWERS } else { SHIPPED })?;
            let mut own = Vec::new();
            for situation in Situation::ALL {
                let name = script(recipe, situation);
                upstream.plays(&name, situation.script());
                let address = if let Some(first) = situation.relayed() {
                    let relay = Relay::start(address, first)?;
                    let address = relay.address();
                    relays.insert(name.clone(), relay);
                    address
                } else {
                    address
                };
                let (path, key) = match situation {
                    Situation::WithoutKey => (format!("{WITHOUT_KEY}{name}"), String::new()),
                    // The filter refuses a space.
                    Situation::Refused => (PATH.to_owned(), format!("{name} 1")),
                    _ => (PATH.to_owned(), name),
                };
                let url = format!("http://{address}{path}");
                own.push(RecipeCall { situation, url, token: token.clone(), key, body: BODY });
            }
            calls.push((recipe, own));
        }
        let (next, told) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
        thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    while let Some((recipe, calls)) = calls.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let result = programs::run(recipe, calls).map_err(|error| format!("{error:#}"));
                        told.lock().unwrap_or_else(PoisonError::into_inner).insert(recipe.name(), result);
                    }
                });
            }
        });
        Ok(Self {
            upstream,
            relays,
            told: told.into_inner().unwrap_or_else(PoisonError::into_inner),
            _gateway: gateway,
        })
    }

    /// What the library did in a situation is what is expected.
    fn check(&self, recipe: &Recipe, situation: Situation) -> Result<()> {
        let expected = recipe.expected.get(situation as usize).context("a situation without expectation")?;
        let told = self.told.get(&recipe.name()).context("the program did not run")?;
        let told = told.as_ref().map_err(|error| anyhow::anyhow!("{error}"))?;
        let told = told.get(&format!("{situation:?}")).context("the program printed nothing about it")?;
        let name = script(recipe, situation);
        let requests = self.upstream.requests(&name);
        let attempts = self.relays.get(&name).map_or(requests.len(), Relay::requests);
        ensure!(
            attempts == expected.attempts && told == expected.told,
            "attempts {attempts}, and the application gets {told}; expected {expected:?}"
        );
        if situation == Situation::Refused {
            ensure!(requests.is_empty(), "the backend got {requests:?}");
            return Ok(());
        }
        ensure!(requests.len() == attempts, "of {attempts} requests the backend got {}", requests.len());
        let first = requests.first().context("the backend got nothing")?;
        ensure!(recipe.is_stripe() || first.message.body == BODY.as_bytes(), "another body: {first:?}");
        ensure!(!first.message.body.is_empty(), "no body: {first:?}");
        for request in &requests {
            let keys = keys(request);
            if situation == Situation::WithoutKey {
                // Stripe's SDKs bring a key of their own.
                ensure!(keys.is_empty() != recipe.is_stripe(), "the backend got the keys {keys:?}");
                ensure!(keys == self::keys(first), "the backend got the keys {keys:?}, and before {first:?}");
            } else {
                ensure!(keys == [format!("{NAMESPACE}{name}")], "the backend got the keys {keys:?}");
            }
            let is_same = request.message.start == first.message.start && request.message.body == first.message.body;
            ensure!(is_same, "another request than the first one: {request:?}");
        }
        if let (true, Some(second)) = (expected.obeys, requests.get(1)) {
            let waited = second.at.duration_since(first.at);
            ensure!(waited >= RETRY_AFTER, "`Retry-After` is 1 s, and the second request came after {waited:?}");
        }
        Ok(())
    }
}

fn keys(request: &ScriptedRequest) -> Vec<String> {
    let lines = request.message.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("idempotency-key"));
    lines.map(|(_, value)| String::from_utf8_lossy(value).into_owned()).collect()
}

fn listener(name: &str, answers: &Value) -> (String, ListenerSpec) {
    let mut policy = json!({
        "version": 1,
        "identity": {"sources": [tokens::source()]},
        "backend": {"kind": "generic"},
        "routes": [
            {"endpoint": "refunds.create", "path": PATH, "policy": "REQUIRED_A"},
            {"endpoint": "notes.create", "path": format!("{WITHOUT_KEY}{{name}}"), "policy": "ACCEPTED"},
        ],
    });
    if let (Some(members), Some(answers)) = (policy.as_object_mut(), answers.as_object()) {
        members.extend(answers.clone());
    }
    (name.to_owned(), ListenerSpec { policy: policy.to_string(), changes: vec![Change::EveryPath] })
}
