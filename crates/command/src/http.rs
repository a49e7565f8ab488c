//! HTTP requests of the command: one client with timeouts, whose errors say what could not be reached and why.
//!
//! Requests to this machine do not go through the proxy that the environment names (`HTTPS_PROXY` and the like); other requests
//! do, unless `NO_PROXY` lists their host. A credential goes over plain http to this machine only, unless the user allows it.

mod url_rules;

use std::time::Duration;
use ureq::Proxy;
use ureq::http::{HeaderName, HeaderValue, Method, Request};
use ureq::tls::{RootCerts, TlsConfig};
pub(crate) use url_rules::without_user;

/// The time for a connection, TLS included.
const CONNECT: Duration = Duration::from_secs(5);

/// The longest body of a reply that is read, in bytes.
const LONGEST_REPLY: u64 = 256 * 1024 * 1024;

/// A client. Redirects are not followed, since a header with a credential must not reach another host.
pub(crate) struct HttpClient {
    /// For other machines
    agent: ureq::Agent,
    /// For this machine: it knows no proxy
    direct: ureq::Agent,
    headers: Vec<(HeaderName, HeaderValue)>,
    holds_secret: bool,
    allows_plain_http: bool,
}

/// A reply, whatever its status.
#[derive(Debug)]
pub(crate) struct HttpReply {
    /// The status
    pub(crate) status: u16,
    /// `location`, where a redirect leads
    pub(crate) location: Option<String>,
    /// `content-type`
    pub(crate) content_type: Option<String>,
    /// The body
    pub(crate) body: Vec<u8>,
}

/// Why there is no reply.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoReply {
    /// The request could not be made: a malformed URL or header.
    Unusable(String),
    /// The host could not be reached, or its TLS certificate is not trusted.
    Unreachable(String),
    /// The time is over.
    Timeout(String),
}

impl std::fmt::Display for NoReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::Unusable(message) | Self::Unreachable(message) | Self::Timeout(message)) = self;
        f.write_str(message)
    }
}

impl HttpClient {
    /// A client that waits at most this long for each whole reply.
    pub(crate) fn new(timeout: Duration) -> Self {
        let tls = TlsConfig::builder().root_certs(RootCerts::PlatformVerifier).build();
        let config = |proxy| -> ureq::Agent {
            let config = ureq::Agent::config_builder().proxy(proxy);
            config
                .timeout_global(Some(timeout))
                .timeout_connect(Some(CONNECT.min(timeout)))
                .http_status_as_error(false)
                .max_redirects(0)
                .max_redirects_will_error(false)
                .user_agent(concat!("edge-idempotency/", env!("CARGO_PKG_VERSION")))
                .tls_config(tls.clone())
                .build()
                .into()
        };
        Self {
            agent: config(Proxy::try_from_env()),
            direct: config(None),
            headers: Vec::new(),
            holds_secret: false,
            allows_plain_http: false,
        }
    }

    /// Whether credentials may go over plain http to other machines (`--allow-plain-http`).
    pub(crate) fn allow_plain_http(mut self, is_allowed: bool) -> Self {
        self.allows_plain_http = is_allowed;
        self
    }

    /// Treats each request as one that holds a credential, wherever it is.
    pub(crate) fn holding_secret(mut self, holds_secret: bool) -> Self {
        self.holds_secret = holds_secret;
        self
    }

    /// Sends this header with every request. Its value is a credential: no error repeats it.
    ///
    /// # Errors
    /// The name is no header name, or the value has characters that no header can have.
    pub(crate) fn always(&mut self, name: &str, value: &str) -> Result<(), String> {
        let parsed: HeaderName = name.parse().map_err(|_| format!("`{name}` is not a header name"))?;
        let mut value: HeaderValue = value
            .parse()
            .map_err(|_| format!("the value for the header `{name}` has characters that no header can have"))?;
        value.set_sensitive(true);
        self.headers.push((parsed, value));
        Ok(())
    }

