//! Other spellings of a path, and paths that lead elsewhere.

use super::api::{DENIED, DENIED_PREFIX, ROUTES, Route};
use super::case::{Case, Protocol};
use super::lines;
use super::random::Random;

/// Changes the target, and says how.
pub(crate) fn mutate(case: &mut Case, route: &Route, random: &mut Random) -> String {
    let before = String::from_utf8_lossy(&case.target).into_owned();
    let how = match random.weighted(&[10, 12, 10, 4, 7, 9, 9, 6, 8, 10, 4]) {
        0 => slashes(case, random),
        1 => dots(case, random),
        2 => encode(case, random),
        3 => case_of_letters(case, random),
        4 => behind(case, random),
        5 => insert(case, random),
        6 => escapes(case, random),
        7 => query(case, random),
        8 => recovery(case, random),
        9 => elsewhere(case, random),
        _ => long(case, route, random),
    };
    if case.target.len() > 200 { format!("path: {how}") } else { format!("path: {how} of {before}") }
}

/// A place in the path, the query left out.
fn path_end(target: &[u8]) -> usize {
    target.iter().position(|byte| *byte == b'?').unwrap_or(target.len())
}

/// The places of the path's slashes.
fn slash(target: &[u8], random: &mut Random) -> usize {
    let end = path_end(target);
    let places: Vec<usize> =
        target.iter().take(end).enumerate().filter_map(|(at, byte)| (*byte == b'/').then_some(at)).collect();
    random.pick(&places)
}

fn splice(target: &mut Vec<u8>, at: usize, remove: usize, text: &[u8]) {
    let at = at.min(target.len());
    let end = (at + remove).min(target.len());
    target.splice(at..end, text.iter().copied());
}

fn slashes(case: &mut Case, random: &mut Random) -> String {
    let at = slash(&case.target, random);
    let text = random.pick(&["//", "///", "/\\", "\\", "\\/", "%2f", "%2F", "/%2f", "%5c", "%5C", "/%5c/"]);
    splice(&mut case.target, at, 1, text.as_bytes());
    format!("a slash as {text}")
}

fn dots(case: &mut Case, random: &mut Random) -> String {
    let at = slash(&case.target, random);
    let text = random.pick(&[
        "/../",
        "/%2e/",
        "/x/../",
        "/x/%2e%2e/",
        "/..;/",
        "/x%2f../",
        "/x/..%2f",
        "/..%2f",
        "/..\\",
        "/x\\..\\",
    ]);
    splice(&mut case.target, at, 1, text.as_bytes());
    format!("{text} for a slash")
}

/// Percent-encodes one to three characters of any kind.
fn encode(case: &mut Case, random: &mut Random) -> String {
    for _ in 0..=random.below(3) {
        let at = 1 + random.below(path_end(&case.target).saturating_sub(1));
        if let Some(byte) = case.target.get(at).copied() {
            let text = match random.below(5) {
                0 => format!("%{byte:02x}"),
                1 => format!("%25{byte:02x}"),
                _ => format!("%{byte:02X}"),
            };
            splice(&mut case.target, at, 1, text.as_bytes());
        }
    }
    "encoded characters".to_owned()
}

fn case_of_letters(case: &mut Case, random: &mut Random) -> String {
    let at = 1 + random.below(path_end(&case.target).saturating_sub(1));
    if random.percent(30) {
        case.target.make_ascii_uppercase();
    } else if let Some(byte) = case.target.get_mut(at) {
        *byte = if byte.is_ascii_lowercase() { byte.to_ascii_uppercase() } else { byte.to_ascii_lowercase() };
    }
    "another case".to_owned()
}

fn behind(case: &mut Case, random: &mut Random) -> String {
    let text = random.pick(&["/", "//", "/.", "/..", "/%2e", "%2e", "%2f", "%00", "%0a", ";x=1", "%3f", "%", "\\"]);
    let end = path_end(&case.target);
    splice(&mut case.target, end, 0, text.as_bytes());
    format!("{text} behind it")
}

fn insert(case: &mut Case, random: &mut Random) -> String {
    let mut texts: Vec<&[u8]> = vec![
        b";x=1", b";", b"%3b", b"%00", b"%5c", b"\\", b"%2f", b"%zz", b"%", b"%25", b"#", b"#x", b"%23", b"?", b"%3f",
        b"|", b"\"", b"<", b">", b"^", b"`", b"{", b"}", b"'", b"(", b"*", b"%c3%a9",
    ];
    if case.protocol == Protocol::Http1 || random.percent(50) {
        texts.extend([b" ".as_slice(), b"\t", b"\0", b"\x01", b"\x7f", b"\xff", b"\xc3\xa9"]);
    }
    let text = random.pick(&texts);
    let at = 1 + random.below(path_end(&case.target));
    splice(&mut case.target, at, 0, text);
    format!("{} within", text.escape_ascii())
}

