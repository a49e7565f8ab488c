//! HTTP messages as a filter sees them: header lines with names in lower case, bodies as bytes.

use std::fmt;

/// Header or trailer lines, names in lower case, in the order they came; pseudo headers stand first.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers {
    lines: Vec<(String, Vec<u8>)>,
}

impl Headers {
    /// No lines.
    pub fn new() -> Self {
        Self::default()
    }

    /// The first value under `name`, as Envoy's single-value getter gives it.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.all(name).next()
    }

    /// Every value under `name`, in order.
    pub fn all(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        let name = name.to_ascii_lowercase();
        self.lines.iter().filter(move |(key, _)| *key == name).map(|(_, value)| value.as_slice())
    }

    /// Appends a line, whatever stands there already.
    pub fn add(&mut self, name: &str, value: impl Into<Vec<u8>>) {
        let name = name.to_ascii_lowercase();
        let at = if name.starts_with(':') {
            self.lines.iter().take_while(|(key, _)| key.starts_with(':')).count()
        } else {
            self.lines.len()
        };
        self.lines.insert(at, (name, value.into()));
    }

    /// Replaces every line of that name by one.
    pub fn set(&mut self, name: &str, value: impl Into<Vec<u8>>) {
        self.remove(name);
        self.add(name, value);
    }

    /// Removes every line of that name.
    pub fn remove(&mut self, name: &str) {
        let name = name.to_ascii_lowercase();
        self.lines.retain(|(key, _)| *key != name);
    }

    /// All lines, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &[u8])> {
        self.lines.iter().map(|(name, value)| (name.as_str(), value.as_slice()))
    }

    /// How many lines there are.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether there is no line at all.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// The length of all names and values together.
    pub fn byte_size(&self) -> usize {
        self.lines.iter().map(|(name, value)| name.len() + value.len()).sum()
    }

    /// The status of a response, if `:status` holds a number.
    pub fn status(&self) -> Option<u16> {
        std::str::from_utf8(self.get(":status")?).ok()?.parse().ok()
    }
}

impl<N: AsRef<str>, V: Into<Vec<u8>>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(lines: I) -> Self {
        let mut headers = Self::new();
        for (name, value) in lines {
            headers.add(name.as_ref(), value);
        }
        headers
    }
}

impl<N: AsRef<str>, V: Into<Vec<u8>>, const LEN: usize> From<[(N, V); LEN]> for Headers {
    fn from(lines: [(N, V); LEN]) -> Self {
        lines.into_iter().collect()
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for (name, value) in self.iter() {
            map.entry(&name, &format_args!("{}", value.escape_ascii()));
        }
        map.finish()
    }
}

/// A request or a response, or as much of it as came through.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// Header lines, pseudo headers first.
    pub headers: Headers,
    /// The body so far.
    pub body: Vec<u8>,
    /// Trailers, if there were any.
    pub trailers: Option<Headers>,
    /// Whether its end came through.
    pub complete: bool,
}

impl Message {
    /// A whole message.
    pub fn new(headers: impl Into<Headers>, body: impl Into<Vec<u8>>) -> Self {
        Self { headers: headers.into(), body: body.into(), trailers: None, complete: true }
    }

    /// The same with trailers.
    #[must_use]
    pub fn with_trailers(mut self, trailers: impl Into<Headers>) -> Self {
        self.trailers = Some(trailers.into());
        self
    }
}

/// An answer that the filter gives by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocalReply {
    /// The status.
    pub status: u32,
    /// What the filter sends besides the status.
    pub headers: Headers,
    /// The body.
    pub body: Vec<u8>,
    /// Why, for the access log; never sent.
    pub details: String,
    /// The status of gRPC, if the client uses gRPC.
    pub grpc_status: Option<u8>,
}

impl LocalReply {
    /// The response Envoy makes of it: a body gets its length, and a type if it has none; without a body both go. A client that
    /// uses gRPC gets a response that consists of headers alone.
    pub fn into_message(self) -> Message {
        if let Some(grpc_status) = self.grpc_status {
            let mut headers = Headers::from([(":status", "200".to_owned())]);
            for (name, value) in self.headers.iter() {
                headers.add(name, value);
            }
            headers.set("content-type", "application/grpc");
            headers.set("grpc-status", grpc_status.to_string());
            return Message::new(headers, Vec::new());
        }
        let mut headers = Headers::from([(":status", self.status.to_string())]);
        for (name, value) in self.headers.iter() {
            headers.add(name, value);
        }
        if self.body.is_empty() {
            headers.remove("content-length");
            headers.remove("content-type");
        } else {
            headers.set("content-length", self.body.len().to_string());
            if headers.get("content-type").is_none() {
                headers.add("content-type", "text/plain");
            }
        }
        Message::new(headers, self.body)
    }
}
