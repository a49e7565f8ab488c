package bridge

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// policy has a route of each kind that the tests need. Its lookups go to the cluster "unkey" and "openbao".
const policy = `{
  "version": 1,
  "identity": {"sources": [{"name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
    "tenant": "tenant_id", "project": "project_id", "subject": {"field": "sub", "type": "user"}}]},
  "backend": {"kind": "restate", "cluster": "backend", "rewrite_path": true, "operation_id": "x-restate-id",
    "hide_headers": ["x-restate-*"]},
  "routes": [
    {"endpoint": "refunds.create", "path": "/refunds", "policy": "REQUIRED_A", "target": "Refunds/create",
      "answer": {"status": 201, "location": "/refunds/{body:/id}"}},
    {"endpoint": "orders.create", "path": "/orders", "policy": "REQUIRED_A", "target": "Orders/create"},
    {"endpoint": "notes.create", "path": "/notes", "policy": "ACCEPTED", "target": "Notes/create"}
  ]
}`

// builtModule reads the module that EDGE_WASM names, or the one that make wasm leaves.
func builtModule(t testing.TB) []byte {
	t.Helper()
	file := os.Getenv("EDGE_WASM")
	if file == "" {
		file = filepath.Join("..", "..", "dist", "edge_idempotency.wasm")
	}
	module, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("there is no module to test, run `make wasm`: %v", err)
	}
	return module
}

var compiled = struct {
	sync.Mutex
	modules map[string]*Module
}{modules: map[string]*Module{}}

// compiledModule compiles the built module once for all tests.
func compiledModule(t testing.TB) *Module {
	return compileOnce(t, "built", func() []byte { return builtModule(t) })
}

// compiledGuest compiles a test module of testdata.
func compiledGuest(t testing.TB, name string) *Module {
	return compileOnce(t, name, func() []byte { return guestFile(t, name) })
}

func guestFile(t testing.TB, name string) []byte {
	t.Helper()
	module, err := os.ReadFile(filepath.Join("testdata", name+".wasm"))
	if err != nil {
		t.Fatal(err)
	}
	return module
}

func compileOnce(t testing.TB, name string, read func() []byte) *Module {
	t.Helper()
	compiled.Lock()
	defer compiled.Unlock()
	if module, ok := compiled.modules[name]; ok {
		return module
	}
	module, err := Compile(context.Background(), read(), CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	compiled.modules[name] = module
	return module
}

// logLines keeps what a bridge logs.
type logLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *logLines) add(level Level, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, level.String()+" "+text)
}

func (l *logLines) contains(text string) bool { return l.count(text) > 0 }

// count gives the number of lines with a text.
func (l *logLines) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := 0
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			count++
		}
	}
	return count
}

// startBridge starts a bridge and closes it at the end of the test, which fails if a stream, a call or a goroutine is left.
func startBridge(t testing.TB, o Options) *Bridge {
	t.Helper()
	before := runtime.NumGoroutine()
	if o.Compiled == nil && o.Module == nil {
		o.Compiled = compiledModule(t)
	}
	if o.Policy == nil {
		o.Policy = []byte(policy)
	}
	b, err := New(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !eventually(func() bool { s := b.Stats(); return s.Streams == 0 && s.Calls == 0 }) {
			t.Errorf("the bridge still holds %+v", b.Stats())
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := b.Close(ctx); err != nil {
			t.Error(err)
		}
		if !eventually(func() bool { return runtime.NumGoroutine() <= before }) {
			stacks := make([]byte, 1<<20)
			t.Errorf("%d goroutines were there before, and %d now:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
		}
	})
	return b
}

// eventually waits for a condition that other goroutines bring about.
func eventually(condition func() bool) bool {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if condition() {
			return true
		}
	}
	return false
}

