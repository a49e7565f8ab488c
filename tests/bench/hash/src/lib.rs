//! A filter that waits for the whole body, hashes it with SHA-256 and sends the digest on in `idempotency-key`, so that it
//! is seen to have done so.
#![cfg(target_arch = "wasm32")]

use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, ContextType};
use sha2::{Digest as _, Sha256};

mod start {
    proxy_wasm::main! {{
        proxy_wasm::set_root_context(|_| Box::new(super::Root));
    }}
}

struct Root;

impl Context for Root {}

impl RootContext for Root {
    fn create_http_context(&self, _: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(Stream))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}

struct Stream;

impl Context for Stream {}

impl HttpContext for Stream {
    fn on_http_request_headers(&mut self, _: usize, end_of_stream: bool) -> Action {
        if end_of_stream { Action::Continue } else { Action::Pause }
    }

    fn on_http_request_body(&mut self, size: usize, end_of_stream: bool) -> Action {
        if !end_of_stream {
            return Action::Pause;
        }
        let body = self.get_http_request_body(0, size).unwrap_or_default();
        self.set_http_request_header("idempotency-key", Some(&format!("{:x}", Sha256::digest(&body))));
        Action::Continue
    }
}
