//! The adapter between a proxy-wasm host and the core: it fetches what an event needs, and carries out effects.

mod abi;
mod attributes;
mod exports;
mod held;
mod root;
mod stores;
mod stream;
