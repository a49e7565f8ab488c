package gateway

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"edge-idempotency/krakend/bridge"
)

func answerOK(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Set-Cookie"] = []string{"b=1", "a=2"}
	w.Header().Set("X-Restate-Id", "inv_1")
	w.WriteHeader(http.StatusOK)
	_, _ = io.WriteString(w, `{"ok":true}`)
}

func TestAKeyedRequestReachesTheRealUpstreamWithANamespacedKey(t *testing.T) {
	upstream := newRecorder(t, answerOK)
	g := load(t, testConfig(t, upstream.URL))
	header := alice()
	header["X-Listed"], header["X-Secret"] = []string{"2", "1"}, []string{"no"}
	header["X-Envoy-Max-Retries"], header["X-Request-Id"] = []string{"9"}, []string{"chosen"}
	header["X-Tenant-Id"] = []string{"acme"}
	response, body := exchange(t, g, "refunds.create", call{method: "POST", path: "/api/refunds?a=1", header: header,
		body: strings.NewReader(`{"amount":1}`), listed: []string{"Content-Type", "X-Listed", "X-Claim-Tenant"}})
	if response.StatusCode != 200 || body != `{"ok":true}` {
		t.Fatalf("%d %s", response.StatusCode, body)
	}
	got := upstream.requests[0]
	if got.RequestURI != "/restate/call/Refunds/create" || upstream.bodies[0] != `{"amount":1}` {
		t.Errorf("%s %s", got.RequestURI, upstream.bodies[0])
	}
	if key := got.Header.Values("Idempotency-Key"); len(key) != 1 || key[0] != "t-acme:health:user:alice:key-1" {
		t.Errorf("%q", key)
	}
	for name, wanted := range map[string]string{
		"X-Listed": "2,1", "X-Secret": "", "X-Envoy-Max-Retries": "", "X-Claim-Tenant": "", "Authorization": "",
		"X-Tenant-Id": "acme", "User-Agent": "KrakenD", "Content-Type": "application/json", "X-Claim-Subject": "",
		"Accept-Encoding": "",
	} {
		if value := strings.Join(got.Header.Values(name), ","); value != wanted {
			t.Errorf("%s: %q, not %q", name, value, wanted)
		}
	}
	if id := got.Header.Values("X-Request-Id"); len(id) != 1 || len(id[0]) != 36 {
		t.Errorf("x-request-id is %q", id)
	}
	if cookies := strings.Join(response.Header.Values("Set-Cookie"), ","); cookies != "b=1,a=2" {
		t.Errorf("cookies %q", cookies)
	}
}

