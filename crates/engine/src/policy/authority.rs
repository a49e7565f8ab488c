//! The authority of a request: a host and at most one port (RFC 9110 section 7.2, RFC 3986 section 3.2).
//!
//! Filters in front of this one read the authority too, and they parse unusual ones in different ways. So an ambiguous
//! authority is refused. One host has many spellings: the gateway chooses its virtual host whatever the letter case, and
//! may ignore a port or a final dot, while a route's host is compared byte for byte. So an authority that spells a host of
//! the policy in another way than the policy is refused, too (docs/contract.md section 2): it would get around the routes
//! of this host.

use super::path::PathError;
use std::borrow::Cow;

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
    let (host, port) = split_port(text).ok_or(PathError::Authority)?;
    let is_authority = is_host(host) && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port));
    if is_authority { Ok(text) } else { Err(PathError::Authority) }
}

/// The host, and the rest with its colon; `None` if a bracket is not closed.
fn split_port(authority: &str) -> Option<(&str, &str)> {
    let from = if authority.starts_with('[') { authority.find(']')? } else { 0 };
    let colon = authority.as_bytes().get(from..)?.iter().position(|byte| *byte == b':');
    authority.split_at_checked(colon.map_or(authority.len(), |at| at + from))
}

/// The host of an authority that [`parse`] accepts, in its canonical form: in lower case, without a port and without one
/// final dot; an address as URLs write it (the host serializer of the WHATWG's URL standard): IPv6 without leading zeros and
/// with `::` for the longest run of zeros, IPv4 with four decimal parts.
pub(super) fn canonical(authority: &str) -> Cow<'_, str> {
    // Most authorities are: there is no capital, no colon and no final dot, and the last label does not begin with a digit.
    let last_label = authority.rsplit('.').next().unwrap_or_default();
    if !authority.bytes().any(|byte| byte.is_ascii_uppercase() || byte == b':')
        && last_label.bytes().next().is_some_and(|first| !first.is_ascii_digit())
    {
        return Cow::Borrowed(authority);
    }
    let (host, _) = split_port(authority).unwrap_or((authority, ""));
    let host = host.to_ascii_lowercase();
    let address = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    Cow::Owned(match address {
        Some(address) => ipv6(address).map_or_else(|| host.clone(), ipv6_text),
        None => {
            let name = host.strip_suffix('.').unwrap_or(&host);
            ipv4(name).map_or_else(|| name.to_owned(), ipv4_text)
        }
    })
}

/// The groups of an IPv6 address (RFC 4291 section 2.2).
pub(crate) fn ipv6(text: &str) -> Option<Vec<u32>> {
    let (before, after) = text.split_once("::").map_or((text, None), |(before, after)| (before, Some(after)));
    let mut groups = Vec::with_capacity(8);
    read_groups(before, after.is_none(), &mut groups)?;
    if let Some(after) = after {
        let mut rest = Vec::with_capacity(8);
        read_groups(after, true, &mut rest)?;
        let zeros = 8_usize.checked_sub(groups.len() + rest.len()).filter(|zeros| *zeros > 0)?;
        groups.resize(groups.len() + zeros, 0);
        groups.append(&mut rest);
    }
    (groups.len() == 8).then_some(groups)
}

/// Reads groups with colons between them; the last two of an address may be written as an IPv4 address.
fn read_groups(part: &str, ends_address: bool, groups: &mut Vec<u32>) -> Option<()> {
    let mut pieces = part.split(':').filter(|_| !part.is_empty()).peekable();
    while let Some(piece) = pieces.next() {
        if piece.contains('.') && ends_address && pieces.peek().is_none() {
            let bits = ipv4(piece).filter(|_| piece.split('.').count() == 4)?;
            groups.extend([bits >> 16, bits & 0xffff]);
        } else {
            groups.push(u32::from_str_radix(piece, 16).ok().filter(|_| piece.len() <= 4)?);
        }
    }
    Some(())
}

