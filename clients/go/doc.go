// Package idempotency is an HTTP client that retries safely, for an API behind the filter Edge Idempotency.
//
// A [Client] is an [http.RoundTripper]. It gives each POST and PATCH an Idempotency-Key, keeps the request in a [Store] before it
// is sent, and sends it until there is an answer. [Client.ResumePending] sends what a process before this one has left in the store.
//
// The rules are those of clients/README.md in the project's repository.
package idempotency

// Version is the version of this package, without the "v" of Go's module versions.
const Version = "0.1.0"
