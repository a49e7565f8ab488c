//! Behaviour cases.