    /// Sends a request. `headers` are its own, beside those of [`HttpClient::always`]. Without a `body` it has none.
    ///
    /// # Errors
    /// There is no reply, or it is longer than 256 MiB.
    pub(crate) fn send(
        &self,
        method: &str,
        url: &str,
        headers: &[(&str, &str)],
        body: Option<&[u8]>,
    ) -> Result<HttpReply, NoReply> {
        let uri = url_rules::parse(url).map_err(|error| NoReply::Unusable(format!("{method} {error}")))?;
        let unusable = |what: &dyn std::fmt::Display| NoReply::Unusable(format!("{method} {url}: {what}"));
        let is_local = url_rules::is_loopback(&uri);
        if !(is_local || self.allows_plain_http || uri.scheme_str() == Some("https")) {
            self.check_plain_http().map_err(|what| unusable(&what))?;
        }
        let agent = if is_local { &self.direct } else { &self.agent };
        let method = Method::from_bytes(method.as_bytes()).map_err(|error| unusable(&error))?;
        let mut request = Request::builder().method(method.clone()).uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let no_reply = |error: ureq::Error| explain(&method, url, error);
        let mut response = match body {
            Some(body) => agent.run(request.body(body).map_err(|error| unusable(&error))?),
            None => agent.run(request.body(()).map_err(|error| unusable(&error))?),
        }
        .map_err(no_reply)?;
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let (location, content_type) = (header("location"), header("content-type"));
        let body = response.body_mut().with_config().limit(LONGEST_REPLY).read_to_vec().map_err(no_reply)?;
        Ok(HttpReply { status: response.status().as_u16(), location, content_type, body })
    }

    /// Refuses what must not go over plain http. Its error does not repeat the credential.
    fn check_plain_http(&self) -> Result<(), String> {
        let mut names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        if self.holds_secret {
            names.push("the secret of the delivery");
        }
        if names.is_empty() {
            return Ok(());
        }
        Err(format!(
            "http does not encrypt the credentials ({}), so the request was not sent: give an https URL, or add \
             --allow-plain-http if you trust every network on the way",
            names.join(", ")
        ))
    }
}

fn explain(method: &Method, url: &str, error: ureq::Error) -> NoReply {
    let sentence = |what: String| format!("{method} {url}: {what}");
    match error {
        ureq::Error::Timeout(ureq::Timeout::Global | ureq::Timeout::RecvResponse | ureq::Timeout::RecvBody) => {
            NoReply::Timeout(sentence("there was no whole reply in time".to_owned()))
        }
        ureq::Error::Timeout(_) => NoReply::Unreachable(sentence("no connection could be made in time".to_owned())),
        ureq::Error::HostNotFound => NoReply::Unreachable(sentence("there is no host of this name".to_owned())),
        ureq::Error::Io(error) => other(&error.to_string(), sentence),
        ureq::Error::BodyExceedsLimit(_) => NoReply::Unusable(sentence("the reply is longer than 256 MiB".to_owned())),
        ureq::Error::BadUri(error) => NoReply::Unusable(sentence(error)),
        error => other(&error.to_string(), sentence),
    }
}

