//! What the headers of a delivery show before its body has come: never more than verification, and what can be shown.

use direct::vectors::Receive as _;
use edge_idempotency_engine::provider::Provider;
use testkit::vectors::{Vector, all};

/// These have their signatures or their timestamps in the body.
const IN_BODY: [&str; 3] = ["adyen_payments", "linear", "mailgun"];

fn check(vector: &Vector, provider: &Provider, with_secrets: bool) -> Result<(), &'static str> {
    let secrets: Vec<&[u8]> = vector.secrets.iter().map(Vec::as_slice).collect();
    let secrets = with_secrets.then_some(secrets.as_slice());
    let head = Vector { body: Vec::new(), method: String::new(), url: String::new(), ..vector.clone() };
    head.deliver(|head| provider.check_head(head, secrets, &|| vector.now_ms).map_err(|why| why.reason().name()))
}

/// A delivery that verifies is never refused from its headers, and what is refused does not verify.
pub(crate) fn refuses_nothing_that_verifies() -> Result<(), String> {
    let mut refused = 0;
    for vector in all() {
        let provider = vector.provider();
        let mut changed: Vec<Vector> = vec![vector.clone()];
        for (index, (name, value)) in vector.headers.iter().enumerate() {
            let with = |value: Vec<u8>| {
                let mut other = vector.clone();
                other.headers[index].1 = value;
                other
            };
            let mut without = vector.clone();
            without.headers.remove(index);
            let again = |value: &[u8]| {
                let mut other = vector.clone();
                other.headers.push((name.clone(), value.to_vec()));
                other
            };
            let last = value.len().saturating_sub(1);
            changed.extend([
                without,
                again(value),
                again(b"other"),
                with(value[..last].to_vec()),
                with([value.as_slice(), b"0"].concat()),
                with(value.to_ascii_uppercase()),
                with([b" ", value.as_slice(), b" "].concat()),
                with(Vec::new()),
            ]);
        }
        for ms in [0, 86_400_000, 4_000_000_000_000] {
            changed.push(Vector { now_ms: ms, ..vector.clone() });
            changed.push(Vector { now_ms: vector.now_ms + ms, ..vector.clone() });
        }
        for vector in changed {
            let verified = vector.verify(&provider);
            for with_secrets in [false, true] {
                let head = check(&vector, &provider, with_secrets);
                refused += usize::from(head.is_err());
                if verified.is_ok() && head.is_err() {
                    return Err(format!("{} verifies, and its headers are refused: {head:?}", vector.id));
                }
            }
        }
    }
    if refused > 1000 { Ok(()) } else { Err(format!("only {refused} heads were refused")) }
}

/// What verification says of the headers alone is known before the body has come.
pub(crate) fn shows_what_needs_no_body() -> Result<(), String> {
    let mut shown = 0;
    for vector in all().into_iter().filter(|vector| vector.valid && !vector.weak) {
        if IN_BODY.contains(&vector.provider.as_str()) {
            continue;
        }
        let provider = vector.provider();
        let late = Vector { now_ms: vector.now_ms + 86_400_000 * 365, ..vector.clone() };
        let unsigned = Vector { headers: Vec::new(), ..vector.clone() };
        for changed in [late, unsigned] {
            if let Err(why) = changed.verify(&provider) {
                if check(&changed, &provider, true) != Err(why) {
                    return Err(format!("{}: {why} is not known from the headers", vector.id));
                }
                shown += 1;
            }
        }
    }
    if shown > 50 { Ok(()) } else { Err(format!("only {shown} refusals")) }
}

/// Lines that nobody's signature needs.
pub(crate) fn long_lines_are_refused() -> Result<(), String> {
    let vector = all().into_iter().find(|vector| vector.provider == "stripe" && vector.valid).ok_or("no vector")?;
    let provider = vector.provider();
    for (bytes, lines, fits) in [(8000, 1, true), (8200, 1, false), (4000, 2, true), (4000, 3, false)] {
        let mut long = vector.clone();
        let items = format!(
            "{},v0={}",
            String::from_utf8_lossy(&vector.header("stripe-signature").concat()),
            "0".repeat(bytes)
        );
        long.headers.retain(|(name, _)| name != "stripe-signature");
        (0..lines).for_each(|_| long.headers.push(("stripe-signature".to_owned(), items[..bytes].into())));
        let seen = check(&long, &provider, true);
        let expected = if fits { Ok(()) } else { Err("malformed_header") };
        if seen != expected {
            return Err(format!("{lines} lines of {bytes} bytes: {seen:?}"));
        }
    }
    // What is not read may be long.
    let mut other = vector.clone();
    other.headers.push(("x-filler".to_owned(), vec![b'x'; 60_000]));
    check(&other, &provider, true).map_err(str::to_owned)
}
