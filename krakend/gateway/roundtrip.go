package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"edge-idempotency/krakend/bridge"
)

// reserve is how long before the end of the endpoint's time the gateway answers: at the end KrakenD answers an empty 500.
const reserve = 50 * time.Millisecond

// RoundTrip answers one request of an endpoint that is bound to this name. ctx and request are those that KrakenD gives to
// an executor. The caller closes the body of the response. An error says that the client is gone.
//
// KrakenD's deadline, which ctx has, is kept by 50 ms: a request that was forwarded by then is answered 504, which passes the
// module as an answer of the upstream does, and any other 503. If the upstream breaks the response's body off, or the
// deadline comes, its Read returns an error and the client's connection is ended.
func (g *Gateway) RoundTrip(ctx context.Context, endpoint string, request *http.Request) (*http.Response, error) {
	response, from, rest, err := g.roundTrip(ctx, endpoint, request)
	if rest != bodyDone && response != nil {
		from.leaveBody(request, response)
	}
	if response != nil && response.Body != http.NoBody {
		body := &cutBody{ReadCloser: response.Body, cut: from.breakOff}
		// KrakenD does not close the body of an answer that comes when ctx has ended.
		body.unwatch = context.AfterFunc(ctx, func() { _ = body.end() })
		response.Body = body
	}
	return response, err
}

// cutBody calls a function when somebody reads it and it does not come to its end.
type cutBody struct {
	io.ReadCloser
	cut     func()
	unwatch func() bool
	closed  atomic.Bool
}

// errClosed is the error of a body that is closed before its end: KrakenD closes it at the endpoint's timeout.
var errClosed = errors.New("the response's body was closed before its end")

// Read reads the body.
func (b *cutBody) Read(into []byte) (int, error) {
	count, err := b.ReadCloser.Read(into)
	if b.closed.Load() {
		err = errClosed
	}
	if err != nil && err != io.EOF {
		b.cut()
	}
	return count, err
}

// Close closes the body.
func (b *cutBody) Close() error {
	b.unwatch()
	return b.end()
}

// end closes the body once.
func (b *cutBody) end() error {
	if b.closed.Swap(true) {
		return nil
	}
	return b.ReadCloser.Close()
}

// unread says whether somebody still waits for the client's body when the answer is there.
type unread int

const (
	bodyDone unread = iota
	// bodyRefused: the bridge has answered in place of the module.
	bodyRefused
	// bodyStalled: the deadline has come.
	bodyStalled
)

// roundTrip answers a request.
func (g *Gateway) roundTrip(ctx context.Context, endpoint string, request *http.Request) (answer *http.Response, from client, rest unread, err error) {
	b := g.bindings[endpoint]
	if b == nil {
		return g.problems.misconfigured(), client{}, bodyDone, nil
	}
	from, ok := clientOf(ctx)
	if !ok {
		g.fallback.Do(func() {
			g.log(bridge.LevelWarn, Namespace+": the context has no request of gin's, so only what input_headers lists is known, and nobody has an identity: path and query come as KrakenD writes them, and the scheme is taken to be http")
		})
		from.request = withoutClient(request)
	}
	from.request = withKeys(from.request)
	if !b.serves(authority(from.request.Host)) {
		return g.problems.notFound(), from, bodyDone, nil
	}
	path, clear := rawPath(from.request)
	if !clear {
		return g.problems.pathAmbiguous(), from, bodyDone, nil
	}
	v := newView(request, from.request, passQuery(path, request.URL), b)
	if ok {
		// Whose request it is was verified, if at all, for a request that came through KrakenD's router.
		v.request.Metadata = b.identity.metadata(from.request)
	}
	if v.request.Verified = v.request.Metadata != nil; v.request.Verified {
		v.request.Sender = b.identity.sender(v.request.Metadata)
	} else {
		// The path of a webhook has its id.
		v.request.Sender, _, _ = strings.Cut(path, "?")
	}
	// gin uses its contexts again, so nothing that outlives this call may read the values of ctx. What the context of the
	// exchange says by itself: at its deadline the module answers, and when it is canceled the client is gone.
	inner, cancel := untilReserve(ctx)
	inner, forget := g.withTrace(inner, ctx)
	unwatch := context.AfterFunc(ctx, func() {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) { // inner has a deadline of its own for that.
			cancel()
		}
	})
	g.requests.begin()
	finish := sync.OnceFunc(func() { unwatch(); cancel(); forget(); g.requests.end() })
	message, err := g.bridge.Exchange(inner, &v.request, func(ctx context.Context, message *bridge.Message) (*bridge.Message, error) {
		return b.upstream.send(ctx, message, v.unlisted, g.owned)
	})
	if v.body != nil && v.body.reading.Load() {
		switch {
		case errors.Is(inner.Err(), context.DeadlineExceeded):
			rest = bodyStalled
		case err == nil && message.InPlace:
			rest = bodyRefused
		}
	}
	if err != nil {
		finish()
		return nil, from, rest, err
	}
	answer, err = toResponse(message, finish)
	return answer, from, rest, err
}

// untilReserve makes a context without values that ends before ctx's deadline, if ctx has one.
func untilReserve(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(context.Background())
	}
	return context.WithDeadline(context.Background(), deadline.Add(-min(reserve, time.Until(deadline)/2)))
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
	response, from, rest, err := g.roundTrip(request.Context(), endpoint, request)
	if rest == bodyStalled {
		from.stopReading()
	}
	if err != nil {
		response = g.problems.unavailable("The request was given up.")
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
