package bridge

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

func TestAPausedBodyHasALimit(t *testing.T) {
	b := acts(t, Options{RequestBuffer: 100_000, ResponseBuffer: 100_000})
	for _, test := range []struct{ path, request, response, status string }{
		{"/b", strings.Repeat("x", 100_000), "answer", "200"},
		{"/b", strings.Repeat("x", 100_001), "answer", "413"},
		{"/h", "body", strings.Repeat("x", 100_000), "200"},
		{"/h", "body", strings.Repeat("x", 100_001), "500"},
		{"/z", strings.Repeat("x", 1_000_000), strings.Repeat("y", 1_000_000), "200"},
	} {
		var sent string
		header, body := mustExchange(t, b, ask(test.path, test.request), func(_ context.Context, m *Message) (*Message, error) {
			var err error
			sent, err = readBody(m)
			return response("200", test.response), err
		})
		if value(header, ":status") != test.status {
			t.Errorf("%s: the client got %v", test.path, header)
		}
		if test.status == "200" && (body != test.response || sent != test.request) {
			t.Errorf("%s: the upstream got %d bytes and the client %d", test.path, len(sent), len(body))
		}
	}
}

func TestBodiesStream(t *testing.T) {
	b := acts(t, Options{RequestBuffer: 1000, ResponseBuffer: 1000})
	const rounds = 200
	piece := bytes.Repeat([]byte("0123456789abcdef"), 2048)
	client, clientWriter := io.Pipe()
	backend, backendWriter := io.Pipe()
	r := ask("/z", "")
	r.Body = client
	defer client.Close()
	m, err := b.Exchange(context.Background(), r, func(_ context.Context, m *Message) (*Message, error) {
		echo := func() {
			_, err := io.Copy(backendWriter, m.Body)
			backendWriter.CloseWithError(err)
		}
		go echo()
		return &Message{Header: Header{{":status", "200"}}, Body: backend, Trailer: func() Header { return Header{{"X-End", "1"}} }}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(piece))
	for range rounds {
		go clientWriter.Write(piece)
		if _, err := io.ReadFull(m.Body, got); err != nil || !bytes.Equal(got, piece) {
			t.Fatal("a piece did not come back", err)
		}
	}
	clientWriter.Close()
	if rest, err := io.ReadAll(m.Body); err != nil || len(rest) > 0 {
		t.Errorf("the end is %q %v", rest, err)
	}
	if trailer := m.Trailer(); len(trailer) != 1 || trailer[0] != (Line{"x-end", "1"}) {
		t.Errorf("the trailers are %v", trailer)
	}
	m.Body.Close()
}

func TestALocalReplyInTheMiddleOfABody(t *testing.T) {
	b := acts(t, Options{})
	header, body := mustExchange(t, b, ask("/a", "body"), answering("answer"))
	if value(header, ":status") != "403" || body != "store" || value(header, "content-type") != "text/plain" || value(header, "content-length") != "5" {
		t.Errorf("the client got %v %q", header, body)
	}
	if value(header, "x-new") != "one" {
		t.Errorf("the reply has not passed the response callbacks: %v", header)
	}
	// The client has the headers of the response already.
	m, err := b.Exchange(context.Background(), ask("/o", ""), answering("answer"))
	if err != nil {
		t.Fatal(err)
	}
	if body, err := readBody(m); !errors.Is(err, errCutOff) {
		t.Errorf("the body is %q with the error %v", body, err)
	}
}

func TestTheClientGoesInEachPhase(t *testing.T) {
	b := acts(t, Options{Instances: 1, Upstreams: map[string]http.RoundTripper{"store": never{}}})
	silent := func() (io.ReadCloser, func()) {
		r, w := io.Pipe()
		return r, func() { w.Close(); r.Close() }
	}
	var arrived atomic.Int64
	upstream := func(ctx context.Context, m *Message) (*Message, error) {
		arrived.Add(1)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	phases := []struct {
		name, path string
		body       bool
		forward    Forward
	}{
		{"the guest waits for a call", "/e", false, upstream},
		{"the guest waits for the body", "/b", true, upstream},
		{"the upstream works", "/z", false, upstream},
		{"the upstream reads the body", "/z", true, func(ctx context.Context, m *Message) (*Message, error) {
			read := make(chan error, 1)
			go func() {
				_, err := readBody(m)
				read <- err
			}()
			select {
			case err := <-read:
				return nil, err
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}},
		{"the guest waits for the response's body", "/h", false, func(ctx context.Context, m *Message) (*Message, error) {
			r, w := io.Pipe()
			context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
			return &Message{Header: Header{{":status", "200"}}, Body: r}, nil
		}},
	}
	for _, phase := range phases {
		t.Run(phase.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(context.Background())
			r := ask(phase.path, "")
			closeBody := func() {}
			if phase.body {
				r.Body, closeBody = silent()
			}
			done := make(chan error, 1)
			go func() {
				_, err := b.Exchange(ctx, r, phase.forward)
				done <- err
			}()
			if !eventually(func() bool { return b.Stats().Streams == 1 }) {
				t.Fatal("the stream is not open")
			}
			cancel()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("the error is %v", err)
			}
			closeBody()
			if !eventually(func() bool { return b.Stats().Streams == 0 }) {
				t.Errorf("the stream is open: %+v", b.Stats())
			}
		})
	}
	t.Run("while the response's body goes out", func(t *testing.T) {
		m, err := b.Exchange(context.Background(), ask("/z", ""), answering(strings.Repeat("x", 100_000)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(m.Body, make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		m.Body.Close()
		if _, err := m.Body.Read(make([]byte, 10)); err == nil {
			t.Error("a closed body can be read")
		}
		if got := b.Stats().Streams; got != 0 {
			t.Errorf("%d streams are open", got)
		}
	})
	if b.Stats().Trapped != 0 {
		t.Errorf("the bridge holds %+v", b.Stats())
	}
}

func TestTheSizeOfARequestCountsWhatHasArrived(t *testing.T) {
	b := acts(t, Options{})
	r := ask("/b", "body")
	x := newExchange(context.Background(), b, r)
	if !x.open() {
		t.Fatal("the stream is not open")
	}
	x.feed(toUpstream, piece{[]byte("12345"), nil})
	x.feed(toUpstream, piece{[]byte("678"), nil})
	if got, want := x.stream.received, uint64(r.Header.size()+8); got != want {
		t.Errorf("%d bytes are counted, and %d have arrived", got, want)
	}
	x.finish()
}
