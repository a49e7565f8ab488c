//! Spellings of one host: the routes of the listener that leaves authorities as clients wrote them, the generator, and the
//! model's own way to see that two spellings are of one host.

use super::api::{Keys, PUBLIC, ROUTE, Route};
use super::case::Case;
use super::hosts::replace;
use super::random::Random;

const PAY: &str = "pay.example.com";
const HOOKS: &str = "hooks.example.com";
const MUNICH: &str = "xn--mnchen-3ya.example";
const SIX: &str = "[2001:db8::1]";
const FOUR: &str = "192.0.2.1";
const SHOPS: &str = "*.shops.example.com";

/// Routes of hosts, beside which everything is forwarded that no route declares.
pub(crate) const HOSTS: [Route; 6] = [
    Route { endpoint: "orders.create", path: "/api/v1/orders", example: (PUBLIC, "/api/v1/orders"), ..ROUTE },
    Route { endpoint: "pay", path: "/pay", hosts: &[PAY, MUNICH], example: (PAY, "/pay"), ..ROUTE },
    Route { endpoint: "pay.address", path: "/pay", hosts: &[SIX, FOUR], example: (SIX, "/pay"), ..ROUTE },
    Route {
        endpoint: "hooks",
        path: "/hooks/{name}",
        hosts: &[HOOKS],
        keys: Keys::Prohibited,
        example: (HOOKS, "/hooks/stripe"),
        ..ROUTE
    },
    Route { endpoint: "shops", path: "/pay", hosts: &[SHOPS], example: ("a.shops.example.com", "/pay"), ..ROUTE },
    Route {
        endpoint: "devices.register",
        path: "/api/v1/devices",
        keys: Keys::Internal,
        example: ("other.example", "/api/v1/devices"),
        ..ROUTE
    },
];

/// Hosts that a request may name, in their declared spelling; the last ones are near misses that no route has.
const NAMES: [&str; 11] = [
    PAY,
    HOOKS,
    MUNICH,
    SIX,
    FOUR,
    "a.shops.example.com",
    "shops.example.com",
    "xpay.example.com",
    "pay.example.com.evil.example",
    "pay-example.com",
    "[2001:db8::2]",
];

/// Other spellings of addresses, and texts that look like them.
const ADDRESSES: [&str; 22] = [
    "[2001:DB8::1]",
    "[2001:db8:0:0:0:0:0:1]",
    "[2001:0db8::0001]",
    "[2001:db8::0.0.0.1]",
    "[2001:db8:0::1]",
    "[2001:db8::00001]",
    "[2001:db8::1::]",
    "[2001:db8:1]",
    "[::2001:db8:0:1]",
    "[::ffff:192.0.2.1]",
    "192.0.513",
    "192.513",
    "3221225985",
    "0xC0.0.2.1",
    "0xc0000201",
    "0300.0.02.01",
    "192.0.2.01",
    "192.0.2.1.",
    "192.0.2.256",
    "192.0.2.1.0",
    "192.0.2.09",
    "4294967297",
];

/// Names outside ASCII.
const FOREIGN: [&str; 7] = [
    "m\u{fc}nchen.example",
    "M\u{dc}NCHEN.example",
    "m%C3%BCnchen.example",
    "pay\u{3002}example.com",
    "\u{ff50}ay.example.com",
    "p%61y.example.com",
    "pay.example.com\u{ad}",
];

/// Writes the authority in another way, and says how.
pub(crate) fn mutate(case: &mut Case, random: &mut Random) -> String {
    match random.weighted(&[70, 20, 10]) {
        0 => {}
        1 => {
            let port = random.pick(&["", "", ":80", ":8443"]);
            let address = random.pick(&ADDRESSES);
            return replace(case, format!("{address}{port}"));
        }
        _ => return replace(case, random.pick(&FOREIGN).to_owned()),
    }
    let current = String::from_utf8_lossy(case.hosts.first().map(Vec::as_slice).unwrap_or_default()).into_owned();
    let mut host = if random.percent(60) { current } else { random.pick(&NAMES).to_owned() };
    if random.percent(50) {
        let often = random.pick(&[5, 30, 100]);
        let one = |letter: char| if random.percent(often) { letter.to_ascii_uppercase() } else { letter };
        host = host.chars().map(one).collect();
    }
    if random.percent(35) {
        host += random.pick(&[".", ".", "..", "..."]);
    }
    if random.percent(45) {
        host += random.pick(&[
            ":80", ":443", ":8443", ":0", ":00080", ":65535", ":65536", ":080080", ":", ":x", ":80:80", ":80.",
        ]);
    }
    replace(case, host)
}

