package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"edge-idempotency/krakend/bridge"
)

// reserve is how long before the end of the endpoint's time the gateway answers: at the end KrakenD answers an empty 500.
const reserve = 50 * time.Millisecond

// RoundTrip answers one request of an endpoint that is bound to this name. ctx and request are those that KrakenD gives to
// an executor. The caller closes the body of the response. An error says that the client is gone.
//
// KrakenD's deadline, which ctx has, is kept by 50 ms: a request that was forwarded by then is answered 504, which passes the
// module as an answer of the upstream does, and any other 503. The body of a response ends with an error at the deadline, or if the upstream breaks it off.
func (g *Gateway) RoundTrip(ctx context.Context, endpoint string, request *http.Request) (*http.Response, error) {
	b := g.bindings[endpoint]
	if b == nil {
		closeBody(request.Body)
		return g.problems.unavailable("the gateway's configuration has no such endpoint"), nil
	}
	client := clientRequest(ctx)
	if client == nil {
		g.fallback.Do(func() {
			g.log(bridge.LevelWarn, Namespace+": the context has no request of gin's, so only what input_headers lists is known: path and query come as KrakenD writes them, and the scheme is taken to be http")
		})
		client = withoutClient(request)
	}
	if !b.serves(authority(client.Host)) {
		closeBody(request.Body)
		return g.problems.notFound(), nil
	}
	v := newView(request, client, b)

	// gin uses its contexts again, so nothing that outlives this call may read the values of ctx. What the context of the
	// exchange says by itself: at its deadline the module answers, and when it is canceled the client is gone.
	deadline := keep(ctx)
	inner, cancel := context.WithCancel(context.Background())
	if !deadline.IsZero() {
		inner, cancel = context.WithDeadline(context.Background(), deadline)
	}
	unwatch := context.AfterFunc(ctx, cancel)
	finish := func() { unwatch(); cancel() }
	message, err := g.bridge.Exchange(inner, &v.request, func(ctx context.Context, message *bridge.Message) (*bridge.Message, error) {
		return b.upstream.send(ctx, message, v.unlisted, g.owned)
	})
	if err != nil {
		finish()
		return nil, err
	}
	return toResponse(message, finish)
}

// keep returns when the gateway has to answer; the zero time if ctx has no deadline.
func keep(ctx context.Context) time.Time {
	deadline, ok := ctx.Deadline()
	if !ok {
		return time.Time{}
	}
	return deadline.Add(-min(reserve, time.Until(deadline)/2))
}

// withoutClient makes do with KrakenD's own request.
func withoutClient(request *http.Request) *http.Request {
	client := *request
	if hosts := request.Header["X-Forwarded-Host"]; len(hosts) == 1 {
		client.Host = hosts[0]
	}
	return &client
}

// toResponse makes net/http's response of the bridge's. Lines of one connection are left out; lines with the same name keep
// their order. finish is called when the body is closed.
func toResponse(message *bridge.Message, finish func()) (*http.Response, error) {
	status, header, length := 0, http.Header{}, int64(-1)
	for _, line := range message.Header {
		switch {
		case line.Name == ":status":
			status, _ = strconv.Atoi(line.Value)
		case connectionHeaders[line.Name] && line.Name != "proxy-authenticate":
		default:
			if line.Name == "content-length" {
				if value, err := strconv.ParseInt(line.Value, 10, 64); err == nil {
					length = value
				}
			}
			header.Add(line.Name, line.Value)
		}
	}
	if status < 200 || status > 999 {
		closeBody(message.Body)
		finish()
		return nil, fmt.Errorf("the module's answer has the status %d", status)
	}
	if message.Body == nil {
		finish()
		return newResponse(status, header, http.NoBody, 0), nil
	}
	body := &endingBody{ReadCloser: message.Body, end: finish}
	return newResponse(status, header, body, length), nil
}

// ServeHTTP answers a request as RoundTrip does, for KrakenD's plugins, which write into a recorder: an answer whose body
// breaks off would look whole there, so the body is read to its end first, and a broken one becomes a 503.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, request *http.Request, endpoint string) {
	response, err := g.RoundTrip(request.Context(), endpoint, request)
	if err != nil {
		response = g.problems.unavailable("the request was given up")
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		g.log(bridge.LevelWarn, Namespace+": "+endpoint+": the answer broke off: "+err.Error())
		response = g.problems.cutOff()
		body, err = io.ReadAll(response.Body)
		_ = errors.Join(err, response.Body.Close())
	}
	Write(w, response, body)
}

// Write writes a response whose body has been read.
func Write(w http.ResponseWriter, response *http.Response, body []byte) {
	for name, values := range response.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(response.StatusCode)
	_, _ = w.Write(body)
}
