//! The tests of the engine by itself. Behaviour cases and providers, which are data, are in `cases.rs`.

mod allocations;
mod asked_backends;
mod callers_looked_up;
mod collision;
mod common;
mod explanations;
mod extent;
mod internal_hits;
mod lookups;
mod metrics_page;
mod pausing;
mod policies;
mod properties;
mod schema;
mod signed_callers;
mod start_failures;
mod stream;
mod trace;
mod waiting;
