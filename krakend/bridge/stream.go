package bridge

import "context"

// direction is that of a message.
type direction uint32

const (
	toUpstream direction = 0
	toClient   direction = 1
)

// side is one direction of a stream: what has arrived, what the guest holds back, and what has gone on.
type side struct {
	// header are the header lines; they can be read and changed by the guest while headersVisible.
	header  Header
	trailer Header
	// piece is the part of the body that the running callback is about. held is what the guest holds back; while holding, the
	// callbacks show all of it in place of the piece.
	piece []byte
	held  *heldBody
	// kept is what was held and has gone on. sent bytes of it were taken, and then comes out.
	kept *heldBody
	sent int
	// out is what has gone on from the guest, and nobody has taken yet.
	out []byte
	// taken is the memory of held and kept that counts towards the limit.
	taken int
	// wake is there while somebody waits for a change of this side.
	wake chan struct{}

	begun           bool
	headersVisible  bool
	trailersVisible bool
	hasTrailer      bool
	pieceVisible    bool
	holding         bool
	// ended says that the end has arrived with the headers or with the body.
	ended bool
	// stopped says that the guest holds the message back, unread that nothing of the body is shown to it until the message goes on.
	stopped bool
	unread  bool
	// passed says that the headers have gone on; complete, that everything has.
	passed   bool
	complete bool
}

// stream is one request with its response, as its context in the guest knows it. All members belong to the mutex of the
// instance.
type stream struct {
	id            uint32
	metadata      Metadata
	routeMetadata Metadata
	sender        string
	verified      bool
	request       side
	response      side
	// received is the number of bytes of the request that have arrived: names and values of headers, and body.
	received uint64
	record   []byte
	// cancel ends what the gateway does for this stream at the upstream, if it does anything.
	cancel context.CancelFunc

	isHead bool
	// replied says that the answer is a local reply.
	replied bool
	// reset says that nothing more can be sent.
	reset bool
	// failed says that the guest will not answer: its instance is gone, or nothing can resume the stream.
	failed bool
	// cause says why.
	cause   Cause
	logging bool
	closed  bool
}

func (s *stream) side(d direction) *side {
	if d == toUpstream {
		return &s.request
	}
	return &s.response
}

// over says that nothing that arrives matters any more.
func (s *stream) over() bool { return s.reset || s.failed || s.closed || s.response.complete }

// takes says whether messages of that direction still matter.
func (s *stream) takes(d direction) bool { return !s.over() && (d == toClient || !s.replied) }

// interrupt ends the exchange with the upstream, and wakes whoever waits for the stream.
func (s *stream) interrupt() {
	if s.cancel != nil {
		s.cancel()
	}
	s.request.notify()
	s.response.notify()
}

// giveUp gives the stream up: the bridge answers in place of the guest.
func (s *stream) giveUp(why Cause) {
	if !s.failed {
		s.failed, s.cause = true, why
	}
	s.interrupt()
}

// notify wakes who waits for a change of this side.
func (side *side) notify() {
	if side.wake == nil {
		return
	}
	select {
	case side.wake <- struct{}{}:
	default:
	}
}

// waiter gives the channel by which notify wakes.
func (side *side) waiter() chan struct{} {
	if side.wake == nil {
		side.wake = make(chan struct{}, 1)
	}
	return side.wake
}

// hide takes a message's maps and its piece of body out of the guest's sight.
func (side *side) hide() {
	side.headersVisible, side.trailersVisible, side.pieceVisible = false, false, false
}

// visibleLength is the length of the body that the guest sees.
func (side *side) visibleLength() int {
	switch {
	case side.holding:
		return side.held.length()
	case side.pieceVisible:
		return len(side.piece)
	}
	return 0
}

// copyVisible copies a part of the body that the guest sees.
func (side *side) copyVisible(to []byte, from int) {
	switch {
	case side.holding:
		side.held.copyTo(to, from)
	case side.pieceVisible && from < len(side.piece):
		copy(to, side.piece[from:])
	}
}

func (side *side) passHeaders(end bool) {
	side.passed, side.complete = true, end
	side.notify()
}

// passHeld lets what is held go on.
func (side *side) passHeld() {
	held := side.held
	side.held = nil
	if side.kept != nil && held != nil {
		// The guest has held the body twice.
		rest := make([]byte, side.kept.size-side.sent)
		side.kept.copyTo(rest, side.sent)
		side.kept, side.sent = nil, 0
		side.out = append(append(rest, side.out...), held.bytes()...)
	} else if held != nil {
		side.kept, side.sent = held, 0
	}
	side.complete = side.complete || side.ended && !side.hasTrailer
	side.notify()
}

// take copies what has gone on.
func (side *side) take(p []byte) int {
	n := side.kept.copyTo(p, side.sent)
	side.sent += n
	more := copy(p[n:], side.out)
	side.out = side.out[more:]
	return n + more
}

// empty says whether all that has gone on was taken.
func (side *side) empty() bool { return side.sent == side.kept.length() && len(side.out) == 0 }

// passBody lets a part of the body go on. The bytes belong to the stream until they are taken.
func (side *side) passBody(body []byte, end bool) {
	if len(side.out) == 0 {
		side.out = body
	} else {
		side.out = append(side.out, body...)
	}
	side.complete = side.complete || end
	side.notify()
}

func (side *side) passTrailers() {
	side.complete = true
	side.notify()
}

// localReply is an answer that is not the upstream's.
type localReply struct {
	status int
	header Header
	body   []byte
	// grpc is set for a client that uses gRPC: all of the reply is in its header.
	grpc bool
}
