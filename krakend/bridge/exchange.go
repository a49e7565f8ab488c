package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// exchange is the work on one request in the gateway: it feeds the guest, forwards the request, and gives the response out.
type exchange struct {
	bridge *Bridge
	ctx    context.Context
	stream stream
	// in is the instance that has the stream; nil before the stream is open.
	in       *instance
	request  inlet
	response inlet
	once     sync.Once
	// header are the lines of the request as they came.
	header Header
	// stop ends the forwarded request; nil before there is one.
	stop context.CancelFunc
}

// lock gives the instance of the stream, with its mutex. It can have ended: then the stream is over. Goroutines of the exchange touch
// the stream with this mutex only.
func (x *exchange) lock() *instance {
	x.in.mu.Lock()
	return x.in
}

// state is how far one side of a stream is.
type state int

const (
	// waiting: the guest holds the message back.
	waiting state = iota
	// passedOn: the headers have gone on.
	passedOn
	// replied: a local reply takes the place of the request.
	replied
	// lost: the guest will not answer.
	lost
)

// Exchange lets one request and its response pass the module. It calls f if the module lets the request through. The caller
// owns r.Body and closes it after Exchange, and closes the returned Body, which ends the stream in the guest. The guest does
// not change r.Header.
//
// A stream whose instance traps or takes too long is answered with the problem document internal_error (503), and so is a pause that
// nothing can end. One that lasts beyond the deadline of ctx is answered with dependency_unavailable (503). The only error is that of a ctx that was canceled: then the client is gone.
func (b *Bridge) Exchange(ctx context.Context, r *Request, f Forward) (*Message, error) {
	x := newExchange(ctx, b, r)
	if gone(ctx) {
		return nil, x.clientGone()
	}
	if !x.open() {
		return x.unavailable(), nil
	}
	message, err := x.run(f)
	if err != nil {
		x.finish()
		return nil, err
	}
	if _, open := message.Body.(*outlet); !open {
		x.finish()
	}
	return message, nil
}

func newExchange(ctx context.Context, b *Bridge, r *Request) *exchange {
	x := &exchange{bridge: b, ctx: ctx, header: r.Header, request: newInlet(&r.Message)}
	method, _ := r.Header.Get(":method")
	x.stream = stream{
		metadata: r.Metadata, routeMetadata: r.RouteMetadata, sender: r.Sender, verified: r.Verified, isHead: method == http.MethodHead,
	}
	return x
}

// gone says that the client does not wait any more. A deadline of the gateway is not that.
func gone(ctx context.Context) bool { return errors.Is(ctx.Err(), context.Canceled) }

func (x *exchange) clientGone() error {
	return fmt.Errorf("the client has gone: %w", context.Cause(x.ctx))
}

// open opens the stream in an instance and shows the guest the request's headers.
func (x *exchange) open() bool {
	in, cause := x.bridge.enter()
	if in == nil {
		x.stream.giveUp(cause)
		return false
	}
	defer in.mu.Unlock()
	s, own := &x.stream, x.header.own()
	s.received = uint64(own.size())
	x.in = in
	in.newStream(s)
	if !in.dead {
		in.headersArrive(s, toUpstream, own, x.request.body == nil)
	}
	return true
}

// enter picks an instance and gives it with its mutex, or says why there is none.
func (b *Bridge) enter() (*instance, Cause) {
	const attempts = 4
	for range attempts {
		in, err := b.pick()
		if err != nil && b.closed.Load() {
			return nil, CauseBusy
		}
		if err != nil {
			break
		}
		in.open.Add(1)
		in.mu.Lock()
		if !in.dead {
			return in, causeNone
		}
		in.open.Add(-1)
		in.mu.Unlock()
	}
	return nil, CauseFault
}

func (x *exchange) run(f Forward) (*Message, error) {
	state, err := x.settle(toUpstream)
	if err != nil {
		return nil, err
	}
	if state == passedOn {
		if err := x.forward(f); err != nil {
			return nil, err
		}
	}
	if state != lost {
		if state, err = x.settle(toClient); err != nil {
			return nil, err
		}
	}
	if state == lost {
		return x.unavailable(), nil
	}
	return x.message(toClient), nil
}

