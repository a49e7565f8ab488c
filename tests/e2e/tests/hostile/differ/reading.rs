//! The model's own way to read paths, authorities and keys, written from docs/ and the RFCs. Nothing here is taken from the
//! filter's code.

/// Splits a request target at the first `?`.
pub(crate) fn split_query(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut parts = target.splitn(2, |byte| *byte == b'?');
    (parts.next().unwrap_or_default(), parts.next())
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// A byte or an escape of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Symbol {
    Plain(u8),
    Escaped(u8),
    /// A `%` without two digits.
    Broken,
}

fn symbols(text: &[u8]) -> Vec<Symbol> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let escape = after.split_first_chunk::<2>().filter(|_| *first == b'%');
        let value = escape.and_then(|([high, low], _)| Some(hex(*high)? << 4 | hex(*low)?));
        match (first, value, escape) {
            (_, Some(value), Some((_, behind))) => {
                found.push(Symbol::Escaped(value));
                rest = behind;
            }
            (b'%', ..) => {
                found.push(Symbol::Broken);
                rest = after;
            }
            _ => {
                found.push(Symbol::Plain(*first));
                rest = after;
            }
        }
    }
    found
}

/// Decodes every escape; what is none stays.
pub(crate) fn decoded(text: &[u8]) -> Vec<u8> {
    let value = |symbol| match symbol {
        Symbol::Plain(byte) | Symbol::Escaped(byte) => byte,
        Symbol::Broken => b'%',
    };
    symbols(text).into_iter().map(value).collect()
}

/// Encodes everything but unreserved characters.
pub(crate) fn encoded(text: &[u8]) -> String {
    let one = |byte: &u8| if is_unreserved(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
    text.iter().map(one).collect()
}

/// The segments of a path without its dot segments (RFC 3986 section 5.2.4), and whether one with an escaped slash was lost
/// to them. An empty segment counts as one. `name` says what of a segment makes it a dot segment.
fn without_dots(text: &[u8], name: fn(&[u8]) -> Vec<u8>) -> (Vec<&[u8]>, bool) {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut lost_escaped_slash = false;
    for segment in text.split(|byte| *byte == b'/').skip(1) {
        match name(segment).as_slice() {
            b"." => {}
            b".." => {
                let gone = kept.pop();
                lost_escaped_slash |= gone.is_some_and(|gone| symbols(gone).contains(&Symbol::Escaped(b'/')));
            }
            _ => kept.push(segment),
        }
    }
    (kept, lost_escaped_slash)
}

/// To Envoy a segment is a dot segment with parameters behind it as well (`..;x=1`).
fn without_parameters(segment: &[u8]) -> Vec<u8> {
    decoded(before_semicolon(segment))
}

/// No server that was run cuts a segment at `%3B`, too (docs/security.md).
fn before_semicolon(segment: &[u8]) -> &[u8] {
    segment.split(|byte| *byte == b';').next().unwrap_or_default()
}

/// The one spelling of a path (docs/security.md), or why it has none. A gateway that normalises has removed dot segments
/// before the filter looks at what is left, and reads a backslash as a slash.
pub(crate) fn path(raw: &[u8], gateway_normalises: bool) -> Result<String, &'static str> {
    if raw.first() != Some(&b'/') {
        return Err("the target is no path");
    }
    if raw.iter().any(|byte| *byte <= b' ' || *byte == 0x7f || *byte == b'#') {
        return Err("a byte that no path may hold");
    }
    if symbols(raw).contains(&Symbol::Escaped(0)) {
        return Err("an escaped zero byte");
    }
    // No route takes one. The shipped gateway refuses it, and the filter does so where it leaves paths as clients wrote them.
    if symbols(raw).iter().any(|symbol| matches!(symbol, Symbol::Escaped(b'/' | b'\\'))) {
        return Err("an escaped slash");
    }
    let mut text = raw.to_vec();
    if gateway_normalises {
        text.iter_mut().filter(|byte| **byte == b'\\').for_each(|byte| *byte = b'/');
        let (kept, _) = without_dots(&text, without_parameters);
        text = mended(&kept.iter().flat_map(|segment| [b"/", *segment].concat()).collect::<Vec<u8>>());
    }
    for symbol in symbols(&text) {
        match symbol {
            Symbol::Broken => return Err("a malformed escape"),
            Symbol::Plain(b'\\') | Symbol::Escaped(b'\\') => return Err("a backslash"),
            Symbol::Plain(b';') => return Err("a semicolon"),
            Symbol::Escaped(0..b' ' | 0x7f) => return Err("an escaped control character"),
            _ => {}
        }
    }
    let Ok(plain) = String::from_utf8(decoded(&text)) else { return Err("escapes that are no UTF-8") };
    if plain.contains(|char: char| char.is_control() || matches!(char, '\u{2028}' | '\u{2029}')) {
        return Err("an escaped control character");
    }
    let (kept, lost_escaped_slash) = without_dots(&text, decoded);
    if lost_escaped_slash {
        return Err("an escaped slash before ..");
    }
    let normal: String = kept
        .iter()
        .filter(|segment| !segment.is_empty())
        .map(|segment| format!("/{}", one_spelling(segment)))
        .collect();
    Ok(if normal.is_empty() { "/".to_owned() } else { normal })
}

