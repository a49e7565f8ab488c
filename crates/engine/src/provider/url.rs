//! The parts of a public URL that signatures cover, and the spellings that senders use.

use super::form;

/// The parts of `scheme://authority/path?query#fragment`, not decoded and not normalised.
#[derive(Debug, Clone, Copy)]
pub(super) struct UrlParts<'u> {
    scheme: &'u [u8],
    /// User information and host, without the port
    host: &'u [u8],
    /// With its colon, or empty
    port: &'u [u8],
    /// From the first slash, query included, without a fragment
    path: &'u [u8],
}

impl<'u> UrlParts<'u> {
    /// Splits `url`; `None` if it is not absolute.
    pub(super) fn new(url: &'u [u8]) -> Option<Self> {
        let colon = url.iter().position(|byte| *byte == b':')?;
        let (scheme, rest) = url.split_at_checked(colon)?;
        let rest = rest.strip_prefix(b"://")?;
        let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#')).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(end)?;
        let path = path.split(|byte| *byte == b'#').next().unwrap_or_default();
        // The port follows the last colon, unless this colon is in an IPv6 address or in the user information.
        let digits = authority.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let (before, _) = authority.split_at_checked(authority.len().checked_sub(digits)?)?;
        let has_port = digits > 0 && before.ends_with(b":");
        let (host, port) = match before.strip_suffix(b":") {
            Some(host) if has_port => (host, authority.split_at_checked(host.len())?.1),
            _ => (authority, [].as_slice()),
        };
        Some(Self { scheme, host, port, path })
    }

    /// The path with its query.
    pub(super) const fn path(&self) -> &'u [u8] {
        self.path
    }

    /// The URL with the default port if it has no port, or without its port if it has one.
    fn other_port(&self) -> Vec<u8> {
        let port = match (self.port, self.scheme) {
            ([], b"https") => b":443".as_slice(),
            ([], b"http") => b":80",
            _ => b"",
        };
        [self.scheme, b"://", self.host, port, self.path].concat()
    }
}

/// The URL, and the URL with its port removed or the default port added: senders sign `https://host` in either form.
pub(super) fn with_and_without_port(url: &[u8]) -> Vec<Vec<u8>> {
    let mut variants = vec![url.to_vec()];
    variants.extend(UrlParts::new(url).map(|parts| parts.other_port()));
    variants
}

/// Decodes the twelve characters that HubSpot decodes before it signs.
pub(super) fn hubspot(url: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(url.len());
    let mut rest = url;
    while let Some((byte, after)) = rest.split_first() {
        rest = match (byte, after) {
            (b'%', [high, low, after @ ..]) => match form::decoded(&[b'%', *high, *low]).next() {
                Some(plain @ (b':' | b'/' | b'?' | b'@' | b'!' | b'$' | b'\'' | b'(' | b')' | b'*' | b',' | b';')) => {
                    out.push(plain);
                    after
                }
                _ => {
                    out.extend([b'%', *high, *low]);
                    after
                }
            },
            _ => {
                out.push(*byte);
                after
            }
        };
    }
    out
}

/// The query parameters, still encoded.
pub(super) fn query(url: &[u8]) -> impl Iterator<Item = form::Field<'_>> {
    let addressed = url.split(|byte| *byte == b'#').next().unwrap_or_default();
    form::fields(addressed.splitn(2, |byte| *byte == b'?').nth(1).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn other(url: &str) -> Option<String> {
        with_and_without_port(url.as_bytes()).get(1).map(|url| String::from_utf8(url.clone()).unwrap())
    }

    #[test]
    fn the_other_way_to_write_the_port() {
        for (url, expected) in [
            ("https://a.example/p?q=1", "https://a.example:443/p?q=1"),
            ("http://a.example", "http://a.example:80"),
            ("https://a.example?q=:1", "https://a.example:443?q=:1"),
            ("https://a.example:443//p", "https://a.example//p"),
            ("https://a.example:8443/p", "https://a.example/p"),
            ("https://u:1@a.example/p", "https://u:1@a.example:443/p"),
            ("https://u:1@a.example:8/p", "https://u:1@a.example/p"),
            ("https://[2001:db8::1]/p", "https://[2001:db8::1]:443/p"),
            ("https://[2001:db8::1]:8443/p", "https://[2001:db8::1]/p"),
            ("https://a.example/p#f", "https://a.example:443/p"),
        ] {
            assert_eq!(other(url).as_deref(), Some(expected), "{url}");
        }
        for url in ["", "/p", "a.example/p", "https:/a"] {
            assert_eq!(other(url), None, "{url}");
        }
    }

    #[test]
    fn paths_and_queries() {
        let path =
            |url: &'static str| String::from_utf8(UrlParts::new(url.as_bytes()).unwrap().path().to_vec()).unwrap();
        assert_eq!(path("https://a.example:1/p/%20?q=/#f"), "/p/%20?q=/");
        assert_eq!(path("https://a.example"), "");
        let names = |url: &'static str| query(url.as_bytes()).map(|field| field.name.len()).collect::<Vec<_>>();
        assert_eq!(names("https://a/p?a=1&bc=?&d#x=1"), [1, 2, 1]);
        assert_eq!(names("https://a/p"), [0; 0]);
    }

    #[test]
    fn hubspot_decodes_some_escapes() {
        let url = "https://a/%3a%2F%3F%40%21%24%27%28%29%2A%2C%3B%20%23%25%3%zz%";
        assert_eq!(hubspot(url.as_bytes()), b"https://a/:/?@!$'()*,;%20%23%25%3%zz%");
    }
}
