//! A proxy-wasm host for tests: ABI 0.2.1 with Envoy's rules, on wasmi.
//!
//! It holds to what a filter can observe: which header maps exist in which phase, what a pause holds back, when a
//! local reply goes out, how metadata is encoded, what a trap leaves behind. Tests assert state (what the upstream
//! and the client got, metrics, logs), never the order of host calls.
//!
//! A host call that is not implemented answers `Unimplemented` and records a failure, and so does everything that
//! Envoy lets pass silently but that is always a filter's mistake. A [`Vm`] that is dropped with failures nobody took
//! panics, so that no test passes by accident.

mod abi;
mod calls;
mod counting;
mod filter_manager;
mod memory;
mod metrics;
mod pairs;
mod properties;
mod state;
mod status;
mod steps;
mod stream;
mod vm;
mod wasi;
mod work;

pub use calls::{CallReply, HttpCall};
pub use counting::counting;
pub use metrics::{MetricKind, Metrics};
pub use pairs::{decode as decode_pairs, encode as encode_pairs};
pub use state::{LogLevel, LogLine, Options};
pub use status::Status;
pub use stream::{Ending, Exchange, StreamInfo};
pub use vm::{BootError, Program, Vm};
pub use work::CallbackWork;
