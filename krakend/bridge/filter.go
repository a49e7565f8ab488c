package bridge

import (
	"net/http"
	"strconv"
)

// The order of callbacks is that of Envoy's filter manager with the wasm filter last before the router, and with
// allow_on_headers_stop_iteration: while headers are paused, the callbacks for the body come.

type answer int

const (
	answerContinue answer = iota
	answerPause
	// answerPauseReading: nothing of the body is shown before the message goes on.
	answerPauseReading
	// answerNothing: another answer is under way, so this part goes nowhere.
	answerNothing
)

type deferKind int

const (
	deferReply deferKind = iota
	deferContinue
	deferReset
)

// deferredAction is what the guest asked for and what happens when its callback has returned.
type deferredAction struct {
	stream    *stream
	kind      deferKind
	direction direction
	reply     *localReply
}

type callbackPart int

const (
	partHeaders callbackPart = iota
	partBody
	partTrailers
)

// headersArrive shows the headers of a message to the guest.
func (in *instance) headersArrive(s *stream, d direction, header Header, end bool) {
	side := s.side(d)
	side.begun, side.ended, side.header = true, end, header
	side.headersVisible = true
	switch in.ask(s, d, partHeaders, uint64(len(header)), flag(end)) {
	case answerContinue:
		side.headersVisible = false
		side.passHeaders(end)
	case answerPause:
		side.stopped = true
	case answerPauseReading:
		side.stopped, side.unread = true, true
	case answerNothing:
	}
}

// bodyArrives shows a piece of a body to the guest. The piece belongs to the caller again when it returns, unless the guest
// let it go on: then it is a part of side.out until that is taken.
func (in *instance) bodyArrives(s *stream, d direction, piece []byte, end bool) {
	side := s.side(d)
	if !s.takes(d) {
		return
	}
	side.ended = side.ended || end
	if side.holding {
		if in.tooLarge(s, d, len(piece)) || !in.hold(s, d, piece) {
			return
		}
	} else {
		side.piece = piece
	}
	in.showBody(s, d, end)
}

// showBody shows the guest what is held, or else the piece.
func (in *instance) showBody(s *stream, d direction, end bool) {
	side := s.side(d)
	side.pieceVisible = true
	switch in.ask(s, d, partBody, uint64(side.visibleLength()), flag(end)) {
	case answerContinue:
		side.holding, side.pieceVisible = false, false
		current := side.piece
		side.piece = nil
		if !side.stopped {
			side.passBody(current, end)
		} else if in.hold(s, d, current) {
			in.resume(s, d)
		}
	case answerPause, answerPauseReading:
		current := side.piece
		side.piece = nil
		side.holding, side.stopped = true, true
		if !in.tooLarge(s, d, len(current)) {
			in.hold(s, d, current)
		}
	case answerNothing:
		side.piece = nil
	}
}

// trailersArrive shows trailers to the guest. They end the message.
func (in *instance) trailersArrive(s *stream, d direction, trailer Header) {
	side := s.side(d)
	if !s.takes(d) {
		return
	}
	side.trailer, side.hasTrailer, side.trailersVisible, side.ended = trailer, true, true, true
	switch in.ask(s, d, partTrailers, uint64(len(trailer))) {
	case answerContinue:
		side.trailersVisible = false
		if side.stopped {
			in.resume(s, d)
		} else {
			side.passTrailers()
		}
	case answerPause, answerPauseReading:
		side.stopped = true
	case answerNothing:
	}
}

// resume lets go of what is held: headers, body, trailers.
func (in *instance) resume(s *stream, d direction) {
	side := s.side(d)
	if !s.takes(d) || !side.stopped {
		return
	}
	side.stopped, side.holding, side.unread = false, false, false
	end := side.ended && !side.hasTrailer
	if !side.passed {
		side.passHeaders(end && side.held.length() == 0)
	}
	side.passHeld()
	if side.hasTrailer && side.ended {
		side.passTrailers()
	}
}

