package bridge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// gate blocks whoever passes it until it is opened.
type gate struct{ reached, open chan struct{} }

func newGate() gate { return gate{make(chan struct{}), make(chan struct{})} }

func (g gate) pass() {
	close(g.reached)
	<-g.open
}

// inParts is a body of two parts with a gate between them.
func inParts(g gate, first, second string) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		_, _ = io.WriteString(w, first)
		g.pass()
		_, _ = io.WriteString(w, second)
		w.Close()
	}()
	return r
}

// A stream waits somewhere while another one makes the instance trap. It goes on in another instance, the upstream gets it
// once, and the client gets what the guest makes of the answer.
func TestStreamsOfAnInstanceThatTrapsGoOn(t *testing.T) {
	const sent, answer = "the body of the request", "the answer of the upstream"
	type phase struct {
		gate  gate
		calls atomic.Int64
	}
	whole := func(string, *phase) *Message { return response("200", answer) }
	slow := func(_ string, p *phase) *Message {
		m := response("200", "")
		m.Body = inParts(p.gate, answer[:10], answer[10:])
		return m
	}
	waiting := func(_ string, p *phase) *Message { p.gate.pass(); return response("200", answer) }
	for _, test := range []struct {
		name, path string
		// slowBody sends the body of the request in parts.
		slowBody bool
		respond  func(body string, p *phase) *Message
		want     string
	}{
		{"a request that passes waits for its answer", "/z", false, waiting, answer},
		{"a request with other lines waits for its answer", "/n", false, waiting, answer},
		{"a request that was held waits for its answer", "/b", false, waiting, answer},
		{"a request that waited for a call waits for its answer", "/c", false, waiting, answer},
		{"a request waits for its body", "/b", true, whole, answer},
		{"a request waits for its body, and its headers have gone on", "/j", true, whole, answer},
		{"a request passes in parts", "/z", true, whole, answer},
		{"a response waits for its body", "/h", false, slow, answer},
		{"a response passes in parts", "/z", false, slow, answer},
		{"a response gets another body in parts", "/v", false, slow, "store"},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log logLines
			p := &phase{gate: newGate()}
			b := acts(t, Options{Instances: 1, Log: log.add, Upstreams: map[string]http.RoundTripper{
				"store": replies(func(r *http.Request) (*http.Response, error) {
					p.calls.Add(1)
					return emptyReply(r)
				}),
			}})
			r := ask(test.path, sent)
			r.Header = append(r.Header, Line{"x-gone", "1"})
			if test.slowBody {
				r.Body = inParts(p.gate, sent[:5], sent[5:])
			}
			forwarded := 0
			var client sync.WaitGroup
			client.Go(func() {
				header, body := mustExchange(t, b, r, func(_ context.Context, m *Message) (*Message, error) {
					forwarded++
					got, err := readBody(m)
					if err != nil || got != sent {
						t.Errorf("the upstream got %q %v", got, err)
					}
					return test.respond(got, p), err
				})
				if value(header, ":status") != "200" || body != test.want {
					t.Errorf("the client got %v %q", header, body)
				}
			})
			<-p.gate.reached
			if header, body := mustExchange(t, b, ask("/t", ""), answering("")); !isInternalError(header, body) {
				t.Errorf("the client of the trap got %v %q", header, body)
			}
			close(p.gate.open)
			client.Wait()
			stats := b.Stats()
			if forwarded != 1 || stats.Trapped != 1 || stats.Moved != 1 || p.calls.Load() > 2 {
				t.Errorf("forwarded %d times, %d calls, the bridge holds %+v: %q", forwarded, p.calls.Load(), stats, log.lines)
			}
		})
	}
}

