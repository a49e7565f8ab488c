package gateway

import (
	"bufio"
	"context"
	"encoding/pem"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A real connection: KrakenD copies the body into gin's writer and ends the response as if it was whole.
func TestAnAnswerThatBreaksOffEndsTheClientsConnection(t *testing.T) {
	upstream := newRecorder(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Restate-Id", "inv_1")
		_, _ = io.WriteString(w, strings.Repeat("x", 50_000))
		_ = http.NewResponseController(w).Flush()
		if r.Header.Get("Idempotency-Key") == "t-acme:health:user:alice:broken" {
			panic(http.ErrAbortHandler)
		}
	})
	g := load(t, testConfig(t, upstream.URL))
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, client *http.Request) {
		own, _ := http.NewRequest(client.Method, "http://edge-idempotency.invalid"+client.URL.Path, client.Body)
		response, err := g.RoundTrip(&ginContext{client.Context(), client, &ginWriter{&safeCast{w}}}, "refunds.create", own)
		if err != nil {
			t.Error(err)
			return
		}
		for name, values := range response.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(response.StatusCode)
		if client.Header.Get("Idempotency-Key") == "closed" { // as at the endpoint's timeout
			_ = response.Body.Close()
		}
		_, _ = io.Copy(w, response.Body)
		_ = response.Body.Close()
	}))
	defer gateway.Close()
	for key, whole := range map[string]bool{"whole": true, "broken": false, "closed": false} {
		request, _ := http.NewRequest("POST", gateway.URL+"/api/refunds", strings.NewReader("{}"))
		request.Header = alice()
		request.Header.Set("Idempotency-Key", key)
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			_, err = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
		if (err == nil) != whole {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// ginWriter is gin's writer as far as the gateway reads it, and safeCast what lura puts between it and net/http's.
type ginWriter struct{ http.ResponseWriter }

type safeCast struct{ w http.ResponseWriter }

func (s *safeCast) Header() http.Header            { return s.w.Header() }
func (s *safeCast) WriteHeader(status int)         { s.w.WriteHeader(status) }
func (s *safeCast) Write(part []byte) (int, error) { return s.w.Write(part) }

// Unwrap returns net/http's writer.
func (w *ginWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func TestAnUpstreamWithTLSAndATimeoutOfItsOwn(t *testing.T) {
	protocols := make(chan string, 2)
	upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocols <- r.Proto + " " + r.RequestURI
		if r.Header.Get("Idempotency-Key") == "t-acme:health:user:alice:slow" {
			<-r.Context().Done()
		}
		w.Header().Set("X-Restate-Id", "inv_1")
	}))
	upstream.EnableHTTP2 = true
	upstream.StartTLS()
	defer upstream.Close()
	authorities := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: upstream.Certificate().Raw})
	if err := os.WriteFile(authorities, text, 0o600); err != nil {
		t.Fatal(err)
	}
	config := testConfig(t, upstream.URL)
	set(config, object{"url": upstream.URL, "ca_file": authorities, "timeout_ms": 200}, "extra_config", serverPlugin, own, "upstreams", "backend")
	g := load(t, config)
	if response, body := exchange(t, g, "refunds.create", call{method: "POST", path: "/api/refunds", header: alice(), body: strings.NewReader("{}")}); response.StatusCode != 200 {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	if seen := <-protocols; seen != "HTTP/2.0 /restate/call/Refunds/create" {
		t.Error(seen)
	}
	slow := alice()
	slow.Set("Idempotency-Key", "slow")
	if response, body := exchange(t, g, "refunds.create", call{method: "POST", path: "/api/refunds", header: slow}); response.StatusCode != 504 {
		t.Errorf("%d %s", response.StatusCode, body)
	}
}

func TestTrailersOfARequestDoNotReachTheUpstream(t *testing.T) {
	got := make(chan http.Header, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got <- r.Trailer
		w.Header().Set("X-Restate-Id", "inv_1")
	}))
	defer upstream.Close()
	g := load(t, testConfig(t, upstream.URL))
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, client *http.Request) {
		own, _ := http.NewRequest(client.Method, "http://edge-idempotency.invalid"+client.URL.Path, client.Body)
		response, err := g.RoundTrip(&ginContext{client.Context(), client, w}, "refunds.create", own)
		if err == nil {
			w.WriteHeader(response.StatusCode)
			_ = response.Body.Close()
		}
	}))
	defer gateway.Close()
	request, _ := http.NewRequest("POST", gateway.URL+"/api/refunds", io.NopCloser(strings.NewReader("{}")))
	request.Header, request.Trailer = alice(), http.Header{"X-Sum": {"1"}, "Idempotency-Key": {"raw"}, "X-Claim-Tenant": {"evil"}}
	response, err := http.DefaultClient.Do(request)
	if err != nil || response.StatusCode != 200 {
		t.Fatal(response, err)
	}
	_ = response.Body.Close()
	if trailer := <-got; len(trailer) != 0 {
		t.Errorf("%v", trailer)
	}
}

// earlier is a context that names a deadline and does not end then, so that a busy machine may be late.
type earlier struct {
	context.Context
	deadline time.Time
}

func (e earlier) Deadline() (time.Time, bool) { return e.deadline, true }