// forward sends the request, and shows the guest the response's headers.
func (x *exchange) forward(f Forward) error {
	s := &x.stream
	forwarding, stop := context.WithCancel(x.ctx)
	x.stop = stop
	in := x.lock()
	s.cancel = x.stop
	stopped := s.over() || s.replied
	in.mu.Unlock()
	if stopped {
		x.stop()
		return nil
	}
	response, err := f(forwarding, x.message(toUpstream))
	if err == nil && response == nil {
		err = errors.New("there is no response")
	}
	if response != nil {
		x.response = newInlet(response)
	}
	in = x.lock()
	defer in.mu.Unlock()
	switch {
	case gone(x.ctx):
		return x.clientGone()
	case s.over() || s.replied:
	case errors.Is(err, context.DeadlineExceeded):
		in.reply(s, gatewayReply(http.StatusGatewayTimeout, "upstream request timeout"))
	case err != nil:
		x.bridge.log(LevelWarn, fmt.Sprintf("edge-idempotency: the upstream gave no answer, so the request is answered with 503: %v", err))
		in.reply(s, gatewayReply(http.StatusServiceUnavailable, "upstream connect error or disconnect/reset before headers"))
	default:
		in.headersArrive(s, toClient, response.Header.own(), x.response.body == nil)
	}
	return nil
}

// look gives the state of a side; with the mutex.
func (s *stream) look(d direction) state {
	side := s.side(d)
	switch {
	case s.failed || s.reset || s.closed:
		return lost
	case d == toUpstream && s.replied:
		return replied
	case d == toClient && s.replied && !side.complete:
		return waiting
	case side.passed:
		return passedOn
	}
	return waiting
}

// settle feeds the guest with a message, until its headers have gone on or it is clear that they will not.
func (x *exchange) settle(d direction) (state, error) {
	s := &x.stream
	side := s.side(d)
	for {
		in := x.lock()
		state := s.look(d)
		if state != waiting {
			in.mu.Unlock()
			return state, nil
		}
		wake := side.waiter()
		ended := side.ended || side.unread || d == toClient && s.replied
		in.mu.Unlock()
		switch {
		case ended:
			x.await(d, wake)
		case d == toUpstream:
			x.feedPumped(wake)
		default:
			x.feedRead()
		}
		if gone(x.ctx) {
			return lost, x.clientGone()
		}
	}
}

// await waits until something happens to a side that is paused, and of which nothing is read meanwhile. If nothing can happen any more, it
// gives the stream up.
func (x *exchange) await(d direction, wake <-chan struct{}) {
	limit := x.bridge.pauseLimit
	select {
	case <-wake:
		return
	default:
	}
	if x.giveUp(d, 0) {
		return
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case <-wake:
			return
		case <-x.ctx.Done():
			if !gone(x.ctx) {
				x.abandon("it was paused beyond the gateway's deadline")
			}
			return
		case <-timer.C:
			if x.giveUp(d, limit) {
				return
			}
			timer.Reset(limit)
		}
	}
}

// giveUp gives the stream up if neither a call nor, within the limit, a tick can resume it. It says whether there is nothing
// to wait for.
func (x *exchange) giveUp(d direction, waited time.Duration) bool {
	s := &x.stream
	in := x.lock()
	defer in.mu.Unlock()
	side := s.side(d)
	switch {
	case s.over(), !side.stopped:
		return true
	case len(in.calls) > 0, in.tickPeriod > 0 && waited < x.bridge.pauseLimit:
		return false
	}
	x.bridge.log(LevelError, "edge-idempotency: the module has paused a request that nothing can resume, so it is answered with 503")
	s.giveUp(CauseFault)
	return true
}

func (x *exchange) abandon(why string) {
	in := x.lock()
	defer in.mu.Unlock()
	x.bridge.log(LevelWarn, "edge-idempotency: a request is answered with 503: "+why)
	x.stream.giveUp(CauseBusy)
}

