package bridge

import (
	"io"
	"sync"
	"sync/atomic"
)

// heldBody is a body that the guest holds back, or has held back: each byte is kept once. Nobody changes a body that has gone on.
type heldBody struct {
	chunks [][]byte
	size   int
}

// add copies a piece behind what is there, and returns how much memory that took. Chunks double up to pieceSize, so a body that
// comes in small pieces takes at most twice its size, and a long one pieceSize more than its size.
func (h *heldBody) add(piece []byte) int {
	if last := len(h.chunks) - 1; last >= 0 {
		chunk := h.chunks[last]
		n := min(cap(chunk)-len(chunk), len(piece))
		h.chunks[last] = append(chunk, piece[:n]...)
		h.size += n
		piece = piece[n:]
	}
	if len(piece) == 0 {
		return 0
	}
	chunk := make([]byte, 0, max(len(piece), min(h.size, pieceSize)))
	h.chunks = append(h.chunks, append(chunk, piece...))
	h.size += len(piece)
	return cap(chunk)
}

// length is the number of bytes of a body that may be nil.
func (h *heldBody) length() int {
	if h == nil {
		return 0
	}
	return h.size
}

// copyTo copies from a position on, and returns how much it copied.
func (h *heldBody) copyTo(to []byte, from int) int {
	if h == nil {
		return 0
	}
	copied := 0
	for _, chunk := range h.chunks {
		if from >= len(chunk) {
			from -= len(chunk)
			continue
		}
		n := copy(to[copied:], chunk[from:])
		copied, from = copied+n, 0
		if copied == len(to) {
			break
		}
	}
	return copied
}

// bytes is a copy of all that is there.
func (h *heldBody) bytes() []byte {
	all := make([]byte, h.length())
	h.copyTo(all, 0)
	return all
}

// wholeBody reads a body that has gone on as a whole: what was held, and what came behind it.
type wholeBody struct {
	held *heldBody
	rest []byte
	at   int
	// taken is what Close gives back to the room, if there is one.
	taken  atomic.Int64
	room   *room
	sender string
}

// Read implements io.Reader.
func (w *wholeBody) Read(p []byte) (int, error) {
	n := w.held.copyTo(p, w.at)
	if behind := w.at + n - w.held.length(); behind >= 0 && behind < len(w.rest) {
		n += copy(p[n:], w.rest[behind:])
	}
	w.at += n
	if n == 0 && len(p) > 0 {
		return 0, io.EOF
	}
	return n, nil
}

// WriteTo implements io.WriterTo, which tells the gateway that the body is in memory.
func (w *wholeBody) WriteTo(to io.Writer) (int64, error) {
	return io.Copy(to, struct{ io.Reader }{w})
}

// Close implements io.Closer.
func (w *wholeBody) Close() error {
	if w.room != nil {
		w.room.giveBack(w.sender, int(w.taken.Swap(0)))
	}
	return nil
}

// room is the memory for the bodies of one kind that are held at a time. Senders share it as the module's own memory for requests
// that wait (crates/engine/src/memory.rs): while more than half of it is used, each gets a sixteenth at most, or one body.
type room struct {
	mu    sync.Mutex
	limit int
	// most is what the longest body takes.
	most    int
	used    int
	senders map[string]int
}

const shares = 16

// mostTaken is the most memory that a body of this length takes.
func mostTaken(length int) int { return length + pieceSize }

// LeastHeldBodies is the least value of Options.HeldBodies with which the longest body finds room if it is alone.
func LeastHeldBodies(longest int) int { return 3 * mostTaken(longest) }

// take takes bytes for a sender. causeNone: they are taken, and the caller gives them back.
func (r *room) take(sender string, bytes int) Cause {
	r.mu.Lock()
	defer r.mu.Unlock()
	used, own := r.used+bytes, r.senders[sender]+bytes
	switch {
	case used > r.limit:
		return CauseFull
	case used > r.limit/2 && own > max(r.limit/shares, r.most):
		return CauseShare
	}
	r.set(sender, used, own)
	return causeNone
}

// force takes bytes that are there already.
func (r *room) force(sender string, bytes int) { r.giveBack(sender, -bytes) }

func (r *room) giveBack(sender string, bytes int) {
	if bytes == 0 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.set(sender, r.used-bytes, r.senders[sender]-bytes)
}

func (r *room) set(sender string, used, own int) {
	r.used = used
	if own == 0 {
		delete(r.senders, sender)
		return
	}
	if r.senders == nil {
		r.senders = map[string]int{}
	}
	r.senders[sender] = own
}

func (r *room) inUse() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

// roomOf is the room for a side of a stream.
func (b *Bridge) roomOf(s *stream, d direction) *room {
	switch {
	case d == toClient:
		return &b.answers
	case s.verified:
		return &b.verified
	}
	return &b.unverified
}

// hold keeps a piece of a body that the guest holds back. If there is no memory for it, the stream is given up.
func (in *instance) hold(s *stream, d direction, piece []byte) bool {
	side := s.side(d)
	if len(piece) == 0 {
		return true
	}
	if side.held == nil {
		side.held = &heldBody{}
	}
	took := side.held.add(piece)
	cause := in.bridge.roomOf(s, d).take(s.sender, took)
	if cause == causeNone {
		side.taken += took
		return true
	}
	side.held = nil
	in.bridge.release(s, d)
	s.giveUp(cause)
	return false
}

// replaceHeld puts another body, which the guest has made, in the place of what is held.
func (in *instance) replaceHeld(s *stream, d direction, body []byte) {
	in.bridge.release(s, d)
	side := s.side(d)
	side.held, side.taken = &heldBody{chunks: [][]byte{body}, size: len(body)}, len(body)
	in.bridge.roomOf(s, d).force(s.sender, len(body))
}

// release gives the memory of a side's body back.
func (b *Bridge) release(s *stream, d direction) {
	side := s.side(d)
	b.roomOf(s, d).giveBack(s.sender, side.taken)
	side.taken = 0
}
