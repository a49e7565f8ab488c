package bridge

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
)

// The sizes of the pieces in which a paused body is shown to the guest.
const (
	firstPiece = 4 << 10
	pieceSize  = 32 << 10
)

var pieces = sync.Pool{New: func() any { return new([pieceSize]byte) }}

// errCutOff is what a reader of a body gets if the stream has ended before the body.
var errCutOff = errors.New("the stream has ended before the body: the module's instance was closed, the other side has " +
	"broken off, or the gateway has ended the request")

// inlet is where a message comes from.
type inlet struct {
	body    io.ReadCloser
	trailer func() Header
	pump    *pump
}

func newInlet(m *Message) inlet {
	if m.Body == nil || m.Body == http.NoBody {
		return inlet{}
	}
	return inlet{body: m.Body, trailer: m.Trailer}
}

// trailers gives a copy of the trailers of a body that has ended.
func (i *inlet) trailers() Header {
	if i.trailer == nil {
		return nil
	}
	return i.trailer().own()
}

// piece is a part of a body, and the error that came with it or behind it.
type piece struct {
	bytes []byte
	err   error
}

// pump reads a body in a goroutine of its own. A request needs it while the guest holds the request back: then the answer can
// come from a call or a tick while the client sends nothing.
type pump struct {
	pieces  chan piece
	stopped chan struct{}
}

// startPump reads the body from now on.
func (i *inlet) startPump(b *Bridge) {
	i.pump = &pump{pieces: make(chan piece), stopped: make(chan struct{})}
	b.goroutines.Go(func() { i.pump.run(i.body) })
}

// run reads into two buffers in turn: whoever takes a piece is done with the one before.
func (p *pump) run(body io.Reader) {
	var buffers [2][]byte
	size := firstPiece
	for turn := 0; ; turn = 1 - turn {
		// A client that sends little at a time does not make the bridge keep large buffers.
		if len(buffers[turn]) < size {
			buffers[turn] = make([]byte, size)
		}
		n, err := body.Read(buffers[turn])
		if n == size {
			size = pieceSize
		}
		select {
		case p.pieces <- piece{buffers[turn][:n], err}:
		case <-p.stopped:
			return
		}
		if err != nil {
			return
		}
	}
}

// stop ends the pump as soon as its read returns.
func (i *inlet) stop() {
	if i.pump != nil {
		close(i.pump.stopped)
	}
}

// feedPumped shows the guest the next piece of a request that the pump reads, unless something else happens before it comes.
func (x *exchange) feedPumped(wake <-chan struct{}) {
	if x.request.pump == nil {
		x.request.startPump(x.bridge)
	}
	if p, ok := x.nextPumped(wake); ok {
		x.feed(toUpstream, p)
	}
}

func (x *exchange) nextPumped(wake <-chan struct{}) (piece, bool) {
	select {
	case p := <-x.request.pump.pieces:
		return p, true
	case <-wake:
	case <-x.ctx.Done():
		if !gone(x.ctx) {
			x.abandon("its body did not arrive within the gateway's deadline")
		}
	}
	return piece{}, false
}

// feedRead shows the guest the next piece of a response. The read ends with the context of the forwarded request.
func (x *exchange) feedRead() {
	buffer, ok := pieces.Get().(*[pieceSize]byte)
	if !ok {
		return
	}
	// The guest holds the headers back, so it gets a copy of the piece.
	n, err := x.response.body.Read(buffer[:])
	x.feed(toClient, piece{bytes.Clone(buffer[:n]), err})
	pieces.Put(buffer)
}

// feed shows a piece to the guest.
func (x *exchange) feed(d direction, p piece) {
	in := x.lock()
	defer in.mu.Unlock()
	x.feedTo(in, d, p)
}

func (x *exchange) feedTo(in *instance, d direction, p piece) {
	s := &x.stream
	if d == toUpstream {
		s.received += uint64(len(p.bytes))
	}
	switch {
	case !s.takes(d):
	case p.err == nil:
		if len(p.bytes) > 0 {
			in.bodyArrives(s, d, p.bytes, false)
		}
	case p.err != io.EOF:
		// The message has broken off. What has gone on already cannot be taken back.
		s.giveUp(x.causeOf(d, p.err))
	default:
		trailer := x.inlet(d).trailers()
		if len(trailer) == 0 {
			in.bodyArrives(s, d, p.bytes, true)
			return
		}
		if len(p.bytes) > 0 {
			in.bodyArrives(s, d, p.bytes, false)
		}
		in.trailersArrive(s, d, trailer)
	}
}

// causeOf says why a message with this error cannot go on: the client has sent a malformed body, unless its time was over.
func (x *exchange) causeOf(d direction, err error) Cause {
	if d == toClient || x.ctx.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, http.ErrBodyReadAfterClose) {
		return CauseBusy
	}
	return CauseBody
}

func (x *exchange) inlet(d direction) *inlet {
	if d == toUpstream {
		return &x.request
	}
	return &x.response
}

// outlet is a body whose message has passed the guest while the body still arrives. Each read shows the guest the next piece,
// and gives out what the guest lets go on.
type outlet struct {
	exchange  *exchange
	direction direction
	err       error
}

// Read implements io.Reader.
func (o *outlet) Read(p []byte) (int, error) {
	if o.err != nil || len(p) == 0 {
		return 0, o.err
	}
	x := o.exchange
	var next piece
	var cause error
	for arrived := false; ; {
		n, state, wake := o.step(p, next, arrived)
		switch {
		case state == outletDone:
			o.end(io.EOF)
			return n, o.err
		case n > 0:
			return n, nil
		case state == outletLost:
			o.end(errCutOff)
			if cause != nil && cause != io.EOF {
				o.err = fmt.Errorf("%w: %w", errCutOff, cause)
			}
			return 0, o.err
		case gone(x.ctx):
			o.end(x.clientGone())
			return 0, o.err
		}
		arrived = false
		switch {
		case state == outletPaused:
			x.await(o.direction, wake)
		case o.direction == toUpstream && x.request.pump != nil:
			next, arrived = x.nextPumped(wake)
		default:
			next.bytes = p
			n, err := x.inlet(o.direction).body.Read(p)
			next, arrived = piece{p[:n], err}, true
		}
		if arrived {
			cause = next.err
		}
	}
}

type outletState int

const (
	outletReading outletState = iota
	// outletPaused: everything has arrived, and the guest holds it back.
	outletPaused
	outletDone
	outletLost
)

// step shows the guest a piece, if one has arrived, and takes what has gone on.
func (o *outlet) step(p []byte, next piece, arrived bool) (int, outletState, <-chan struct{}) {
	s, d := &o.exchange.stream, o.direction
	side := s.side(d)
	in := o.exchange.lock()
	defer in.mu.Unlock()
	if arrived {
		o.exchange.feedTo(in, d, next)
	}
	n := side.take(p)
	switch {
	case side.complete && side.empty():
		return n, outletDone, nil
	case n > 0:
		return n, outletReading, nil
	case s.over(), d == toUpstream && s.replied:
		return 0, outletLost, nil
	case side.ended:
		return 0, outletPaused, side.waiter()
	}
	return 0, outletReading, side.waiter()
}

// end keeps the error for later reads. The end of a response's body is that of the stream.
func (o *outlet) end(err error) {
	o.err = err
	if o.direction == toClient {
		o.exchange.finish()
	}
}

// Close implements io.Closer. It ends the stream in the guest if the body is a response's.
func (o *outlet) Close() error {
	if o.direction == toClient {
		o.exchange.finish()
	}
	return nil
}
