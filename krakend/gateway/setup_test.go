package gateway

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"edge-idempotency/krakend/bridge"
)

// modulePath is the built module (`make wasm`).
func modulePath(t *testing.T) string {
	t.Helper()
	path := os.Getenv("EDGE_WASM")
	if path == "" {
		path = filepath.Join("..", "..", "dist", "edge_idempotency.wasm")
	}
	path, err := filepath.Abs(path)
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		t.Fatalf("the module is not built: %v; run make wasm", err)
	}
	return path
}

// object is JSON under construction.
type object = map[string]any

// list is a JSON array.
type list = []any

func testPolicy() object {
	return object{
		"version": 1, "gateway_routes": true,
		"identity": object{
			"sources": list{object{
				"name": "jwt", "metadata": list{"envoy.filters.http.jwt_authn", "jwt"},
				"tenant": "tenant_id", "project": "project_id", "subject": object{"field": "sub", "type": "user"},
			}},
			"forward": object{"tenant": "x-tenant-id"},
		},
		"backend": object{"kind": "restate", "rewrite_path": true, "cluster": "backend", "key_header": "X-Idempotency-Key"},
		"routes": list{
			object{"endpoint": "refunds.create", "path": "/api/refunds", "policy": "REQUIRED_A", "target": "Refunds/create"},
			object{"endpoint": "carts.checkout", "path": "/api/carts/{cart_id}/checkout", "policy": "ACCEPTED", "recovery": false, "target": "Cart/{tenant}:{cart_id}/checkout"},
			object{"endpoint": "files.list", "methods": list{"GET"}, "path": "/api/files", "policy": "PROHIBITED", "target": "Files/list"},
		},
	}
}

func bind(endpoint string) object {
	return object{"plugin/http-client": object{"name": "edge-idempotency", "edge-idempotency": object{"endpoint": endpoint, "upstream": "backend"}}}
}

func testValidator() object {
	return object{"alg": "ES256", "jwk_url": "https://id.example/jwks.json", "propagate_claims": list{
		list{"tenant_id", "X-Claim-Tenant"}, list{"project_id", "X-Claim-Project"}, list{"sub", "X-Claim-Subject"},
	}}
}

func testEndpoint(method, path, endpoint string) object {
	return object{
		"endpoint": path, "method": method, "output_encoding": "no-op",
		"input_headers": list{"Content-Type", "X-Claim-Tenant", "X-Claim-Project", "X-Claim-Subject"},
		"extra_config":  object{"auth/validator": testValidator()},
		"backend": list{object{
			"host": list{"http://edge-idempotency.invalid"}, "url_pattern": path, "extra_config": bind(endpoint),
		}},
	}
}

// testConfig is a krakend.json without mistakes, for testPolicy.
func testConfig(t *testing.T, upstream string) object {
	return object{
		"version": 3, "timeout": "60s", "read_timeout": "60s",
		"extra_config": object{
			"router": object{"disable_redirect_fixed_path": true, "disable_redirect_trailing_slash": true},
			serverPlugin: object{"name": list{own}, own: object{
				"module": modulePath(t), "policy": testPolicy(),
				"upstreams": object{"backend": object{"url": upstream}},
			}},
		},
		"endpoints": list{
			testEndpoint("POST", "/api/refunds", "refunds.create"),
			testEndpoint("GET", "/api/refunds/by-idempotency-key/{key}", "refunds.create"),
			testEndpoint("GET", "/api/refunds/by-idempotency-key/{key}/output", "refunds.create"),
			testEndpoint("POST", "/api/carts/{id}/checkout", "carts.checkout"),
			testEndpoint("GET", "/api/files", "files.list"),
		},
	}
}

// clone copies JSON.
func clone(t *testing.T, from object) object {
	t.Helper()
	text, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	var copied object
	if err := json.Unmarshal(text, &copied); err != nil {
		t.Fatal(err)
	}
	return copied
}