/// Writes one segment in another way.
fn escapes(case: &mut Case, random: &mut Random) -> String {
    let end = path_end(&case.target);
    let at = slash(&case.target, random) + 1;
    let length = case.target.iter().take(end).skip(at).position(|byte| *byte == b'/').unwrap_or(end.saturating_sub(at));
    let segment: Vec<u8> = case.target.iter().skip(at).take(length).copied().collect();
    let text: String = match random.below(4) {
        0 => segment.iter().map(|byte| format!("%{byte:02x}")).collect(),
        1 => segment.iter().map(|byte| format!("%{byte:02X}")).collect(),
        2 => segment.iter().map(|byte| format!("%25{byte:02x}")).collect(),
        _ => format!("{}%2f..%2f{}", random.pick(&["x", "denied", ".."]), String::from_utf8_lossy(&segment)),
    };
    splice(&mut case.target, at, length, text.as_bytes());
    "a segment in another way".to_owned()
}

fn query(case: &mut Case, random: &mut Random) -> String {
    let text = random.pick(&[
        "?",
        "?a=1",
        "?a=%2f..%2f",
        "?/../../api/v1/denied",
        "?#",
        "?access=1&idempotency-key=t-globex:shop:user:u2:k",
        "?delay=1",
        "?a=1;%44ELAY=1h&limit%2dkey=b",
    ]);
    case.target.extend(text.as_bytes());
    format!("the query {text}")
}

/// Asks for a stored result, with the method that this takes.
fn recovery(case: &mut Case, random: &mut Random) -> String {
    let number = case.number;
    let own = lines::key(number);
    let keys = [
        own.as_str(),
        own.as_str(),
        own.as_str(),
        "output",
        "k%2e1",
        "k%2f1",
        "t-acme",
        "%74-globex:shop:user:u2:k",
        "t-globex:shop:user:u2:k",
        "%2e%2e",
        "..%2f..%2fdenied",
        "k,1",
        "k%001",
        "by-idempotency-key",
        "",
    ];
    let key = random.pick(&keys);
    let name = random.pick(&[
        "by-idempotency-key",
        "by-idempotency-key",
        "by-idempotency-key",
        "by-idempotency-key",
        "by%2didempotency-key",
        "By-Idempotency-Key",
        "by_idempotency_key",
        "by-idempotency-key%2f",
    ]);
    let tail = random.pick(&["", "", "", "/output", "/output", "/output/", "/", "/attach", "//output", "/%6futput"]);
    let end = path_end(&case.target);
    splice(&mut case.target, end, 0, format!("/{name}/{key}{tail}").as_bytes());
    if random.percent(85) {
        case.method = "GET".to_owned();
        case.lines.retain(|line| line.name != "idempotency-key" || random.percent(10));
    }
    format!("/{name}/{key}{tail} behind it")
}

/// Another path, mostly one that leads to something closed.
fn elsewhere(case: &mut Case, random: &mut Random) -> String {
    let others: Vec<&str> = ROUTES.iter().map(|route| route.example.1).collect();
    let closed = [
        DENIED,
        DENIED_PREFIX,
        "/api/v1/ops/",
        "/Closed/denied",
        "/Orders/create",
        "/restate/health",
        "/restate/invocation/Orders/create/t-globex:shop:user:u2:k/output",
        "/restate/call/Orders/create",
        "/restate/lookup",
        "/restate/output/inv_1",
        "/api/v1/items/..%2fdenied",
        "/api/v1/items/..%2f..%2f..%2fClosed%2fdenied",
        "/api/v1/%2e%2e/run",
        "/api/v1/x%2f..%2fdenied/run",
        "/api/v1/items/x%3f",
        "/api/v1/carts/a%2fb/checkout",
        "/",
        "",
        "api.example.com:443",
    ];
    let to = if random.percent(40) { random.pick(&others) } else { random.pick(&closed) };
    case.target = to.as_bytes().to_vec();
    format!("{to} in the place")
}

fn long(case: &mut Case, route: &Route, random: &mut Random) -> String {
    let size = random.pick(&[300, 3_000, 20_000, 61_500, 70_000]);
    let (name, filler) = match random.below(3) {
        0 => ("slashes", "/".repeat(size)),
        1 => ("dot segments", "/x/..".repeat(size / 5)),
        _ => ("letters", format!("/api/v1/items/{}", "x".repeat(size))),
    };
    case.target =
        if name == "letters" { filler.into_bytes() } else { format!("{filler}{}", route.example.1).into_bytes() };
    format!("{size} bytes of {name}")
}
