package bridge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"time"
)

// maxReplyBody is the most that the bridge takes of the body of a reply. The module reads 64 KiB. As in Envoy a longer reply is
// a call that failed.
const maxReplyBody = 1 << 20

// call is an HTTP call of the guest.
type call struct {
	// context gets the reply.
	context uint32
	cancel  context.CancelFunc
}

// callReply is what the guest can read while the callback for a reply runs. A call that failed has no header.
type callReply struct {
	header  Header
	body    []byte
	trailer Header
}

func hostHTTPCall(in *instance, a []uint64) status {
	cluster, okCluster := in.text(a[0], a[1])
	rawHeader, okHeader := in.bytes(a[2], a[3])
	rawBody, okBody := in.bytes(a[4], a[5])
	rawTrailer, okTrailer := in.bytes(a[6], a[7])
	if !okCluster || !okHeader || !okBody || !okTrailer {
		return statusInvalidMemoryAccess
	}
	header, okHeader := readPairs(rawHeader)
	trailer, okTrailer := readPairs(rawTrailer)
	upstream := in.bridge.options.Upstreams[cluster]
	milliseconds := uint32(a[8])
	if !okHeader || !okTrailer || upstream == nil || int32(milliseconds) < 0 || !validHeader(header) || !validHeader(trailer) {
		return statusBadArgument
	}
	request, err := callRequest(cluster, header, bytes.Clone(rawBody), trailer)
	if err != nil {
		return statusBadArgument
	}
	in.lastToken++
	if s := in.writeUint32(a[9], in.lastToken); s != statusOK {
		return s
	}
	in.startCallTo(upstream, request, time.Duration(milliseconds)*time.Millisecond)
	return statusOK
}

// callRequest makes the request of a call. The upstream's RoundTripper puts its own scheme and address into the URL.
func callRequest(cluster string, header Header, body []byte, trailer Header) (*http.Request, error) {
	method, okMethod := header.Get(":method")
	path, okPath := header.Get(":path")
	authority, okAuthority := header.Get(":authority")
	if !okMethod || !okPath || !okAuthority {
		return nil, errors.New("a call needs :method, :path and :authority")
	}
	target, err := url.ParseRequestURI(path)
	if err != nil || !strings.HasPrefix(path, "/") {
		return nil, errors.New("the :path of a call is not a path")
	}
	target.Scheme, target.Host = "http", cluster
	if scheme, ok := header.Get(":scheme"); ok {
		target.Scheme = scheme
	}
	request, err := http.NewRequest(method, target.String(), bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("the call is no HTTP request: %w", err)
	}
	request.URL, request.Host = target, authority
	for _, line := range header {
		if !strings.HasPrefix(line.Name, ":") && line.Name != "content-length" {
			request.Header.Add(line.Name, line.Value)
		}
	}
	if len(body) == 0 {
		request.Body, request.GetBody, request.ContentLength = nil, nil, 0
	}
	if len(trailer) > 0 {
		request.Trailer = http.Header{}
		for _, line := range trailer {
			request.Trailer.Add(line.Name, line.Value)
		}
		request.ContentLength = -1
	}
	return request, nil
}

// startCallTo sends a call in a goroutine of its own. No timeout is the duration 0.
func (in *instance) startCallTo(upstream http.RoundTripper, request *http.Request, timeout time.Duration) {
	if timeout == 0 {
		timeout = math.MaxInt64
	}
	ctx, cancel := context.WithTimeout(in.bridge.ctx, timeout)
	token, made := in.lastToken, &call{context: in.effective, cancel: cancel}
	in.calls[token] = made
	in.bridge.calls.Add(1)
	in.bridge.goroutines.Go(func() {
		defer in.bridge.calls.Add(-1)
		defer cancel()
		in.deliver(token, carryOut(ctx, upstream, request))
	})
}

// carryOut sends a request and reads its reply. As in Envoy a timeout is a reply with the status 504, and a call that failed
// has no header lines.
func carryOut(ctx context.Context, upstream http.RoundTripper, request *http.Request) *callReply {
	reply, err := roundTrip(upstream, request.WithContext(ctx))
	switch {
	case err == nil:
		return reply
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		header, body := gatewayReply(http.StatusGatewayTimeout, "upstream request timeout").message()
		return &callReply{header: header, body: body}
	}
	return &callReply{}
}

func roundTrip(upstream http.RoundTripper, request *http.Request) (*callReply, error) {
	response, err := upstream.RoundTrip(request)
	if err != nil {
		return nil, fmt.Errorf("the upstream cannot be reached: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxReplyBody+1))
	if err != nil {
		return nil, fmt.Errorf("the reply is not complete: %w", err)
	}
	if len(body) > maxReplyBody {
		return nil, fmt.Errorf("the reply has more than %d bytes", maxReplyBody)
	}
	reply := &callReply{header: Header{{":status", strconv.Itoa(response.StatusCode)}}, body: body}
	reply.header = append(reply.header, HeaderFrom(response.Header)...)
	reply.trailer = HeaderFrom(response.Trailer)
	return reply, nil
}

// HeaderFrom gives the lines of an http.Header: names in lower case and in alphabetical order, the lines of a name in theirs.
func HeaderFrom(header http.Header) Header {
	names := make([]string, 0, len(header))
	for name := range header {
		names = append(names, name)
	}
	sort.Strings(names)
	lines := make(Header, 0, len(header))
	for _, name := range names {
		for _, value := range header[name] {
			lines = append(lines, Line{lower(name), value})
		}
	}
	return lines
}

// deliver gives the guest the reply to a call. The reply to a context that has ended is dropped.
func (in *instance) deliver(token uint32, reply *callReply) {
	in.mu.Lock()
	defer in.mu.Unlock()
	call := in.calls[token]
	delete(in.calls, token)
	if call == nil || in.dead {
		return
	}
	s := in.streams[call.context]
	if call.context == rootContext || s != nil {
		in.delivering = reply
		in.callback(&in.onReply, s, uint64(call.context), uint64(token),
			uint64(len(reply.header)), uint64(len(reply.body)), uint64(len(reply.trailer)))
		in.delivering = nil
	}
	if len(in.calls) == 0 {
		// Streams that waited for this call and were not resumed have to find out.
		for _, s := range in.streams {
			s.request.notify()
			s.response.notify()
		}
	}
}