// message gives a message whose headers have gone on.
func (x *exchange) message(d direction) *Message {
	s := &x.stream
	side := s.side(d)
	in := x.lock()
	defer in.mu.Unlock()
	message := &Message{Header: side.header}
	if side.headersVisible || in.onLog.exported() {
		// The guest can read the lines later.
		message.Header = append(Header(nil), side.header...)
	}
	if !side.complete {
		message.Body = &outlet{exchange: x, direction: d}
		message.Trailer = func() Header { return x.passedTrailer(d) }
		return message
	}
	// Everything has gone on already, so the body needs the guest no more.
	if trailer := side.trailer; side.hasTrailer && len(trailer) > 0 {
		message.Trailer = func() Header { return trailer }
	}
	if side.kept.length() > 0 || len(side.out) > 0 || message.Trailer != nil {
		body := &wholeBody{held: side.kept, rest: side.out}
		if d == toClient {
			// The client reads it after the stream has ended.
			body.room, body.sender = x.bridge.roomOf(s, d), s.sender
			body.taken.Store(int64(side.taken))
			side.taken = 0
		}
		message.Body = body
	}
	side.sent, side.out = side.kept.length(), nil
	return message
}

func (x *exchange) passedTrailer(d direction) Header {
	s := &x.stream
	in := x.lock()
	defer in.mu.Unlock()
	if side := s.side(d); side.complete && side.hasTrailer {
		return side.trailer
	}
	return nil
}

// finish ends the stream in the guest, and everything that belongs to the exchange.
func (x *exchange) finish() {
	x.once.Do(func() {
		s := &x.stream
		x.request.stop()
		if x.stop != nil {
			x.stop()
		}
		in := x.lock()
		in.closeStream(s)
		record := s.record
		in.mu.Unlock()
		if x.response.body != nil {
			// Whether the upstream's connection can be used again does not matter here.
			_ = x.response.body.Close()
		}
		x.tell(record)
	})
}

// tell gives the record of the request to whoever keeps records.
func (x *exchange) tell(record []byte) {
	if x.bridge.options.Record == nil || record == nil {
		return
	}
	text, err := recordJSON(record)
	if err != nil {
		x.bridge.log(LevelError, "edge-idempotency: "+err.Error())
		return
	}
	x.bridge.options.Record(text)
}

// cause says why the module cannot answer.
func (x *exchange) cause() Cause {
	if x.in != nil {
		defer x.lock().mu.Unlock()
	}
	if x.stream.cause == causeNone { // The module has reset the stream.
		return CauseBusy
	}
	return x.stream.cause
}

// unavailable is the answer of the bridge where the module cannot answer.
func (x *exchange) unavailable() *Message {
	cause := x.cause()
	x.bridge.unanswered[cause].Add(1)
	answer := x.bridge.options.Unavailable
	if answer == nil {
		answer = unavailable
	}
	message := answer(cause)
	message.InPlace = true
	if x.stream.isHead {
		message.Body = nil
	}
	return message
}

// unavailable is a problem document.
func unavailable(cause Cause) *Message {
	const (
		again = ` Send the same request again later, with the same idempotency key if it had one: then nothing is done twice.`
		busy  = `{"type":"about:blank","title":"Temporarily unavailable","status":503,"detail":"The service cannot be reached right ` +
			`now, or is busy.` + again + `","code":"dependency_unavailable","retry":"same_key"}`
		broken = `{"type":"about:blank","title":"Internal error","status":503,"detail":"The gateway has failed to handle the request.` +
			again + `","code":"internal_error","retry":"same_key"}`
		malformed = `{"type":"about:blank","title":"Request invalid","status":400,"detail":"The request's body is malformed or ` +
			`incomplete.","code":"request_invalid","retry":"never"}`
	)
	status, document, advice := "503", busy, Header{{"retry-after", "5"}, {"idempotency-retry", "same_key"}}
	switch cause {
	case CauseFault:
		document = broken
	case CauseBody:
		status, document, advice = "400", malformed, Header{{"idempotency-retry", "never"}}
	}
	header := Header{
		{":status", status},
		{"content-type", "application/problem+json"},
		{"cache-control", "no-store"},
		{"content-language", "en"},
		{"content-length", strconv.Itoa(len(document))},
	}
	return &Message{Header: append(header, advice...), Body: io.NopCloser(strings.NewReader(document))}
}
