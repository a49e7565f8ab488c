//! Problems as callers read them that use gRPC, gRPC-Web or Connect (docs/contract.md section 8). Such a client reads no problem
//! document: it looks for a status of its protocol, for a message, and for details in protobuf.

use super::Problem;
use crate::codes::RpcStatus;
use crate::headers::RETRY;
use crate::json::to_text;
use crate::percent::push_escape;
use crate::policy::Answers;
use crate::protobuf::append_field;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use std::borrow::Cow;

/// What a caller's client expects of an answer, as the request's headers tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CallerProtocol {
    /// HTTP: a problem document
    #[default]
    Http,
    /// gRPC (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>)
    Grpc,
    /// gRPC-Web with this content type (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md>)
    GrpcWeb(&'static str),
    /// A unary call of Connect (<https://connectrpc.com/docs/protocol/>)
    Connect,
    /// A stream of Connect with this content type
    ConnectStream(&'static str),
}

/// The content types that are read, and those of the answers.
const CONTENT_TYPES: [(&str, CallerProtocol); 8] = [
    ("grpc-web", CallerProtocol::GrpcWeb("application/grpc-web")),
    ("grpc-web+proto", CallerProtocol::GrpcWeb("application/grpc-web+proto")),
    ("grpc-web+json", CallerProtocol::GrpcWeb("application/grpc-web+json")),
    ("grpc-web-text", CallerProtocol::GrpcWeb(WEB_TEXT)),
    ("grpc-web-text+proto", CallerProtocol::GrpcWeb(WEB_TEXT)),
    ("connect+proto", CallerProtocol::ConnectStream("application/connect+proto")),
    ("connect+json", CallerProtocol::ConnectStream("application/connect+json")),
    ("grpc", CallerProtocol::Grpc),
];

/// gRPC-Web in base64, for browsers that cannot read binary answers as they come.
const WEB_TEXT: &str = "application/grpc-web-text+proto";

impl CallerProtocol {
    /// The protocol that a request's `content-type` names. [`CallerProtocol::Http`] also where `connect-protocol-version` makes
    /// it a unary call of Connect.
    pub(crate) fn of_content_type(value: &[u8]) -> Self {
        let Some(kind) = value.strip_prefix(b"application/") else { return Self::Http };
        // Of these protocols alone the type begins with one of these letters, so most requests are compared once.
        if !matches!(kind, [b'g' | b'c', ..]) {
            return Self::Http;
        }
        let kind = kind.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii_end();
        match CONTENT_TYPES.iter().find(|(name, _)| name.as_bytes() == kind) {
            Some((_, protocol)) => *protocol,
            // Any format of the messages can stand behind the plus sign.
            None if kind.starts_with(b"grpc+") => Self::Grpc,
            None => Self::Http,
        }
    }

    /// The name of the protocol; `None` for HTTP alone.
    pub const fn rpc_name(self) -> Option<&'static str> {
        match self {
            Self::Http => None,
            Self::Grpc => Some("gRPC"),
            Self::GrpcWeb(_) => Some("gRPC-Web"),
            Self::Connect | Self::ConnectStream(_) => Some("Connect"),
        }
    }

    /// The protocol of a request with this method and query, of which the headers tell nothing else: a unary call of Connect
    /// without side effects is a `GET` with `connect=v1`.
    pub(crate) fn or_connect_get(self, method: &[u8], query: Option<&[u8]>) -> Self {
        let Some(query) = query.filter(|_| self == Self::Http && method == b"GET") else { return self };
        if query.split(|byte| *byte == b'&').any(|part| part == b"connect=v1") { Self::Connect } else { self }
    }
}

/// An answer with a problem, in the protocol of the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProblemAnswer<'a> {
    /// The HTTP status
    pub status: u16,
    /// The status of gRPC, for a host that makes the answer to a gRPC request itself
    pub grpc_status: Option<u8>,
    /// Header lines, without the status
    pub headers: Vec<(&'a str, String)>,
    /// The body
    pub body: Vec<u8>,
}

impl Problem {
    /// The status for callers that use gRPC or Connect.
    pub fn rpc_status(&self) -> RpcStatus {
        self.code.rpc_status(self.retry())
    }

