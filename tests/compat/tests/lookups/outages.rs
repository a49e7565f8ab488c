//! The secret store itself goes away: sealed, killed, started again; and a gateway without a token.

use anyhow::{Context as _, Result};
use e2e::config::ListenerSpec;
use e2e::gateway::{TestEnvironment, TestGateway};
use e2e::lookup_stores::LookupStores;
use e2e::runner::{Test, runtime};
use harness::envoy::Stores;
use tempfile::TempDir;

use super::setup::{Clear, LASTING, LONG, accepted, forwarded, policy, send, test, unavailable};

/// A gateway that asks the secret store itself.
pub(crate) struct Outages {
    gateway: TestGateway,
    lookup_stores: LookupStores,
    _directory: TempDir,
}

impl Clear for Outages {
    fn clear(&self) {
        self.lookup_stores.forget();
        self.gateway.capture().take();
    }
}

pub(crate) fn start() -> Result<Outages> {
    let directory = tempfile::tempdir()?;
    let lookup_stores = LookupStores::start(directory.path())?;
    let stores = Stores { openbao: lookup_stores.openbao()?.address(), ..lookup_stores.stores() };
    let gateway = gateway(stores)?;
    Ok(Outages { gateway, lookup_stores, _directory: directory })
}

fn gateway(stores: Stores) -> Result<TestGateway> {
    let listener = ListenerSpec { policy: policy(LONG), changes: Vec::new() };
    let around = TestEnvironment { stores: Some(stores), ..TestEnvironment::default() };
    TestGateway::start_within(&around, &[(LASTING.to_owned(), listener)])
}

pub(crate) fn tests() -> Vec<Test<Outages>> {
    vec![
        test("sealed and unsealed", sealed),
        test("killed, started again, unsealed", killed),
        test("a gateway without a token, until there is one", no_token),
    ]
}

fn sealed(setup: &Outages) -> Result<()> {
    let (warm, cold) = (setup.lookup_stores.hook("warm-sealed")?, setup.lookup_stores.hook("cold-sealed")?);
    accepted(&setup.gateway, LASTING, &warm, &warm.delivery("evt_1"), "evt_1")?;
    runtime()?.block_on(setup.lookup_stores.openbao()?.seal())?;
    unavailable(&setup.gateway, LASTING, &cold.delivery("evt_1"))?;
    accepted(&setup.gateway, LASTING, &warm, &warm.delivery("evt_2"), "evt_2")?;
    runtime()?.block_on(setup.lookup_stores.openbao()?.unseal())?;
    // What the provider sends again.
    accepted(&setup.gateway, LASTING, &cold, &cold.delivery("evt_1"), "evt_1")
}

fn killed(setup: &Outages) -> Result<()> {
    let (warm, cold) = (setup.lookup_stores.hook("warm-killed")?, setup.lookup_stores.hook("cold-killed")?);
    accepted(&setup.gateway, LASTING, &warm, &warm.delivery("evt_1"), "evt_1")?;
    setup.lookup_stores.openbao()?.kill()?;
    unavailable(&setup.gateway, LASTING, &cold.delivery("evt_1")).context("killed")?;
    accepted(&setup.gateway, LASTING, &warm, &warm.delivery("evt_2"), "evt_2")?;
    runtime()?.block_on(setup.lookup_stores.openbao()?.restart())?;
    unavailable(&setup.gateway, LASTING, &cold.delivery("evt_1")).context("started again, and sealed")?;
    runtime()?.block_on(setup.lookup_stores.openbao()?.unseal())?;
    accepted(&setup.gateway, LASTING, &cold, &cold.delivery("evt_1"), "evt_1")
}

fn no_token(setup: &Outages) -> Result<()> {
    let hook = setup.lookup_stores.hook("no-token")?;
    let gateway = gateway(Stores { openbao_token: None, ..setup.lookup_stores.stores() })?;
    unavailable(&gateway, LASTING, &hook.delivery("evt_1"))?;
    gateway.rotate_openbao_token(&setup.lookup_stores.token())?;
    gateway.until("Envoy reads the token", |gateway| {
        Ok(send(gateway, LASTING, &hook.delivery("evt_1"))?.status == 200 && forwarded(gateway)?.len() == 1)
    })
}
