//! A real Envoy with the edge-idempotency filter, in front of a real Restate with a sample service: what `make demo` plays
//! its story against, and what the end-to-end tests run in.
//!
//! | module | what it holds |
//! |---|---|
//! | [`tools`] | where Envoy, Restate, OpenBao, the module and the sample service are |
//! | [`process`] | child processes: log files, readiness, an end for certain |
//! | [`private`] | files and folders that only their owner can read |
//! | [`ports`] | free ports, each of which can be set |
//! | [`tokens`] | JSON Web Tokens and the key set that verifies them |
//! | [`senders`] | third parties that send webhooks, each signing in its own way |
//! | [`http`] | a client that sends exactly what it is given |
//! | [`envoy`] | the gateway, from the template `deploy/demo/envoy.yaml` |
//! | [`dynamic_module`] | the same with the filter as a dynamic module |
//! | [`rendered`] | the gateway, from what `edge-idempotency render envoy` makes |
//! | [`restate`] | the backend, and what it stored |
//! | [`cluster`] | several nodes of it |
//! | [`openbao`] | the store of webhook secrets |
//! | [`unkey`] | a stand-in for the registry of webhooks |
//! | [`faults`] | a server that fails as it is told |
//! | [`guard`] | the filter's own service, as a program of its own |
//! | [`service`] | the sample service, and what it did |
//! | [`stack`] | all of them together |
//!
//! ```no_run
//! # async fn example() -> anyhow::Result<()> {
//! use harness::{http::Request, stack::{Stack, StackOptions}, tools::Tools};
//! use serde_json::json;
//!
//! let tools = Tools::locate()?;
//! let stack = Stack::start(StackOptions::new(tools, "/tmp/run"), &|progress| eprintln!("{progress}")).await?;
//! let token = stack.signer.mint(&json!({"sub": "alice", "tenant_id": "acme", "project_id": "health-prod"}))?;
//! let reply = Request::post("/api/v1/refunds")
//!     .bearer(&token)
//!     .header("idempotency-key", "refund-1001")
//!     .json(&json!({"order_id": "order-1001", "amount": 4200}))
//!     .send(&stack.gateway_url())
//!     .await?;
//! assert_eq!(reply.status, 200);
//! # Ok(()) }
//! ```

pub mod cluster;
pub mod demo_policy;
pub mod dynamic_module;
pub mod envoy;
pub mod faults;
pub mod guard;
pub mod http;
pub mod openbao;
pub mod ports;
pub mod private;
pub mod process;
pub mod rendered;
pub mod restate;
pub mod scheduler;
pub mod senders;
pub mod service;
pub mod stack;
pub mod tokens;
pub mod tools;
pub mod unkey;
