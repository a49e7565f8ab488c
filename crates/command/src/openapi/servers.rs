//! The hosts and the beginnings of paths that `servers` gives.

use super::references::{References, pointer};
use super::unread::UnreadPart;
use crate::lints::diagnostics::tree::SpannedNode;

/// Where a server of a description is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerPlace {
    /// The host in lower case, without a port; `None` if the URL is relative
    pub(crate) host: Option<String>,
    /// The beginning of every path, without a slash at its end
    pub(crate) path: String,
}

/// The places of a list of servers, each once; `None` if there is no list, an empty one, or none that can be read. A server whose URL
/// has a variable without a default is added to `unread`. `names`: from the root of the document to the object with the list.
pub(crate) fn places<'t>(
    references: &References<'t>,
    node: &'t SpannedNode,
    names: &[String],
    unread: &mut Vec<UnreadPart>,
) -> Option<Vec<ServerPlace>> {
    let servers = references.get(node, "servers")?.items();
    let mut places: Vec<ServerPlace> = Vec::new();
    for server in servers {
        let Some(url) = references.get(server, "url") else { continue };
        let Some(text) = url.text() else { continue };
        let substituted = substituted(references, server, text);
        if substituted.contains('{') {
            unread.push(UnreadPart {
                title: text.to_owned(),
                pointer: pointer(names.iter().map(String::as_str).chain(["servers"])),
                span: url.span.clone(),
                message: "the URL of a server has a variable without a default, so the server was not read".to_owned(),
                help: "write the variable and its `default` in `variables` of the server",
            });
            continue;
        }
        let place = place(&substituted);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    (!places.is_empty()).then_some(places)
}

/// The place of a description without servers.
pub(crate) fn default_place() -> ServerPlace {
    ServerPlace { host: None, path: String::new() }
}

/// A URL with the defaults of its variables.
fn substituted<'t>(references: &References<'t>, server: &'t SpannedNode, url: &str) -> String {
    let mut url = url.to_owned();
    let variables = references.get(server, "variables").map(SpannedNode::members).unwrap_or_default();
    for variable in variables {
        let Some(default) = references.text(&variable.value, "default") else { continue };
        url = url.replace(&format!("{{{}}}", variable.name), default);
    }
    url
}

fn place(url: &str) -> ServerPlace {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let behind_scheme = url.split_once("://").map(|(_, rest)| rest);
    let (host, path) = match behind_scheme.or_else(|| url.strip_prefix("//")) {
        Some(rest) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit('@').next().unwrap_or_default();
            let without_port = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
            (Some(without_port.map_or(host, |(host, _)| host).to_ascii_lowercase()), path)
        }
        None => (None, url),
    };
    let path = path.trim_matches('/');
    let path = if path.is_empty() || path == "." { String::new() } else { format!("/{path}") };
    ServerPlace { host, path }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::yaml;

    #[test]
    fn a_url_is_a_host_and_the_beginning_of_paths() {
        for (url, host, path) in [
            ("https://API.example.com:8443/v1/", Some("api.example.com"), "/v1"),
            ("https://api.example.com", Some("api.example.com"), ""),
            ("http://user@[2001:db8::1]:80/a?b#c", Some("[2001:db8::1]"), "/a"),
            ("http://[2001:db8::1]/", Some("[2001:db8::1]"), ""),
            ("/", None, ""),
            ("/api/v1", None, "/api/v1"),
            ("api/v1/", None, "/api/v1"),
            (".", None, ""),
            ("//api.example.com/v1", Some("api.example.com"), "/v1"),
        ] {
            assert_eq!(place(url), ServerPlace { host: host.map(str::to_owned), path: path.to_owned() }, "{url}");
        }
    }

    #[test]
    fn variables_have_their_defaults_and_equal_places_count_once() {
        let tree = yaml::read(
            "servers:\n- {url: 'https://{region}.example.com/{version}', variables: {region: {default: eu}, version: {default: v2}}}\n\
             - {url: https://eu.example.com/v2}\n- {description: no URL}\n",
        )
        .unwrap();
        let found = places(&References::new(&tree), &tree, &[], &mut Vec::new()).unwrap();
        assert_eq!(found, [ServerPlace { host: Some("eu.example.com".to_owned()), path: "/v2".to_owned() }]);
        let none = yaml::read("servers: []\n").unwrap();
        assert_eq!(places(&References::new(&none), &none, &[], &mut Vec::new()), None);
    }
}
