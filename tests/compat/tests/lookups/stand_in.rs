//! The stand-in for OpenBao that `make test` has (`LookupStores::stand_ins`) answers reads as the real one.

use anyhow::{Result, ensure};
use e2e::lookup_stores::LookupStores;
use e2e::runner::{Test, runtime};
use harness::http::Request;
use serde_json::{Value, json};

use super::setup::LookupsSetup;

pub(super) fn tests() -> Vec<Test<LookupsSetup>> {
    vec![Test::new("the stand-in answers reads as the real one", |setup: &LookupsSetup| {
        let (stand_in, real) = (answers(&LookupStores::stand_ins()?)?, answers(&setup.lookup_stores)?);
        ensure!(stand_in == real, "the stand-in answers {stand_in:#?}\nOpenBao answers {real:#?}");
        Ok(())
    })]
}

/// What a store says of a secret with two versions, and of one that is not there.
fn answers(stores: &LookupStores) -> Result<Vec<Value>> {
    let hook = stores.hook("compared")?;
    stores.sign_with(&hook, &json!({"secrets": ["whsec_new", "whsec_old"]}))?;
    let missing = stores.bound("missing").stored_at();
    let (url, token) = (format!("http://{}", stores.openbao_proxy.address()), stores.token().clone());
    let path = hook.stored_at();
    let mut answers = Vec::new();
    for path in
        [path.clone(), format!("{path}?version=1"), format!("{path}?version=2"), format!("{path}?version=9"), missing]
    {
        let request = Request::get(&format!("/v1/webhooks/data/{path}")).header("x-vault-token", &token);
        let reply = runtime()?.block_on(request.send(&url))?;
        let mut body = reply.json();
        // What is another one each time.
        for place in ["/request_id", "/data/metadata/created_time"] {
            if let Some(value) = body.pointer_mut(place) {
                *value = json!("");
            }
        }
        answers.push(json!({"path": path, "status": reply.status, "type": reply.header("content-type"), "body": body}));
    }
    Ok(answers)
}
