//! What the end-to-end tests share: the built module in a real Envoy, raw clients in front of it and a recording upstream
//! behind it.
//!
//! | module | what it holds |
//! |---|---|
//! | [`wire`] | HTTP/1.1 messages, byte for byte |
//! | [`raw`] | requests, sent over a plain socket as they stand |
//! | [`http2`] | the same requests over HTTP/2 |
//! | [`frames`] | HTTP/2, frame by frame, for what no library sends |
//! | [`table`] | the table of header fields that a connection of HTTP/2 has |
//! | [`held`] | HTTP/2 requests that begin and do not end, with one long header in the connection's table |
//! | [`reading`] | paths and hosts, as a lenient server reads them |
//! | [`capture`] | an upstream that keeps what it gets and answers as told |
//! | [`config`] | changes to the configuration that the demo ships |
//! | [`chain`] | Restate and the sample service behind such an Envoy |
//! | [`behaviour`] | behaviour cases as a client sends them |
//! | [`deliveries`] | webhooks, signed as their providers sign them |
//! | [`ext_proc`] | an external processor of Envoy that streams answers |
//! | [`gateway`] | Envoy with the filter between a client and the capture |
//! | [`discovery`] | the filter's configuration from a file, as docs/gateways.md has it |
//! | [`lookup_stores`] | the registry and the secret store, and webhooks in them |
//! | [`payouts`] | calls that are in flight until a test confirms them |
//! | [`prometheus`] | a Prometheus that scrapes such an Envoy |
//! | [`host`] | tests that do not run on one of the hosts, and why |
//! | [`runner`] | running groups of tests, and an end for every process |

pub mod behaviour;
pub mod callers;
pub mod capture;
pub mod chain;
pub mod config;
pub mod deliveries;
pub mod discovery;
pub mod ext_proc;
pub mod frames;
pub mod gateway;
pub mod held;
pub mod host;
pub mod http2;
pub mod lookup_stores;
pub mod payouts;
pub mod prometheus;
pub mod raw;
pub mod reading;
pub mod runner;
pub mod table;
pub mod wire;
