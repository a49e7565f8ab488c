//! Who calls in the story, and their requests as curl commands.

use anyhow::Result;
use harness::http::Request;
use harness::tokens::Signer;
use serde_json::json;

/// Where a command goes on in the next line.
const COMMAND_WIDTH: usize = 96;

/// A caller: what the token says.
pub(crate) struct Caller {
    /// The shell variable that holds the token.
    pub(crate) variable: &'static str,
    pub(crate) user: &'static str,
    pub(crate) tenant: &'static str,
    pub(crate) project: &'static str,
}

pub(crate) const ALICE: Caller = caller("ALICE", "alice", "acme", "health-prod");
pub(crate) const BOB: Caller = caller("BOB", "bob", "acme", "health-prod");
pub(crate) const ALICE_BILLING: Caller = caller("ALICE_BILLING", "alice", "acme", "billing");
pub(crate) const ALICE_GLOBEX: Caller = caller("ALICE_GLOBEX", "alice", "globex", "health-prod");

pub(crate) const CALLERS: [Caller; 4] = [ALICE, BOB, ALICE_BILLING, ALICE_GLOBEX];

const fn caller(variable: &'static str, user: &'static str, tenant: &'static str, project: &'static str) -> Caller {
    Caller { variable, user, tenant, project }
}

impl Caller {
    /// A token that the demo's gateway believes.
    pub(crate) fn token(&self, signer: &Signer) -> Result<String> {
        signer.mint(&json!({"sub": self.user, "tenant_id": self.tenant, "project_id": self.project}))
    }

    /// `alice, tenant acme, project health-prod`.
    pub(crate) fn introduction(&self) -> String {
        format!("{}, tenant {}, project {}", self.user, self.tenant, self.project)
    }

    /// What the filter makes of a raw key of this caller.
    pub(crate) fn namespaced(&self, raw: &str) -> String {
        format!("t-{}:{}:user:{}:{raw}", self.tenant, self.project, self.user)
    }
}

/// The request as a command that can be pasted, with the gateway and the token in shell variables.
pub(crate) fn curl(request: &Request, caller: Option<&Caller>) -> String {
    let path = &request.path;
    let mut command = "curl -i".to_owned();
    if path.contains("..") || path.contains("//") {
        command.push_str(" --path-as-is");
    }
    if request.method != if request.body.is_empty() { "GET" } else { "POST" } {
        command.push_str(&format!(" -X {}", request.method));
    }
    let mut options = vec![format!("\"$GATEWAY{path}\"")];
    options.extend(caller.map(|caller| format!("-H \"Authorization: Bearer ${}\"", caller.variable)));
    let json = request.headers.iter().any(|(name, value)| name == "content-type" && value == b"application/json");
    for (name, value) in &request.headers {
        // What curl sets by itself for `-d`.
        if name != "content-type" {
            options.push(format!("-H '{name}: {}'", String::from_utf8_lossy(value)));
        }
    }
    if json {
        options.push("-H 'Content-Type: application/json'".to_owned());
    }
    if !request.body.is_empty() {
        options.push(format!("-d '{}'", String::from_utf8_lossy(&request.body)));
    }

    let mut width = command.chars().count();
    for option in options {
        let length = option.chars().count() + 1;
        if width + length > COMMAND_WIDTH {
            command.push_str(" \\\n ");
            width = 1;
        }
        command.push(' ');
        command.push_str(&option);
        width += length;
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_become_commands() {
        let first = Request::post("/api/v1/refunds").header("Idempotency-Key", "k").json(&json!({"amount": 1}));
        assert_eq!(
            curl(&first, Some(&ALICE)),
            concat!(
                r#"curl -i "$GATEWAY/api/v1/refunds" -H "Authorization: Bearer $ALICE" -H 'Idempotency-Key: k'"#,
                " \\\n  ",
                r#"-H 'Content-Type: application/json' -d '{"amount":1}'"#
            )
        );
        assert_eq!(curl(&Request::get("//restate/health"), None), r#"curl -i --path-as-is "$GATEWAY//restate/health""#);
        let form = Request::post("/x").header("content-type", "application/x-www-form-urlencoded").body("a=1&b=2");
        assert_eq!(curl(&form, None), r#"curl -i "$GATEWAY/x" -d 'a=1&b=2'"#);
        assert_eq!(curl(&Request::post("/x"), None), r#"curl -i -X POST "$GATEWAY/x""#);
    }

    #[test]
    fn every_caller_differs() {
        let keys: std::collections::HashSet<_> = CALLERS.iter().map(|caller| caller.namespaced("k")).collect();
        assert_eq!(keys.len(), CALLERS.len());
        assert!(keys.contains("t-acme:health-prod:user:alice:k"));
    }
}
