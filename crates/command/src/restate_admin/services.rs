//! The services that Restate knows, and their retention.

use super::connection::{Admin, Refusal};
use super::names::RestateName;
use crate::explain::terminal_text::printable;
use serde::Deserialize;
use serde_json::{Value, json};

/// A service, as `GET /services` describes it. Members that are not needed here are left out.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Service {
    /// Its name
    pub(crate) name: RestateName,
    /// `Service`, `VirtualObject` or `Workflow`
    #[serde(default)]
    pub(crate) ty: String,
    /// For how long results are kept, such as `1d 2h`
    #[serde(default)]
    pub(crate) idempotency_retention: Option<String>,
    /// Its handlers
    #[serde(default)]
    pub(crate) handlers: Vec<Handler>,
    /// Remarks of the server
    #[serde(default)]
    pub(crate) info: Vec<Remark>,
}

/// A handler. What it sets itself takes precedence over what the service sets.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Handler {
    /// Its name
    pub(crate) name: RestateName,
    /// For how long its results are kept, if it sets that itself
    #[serde(default)]
    pub(crate) idempotency_retention: Option<String>,
}

/// A remark of the server about a service.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Remark {
    /// Such as `RT0022`
    #[serde(default)]
    pub(crate) code: String,
}

impl Service {
    /// For how long it keeps results, as Restate writes it, or `unknown`.
    pub(crate) fn retention(&self) -> &str {
        self.idempotency_retention.as_deref().unwrap_or("unknown")
    }

    /// Whether the server says that it holds the retention of results below what is set (RT0022).
    pub(crate) fn is_clamped(&self) -> bool {
        self.info.iter().any(|remark| remark.code == "RT0022")
    }
}

#[derive(Deserialize)]
struct Services {
    services: Vec<Service>,
}

impl Admin {
    /// Every service that Restate knows.
    ///
    /// # Errors
    /// A sentence.
    pub(crate) fn services(&self) -> Result<Vec<Service>, String> {
        let body = self.call("GET", "/services", None)?.map_err(|refusal| self.told("GET /services", &refusal))?;
        let read: Services = self.read("GET /services", body)?;
        Ok(read.services)
    }

    /// Sets for how long results of a service are kept.
    ///
    /// # Errors
    /// The outer error is a sentence. The inner one is what Restate says.
    pub(crate) fn set_retention(&self, service: &RestateName, seconds: u64) -> Result<Result<(), Refusal>, String> {
        let body = json!({"idempotency_retention": format!("{seconds}s")});
        Ok(self.call("PATCH", &format!("/services/{service}"), Some(&body))?.map(drop))
    }

    /// Reads a reply. `what`: what was asked.
    pub(super) fn read<T: serde::de::DeserializeOwned>(&self, what: &str, body: Value) -> Result<T, String> {
        serde_json::from_value(body).map_err(|error| {
            format!(
                "Restate {} at {} answers {what} in a form that is not known here: {}",
                self.version,
                self.address(),
                printable(&error.to_string())
            )
        })
    }
}
