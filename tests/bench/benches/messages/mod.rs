//! A client library's request and the backend's answer, as a gateway hands them on.

/// Header lines: names and values
pub(crate) type MessageLines = Vec<(&'static [u8], &'static [u8])>;

/// What a gateway hands on of a client library's request.
pub(crate) fn request(method: &'static str, path: &'static str, key: Option<&'static str>) -> MessageLines {
    let mut lines: MessageLines = vec![
        (b":authority", b"api.example.com"),
        (b":path", path.as_bytes()),
        (b":method", method.as_bytes()),
        (b":scheme", b"https"),
        (b"user-agent", b"example-sdk-python/4.2.0 (linux; x86_64) python/3.12.3"),
        (b"accept", b"application/json"),
        (b"accept-encoding", b"gzip, deflate, br"),
        (b"accept-language", b"en-GB,en;q=0.9"),
        (b"authorization", b"Bearer eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJmaXJlYmFzZV91aWRfMTIzIn0.c2lnbmF0dXJl"),
        (b"content-type", b"application/json"),
        (b"content-length", b"42"),
        (b"traceparent", b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        (b"x-client-version", b"4.2.0"),
        (b"x-forwarded-for", b"203.0.113.7"),
        (b"x-forwarded-proto", b"https"),
        (b"x-request-id", b"5b1f2a52-6d3c-4c0e-9b42-0d6a3b0f6c11"),
    ];
    lines.extend(key.map(|key| (b"idempotency-key".as_slice(), key.as_bytes())));
    lines
}

/// An answer that the backend had stored.
pub(crate) fn replay() -> MessageLines {
    vec![
        (b":status", b"200"),
        (b"content-type", b"application/json"),
        (b"content-length", b"42"),
        (b"date", b"Thu, 01 Jan 2026 00:00:00 GMT"),
        (b"x-restate-id", b"inv_18qDJRLBiJHX4CXTOoBYYYkcbFhzxgdbc9"),
        (b"idempotency-expires", b"Fri, 02 Jan 2026 00:00:00 GMT"),
        (b"x-envoy-upstream-service-time", b"3"),
    ]
}
