//! `NAME=URL`: a cluster of the gateway.

use super::needs::{GatewayNeeds, upstream_of};
use edge_idempotency_engine::policy::needs::BackendNeeds;
use std::collections::BTreeSet;
use std::net::IpAddr;

/// A cluster's name and where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedUpstream {
    /// The name, as the policy has it
    pub(crate) name: String,
    /// Whether TLS is spoken
    pub(crate) tls: bool,
    /// A name or an address, without brackets
    pub(crate) host: String,
    /// The port
    pub(crate) port: u16,
}

impl NamedUpstream {
    /// Reads `NAME=URL`. A URL is `http` or `https`, a host and perhaps a port.
    ///
    /// # Errors
    /// It is something else; the sentence says what to write.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (name, url) = text.split_once('=').ok_or("write NAME=URL, such as restate=http://restate:8080")?;
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
            return Err(format!("`{name}` is no name of a cluster: letters, digits, `.`, `_` and `-` are allowed"));
        }
        let (upstream, path) = Self::with_path(name, url)?;
        if path != "/" {
            return Err(format!("{url}: a cluster has no path; write the scheme, the host and the port only"));
        }
        Ok(upstream)
    }

    /// Reads a URL that may have a path, which is returned.
    ///
    /// # Errors
    /// As [`NamedUpstream::parse`].
    pub(crate) fn with_path(name: &str, url: &str) -> Result<(Self, String), String> {
        let expected = || format!("{url}: expected a URL such as http://restate:8080 or https://api.example.com");
        let (scheme, rest) = url.split_once("://").ok_or_else(expected)?;
        let tls = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(expected()),
        };
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        // Only the colon behind an address in brackets is the port's.
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| expected())?),
            _ => (authority, if tls { 443 } else { 80 }),
        };
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let named = bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
        if bare.is_empty() || port == 0 || !(named || bare.parse::<IpAddr>().is_ok()) || path.contains(['?', '#']) {
            return Err(expected());
        }
        Ok((Self { name: name.to_owned(), tls, host: bare.to_owned(), port }, path.to_owned()))
    }

    /// Whether it is an address and no name.
    pub(crate) fn is_address(&self) -> bool {
        self.host.parse::<IpAddr>().is_ok()
    }

    /// The URL again.
    pub(crate) fn url(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let (scheme, usual) = if self.tls { ("https", 443) } else { ("http", 80) };
        if self.port == usual { format!("{scheme}://{host}") } else { format!("{scheme}://{host}:{}", self.port) }
    }
}

/// The clusters of one backend in Envoy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BackendClusters {
    /// The cluster that is given; the filter's own calls go to it if the policy names it
    pub(crate) given: String,
    /// The cluster that requests of clients go to
    pub(crate) requests: String,
    /// The cluster of requests that wait for results, if there are any
    pub(crate) waits: Option<String>,
}

impl GatewayNeeds {
    /// The clusters of each backend: one for the filter's own calls, one for requests of clients and one for those that wait for
    /// results, so that none of them can use up the connections of another.
    ///
    /// # Errors
    /// As [`GatewayNeeds::upstreams`], or an upstream has one of these names; the sentence says what to write.
    pub(crate) fn clusters_of(&self, upstreams: &[NamedUpstream]) -> Result<Vec<BackendClusters>, String> {
        let given = self.upstreams(upstreams)?;
        let mut clusters: Vec<BackendClusters> = Vec::new();
        for (backend, given) in self.backends.iter().zip(given) {
            let requests =
                if backend.cluster.as_ref() == Some(&given) { format!("{given}-requests") } else { given.clone() };
            let waits = backend.waits.then(|| format!("{given}-waits"));
            let made = [Some(&requests).filter(|name| **name != given), waits.as_ref()];
            if let Some(taken) =
                made.into_iter().flatten().find(|name| upstreams.iter().any(|upstream| upstream.name == **name))
            {
                return Err(format!(
                    "--upstream {taken}: this is the name of a cluster that is made beside `{given}`; choose another"
                ));
            }
            clusters.push(BackendClusters { given, requests, waits });
        }
        Ok(clusters)
    }

    /// The upstream of each backend, of those that are given: for Restate the one that `cluster` names, else the one with the backend's name, else
    /// the only one that nothing else needs.
    ///
    /// # Errors
    /// One is missing, or it is not clear where requests go; the sentence says what to write.
    pub(crate) fn upstreams(&self, upstreams: &[NamedUpstream]) -> Result<Vec<String>, String> {
        let given: BTreeSet<&str> = upstreams.iter().map(|upstream| upstream.name.as_str()).collect();
        if given.len() != upstreams.len() {
            return Err("two --upstream have the same name".to_owned());
        }
        let of_backends = self.backends.iter().filter_map(upstream_of);
        let named: BTreeSet<&str> = self.clusters().into_keys().chain(of_backends).collect();
        let missing: Vec<String> =
            named.difference(&given).map(|name| format!("--upstream {name}=http://HOST:PORT")).collect();
        if !missing.is_empty() {
            return Err(format!(
                "the policy names clusters and backends that the gateway has to have: add {}",
                missing.join(" ")
            ));
        }
        let mut others = given.difference(&named);
        let (other, another) = (others.next(), others.next());
        let has_unnamed = self.backends.iter().any(|backend| upstream_of(backend).is_none());
        match (has_unnamed, other, another) {
            (false, Some(other), _) => {
                return Err(format!(
                    "--upstream {other}: the policy says where requests go ({}), so nothing would use it",
                    named.iter().copied().collect::<Vec<_>>().join(", ")
                ));
            }
            (true, None, _) => return Err("say where requests go: add --upstream backend=http://HOST:PORT".to_owned()),
            (true, Some(one), Some(two)) => {
                return Err(format!(
                    "--upstream {one} and {two}: requests go to one of them only, and the policy names neither; remove one"
                ));
            }
            (false, None, _) | (true, Some(_), None) => {}
        }
        let upstream = |backend: &BackendNeeds| upstream_of(backend).or(other.copied()).unwrap_or_default().to_owned();
        Ok(self.backends.iter().map(upstream).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_and_a_url_are_read() {
        for (text, host, port, tls) in [
            ("restate=http://restate:8080", "restate", 8080, false),
            ("b=https://api.example.com", "api.example.com", 443, true),
            ("b=http://127.0.0.1:1/", "127.0.0.1", 1, false),
            ("b=http://[::1]:9000", "::1", 9000, false),
        ] {
            let upstream = NamedUpstream::parse(text).unwrap();
            assert_eq!((upstream.host.as_str(), upstream.port, upstream.tls), (host, port, tls), "{text}");
            assert!(text.contains(&upstream.url()), "{}", upstream.url());
        }
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "restate",
            "=http://a",
            "a b=http://a",
            "a=tcp://a",
            "a=http://",
            "a=http://a:0",
            "a=http://a:x",
            "a=http://a/b",
            "a=http://u@a",
            "a=http://a/?q",
            "a=a:80",
        ] {
            assert!(NamedUpstream::parse(text).is_err(), "{text}");
        }
    }
}
