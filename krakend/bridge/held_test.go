package bridge

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
)

// openBody is a body whose end has not come.
type openBody struct {
	io.ReadCloser
	end func(error)
}

func newOpenBody(begin string) openBody {
	r, w := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, _ = io.WriteString(w, begin)
		w.CloseWithError(<-ended)
	}()
	return openBody{r, func(err error) { ended <- err }}
}

func TestAHeldBodyIsWhatItWas(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var h *heldBody
		var want []byte
		took := 0
		for range random.IntN(30) {
			piece := bytes.Repeat([]byte{byte(random.Uint32())}, random.IntN(1+random.IntN(3*pieceSize)))
			if h == nil {
				h = &heldBody{}
			}
			took += h.add(piece)
			want = append(want, piece...)
		}
		if !bytes.Equal(h.bytes(), want) || h.length() != len(want) {
			t.Fatalf("%d bytes became %d", len(want), h.length())
		}
		if took < len(want) || took > 2*len(want) || took > len(want)+pieceSize {
			t.Fatalf("%d bytes take %d", len(want), took)
		}
		from := random.IntN(len(want) + 1)
		part := make([]byte, random.IntN(len(want)-from+1))
		if n := h.copyTo(part, from); n != len(part) || !bytes.Equal(part, want[from:from+n]) {
			t.Fatal("a part is another one")
		}
		if read, err := io.ReadAll(struct{ io.Reader }{&wholeBody{held: h, rest: []byte("rest")}}); err != nil || string(read) != string(want)+"rest" {
			t.Fatal("the body is read as another one", err)
		}
	}
}

// One sender gets half of the memory, and each other one its share: as the module's own memory for requests that wait.
func TestSendersShareTheRoom(t *testing.T) {
	r := room{limit: 1600, most: 100}
	fill := func(sender string) Cause {
		for {
			if cause := r.take(sender, 10); cause != causeNone {
				return cause
			}
		}
	}
	if cause := fill("0"); cause != CauseShare || r.used != 800 {
		t.Errorf("one sender has %d: %s", r.used, cause)
	}
	for i, sender := range []string{"1", "2", "3", "4", "5", "6", "7", "8"} {
		fill(sender)
		if r.used != 800+100*(i+1) {
			t.Errorf("with sender %s %d are used", sender, r.used)
		}
	}
	if cause := r.take("9", 1); cause != CauseFull {
		t.Errorf("beyond the limit: %s", cause)
	}
	r.giveBack("0", 10)
	if first, ninth := r.take("0", 10), r.take("9", 10); first != CauseShare || ninth != causeNone {
		t.Errorf("the first sender: %s, the ninth: %s", first, ninth)
	}
	r.most = 300
	r.giveBack("0", 790)
	if cause := r.take("8", 200); cause != causeNone {
		t.Errorf("one long body: %s", cause)
	}
	for sender, own := range r.senders {
		r.giveBack(sender, own)
	}
	if r.used != 0 || len(r.senders) != 0 {
		t.Errorf("%d are used, by %v", r.used, r.senders)
	}
}

