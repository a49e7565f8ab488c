package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"edge-idempotency/krakend/bridge"
)

// ginContextKey is the key under which gin's context returns itself (gin.ContextKey).
const ginContextKey = "_gin-gonic/gin/contextkey"

// client is the client's side of a call: its own request, and the way to its connection.
type client struct {
	request *http.Request
	// writer is net/http's own; nil if it is not known.
	writer http.ResponseWriter
}

// clientOf returns the client's own request, which KrakenD's router keeps in the context of each call; ok is false if it is
// not there. It has what KrakenD's request to the backend lacks: the raw URI, the host, all header lines, the length and the
// trailers. It is read by reflection, so gin is not imported. It has to be read at the start of a call, because gin uses its
// contexts, and the writers in them, again.
func clientOf(ctx context.Context) (c client, ok bool) {
	value := reflect.ValueOf(ctx.Value(ginContextKey))
	if value.Kind() != reflect.Pointer || value.IsNil() || value.Elem().Kind() != reflect.Struct {
		return client{}, false
	}
	if field := value.Elem().FieldByName("Writer"); field.IsValid() && field.CanInterface() {
		c.writer, _ = field.Interface().(http.ResponseWriter)
	}
	for {
		inner := unwrap(c.writer)
		if inner == nil {
			break
		}
		c.writer = inner
	}
	if field := value.Elem().FieldByName("Request"); field.IsValid() && field.CanInterface() {
		c.request, _ = field.Interface().(*http.Request)
	}
	return c, c.request != nil
}

// unwrap returns what a writer wraps; nil if it wraps nothing that is known. lura's safeCast hides what it wraps in its field w,
// and with it the deadlines of the connection.
func unwrap(writer http.ResponseWriter) http.ResponseWriter {
	if wrapper, ok := writer.(interface{ Unwrap() http.ResponseWriter }); ok {
		return wrapper.Unwrap()
	}
	value := reflect.ValueOf(writer)
	if value.Kind() != reflect.Pointer || value.IsNil() || value.Elem().Kind() != reflect.Struct || value.Elem().Type().Name() != "safeCast" {
		return nil
	}
	field := value.Elem().FieldByName("w")
	if !field.IsValid() || field.Type() != reflect.TypeFor[http.ResponseWriter]() {
		return nil
	}
	return *(*http.ResponseWriter)(field.Addr().UnsafePointer())
}

// past is a time before all reads and writes.
var past = time.Unix(1, 0)

// breakOff ends the client's connection (under HTTP/2 its stream) before the response has its end. KrakenD ends a response
// whose body fails as if it was whole.
func (c client) breakOff() {
	if c.writer != nil {
		_ = http.NewResponseController(c.writer).SetWriteDeadline(past)
	}
}

// freeReads is how long net/http may read on in a client's body when the answer is given.
const freeReads = time.Second

// leaveBody keeps a client that stopped in the middle of its body from holding up the answer. KrakenD closes the body of its
// request before it looks at the answer, and net/http looks at the client's body before it writes the first header; both wait
// for a read that is under way. So KrakenD gets another body to close, net/http is told that the connection ends with the
// answer, and at last reads of the body are ended, since net/http reads on when the answer is out.
func (c client) leaveBody(request *http.Request, answer *http.Response) {
	request.Body = http.NoBody
	answer.Header.Set("Connection", "close")
	if c.request.ProtoMajor == 1 { // Under HTTP/2 nothing waits, and the writer must not be used later.
		time.AfterFunc(freeReads, c.stopReading)
	}
}

// stopReading ends a read of the client's body that is under way. net/http takes this for a client that is gone, so KrakenD
// answers an empty 500 if it has not answered yet.
func (c client) stopReading() {
	if c.writer != nil {
		_ = http.NewResponseController(c.writer).SetReadDeadline(past)
	}
}

// watchedBody knows whether somebody reads it.
type watchedBody struct {
	io.ReadCloser
	reading atomic.Bool
}

// Read reads the body.
func (b *watchedBody) Read(into []byte) (int, error) {
	b.reading.Store(true)
	defer b.reading.Store(false)
	return b.ReadCloser.Read(into)
}

// view is a request as the module sees it, and what of it the upstream may see.
type view struct {
	request bridge.Request
	// body is the request's body; nil if there is none.
	body *watchedBody
	// unlisted are the client's lines that input_headers does not let through: the module reads them, the upstream does not
	// get them.
	unlisted map[bridge.Line]bool
}

// connectionHeaders belong to one connection (RFC 9110 section 7.6.1). The module sees `connection` and `upgrade`, and no
// other party does.
var connectionHeaders = map[string]bool{
	"connection": true, "keep-alive": true, "proxy-connection": true, "te": true, "trailer": true, "transfer-encoding": true,
	"upgrade": true, "expect": true, "proxy-authenticate": true, "proxy-authorization": true,
}

