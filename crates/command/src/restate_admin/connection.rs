//! Where Restate's admin API is, the credentials for it, and what its errors mean.

use crate::http::{HttpClient, HttpReply, NoReply};
use crate::input::variable;
use clap::Args;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// The variable with the address, where `--admin` is not given. Restate's own command has the same.
pub(crate) const ADDRESS_VARIABLE: &str = "RESTATE_ADMIN_URL";
/// The variable with the bearer token. Restate's own command has the same.
const TOKEN_VARIABLE: &str = "RESTATE_AUTH_TOKEN";

/// Which admin API is meant.
#[derive(Args)]
pub(crate) struct ConnectionArguments {
    /// The address of Restate's admin API, such as http://127.0.0.1:9070; else the variable RESTATE_ADMIN_URL has it.
    ///
    /// If the variable RESTATE_AUTH_TOKEN is set, it is sent as a bearer token, unless --header-env sends an authorization header.
    #[arg(long, value_name = "URL")]
    admin: Option<String>,
    /// Sends a header whose value is in a variable of the environment, such as X-Api-Key=ADMIN_API_KEY.
    #[arg(long = "header-env", value_name = "HEADER=VARIABLE")]
    headers: Vec<String>,
    /// Sends the credentials also over http, without encryption, to another machine.
    #[arg(long)]
    allow_plain_http: bool,
    /// How long to wait for each reply.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
}

impl ConnectionArguments {
    /// Whether there is an address.
    pub(crate) fn names_an_address(&self) -> bool {
        self.admin.is_some() || variable(ADDRESS_VARIABLE).is_some_and(|address| !address.is_empty())
    }

    /// Whether an option says where Restate is, or with which credentials.
    pub(crate) fn is_given(&self) -> bool {
        self.admin.is_some() || !self.headers.is_empty()
    }

    /// How long to wait for each reply.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }

    /// Whether credentials may go over plain http to other machines.
    pub(crate) fn allows_plain_http(&self) -> bool {
        self.allow_plain_http
    }
}

/// An admin API that has answered.
pub(crate) struct Admin {
    client: HttpClient,
    base: String,
    /// The server's version
    pub(crate) version: String,
}

/// What Restate says instead of doing what was asked.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The status of the reply
    pub(crate) status: u16,
    /// The message of the reply, or the beginning of its body
    pub(crate) message: String,
    /// Whether the body has the members of Restate's own errors. That of a proxy or of another server has not
    pub(crate) is_restates: bool,
}

impl Admin {
    /// Asks the API for its version, with the credentials from the environment.
    ///
    /// # Errors
    /// A sentence: there is no address, nothing answers there, or what answers is no admin API of Restate.
    pub(crate) fn connect(args: &ConnectionArguments) -> Result<Self, String> {
        let address = match &args.admin {
            Some(address) => address.clone(),
            None => text_of(ADDRESS_VARIABLE)?.ok_or_else(|| {
                format!("give the address of Restate's admin API: --admin URL, or the variable {ADDRESS_VARIABLE}")
            })?,
        };
        let mut client = HttpClient::new(Duration::from_secs(args.timeout)).allow_plain_http(args.allow_plain_http);
        for (name, value) in headers(&args.headers)? {
            client.always(&name, &value)?;
        }
        let mut admin = Self { client, base: base_of(&address)?, version: String::new() };
        let reply = admin.send("GET", "/version", None)?;
        let version = json(&reply).and_then(|body| {
            let is_admin = body.get("max_admin_api_version").is_some();
            let version = body.get("version").filter(|_| is_admin)?.as_str()?;
            let is_version = |byte: u8| byte.is_ascii_alphanumeric() || b".-+_".contains(&byte);
            version.bytes().all(is_version).then(|| version.to_owned())
        });
        admin.version = match version {
            Some(version) if reply.status == 200 => version,
            _ if reply.status >= 500 => return Err(admin.told("GET /version", &refusal(&reply))),
            _ => {
                return Err(format!(
                    "{} is no admin API of Restate: GET /version gave {}. The admin API has port 9070 by default; 8080 is the \
                     ingress",
                    admin.base,
                    told(&refusal(&reply))
                ));
            }
        };
        Ok(admin)
    }

    /// The address, without a slash at its end.
    pub(crate) fn address(&self) -> &str {
        &self.base
    }