func TestARequestThatIsForwardedTooLongIsA504BeforeKrakenDsDeadline(t *testing.T) {
	release := make(chan struct{})
	upstream := newRecorder(t, func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	g := load(t, testConfig(t, upstream.URL))
	parent, cancel := context.WithTimeout(context.Background(), 400*time.Millisecond)
	defer cancel()
	ctx, request := call{method: "POST", path: "/api/refunds", header: alice(), body: strings.NewReader("{}")}.requests(parent)
	response, err := g.RoundTrip(ctx, "refunds.create", request)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(response.Body)
	if response.StatusCode != 504 || !strings.Contains(string(body), `"code":"gateway_timeout"`) {
		t.Errorf("%d %s", response.StatusCode, body)
	}
}

func TestARequestWhoseBodyStallsIsA503BeforeKrakenDsDeadline(t *testing.T) {
	upstream := newRecorder(t, answerOK)
	config := testConfig(t, upstream.URL)
	routes := config["extra_config"].(object)[serverPlugin].(object)[own].(object)["policy"].(object)["routes"].(list)
	routes[0].(object)["collision"], routes[0].(object)["in_flight"] = "enforce", "attach"
	policy := config["extra_config"].(object)[serverPlugin].(object)[own].(object)["policy"].(object)
	policy["backend"].(object)["guard"] = object{"service": "IdempotencyGuard", "retention": "8d"}
	policy["backend"].(object)["cluster"] = "backend"
	policy["docs_url"], policy["retry_headers"], policy["error_member"] = "https://docs.example/i", list{"x-should-retry"}, true
	g := load(t, config)
	parent, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	stalled, end := io.Pipe()
	defer end.Close()
	ctx, request := call{method: "POST", path: "/api/refunds", header: alice(), body: stalled}.requests(parent)
	response, err := g.RoundTrip(ctx, "refunds.create", request)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(response.Body)
	if response.StatusCode != 503 || upstream.count() != 0 {
		t.Errorf("%d, %d requests", response.StatusCode, upstream.count())
	}
	for _, part := range []string{`"type":"https://docs.example/i#dependency_unavailable"`, `"error":{"code":"dependency_unavailable"`} {
		if !strings.Contains(string(body), part) {
			t.Errorf("%s is not in %s", part, body)
		}
	}
	for name, wanted := range map[string]string{"X-Should-Retry": "true", "Link": `<https://docs.example/i>; rel="describedby"`, "Retry-After": "5", "Idempotency-Retry": "same_key"} {
		if value := response.Header.Get(name); value != wanted {
			t.Errorf("%s: %q", name, value)
		}
	}
	_ = response.Body.Close()
}

func TestAClientThatIsGoneIsAnError(t *testing.T) {
	upstream := newRecorder(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	g := load(t, testConfig(t, upstream.URL))
	parent, cancel := context.WithCancel(context.Background())
	ctx, request := call{method: "POST", path: "/api/refunds", header: alice()}.requests(parent)
	go func() {
		for upstream.count() == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if response, err := g.RoundTrip(ctx, "refunds.create", request); err == nil {
		t.Errorf("an answer with %d", response.StatusCode)
	}
}

func TestRecoveryAsksOnceMoreAfterA404(t *testing.T) {
	answers := 0
	upstream := newRecorder(t, func(w http.ResponseWriter, r *http.Request) {
		answers++
		if answers == 1 {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("X-Restate-Id", "inv_1")
		_, _ = io.WriteString(w, "{}")
	})
	g := load(t, testConfig(t, upstream.URL))
	header := alice()
	header.Del("Idempotency-Key")
	response, body := exchange(t, g, "refunds.create", call{method: "GET", path: "/api/refunds/by-idempotency-key/key-1", header: header})
	if response.StatusCode != 200 || response.Header.Get("Idempotency-Status") != "completed" {
		t.Errorf("%d %s %v", response.StatusCode, body, response.Header)
	}
	if upstream.count() != 2 {
		t.Fatalf("%d requests", upstream.count())
	}
	for name := range upstream.requests[1].Header {
		if strings.HasPrefix(strings.ToLower(name), hintPrefix) {
			t.Errorf("%s reached the upstream", name)
		}
	}
	if path := upstream.requests[1].RequestURI; path != "/restate/attach/inv_1" {
		t.Errorf("%s", path)
	}
}

func TestRecoveryIsA202WhenTheWaitIsOver(t *testing.T) {
	upstream := newRecorder(t, func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	config := testConfig(t, upstream.URL)
	set(config, 1000, "extra_config", serverPlugin, own, "policy", "recovery_wait_ms")
	g := load(t, config)
	header := alice()
	header.Del("Idempotency-Key")
	parent, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	ctx, request := call{method: "GET", path: "/api/refunds/by-idempotency-key/key-1", header: header}.requests(parent)
	response, err := g.RoundTrip(ctx, "refunds.create", request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != 202 || response.Header.Get("Idempotency-Status") != "processing" {
		t.Errorf("%d %v", response.StatusCode, response.Header)
	}
	if deadline, _ := parent.Deadline(); time.Until(deadline) < time.Second {
		t.Error("not the policy's wait ended the request, but KrakenD's deadline")
	}
}

func TestAnUpstreamThatIsDownIsAProblemAndABrokenBodyToo(t *testing.T) {
	upstream := newRecorder(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Restate-Id", "inv_1")
		_, _ = io.WriteString(w, "begin")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	})
	g := load(t, testConfig(t, upstream.URL))
	ctx, request := call{method: "POST", path: "/api/refunds", header: alice()}.requests(context.Background())
	w := newWriter()
	g.ServeHTTP(w, request.WithContext(ctx), "refunds.create")
	if w.status != 503 || !strings.Contains(w.body.String(), "dependency_unavailable") || strings.Contains(w.body.String(), "begin") {
		t.Errorf("%d %s", w.status, w.body.String())
	}
	upstream.Close()
	if response, body := exchange(t, g, "refunds.create", call{method: "POST", path: "/api/refunds", header: alice()}); response.StatusCode != 503 || !strings.Contains(body, `"retry":"same_key"`) {
		t.Errorf("%d %s", response.StatusCode, body)
	}
}

// writer is a response writer that keeps what it gets.
type writer struct {
	header http.Header
	status int
	body   strings.Builder
}

func newWriter() *writer { return &writer{header: http.Header{}} }

func (w *writer) Header() http.Header            { return w.header }
func (w *writer) WriteHeader(status int)         { w.status = status }
func (w *writer) Write(part []byte) (int, error) { return w.body.Write(part) }

func TestMetricsAndRecordsAreThere(t *testing.T) {
	upstream := newRecorder(t, answerOK)
	config := testConfig(t, upstream.URL)
	set(config, "127.0.0.1:0", "extra_config", serverPlugin, own, "metrics_listen")
	set(config, true, "extra_config", serverPlugin, own, "log_records")
	log := new(lines)
	g, err := Load(writeConfig(t, config), LoadOptions{Plugin: true, Log: log.write})
	if err != nil {
		t.Fatal(err)
	}
	g.Start(nil)
	exchange(t, g, "refunds.create", call{method: "POST", path: "/api/refunds", header: alice()})
	response, err := http.Get("http://" + g.MetricsAddress() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if !strings.Contains(string(text), `idempotency_key_present_total{`) {
		t.Errorf("%s", text)
	}
	if !strings.Contains(log.text(), `info edge-idempotency: record {`) || !strings.Contains(log.text(), `"endpoint":"refunds.create"`) {
		t.Errorf("%s", log.text())
	}
	if err := g.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if _, err := http.Get("http://" + g.MetricsAddress() + "/metrics"); err == nil {
		t.Error("the listener is still open")
	}
}

func TestLinesOfAConnectionStayThere(t *testing.T) {
	response, err := toResponse(&bridge.Message{Header: bridge.Header{
		{Name: ":status", Value: "204"}, {Name: "connection", Value: "x"}, {Name: "keep-alive", Value: "1"}, {Name: "transfer-encoding", Value: "chunked"}, {Name: "etag", Value: "1"},
	}}, func() {})
	if err != nil || len(response.Header) != 1 || response.Header.Get("Etag") != "1" || response.StatusCode != 204 {
		t.Errorf("%v %v", response, err)
	}
	for _, status := range []string{"", "x", "101"} {
		if _, err := toResponse(&bridge.Message{Header: bridge.Header{{Name: ":status", Value: status}}}, func() {}); err == nil {
			t.Errorf("the status %q is taken", status)
		}
	}
}

// A name of the policy can be in any letter case; the module writes it in lower case.
func TestAnIdentityHeaderThatTheClientAlsoSendsArrives(t *testing.T) {
	upstream := newRecorder(t, answerOK)
	config := testConfig(t, upstream.URL)
	set(config, "X-Tenant-Id", "extra_config", serverPlugin, own, "policy", "identity", "forward", "tenant")
	g := load(t, config)
	header := alice()
	header.Set("X-Tenant-Id", "acme")
	exchange(t, g, "refunds.create", call{method: "POST", path: "/api/refunds", header: header})
	if got := upstream.requests[0].Header.Values("X-Tenant-Id"); len(got) != 1 || got[0] != "acme" {
		t.Errorf("%q", got)
	}
	key := upstream.requests[0].Header.Values("X-Idempotency-Key")
	header["X-Idempotency-Key"] = key
	exchange(t, g, "refunds.create", call{method: "POST", path: "/api/refunds", header: header})
	if got := upstream.requests[1].Header.Values("X-Idempotency-Key"); len(key) != 1 || !slices.Equal(got, key) {
		t.Errorf("%q after %q", got, key)
	}
}

// Without gin's context nobody knows whether KrakenD's router, and with it the validator, has seen the request.
func TestWithoutTheClientsRequestNobodyHasAnIdentity(t *testing.T) {
	upstream := newRecorder(t, answerOK)
	g := load(t, testConfig(t, upstream.URL))
	request, err := http.NewRequest("POST", "http://edge-idempotency.invalid/api/refunds", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = alice()
	response, err := g.RoundTrip(context.Background(), "refunds.create", request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != 401 || upstream.count() != 0 {
		t.Errorf("%d, %d requests", response.StatusCode, upstream.count())
	}
}
