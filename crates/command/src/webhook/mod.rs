//! Webhooks for operators: the catalogue of providers, new webhooks, and signed test deliveries.
//!
//! | module | subject |
//! |---|---|
//! | `provider` | provider files: the catalogue, and own ones |
//! | `delivery` | a signed delivery, as the provider would send it |
//! | `sample` | a body for it |
//! | `signing` | keys and signatures |
//! | `secret` | secrets of the user, which are not printed |
//! | `address` | the URL of a webhook, and its binding, by a policy |
//! | `records` | what the registry and the secret store have to hold |
//! | `shell` | a delivery as a curl command |

pub(crate) mod address;
pub(crate) mod delivery;
pub(crate) mod provider;
pub(crate) mod records;
mod sample;
pub(crate) mod secret;
pub(crate) mod shell;
mod signing;