    /// Sends a request; a reply with a status that is no success is a [`Refusal`].
    ///
    /// # Errors
    /// The outer error is a sentence: there is no reply, or one that says who may not ask.
    pub(crate) fn call(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Result<Value, Refusal>, String> {
        let reply = self.send(method, path, body)?;
        if !(200..300).contains(&reply.status) {
            return Ok(Err(refusal(&reply)));
        }
        if reply.body.is_empty() {
            return Ok(Ok(Value::Null));
        }
        json(&reply).map(Ok).ok_or_else(|| {
            format!("{}: the reply to {method} {path} is no JSON: {}", self.base, beginning(&reply.body))
        })
    }

    /// What a refusal means, in a sentence. `what`: what was asked.
    pub(crate) fn told(&self, what: &str, refusal: &Refusal) -> String {
        format!("Restate at {} does not answer {what} as it should: {}", self.base, told(refusal))
    }

    fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Result<HttpReply, String> {
        let url = format!("{}{path}", self.base);
        let text = body.map(Value::to_string);
        let mut headers = vec![("accept", "application/json")];
        if text.is_some() {
            headers.push(("content-type", "application/json"));
        }
        let reply = self.client.send(method, &url, &headers, text.as_deref().map(str::as_bytes)).map_err(|error| {
            match &error {
                NoReply::Unreachable(_) => {
                    format!(
                        "{error}. Does Restate run, and is this the address of its admin API (port 9070 by default)?"
                    )
                }
                NoReply::Timeout(_) => format!("{error}. Use --timeout to wait longer"),
                NoReply::Unusable(_) => error.to_string(),
            }
        })?;
        match reply.status {
            401 | 403 => Err(format!(
                "{method} {url}: {} refuses the credentials. Set {TOKEN_VARIABLE} to a bearer token, or send another header by \
                 --header-env",
                reply.status
            )),
            300..=399 => Err(format!(
                "{method} {url}: {} leads to {}. Redirects are not followed, because the credentials would go with them: give the \
                 address itself",
                reply.status,
                reply.location.as_deref().unwrap_or("nowhere")
            )),
            _ => Ok(reply),
        }
    }
}

/// The headers with credentials, by their names in lower case. The last `--header-env` for a name counts, and it counts more
/// than the bearer token: two `authorization` headers are no valid request.
fn headers(arguments: &[String]) -> Result<BTreeMap<String, String>, String> {
    let mut headers = BTreeMap::new();
    if let Some(token) = text_of(TOKEN_VARIABLE)?.filter(|token| !token.is_empty()) {
        headers.insert("authorization".to_owned(), format!("Bearer {token}"));
    }
    for header in arguments {
        let (name, source) = header.split_once('=').ok_or_else(|| {
            format!("--header-env {header}: expected HEADER=VARIABLE, such as X-Api-Key=ADMIN_API_KEY")
        })?;
        let value =
            text_of(source)?.ok_or_else(|| format!("--header-env {header}: the variable {source} is not set"))?;
        headers.insert(name.to_ascii_lowercase(), value);
    }
    Ok(headers)
}

fn told(refusal: &Refusal) -> String {
    if refusal.message.is_empty() {
        format!("status {}", refusal.status)
    } else {
        format!("status {}: {}", refusal.status, refusal.message)
    }
}

fn text_of(name: &str) -> Result<Option<String>, String> {
    let text =
        variable(name).map(|value| String::from_utf8(value).map_err(|_| format!("the variable {name} is not UTF-8")));
    text.transpose()
}

/// The address without a slash at its end.
fn base_of(address: &str) -> Result<String, String> {
    let rest = address.strip_prefix("http://").or_else(|| address.strip_prefix("https://"));
    let authority = rest.map(|rest| rest.split('/').next().unwrap_or_default()).unwrap_or_default();
    if authority.is_empty() || address.contains(['?', '#']) {
        return Err("the admin API's address has the form http://host:9070, or https://host/path".to_owned());
    }
    if authority.contains('@') {
        return Err(format!(
            "the admin API's address holds a user or a password, which other users of this machine can see in the list of \
             processes: set {TOKEN_VARIABLE} instead, or use --header-env"
        ));
    }
    Ok(address.trim_end_matches('/').to_owned())
}

fn json(reply: &HttpReply) -> Option<Value> {
    serde_json::from_slice(&reply.body).ok()
}

fn refusal(reply: &HttpReply) -> Refusal {
    let body = json(reply);
    let message = body.as_ref().and_then(|body| body.get("message")?.as_str().map(str::to_owned));
    Refusal {
        status: reply.status,
        is_restates: message.is_some() && body.is_some_and(|body| body.get("restate_code").is_some()),
        message: message.map_or_else(|| beginning(&reply.body), |text| beginning(text.as_bytes())),
    }
}

/// The first 300 characters, printable.
fn beginning(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let short: String = text.trim().chars().take(300).collect();
    let more = if short.len() < text.trim().len() { "…" } else { "" };
    format!("{}{more}", crate::explain::terminal_text::printable(&short))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_bases() {
        assert_eq!(base_of("http://127.0.0.1:9070/").unwrap(), "http://127.0.0.1:9070");
        assert_eq!(base_of("https://example.com/restate").unwrap(), "https://example.com/restate");
        for bad in ["", "localhost:9070", "ftp://a", "http://", "http:///path", "http://a?b", "http://a#b"] {
            assert!(base_of(bad).is_err(), "{bad}");
        }
        let error = base_of("https://user:planted@example.com").unwrap_err();
        assert!(error.contains(TOKEN_VARIABLE) && !error.contains("planted"), "{error}");
    }

    /// Both bodies with `restate_code` are Restate's own, seen on 1.7.12.
    #[test]
    fn an_error_of_restate_has_its_members() {
        let is = |body: &str| {
            refusal(&HttpReply { status: 404, location: None, content_type: None, body: body.as_bytes().to_vec() })
                .is_restates
        };
        assert!(is(r#"{"message":"The requested invocation 'inv_1' does not exist","restate_code":null}"#));
        for other in ["", "404 page not found", r#"{"message":"Not Found"}"#, r#"{"restate_code":null}"#] {
            assert!(!is(other), "{other}");
        }
    }

    #[test]
    fn what_restate_says_is_short_and_printable() {
        let reply =
            |body: &str| HttpReply { status: 500, location: None, content_type: None, body: body.as_bytes().to_vec() };
        assert_eq!(refusal(&reply(r#"{"message": "no \u001b[2J table"}"#)).message, "no \\u{1b}[2J table");
        assert_eq!(refusal(&reply(&"é".repeat(400))).message, format!("{}…", "é".repeat(300)));
    }
}