fn other(error: &str, sentence: impl Fn(String) -> String) -> NoReply {
    if error.contains("certificate") {
        let advice = "If your own authority signed it, let the variable SSL_CERT_FILE name the authority's certificate";
        return NoReply::Unusable(sentence(format!("{error}. {advice}")));
    }
    NoReply::Unreachable(sentence(error.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    /// A server that answers one request with these bytes and gives what it got.
    fn answering(reply: &'static str) -> (String, std::thread::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/path", listener.local_addr().unwrap());
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let (mut got, mut part) = (Vec::new(), [0; 1024]);
            while !got.ends_with(b"body") && !got.ends_with(b"\r\n\r\n") {
                let read = stream.read(&mut part).unwrap();
                assert!(read > 0, "the request ended early");
                got.extend(&part[..read]);
            }
            stream.write_all(reply.as_bytes()).unwrap();
            String::from_utf8(got).unwrap()
        });
        (url, server)
    }

    #[test]
    fn every_status_is_a_reply_and_redirects_are_not_followed() {
        let mut client = HttpClient::new(Duration::from_secs(30));
        client.always("authorization", "Bearer planted").unwrap();
        for (reply, status, location) in [
            ("HTTP/1.1 500 Oops\r\ncontent-length: 2\r\n\r\nno", 500, None),
            (
                "HTTP/1.1 307 There\r\nlocation: http://other.invalid/\r\ncontent-length: 2\r\n\r\nno",
                307,
                Some("http://other.invalid/"),
            ),
        ] {
            let (url, server) = answering(reply);
            let got = client.send("GET", &url, &[("accept", "text/plain")], None).unwrap();
            assert_eq!((got.status, got.location.as_deref(), got.body.as_slice()), (status, location, &b"no"[..]));
            let request = server.join().unwrap();
            assert!(
                request.contains("authorization: Bearer planted") && request.contains("accept: text/plain"),
                "{request}"
            );
        }
    }

    #[test]
    fn bodies_are_sent() {
        let (url, server) = answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        let client = HttpClient::new(Duration::from_secs(30));
        assert_eq!(client.send("PATCH", &url, &[], Some(b"body")).unwrap().status, 200);
        assert!(server.join().unwrap().starts_with("PATCH /path HTTP/1.1"));
    }

    #[test]
    fn what_cannot_be_reached_is_named() {
        let client = HttpClient::new(Duration::from_secs(30));
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = client.send("GET", &format!("http://{closed}/"), &[], None).unwrap_err();
        assert!(matches!(&error, NoReply::Unreachable(text) if text.contains("refused")), "{error}");
        let error = client.send("GET", "http://no-such-host.invalid/", &[], None).unwrap_err();
        assert!(matches!(error, NoReply::Unreachable(_)), "{error}");
        assert!(matches!(client.send("GET", "http://[", &[], None).unwrap_err(), NoReply::Unusable(_)));
    }

    #[test]
    fn silence_is_a_timeout() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let error = HttpClient::new(Duration::from_millis(50)).send("GET", &url, &[], None).unwrap_err();
        assert!(matches!(error, NoReply::Timeout(_)), "{error}");
    }

    #[test]
    fn credentials_go_over_plain_http_only_where_it_is_allowed() {
        const ELSEWHERE: &str = "http://no-such-host.invalid/";
        let client = || HttpClient::new(Duration::from_secs(30));
        let with_header = || {
            let mut client = client();
            client.always("authorization", "Bearer planted").unwrap();
            client
        };
        for refused in [with_header(), client().holding_secret(true)] {
            let error = refused.send("GET", ELSEWHERE, &[], None).unwrap_err();
            assert!(matches!(&error, NoReply::Unusable(text) if text.contains("--allow-plain-http")), "{error}");
            assert!(!error.to_string().contains("planted"), "{error}");
        }
        // These are sent, and there is no such host.
        let https = "https://no-such-host.invalid/";
        for (client, url) in
            [(with_header().allow_plain_http(true), ELSEWHERE), (with_header(), https), (client(), ELSEWHERE)]
        {
            let error = client.send("GET", url, &[], None).unwrap_err();
            assert!(matches!(&error, NoReply::Unreachable(_)), "{error}");
        }
        let (url, server) = answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(with_header().send("GET", &url, &[], None).unwrap().status, 200);
        assert!(server.join().unwrap().contains("planted"));
    }

    #[test]
    fn credentials_are_never_repeated() {
        let mut client = HttpClient::new(Duration::from_secs(1));
        let error = client.always("authorization", "Bearer plan\nted").unwrap_err();
        assert!(!error.contains("plan"), "{error}");
        assert!(client.always("a b", "planted").is_err());
    }
}
