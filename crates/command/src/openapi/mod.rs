//! OpenAPI descriptions (3.0, 3.1, 3.2) beside a policy: what they say of idempotency keys, and an overlay that says it.
//!
//! | module | subject |
//! |---|---|
//! | `description` | reads a description, in JSON or YAML |
//! | `references` | members of objects, and what `$ref` points to |
//! | `servers` | the hosts and the beginnings of paths that `servers` gives |
//! | `unread` | parts of a description that are not read |
//! | `operations` | the operations of a description |
//! | `key_parameter` | the header parameter `Idempotency-Key` of an operation |
//! | `key_schema` | the JSON Schema of a route's keys, and which keys another schema takes |
//! | `routing` | which route takes the requests of an operation |
//! | `interface` | what callers see of a route: key, refusals, headers |
//! | `responses` | what a response says of refusals and of headers |
//! | `overlay` | an OpenAPI Overlay that adds this to a description |

pub(crate) mod description;
pub(crate) mod interface;
pub(crate) mod key_parameter;
pub(crate) mod key_schema;
pub(crate) mod operations;
pub(crate) mod overlay;
pub(crate) mod references;
pub(crate) mod responses;
pub(crate) mod routing;
pub(crate) mod servers;
pub(crate) mod unread;
