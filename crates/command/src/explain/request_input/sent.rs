//! What reaches the filter of a URL, a Host header and a method that somebody wrote down: what clients do not send as it is
//! written (`man curl`), and what the gateway changes or answers before the filter (docs/contract.md section 2).

use super::RequestInput;

/// The methods that Envoy's parser of HTTP/1.1 takes (`kValidMethods` of its `balsa_parser.cc`).
const HTTP1_METHODS: &str = "ACL BIND CHECKOUT CONNECT COPY DELETE GET HEAD LINK LOCK MERGE MKACTIVITY MKCALENDAR \
                             MKCOL MOVE MSEARCH NOTIFY OPTIONS PATCH POST PROPFIND PROPPATCH PURGE PUT REBIND REPORT \
                             SEARCH SOURCE SUBSCRIBE TRACE UNBIND UNLINK UNLOCK UNSUBSCRIBE";

impl RequestInput {
    /// Turns URL and Host header into the URL that the filter sees, and notes what is not as it was written.
    ///
    /// # Errors
    /// The request has no Host, so the gateway refuses it before the filter.
    pub(super) fn settle(&mut self) -> Result<(), String> {
        let Some((scheme, rest)) = self.url.split_once("://") else { return Ok(()) };
        let (authority, target) = rest.find(['/', '?', '\\']).map_or((rest, ""), |at| rest.split_at(at));
        let host = self.headers.iter().rev().find(|(name, _)| name == "host").map(|(_, value)| value.clone());
        if host.is_none() && self.removed.iter().any(|name| name == "host") {
            return Err(
                "-H 'Host:': the gateway answers 400 to a request without a Host, before the filter sees it".to_owned()
            );
        }
        let mut notes = Vec::new();
        let from_url = match authority.rsplit_once('@') {
            Some((_, host)) => {
                notes.push(
                    "The URL has a user's name or password. Clients send them in a header of their own, which is left out, because \
                     the filter does not read it."
                        .to_owned(),
                );
                host
            }
            None => authority,
        };
        let default_port = if scheme == "https" { ":443" } else { ":80" };
        let written = host.unwrap_or_else(|| from_url.strip_suffix(default_port).unwrap_or(from_url).to_owned());
        let host = stripped(&written);
        if host != written {
            notes.push(format!(
                "The gateway takes a port and a final dot off the host (`strip_any_host_port`, `strip_trailing_host_dot`): the \
                 filter sees {host}, not {written}."
            ));
        }
        let (path, query) = target.split_once('?').map_or((target, None), |(path, query)| (path, Some(query)));
        if path.contains('\\') {
            notes.push("The gateway reads a `\\` in the path as `/` (`normalize_path`).".to_owned());
        }
        let path = if path.is_empty() { "/".to_owned() } else { path.replace('\\', "/") };
        let query = query.map(|query| format!("?{query}")).unwrap_or_default();
        if !HTTP1_METHODS.split_ascii_whitespace().any(|known| known == self.method) {
            notes.push(format!(
                "Over HTTP/1.1 Envoy itself answers 400 to the method {}; over HTTP/2 the filter sees it.",
                self.method
            ));
        }
        self.url = format!("{scheme}://{host}{path}{query}");
        self.headers.retain(|(name, _)| name != "host");
        self.notes.extend(notes);
        Ok(())
    }
}

/// The authority without its final dot and its port, as Envoy takes them off (`stripTrailingHostDot` and `stripPortFromHost` of
/// its `header_utility.cc`): one of each.
fn stripped(authority: &str) -> String {
    let without_dot = match authority.rsplit_once('.') {
        Some((host, "")) => host.to_owned(),
        Some((host, port)) if port.starts_with(':') => format!("{host}{port}"),
        _ => authority.to_owned(),
    };
    match without_dot.rsplit_once(':') {
        Some((host, port)) if port.parse::<u32>().is_ok() => host.to_owned(),
        _ => without_dot,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settled(url: &str, host: Option<&str>) -> (String, usize) {
        let mut request = RequestInput { method: "POST".to_owned(), url: url.to_owned(), ..Default::default() };
        if let Some(host) = host {
            request.add_header(&format!("Host: {host}")).unwrap();
        }
        request.settle().unwrap();
        assert!(request.headers.is_empty());
        (request.url, request.notes.len())
    }

    #[test]
    fn the_filter_sees_the_host_without_what_gateway_and_client_take_off() {
        for (url, host, expected, notes) in [
            ("https://a", None, "https://a/", 0),
            ("https://a?x=1@b", None, "https://a/?x=1@b", 0),
            ("https://a:443/b", None, "https://a/b", 0),
            ("https://a:80/b", None, "https://a/b", 1),
            ("http://me:p@w@a:8080/b@c", None, "http://a/b@c", 2),
            ("https://a./b", None, "https://a/b", 1),
            ("https://a.:8443/b", None, "https://a/b", 1),
            ("https://[::1]:8443/b", None, "https://[::1]/b", 1),
            ("https://a/b", Some("c:1"), "https://c/b", 1),
            ("https://a/b", Some("me@c"), "https://me@c/b", 0),
            ("https://a:80:80/b", None, "https://a:80/b", 1),
            ("https://a:80./b", None, "https://a/b", 1),
            ("https://a../b", None, "https://a./b", 1),
            ("https://a:99x/b", None, "https://a:99x/b", 0),
            ("https://a\\b/c\\d?e\\f", None, "https://a/b/c/d?e\\f", 1),
        ] {
            assert_eq!(settled(url, host), (expected.to_owned(), notes), "{url} {host:?}");
        }
    }

    #[test]
    fn what_the_gateway_answers_is_told() {
        let mut request =
            RequestInput { method: "post".to_owned(), url: "https://a/".to_owned(), ..Default::default() };
        request.settle().unwrap();
        assert!(request.notes.join(" ").contains("400 to the method post"));
        request.add_header("Host:").unwrap();
        assert!(request.settle().unwrap_err().contains("without a Host"));
    }
}
