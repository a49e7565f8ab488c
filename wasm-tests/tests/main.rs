//! The built module in the host of `src/host`, and the host itself. Behaviour cases and vectors are in `cases.rs`.

mod bridge_guests;
mod configurations;
mod cost;
mod first_calls;
mod json_bodies;
mod recovery;
mod waiting;
