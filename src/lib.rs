//! The proxy-wasm filter: it passes the host's callbacks to the engine's driver, and implements the engine's `Host`.
//!
//! | module | subject |
//! |---|---|
//! | `exports` | the callbacks and their contexts |
//! | `root` | the context of a configuration |
//! | `host` | the engine's `Host` |
//! | `attributes` | dynamic metadata and route metadata from the host's properties |
//! | `abi` | host calls |

mod abi;
mod attributes;
mod exports;
mod host;
mod root;

#[cfg(target_family = "wasm")]
#[global_allocator]
static ALLOCATOR: talc::wasm::WasmDynamicTalc = talc::wasm::new_wasm_dynamic_allocator();