    /// The answer to a refused request.
    pub fn answer<'a>(&self, answers: &'a Answers, protocol: CallerProtocol) -> ProblemAnswer<'a> {
        let headers = self.headers(answers);
        if protocol == CallerProtocol::Http {
            let body = self.document(answers).into_bytes();
            return ProblemAnswer { status: self.status(), grpc_status: None, headers, body };
        }
        self.rpc_answer(answers, protocol, headers)
    }

    #[inline(never)]
    fn rpc_answer<'a>(
        &self,
        answers: &Answers,
        protocol: CallerProtocol,
        mut headers: Vec<(&'a str, String)>,
    ) -> ProblemAnswer<'a> {
        headers.retain(|(name, _)| !matches!(*name, "content-type" | RETRY));
        if self.is_advice_known() {
            headers.push((RETRY, self.retry().name().to_owned()));
        }
        let rpc_status = self.rpc_status();
        let (content_type, status, body) = match protocol {
            CallerProtocol::Http | CallerProtocol::Connect => {
                ("application/json", rpc_status.http(), self.connect_error(answers).into_bytes())
            }
            CallerProtocol::ConnectStream(content_type) => {
                let end = ["{\"error\":", &self.connect_error(answers), "}"].concat();
                (content_type, 200, frame(END_OF_CONNECT, end.as_bytes()))
            }
            CallerProtocol::Grpc => {
                headers.extend(self.grpc_trailers(answers));
                ("application/grpc", 200, Vec::new())
            }
            CallerProtocol::GrpcWeb(content_type) => {
                let mut lines = String::new();
                for (name, value) in self.grpc_trailers(answers) {
                    lines.extend([name, ": ", &value, "\r\n"]);
                }
                let body = frame(END_OF_WEB, lines.as_bytes());
                let body = if content_type == WEB_TEXT { BASE64_STANDARD.encode(body).into_bytes() } else { body };
                (content_type, 200, body)
            }
        };
        headers.push(("content-type", content_type.to_owned()));
        let grpc_status = (protocol == CallerProtocol::Grpc).then(|| rpc_status.number());
        ProblemAnswer { status, grpc_status, headers, body }
    }

    /// What people read: the code, the reason if there is one, and what to change.
    fn message(&self) -> String {
        let name = self.code.name();
        match self.reason {
            Some(reason) => [name, " (", reason.name(), "): ", &self.detail].concat(),
            None => [name, ": ", &self.detail].concat(),
        }
    }

    /// An error of Connect as JSON.
    fn connect_error(&self, answers: &Answers) -> String {
        let metadata = self.metadata(answers);
        let mut json = String::from("{");
        put(&mut json, "code", self.rpc_status().name());
        put(&mut json, "message", &self.message());
        json.push_str(",\"details\":[{");
        put(&mut json, "type", ERROR_INFO);
        put(&mut json, "value", &unpadded(&self.error_info(&metadata)));
        json.push_str(",\"debug\":{");
        put(&mut json, "reason", &self.code.name().to_ascii_uppercase());
        put(&mut json, "domain", DOMAIN);
        json.push_str(",\"metadata\":{");
        for (name, value) in &metadata {
            put(&mut json, name, value);
        }
        json.push_str("}}}]}");
        json
    }

    fn grpc_trailers(&self, answers: &Answers) -> [(&'static str, String); 3] {
        let (status, message) = (self.rpc_status().number(), self.message());
        // google.rpc.Status: a code, a message, details as google.protobuf.Any.
        let (mut any, mut details) = (Vec::new(), vec![CODE_FIELD, status]);
        append_field(&mut any, 1, ["type.googleapis.com/", ERROR_INFO].concat().as_bytes());
        append_field(&mut any, 2, &self.error_info(&self.metadata(answers)));
        append_field(&mut details, 2, message.as_bytes());
        append_field(&mut details, 3, &any);
        [
            ("grpc-status", status.to_string()),
            ("grpc-message", percent_encoded(&message)),
            ("grpc-status-details-bin", unpadded(&details)),
        ]
    }

    /// The details that programs read, a google.rpc.ErrorInfo: a reason, a domain, a map of texts. The reason is the code in
    /// capitals, as <https://google.aip.dev/193> wants it.
    fn error_info(&self, metadata: &[(&str, Cow<'_, str>)]) -> Vec<u8> {
        let mut message = Vec::new();
        append_field(&mut message, 1, self.code.name().to_ascii_uppercase().as_bytes());
        append_field(&mut message, 2, DOMAIN.as_bytes());
        for (name, value) in metadata {
            let mut entry = Vec::new();
            append_field(&mut entry, 1, name.as_bytes());
            append_field(&mut entry, 2, value.as_bytes());
            append_field(&mut message, 3, &entry);
        }
        message
    }

    /// What else a problem document says, sorted by name.
    fn metadata(&self, answers: &Answers) -> Vec<(&'static str, Cow<'static, str>)> {
        let mut metadata = Vec::new();
        if let Some(id) = self.instance {
            metadata.push(("instance", format!("urn:uuid:{id}").into()));
        }
        if let Some(reason) = self.reason {
            metadata.push(("reason", reason.name().into()));
        }
        metadata.push(("retry", self.retry().name().into()));
        if let Some(url) = &answers.docs_url {
            metadata.push(("type", [url.as_str(), "#", self.code.name()].concat().into()));
        }
        metadata
    }
}

/// The message of the details.
const ERROR_INFO: &str = "google.rpc.ErrorInfo";
/// Whose codes the details have.
const DOMAIN: &str = "edge-idempotency";
/// The tag of the code in google.rpc.Status: field 1, a number.
const CODE_FIELD: u8 = 1 << 3;
/// The flag of the message with which a stream of Connect ends.
const END_OF_CONNECT: u8 = 0x02;
/// The flag of the message with the trailers of gRPC-Web.
const END_OF_WEB: u8 = 0x80;

/// A message of a stream: its flags, its length in four bytes, and its content.
fn frame(flags: u8, content: &[u8]) -> Vec<u8> {
    let mut frame = vec![flags];
    frame.extend(u32::try_from(content.len()).unwrap_or_default().to_be_bytes());
    frame.extend(content);
    frame
}

/// Base64 without padding, as both protocols write bytes.
fn unpadded(bytes: &[u8]) -> String {
    let mut text = BASE64_STANDARD.encode(bytes);
    text.truncate(text.trim_end_matches('=').len());
    text
}

/// Appends a member to a JSON object, with a comma if it is not the first one.
fn put(json: &mut String, name: &str, value: &str) {
    let comma = if json.ends_with('{') { "" } else { "," };
    json.extend([comma, "\"", name, "\":", &to_text(&value)]);
}

/// As gRPC encodes `grpc-message`: `%` and what is not visible ASCII or a space become `%XX`.
fn percent_encoded(message: &str) -> String {
    let mut encoded = String::with_capacity(message.len());
    for byte in message.bytes() {
        if matches!(byte, b' '..=b'~') && byte != b'%' {
            encoded.push(char::from(byte));
        } else {
            push_escape(byte, &mut encoded);
        }
    }
    encoded
}
