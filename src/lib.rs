//! The proxy-wasm filter: it hands a host's events to the engine, and carries out what the engine decides.
//!
//! | module | subject |
//! |---|---|
//! | `exports` | what a host calls, and which context each call is for |
//! | `root` | the context of a configuration |
//! | `stream` | the context of a request |
//! | `stores` | calls to the stores that the policy names |
//! | `held` | the header lines of requests that wait, bounded in bytes |
//! | `attributes` | identity and route metadata, as the host's properties |
//! | `abi` | host calls |

mod abi;
mod attributes;
mod exports;
mod held;
mod root;
mod stores;
mod stream;