/// The name of an authority in lower case, without its port and without one final dot.
fn name(authority: &str) -> String {
    let end = match authority.rfind(']') {
        Some(bracket) => bracket + 1,
        None => authority.find(':').unwrap_or(authority.len()),
    };
    let name: String = authority.chars().take(end).collect::<String>().to_lowercase();
    match name.strip_suffix('.') {
        Some(shorter) => shorter.to_owned(),
        None => name,
    }
}

/// The eight groups of an IPv6 address in brackets (RFC 4291 section 2.2).
fn six(name: &str) -> Option<Vec<u32>> {
    let text = name.strip_prefix('[')?.strip_suffix(']')?;
    let groups = |part: &str| -> Option<Vec<u32>> {
        let mut found = Vec::new();
        let pieces: Vec<&str> = if part.is_empty() { Vec::new() } else { part.split(':').collect() };
        for (place, piece) in pieces.iter().enumerate() {
            if piece.contains('.') && place + 1 == pieces.len() {
                let bytes: Vec<u32> = piece.split('.').map(decimal).collect::<Option<_>>()?;
                let [a, b, c, d] = bytes.as_slice() else { return None };
                found.extend([a * 256 + b, c * 256 + d]);
            } else {
                let fine = (1..=4).contains(&piece.len()) && piece.chars().all(|c| c.is_ascii_hexdigit());
                found.push(fine.then(|| u32::from_str_radix(piece, 16).ok()).flatten()?);
            }
        }
        Some(found)
    };
    match text.split_once("::") {
        None => groups(text).filter(|all| all.len() == 8),
        Some((before, after)) => {
            let (mut all, rest) = (groups(before)?, groups(after)?);
            let zeros = 8_usize.checked_sub(all.len() + rest.len()).filter(|zeros| *zeros > 0)?;
            all.extend(vec![0; zeros]);
            all.extend(rest);
            // Four bytes stand at the end alone.
            (!before.contains('.')).then_some(all)
        }
    }
}

/// One byte of an IPv4 address within an IPv6 address.
fn decimal(text: &str) -> Option<u32> {
    let plain = (1..=3).contains(&text.len()) && text.chars().all(|c| c.is_ascii_digit());
    let number = text.parse::<u32>().ok()?;
    (plain && number < 256 && (text == "0" || !text.starts_with('0'))).then_some(number)
}

/// The number of an IPv4 address in any form that inet_aton takes.
fn four(name: &str) -> Option<u64> {
    let numbers: Vec<u64> = name
        .split('.')
        .map(|part| match part.strip_prefix("0x") {
            Some("") => Some(0),
            Some(rest) => u64::from_str_radix(rest, 16).ok(),
            None if part.starts_with('0') && part != "0" => u64::from_str_radix(part, 8).ok(),
            None => part.parse().ok(),
        })
        .collect::<Option<_>>()?;
    let (last, front) = numbers.split_last()?;
    let width = 4_usize.checked_sub(front.len()).filter(|width| *width > 0)?;
    let space = 256_u64.pow(u32::try_from(width).ok()?);
    if front.iter().any(|number| *number > 255) || *last >= space {
        return None;
    }
    Some(front.iter().fold(0, |sum, number| sum * 256 + number) * space + last)
}

/// Whether an authority is a declared host, or one of a declared wildcard, in another spelling than the declared one.
pub(crate) fn is_other_spelling(routes: &[Route], authority: &str) -> bool {
    let plain = name(authority);
    let is_of = |host: &str| match host.strip_prefix('*') {
        Some(suffix) => plain.ends_with(suffix),
        None => {
            plain == host
                || six(&plain).is_some_and(|groups| six(host) == Some(groups))
                || four(&plain).is_some_and(|number| four(host) == Some(number))
        }
    };
    let is_declared = |host: &str| host == authority || (host.starts_with('*') && plain == authority);
    let hosts = || routes.iter().flat_map(|route| route.hosts).copied();
    hosts().any(is_of) && !hosts().filter(|host| is_of(host)).any(is_declared)
}
