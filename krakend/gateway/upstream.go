package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"edge-idempotency/krakend/bridge"
)

// defaultTimeout is the longest wait for the headers of an upstream's answer, as in deploy/demo/envoy.yaml.
const defaultTimeout = time.Minute

// The headers with which the module controls the router for one request (crates/envoy/src/lib.rs). The gateway obeys them and sends
// none of them on.
const (
	hintPrefix     = "x-envoy-"
	hintTimeout    = "x-envoy-upstream-rq-timeout-ms"
	hintRetryOn    = "x-envoy-retry-on"
	hintRetryCodes = "x-envoy-retriable-status-codes"
	hintRetries    = "x-envoy-max-retries"
)

// replayable are headers with which net/http sends a request again by itself, if a connection breaks that it had used before.
// Under names in lower case it does not find them: a POST with a key goes out once, and the client decides about another.
var replayable = map[string]bool{"idempotency-key": true, "x-idempotency-key": true}

// retryPause is the time before the one retry; Envoy's own is 25 ms at most.
const retryPause = 25 * time.Millisecond

// upstream is a real backend, or a service that the module calls.
type upstream struct {
	name string
	// targets are its hosts, to which requests go in turn.
	targets   []*url.URL
	next      atomic.Uint32
	timeout   time.Duration
	transport *http.Transport
	// tokens and breaker are nil if the upstream has none.
	tokens  *tokens
	breaker *breaker
}

// readUpstreams makes the upstreams.
func (p *plan) readUpstreams(o LoadOptions) {
	common := p.readTLS(o)
	for name, config := range p.service.Upstreams {
		at := servicePointer + pointer("upstreams", name)
		targets := p.readTargets(at, config)
		if targets == nil {
			continue
		}
		u := &upstream{name: name, targets: targets, timeout: setOr(time.Duration(p.document.ResponseHeaderTimeout), defaultTimeout)}
		if config.TimeoutMs < 0 || config.TimeoutMs > mostTimeoutMs {
			p.mistakes.add(at+"/timeout_ms", "", numberOutOfRange, mostTimeoutMs)
		} else if config.TimeoutMs > 0 {
			u.timeout = time.Duration(config.TimeoutMs) * time.Millisecond
		}
		u.transport = p.document.transport(p.upstreamTLS(at, config, common, o))
		u.tokens = p.readCredentials(at, config.ClientCredentials, p.document.transport(common.Clone()), o)
		u.breaker = p.readBreaker(at, name, config.CircuitBreaker, o)
		p.upstreams[name] = u
	}
}

// noteSettingsOfCalls tells of settings without effect: upstreams to which no endpoint is bound get the filter's own calls only, which have
// the policy's timeouts and no breaker.
func (p *plan) noteSettingsOfCalls() {
	bound := map[*upstream]bool{}
	for _, b := range p.bindings {
		bound[b.upstream] = true
	}
	for name, config := range p.service.Upstreams {
		if u := p.upstreams[name]; u == nil || bound[u] {
			continue
		}
		const why = "no endpoint is bound to this upstream, and the setting has no effect on the filter's own calls: remove it"
		if config.CircuitBreaker != nil {
			p.notes.add(servicePointer+pointer("upstreams", name, "circuit_breaker"), "", why)
		}
		if config.TimeoutMs != 0 {
			p.notes.add(servicePointer+pointer("upstreams", name, "timeout_ms"), "", why)
		}
	}
}

// readTargets reads url or urls. Nil: there is a mistake.
func (p *plan) readTargets(at string, config upstreamConfig) []*url.URL {
	written, member := []string{config.URL}, func(int) string { return at + "/url" }
	if len(config.URLs) > 0 {
		if config.URL != "" {
			p.mistakes.add(at+"/urls", "", "the hosts are there twice: keep url or urls")
			return nil
		}
		written, member = config.URLs, func(index int) string { return at + pointer("urls", index) }
	}
	var targets []*url.URL
	for index, text := range written {
		target, err := url.Parse(text)
		if err != nil || (target.Scheme != "http" && target.Scheme != "https") || target.Host == "" ||
			(target.Path != "" && target.Path != "/") || target.RawQuery != "" || target.User != nil {
			p.mistakes.add(member(index), "", "expected a scheme, a host and a port only, such as \"http://restate:8080\"")
			return nil
		}
		targets = append(targets, target)
	}
	return targets
}