/// An IPv6 address in brackets.
fn ipv6_text(groups: Vec<u32>) -> String {
    let (mut start, mut length, mut run) = (0, 1, 0);
    for (place, group) in groups.iter().enumerate() {
        run = if *group == 0 { run + 1 } else { 0 };
        if run > length {
            (start, length) = (place + 1 - run, run);
        }
    }
    let mut text = "[".to_owned();
    for (place, group) in groups.into_iter().enumerate() {
        if length > 1 && (start..start + length).contains(&place) {
            text.push_str(if place == start { "::" } else { "" });
            continue;
        }
        text.push_str(if place == 0 || text.ends_with(':') { "" } else { ":" });
        text.push_str(&format!("{group:x}"));
    }
    text + "]"
}

/// A number that URLs read as an IPv4 address: one to four parts, decimal, octal (`0177`) or hexadecimal (`0x7f`), the last
/// of which fills the rest of the address.
fn ipv4(name: &str) -> Option<u32> {
    let number = |part: &str| match part.strip_prefix("0x") {
        Some("") => Some(0),
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None if part.len() > 1 && part.starts_with('0') => u32::from_str_radix(part, 8).ok(),
        None => part.parse().ok(),
    };
    let (mut bits, mut left) = (0_u32, 32_u32);
    let mut parts = name.split('.').peekable();
    while let Some(part) = parts.next() {
        let number = number(part)?;
        let width = if parts.peek().is_some() { 8.min(left.checked_sub(8)?) } else { left };
        if width < 32 && number >> width != 0 {
            return None;
        }
        left -= width;
        bits |= number << left;
    }
    (left == 0).then_some(bits)
}

fn ipv4_text(bits: u32) -> String {
    format!("{}.{}.{}.{}", bits >> 24, bits >> 16 & 255, bits >> 8 & 255, bits & 255)
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
    fn each_host_has_one_canonical_form() {
        for (authority, host) in [
            ("api.example.com", "api.example.com"),
            ("API.Example.com", "api.example.com"),
            ("api.example.com.", "api.example.com"),
            ("api.example.com:443", "api.example.com"),
            ("API.example.com.:8443", "api.example.com"),
            ("api.example.com..", "api.example.com."),
            (".", ""),
            ("XN--MNCHEN-3YA.example", "xn--mnchen-3ya.example"),
            ("[::1]", "[::1]"),
            ("[2001:DB8:0:0:0:0:0:1]:80", "[2001:db8::1]"),
            ("[0:0:0:0:0:FFFF:192.0.2.1]", "[::ffff:c000:201]"),
            ("[::]", "[::]"),
            ("[1::]", "[1::]"),
            ("[1:0:0:2:0:0:0:0abc]", "[1:0:0:2::abc]"),
            ("[1:0:2:3:4:5:6:7]", "[1:0:2:3:4:5:6:7]"),
            ("[1:0:0:2:3:0:0:4]", "[1::2:3:0:0:4]"),
            ("[1:2:3:4:5:6:7::]", "[1:2:3:4:5:6:7:0]"),
            ("[1:2:3:4:5:6:7::8]", "[1:2:3:4:5:6:7::8]"),
            ("[::1::]", "[::1::]"),
            ("[::00001]", "[::00001]"),
            ("[1.2.3.4::]", "[1.2.3.4::]"),
            ("[::1.2]", "[::1.2]"),
            ("[1:2:3:4:5:6:7:8:9]", "[1:2:3:4:5:6:7:8:9]"),
            ("[1:2:3]", "[1:2:3]"),
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1.:80", "192.0.2.1"),
            ("192.0.513", "192.0.2.1"),
            ("192.513", "192.0.2.1"),
            ("3221225985", "192.0.2.1"),
            ("0300.0.0X2.01", "192.0.2.1"),
            ("0xC0000201", "192.0.2.1"),
            ("0x.0.0.0", "0.0.0.0"),
            ("4294967295", "255.255.255.255"),
            ("4294967296", "4294967296"),
            ("256.0.0.1", "256.0.0.1"),
            ("192.0.2.256", "192.0.2.256"),
            ("192.0.2.08", "192.0.2.08"),
            ("192.0..1", "192.0..1"),
            ("1.2.3.4.5", "1.2.3.4.5"),
            ("api.1example", "api.1example"),
        ] {
            assert_eq!(parse(authority.as_bytes()), Ok(authority));
            assert_eq!(canonical(authority), host, "{authority}");
            // One final dot goes, and not all of them.
            assert!(canonical(host) == host || host.ends_with('.'), "{host}");
        }
        assert!(matches!(canonical("api.example.com"), Cow::Borrowed(_)), "most hosts are not copied");
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