/// Whether a path has a slash at the end once its dot segments are gone. The gateway reads a backslash as a slash.
pub(crate) fn ends_with_slash(raw: &[u8]) -> bool {
    let last = raw.rsplit(|byte| matches!(byte, b'/' | b'\\')).next().unwrap_or_default();
    matches!(without_parameters(last).as_slice(), b"" | b"." | b"..")
}

/// A `%` that what follows would complete to an escape once it is decoded (`%3%31`): Envoy escapes the `%` itself. One
/// that nothing completes stays malformed.
fn mended(text: &[u8]) -> Vec<u8> {
    let symbols = symbols(text);
    let digit = |symbol: Option<&Symbol>| match symbol {
        Some(Symbol::Plain(byte) | Symbol::Escaped(byte)) => byte.is_ascii_hexdigit(),
        _ => false,
    };
    let mut out = Vec::new();
    for (at, symbol) in symbols.iter().enumerate() {
        match symbol {
            Symbol::Plain(byte) => out.push(*byte),
            Symbol::Escaped(byte) => out.extend(format!("%{byte:02X}").as_bytes()),
            Symbol::Broken if digit(symbols.get(at + 1)) && digit(symbols.get(at + 2)) => out.extend(b"%25"),
            Symbol::Broken => out.push(b'%'),
        }
    }
    out
}

/// Unreserved characters decoded, all else that may not stand plainly encoded.
fn one_spelling(segment: &[u8]) -> String {
    let one = |symbol| match symbol {
        Symbol::Escaped(byte) if is_unreserved(byte) => char::from(byte).to_string(),
        Symbol::Plain(byte) if is_unreserved(byte) || b"!$&'()*+,=:@".contains(&byte) => char::from(byte).to_string(),
        Symbol::Plain(byte) | Symbol::Escaped(byte) => format!("%{byte:02X}"),
        Symbol::Broken => "%".to_owned(),
    };
    symbols(segment).into_iter().map(one).collect()
}

/// A path as a lenient server would read it: segments are split, decoded, and dot segments removed.
pub(crate) fn path_behind(target: &[u8]) -> String {
    let (path, _) = split_query(target);
    joined(segments(path).map(without_parameters))
}

/// A path as a server would read it that decodes the whole before it splits it.
pub(crate) fn path_behind_decoded_first(target: &[u8]) -> String {
    let (path, _) = split_query(target);
    let plain: Vec<&[u8]> = segments(path).map(before_semicolon).collect();
    joined(segments(&decoded(&plain.join(&b'/'))).map(<[u8]>::to_vec))
}

fn segments(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.split(|byte| matches!(byte, b'/' | b'\\'))
}

fn joined(segments: impl Iterator<Item = Vec<u8>>) -> String {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    for segment in segments {
        match segment.as_slice() {
            b"" | b"." => {}
            b".." => drop(kept.pop()),
            _ => kept.push(segment),
        }
    }
    kept.iter().map(|segment| format!("/{}", String::from_utf8_lossy(segment))).collect()
}

