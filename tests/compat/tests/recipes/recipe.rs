//! The libraries, and what each of them does in each situation. The page's tables are made of this.

/// What is expected of a library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected {
    /// How many requests it sends.
    pub(crate) attempts: usize,
    /// What the application gets: a status, or the name of an error.
    pub(crate) told: &'static str,
    /// Whether it waits as long as `Retry-After` says.
    pub(crate) obeys: bool,
}

/// It sends the request again, and the application gets the 200.
const AGAIN: Expected = Expected { attempts: 2, told: "200", obeys: false };
/// As [`AGAIN`], and not before the time of `Retry-After`.
const LATER: Expected = Expected { obeys: true, ..AGAIN };

/// It sends the request once, and the application gets this.
const fn once(told: &'static str) -> Expected {
    Expected { attempts: 1, told, obeys: false }
}

/// It sends the request again, and the application gets this nevertheless.
const fn twice(told: &'static str) -> Expected {
    Expected { attempts: 2, told, obeys: false }
}

/// It tries no answer again; this is what it does after a reset, and what the application gets of an answer that is cut off and of a timeout.
const fn unaided(reset: Expected, cut_off: &'static str, timeout: &'static str) -> [Expected; 10] {
    let [busy, in_flight] = [once("503"), once("409")];
    [busy, in_flight, busy, reset, once(cut_off), once(timeout), in_flight, busy, once("400"), busy]
}

/// What runs a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Runner {
    /// `clients.mjs` with Node.js.
    Node,
    /// `clients.py`
    Python,
    /// `clients.go`
    Go,
    /// `Clients.java`
    Java,
    /// curl with these options, and without the example.
    Curl(&'static [&'static str]),
    /// `curl.sh` with these further options.
    CurlExample(&'static [&'static str]),
    /// This process.
    Rust,
}

/// A library, with or without the configuration of its example.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recipe {
    /// What the page calls it.
    pub(crate) label: &'static str,
    /// What the runner calls it. With [`Recipe::is_configured`] it names a recipe.
    pub(crate) library: &'static str,
    /// Whether it has the configuration of its example.
    pub(crate) is_configured: bool,
    /// What runs it.
    pub(crate) runner: Runner,
    /// What it does in each of the situations.
    pub(crate) expected: [Expected; 10],
}

const fn plain(label: &'static str, library: &'static str, runner: Runner, expected: [Expected; 10]) -> Recipe {
    Recipe { label, library, is_configured: false, runner, expected }
}

const fn configured(label: &'static str, library: &'static str, runner: Runner, expected: [Expected; 10]) -> Recipe {
    Recipe { label, library, is_configured: true, runner, expected }
}

const AXIOS: &str = "axios 1.21.1, axios-retry 4.5.0";
const GOT: &str = "got 14.6.6";
const UNDICI: &str = "undici 7.30.2 `RetryAgent`";
const REQUESTS: &str = "requests 2.34.2, urllib3 2.8.0";
const RETRYABLEHTTP: &str = "go-retryablehttp 0.7.8";
const OKHTTP: &str = "OkHttp 5.5.1";
const REQWEST: &str = "reqwest 0.13.5, reqwest-retry 0.9.1";
const STRIPE_NODE: &str = "stripe-node 21.0.1";
const STRIPE_PYTHON: &str = "stripe-python 12.5.2";

