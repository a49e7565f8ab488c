package executor_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"edge-idempotency/krakend/executor"
	"edge-idempotency/krakend/gateway"
)

// What follows stands in for lura (github.com/luraproject/lura/v2), which the public module proxy has and this repository's
// builds do not need: config.ExtraConfig, config.Backend, client.HTTPRequestExecutor, and the part of proxy/http.go that
// calls it.

type extraConfig map[string]interface{}

type backend struct {
	Method      string
	URLPattern  string
	ExtraConfig extraConfig
}

type httpRequestExecutor func(ctx context.Context, req *http.Request) (*http.Response, error)

type proxyRequest struct {
	Header http.Header
	Body   io.ReadCloser
}

type proxy func(ctx context.Context, request *proxyRequest) (*http.Response, error)

// newHTTPProxy is proxy.NewHTTPProxyWithHTTPExecutor for no-op.
func newHTTPProxy(remote *backend, run httpRequestExecutor) proxy {
	return func(ctx context.Context, request *proxyRequest) (*http.Response, error) {
		toBackend, err := http.NewRequest(remote.Method, "http://edge-idempotency.invalid"+remote.URLPattern, request.Body)
		if err != nil {
			return nil, err
		}
		toBackend.Header = request.Header
		response, err := run(ctx, toBackend)
		if toBackend.Body != nil {
			_ = toBackend.Body.Close()
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		default:
		}
		return response, err
	}
}

// factory is what a custom build's BackendFactory returns (docs/gateways.md).
func factory(e *executor.Executor, next func(*backend) proxy) func(*backend) proxy {
	return func(remote *backend) proxy {
		if !e.Binds(remote.ExtraConfig) {
			return next(remote)
		}
		return newHTTPProxy(remote, e.For(remote.ExtraConfig, nil))
	}
}

type ginContext struct {
	context.Context
	Request *http.Request
}

func (c *ginContext) Value(key any) any {
	if key == "_gin-gonic/gin/contextkey" {
		return c
	}
	return c.Context.Value(key)
}

// logger has the methods of lura's logger.
type logger struct {
	mutex sync.Mutex
	lines []string
}

func (l *logger) add(level string, v []interface{}) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.lines = append(l.lines, level+" "+fmt.Sprint(v...))
}
func (l *logger) Debug(v ...interface{})    { l.add("debug", v) }
func (l *logger) Info(v ...interface{})     { l.add("info", v) }
func (l *logger) Warning(v ...interface{})  { l.add("warning", v) }
func (l *logger) Error(v ...interface{})    { l.add("error", v) }
func (l *logger) Critical(v ...interface{}) { l.add("critical", v) }
func (l *logger) Fatal(v ...interface{})    { l.add("fatal", v) }

const config = `{
 "version": 3, "timeout": "60s", "read_timeout": "60s",
 "extra_config": {
  "router": {"disable_redirect_fixed_path": true, "disable_redirect_trailing_slash": true},
  "plugin/http-server": {"name": ["edge-idempotency"], "edge-idempotency": {
   "module": "MODULE",
   "upstreams": {"backend": {"url": "UPSTREAM"}},
   "policy": {
    "version": 1, "gateway_routes": true,
    "identity": {"sources": [{"name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
     "tenant": "tenant_id", "project": {"value": "shop"}, "subject": {"field": "sub", "type": "user"}}]},
    "backend": {"kind": "generic"},
    "routes": [{"endpoint": "orders", "path": "/orders", "policy": "REQUIRED_A"}]}}}},
 "endpoints": [{
  "endpoint": "/orders", "method": "POST", "output_encoding": "no-op", "input_headers": ["X-Claim-Tenant", "X-Claim-Subject"],
  "extra_config": {"auth/validator": {"alg": "ES256", "jwk_url": "https://id.example/jwks.json",
   "propagate_claims": [["tenant_id", "X-Claim-Tenant"], ["sub", "X-Claim-Subject"]]}},
  "backend": [{"host": ["http://edge-idempotency.invalid"], "url_pattern": "/orders",
   "extra_config": {"plugin/http-client": {"name": "edge-idempotency", "edge-idempotency": {"endpoint": "orders", "upstream": "backend"}}}}]}]
}`

// aliases is the part of config.ExtraConfigAlias that matters here.
var aliases = map[string]string{
	"auth/validator": "github.com/devopsfaith/krakend-jose/validator", "router": "github_com/luraproject/lura/router/gin",
}

var orders = &backend{Method: "POST", URLPattern: "/orders", ExtraConfig: bound(map[string]interface{}{"endpoint": "orders", "upstream": "backend"})}

// bound is the extra_config of a bound backend.
func bound(own any) extraConfig {
	return extraConfig{"plugin/http-client": map[string]interface{}{"name": "edge-idempotency", "edge-idempotency": own}}
}

