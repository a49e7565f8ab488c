//! Webhook vectors, received by the engine.

#![allow(clippy::panic, reason = "fixtures")]

use edge_idempotency_engine::Body;
use edge_idempotency_engine::headers::Headers;
use edge_idempotency_engine::provider::{Catalogue, Delivery, Provider};
use testkit::vectors::Vector;

/// What a receiver does with a vector.
pub trait Receive {
    /// The provider, from its compiled-in file.
    ///
    /// # Panics
    /// The engine has no such provider.
    fn provider(&self) -> Provider;

    /// Calls `then` with the vector's delivery.
    fn deliver<T>(&self, then: impl FnOnce(&Delivery<'_>) -> T) -> T;

    /// Whether the delivery verifies.
    ///
    /// # Errors
    /// The reason why it does not.
    fn verify(&self, provider: &Provider) -> Result<(), &'static str>;
}

impl Receive for Vector {
    fn provider(&self) -> Provider {
        Catalogue::compiled_in().provider(&self.provider).unwrap_or_else(|| {
            panic!(
                "no usable provider `{}`: see the test `providers::files::are_whole`, and `provider` of the vector",
                self.provider
            )
        })
    }

    fn deliver<T>(&self, then: impl FnOnce(&Delivery<'_>) -> T) -> T {
        let lines = self.headers.iter().map(|(name, value)| (name.as_bytes(), value.as_slice())).collect();
        then(&Delivery {
            method: self.method.as_bytes(),
            url: self.url.as_bytes(),
            headers: &Headers::new(lines),
            body: &Body::of(&self.body),
        })
    }

    fn verify(&self, provider: &Provider) -> Result<(), &'static str> {
        let secrets: Vec<&[u8]> = self.secrets.iter().map(Vec::as_slice).collect();
        self.deliver(|delivery| {
            provider.verify(delivery, &secrets, self.now_ms).map(drop).map_err(|why| why.reason().name())
        })
    }
}
