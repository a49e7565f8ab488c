//! Restate's admin API, as the commands `retention` and `keys` use it.
//!
//! | module | subject |
//! |---|---|
//! | `connection` | where the API is, credentials for it, and what its errors mean |
//! | `names` | ids of invocations, names of services and handlers |
//! | `services` | services and their retention |
//! | `durations` | Restate's durations and times |
//! | `invocations` | invocations and their results: queries in pages, purging |
//! | `sql` | text in SQL |
//! | `plan` | a policy's retention beside that of the services |
//! | `apply` | changes what a plan says |
//! | `claims_outlast` | claims that outlast their results while retention is changed |
//! | `plan_text` | a plan for people |
//! | `selection` | which keys are meant: of a tenant, a project, a subject, an endpoint |
//! | `claims` | the guard's claims that belong to keys |
//! | `keys_text` | stored results for people |
//! | `purging` | purging of results and claims |
//! | `audit` | a line for each result that was purged |

mod apply;
pub(crate) mod audit;
pub(crate) mod claims;
pub(crate) mod claims_outlast;
pub(crate) mod connection;
pub(crate) mod durations;
pub(crate) mod invocations;
pub(crate) mod keys_text;
pub(crate) mod names;
pub(crate) mod plan;
pub(crate) mod plan_text;
pub(crate) mod purging;
pub(crate) mod selection;
pub(crate) mod services;
pub(crate) mod sql;