// roundTrippers are the upstreams as the bridge takes them for the module's own calls.
func roundTrippers(upstreams map[string]*upstream) map[string]http.RoundTripper {
	all := make(map[string]http.RoundTripper, len(upstreams))
	for name, u := range upstreams {
		all[name] = u
	}
	return all
}

// RoundTrip sends a call of the module. The URL's host becomes the upstream's; Host, the authority that the module asked
// for, stays. No redirect is followed.
func (u *upstream) RoundTrip(request *http.Request) (*http.Response, error) {
	call := request.Clone(request.Context())
	if call.Host == "" {
		call.Host = call.URL.Host
	}
	quietAgent(call.Header)
	via, err := u.tokens.onto(call.Context(), u.transport)
	if err != nil {
		closeBody(call.Body)
		return nil, err
	}
	return u.attempt(via, call)
}

// attempt sends a request to one of the hosts. If it gets no connection to it, it sends it to the next one: then nothing of the
// request has gone out.
func (u *upstream) attempt(via http.RoundTripper, request *http.Request) (*http.Response, error) {
	first := u.next.Add(1)
	for count := range u.targets {
		target := u.targets[(uint64(first)+uint64(count))%uint64(len(u.targets))]
		var connected atomic.Bool // net/http dials again if a connection that it had breaks.
		try := request.WithContext(httptrace.WithClientTrace(request.Context(), &httptrace.ClientTrace{
			GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}))
		place := *request.URL
		place.Scheme, place.Host = target.Scheme, target.Host
		try.URL = &place
		if place.Scheme == "http" && place.Opaque != "" {
			if proxy, err := u.transport.Proxy(try); err == nil && proxy != nil { // A proxy is asked for a whole URL.
				place.Opaque = "//" + place.Host + place.Opaque
			}
		}
		if try.Host == "" {
			try.Host = target.Host
		}
		last := count == len(u.targets)-1
		if try.Body != nil && !last {
			try.Body = &keptBody{ReadCloser: try.Body, connected: &connected}
		}
		response, err := via.RoundTrip(try)
		if err == nil || last || connected.Load() || request.Context().Err() != nil {
			if err != nil {
				closeBody(request.Body)
			}
			return response, err
		}
	}
	return nil, errNoUpstream
}

var errNoUpstream = errors.New("there is no upstream")

// keptBody stays open for the next host as long as there is no connection.
type keptBody struct {
	io.ReadCloser
	connected *atomic.Bool
}

// Close closes the body if a host may have it.
func (b *keptBody) Close() error {
	if !b.connected.Load() {
		return nil
	}
	return b.ReadCloser.Close()
}

// quietAgent keeps net/http from adding a User-Agent of its own.
func quietAgent(header http.Header) {
	if _, ok := header["User-Agent"]; !ok {
		header["User-Agent"] = []string{""}
	}
}

