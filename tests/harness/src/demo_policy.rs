//! What the demo's gateways decide by.

/// The policy document of the demo.
pub const POLICY: &str = include_str!("../../../deploy/demo/policy.json");
