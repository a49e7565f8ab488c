//! A delivery that was changed by one bit does not verify.

use direct::vectors::Receive as _;
use edge_idempotency_engine::provider::Provider;
use testkit::vectors::Vector;

use crate::extent::some;

/// Nothing of the body, or only some members, is covered by these providers' signatures; their files say so.
const BODY_NOT_COVERED: [&str; 4] = ["adyen_payments", "gitlab", "mailgun", "okta"];

pub(crate) fn check(vector: &Vector) -> Result<(), String> {
    let provider = vector.provider();
    assert_eq!(vector.verify(&provider), Ok(()), "{}", vector.id);
    body(vector, &provider)?;
    headers(vector, &provider)
}

/// Whether this property is one of the vector's.
pub(crate) fn applies(vector: &Vector) -> bool {
    vector.valid && !vector.weak
}

fn body(vector: &Vector, provider: &Provider) -> Result<(), String> {
    // GitLab's signing token covers the body, its secret token does not.
    let covered =
        !BODY_NOT_COVERED.contains(&vector.provider.as_str()) || !vector.header("webhook-signature").is_empty();
    if !covered {
        return Ok(());
    }
    let form = ["mandrill", "twilio"].contains(&vector.provider.as_str()).then(|| sorted_form(&vector.body));
    // A verification with a public key takes a while.
    let most = if ["discord", "sendgrid"].contains(&vector.provider.as_str()) { 64 } else { 2048 };
    for bit in some(sample(vector.body.len() * 8, most)) {
        let mut changed = vector.clone();
        flip(&mut changed.body, bit);
        // `%2b` instead of `%2B` says the same.
        if form.as_ref().is_some_and(|form| *form == sorted_form(&changed.body)) {
            continue;
        }
        if changed.verify(provider).is_ok() {
            return Err(format!("verifies with bit {bit} of the body changed"));
        }
    }
    let mut longer = vector.clone();
    longer.body.push(b' ');
    if longer.verify(provider).is_ok() && form.is_none() {
        return Err("verifies with a space behind the body".to_owned());
    }
    Ok(())
}

/// Signatures, timestamps, and identifiers that are signed.
fn headers(vector: &Vector, provider: &Provider) -> Result<(), String> {
    let signatures = provider.signature_headers();
    let is_signature = |name: &str| {
        signatures.iter().any(|known| known.strip_suffix('*').map_or(known == name, |prefix| name.starts_with(prefix)))
    };
    // Items that are more than a version or a timestamp.
    let items = |value: &[u8]| {
        let clock = |item: &&[u8]| [b"t=".as_slice(), b"ts=", b"time="].iter().any(|key| item.starts_with(key));
        value.split(|byte| b",; ".contains(byte)).filter(|item| item.len() > 3 && !clock(item)).count()
    };
    let count: usize =
        vector.headers.iter().filter(|(name, _)| is_signature(name)).map(|(_, value)| items(value)).sum();
    for (index, (name, value)) in vector.headers.iter().enumerate() {
        let signed = name.contains("timestamp") && name != "sentry-hook-timestamp"
            || ["webhook-id", "svix-id", "twitch-eventsub-message-id"].contains(&name.as_str());
        // Of several items one is enough.
        if !(signed && !ignored(vector, name) || is_signature(name) && count == 1) {
            continue;
        }
        for bit in some(0..value.len() * 8) {
            let mut changed = vector.clone();
            flip(&mut changed.headers[index].1, bit);
            let same = vector.provider == "notion" && changed.headers[index].1.eq_ignore_ascii_case(value);
            if changed.verify(provider).is_ok() && !same {
                return Err(format!("verifies with bit {bit} of {name} changed"));
            }
        }
    }
    Ok(())
}

/// Of two sets of headers one verifies; nobody asks for the other, or for a part of it.
fn ignored(vector: &Vector, name: &str) -> bool {
    let svix = !vector.header("svix-signature").is_empty();
    name.starts_with(if svix { "webhook-" } else { "svix-" })
}

/// Every bit of a small body, some of a large one.
fn sample(bits: usize, most: usize) -> impl Iterator<Item = usize> {
    // An odd step meets every bit of a byte.
    (0..bits).step_by(if bits <= most { 1 } else { bits / most * 2 + 1 })
}

fn flip(bytes: &mut [u8], bit: usize) {
    bytes[bit / 8] ^= 1 << (bit % 8);
}

/// What Twilio signs of a form.
fn sorted_form(body: &[u8]) -> Vec<Vec<u8>> {
    let decode = |text: &[u8]| {
        let mut out = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let digits = text.get(at + 1..at + 3).and_then(|digits| std::str::from_utf8(digits).ok());
            let byte = digits
                .filter(|digits| text[at] == b'%' && digits.bytes().all(|digit| digit.is_ascii_hexdigit()))
                .map(|digits| u8::from_str_radix(digits, 16).unwrap());
            at += if byte.is_some() { 3 } else { 1 };
            out.push(byte.unwrap_or(if text[at - 1] == b'+' { b' ' } else { text[at - 1] }));
        }
        out
    };
    let mut fields: Vec<(Vec<u8>, Vec<u8>)> = body
        .split(|byte| *byte == b'&')
        .filter(|field| !field.is_empty())
        .map(|field| {
            let at = field.iter().position(|byte| *byte == b'=').unwrap_or(field.len());
            (decode(&field[..at]), decode(field.get(at + 1..).unwrap_or_default()))
        })
        .collect();
    fields.sort();
    fields.dedup();
    fields.into_iter().map(|(name, value)| [name, value].concat()).collect()
}
