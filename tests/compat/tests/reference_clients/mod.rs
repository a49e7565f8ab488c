//! The reference clients (clients/README.md) against a backend whose answers get lost in every way, behind a real Envoy with the
//! filter. Each client is a program that clients/DRIVER.md describes; `crates/xtask/scripts/clients.sh build` builds them.

mod alone;
mod callers;
mod driver;
mod killed;
mod model;
mod random;
mod sessions;
mod setup;
mod upstream;
mod verdict;

use anyhow::Result;
use driver::{CLIENTS, ReferenceClient};
use e2e::runner::{Group, Test, separate, sharing};
use sessions::ClientSetup;

pub(crate) fn groups() -> Result<Vec<Group>> {
    let model = separate(vec![Test::new("the model agrees with the table", |()| alone::model_agrees())]);
    Ok(CLIENTS.into_iter().filter(|client| client.is_asked_for()).map(group).chain([model]).collect())
}

fn group(client: ReferenceClient) -> Group {
    let tests = random::tests()
        .into_iter()
        .chain(alone::tests(client.is_browser))
        .chain(killed::tests())
        .chain(callers::tests())
        .map(|test| test.within(client.name));
    let group = sharing(move || ClientSetup::start(client), tests.collect());
    if client.is_there() {
        return group;
    }
    eprintln!(
        "SKIPPED: {} is not there or cannot run here, so nobody looks at what the client {} does when answers get lost. \
         `crates/xtask/scripts/clients.sh build` builds it, or says what it needs.",
        client.program().display(),
        client.name
    );
    group.left_out()
}
