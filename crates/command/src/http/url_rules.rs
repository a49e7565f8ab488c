//! Rules for the URLs that the command calls: no user or password in them, and which hosts are this machine.

use std::net::IpAddr;
use ureq::http::Uri;

/// Refuses a URL with a user or a password: other users of the machine see arguments in the list of processes.
///
/// # Errors
/// A sentence that names `what` (such as `--unkey`) and does not repeat the URL.
pub(crate) fn without_user(what: &str, url: &str) -> Result<(), String> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err(format!("{what} contains a user name or a password before the host: leave them out"));
    }
    Ok(())
}

/// The URL. An error repeats it only if no `@` is in it.
///
/// # Errors
/// It is malformed, or holds a user or a password.
pub(super) fn parse(url: &str) -> Result<Uri, String> {
    without_user("the URL", url)?;
    let shown = if url.contains('@') { "the URL" } else { url };
    let uri: Uri = url.parse().map_err(|error| format!("{shown}: {error}"))?;
    let authority = uri.authority().map(|authority| authority.as_str()).unwrap_or_default();
    let behind_address = authority.rsplit(']').next().unwrap_or_default();
    if behind_address.contains(':') && uri.port_u16().is_none() {
        return Err(format!("{shown}: the port is not a number"));
    }
    Ok(uri)
}

/// Whether requests to a host stay on this machine: `localhost`, 127.0.0.0/8, ::1.
pub(super) fn is_loopback(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default();
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_address = host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback());
    is_address || host.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_and_passwords_are_refused_and_not_repeated() {
        for bad in ["https://me:planted@h/a", "me:planted@h", "http://planted@h?x", "https://a/b@h@planted@x"] {
            if let Err(error) = parse(bad) {
                assert!(!error.contains("planted"), "{bad}: {error}");
            }
        }
        assert!(without_user("--unkey", "https://me:planted@h/a").unwrap_err().starts_with("--unkey contains"));
        for good in ["https://h/a@b", "http://h:1?a=b@c", "https://[::1]:1/#@"] {
            assert_eq!(without_user("x", good), Ok(()), "{good}");
        }
        // A slash in a password ends the host.
        assert!(!parse("https://me:pass/planted@h").unwrap_err().contains("planted"));
    }

    #[test]
    fn loopback_is_this_machine() {
        let is = |url: &str| is_loopback(&parse(url).unwrap());
        for url in [
            "http://127.0.0.1:9070/a",
            "http://127.9.9.9",
            "http://LocalHost:1",
            "http://[::1]:1/",
            "http://[::ffff:127.0.0.1]/",
        ] {
            assert!(is(url), "{url}");
        }
        for url in
            ["http://10.0.0.1/", "http://localhost.example.com", "http://[::2]/", "http://127.0.0.1.example.com", "/a"]
        {
            assert!(!is(url), "{url}");
        }
    }
}
