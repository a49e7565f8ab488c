package gateway

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"edge-idempotency/krakend/bridge"
)

// defaultTimeout is the longest wait for the headers of an upstream's answer, as in demo/envoy.yaml.
const defaultTimeout = time.Minute

// The headers with which the module controls the router for one request (envoy/src/lib.rs). The gateway obeys them and sends
// none of them on.
const (
	hintPrefix     = "x-envoy-"
	hintTimeout    = "x-envoy-upstream-rq-timeout-ms"
	hintRetryOn    = "x-envoy-retry-on"
	hintRetryCodes = "x-envoy-retriable-status-codes"
	hintRetries    = "x-envoy-max-retries"
)

// retryPause is the time before the one retry; Envoy's own is 25 ms at most.
const retryPause = 25 * time.Millisecond

// upstream is a real backend, or a service that the module calls.
type upstream struct {
	name      string
	target    *url.URL
	timeout   time.Duration
	transport *http.Transport
}

func newUpstream(name string, target *url.URL, config upstreamConfig, directory string) (*upstream, error) {
	u := &upstream{name: name, target: target, timeout: defaultTimeout}
	if config.TimeoutMs > 0 {
		u.timeout = time.Duration(config.TimeoutMs) * time.Millisecond
	}
	u.transport = &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		DisableCompression:  true,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: 250,
		IdleConnTimeout:     90 * time.Second,
		TLSHandshakeTimeout: 5 * time.Second,
	}
	if config.CAFile != "" {
		text, err := os.ReadFile(resolve(directory, config.CAFile))
		if err != nil {
			return nil, fmt.Errorf("the authorities cannot be read: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(text) {
			return nil, errors.New("the file has no certificate in PEM form")
		}
		u.transport.TLSClientConfig = &tls.Config{RootCAs: pool}
	}
	return u, nil
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
	target := *call.URL
	if call.Host == "" {
		call.Host = target.Host
	}
	target.Scheme, target.Host = u.target.Scheme, u.target.Host
	call.URL = &target
	quietAgent(call.Header)
	return u.transport.RoundTrip(call)
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
		return nil, errors.New("the endpoint has no upstream")
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

	rawPath, query, _ := strings.Cut(path, "?")
	request := (&http.Request{
		Method:     pseudo[":method"],
		URL:        &url.URL{Scheme: u.target.Scheme, Host: u.target.Host, Opaque: rawPath, RawQuery: query, ForceQuery: strings.HasSuffix(path, "?")},
		Header:     header,
		ProtoMajor: 1, ProtoMinor: 1,
		Host: u.target.Host,
	}).WithContext(wait)
	if message.Body != nil {
		if err := setBody(wait, request, message.Body, length); err != nil {
			finish()
			return nil, fmt.Errorf("the request's body: %w", err)
		}
	}
	for attempt := 1; ; attempt++ {
		response, err := u.transport.RoundTrip(request)
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
