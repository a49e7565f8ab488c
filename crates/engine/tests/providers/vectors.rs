//! Every vector, by name: does it verify, if not why not, and which key does it get.

use direct::vectors::Receive as _;
use testkit::vectors::{ExpectedKey, Vector, expected};

pub(crate) fn check(vector: &Vector) -> Result<(), String> {
    let provider = vector.provider();
    let secrets: Vec<&[u8]> = vector.secrets.iter().map(Vec::as_slice).collect();
    let verdict = vector.deliver(|delivery| {
        let verified =
            provider.verify(delivery, &secrets, vector.now_ms).map_err(|why| why.reason().name().to_owned())?;
        Ok(match provider.identifier(delivery, &verified) {
            Ok(Some(identifier)) => ExpectedKey::Key(provider.raw_key(&identifier, None, None)),
            Ok(None) => ExpectedKey::None("no_delivery_id".to_owned()),
            Err(why) => ExpectedKey::None(why.reason().name().to_owned()),
        })
    });
    let expected = if vector.valid { Ok(expected(vector)) } else { Err(vector.reason.clone()) };
    if verdict == expected { Ok(()) } else { Err(format!("expected {expected:?}, found {verdict:?}")) }
}
