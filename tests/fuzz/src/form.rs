//! The form reader, beside the crate percent-encoding: identifiers of form fields, and the sorted form that Twilio signs.

use crate::own;
use edge_idempotency_engine::provider::{Catalogue, NoIdentifier, Provider};
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::LazyLock;
use testkit::signatures::{base64, hmac_sha1};

const FORM: &str = "application/x-www-form-urlencoded";
const URL: &str = "https://example.com/hook?a=1";
/// The groups of fields, and the part of each that may hold a `-`.
const GROUPS: [(&[&str], usize); 3] = [(&["a", "b"], 1), (&["a", "c"], 1), (&["d e"], 0)];
/// The most fields that are sorted.
const MOST_SORTED: usize = 1024;

static OWN: LazyLock<Provider> = LazyLock::new(|| {
    let groups: Vec<&[&str]> = GROUPS.iter().map(|(names, _)| *names).collect();
    own::provider(&json!({"schemes": own::token_schemes(), "identifiers": [{"form": groups, "signed": false}]}))
});

static TWILIO: LazyLock<Provider> = LazyLock::new(|| Catalogue::compiled_in().provider("twilio").unwrap());

/// A form body: its identifier is what another decoder finds in its fields; a signature over the sorted fields verifies,
/// and one over a body with one bit changed does not, unless both say the same.
pub fn form(body: &[u8]) {
    let pairs = decoded(body);
    let found = own::identifier(&OWN, FORM, body);
    match GROUPS.iter().find_map(|(names, dashed)| composite(&pairs, names, *dashed)) {
        None => assert_eq!(found, Err(NoIdentifier::Missing)),
        Some(text) => {
            let key = OWN.raw_key(&found.unwrap().unwrap(), None, None);
            assert!(own::expected_key(&text).is_none_or(|expected| expected == key), "{key}");
        }
    }
    assert_eq!(own::identifier(&OWN, "text/plain", body), Err(NoIdentifier::Missing));

    let text = sorted(&pairs);
    let signature = sign(&text);
    assert_eq!(verifies(&signature, body), pairs.len() <= MOST_SORTED);
    let mut changed = body.to_vec();
    if let Some(last) = changed.len().checked_sub(1) {
        let sum = body.iter().fold(0, |sum: usize, byte| sum.wrapping_mul(31).wrapping_add((*byte).into()));
        changed[sum % (last + 1)] ^= 1 << (sum / 7 % 8);
        if verifies(&signature, &changed) {
            assert_eq!(sorted(&decoded(&changed)), text, "{}", changed.escape_ascii());
        }
    }
}

fn decoded(body: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let decode = |text: &[u8]| {
        let spaced: Vec<u8> = text.iter().map(|byte| if *byte == b'+' { b' ' } else { *byte }).collect();
        percent_encoding::percent_decode(&spaced).collect()
    };
    let pair = |item: &[u8]| match item.iter().position(|byte| *byte == b'=') {
        Some(at) => (decode(&item[..at]), decode(&item[at + 1..])),
        None => (decode(item), Vec::new()),
    };
    body.split(|byte| *byte == b'&').filter(|item| !item.is_empty()).map(pair).collect()
}

fn composite(pairs: &[(Vec<u8>, Vec<u8>)], names: &[&str], dashed: usize) -> Option<Vec<u8>> {
    let mut parts = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let mut values = pairs.iter().filter(|(other, _)| other == name.as_bytes()).map(|(_, value)| value.as_slice());
        let value = values.next()?;
        if values.next().is_some() || value.is_empty() || (at != dashed && value.contains(&b'-')) {
            return None;
        }
        parts.push(value);
    }
    Some(parts.join(&b'-'))
}

fn sorted(pairs: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let distinct: BTreeSet<&(Vec<u8>, Vec<u8>)> = pairs.iter().collect();
    distinct.into_iter().flat_map(|(name, value)| [name.as_slice(), value]).collect::<Vec<_>>().concat()
}

fn sign(text: &[u8]) -> String {
    base64(&hmac_sha1(own::SECRET, &[URL.as_bytes(), text].concat()))
}

fn verifies(signature: &str, body: &[u8]) -> bool {
    let lines = vec![
        (b"content-type".to_vec(), FORM.as_bytes().to_vec()),
        (b"x-twilio-signature".to_vec(), signature.as_bytes().to_vec()),
    ];
    own::deliver(&lines, URL.as_bytes(), body, |delivery| TWILIO.verify(delivery, &[own::SECRET], 0).is_ok())
}
