//! The authority of a request: a host and at most one port (RFC 9110 section 7.2, RFC 3986 section 3.2).
//!
//! Filters in front of this one read the authority too, and they parse unusual ones in different ways. So an ambiguous
//! authority is refused, and a route's host is compared with the whole authority, byte for byte, as the gateway's exact
//! rules do (docs/contract.md section 2). An authority with a port matches no host. The gateway removes a port; if
//! there still is one, the client sent two (`a:80:80`), and the gateway's rules saw another host.

use super::path::PathError;

/// Checks an authority and returns it unchanged: `api.example.com`, `192.0.2.1:80`, `[::1]:443`.
///
/// A host consists of `A-Z a-z 0-9 . _ ~ -`, or is an IPv6 address in brackets. A port has 1 to 5 digits and is at
/// most 65535.
///
/// # Errors
/// [`PathError::Authority`] for anything else: an empty host, two colons, a colon without digits, user information,
/// percent-encoding.
pub(crate) fn parse(authority: &[u8]) -> Result<&str, PathError> {
    let text = std::str::from_utf8(authority).map_err(|_| PathError::Authority)?;
    let address_end = if text.starts_with('[') { text.find(']') } else { Some(0) };
    let from = address_end.ok_or(PathError::Authority)?;
    let colon = text.bytes().skip(from).position(|byte| byte == b':').map(|at| at + from);
    let (host, port) = text.split_at_checked(colon.unwrap_or(text.len())).ok_or(PathError::Authority)?;
    let is_authority = is_host(host) && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port));
    if is_authority { Ok(text) } else { Err(PathError::Authority) }
}

/// Whether a text is a host name, an IPv4 address, or an IPv6 address in brackets.
pub(super) fn is_host(text: &str) -> bool {
    let address = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    match address {
        Some(address) => {
            address.contains(':') && address.bytes().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'))
        }
        None => !text.is_empty() && text.bytes().all(crate::percent::is_unreserved),
    }
}

fn is_port(digits: &str) -> bool {
    (1..=5).contains(&digits.len())
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && digits.parse::<u32>().is_ok_and(|port| port <= 65_535)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_and_at_most_one_port() {
        for authority in [
            "api.example.com",
            "API.example.com:8443",
            "api.example.com.",
            "localhost:0",
            "a_b~c-d:65535",
            "192.0.2.1:80",
            "[::1]",
            "[2001:DB8::1]:443",
            "[::ffff:192.0.2.1]:1",
        ] {
            assert_eq!(parse(authority.as_bytes()), Ok(authority));
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        for authority in [
            "",
            ":",
            ":80",
            "a:",
            "a:x",
            "a:80:80",
            "a:65536",
            "a:000080",
            "a:+80",
            "a: 80",
            "user@a",
            "user:1@a",
            "a,b",
            "a/b",
            "a?b",
            "a#b",
            "a\\b",
            "a b",
            "a%2eb",
            "\u{e9}",
            "::1",
            "[::1",
            "[]",
            "[a]",
            "[::1]x",
            "[::1]:",
            "[::1]:80:80",
            "[::1]]",
            "[[::1]]",
            "[fe80::1%25eth0]",
            "[v1.a:b]",
        ] {
            assert_eq!(parse(authority.as_bytes()), Err(PathError::Authority), "{authority}");
        }
        assert_eq!(parse(b"a\xff"), Err(PathError::Authority));
        assert_eq!(parse(b"a\0"), Err(PathError::Authority));
    }
}