// The guest of the other instance makes the calls again: what it keeps of a reply was true when it came.
func TestCallsAreMadeAgain(t *testing.T) {
	for _, underWay := range []bool{false, true} {
		var log logLines
		called, ended := newGate(), make(chan struct{})
		calls := atomic.Int64{}
		b := acts(t, Options{Instances: 1, Log: log.add, Upstreams: map[string]http.RoundTripper{
			"store": replies(func(r *http.Request) (*http.Response, error) {
				if calls.Add(1) > 1 {
					return &http.Response{StatusCode: 200, Header: http.Header{"X-New": {"1", "2"}}, Body: http.NoBody}, nil
				}
				if underWay {
					close(called.reached)
					<-r.Context().Done()
					close(ended)
					return nil, r.Context().Err()
				}
				return emptyReply(r)
			}),
		}})
		var client sync.WaitGroup
		forwarded := newGate()
		client.Go(func() {
			header, body := mustExchange(t, b, ask("/c", "body"), func(context.Context, *Message) (*Message, error) {
				if !underWay {
					forwarded.pass()
				}
				return response("200", "answer"), nil
			})
			if value(header, ":status") != "200" || body != "answer" {
				t.Errorf("the client got %v %q", header, body)
			}
		})
		if underWay {
			<-called.reached
		} else {
			<-forwarded.reached
		}
		mustExchange(t, b, ask("/t", ""), answering(""))
		if underWay {
			<-ended
		} else {
			close(forwarded.open)
		}
		client.Wait()
		if calls.Load() != 2 || !log.contains("info head3") || b.Stats().Moved != 1 {
			t.Errorf("%d calls were made, and the guest logs %q", calls.Load(), log.lines)
		}
	}
}

// readNow tells of each read that begins.
type readNow struct {
	io.ReadCloser
	begins chan struct{}
}

func (r readNow) Read(p []byte) (int, error) {
	r.begins <- struct{}{}
	return r.ReadCloser.Read(p)
}

// Request and answer go through at once when the instance traps, and the client goes: run it with the race detector.
func TestBothSidesMoveAtOnce(t *testing.T) {
	const rounds, first, second = 200, "first", "second"
	b := acts(t, Options{Instances: 1})
	for round := range rounds {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		clientReads, clientWrites := io.Pipe()
		answerReads, answerWrites := io.Pipe()
		var sides sync.WaitGroup
		var sent strings.Builder
		r := ask("/z", "")
		begins := make(chan struct{}, 10)
		r.Body = readNow{clientReads, begins}
		m, err := b.Exchange(ctx, r, func(_ context.Context, m *Message) (*Message, error) {
			part := make([]byte, len(first))
			sides.Go(func() { _, _ = io.WriteString(clientWrites, first) })
			_, err := io.ReadFull(m.Body, part)
			sent.Write(part)
			sides.Go(func() {
				_, _ = io.Copy(&sent, m.Body)
				_ = m.Body.Close()
			})
			// The answer comes before the request has ended.
			return &Message{Header: Header{{":status", "200"}}, Body: answerReads}, err
		})
		if err != nil {
			t.Fatal(err)
		}
		// The upstream waits for more of the request.
		<-begins
		<-begins
		mustExchange(t, b, ask("/t", ""), answering(""))
		sides.Go(func() {
			_, _ = io.WriteString(clientWrites, second)
			_ = clientWrites.Close()
		})
		if round%2 == 0 {
			sides.Go(func() {
				_, _ = io.WriteString(answerWrites, first)
				_ = answerWrites.Close()
			})
			if body, err := io.ReadAll(m.Body); err != nil || string(body) != first {
				t.Errorf("round %d: the client got %q %v", round, body, err)
			}
		}
		_ = m.Body.Close()
		_ = clientReads.Close()
		sides.Wait()
		if all := first + second; !strings.HasPrefix(all, sent.String()) {
			t.Errorf("round %d: the upstream got %q", round, sent.String())
		}
		if in := b.slots[0].instance.Load(); in != nil && in.open.Load() != 0 {
			t.Fatalf("round %d: the instance has %d streams", round, in.open.Load())
		}
	}
}