// A client that stops in the middle of its body has its answer at the endpoint's timeout, and its connection ends.
func TestAClientThatStopsInItsBodyGetsTheAnswer(t *testing.T) {
	upstream := newRecorder(t, answerOK)
	g := load(t, testConfig(t, upstream.URL))
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, client *http.Request) {
		ctx := earlier{client.Context(), time.Now().Add(300 * time.Millisecond)}
		toBackend, _ := http.NewRequest(client.Method, "http://edge-idempotency.invalid"+client.URL.Path, client.Body)
		response, err := g.RoundTrip(&ginContext{ctx, client, &ginWriter{&safeCast{w}}}, "refunds.create", toBackend)
		_ = toBackend.Body.Close() // as lura does, before it looks at the answer
		if err != nil || ctx.Err() != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		for name, values := range response.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(response.StatusCode)
		_, _ = io.Copy(w, response.Body)
		_ = response.Body.Close()
	}))
	defer gateway.Close()
	for name, framing := range map[string]string{"length": "Content-Length: 100\r\n\r\npart", "chunked": "Transfer-Encoding: chunked\r\n\r\n4\r\npart\r\n"} {
		connection, err := net.Dial("tcp", gateway.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		var text strings.Builder
		_ = alice().Write(&text)
		_, _ = io.WriteString(connection, "POST /api/refunds HTTP/1.1\r\nHost: api.example.com\r\n"+text.String()+framing)
		_ = connection.SetReadDeadline(time.Now().Add(time.Minute))
		reader := bufio.NewReader(connection)
		response, err := http.ReadResponse(reader, nil)
		if err != nil {
			t.Errorf("%s: no answer: %v", name, err)
			continue
		}
		body, _ := io.ReadAll(response.Body)
		if response.StatusCode < 503 || !strings.Contains(string(body), `"retry":"same_key"`) {
			t.Errorf("%s: %d %s", name, response.StatusCode, body)
		}
		if _, err := reader.ReadByte(); err != io.EOF {
			t.Errorf("%s: the connection is still open: %v", name, err)
		}
		_ = connection.Close()
	}
}

// What a router matches (URL.Path) and what the module decides about is one path, whatever form the URI has.
func TestTheModuleSeesThePathThatTheRouterMatched(t *testing.T) {
	seen := make(chan string, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { seen <- r.RequestURI }))
	defer upstream.Close()
	config := testConfig(t, upstream.URL)
	policy := config["extra_config"].(object)[serverPlugin].(object)[own].(object)["policy"].(object)
	policy["backend"] = object{"kind": "generic"}
	policy["routes"] = list{object{"endpoint": "files.list", "methods": list{"GET"}, "path": "/api/files", "policy": "PROHIBITED"}}
	set(config, config["endpoints"].(list)[4:], "endpoints")
	g := load(t, config)
	gateway := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, client *http.Request) {
		own, _ := http.NewRequest(client.Method, "http://edge-idempotency.invalid/", nil)
		own.URL.RawQuery = client.URL.RawQuery // as with "*" in input_query_strings
		response, err := g.RoundTrip(&ginContext{client.Context(), client, w}, "files.list", own)
		if err == nil {
			w.WriteHeader(response.StatusCode)
			_ = response.Body.Close()
		}
	}))
	defer gateway.Close()
	for uri, wanted := range map[string]string{
		"/api/files?x=a://b/admin": "/api/files?x=a://b/admin", "/api/%66iles": "/api/files", "http://other/api/files?x": "/api/files?x", "HTTP://other:1/api/files": "/api/files",
		"foo:/api/files?x=a://b/admin": "", "http:/api/files?://b/admin": "/api/files?://b/admin", "foo://b/admin": "", "http:admin": "", "*": "",
		"/api/./files": "", "/api/x/../files": "", "/api/%2e%2e/admin": "", "/api/files/%2E": "", "http://other/api/%2e%2e/admin": "", "http://other": "",
		"/api/files?a#b": "", "/api/files#b": "", "/api/files?a=\x7f": "",
	} {
		connection, err := net.Dial("tcp", gateway.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(connection, "GET "+uri+" HTTP/1.1\r\nHost: api.example.com\r\nConnection: close\r\n\r\n")
		response, err := http.ReadResponse(bufio.NewReader(connection), nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = connection.Close()
		var got string
		select {
		case got = <-seen:
		default:
		}
		if got != wanted || (wanted == "") != (response.StatusCode == 400) {
			t.Errorf("%s: %d, %q, not %q", uri, response.StatusCode, got, wanted)
		}
	}
}

// lura does not close the body of an answer that comes when its context has ended.
func TestAnAnswerThatNobodyClosesIsGivenBack(t *testing.T) {
	upstream := newRecorder(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Restate-Id", "inv_1")
		_, _ = io.WriteString(w, "begin")
		_ = http.NewResponseController(w).Flush()
		if r.Header.Get("Idempotency-Key") == "t-acme:health:user:alice:key-1" {
			<-r.Context().Done()
		}
	})
	g := load(t, testConfig(t, upstream.URL))
	whole := alice()
	whole.Set("Idempotency-Key", "whole")
	for name, test := range map[string]struct {
		limit  time.Duration
		header http.Header
	}{"client gone": {time.Hour, alice()}, "deadline": {300 * time.Millisecond, alice()}, "whole": {time.Hour, whole}, "refused": {time.Hour, http.Header{}}} {
		parent, cancel := context.WithTimeout(context.Background(), test.limit)
		ctx, request := call{method: "POST", path: "/api/refunds", header: test.header}.requests(parent)
		if _, err := g.RoundTrip(ctx, "refunds.create", request); err != nil {
			t.Fatal(err)
		}
		if name != "deadline" {
			cancel()
		}
		wait, end := context.WithTimeout(context.Background(), 20*time.Second)
		g.Drain(wait)
		if wait.Err() != nil || g.Bridge().Stats().Streams != 0 {
			t.Errorf("%s: %v", name, g.Bridge().Stats())
		}
		end()
		cancel()
	}
}