/// Those that take long to start come first.
pub(crate) const RECIPES: [Recipe; 24] = [
    plain(
        STRIPE_NODE,
        "stripe-node",
        Runner::Node,
        [LATER, LATER, AGAIN, AGAIN, once("nothing"), AGAIN, AGAIN, AGAIN, once("400"), LATER],
    ),
    configured(
        STRIPE_NODE,
        "stripe-node",
        Runner::Node,
        [LATER, LATER, AGAIN, AGAIN, once("nothing"), AGAIN, once("409"), once("503"), once("400"), LATER],
    ),
    plain(
        OKHTTP,
        "okhttp",
        Runner::Java,
        unaided(once("SocketException"), "ProtocolException", "SocketTimeoutException"),
    ),
    configured(
        OKHTTP,
        "okhttp",
        Runner::Java,
        [LATER, LATER, AGAIN, AGAIN, AGAIN, AGAIN, once("409"), once("503"), once("400"), once("503")],
    ),
    plain(
        STRIPE_PYTHON,
        "stripe-python",
        Runner::Python,
        [LATER, LATER, AGAIN, AGAIN, once("APIConnectionError"), AGAIN, AGAIN, AGAIN, once("400"), LATER],
    ),
    configured(
        STRIPE_PYTHON,
        "stripe-python",
        Runner::Python,
        [LATER, LATER, AGAIN, AGAIN, once("APIConnectionError"), AGAIN, once("409"), once("503"), once("400"), LATER],
    ),
    plain(AXIOS, "axios", Runner::Node, unaided(AGAIN, "ERR_BAD_RESPONSE", "ECONNABORTED")),
    configured(
        AXIOS,
        "axios",
        Runner::Node,
        [LATER, LATER, AGAIN, AGAIN, AGAIN, AGAIN, once("409"), once("503"), once("400"), once("503")],
    ),
    plain(GOT, "got", Runner::Node, unaided(once("ECONNRESET"), "ECONNRESET", "ETIMEDOUT")),
    configured(
        GOT,
        "got",
        Runner::Node,
        [LATER, LATER, AGAIN, AGAIN, AGAIN, AGAIN, once("409"), once("503"), once("400"), once("503")],
    ),
    plain(UNDICI, "undici", Runner::Node, unaided(once("ECONNRESET"), "UND_ERR_SOCKET", "UND_ERR_HEADERS_TIMEOUT")),
    configured(
        UNDICI,
        "undici",
        Runner::Node,
        [LATER, LATER, AGAIN, AGAIN, twice("UND_ERR_REQ_RETRY"), AGAIN, AGAIN, AGAIN, once("400"), LATER],
    ),
    plain("`fetch` of Node.js 20", "fetch", Runner::Node, unaided(once("TypeError"), "TypeError", "TimeoutError")),
    plain(
        REQUESTS,
        "requests",
        Runner::Python,
        unaided(once("ConnectionError"), "ChunkedEncodingError", "ReadTimeout"),
    ),
    configured(
        REQUESTS,
        "requests",
        Runner::Python,
        [
            LATER,
            LATER,
            AGAIN,
            AGAIN,
            once("ChunkedEncodingError"),
            AGAIN,
            once("409"),
            once("503"),
            once("400"),
            once("503"),
        ],
    ),
    plain(
        "httpx 0.28.1, also with `HTTPTransport(retries=3)`",
        "httpx",
        Runner::Python,
        unaided(once("ReadError"), "RemoteProtocolError", "ReadTimeout"),
    ),
    plain(
        "curl 7.88.1 `--retry 3`",
        "curl",
        Runner::Curl(&["--retry", "3"]),
        [
            LATER,
            once("409"),
            AGAIN,
            once("exit code 56"),
            once("exit code 18"),
            AGAIN,
            once("409"),
            AGAIN,
            once("400"),
            LATER,
        ],
    ),
    configured(
        "curl 7.88.1",
        "curl",
        Runner::CurlExample(&[]),
        [LATER, once("409"), AGAIN, AGAIN, AGAIN, AGAIN, once("409"), AGAIN, once("400"), LATER],
    ),
    // With more retries it would repeat the 400 after 1, 2, 4 … seconds, as often as it may.
    configured(
        "curl 7.88.1, also with `--fail-with-body`",
        "curl-fail",
        Runner::CurlExample(&["--fail-with-body", "--retry", "1"]),
        [LATER, AGAIN, AGAIN, AGAIN, AGAIN, AGAIN, AGAIN, AGAIN, twice("400"), LATER],
    ),
    plain("Go 1.26 `net/http`", "net/http", Runner::Go, unaided(once("connection reset"), "unexpected EOF", "timeout")),
    plain(
        RETRYABLEHTTP,
        "retryablehttp",
        Runner::Go,
        [LATER, once("409"), AGAIN, AGAIN, once("unexpected EOF"), AGAIN, once("409"), AGAIN, once("400"), LATER],
    ),
    configured(
        RETRYABLEHTTP,
        "retryablehttp",
        Runner::Go,
        [LATER, LATER, AGAIN, AGAIN, once("unexpected EOF"), AGAIN, once("409"), once("503"), once("400"), once("503")],
    ),
    plain(
        REQWEST,
        "reqwest",
        Runner::Rust,
        [
            AGAIN,
            once("409"),
            AGAIN,
            AGAIN,
            once("error decoding response body"),
            AGAIN,
            once("409"),
            AGAIN,
            once("400"),
            AGAIN,
        ],
    ),
    configured(
        REQWEST,
        "reqwest",
        Runner::Rust,
        [
            LATER,
            LATER,
            AGAIN,
            AGAIN,
            once("error decoding response body"),
            AGAIN,
            once("409"),
            once("503"),
            once("400"),
            once("503"),
        ],
    ),
];

impl Recipe {
    /// A name for tests and keys.
    pub(crate) fn name(&self) -> String {
        format!("{}-{}", self.library.replace('/', "-"), self.mode())
    }

    /// Whether this is an SDK of Stripe. It is installed elsewhere, makes its own body, and its configuration is the API's.
    pub(crate) fn is_stripe(&self) -> bool {
        self.library.starts_with("stripe")
    }

    /// What the runners call it.
    pub(crate) const fn mode(&self) -> &'static str {
        if self.is_configured { "configured" } else { "plain" }
    }
}