// A replay that waits for a call does not keep the client's end waiting.
func TestTheEndOfAnExchangeEndsItsReplay(t *testing.T) {
	called, calls := make(chan struct{}), atomic.Int64{}
	b := acts(t, Options{Instances: 1, Upstreams: map[string]http.RoundTripper{
		"store": replies(func(r *http.Request) (*http.Response, error) {
			if calls.Add(1) == 1 {
				return emptyReply(r)
			}
			close(called)
			<-r.Context().Done()
			return nil, r.Context().Err()
		}),
	}})
	b.pauseLimit = time.Hour
	m, err := b.Exchange(context.Background(), ask("/c", "body"), func(context.Context, *Message) (*Message, error) {
		return response("200", "answer"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	mustExchange(t, b, ask("/t", ""), answering(""))
	var reader sync.WaitGroup
	reader.Go(func() {
		if body, err := io.ReadAll(m.Body); !errors.Is(err, errCutOff) {
			t.Errorf("the client got %q %v", body, err)
		}
	})
	<-called
	_ = m.Body.Close()
	reader.Wait()
	// The call is one of the root context, and other streams could wait for it.
	b.slots[0].instance.Load().shutDown()
}

// A body that is shown again counts once.
func TestABodyThatMovesCountsOnce(t *testing.T) {
	const begin = "the beginning of a body"
	for _, path := range []string{"/b", "/j"} {
		b := acts(t, Options{Instances: 1})
		r := ask(path, "not read")
		x := newExchange(context.Background(), b, r)
		if !x.open() {
			t.Fatal("the stream is not open")
		}
		x.feed(toUpstream, piece{[]byte(begin), nil})
		hasGoneOn := func() bool {
			in := x.lock()
			defer in.mu.Unlock()
			return x.stream.request.kept != nil
		}
		if path == "/j" && !eventually(hasGoneOn) {
			t.Fatal("a tick does not resume")
		}
		mustExchange(t, b, ask("/t", ""), answering(""))
		x.lock().mu.Unlock()
		if stats := b.Stats(); stats.HeldBytes != len(begin) || stats.Moved != 1 {
			t.Errorf("%s: the bridge holds %+v", path, stats)
		}
		x.finish()
		if held := b.Stats().HeldBytes; held != 0 {
			t.Errorf("%s: at the end %d bytes are held", path, held)
		}
	}
}

// A stream whose own callbacks trap fails once, and takes no other with it.
func TestAStreamThatTrapsAgainFails(t *testing.T) {
	b := acts(t, Options{Instances: 1})
	g := newGate()
	var client sync.WaitGroup
	client.Go(func() {
		header, body := mustExchange(t, b, ask("/r", ""), func(context.Context, *Message) (*Message, error) {
			g.pass()
			return response("200", "secret"), nil
		})
		if !isInternalError(header, body) {
			t.Errorf("the client got %v %q", header, body)
		}
	})
	<-g.reached
	mustExchange(t, b, ask("/t", ""), answering(""))
	close(g.open)
	client.Wait()
	if stats := b.Stats(); stats.Trapped != 2 || stats.Moved != 1 || stats.Unanswered[CauseFault] != 2 {
		t.Errorf("the bridge holds %+v", stats)
	}
}

// timestamped is a policy whose deliveries are valid for five minutes.
const timestamped = `{"version": 1, "backend": {"kind": "restate"},
  "routes": [{"endpoint": "hooks", "path": "/h/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {}}],
  "webhooks": {"static": {"wh_env00001": {"tenant": "acme", "project": "shop", "provider": "stripe", "secrets": [{"env": "SECRET"}]}}}}`

// The guest decides otherwise when it is shown the request again, because time has passed. Then the answer of the upstream
// reaches nobody.
func TestAnAnswerToAnotherDecisionIsDropped(t *testing.T) {
	const now = 1_700_000_000
	var late, trap atomic.Bool
	b := startBridge(t, Options{Instances: 1, Policy: []byte(timestamped), Environment: map[string]string{"SECRET": "s3cret"},
		Now: func() time.Time {
			if trap.CompareAndSwap(true, false) {
				panic(errors.New("a trap"))
			}
			if late.Load() {
				return time.Unix(now+3600, 0)
			}
			return time.Unix(now, 0)
		}})
	for _, isLate := range []bool{false, true} {
		late.Store(false)
		g := newGate()
		var client sync.WaitGroup
		client.Go(func() {
			header, body := mustExchange(t, b, stripeDelivery(now, `{"id":"evt_1"}`), func(context.Context, *Message) (*Message, error) {
				g.pass()
				return response("200", "answer"), nil
			})
			if isLate && !isInternalError(header, body) || !isLate && body != "answer" {
				t.Errorf("late %t: the client got %v %q", isLate, header, body)
			}
		})
		<-g.reached
		trap.Store(true)
		if header, body := mustExchange(t, b, stripeDelivery(now, `{"id":"evt_2"}`), answering("")); !isInternalError(header, body) {
			t.Errorf("the client of the trap got %v %q", header, body)
		}
		late.Store(isLate)
		close(g.open)
		client.Wait()
	}
}

// The same with other header lines: here the request itself has changed, which no gateway does.
func TestAnAnswerToOtherLinesIsDropped(t *testing.T) {
	b := acts(t, Options{Instances: 1})
	g := newGate()
	r := ask("/z", "")
	r.Header = append(r.Header, Line{"x-line", "1"})
	var client sync.WaitGroup
	client.Go(func() {
		header, body := mustExchange(t, b, r, func(context.Context, *Message) (*Message, error) {
			g.pass()
			return response("200", "answer"), nil
		})
		if !isInternalError(header, body) {
			t.Errorf("the client got %v %q", header, body)
		}
	})
	<-g.reached
	mustExchange(t, b, ask("/t", ""), answering(""))
	r.Header[len(r.Header)-1].Value = "2"
	close(g.open)
	client.Wait()
}

// observing is a policy whose guard compares requests beside their way.
const observing = `{"version": 1,
  "identity": {"sources": [{"name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
    "tenant": "tenant_id", "project": "project_id", "subject": {"field": "sub", "type": "user"}}]},
  "backend": {"kind": "restate", "cluster": "backend", "guard": {"service": "IdempotencyGuard", "retention": "8d"}},
  "routes": [{"endpoint": "orders", "path": "/orders", "policy": "REQUIRED_A", "target": "Orders/create", "collision": "observe"}]}`

// The fingerprint of the end of a body would be that of another request.
func TestTheEndOfABodyIsNotTakenForAWholeOne(t *testing.T) {
	for _, moves := range []bool{false, true} {
		t.Run(fmt.Sprintf("moves %t", moves), func(t *testing.T) {
			var claims atomic.Int64
			b := startBridge(t, Options{Instances: 1, Policy: []byte(observing), Upstreams: map[string]http.RoundTripper{
				"backend": replies(func(*http.Request) (*http.Response, error) {
					claims.Add(1)
					return nil, errors.New("connection refused")
				}),
			}})
			g := newGate()
			const begin, end = `{"begin":`, `"end"}`
			r := post("/orders", "k", "x")
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader(begin), strings.NewReader(end)))
			var client sync.WaitGroup
			client.Go(func() {
				header, body := mustExchange(t, b, r, func(_ context.Context, m *Message) (*Message, error) {
					if _, err := io.ReadFull(m.Body, make([]byte, len(begin))); err != nil {
						return nil, err
					}
					g.pass()
					rest, err := io.ReadAll(m.Body)
					if string(rest) != end {
						t.Errorf("the upstream got the end %q", rest)
					}
					return response("200", "answer"), err
				})
				if value(header, ":status") != "200" || body != "answer" {
					t.Errorf("the client got %v %q", header, body)
				}
			})
			<-g.reached
			if moves {
				in := b.slots[0].instance.Load()
				in.mu.Lock()
				in.end()
				in.mu.Unlock()
			}
			close(g.open)
			client.Wait()
			want := int64(1)
			if moves {
				want = 0
			}
			if !eventually(func() bool { return b.Stats().Calls == 0 }) || claims.Load() != want || moves != (b.Stats().Moved == 1) {
				t.Errorf("moves %t: %d claims were made, the bridge holds %+v", moves, claims.Load(), b.Stats())
			}
		})
	}
}

func stripeDelivery(at int64, body string) *Request {
	r := post("/h/stripe/wh_env00001", "", body)
	r.Header = append(r.Header, Line{"stripe-signature", fmt.Sprintf("t=%d,v1=%s", at, signedWith("s3cret", fmt.Sprintf("%d.%s", at, body)))})
	return r
}

// One call in 97 of the module ends in a trap. No more requests fail than calls trapped, all others get their own answers, and
// the upstream gets no request twice.
func TestEachTrapFailsOneRequest(t *testing.T) {
	const every, clients, rounds = 97, 24, 40
	const name = "env.proxy_get_header_map_pairs"
	original := hostFunctions[name]
	t.Cleanup(func() { hostFunctions[name] = original })
	trapping := original
	var calls, on atomic.Int64
	trapping.call = func(in *instance, a []uint64) status {
		if on.Load() == 1 && calls.Add(1)%every == 0 {
			panic(errors.New("a trap"))
		}
		return original.call(in, a)
	}
	hostFunctions[name] = trapping
	module, err := Compile(context.Background(), builtModule(t), CompileOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = module.Close(context.Background()) })
	mixed := strings.Replace(timestamped, `"version": 1, "backend": {"kind": "restate"},`, policy[1:strings.Index(policy, `"routes"`)], 1)
	mixed = strings.Replace(mixed, `"routes": [`, `"routes": [{"endpoint": "orders", "path": "/orders", "policy": "REQUIRED_A"},`, 1)
	b := startBridge(t, Options{Compiled: module, Instances: 2, Policy: []byte(mixed), Environment: map[string]string{"SECRET": "s3cret"}})
	on.Store(1)
	var failed atomic.Int64
	var seen sync.Map
	var done sync.WaitGroup
	for client := range clients {
		done.Go(func() {
			for round := range rounds {
				id := fmt.Sprintf("%d-%d", client, round)
				body := fmt.Sprintf(`{"id":"evt_%s"}`, id)
				r := post("/orders", id, body)
				if round%2 == 1 {
					r = stripeDelivery(time.Now().Unix(), body)
				}
				header, got := mustExchange(t, b, r, func(_ context.Context, m *Message) (*Message, error) {
					sent, err := readBody(m)
					key := value(m.Header, "idempotency-key")
					if _, twice := seen.LoadOrStore(id, true); twice || !strings.HasSuffix(key, id) || !strings.HasPrefix(key, "t-acme:shop:") {
						t.Errorf("%s: the upstream got the key %q, again: %t", id, key, twice)
					}
					// Other requests trap meanwhile.
					for range 50 {
						runtime.Gosched()
					}
					return response("200", sent, Line{"x-restate-id", "inv_" + id}), err
				})
				switch {
				case isInternalError(header, got):
					failed.Add(1)
				case value(header, ":status") != "200" || got != body || value(header, "x-operation-id") != "inv_"+id:
					t.Errorf("%s: the client got %v %q", id, header, got)
				}
			}
		})
	}
	done.Wait()
	on.Store(0)
	stats := b.Stats()
	t.Logf("%d requests failed: %+v", failed.Load(), stats)
	if stats.Trapped < 10 || stats.Moved < stats.Trapped || failed.Load() > int64(stats.Trapped) || stats.HeldBytes != 0 {
		t.Errorf("%d requests failed, and the bridge holds %+v", failed.Load(), stats)
	}
}
