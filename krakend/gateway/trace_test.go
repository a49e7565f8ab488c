package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// span stands in for OpenTelemetry's span, which the tests cannot have without its modules: it has the methods that are called, and
// its context writes itself in JSON as OpenTelemetry's does.
type span struct{ traceID, spanID, flags, state string }

func (s *span) IsRecording() bool        { return s.flags != "00" }
func (s *span) SpanContext() testContext { return testContext{*s} }

type testContext struct{ span }

func (c testContext) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"TraceID": c.traceID, "SpanID": c.spanID, "TraceFlags": c.flags, "TraceState": c.state, "Remote": false})
}

type spanKey struct{}

const traceID, spanID = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"

// withSpan is a chain of contexts as KrakenD makes it: values and timeouts over the span, and gin's context below.
func withSpan(t *testing.T, below context.Context, flags string) context.Context {
	ctx, cancel := context.WithCancel(context.WithValue(below, spanKey{}, &span{traceID, "0000000000000001", flags, ""}))
	t.Cleanup(cancel)
	ctx = context.WithValue(context.WithValue(ctx, spanKey{}, &span{traceID, spanID, flags, "vendor=1"}), struct{}{}, "other")
	ctx, end := context.WithTimeout(ctx, 1<<40)
	t.Cleanup(end)
	return ctx
}

// otel is testConfig with OpenTelemetry, whose propagators are those named.
func loadTraced(t *testing.T, upstream, propagators string) *Gateway {
	t.Helper()
	t.Setenv("OTEL_PROPAGATORS", propagators)
	config := testConfig(t, upstream)
	set(config, object{"exporters": object{}}, "extra_config", "telemetry/opentelemetry")
	return load(t, config)
}

func TestTheUpstreamGetsKrakenDsSpan(t *testing.T) {
	traceHeaders := []string{"Traceparent", "Tracestate", "B3", "X-B3-Traceid", "X-B3-Spanid", "X-B3-Sampled"}
	for name, test := range map[string]struct {
		propagators, flags string
		wanted             []string
	}{
		"default":      {"", "01", []string{"00-" + traceID + "-" + spanID + "-01", "vendor=1", "", "", "", ""}},
		"B3":           {"b3", "01", []string{"", "", traceID + "-" + spanID + "-1", "", "", ""}},
		"all":          {"tracecontext, b3,b3multi,baggage", "01", []string{"00-" + traceID + "-" + spanID + "-01", "vendor=1", traceID + "-" + spanID + "-1", traceID, spanID, "1"}},
		"not recorded": {"", "00", []string{"", "", "", "", "", ""}},
		"none":         {"none", "01", []string{"", "", "", "", "", ""}},
	} {
		upstream := newRecorder(t, answerOK)
		g := loadTraced(t, upstream.URL, test.propagators)
		header := alice()
		header.Set("Traceparent", "00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-01") // It is not listed.
		ctx, request := call{method: "POST", path: "/api/refunds", header: header}.requests(context.Background())
		response, err := g.RoundTrip(withSpan(t, ctx, test.flags), "refunds.create", request)
		if err != nil || response.StatusCode != 200 {
			t.Fatal(response, err)
		}
		_ = response.Body.Close()
		for at, header := range traceHeaders {
			if got := strings.Join(upstream.requests[0].Header[header], ","); got != test.wanted[at] {
				t.Errorf("%s: %s is %q, not %q", name, header, got, test.wanted[at])
			}
		}
	}
}