/// An authority taken apart: a host and at most one port of 1 to 5 digits up to 65535; `None` for anything else.
pub(crate) fn authority(text: &[u8]) -> Option<(String, Option<u32>)> {
    let text = std::str::from_utf8(text).ok()?;
    let (host, rest) = match text.strip_prefix('[') {
        Some(inner) => {
            let (address, rest) = inner.split_once(']')?;
            let fine =
                address.contains(':') && address.chars().all(|c| c.is_ascii_hexdigit() || matches!(c, ':' | '.'));
            (fine.then(|| format!("[{address}]"))?, rest.to_owned())
        }
        None => {
            let host: String = text.chars().take_while(|c| *c != ':').collect();
            let fine = !host.is_empty() && host.bytes().all(is_unreserved);
            (fine.then(|| host.clone())?, text.chars().skip(host.chars().count()).collect())
        }
    };
    if rest.is_empty() {
        return Some((host, None));
    }
    let digits = rest.strip_prefix(':')?;
    let fine = !digits.is_empty() && digits.len() <= 5 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let port = digits.parse().ok().filter(|port| fine && *port <= 65_535)?;
    Some((host, Some(port)))
}

/// An authority without the zeros that its port begins with.
pub(crate) fn without_zeros(text: &[u8]) -> Vec<u8> {
    let zeros = |port: &[u8]| port.iter().take_while(|byte| **byte == b'0').count().min(port.len().saturating_sub(1));
    let colon = text.iter().rposition(|byte| *byte == b':');
    let Some((host, port)) = colon.and_then(|colon| text.split_at_checked(colon + 1)) else { return text.to_vec() };
    [host, port.get(zeros(port)..).unwrap_or_default()].concat()
}

/// An authority behind the shipped gateway's `strip_trailing_host_dot` and `strip_any_host_port`, in this order: one final
/// dot goes, at the end or before a colon, and then whatever follows the last colon if it reads as a number.
pub(crate) fn stripped_authority(text: &[u8]) -> Vec<u8> {
    let mut text = text.to_vec();
    if let Some(dot) = text.iter().rposition(|byte| *byte == b'.')
        && matches!(text.get(dot + 1), None | Some(b':'))
    {
        text.remove(dot);
    }
    let colon = text.iter().rposition(|byte| *byte == b':');
    let bracket = text.iter().rposition(|byte| *byte == b']');
    if let Some(colon) = colon.filter(|colon| bracket.is_none_or(|bracket| bracket < *colon)) {
        let port = String::from_utf8_lossy(text.get(colon + 1..).unwrap_or_default()).into_owned();
        if port.parse::<u32>().is_ok() {
            text.truncate(colon);
        }
    }
    text
}

/// The host of an authority as a lenient server would read it: what stands before the first colon, without final dots.
pub(crate) fn host_behind(authority: &[u8]) -> String {
    let text = String::from_utf8_lossy(authority).into_owned();
    let text = text.rsplit('@').next().unwrap_or_default();
    let host = match text.starts_with('[') {
        true => text.split_inclusive(']').next(),
        false => text.split(':').next(),
    };
    host.unwrap_or_default().trim().trim_end_matches('.').to_owned()
}

/// What the lines of `Idempotency-Key` mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// There is none.
    Absent,
    /// This one.
    Raw(String),
    /// None that is valid.
    Invalid,
}

/// Reads a key from all its lines.
pub(crate) fn key(lines: &[Vec<u8>]) -> Key {
    let [line] = lines else { return if lines.is_empty() { Key::Absent } else { Key::Invalid } };
    let text = String::from_utf8_lossy(line).into_owned();
    let text = text.trim_matches([' ', '\t']);
    let raw = match text.strip_prefix('"') {
        None => text,
        Some(quoted) => match quoted.split_once('"') {
            Some((raw, "" | "; a=1")) => raw,
            _ => return Key::Invalid,
        },
    };
    if is_raw_key(raw) { Key::Raw(raw.to_owned()) } else { Key::Invalid }
}

/// Whether a text is a client's key.
pub(crate) fn is_raw_key(raw: &str) -> bool {
    (1..=255).contains(&raw.len()) && raw.bytes().all(is_unreserved) && !raw.starts_with("t-")
}
