//! The bridge for KrakenD, in front of a recording upstream and of a real Restate. The gateway is a stand-in
//! (`krakend/internal/standin`), because CI cannot build KrakenD: KrakenD's own libraries lura and gin. It opens the real plugin as KrakenD
//! does, or has the package `executor` built in, as a custom build of KrakenD has.
//!
//! `make build` builds the stand-in and the plugin.

mod backend;
mod captured;
mod claims;
mod config;
mod load;
mod rendered;
mod standin;

use anyhow::Result;
use e2e::runner::{Group, long, separate, sharing};
use standin::{Way, without_c_compiler, without_go};

pub(crate) fn groups() -> Result<Vec<Group>> {
    let rendered = separate(rendered::tests()?);
    let mut groups = vec![if without_go() { rendered.left_out() } else { rendered }];
    for way in [Way::Plugin, Way::Executor] {
        let of_way = [
            sharing(move || captured::KrakendSetup::start(way, false), tests(way)),
            sharing(move || backend::KrakendBackendSetup::start(way), backend::tests(way)),
            sharing(move || captured::KrakendSetup::start_with(way, false, load::quiet()), load::tests(way)),
        ];
        let with_race = sharing(move || captured::KrakendSetup::start(way, true), load::race_tests(way));
        let runs = |group: Group, left_out: bool| if left_out { group.left_out() } else { group };
        groups.extend(of_way.map(|group| runs(group, without_go() || way == Way::Plugin && without_c_compiler())));
        if long() {
            groups.push(runs(with_race, without_go() || without_c_compiler()));
        }
    }
    Ok(groups)
}

fn tests(way: Way) -> Vec<e2e::runner::Test<captured::KrakendSetup>> {
    captured::tests(way).into_iter().chain(claims::tests(way)).collect()
}
