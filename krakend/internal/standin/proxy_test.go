package standin

import (
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/luraproject/lura/v2/config"
	"github.com/luraproject/lura/v2/core"
	"github.com/luraproject/lura/v2/transport/http/client"
	"github.com/luraproject/lura/v2/transport/http/server"
)

// serve starts a stand-in whose backends are answered by execute.
func serve(t *testing.T, endpoints string, execute client.HTTPRequestExecutor) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "krakend.json")
	router := `{"router": {"disable_redirect_trailing_slash": true, "disable_redirect_fixed_path": true}}`
	if err := os.WriteFile(file, []byte(`{"version": 3, "extra_config": `+router+`, "endpoints": [`+endpoints+`]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := ReadConfig(file)
	if err != nil {
		t.Fatal(err)
	}
	handler, err := NewHandler(c, func(*config.Backend) client.HTTPRequestExecutor { return execute }, NewLogger(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	listening := httptest.NewServer(handler)
	t.Cleanup(listening.Close)
	return listening.URL
}

func endpoint(method, path, more string) string {
	return `{"endpoint": "` + path + `", "method": "` + method + `", "output_encoding": "no-op"` + more +
		`, "backend": [{"host": ["http://x.invalid"], "url_pattern": "` + path + `"}]}`
}

// send writes the request line as it is.
func send(t *testing.T, method, base, target string, header http.Header) *http.Response {
	t.Helper()
	r, err := http.NewRequest(method, base, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.URL.Opaque = target
	if header != nil {
		r.Header = header
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	return response
}

func TestAHostBelowInvalidIsNotLookedUp(t *testing.T) {
	response := send(t, "GET", serve(t, endpoint("GET", "/a", ""), Direct(nil)), "/a", nil)
	if response.StatusCode != http.StatusInternalServerError {
		t.Errorf("the status is %d", response.StatusCode)
	}
	r, _ := http.NewRequest("GET", "http://x.invalid/a", nil)
	if _, err := Direct(nil)(context.Background(), r); err == nil || !strings.Contains(err.Error(), "asks no resolver") {
		t.Error(err)
	}
}

func TestPathsAsKrakenD(t *testing.T) {
	var asked string
	base := serve(t, endpoint("GET", "/a/{id}", `, "input_query_strings": ["*"]`)+","+endpoint("GET", "/a/fixed", "")+","+endpoint("POST", "/a/{id}", ""),
		func(_ context.Context, r *http.Request) (*http.Response, error) {
			asked = r.URL.RequestURI()
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}, nil
		})
	for target, want := range map[string]string{
		"/a/x":              "/a/x",
		"/a/fixed":          "/a/fixed",
		"/a/%7Ex":           "/a/~x",
		"/a/%2e%2e":         "/a/..",
		"/a/%ff":            "/a/%FF",
		"/a/x;y":            "/a/x;y",
		"/a/x?b=2&a=1&flag": "/a/x?a=1&b=2&flag=",
		"/a/x?a=%zz&b=1":    "/a/x?b=1",
	} {
		asked = ""
		if response := send(t, "GET", base, target, nil); response.StatusCode != 200 || asked != want {
			t.Errorf("%s: %d, and the backend is asked for %q, not %q", target, response.StatusCode, asked, want)
		}
	}
	for target, status := range map[string]int{
		"/a/x%2Fy": 404, "/a/": 404, "//a/x": 404, "/A/x": 404, "/a/x/": 404, "/b": 404,
		"/a/%252F": 400, "/a/%3F": 400, "/a/%23": 400, "/a/%00": 500,
	} {
		if response := send(t, "GET", base, target, nil); response.StatusCode != status {
			t.Errorf("%s: %d, not %d", target, response.StatusCode, status)
		}
	}
	for _, method := range []string{"HEAD", "OPTIONS", "PUT", "FOO"} {
		if response := send(t, method, base, "/a/x", nil); response.StatusCode != 405 || response.Header.Get("Allow") != "GET, POST" {
			t.Errorf("%s: %d %v", method, response.StatusCode, response.Header)
		}
	}
}

func TestHeadersAsKrakenD(t *testing.T) {
	var got http.Header
	base := serve(t, endpoint("GET", "/a", `, "input_headers": ["x-listed", "X-Twice"]`), func(_ context.Context, r *http.Request) (*http.Response, error) {
		got = r.Header
		header := http.Header{"X-Twice": {"1", "2"}, "X-Krakend": {"upstream"}}
		return &http.Response{StatusCode: 418, Header: header, Body: io.NopCloser(strings.NewReader("body"))}, nil
	})
	sent := http.Header{"x-listed": {"a"}, "X-Twice": {"2", "1"}, "Idempotency-Key": {"k"}, "X-Forwarded-For": {"192.0.2.7, 10.0.0.1"}, "User-Agent": {"me"}}
	response := send(t, "GET", base, "/a", sent)
	want := http.Header{
		"X-Listed": {"a"}, "X-Twice": {"2", "1"}, "X-Forwarded-For": {"192.0.2.7"},
		"X-Forwarded-Host": {strings.TrimPrefix(base, "http://")}, "User-Agent": {core.KrakendUserAgent},
	}
	if !maps.EqualFunc(got, want, func(a, b []string) bool { return reflect.DeepEqual(a, b) }) {
		t.Errorf("the backend gets %v, not %v", got, want)
	}
	body, _ := io.ReadAll(response.Body)
	if response.StatusCode != 418 || string(body) != "body" || len(response.Header["X-Twice"]) != 2 {
		t.Errorf("the client gets %d %v %q", response.StatusCode, response.Header, body)
	}
	if own := response.Header["X-Krakend"]; !reflect.DeepEqual(own, []string{core.KrakendHeaderValue, "upstream"}) || response.Header.Get(server.CompleteResponseHeaderName) != "false" {
		t.Errorf("the gateway's own lines are %v", response.Header)
	}
}

// A timeout and an error of the executor are an empty 500, whatever the executor answers.
func TestTimeoutAsKrakenD(t *testing.T) {
	base := serve(t, endpoint("GET", "/a", `, "timeout": "10ms"`), func(ctx context.Context, _ *http.Request) (*http.Response, error) {
		deadline, set := ctx.Deadline()
		if !set || time.Until(deadline) > time.Second {
			t.Errorf("the deadline is %v", deadline)
		}
		<-ctx.Done()
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}, nil
	})
	response := send(t, "GET", base, "/a", nil)
	if body, _ := io.ReadAll(response.Body); response.StatusCode != 500 || len(body) > 0 {
		t.Errorf("%d %q", response.StatusCode, body)
	}
}

func TestTheContextHasTheClientsRequest(t *testing.T) {
	base := serve(t, endpoint("GET", "/a", ""), func(ctx context.Context, r *http.Request) (*http.Response, error) {
		gin := reflect.ValueOf(ctx.Value("_gin-gonic/gin/contextkey")).Elem()
		client, _ := gin.FieldByName("Request").Interface().(*http.Request)
		if _, ok := gin.FieldByName("Writer").Interface().(http.ResponseWriter); !ok {
			t.Error("the context has no writer")
		}
		if client.RequestURI != "/a?b=%41" || client.Header.Get("Idempotency-Key") != "k" || r.Header.Get("Idempotency-Key") != "" {
			t.Errorf("the client's request is %v, and the executor's %v", client, r)
		}
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}, nil
	})
	send(t, "GET", base, "/a?b=%41", http.Header{"Idempotency-Key": {"k"}})
}
