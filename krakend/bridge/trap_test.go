package bridge

import (
	"context"
	"errors"
	"io"
	"net/http"
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

// A stream waits somewhere while another one makes the instance trap: its client is told to send the same again with the same key,
// at once, or finds its answer broken off. The upstream gets it once, nothing of it is kept, and the next request is served.
func TestATrapAnswersTheRequestsOfItsInstance(t *testing.T) {
	const sent, answer = "the body of the request", "the answer of the upstream"
	whole := func(context.Context, gate) *Message { return response("200", answer) }
	slow := func(_ context.Context, g gate) *Message {
		m := response("200", "")
		m.Body = inParts(g, answer[:10], answer[10:])
		return m
	}
	waiting := func(ctx context.Context, g gate) *Message {
		close(g.reached)
		select { // The gate stays shut: the bridge ends the request to the upstream.
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
			t.Error("the upstream's request goes on")
		}
		return response("200", answer)
	}
	for _, test := range []struct {
		name, path string
		// slowBody sends the body of the request in parts.
		slowBody, brokenOff bool
		respond             func(context.Context, gate) *Message
	}{
		{"a request that passes waits for its answer", "/z", false, false, waiting},
		{"a request that was held waits for its answer", "/b", false, false, waiting},
		{"a request that waited for a call waits for its answer", "/c", false, false, waiting},
		{"a request waits for its body", "/b", true, false, whole},
		{"a response waits for its body", "/h", false, false, slow},
		{"a response passes in parts", "/z", false, true, slow},
	} {
		t.Run(test.name, func(t *testing.T) {
			g := newGate()
			b := acts(t, Options{Instances: 1, Upstreams: map[string]http.RoundTripper{"store": replies(emptyReply)}})
			r := ask(test.path, sent)
			if test.slowBody {
				r.Body = inParts(g, sent[:5], sent[5:])
			}
			var forwarded atomic.Int64
			var client sync.WaitGroup
			client.Go(func() {
				m, err := b.Exchange(context.Background(), r, func(ctx context.Context, m *Message) (*Message, error) {
					forwarded.Add(1)
					_, err := readBody(m)
					return test.respond(ctx, g), err
				})
				if err != nil {
					t.Error(err)
					return
				}
				body, err := readBody(m)
				if test.brokenOff && !errors.Is(err, errCutOff) || !test.brokenOff && (err != nil || !isInternalError(m.Header, body)) {
					t.Errorf("the client got %v %q %v", m.Header, body, err)
				}
			})
			<-g.reached
			if header, body := mustExchange(t, b, ask("/t", ""), answering("")); !isInternalError(header, body) {
				t.Errorf("the client of the trap got %v %q", header, body)
			}
			close(g.open)
			client.Wait()
			if test.slowBody {
				r.Body.Close() // As a server does behind its handler: the bridge may have stopped before the second part.
			}
			if header, body := mustExchange(t, b, ask("/z", "x"), answering("next")); value(header, ":status") != "200" || body != "next" {
				t.Errorf("the next client got %v %q", header, body)
			}
			if stats := b.Stats(); forwarded.Load() > 1 || stats.Trapped != 1 || !eventually(func() bool { return b.Stats().HeldBytes == 0 }) {
				t.Errorf("forwarded %d times, the bridge holds %+v", forwarded.Load(), stats)
			}
		})
	}
}
