//! Calls of the filter, made from here: the engine says what to send and what a reply means, as in the gateway.

use super::arguments::LiveArguments;
use crate::http::{HttpClient, HttpReply, NoReply};
use crate::input::variable;
use crate::render::upstream::NamedUpstream;
use edge_idempotency_engine::{Call, CallReply, MAX_REPLY_BYTES};

/// Headers of a call that hold a credential.
const CREDENTIALS: [&str; 2] = ["authorization", "x-vault-token"];

/// The addresses of the policy's clusters.
pub(super) struct Upstreams<'c> {
    pub(super) args: &'c LiveArguments,
}

impl Upstreams<'_> {
    /// The address of a cluster, if it is known.
    pub(super) fn named(&self, cluster: &str) -> Option<&NamedUpstream> {
        self.args.upstreams.iter().find(|upstream| upstream.name == cluster)
    }

    /// A client without a credential.
    pub(super) fn client(&self) -> HttpClient {
        HttpClient::new(self.args.restate.timeout()).allow_plain_http(self.args.restate.allows_plain_http())
    }

    /// Makes a call of the filter to `upstream`. `credential`: the header that the gateway adds, and its value.
    ///
    /// # Errors
    /// There is no reply.
    pub(super) fn send(
        &self,
        upstream: &NamedUpstream,
        call: &Call,
        credential: Option<(&str, String)>,
    ) -> Result<HttpReply, NoReply> {
        let of = |name: &str| call.headers.iter().find(|(other, _)| *other == name).map_or("", |(_, value)| value);
        let mut client = self.client();
        let own = call.headers.iter().filter(|(name, _)| CREDENTIALS.contains(name));
        let own = own.map(|(name, value)| (*name, value.clone()));
        let added = credential.filter(|(name, _)| of(name).is_empty());
        for (name, value) in own.chain(added) {
            client.always(name, &value).map_err(NoReply::Unusable)?;
        }
        let plain = |name: &str| !name.starts_with(':') && !CREDENTIALS.contains(&name);
        let mut headers: Vec<(&str, &str)> =
            call.headers.iter().filter(|(name, _)| plain(name)).map(|(name, value)| (*name, value.as_str())).collect();
        headers.push(("host", of(":authority")));
        let body = (!call.body.is_empty()).then_some(call.body.as_slice());
        client.send(of(":method"), &format!("{}{}", upstream.url(), of(":path")), &headers, body)
    }
}

/// A reply as the engine reads it.
pub(super) fn as_reply(reply: &HttpReply) -> CallReply<'_> {
    CallReply {
        status: Some(reply.status),
        body: Some(reply.body.as_slice()).filter(|body| body.len() <= MAX_REPLY_BYTES),
    }
}

/// A credential of this command's environment: the first of these variables that is set.
pub(super) fn credential(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| variable(name)).and_then(|value| String::from_utf8(value).ok())
}
