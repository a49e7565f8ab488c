//! The signers against published examples, or values computed with openssl.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use serde_json::Value;
use testkit::signatures::{self, SignedCall, hex, hmac_sha1, hmac_sha256};
use testkit::vectors::SIGNED_CALLERS;

/// RFC 4231, sections 4.2, 4.3 and 4.7 (a key that is longer than a block), and RFC 2202, section 3, cases 1 and 2.
#[test]
fn hmac_as_the_rfcs_have_it() {
    let sha256 = |key: &[u8], text: &[u8]| hex(&hmac_sha256(key, text));
    let expected = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
    assert_eq!(sha256(&[0x0b; 20], b"Hi There"), expected);
    let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    assert_eq!(sha256(b"Jefe", b"what do ya want for nothing?"), expected);
    let expected = "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54";
    assert_eq!(sha256(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First"), expected);
    let sha1 = |key: &[u8], text: &[u8]| hex(&hmac_sha1(key, text));
    assert_eq!(sha1(&[0x0b; 20], b"Hi There"), "b617318655057264e28bc0b6fb378c8ef146be00");
    assert_eq!(sha1(b"Jefe", b"what do ya want for nothing?"), "effcdf6ae5eb2fa2d27416d5f184df9c259a7c79");
}

/// The example of GitHub's documentation, and that of the Standard Webhooks specification.
#[test]
fn published_examples() {
    let github = signatures::github("It's a Secret to Everybody", b"Hello, World!");
    assert_eq!(github, "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17");
    let (secret, id) = ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek");
    let standard = signatures::standard_webhooks(secret, id, 1_614_265_330, br#"{"test": 2432232314}"#);
    assert_eq!(standard, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
}

/// Computed with openssl.
#[test]
fn stripe_and_twilio() {
    let stripe = signatures::stripe(&["whsec_a", "whsec_b"], 1_700_000_000, br#"{"id":"evt_1"}"#);
    let first = "97ea69f91fd566038386bacf87292eb0d73a8207414ee62ed313d49996fe0639";
    let second = "c0c4c9e4637bb269965a5df170a9c6c3c973e3fafe3d4bed97086daad7fdc63c";
    assert_eq!(stripe, format!("t=1700000000,v1={first},v1={second}"));
    let fields = [("MessageSid", "SM1"), ("MessageStatus", "sent"), ("AccountSid", "AC1")];
    let url = "https://api.example.com/webhooks/twilio/wh_01JTWILIO";
    assert_eq!(signatures::twilio("12345", url, &fields), "ogdCXJCiodeZqSiRsXkJ3BL5r30=");
}

/// Computed in Python with `hashlib`.
#[test]
fn keys_made_of_digests() {
    let fields = [("MessageSid", "SM1"), ("MessageStatus", "sent"), ("AccountSid", "AC1")];
    let text = signatures::twilio_text("https://api.example.com/webhooks/twilio/wh_01JTWILIO", &fields);
    let key = signatures::digest_key("twilio", &[b"\0s", &signatures::sha256(text.as_bytes())]);
    assert_eq!(key, "twilio-~Qzej2f4Dep8Cu5MPL9ws_OaxpNsYE4k4MUY1EI3DjiA");
    let key = signatures::digest_key("github", &[b"\0b", &signatures::sha256(b"{}"), b"guid"]);
    assert_eq!(key, "github-~5rj4fwJxvhgtWyUiiVOB5pr7g7UnOKj3PiMwrijvC7Y");
}

/// Every vector of docs/identity.md.
#[test]
fn signed_callers() {
    let file: Value = serde_json::from_str(SIGNED_CALLERS).unwrap();
    let vectors = file["vectors"].as_array().unwrap();
    assert!(!vectors.is_empty());
    for vector in vectors {
        let text = |name: &str| vector[name].as_str().unwrap().as_bytes();
        let call = SignedCall {
            method: text("method"),
            path: text("path"),
            time: vector["timestamp"].as_u64().unwrap(),
            key: text("key"),
            tenant: text("tenant"),
            project: text("project"),
            body: text("body"),
        };
        assert_eq!(call.text(), text("signed"), "{vector}");
        assert_eq!(call.header(vector["secret"].as_str().unwrap()).as_bytes(), text("signature"), "{vector}");
    }
}