func TestAllHeldBodiesTogetherHaveALimit(t *testing.T) {
	// A body arrives in two pieces that take what they have.
	const size = firstPiece + pieceSize
	const limit = 20 * size
	b := acts(t, Options{RequestBuffer: size, ResponseBuffer: size, HeldBodies: 3 * limit})
	var clients sync.WaitGroup
	var open []openBody
	// begin sends the beginning of a body, and returns why it is not held, if it is not.
	begin := func(sender string, verified bool) Cause {
		before := b.Stats()
		r := ask("/b", "")
		body := newOpenBody(strings.Repeat("x", size))
		r.Body, r.Sender, r.Verified = body, sender, verified
		open = append(open, body)
		refused := make(chan struct{})
		clients.Go(func() {
			header, text := mustExchange(t, b, r, answering("answer"))
			if value(header, ":status") != "200" && !isUnavailable(header, text) {
				t.Errorf("the client got %v %q", header, text)
			}
			if value(header, ":status") != "200" {
				close(refused)
			}
		})
		var now Stats
		if !eventually(func() bool {
			now = b.Stats()
			return now.HeldBytes >= before.HeldBytes+size || now.Unanswered != before.Unanswered
		}) {
			t.Fatalf("the body has not arrived: %+v", now)
		}
		for cause := range causes {
			if now.Unanswered[cause] != before.Unanswered[cause] {
				<-refused
				return cause
			}
		}
		return causeNone
	}
	held := map[string]int{}
	for _, step := range []struct {
		sender   string
		verified bool
		want     int
		cause    Cause
	}{
		// The tenth fills half. Then each other sender gets one body, until nothing is left.
		{"a", false, 10, CauseShare}, {"b", false, 1, CauseShare}, {"a", true, 10, CauseShare}, {"c", false, 1, CauseShare},
	} {
		got := 0
		cause := begin(step.sender, step.verified)
		for ; cause == causeNone; cause = begin(step.sender, step.verified) {
			got++
		}
		held[step.sender] += got
		if got != step.want || cause != step.cause {
			t.Errorf("%+v: %d bodies are held, and then: %s", step, got, cause)
		}
	}
	for sender := 'd'; ; sender++ {
		if cause := begin(string(sender), false); cause == CauseFull {
			break
		} else if cause != causeNone || sender == 'z' {
			t.Fatalf("%c: %s", sender, cause)
		}
	}
	if stats := b.Stats(); stats.HeldBytes > limit+limit/2+size {
		t.Errorf("the bridge holds %+v", stats)
	}
	for _, body := range open {
		body.end(io.EOF)
	}
	clients.Wait()
	if !eventually(func() bool { return b.Stats().HeldBytes == 0 }) {
		t.Errorf("the bridge holds %+v", b.Stats())
	}
	for name, room := range map[string]*room{"unverified": &b.unverified, "verified": &b.verified, "answers": &b.answers} {
		if room.used != 0 || len(room.senders) != 0 {
			t.Errorf("%s: %d bytes are used by %v", name, room.used, room.senders)
		}
	}
}

func TestHeldAnswersHaveALimit(t *testing.T) {
	const size = 8000
	b := acts(t, Options{RequestBuffer: 10_000, ResponseBuffer: 10_000, HeldBodies: 3 * 2 * size})
	first, second := newGate(), newGate()
	var clients sync.WaitGroup
	for i, g := range []gate{first, second} {
		clients.Go(func() {
			r := ask("/h", "")
			r.Sender = strconv.Itoa(i)
			header, body := mustExchange(t, b, r, respondingSlowly(g, strings.Repeat("x", size)))
			if value(header, ":status") != "200" || len(body) != size {
				t.Errorf("the client got %v and %d bytes", header, len(body))
			}
		})
		<-g.reached
	}
	if !eventually(func() bool { return b.Stats().HeldBytes >= 2*size }) {
		t.Fatalf("the bridge holds %+v", b.Stats())
	}
	if header, body := mustExchange(t, b, ask("/h", ""), answering(strings.Repeat("x", size))); !isUnavailable(header, body) {
		t.Errorf("the client got %v %q", header, body)
	}
	close(first.open)
	close(second.open)
	clients.Wait()
	if stats := b.Stats(); stats.HeldBytes != 0 || stats.Unanswered[CauseFull] != 1 {
		t.Errorf("the bridge holds %+v", stats)
	}
}

// An answer that is held counts until the client has it.
func TestAHeldAnswerCountsUntilItIsRead(t *testing.T) {
	const size = 8000
	b := acts(t, Options{})
	m, err := b.Exchange(context.Background(), ask("/h", ""), answering(strings.Repeat("x", size)))
	if err != nil {
		t.Fatal(err)
	}
	if stats := b.Stats(); stats.HeldBytes < size || stats.Streams != 0 {
		t.Errorf("while the client reads, the bridge holds %+v", stats)
	}
	if body, err := readBody(m); len(body) != size || err != nil {
		t.Errorf("the client got %d bytes and %v", len(body), err)
	}
	_ = m.Body.Close()
	if held := b.Stats().HeldBytes; held != 0 {
		t.Errorf("when the client has the answer, %d bytes are held", held)
	}
}

