//! The proxy-wasm filter: it hands a host's events to the engine's driver, and is the host that the driver acts on.
//!
//! | module | subject |
//! |---|---|
//! | `exports` | what a host calls, and which context each call is for |
//! | `root` | the context of a configuration |
//! | `host` | the engine's `Host`, by host calls |
//! | `attributes` | identity and route metadata, as the host's properties |
//! | `abi` | host calls |

mod abi;
mod attributes;
mod exports;
mod host;
mod root;
