//! Other spellings of the authority, and authorities that differ from each other.

use super::api::{ADMIN, INTERNAL, PUBLIC};
use super::case::{Case, Protocol};
use super::random::Random;

const HOSTS: [&str; 9] = [
    ADMIN,
    ADMIN,
    INTERNAL,
    INTERNAL,
    "eu.private.example.com",
    PUBLIC,
    "eu.example.net",
    "other.example",
    "[2001:db8::1]",
];

/// Changes the authority, and says how.
pub(crate) fn mutate(case: &mut Case, random: &mut Random) -> String {
    // A host that is denied is worth more attempts than the others.
    let current = String::from_utf8_lossy(case.hosts.first().map(Vec::as_slice).unwrap_or_default()).into_owned();
    let host = if random.percent(40) { current } else { random.pick(&HOSTS).to_owned() };
    match random.weighted(&[30, 12, 12, 10, 6, 14, 16]) {
        0 => {
            let port = random.pick(&[
                ":x",
                ":",
                ":80",
                ":65535",
                ":65536",
                ":080",
                ":000080",
                ":80:80",
                ":4294967376",
                ":\u{ff18}\u{ff10}",
                ":80.",
            ]);
            replace(case, format!("{host}{port}"))
        }
        1 => {
            let dot = random.pick(&[".", "..", ".:80", ":80.", "..:80", "...", ".:", ". ", "%2e", ".:x"]);
            replace(case, format!("{host}{dot}"))
        }
        2 => {
            let upper = match random.below(3) {
                0 => host.to_ascii_uppercase(),
                1 => host.replacen('e', "E", 1),
                _ => host.replacen(".com", ".COM", 1),
            };
            replace(case, upper)
        }
        3 => {
            let text = match random.below(5) {
                0 => format!("a@{host}"),
                1 => format!("a:b@{host}"),
                2 => format!("{host}@{PUBLIC}"),
                3 => format!("{PUBLIC}:80@{host}"),
                _ => format!("@{host}"),
            };
            replace(case, text)
        }
        4 => {
            let whole =
                random.pick(&["", "[::1]", "[::1]:80", "[2001:DB8::1]", "*", "*.private.example.com", ".", ":80"]);
            replace(case, whole.to_owned())
        }
        5 => {
            let text = match random.below(5) {
                0 => format!("{host}/x"),
                1 => format!("{host}#x"),
                2 => format!("{PUBLIC},{host}"),
                3 => host.replacen('a', "%61", 1),
                _ => format!("{host}\t"),
            };
            replace(case, text)
        }
        _ => two(case, &host, random),
    }
}

/// Makes this the only authority.
pub(crate) fn replace(case: &mut Case, host: String) -> String {
    let text = format!("host: {}", host.escape_debug());
    case.hosts = vec![host.into_bytes()];
    text
}

/// Two authorities in one request.
fn two(case: &mut Case, host: &str, random: &mut Random) -> String {
    if case.protocol == Protocol::Http2 {
        return match random.below(3) {
            0 => {
                case.hosts.push(host.as_bytes().to_vec());
                format!("host: a header {host} beside :authority")
            }
            1 => {
                case.hosts = vec![host.as_bytes().to_vec()];
                case.has_authority = false;
                format!("host: {host} without :authority")
            }
            _ => {
                case.hosts.clear();
                "host: none".to_owned()
            }
        };
    }
    match random.below(7) {
        0 => {
            case.hosts.push(host.as_bytes().to_vec());
            format!("host: a second line {host}")
        }
        1 => {
            case.hosts.insert(0, host.as_bytes().to_vec());
            format!("host: {host} in a line before")
        }
        2 => {
            case.hosts.clear();
            "host: no line".to_owned()
        }
        3 => {
            case.hosts = vec![host.as_bytes().to_vec()];
            case.absolute = Some(("http://", PUBLIC.as_bytes().to_vec()));
            format!("host: {host} beside the absolute form of {PUBLIC}")
        }
        _ => {
            let scheme = random.pick(&["http://", "http://", "http://", "HTTP://", "https://"]);
            let odd = random.pick(&["", "", "", ":80", ":x", ":80:80", ".", "@", ":80.", ":"]);
            let authority = if odd == "@" { format!("a@{host}") } else { format!("{host}{odd}") };
            let text = format!("host: the absolute form {scheme}{authority}");
            case.absolute = Some((scheme, authority.into_bytes()));
            text
        }
    }
}