// A request that has gone on stays in memory when another answer takes the place of the upstream's.
func TestARequestThatHasGoneOnCountsAfterAReply(t *testing.T) {
	const body = "body"
	b := acts(t, Options{})
	x := newExchange(context.Background(), b, ask("/b", body))
	if !x.open() {
		t.Fatal("the stream is not open")
	}
	x.feed(toUpstream, piece{[]byte(body), io.EOF})
	in := x.lock()
	in.reply(&x.stream, gatewayReply(503, "no upstream"))
	in.mu.Unlock()
	if held := b.Stats().HeldBytes; held != len(body) {
		t.Errorf("%d bytes are held", held)
	}
	x.finish()
	if held := b.Stats().HeldBytes; held != 0 {
		t.Errorf("at the end %d bytes are held", held)
	}
}

// With the least room the longest body is held, and a longer one is refused as too long.
func TestTheLeastRoomHoldsTheLongestBody(t *testing.T) {
	const longest = 100_000
	b := acts(t, Options{RequestBuffer: longest, ResponseBuffer: 1, HeldBodies: LeastHeldBodies(longest)})
	for _, test := range []struct {
		size   int
		status string
	}{{longest, "200"}, {longest + 1, "413"}, {2 * longest, "413"}} {
		r := ask("/b", "")
		r.Body = io.NopCloser(iotest.OneByteReader(strings.NewReader(strings.Repeat("x", 100))))
		r.Body = io.NopCloser(io.MultiReader(r.Body, strings.NewReader(strings.Repeat("x", test.size-100))))
		if header, _ := mustExchange(t, b, r, answering("")); value(header, ":status") != test.status {
			t.Errorf("%d bytes: the client got %v", test.size, header)
		}
	}
}

// A body is held once, without room to spare.
func TestABodyIsHeldOnce(t *testing.T) {
	const bodies, size = 30, 900_000
	b := acts(t, Options{})
	text := strings.Repeat("x", size)
	live := func() uint64 {
		runtime.GC()
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		return memory.HeapAlloc
	}
	before := live()
	var clients sync.WaitGroup
	var open []openBody
	for range bodies {
		r := ask("/b", "")
		body := newOpenBody(text)
		r.Body, r.Sender = body, "one"
		r.Verified = len(open)%2 == 0
		open = append(open, body)
		clients.Go(func() { mustExchange(t, b, r, answering("")) })
	}
	if !eventually(func() bool { return b.Stats().HeldBytes >= bodies*size }) {
		t.Fatalf("the bridge holds %+v", b.Stats())
	}
	if took := live() - before; took > bodies*size*13/10 {
		t.Errorf("%d bytes take %d", bodies*size, took)
	}
	for _, body := range open {
		body.end(io.EOF)
	}
	clients.Wait()
}

func TestAMalformedBodyIsTheClientsFault(t *testing.T) {
	b := acts(t, Options{})
	for _, path := range []string{"/b", "/z"} {
		r := ask(path, "")
		body := newOpenBody("begin")
		r.Body = body
		body.end(errors.New("malformed chunked encoding"))
		header, text := mustExchange(t, b, r, answering("answer"))
		if value(header, ":status") != "400" || value(header, "idempotency-retry") != "never" || !strings.Contains(text, `"code":"request_invalid"`) {
			t.Errorf("%s: the client got %v %q", path, header, text)
		}
	}
}

// respondingSlowly answers with a body whose end comes when the gate opens.
func respondingSlowly(g gate, body string) Forward {
	return func(context.Context, *Message) (*Message, error) {
		m := response("200", "")
		m.Body = inParts(g, body, "")
		return m, nil
	}
}
