//! What the rest of the filter asks of a provider.

use edge_idempotency_engine::Body;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::provider::{Catalogue, Delivery, KeyScope, Provider, VerifyError};

fn provider(name: &str) -> Provider {
    Catalogue::compiled_in().provider(name).unwrap()
}

/// A secret that cannot be used is the receiver's fault, and does not get in the way of one that can.
pub(crate) fn secrets() -> Result<(), String> {
    let token = provider("okta");
    let headers = Headers::new(vec![(b"authorization", b"right")]);
    let delivery = Delivery { method: b"POST", url: b"https://a.example/", headers: &headers, body: &Body::of(b"{}") };
    let verify = |secrets: &[&[u8]]| token.verify(&delivery, secrets, 0).map(drop);
    assert_eq!(verify(&[]), Err(VerifyError::SecretInvalid));
    assert_eq!(verify(&[b""]), Err(VerifyError::SecretInvalid));
    assert_eq!(verify(&[b"wrong"]), Err(VerifyError::SignatureMismatch));
    assert_eq!(verify(&[b"", b"wrong"]), Err(VerifyError::SignatureMismatch));
    assert_eq!(verify(&[b"", b"wrong", b"right"]), Ok(()));
    // An HMAC under an empty key is one that everybody can make.
    let empty = b"t=0,v1=e05a8f6ac7d91d6af7ab6bb67dd5a5cb3e7a3f8c9b3f0e2a1d8a3c3ad1c6d4b9";
    let headers = Headers::new(vec![(b"stripe-signature", empty)]);
    let delivery = Delivery { headers: &headers, ..delivery };
    assert_eq!(provider("stripe").verify(&delivery, &[b""], 0), Err(VerifyError::SecretInvalid));
    // A missing header is told first: nobody learns from outside that a secret is missing.
    let headers = Headers::new(Vec::new());
    let delivery = Delivery { headers: &headers, ..delivery };
    assert_eq!(provider("stripe").verify(&delivery, &[b""], 0), Err(VerifyError::MissingHeader));
    assert!(VerifyError::SecretInvalid.is_receivers_fault() && !VerifyError::SignatureMismatch.is_receivers_fault());
    Ok(())
}

/// Headers to remove, bodies that are parsed, providers without identifiers.
pub(crate) fn what_a_route_needs_to_know() -> Result<(), String> {
    for (name, parses, identifier, headers) in [
        ("stripe", true, true, vec!["stripe-signature"]),
        ("github", false, true, vec!["x-hub-signature", "x-hub-signature-256"]),
        ("twilio", true, true, vec!["x-twilio-signature"]),
        ("standard_webhooks", false, true, vec!["svix-signature", "webhook-signature"]),
        ("gitlab", false, true, vec!["webhook-signature", "x-gitlab-token"]),
        ("linear", true, true, vec!["linear-signature"]),
        ("box", true, true, vec!["box-signature-primary", "box-signature-secondary"]),
        ("docusign", false, false, vec!["x-docusign-signature-*"]),
        ("mailgun", true, true, vec![]),
        ("mandrill", true, false, vec!["x-mandrill-signature"]),
    ] {
        let provider = provider(name);
        assert_eq!(provider.name(), name);
        assert_eq!(provider.parses_body(), parses, "{name}");
        assert_eq!(provider.has_identifier(), identifier, "{name}");
        assert_eq!(provider.signature_headers(), headers, "{name}");
    }
    assert_eq!(provider("woocommerce").key_scope, KeyScope::Webhook);
    assert_eq!(provider("stripe").key_scope, KeyScope::Project);
    Ok(())
}
