// Package bridge hosts the proxy-wasm module of Edge Idempotency (ABI 0.2.1) with wazero. The module sees what it sees in
// Envoy with allow_on_headers_stop_iteration, and the caller of the package is the gateway.
package bridge

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"
)

// Line is one header line. Name is in lower case; both can hold any bytes.
type Line struct{ Name, Value string }

// Header is a message's header lines in their order. A name can occur more than once. Pseudo headers (":method",
// ":scheme", ":authority", ":path" of a request, ":status" of a response) are lines, too.
type Header []Line

// Get returns the value of the first line with this name; ok is false if there is none. The case of letters does not count.
func (h Header) Get(name string) (value string, ok bool) {
	for _, line := range h {
		if strings.EqualFold(line.Name, name) {
			return line.Value, true
		}
	}
	return "", false
}

// Message is a request or a response.
type Message struct {
	// Header holds the header lines, with the pseudo headers. Those of a request and of a response of Forward are not changed
	// while the exchange lasts.
	Header Header
	// Body is nil if neither a body nor trailers follow. The owner of the message closes it.
	Body io.ReadCloser
	// Trailer gives the trailer lines. It is valid when Body has ended with io.EOF. It is nil, or returns nothing, if there
	// are none.
	Trailer func() Header
	// InPlace says that a response is the bridge's own: the module could not answer.
	InPlace bool
}

// Metadata maps a namespace to its Struct, in the types of encoding/json: nil, bool, float64, string, []any and
// map[string]any. Values of other types are an error when the guest reads them.
type Metadata map[string]map[string]any

// Request is a request together with what the gateway knows about it.
type Request struct {
	Message
	// Metadata is the dynamic metadata of the request, for example the claims that were verified.
	Metadata Metadata
	// RouteMetadata is the metadata of the route, for example {"edge.idempotency": {"endpoint": "orders"}}.
	RouteMetadata Metadata
	// Sender names whose request this is, for the shares in Options.HeldBodies. Verified says that the gateway has verified it.
	Sender   string
	Verified bool
}

// Forward sends the request that the module let through, and returns the response. It has to honour ctx. The bridge closes
// the response's body; Forward, or what it calls, closes the request's. An error becomes a 503 of the gateway, and
// context.DeadlineExceeded a 504; both pass the response callbacks of the module.
type Forward func(ctx context.Context, request *Message) (*Message, error)

// Level is the level of a log line, with the numbers of the ABI.
type Level int

// The levels, from the least to the most important.
const (
	LevelTrace Level = iota
	LevelDebug
	LevelInfo
	LevelWarn
	LevelError
	LevelCritical
)

// String returns the name of the level in lower case.
func (l Level) String() string {
	names := [...]string{"trace", "debug", "info", "warn", "error", "critical"}
	if l < 0 || int(l) >= len(names) {
		return "unknown"
	}
	return names[l]
}

// Options is the configuration of a bridge.
type Options struct {
	// Module is the .wasm file.
	Module []byte
	// Compiled is a compiled module, in place of Module, Interpreter and MemoryPages. Whoever compiled it closes it, after the
	// bridge.
	Compiled *Module
	// Policy is the policy document, which the guest reads as the configuration of the plugin.
	Policy []byte
	// Environment holds the environment variables that the guest sees. It sees no others.
	Environment map[string]string
	// Upstreams carries out the guest's HTTP calls, by the name of the cluster. A call to another name is an error for the
	// guest, as in Envoy.
	Upstreams map[string]http.RoundTripper
	// Instances is the number of instances of the module; 0 stands for GOMAXPROCS.
	Instances int
	// Deadline is the longest time that one call into the guest can take; 0 stands for DefaultDeadline. The bridge's watchdog
	// counts it in eighths, and counts no time in which the whole process stands still. A start can take ten seconds.
	// A negative deadline is none, for measurements only: a call that does not end then stops the whole process.
	Deadline time.Duration
	// MemoryPages is the most memory that an instance can have, in pages of 64 KiB; 0 stands for DefaultMemoryPages.
	MemoryPages uint32
	// RequestBuffer is the number of bytes that the bridge keeps of a request body while the module has paused it. A longer
	// body is answered with 413. 0 stands for DefaultBuffer.
	RequestBuffer int
	// ResponseBuffer is the same for responses. A longer body is answered with 500. 0 stands for DefaultBuffer.
	ResponseBuffer int
	// HeldBodies is the number of bytes that the bridge keeps of the bodies of all requests together while the module has paused
	// them, and until the exchange ends or the client has the answer. A third each is for requests whose sender is verified, for other requests, and for
	// responses. While more than half of a third is used, a sender gets a sixteenth of it, or one body. What exceeds that is
	// not answered by the module. 0 stands for DefaultHeldBodies, or LeastHeldBodies of the larger buffer if that
	// is more.
	HeldBodies int
	// LogLevel is the lowest level that the log shows: the guest leaves out what is below. Nil stands for LevelInfo.
	LogLevel *Level
	// Log gets the lines of the guest and of the bridge. It is called from several goroutines. Nil: no log.
	Log func(level Level, message string)
	// Record gets the record of each request as a JSON object. It is called from several goroutines. Nil: no records.
	Record func(record []byte)
	// Unavailable makes the answer to a request that the module cannot answer. Nil: a problem document without the policy's
	// docs_url. The body of a request with HEAD is left out.
	Unavailable func(Cause) *Message
	// Now is the clock that the guest reads; nil stands for time.Now.
	Now func() time.Time
	// Interpreter chooses wazero's interpreter in place of its compiler, for machines that it cannot compile for.
	Interpreter bool

	// withoutSpare starts no instance in advance. It is for tests.
	withoutSpare bool
}

// Cause says why the module cannot answer a request.
type Cause int

const (
	causeNone Cause = iota
	// CauseFault: the module has failed.
	CauseFault
	// CauseBusy: the gateway's time was over, the upstream's answer broke off, or the gateway closes.
	CauseBusy
	// CauseFull and CauseShare: there is no memory for the body, or none for this sender's.
	CauseFull
	CauseShare
	// CauseBody: the body of the request is malformed or breaks off.
	CauseBody
	causes
)

// String returns the name of the cause, as metrics have it.
func (c Cause) String() string {
	return [causes]string{"none", "fault", "busy", "waiting_full", "waiting_share", "malformed_body"}[c]
}

// Defaults of Options.
const (
	// DefaultDeadline is the longest time for one call into the guest.
	DefaultDeadline = time.Second
	// DefaultMemoryPages is 64 MiB.
	DefaultMemoryPages = 1024
	// DefaultBuffer is 1 MiB, the longest body that the module verifies, and 64 KiB for what surrounds it.
	DefaultBuffer = 1<<20 + 64<<10
	// DefaultHeldBodies is 96 MiB.
	DefaultHeldBodies = 96 << 20
)

// Stats shows what a bridge holds at the moment, and how often an instance had to be closed.
type Stats struct {
	// Instances is the number of instances that are alive.
	Instances int
	// Streams is the number of streams (requests) that are open.
	Streams int
	// Calls is the number of HTTP calls of the guest that have no reply yet.
	Calls int
	// Trapped is the number of instances that were closed since the guest trapped.
	Trapped uint64
	// TimedOut is the number of instances that were closed since a call into the guest took longer than the deadline.
	TimedOut uint64
	// HeldBytes is what is kept of bodies.
	HeldBytes int
	// Unanswered counts the requests that the module did not answer, by the Cause.
	Unanswered [causes]uint64
}
