//! Configurations of gateways that fit a policy document.
//!
//! | module | subject |
//! |---|---|
//! | `needs` | what a policy asks of the gateway in front of it |
//! | `pattern` | path templates as regular expressions, and which of two is more specific |
//! | `upstream` | `NAME=URL` |
//! | `module` | the module's file and its checksum |
//! | `module_source` | a module by its file, or by URL and digest |
//! | `tokens` | who verifies which tokens, and where none is asked for |
//! | `ext_authz` | a service that says who is calling |
//! | `public_paths` | paths that need no credential, and that of the gateway's own health |
//! | `browsers` | CORS |
//! | `kubernetes` | Istio and Envoy Gateway |
//! | `json_text` | JSON for people |
//! | `template` | fills a template |
//! | `envoy` | Envoy |
//! | `profile` | the errors of a protocol |
//! | `krakend` | KrakenD |

pub(crate) mod browsers;
pub(crate) mod envoy;
pub(crate) mod ext_authz;
pub(crate) mod json_text;
pub(crate) mod krakend;
pub(crate) mod kubernetes;
pub(crate) mod module;
pub(crate) mod module_source;
pub(crate) mod needs;
pub(crate) mod pattern;
pub(crate) mod profile;
pub(crate) mod public_paths;
pub(crate) mod template;
pub(crate) mod tokens;
pub(crate) mod upstream;
