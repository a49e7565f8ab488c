//! The secret store itself goes away: sealed, killed, started again; and a gateway without a token.

use anyhow::{Context as _, Result};
use e2e::config::ListenerSpec;
use e2e::gateway::{Gateway, Surroundings};
use e2e::lookup_stores::LookupStores;
use e2e::runner::{Test, runtime};
use harness::envoy::Stores;
use tempfile::TempDir;

use super::world::{Clear, LASTING, LONG, accepted, forwarded, policy, send, test, unavailable};

/// A gateway that asks the secret store itself.
pub(crate) struct Outages {
    gateway: Gateway,
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
    let stores = Stores { openbao: lookup_stores.openbao().address(), ..lookup_stores.stores() };
    let gateway = gateway(stores)?;
    Ok(Outages { gateway, lookup_stores, _directory: directory })
}

fn gateway(stores: Stores) -> Result<Gateway> {
    let listener = ListenerSpec { policy: policy(LONG), changes: Vec::new() };
    let around = Surroundings { stores: Some(stores), ..Surroundings::default() };
    Gateway::start_within(&around, &[(LASTING.to_owned(), listener)])
}

pub(crate) fn tests() -> Vec<Test<Outages>> {
    vec![
        test("sealed and unsealed", sealed),
        test("killed, started again, unsealed", killed),
        test("a gateway without a token, until there is one", no_token),
    ]
}

fn sealed(world: &Outages) -> Result<()> {
    let (warm, cold) = (world.lookup_stores.hook("warm-sealed")?, world.lookup_stores.hook("cold-sealed")?);
    accepted(&world.gateway, LASTING, &warm, &warm.delivery("evt_1"), "evt_1")?;
    runtime()?.block_on(world.lookup_stores.openbao().seal())?;
    unavailable(&world.gateway, LASTING, &cold.delivery("evt_1"))?;
    accepted(&world.gateway, LASTING, &warm, &warm.delivery("evt_2"), "evt_2")?;
    runtime()?.block_on(world.lookup_stores.openbao().unseal())?;
    // What the provider sends again.
    accepted(&world.gateway, LASTING, &cold, &cold.delivery("evt_1"), "evt_1")
}

fn killed(world: &Outages) -> Result<()> {
    let (warm, cold) = (world.lookup_stores.hook("warm-killed")?, world.lookup_stores.hook("cold-killed")?);
    accepted(&world.gateway, LASTING, &warm, &warm.delivery("evt_1"), "evt_1")?;
    world.lookup_stores.openbao().kill()?;
    unavailable(&world.gateway, LASTING, &cold.delivery("evt_1")).context("killed")?;
    accepted(&world.gateway, LASTING, &warm, &warm.delivery("evt_2"), "evt_2")?;
    runtime()?.block_on(world.lookup_stores.openbao().restart())?;
    unavailable(&world.gateway, LASTING, &cold.delivery("evt_1")).context("started again, and sealed")?;
    runtime()?.block_on(world.lookup_stores.openbao().unseal())?;
    accepted(&world.gateway, LASTING, &cold, &cold.delivery("evt_1"), "evt_1")
}

fn no_token(world: &Outages) -> Result<()> {
    let hook = world.lookup_stores.hook("no-token")?;
    let gateway = gateway(Stores { openbao_token: None, ..world.lookup_stores.stores() })?;
    unavailable(&gateway, LASTING, &hook.delivery("evt_1"))?;
    gateway.rotate_openbao_token(&world.lookup_stores.token())?;
    gateway.until("Envoy reads the token", |gateway| {
        Ok(send(gateway, LASTING, &hook.delivery("evt_1"))?.status == 200 && forwarded(gateway)?.len() == 1)
    })
}