// newView makes the module's view of a request. own is what KrakenD would send to the backend; client is the client's own
// request, or own itself if it is not known.
//
// net/http keeps neither the order of lines with different names nor the letter case of names: lines come in the order of
// their names, and lines with the same name in the client's order.
//
// Trailers are left out: KrakenD has no list of those that a backend may get, and passes none by itself.
func newView(own, client *http.Request, path string, b *binding) *view {
	v := &view{unlisted: map[bridge.Line]bool{}}
	if b.endpoint != Operations {
		v.request.RouteMetadata = bridge.Metadata{"edge.idempotency": {"endpoint": b.endpoint}}
	}
	scheme := "http"
	if client.TLS != nil {
		scheme = "https"
	}
	lines := bridge.Header{{Name: ":method", Value: client.Method}, {Name: ":scheme", Value: scheme},
		{Name: ":authority", Value: authority(client.Host)}, {Name: ":path", Value: path}}
	lines = append(lines, bridge.Line{Name: "x-request-id", Value: newUUID()})
	for _, name := range headerNames(own.Header, client.Header) {
		lower := strings.ToLower(name)
		if b.hides(lower) {
			continue
		}
		values, listed := own.Header[name]
		if !listed {
			values = client.Header[name]
		}
		for _, value := range values {
			line := bridge.Line{Name: lower, Value: value}
			lines = append(lines, line)
			if !listed {
				v.unlisted[line] = true
			}
		}
	}
	body := own.Body
	if body == http.NoBody {
		body = nil
	}
	if length := client.ContentLength; length > 0 && sameBody(body, client.Body) {
		lines = append(lines, bridge.Line{Name: "content-length", Value: strconv.FormatInt(length, 10)})
	} else if body == nil && client.Header.Get("Content-Length") == "0" {
		lines = append(lines, bridge.Line{Name: "content-length", Value: "0"})
	}
	v.request.Header = lines
	if body != nil {
		v.body = &watchedBody{ReadCloser: body}
		v.request.Body = v.body
	}
	return v
}

// sameBody says whether both are the same body. If a part of KrakenD has read the client's and made another, the client's
// length and trailers say nothing about it.
func sameBody(body, client io.ReadCloser) bool {
	return body != nil && client != nil && reflect.TypeOf(body).Comparable() && body == client
}

// hides says whether a header, by its name in lower case, is neither the module's nor the upstream's: the gateway makes it by itself, it would control
// the gateway, or it has told the gateway a claim.
func (b *binding) hides(name string) bool {
	folded := strings.ReplaceAll(name, "_", "-")
	if folded == "content-length" || folded == "transfer-encoding" || folded == "host" || folded == "x-request-id" ||
		folded == "x-edge-idempotency" || strings.HasPrefix(folded, hintPrefix) {
		return true
	}
	return b.identity != nil && slices.ContainsFunc(b.identity.claims, func(c claim) bool { return sameHeader(c.header, name) })
}

// headerNames are the names of both headers, sorted.
func headerNames(one, other http.Header) []string {
	names := make([]string, 0, len(one)+len(other))
	for name := range one {
		names = append(names, name)
	}
	for name := range other {
		if _, ok := one[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// rawPath is the path and the query as the client sent them; a URI with a scheme and a host loses both. KrakenD has chosen the
// endpoint by what net/http makes of the URI (URL.Path), and the module decides by this path, which it normalises. So ok is
// false where the two could be about different paths: a URI of another form or scheme, a path that decodes to another one, and
// dot segments, which the router takes for text.
func rawPath(r *http.Request) (path string, ok bool) {
	switch {
	case strings.HasPrefix(r.RequestURI, "/"):
		path = r.RequestURI
	case r.RequestURI == "" || r.URL.Opaque == "" && (r.URL.Scheme == "http" || r.URL.Scheme == "https"):
		path = r.URL.RequestURI()
	default:
		return "", false
	}
	// HTTP/2 lets bytes pass that end a request line of HTTP/1.1.
	if strings.ContainsFunc(path, func(c rune) bool { return c <= ' ' || c == 0x7f || c == '#' }) {
		return "", false
	}
	encoded, _, _ := strings.Cut(path, "?")
	decoded, err := url.PathUnescape(encoded)
	if err != nil || decoded != r.URL.Path || !strings.HasPrefix(decoded, "/") {
		return "", false
	}
	for segment := range strings.SplitSeq(decoded, "/") {
		if segment == "." || segment == ".." {
			return "", false
		}
	}
	return path, true
}

// authority is the host without a port and without a final dot, as in the Envoy configurations of this project: the policy's
// hosts are compared with it.
func authority(host string) string {
	if colon := strings.LastIndexByte(host, ':'); colon >= 0 && !strings.HasSuffix(host, "]") {
		if _, err := strconv.ParseUint(host[colon+1:], 10, 16); err == nil {
			host = host[:colon]
		}
	}
	return strings.TrimSuffix(host, ".")
}

// serves says whether the route has this host.
func (b *binding) serves(host string) bool {
	return len(b.hosts) == 0 || slices.ContainsFunc(b.hosts, func(allowed string) bool {
		if suffix, ok := strings.CutPrefix(allowed, "*"); ok {
			return len(host) > len(suffix) && strings.HasSuffix(host, suffix)
		}
		return allowed == host
	})
}

// newUUID makes a random UUID (RFC 9562, version 4), the id of a request.
func newUUID() string {
	var bytes [16]byte
	_, _ = io.ReadFull(rand.Reader, bytes[:])
	bytes[6], bytes[8] = bytes[6]&0x0f|0x40, bytes[8]&0x3f|0x80
	text := make([]byte, 0, 36)
	for _, part := range [][]byte{bytes[:4], bytes[4:6], bytes[6:8], bytes[8:10], bytes[10:]} {
		if len(text) > 0 {
			text = append(text, '-')
		}
		text = hex.AppendEncode(text, part)
	}
	return string(text)
}
