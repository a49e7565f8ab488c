//! A service that says who is calling (`--ext-authz`), in the place of tokens or beside them.

use super::needs::GatewayNeeds;
use super::upstream::NamedUpstream;
use serde_json::{Value, json};

/// Envoy's filter that asks the service. Identity sources name it in `headers_owned_by`.
pub(crate) const EXT_AUTHZ: &str = "envoy.filters.http.ext_authz";
/// The cluster of the service.
const CLUSTER: &str = "ext-authz";

/// The service.
#[derive(Clone, Debug)]
pub(crate) struct AuthorizationService {
    /// The cluster
    pub(crate) upstream: NamedUpstream,
    /// Whether it speaks gRPC
    pub(crate) grpc: bool,
    /// What stands before the request's path, for one that speaks HTTP
    path: String,
}

impl AuthorizationService {
    /// Reads a URL: `http` or `https` for a service that gets the request's head, `grpc` or `grpcs` for Envoy's own interface.
    ///
    /// # Errors
    /// It is something else; the sentence says what to write.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let expected = || format!("{text}: write a URL such as grpc://authz:9191, or http://authz:8080/check");
        let (scheme, rest) = text.split_once("://").ok_or_else(expected)?;
        let (grpc, http) = match scheme {
            "http" | "https" => (false, scheme),
            "grpc" => (true, "http"),
            "grpcs" => (true, "https"),
            _ => return Err(expected()),
        };
        let (upstream, path) =
            NamedUpstream::with_path(CLUSTER, &format!("{http}://{rest}")).map_err(|_| expected())?;
        if grpc && path != "/" {
            return Err(expected());
        }
        Ok(Self { upstream, grpc, path: path.trim_end_matches('/').to_owned() })
    }

    /// What the filter is made of.
    ///
    /// # Errors
    /// No identity source of the policy reads what this service says, or an upstream has its cluster's name.
    pub(crate) fn values(&self, needs: &GatewayNeeds, upstreams: &[NamedUpstream]) -> Result<Value, String> {
        let owned = needs.owners.iter().find(|(name, _)| name == EXT_AUTHZ).map(|(_, headers)| headers);
        if owned.is_none() && !needs.other_metadata.contains(EXT_AUTHZ) {
            return Err(format!(
                "--ext-authz: no identity source of the policy reads what this service says; write a source with \
                 \"headers_owned_by\": \"{EXT_AUTHZ}\" and the headers that it sets (docs/identity.md, \"Headers\")"
            ));
        }
        if upstreams.iter().any(|upstream| upstream.name == CLUSTER) {
            return Err(format!(
                "--upstream {CLUSTER}: this is the name of the cluster of --ext-authz; choose another"
            ));
        }
        let headers: Vec<Value> =
            owned.into_iter().flatten().map(|name| json!({"exact": name.to_ascii_lowercase()})).collect();
        Ok(json!({
            "grpc": self.grpc, "cluster": CLUSTER, "uri": self.upstream.url(), "path": self.path, "headers": headers,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_a_url() {
        let read = |text| AuthorizationService::parse(text);
        assert!(read("grpc://authz:9191").unwrap().grpc && !read("http://authz:8080").unwrap().grpc);
        assert!(read("grpcs://authz").unwrap().upstream.tls);
        assert_eq!(read("https://authz/check/").unwrap().path, "/check");
        for text in ["authz", "authz:9191", "tcp://authz", "grpc://authz/check", "http://"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