// send sends a request that the module let through, and returns the answer. It waits for the headers of the answer until the
// upstream's timeout, the module's own, or the deadline of ctx: then the error is context.DeadlineExceeded. The body ends
// with an error when ctx does.
func (u *upstream) send(ctx context.Context, message *bridge.Message, unlisted map[bridge.Line]bool, owned func(string) bool) (*bridge.Message, error) {
	if u == nil {
		return nil, errNoUpstream
	}
	header := http.Header{}
	pseudo := map[string]string{}
	hints := map[string]string{}
	length := int64(-1)
	for _, line := range message.Header {
		switch {
		case strings.HasPrefix(line.Name, ":"):
			pseudo[line.Name] = line.Value
		case strings.HasPrefix(line.Name, hintPrefix):
			hints[line.Name] = line.Value
		case line.Name == "content-length":
			if value, err := strconv.ParseInt(line.Value, 10, 64); err == nil {
				length = value
			}
		case connectionHeaders[line.Name], line.Name == "host":
		case unlisted[line] && !owned(line.Name):
		case replayable[line.Name]:
			header[line.Name] = append(header[line.Name], line.Value)
		default:
			header.Add(line.Name, line.Value)
		}
	}
	path := pseudo[":path"]
	if !strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//") {
		closeBody(message.Body)
		return nil, fmt.Errorf("the module's path %q is no path", path)
	}
	quietAgent(header)
	timeout := u.timeout
	if ms, err := strconv.ParseUint(hints[hintTimeout], 10, 31); err == nil && ms > 0 {
		timeout = time.Duration(ms) * time.Millisecond
	}
	attempts := 1
	if hints[hintRetryOn] == "retriable-status-codes" && hints[hintRetryCodes] == "404" && hints[hintRetries] == "1" && message.Body == nil {
		attempts = 2
	}
	wait, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(timeout, func() { cancel(context.DeadlineExceeded) })
	finish := func() { timer.Stop(); cancel(context.Canceled) }
	via, err := u.tokens.onto(wait, u.transport)
	if err != nil { // Nothing was sent, so a deadline is no timeout of the upstream.
		finish()
		closeBody(message.Body)
		return nil, fmt.Errorf("upstream %s: %s", u.name, err.Error())
	}
	sent := wait
	if trace := traceOf(ctx); trace != nil {
		via, sent = trace.onto(header, via, wait)
	}

	rawPath, query, _ := strings.Cut(path, "?")
	request := (&http.Request{
		Method:     pseudo[":method"],
		URL:        &url.URL{Opaque: rawPath, RawQuery: query, ForceQuery: strings.HasSuffix(path, "?")},
		Header:     header,
		ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(sent)
	if message.Body != nil {
		if err := setBody(wait, request, message.Body, length); err != nil {
			finish()
			return nil, fmt.Errorf("the request's body: %w", err)
		}
	}
	for attempt := 1; ; attempt++ {
		response, err := u.guarded(wait, request, func() (*http.Response, error) { return u.attempt(via, request) })
		if err != nil {
			cause := context.Cause(wait)
			finish()
			if errors.Is(cause, context.DeadlineExceeded) {
				return nil, context.DeadlineExceeded
			}
			return nil, fmt.Errorf("upstream %s: %w", u.name, err)
		}
		if attempt < attempts && response.StatusCode == http.StatusNotFound {
			_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 64<<10))
			_ = response.Body.Close()
			select {
			case <-time.After(retryPause):
			case <-wait.Done():
			}
			continue
		}
		timer.Stop()
		return answer(response, finish), nil
	}
}

// guarded runs a call behind the circuit breaker, if there is one.
func (u *upstream) guarded(ctx context.Context, request *http.Request, call func() (*http.Response, error)) (*http.Response, error) {
	if u.breaker == nil {
		return call()
	}
	return u.breaker.Execute(func() (*http.Response, error) {
		response, err := call()
		cause := context.Cause(ctx)
		if errors.Is(cause, context.DeadlineExceeded) && stillSending(request.Body) {
			cause = context.Canceled
		}
		if err != nil {
			return nil, errors.Join(err, cause) // The breaker asks whether the client has given up.
		}
		return response, nil
	})
}

// answer makes the bridge's message of an upstream's answer.
func answer(response *http.Response, finish func()) *bridge.Message {
	message := &bridge.Message{Header: bridge.Header{{Name: ":status", Value: strconv.Itoa(response.StatusCode)}}}
	for _, line := range bridge.HeaderFrom(response.Header) {
		if !connectionHeaders[line.Name] || line.Name == "proxy-authenticate" {
			message.Header = append(message.Header, line)
		}
	}
	if response.Body == http.NoBody && len(response.Trailer) == 0 {
		finish()
		return message
	}
	message.Body = &endingBody{ReadCloser: response.Body, end: finish}
	message.Trailer = func() bridge.Header { return bridge.HeaderFrom(response.Trailer) }
	return message
}

// endingBody is a body whose Close gives back what the call holds.
type endingBody struct {
	io.ReadCloser
	end func()
}

// Close ends the call.
func (b *endingBody) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

func closeBody(body io.Closer) {
	if body != nil {
		_ = body.Close()
	}
}