func post(path, key, body string) *Request {
	r := &Request{
		Message: Message{Header: Header{{":method", "POST"}, {":scheme", "https"}, {":authority", "api.example.com"}, {":path", path}}},
		Metadata: Metadata{"envoy.filters.http.jwt_authn": {"jwt": map[string]any{
			"tenant_id": "acme", "project_id": "shop", "sub": "u1", "exp": 1.8e9,
		}}},
	}
	if key != "" {
		r.Header = append(r.Header, Line{"idempotency-key", key})
	}
	if body != "" {
		r.Header = append(r.Header, Line{"content-type", "application/json"})
		r.Body = io.NopCloser(strings.NewReader(body))
	}
	return r
}

func response(status, body string, header ...Line) *Message {
	m := &Message{Header: append(Header{{":status", status}}, header...)}
	if body != "" {
		m.Body = io.NopCloser(strings.NewReader(body))
	}
	return m
}

// upstream answers every request with the same response, and keeps what it got.
type upstream struct {
	mu     sync.Mutex
	header []Header
	bodies []string
	status string
	body   string
	lines  Header
}

func (u *upstream) forward(_ context.Context, m *Message) (*Message, error) {
	body, err := readBody(m)
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.header, u.bodies = append(u.header, m.Header), append(u.bodies, body)
	return response(u.status, u.body, u.lines...), nil
}

func readBody(m *Message) (string, error) {
	if m.Body == nil {
		return "", nil
	}
	var body bytes.Buffer
	_, err := body.ReadFrom(m.Body)
	if closing := m.Body.Close(); err == nil {
		err = closing
	}
	return body.String(), err
}

func value(h Header, name string) string {
	value, _ := h.Get(name)
	return value
}

// exchange makes an exchange that has to be answered.
func mustExchange(t testing.TB, b *Bridge, r *Request, f Forward) (Header, string) {
	t.Helper()
	m, err := b.Exchange(context.Background(), r, f)
	if err != nil {
		t.Fatal(err)
	}
	body, err := readBody(m)
	if err != nil {
		t.Fatal(err)
	}
	return m.Header, body
}

func TestAKeyedPostIsRewrittenAndItsAnswerShaped(t *testing.T) {
	var record []byte
	b := startBridge(t, Options{Record: func(r []byte) { record = r }})
	u := &upstream{status: "200", body: `{"id":"re_1"}`, lines: Header{{"x-restate-id", "inv_1"}, {"content-type", "application/json"}}}
	header, body := mustExchange(t, b, post("/refunds", "k", `{"amount":5}`), u.forward)
	if got := value(u.header[0], "idempotency-key"); got != "t-acme:shop:user:u1:k" {
		t.Errorf("the upstream got the key %q", got)
	}
	if got := value(u.header[0], ":path"); got != "/restate/call/Refunds/create" || u.bodies[0] != `{"amount":5}` {
		t.Errorf("the upstream got %q with %q", got, u.bodies[0])
	}
	if value(header, ":status") != "201" || value(header, "location") != "/refunds/re_1" || body != `{"id":"re_1"}` {
		t.Errorf("the client got %v %q", header, body)
	}
	if !strings.Contains(string(record), `"idempotency_outcome":"stored"`) {
		t.Errorf("the record is %s", record)
	}
	b.Tick(context.Background())
	name := "idempotency_answer_total;outcome=stored;error=false;tenant=acme;project=shop;endpoint=refunds.create"
	if got := b.Metrics().Samples().Counters[name]; got != 1 {
		t.Errorf("%s is %d in %v", name, got, b.Metrics().Samples().Counters)
	}
	var text strings.Builder
	if err := b.Metrics().WriteText(&text); err != nil {
		t.Fatal(err)
	}
	line := `idempotency_answer_total{outcome="stored",error="false",tenant="acme",project="shop",endpoint="refunds.create"} 1` + "\n"
	own := "idempotency_bridge_instances 1\n# TYPE idempotency_bridge_streams gauge\nidempotency_bridge_streams 0\n"
	if !strings.Contains(text.String(), line) || !strings.Contains(text.String(), own) {
		t.Errorf("the metrics are\n%s", text.String())
	}
}
