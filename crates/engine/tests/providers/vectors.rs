//! Every vector, by name: does it verify, if not why not, and which key does it get.

use direct::vectors::Receive as _;
use testkit::vectors::Vector;

pub(crate) fn check(vector: &Vector) -> Result<(), String> {
    let provider = vector.provider();
    let secrets: Vec<&[u8]> = vector.secrets.iter().map(Vec::as_slice).collect();
    let (valid, key) = vector.deliver(|delivery| {
        let verified = match provider.verify(delivery, &secrets, vector.now_ms) {
            Ok(verified) => verified,
            Err(why) => return (false, Err(why.reason().name().to_owned())),
        };
        let key = match provider.identifier(delivery, &verified) {
            Ok(Some(identifier)) => Ok(provider.raw_key(&identifier, None, None)),
            Ok(None) => Err("no_delivery_id".to_owned()),
            Err(why) => Err(why.reason().name().to_owned()),
        };
        (true, key)
    });
    if (valid, &key) == (vector.valid, &vector.key) {
        return Ok(());
    }
    Err(format!(
        "expected {:?}, found {key:?}. Backends have stored results under a released key for days: another one runs an effect twice",
        vector.key
    ))
}