func (in *instance) runDeferred(action deferredAction) {
	s := action.stream
	if s.closed {
		return
	}
	switch action.kind {
	case deferReply:
		in.reply(s, action.reply)
	case deferContinue:
		in.resume(s, action.direction)
	case deferReset:
		if !s.over() {
			s.reset = true
			s.interrupt()
		}
	}
}

// reply answers a stream locally. The reply passes the response callbacks unless a response was on its way through them
// already. When the client has its headers, nothing is left but a reset.
func (in *instance) reply(s *stream, reply *localReply) {
	if s.over() || s.replied {
		return
	}
	if s.response.passed {
		s.reset = true
		s.interrupt()
		return
	}
	s.replied = true
	begun := s.response.begun
	header, body := reply.message()
	if s.isHead {
		body = nil
	}
	s.request.held, s.request.piece = nil, nil
	if s.request.kept == nil {
		in.bridge.release(s, toUpstream)
	}
	if begun {
		side := &s.response
		side.hide()
		side.header, side.held, side.trailer, side.hasTrailer = header, nil, nil, false
		in.bridge.release(s, toClient)
		side.passHeaders(true)
		side.passBody(body, true)
	} else {
		in.headersArrive(s, toClient, header, len(body) == 0)
		if len(body) > 0 && s.takes(toClient) {
			in.bodyArrives(s, toClient, body, true)
		}
	}
	s.interrupt()
}

// message makes the response of a local reply: a body gets its length, and a type if it has none. Without a body both go,
// but for the type of a reply to a client that uses gRPC.
func (r *localReply) message() (Header, []byte) {
	header := make(Header, 0, len(r.header)+4)
	header = append(header, Line{":status", strconv.Itoa(r.status)})
	for _, line := range r.header {
		if line.Name != ":status" {
			header.add(line.Name, line.Value)
		}
	}
	if len(r.body) == 0 {
		header.remove([]byte("content-length"))
		if !r.grpc {
			header.remove([]byte("content-type"))
		}
		return header, nil
	}
	header.set("content-length", strconv.Itoa(len(r.body)))
	if _, ok := header.Get("content-type"); !ok {
		header.add("content-type", "text/plain")
	}
	return header, r.body
}

// gatewayReply is a local reply of the gateway's own, in the form that Envoy gives it.
func gatewayReply(status int, body string) *localReply {
	return &localReply{status: status, body: []byte(body)}
}

// tooLarge answers a stream whose paused body has with the next piece more bytes than the bridge keeps.
func (in *instance) tooLarge(s *stream, d direction, more int) bool {
	options := &in.bridge.options
	length := s.side(d).held.length() + more
	switch {
	case d == toUpstream && length > options.RequestBuffer:
		in.reply(s, gatewayReply(http.StatusRequestEntityTooLarge, "Payload Too Large"))
	case d == toClient && length > options.ResponseBuffer:
		in.reply(s, gatewayReply(http.StatusInternalServerError, "Internal Server Error"))
	default:
		return false
	}
	return true
}

// stopAllIteration is StopAllIterationAndWatermark of FilterHeadersStatus in the C++ SDK: the ABI has no number for it.
const stopAllIteration = 4

// ask asks the guest about a part of a message.
func (in *instance) ask(s *stream, d direction, part callbackPart, arguments ...uint64) answer {
	function := &in.parts[d][part]
	var returned uint64
	alive := true
	switch {
	case !function.exported():
	case len(arguments) == 1:
		returned, alive = in.callback(function, s, uint64(s.id), arguments[0])
	default:
		returned, alive = in.callback(function, s, uint64(s.id), arguments[0], arguments[1])
	}
	switch {
	case !alive, !s.takes(d):
		// The instance is gone, or the stream was answered meanwhile, so it does not matter what the callback returned.
		return answerNothing
	case uint32(returned) == 0:
		return answerContinue
	case uint32(returned) == stopAllIteration && part == partHeaders:
		return answerPauseReading
	}
	return answerPause
}

func flag(value bool) uint64 {
	if value {
		return 1
	}
	return 0
}
