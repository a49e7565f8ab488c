package bridge

import (
	"slices"
	"time"
)

// When an instance ends, its other streams move to another instance (docs/decisions/0024-replay.md): the guest is shown there
// what it has seen of the stream, makes its calls again, and has to decide as before. Only then does the stream go on.
// So nothing reaches a client that the guest has not seen, and nothing goes to the upstream twice.

// mostMoves bounds the instances that one stream can lose. Each move costs the time of a request.
const mostMoves = 8

// replayed says how far a replay came.
type replayed int

const (
	// replayDone: the stream goes on in the instance.
	replayDone replayed = iota
	// replayLost: the instance has ended meanwhile, and not because of this stream.
	replayLost
	// replayFailed: the guest decides otherwise or has trapped on this stream.
	replayFailed
)

// move gives the stream another instance in the place of one that has ended, or gives the stream up. It says whether the stream
// stays where it is, because it needs no instance.
func (x *exchange) move(dead *instance) bool {
	x.replaying.Lock()
	defer x.replaying.Unlock()
	s := &x.stream
	dead.mu.Lock()
	if x.in.Load() != dead {
		dead.mu.Unlock()
		return false
	}
	// If the answer is there, the guest has nothing to say any more.
	s.detached = s.detached || s.response.complete
	settled := s.settled()
	dead.mu.Unlock()
	if settled {
		return true
	}
	before := *s
	cause, again := CauseFault, false
	for result := replayLost; result == replayLost && before.canMove(); {
		before.moves++
		var in *instance
		if in, cause = x.bridge.enter(); in == nil {
			break
		}
		result = x.replay(in, &before)
		if result == replayDone {
			s.cancel = before.cancel
			x.bridge.moved.Add(1)
			x.in.Store(in)
			in.mu.Unlock()
			return false
		}
		cause = max(s.cause, CauseFault)
		if in.dead && !again {
			// Most calls that trap in a replay do so by what else the instance has seen.
			again, result = true, replayLost
		}
		x.bridge.recount(s, toUpstream, before.request.taken)
		x.bridge.recount(s, toClient, before.response.taken)
		s.request.taken, s.response.taken = 0, 0
		in.closeStream(s)
		in.mu.Unlock()
	}
	dead.mu.Lock()
	defer dead.mu.Unlock()
	*s = before
	x.bridge.log(LevelError, "edge-idempotency: a request cannot go on in another instance, so it is answered with 503")
	s.giveUp(cause)
	return true
}

// canMove says whether all that the guest has seen can be shown again.
func (s *stream) canMove() bool {
	request, response := &s.request, &s.response
	switch {
	case s.moves >= mostMoves, s.reset, s.replied:
		return false
	case request.changed, request.lost, request.hasTrailer, response.lost, response.hasTrailer:
		return false
	case response.changed && !response.passed, response.passed && response.kept != nil:
		return false
	}
	return true
}

// replay shows the guest in an instance, whose mutex is held, what it has seen of the stream. Only if the stream was forwarded
// and the guest waits for a call, the mutex is given up meanwhile.
func (x *exchange) replay(in *instance, before *stream) replayed {
	s := &x.stream
	*s = stream{
		metadata: s.metadata, routeMetadata: s.routeMetadata, sender: s.sender, verified: s.verified, isHead: s.isHead,
		moves: before.moves,
	}
	if !before.request.passed {
		s.request.wake = before.request.wake
	}
	s.response.wake = before.response.wake
	s.request.taken, s.response.taken = before.request.taken, before.response.taken
	x.show(in)
	request := &before.request
	held := request.held
	if request.passed {
		held = request.kept
	}
	if held.length() > 0 || request.endHeld || !request.passed && request.ended && x.request.body != nil {
		s.received = before.received
		x.showAgain(in, toUpstream, held, request.endHeld || !request.passed && request.ended)
	}
	if !request.passed {
		return x.replayResult(in)
	}
	if result := x.awaitReplay(in); result != replayDone {
		return result
	}
	if s.look(toUpstream) != passedOn || !slices.Equal(s.request.header, request.header) {
		return replayFailed
	}
	x.bridge.recount(s, toUpstream, request.taken)
	s.request, s.received = *request, before.received
	// The guest would take what follows for the beginning of the body.
	s.request.unseen = request.streamed
	if before.response.begun {
		return x.replayResponse(in, &before.response)
	}
	return x.replayResult(in)
}

// showAgain shows the guest a body that was held before.
func (x *exchange) showAgain(in *instance, d direction, held *heldBody, end bool) {
	s := &x.stream
	side := s.side(d)
	if !s.takes(d) {
		return
	}
	if !side.stopped {
		// It is a copy, which counts as one that arrives.
		in.bridge.release(s, d)
		in.bodyArrives(s, d, held.bytes(), end)
		return
	}
	side.held, side.holding, side.ended = held, true, end
	if side.held == nil {
		side.held = &heldBody{}
	}
	in.showBody(s, d, end)
}

// replayResponse shows the guest what it has seen of the response.
func (x *exchange) replayResponse(in *instance, response *side) replayed {
	s := &x.stream
	in.headersArrive(s, toClient, x.answered.own(), x.response.body == nil)
	if !response.passed {
		if response.held.length() > 0 || response.ended && x.response.body != nil {
			x.showAgain(in, toClient, response.held, response.ended)
		}
		return x.replayResult(in)
	}
	if s.look(toClient) != passedOn || !slices.Equal(s.response.header, response.header) {
		return replayFailed
	}
	if len(response.original) > 0 {
		in.bodyArrives(s, toClient, response.original, false)
	}
	if result := x.replayResult(in); result != replayDone {
		return result
	}
	if s.over() {
		return replayFailed
	}
	x.bridge.recount(s, toClient, response.taken)
	s.response = *response
	return replayDone
}

// replayResult says whether the guest has got over what it was shown.
func (x *exchange) replayResult(in *instance) replayed {
	switch s := &x.stream; {
	case s.failed:
		return replayFailed
	case in.dead:
		return replayLost
	default:
		s.request.notify()
		s.response.notify()
		return replayDone
	}
}

// awaitReplay waits until the guest has decided about a request again.
func (x *exchange) awaitReplay(in *instance) replayed {
	s := &x.stream
	timer := time.NewTimer(x.bridge.pauseLimit)
	defer timer.Stop()
	ctx := x.ctx
	if x.forwarding != nil {
		ctx = x.forwarding
	}
	for {
		if result := x.replayResult(in); result != replayDone || s.look(toUpstream) != waiting {
			return result
		}
		wake := s.request.waiter()
		in.mu.Unlock()
		late := causeNone
		select {
		case <-wake:
		case <-timer.C:
			late = CauseFault
		case <-ctx.Done():
			late = CauseBusy
		}
		in.mu.Lock()
		if late != causeNone {
			s.giveUp(late)
			return replayFailed
		}
	}
}
