//! Findings for programs, and documents in YAML.
//!
//! | module | subject |
//! |---|---|
//! | `yaml` | reads YAML into a tree with the place of each value |
//! | `formats` | findings as JSON and as commands of GitHub Actions |
//! | `sarif` | findings as SARIF 2.1.0 |

pub(crate) mod formats;
pub(crate) mod sarif;
pub(crate) mod yaml;
