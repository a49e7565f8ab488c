package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"sync"
)

// How a request to an upstream takes part in KrakenD's traces. A custom build gives the bridge KrakenD's own instrumented
// transport (WithTransport), which makes the span and writes the headers. A plugin cannot have it, because it shares no package
// with the gateway: there the headers name the span of KrakenD's that the call belongs to.

// trace is what one call takes from KrakenD's context.
type trace struct {
	// instrumented is KrakenD's transport; nil if there is none.
	instrumented http.RoundTripper
	// headers are those of KrakenD's span.
	headers http.Header

	mutex sync.RWMutex
	// values is KrakenD's context; nil when the call has ended.
	values context.Context
}

type (
	transportKey struct{}
	traceKey     struct{}
	plainKey     struct{}
)

// WithTransport gives a call to Gateway.RoundTrip a transport for the request to the upstream, in place of Plain.
func WithTransport(ctx context.Context, instrumented http.RoundTripper) context.Context {
	return context.WithValue(ctx, transportKey{}, instrumented)
}

// Plain sends a request by the connections of the upstream that the call is for. An instrumented transport is made around it.
var Plain http.RoundTripper = plain{}

type plain struct{}

// RoundTrip sends the request.
func (plain) RoundTrip(request *http.Request) (*http.Response, error) {
	if via, ok := request.Context().Value(plainKey{}).(http.RoundTripper); ok {
		return via.RoundTrip(request)
	}
	return nil, errNoUpstream
}

// withTrace gives the context of an exchange what the request needs of KrakenD's. The exchange's context has no values of KrakenD's,
// which gin uses again; forget ends the use of them.
func (g *Gateway) withTrace(exchange, krakend context.Context) (ctx context.Context, forget func()) {
	instrumented, _ := krakend.Value(transportKey{}).(http.RoundTripper)
	switch {
	case instrumented != nil:
		t := &trace{instrumented: instrumented, values: krakend}
		return context.WithValue(exchange, traceKey{}, t), t.forget
	case len(g.propagators) > 0:
		if headers := g.spanHeaders(krakend); headers != nil {
			return context.WithValue(exchange, traceKey{}, &trace{headers: headers}), func() {}
		}
	}
	return exchange, func() {}
}

func traceOf(ctx context.Context) *trace {
	t, _ := ctx.Value(traceKey{}).(*trace)
	return t
}

func (t *trace) forget() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.values = nil
}

// onto writes the headers of the span, or returns the instrumented transport and the context that it needs.
func (t *trace) onto(header http.Header, via http.RoundTripper, ctx context.Context) (http.RoundTripper, context.Context) {
	for name, values := range t.headers {
		header[name] = values
	}
	if t.instrumented == nil {
		return via, ctx
	}
	return t.instrumented, context.WithValue(&krakendValues{ctx, t}, plainKey{}, via)
}

// krakendValues is a context that has KrakenD's values as long as the call lasts.
type krakendValues struct {
	context.Context
	trace *trace
}

// Value returns a value.
func (v *krakendValues) Value(key any) any {
	if own := v.Context.Value(key); own != nil {
		return own
	}
	v.trace.mutex.RLock()
	defer v.trace.mutex.RUnlock()
	if v.trace.values == nil {
		return nil
	}
	return v.trace.values.Value(key)
}

// readPropagators reads the forms of headers that KrakenD writes spans in: its OpenTelemetry reads OTEL_PROPAGATORS. None: krakend.json
// has no OpenTelemetry.
func (p *plan) readPropagators(o LoadOptions) []string {
	if _, ok := p.document.ExtraConfig.get("telemetry/opentelemetry"); !ok {
		return nil
	}
	text, ok := o.LookupEnv("OTEL_PROPAGATORS")
	if !ok || text == "" {
		text = "tracecontext,baggage"
	}
	var known []string
	for name := range strings.SplitSeq(text, ",") {
		switch name = strings.TrimSpace(name); name {
		case "tracecontext", "b3", "b3multi":
			known = append(known, name)
		case "baggage", "none":
		default:
			if o.Plugin {
				p.notes.add("/extra_config/telemetry~1opentelemetry", "", "the plugin does not write traces in the form %q (OTEL_PROPAGATORS) into requests to upstreams: add tracecontext, b3 or b3multi", name)
			}
		}
	}
	return known
}

// spanHeaders are the headers that name KrakenD's span in a context; nil if there is none, or it is not recorded: then KrakenD
// writes none, too.
func (g *Gateway) spanHeaders(ctx context.Context) http.Header {
	span := spanOf(ctx)
	if span == nil {
		return nil
	}
	headers := http.Header{}
	for _, form := range g.propagators {
		switch form {
		case "tracecontext":
			headers.Set("Traceparent", "00-"+span.TraceID+"-"+span.SpanID+"-"+span.TraceFlags)
			if span.TraceState != "" {
				headers.Set("Tracestate", span.TraceState)
			}
		case "b3":
			headers.Set("B3", span.TraceID+"-"+span.SpanID+"-1")
		case "b3multi":
			headers.Set("X-B3-Traceid", span.TraceID)
			headers.Set("X-B3-Spanid", span.SpanID)
			headers.Set("X-B3-Sampled", "1")
		}
	}
	return headers
}

// spanContext is OpenTelemetry's trace.SpanContext as it writes itself in JSON.
type spanContext struct{ TraceID, SpanID, TraceFlags, TraceState string }

// mostContexts is how far a chain of contexts is followed.
const mostContexts = 64

// spanOf finds OpenTelemetry's innermost span in a chain of contexts. A plugin that imported OpenTelemetry would have to have the
// gateway's version of it, so the span is found by what it can do, and read in the form that it writes of itself.
func spanOf(ctx context.Context) *spanContext {
	for range mostContexts {
		link := reflect.ValueOf(ctx)
		if link.Kind() == reflect.Pointer {
			link = link.Elem()
		}
		if link.Kind() != reflect.Struct {
			return nil
		}
		if kind := link.Type(); kind.PkgPath() == "context" && kind.Name() == "valueCtx" {
			if found := readSpan(unexported(link.FieldByName("val"))); found != nil {
				return found
			}
		}
		next := link.FieldByName("Context")
		if !next.IsValid() || !next.CanInterface() {
			return nil
		}
		var ok bool
		if ctx, ok = next.Interface().(context.Context); !ok {
			return nil
		}
	}
	return nil
}

// unexported reads a field of an interface's type that has no exported name.
func unexported(field reflect.Value) any {
	if !field.IsValid() || !field.CanAddr() || field.Type() != reflect.TypeFor[any]() {
		return nil
	}
	return *(*any)(field.Addr().UnsafePointer())
}

func readSpan(value any) *spanContext {
	span, ok := value.(interface{ IsRecording() bool })
	if !ok || !span.IsRecording() {
		return nil
	}
	method := reflect.ValueOf(value).MethodByName("SpanContext")
	if !method.IsValid() || method.Type().NumIn() != 0 || method.Type().NumOut() != 1 {
		return nil
	}
	text, err := json.Marshal(method.Call(nil)[0].Interface())
	if err != nil {
		return nil
	}
	found := new(spanContext)
	if json.Unmarshal(text, found) != nil || len(found.TraceID) != 32 || len(found.SpanID) != 16 {
		return nil
	}
	return found
}
