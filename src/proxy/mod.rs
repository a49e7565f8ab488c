//! The adapter.
