//! The two engines of this crate: the core, called directly, and the built module in the host.

mod native;
mod wasm;

pub use native::Native;
pub use wasm::Wasm;
