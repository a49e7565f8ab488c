//! The ABI's encoding of header maps and other maps: a count, the lengths, then names and values, each closed by NUL.

/// Above these Envoy reads a map that the guest sends as empty.
const MAX_BYTES: usize = 1024 * 1024;
const MAX_PAIRS: usize = 1024;

/// Encodes pairs; all numbers are little-endian.
pub fn encode<N: AsRef<[u8]>, V: AsRef<[u8]>>(pairs: &[(N, V)]) -> Vec<u8> {
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes();
    let mut out = u32::try_from(pairs.len()).unwrap_or(u32::MAX).to_le_bytes().to_vec();
    for (name, value) in pairs {
        out.extend(length(name.as_ref()));
        out.extend(length(value.as_ref()));
    }
    for (name, value) in pairs {
        out.extend(name.as_ref());
        out.push(0);
        out.extend(value.as_ref());
        out.push(0);
    }
    out
}

/// Decodes pairs; `None` is what Envoy reads as an empty map: over a limit, or malformed.
pub fn decode(bytes: &[u8]) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    if bytes.is_empty() {
        return Some(Vec::new());
    }
    if bytes.len() > MAX_BYTES {
        return None;
    }
    let mut rest = bytes;
    let count = number(&mut rest)?;
    if count > MAX_PAIRS {
        return None;
    }
    let mut lengths = Vec::new();
    for _ in 0..count {
        lengths.push((number(&mut rest)?, number(&mut rest)?));
    }
    let mut pairs = Vec::new();
    for (name, value) in lengths {
        pairs.push((closed(&mut rest, name)?, closed(&mut rest, value)?));
    }
    rest.is_empty().then_some(pairs)
}

fn number(rest: &mut &[u8]) -> Option<usize> {
    let (bytes, tail) = rest.split_first_chunk::<4>()?;
    *rest = tail;
    usize::try_from(u32::from_le_bytes(*bytes)).ok()
}

fn closed(rest: &mut &[u8], length: usize) -> Option<Vec<u8>> {
    let (bytes, tail) = rest.split_at_checked(length)?;
    let (&closing, tail) = tail.split_first()?;
    *rest = tail;
    (closing == 0).then(|| bytes.to_vec())
}
