//! The proxy-wasm filter: it passes the host's callbacks to the engine, and implements the engine's `Gateway` and `Host`.
//!
//! | module | subject |
//! |---|---|
//! | `exports` | the callbacks and their contexts |
//! | `host` | the engine's `Gateway` and `Host` |
//! | `attributes` | dynamic metadata and route metadata from the host's properties |
//! | `abi` | host calls |

mod abi;
mod attributes;
mod exports;
mod host;

#[cfg(target_family = "wasm")]
#[global_allocator]
static ALLOCATOR: talc::wasm::WasmDynamicTalc = talc::wasm::new_wasm_dynamic_allocator();
