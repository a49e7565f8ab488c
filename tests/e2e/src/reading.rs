//! A way to read paths and hosts as a lenient server would, for judges. Nothing here is taken from the filter's code.

/// Splits a request target at the first `?`.
pub fn split_query(target: &[u8]) -> (&[u8], Option<&[u8]>) {
    let mut parts = target.splitn(2, |byte| *byte == b'?');
    (parts.next().unwrap_or_default(), parts.next())
}

fn hex(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Decodes every escape; what is none stays.
pub fn decoded(text: &[u8]) -> Vec<u8> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let escape = after.split_first_chunk::<2>().filter(|_| *first == b'%');
        match escape.and_then(|([high, low], behind)| Some((hex(*high)? << 4 | hex(*low)?, behind))) {
            Some((byte, behind)) => {
                found.push(byte);
                rest = behind;
            }
            None => {
                found.push(*first);
                rest = after;
            }
        }
    }
    found
}

/// To Envoy a segment is a dot segment with parameters behind it as well (`..;x=1`).
fn without_parameters(segment: &[u8]) -> Vec<u8> {
    decoded(before_semicolon(segment))
}

/// No server that was run cuts a segment at `%3B`, too (docs/security.md).
fn before_semicolon(segment: &[u8]) -> &[u8] {
    segment.split(|byte| *byte == b';').next().unwrap_or_default()
}

/// A path as a lenient server would read it: segments are split, decoded, and dot segments removed.
pub fn path_behind(target: &[u8]) -> String {
    let (path, _) = split_query(target);
    joined(segments(path).map(without_parameters))
}

/// A path as a server would read it that decodes the whole before it splits it.
pub fn path_behind_decoded_first(target: &[u8]) -> String {
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

/// The host of an authority as a lenient server would read it: what stands before the first colon, without final dots.
pub fn host_behind(authority: &[u8]) -> String {
    let text = String::from_utf8_lossy(authority).into_owned();
    let text = text.rsplit('@').next().unwrap_or_default();
    let host = match text.starts_with('[') {
        true => text.split_inclusive(']').next(),
        false => text.split(':').next(),
    };
    host.unwrap_or_default().trim().trim_end_matches('.').to_owned()
}

/// Whether a text is a client's key.
pub fn is_raw_key(raw: &str) -> bool {
    (1..=255).contains(&raw.len())
        && raw.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte))
        && !raw.starts_with("t-")
}
