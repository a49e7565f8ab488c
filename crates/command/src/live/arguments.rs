//! Options of `check --live`: where everything is.

use crate::render::upstream::NamedUpstream;
use crate::restate_admin::connection::ConnectionArguments;
use clap::Args;

/// Where to ask. What no option names is not asked, and a note says so.
#[derive(Args)]
pub(crate) struct LiveArguments {
    /// Also asks what the policy needs whether it is there and works: guard, Restate, registry, secret store, key sets, gateway.
    #[arg(long, conflicts_with = "envoy")]
    pub(crate) live: bool,
    /// With --live, where a cluster of the policy is, as seen from here. Can be repeated.
    #[arg(long = "upstream", value_name = "NAME=URL", value_parser = NamedUpstream::parse, requires = "live")]
    pub(crate) upstreams: Vec<NamedUpstream>,
    /// With --live, the gateway's admin interface, such as http://127.0.0.1:9901.
    #[arg(long, value_name = "URL", requires = "live")]
    pub(crate) admin_envoy: Option<String>,
    /// With --live, a recorder's --status, such as http://127.0.0.1:9102.
    #[arg(long, value_name = "URL", requires = "live")]
    pub(crate) recorder: Option<String>,
    /// With --live, the keys of the issuer of tokens. Can be repeated.
    #[arg(long = "jwt-keys", value_name = "FILE|URL", requires = "live")]
    pub(crate) key_sets: Vec<String>,
    /// With --live, a webhook id that the registry has: its owner and its secret are looked up, too.
    #[arg(long, value_name = "ID", requires = "live")]
    pub(crate) webhook: Option<String>,
    #[command(flatten)]
    pub(crate) restate: ConnectionArguments,
}