// set writes a value at a path of member names and indices; delete removes it where the value is nil.
func set(document any, value any, path ...any) {
	for at, step := range path {
		last := at == len(path)-1
		switch step := step.(type) {
		case string:
			members := document.(object)
			if last && value == nil {
				delete(members, step)
			} else if last {
				members[step] = value
			}
			document = members[step]
		case int:
			items := document.(list)
			if last {
				items[step] = value
			}
			document = items[step]
		}
	}
}

func writeConfig(t *testing.T, config object) string {
	t.Helper()
	text, err := json.MarshalIndent(config, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return writeText(t, string(text))
}

func writeText(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "krakend.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// ginContext is gin's context as far as the gateway reads it.
type ginContext struct {
	context.Context
	Request *http.Request
	Writer  http.ResponseWriter
}

// Value returns the context itself under gin's key.
func (c *ginContext) Value(key any) any {
	if key == ginContextKey {
		return c
	}
	return c.Context.Value(key)
}

// call is a request of a client, and what KrakenD makes of it.
type call struct {
	method, path, host string
	header             http.Header
	body               io.Reader
	// listed are the input_headers.
	listed []string
}

// requests makes the client's request and KrakenD's own, and the context.
func (c call) requests(parent context.Context) (context.Context, *http.Request) {
	client := httptest.NewRequest(c.method, "http://api.example.com/", c.body)
	client.RequestURI, client.Host = c.path, "api.example.com"
	if target, err := url.ParseRequestURI(c.path); err == nil { // as net/http's server does
		client.URL = target
	}
	if c.host != "" {
		client.Host = c.host
	}
	if c.header != nil {
		client.Header = c.header
	}
	own, _ := http.NewRequest(c.method, "http://edge-idempotency.invalid"+strings.SplitN(c.path, "?", 2)[0], client.Body)
	own.Header = http.Header{"X-Forwarded-Host": {client.Host}, "User-Agent": {"KrakenD"}}
	for _, name := range c.listed {
		if lines, ok := client.Header[name]; ok {
			own.Header[name] = lines
		}
	}
	return &ginContext{parent, client, nil}, own
}

// withClaims is a header with a token that has these claims, and with what KrakenD's validator makes of them.
func withClaims(claims string, propagated map[string]string) http.Header {
	token := "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	header := http.Header{"Authorization": {"Bearer " + token}}
	for name, value := range propagated {
		header.Set(name, value)
	}
	return header
}

func alice() http.Header {
	header := withClaims(`{"tenant_id":"acme","project_id":"health","sub":"alice"}`,
		map[string]string{"X-Claim-Tenant": "acme", "X-Claim-Project": "health", "X-Claim-Subject": "alice"})
	header.Set("Idempotency-Key", "key-1")
	header.Set("Content-Type", "application/json")
	return header
}

// recorder is an upstream that keeps what came.
type recorder struct {
	*httptest.Server
	mutex    sync.Mutex
	requests []*http.Request
	bodies   []string
}

func newRecorder(t *testing.T, answer http.HandlerFunc) *recorder {
	r := &recorder{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body)
		if request.URL.Path == "/restate/lookup" {
			_, _ = io.WriteString(w, `{"invocationId":"inv_1"}`)
			return
		}
		r.mutex.Lock()
		r.requests, r.bodies = append(r.requests, request), append(r.bodies, string(body))
		r.mutex.Unlock()
		answer(w, request)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *recorder) count() int {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return len(r.requests)
}

// lines is a log that tests read.
type lines struct {
	mutex sync.Mutex
	all   []string
}

func (l *lines) write(level bridge.Level, message string) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.all = append(l.all, level.String()+" "+message)
}

func (l *lines) text() string {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return strings.Join(l.all, "\n")
}

func load(t *testing.T, config object) *Gateway {
	t.Helper()
	g, err := Load(writeConfig(t, config), LoadOptions{Plugin: true, Log: func(level bridge.Level, message string) { t.Log(level, message) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close(context.Background()) })
	return g
}

// exchange sends a call and reads the answer.
func exchange(t *testing.T, g *Gateway, endpoint string, c call) (*http.Response, string) {
	t.Helper()
	ctx, request := c.requests(context.Background())
	response, err := g.RoundTrip(ctx, endpoint, request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response, string(body)
}