func write(t *testing.T, upstream string, changes ...string) string {
	t.Helper()
	module := os.Getenv("EDGE_WASM")
	if module == "" {
		module = filepath.Join("..", "..", "dist", "edge_idempotency.wasm")
	}
	module, err := filepath.Abs(module)
	if err == nil {
		_, err = os.Stat(module)
	}
	if err != nil {
		t.Fatalf("the module is not built: %v; run make wasm", err)
	}
	text := strings.NewReplacer(append([]string{"MODULE", module, "UPSTREAM", upstream}, changes...)...).Replace(config)
	file := filepath.Join(t.TempDir(), "krakend.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// order sends a client's order through the proxy.
func order(t *testing.T, through proxy, key string) (*http.Response, string) {
	t.Helper()
	client := httptest.NewRequest("POST", "/orders", strings.NewReader("order"))
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"tenant_id":"acme","sub":"alice"}`))
	client.Header = http.Header{"Authorization": {"Bearer e30." + claims + ".c2ln"}, "X-Claim-Tenant": {"acme"}, "X-Claim-Subject": {"alice"}}
	if key != "" {
		client.Header.Set("Idempotency-Key", key)
	}
	listed := http.Header{"X-Claim-Tenant": {"acme"}, "X-Claim-Subject": {"alice"}}
	response, err := through(&ginContext{context.Background(), client}, &proxyRequest{listed, client.Body})
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

func TestBoundBackendsGoThroughTheModuleAndOthersDoNot(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.URL.Path+" "+r.Header.Get("Idempotency-Key")+" "+string(body))
	}))
	defer upstream.Close()
	e := executor.New(aliases)
	log := new(logger)
	e.Start(log)
	if err := e.Load(write(t, upstream.URL)); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close(context.Background()) }()
	make := factory(e, func(*backend) proxy {
		return func(context.Context, *proxyRequest) (*http.Response, error) {
			return &http.Response{StatusCode: 299, Body: http.NoBody}, nil
		}
	})

	if response, body := order(t, make(orders), "key-1"); response.StatusCode != 200 || body != "/orders t-acme:shop:user:alice:key-1 order" {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	if response, body := order(t, make(orders), ""); response.StatusCode != 400 || !strings.Contains(body, "idempotency_key_required") {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	if response, _ := order(t, make(&backend{ExtraConfig: extraConfig{"qos/http-cache": map[string]interface{}{}}}), "key-1"); response.StatusCode != 299 {
		t.Errorf("a backend that is not bound: %d", response.StatusCode)
	}
	for _, extra := range []extraConfig{
		bound(map[string]interface{}{"endpoint": "other"}), bound("orders"),
		{"plugin/http-client": map[string]interface{}{"name": "edge-idempotency"}},
	} {
		if response, _ := order(t, make(&backend{Method: "POST", URLPattern: "/orders", ExtraConfig: extra}), "key-1"); response.StatusCode != 503 {
			t.Errorf("%v: %d", extra, response.StatusCode)
		}
	}
	named := extraConfig{"github.com/devopsfaith/krakend/transport/http/client/executor": map[string]interface{}{
		"name": "edge-idempotency", "edge-idempotency": map[string]interface{}{"endpoint": "orders"}}}
	if response, _ := order(t, make(&backend{Method: "POST", URLPattern: "/orders", ExtraConfig: named}), "key-1"); response.StatusCode != 200 {
		t.Errorf("the older name: %d", response.StatusCode)
	}
	for _, wanted := range []string{"info edge-idempotency: policy with 1 route,", "info [SERVICE: edge-idempotency] ready: 1 of 1 endpoints are bound to the policy; there is no metrics_listen", "info edge-idempotency: record {"} {
		if !strings.Contains(strings.Join(log.lines, "\n"), wanted) {
			t.Errorf("%q is not in %q", wanted, log.lines)
		}
	}
}

// headerWriter stands in for KrakenD's instrumented transport.
type headerWriter struct{ next http.RoundTripper }

func (h headerWriter) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.Header.Set("Traceparent", "child")
	return h.next.RoundTrip(request)
}

func TestKrakenDsTelemetryIsAroundTheUpstream(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Traceparent")+" "+r.Header.Get("Idempotency-Key"))
	}))
	defer upstream.Close()
	e := executor.New(aliases)
	if err := e.Load(write(t, upstream.URL)); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = e.Close(context.Background()) }()
	for name, test := range map[string]struct {
		instrument func(http.RoundTripper) http.RoundTripper
		wanted     string
	}{
		"none":         {nil, " t-acme:shop:user:alice:none"},
		"switched-off": {func(plain http.RoundTripper) http.RoundTripper { return plain }, " t-acme:shop:user:alice:switched-off"},
		"on":           {func(plain http.RoundTripper) http.RoundTripper { return headerWriter{plain} }, "child t-acme:shop:user:alice:on"},
	} {
		run := e.For(orders.ExtraConfig, test.instrument)
		if response, body := order(t, newHTTPProxy(orders, run), name); response.StatusCode != 200 || body != test.wanted {
			t.Errorf("%s: %d %q", name, response.StatusCode, body)
		}
	}
}

func TestWithoutAValidConfigurationNothingIsForwarded(t *testing.T) {
	hits := 0
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits++ }))
	defer upstream.Close()
	e := executor.New(aliases)
	e.Start(new(logger))
	err := e.Load(write(t, upstream.URL, "REQUIRED_A", "REQUIRED"))
	if err == nil || !strings.Contains(err.Error(), "/routes/0/policy") {
		t.Errorf("a broken policy: %v", err)
	}
	run := factory(e, func(*backend) proxy { return nil })(orders)
	if response, body := order(t, run, "key-1"); response.StatusCode != 503 || !strings.Contains(body, "policy_invalid") {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	if hits != 0 {
		t.Errorf("%d requests reached the upstream", hits)
	}
}

func TestANewConfigurationTakesThePlaceOfTheOld(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Header.Get("Idempotency-Key"))
	}))
	defer upstream.Close()
	e := executor.New(aliases)
	e.Start(new(logger))
	run := factory(e, func(*backend) proxy { return nil })(orders)
	// Both have the same address for metrics.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	metrics := listener.Addr().String()
	_ = listener.Close()
	for _, project := range []string{"shop", "other"} {
		file := write(t, upstream.URL, `"value": "shop"`, `"value": "`+project+`"`, `"module"`, `"metrics_listen": "`+metrics+`", "module"`)
		if err := e.LoadWith(file, gateway.LoadOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, body := order(t, run, "key-1"); body != "t-acme:"+project+":user:alice:key-1" {
			t.Errorf("%s: %s", project, body)
		}
	}
	response, err := http.Get("http://" + metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if !strings.Contains(string(text), `project="other"`) || strings.Contains(string(text), `project="shop"`) {
		t.Errorf("the metrics are not those of the gateway that runs:\n%s", text)
	}
	first := e.Gateway()
	if err := e.Close(context.Background()); err != nil || e.Gateway() != nil || first.Bridge().Stats().Instances != 0 {
		t.Errorf("%v, %v", err, first.Bridge().Stats())
	}
}

// `krakend check` loads and does not start: another KrakenD that runs keeps its address, and a check leaves none taken.
func TestACheckBindsNothingAndATakenAddressIsAWarning(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	file := write(t, upstream.URL, `"module"`, `"metrics_listen": "`+taken.Addr().String()+`", "module"`)
	e := executor.New(aliases)
	defer func() { _ = e.Close(context.Background()) }()
	if err := e.Load(file); err != nil {
		t.Fatalf("the address is taken: %v", err)
	}
	log := new(logger)
	e.Start(log)
	run := factory(e, func(*backend) proxy { return nil })(orders)
	if response, body := order(t, run, "key-1"); response.StatusCode != 200 {
		t.Errorf("%d %s", response.StatusCode, body)
	}
	if !strings.Contains(strings.Join(log.lines, "\n"), "warning [SERVICE: edge-idempotency] /extra_config/plugin~1http-server/edge-idempotency/metrics_listen: there are no metrics") ||
		!strings.Contains(strings.Join(log.lines, "\n"), "bound to the policy; there are no metrics") || e.Gateway().MetricsAddress() != "" {
		t.Errorf("%q", log.lines)
	}
	_ = taken.Close()

	checked := executor.New(aliases)
	defer func() { _ = checked.Close(context.Background()) }()
	if err := checked.Load(file); err != nil {
		t.Fatal(err)
	}
	again, err := net.Listen("tcp", taken.Addr().String())
	if err != nil {
		t.Fatalf("a check listens: %v", err)
	}
	_ = again.Close()
	checked.Start(log)
	response, err := http.Get("http://" + taken.Addr().String() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
}

func TestABuildThatDoesNotKnowTheShortNamesDoesNotStart(t *testing.T) {
	for _, known := range []map[string]string{nil, {"router": aliases["router"]}, {"router": aliases["router"], "auth/validator": "other"}} {
		e := executor.New(known)
		err := e.Load(write(t, "http://127.0.0.1:1"))
		if err == nil || !strings.Contains(err.Error(), "/endpoints/0/extra_config/auth~1validator (POST /orders): this build of KrakenD does not know the name") {
			t.Errorf("%v: %v", known, err)
		}
	}
}