// Without OpenTelemetry a client's headers pass as all others do: if they are listed.
func TestWithoutOpenTelemetryTheClientsTracePassesIfItIsListed(t *testing.T) {
	upstream := newRecorder(t, answerOK)
	g := load(t, testConfig(t, upstream.URL))
	const sent = "00-ffffffffffffffffffffffffffffffff-ffffffffffffffff-01"
	for count, listed := range [][]string{{"Traceparent"}, nil} {
		header := alice()
		header.Set("Traceparent", sent)
		ctx, request := call{method: "POST", path: "/api/refunds", header: header, listed: listed}.requests(context.Background())
		response, err := g.RoundTrip(withSpan(t, ctx, "01"), "refunds.create", request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if got := upstream.requests[count].Header.Get("Traceparent"); got != sent && listed != nil || got != "" && listed == nil {
			t.Errorf("%v: %q", listed, got)
		}
	}
}

// instrumented stands in for the transport of krakend-otel: it finds KrakenD's span in the context of the request, and writes a span
// of its own.
type instrumented struct {
	next http.RoundTripper
	seen chan context.Context
}

func (i *instrumented) RoundTrip(request *http.Request) (*http.Response, error) {
	parent, _ := request.Context().Value(spanKey{}).(*span)
	i.seen <- request.Context()
	if parent == nil {
		return i.next.RoundTrip(request)
	}
	child := request.WithContext(request.Context())
	child.Header = request.Header.Clone()
	child.Header.Set("Traceparent", "00-"+parent.traceID+"-1234567890abcdef-01")
	child.Header.Set("X-Parent", parent.spanID)
	return i.next.RoundTrip(child)
}

func TestACustomBuildsTransportMakesTheSpan(t *testing.T) {
	upstream := newRecorder(t, answerOK)
	g := loadTraced(t, upstream.URL, "")
	via := &instrumented{Plain, make(chan context.Context, 1)}
	ctx, request := call{method: "POST", path: "/api/refunds", header: alice(), body: strings.NewReader("{}")}.requests(context.Background())
	response, err := g.RoundTrip(WithTransport(withSpan(t, ctx, "01"), via), "refunds.create", request)
	if err != nil || response.StatusCode != 200 {
		t.Fatal(response, err)
	}
	got := upstream.requests[0].Header
	if got.Get("Traceparent") != "00-"+traceID+"-1234567890abcdef-01" || got.Get("X-Parent") != spanID || upstream.bodies[0] != "{}" {
		t.Errorf("%v %q", got, upstream.bodies)
	}
	used := <-via.seen
	if used.Value(spanKey{}) == nil {
		t.Error("the span is gone before the answer's end")
	}
	_ = response.Body.Close()
	// gin uses its contexts again.
	if used.Value(spanKey{}) != nil || used.Value(ginContextKey) != nil {
		t.Error("KrakenD's values are read when the call has ended")
	}
	if _, err := Plain.RoundTrip(request); err == nil {
		t.Error("a request without an upstream is sent")
	}
}

func TestFormsOfTracesThatThePluginDoesNotWrite(t *testing.T) {
	config := testConfig(t, "http://backend:1")
	set(config, object{}, "extra_config", "telemetry/opentelemetry")
	lookup := func(name string) (string, bool) { return "tracecontext,jaeger", name == "OTEL_PROPAGATORS" }
	notes, err := Check(writeConfig(t, config), LoadOptions{Plugin: true, LookupEnv: lookup})
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0], `in the form "jaeger"`) {
		t.Error(notes, err)
	}
	if notes, err := Check(writeConfig(t, config), LoadOptions{Aliases: aliases, LookupEnv: lookup}); err != nil || len(notes) != 0 {
		t.Error(notes, err)
	}
}

// Chains that are not what is expected have no span.
func TestContextsWithoutASpan(t *testing.T) {
	var none context.Context
	for name, ctx := range map[string]context.Context{
		"nothing": none, "empty": context.Background(), "own": earlier{}, "value": context.WithValue(context.Background(), spanKey{}, "span"),
		"other": context.WithValue(context.Background(), spanKey{}, recording{}),
		"short": context.WithValue(context.Background(), spanKey{}, &span{"1", "2", "01", ""}),
	} {
		if found := spanOf(ctx); found != nil {
			t.Errorf("%s: %v", name, found)
		}
	}
}

type recording struct{}

func (recording) IsRecording() bool  { return true }
func (recording) SpanContext() error { return nil }
