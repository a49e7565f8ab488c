package bridge

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// acts starts a bridge with the guest of testdata/acts.wat.
func acts(t *testing.T, o Options) *Bridge {
	o.Compiled = compiledGuest(t, "acts")
	if o.Deadline == 0 {
		// Long enough for a busy machine: only the guest that loops meets it.
		o.Deadline = 2 * time.Second
	}
	return startBridge(t, o)
}

func ask(path, body string) *Request {
	r := &Request{Message: Message{Header: Header{{":method", "POST"}, {":path", path}, {":authority", "a"}}}}
	if body != "" {
		r.Body = io.NopCloser(strings.NewReader(body))
	}
	return r
}

func answering(body string) Forward {
	return func(_ context.Context, m *Message) (*Message, error) {
		if _, err := readBody(m); err != nil {
			return nil, err
		}
		return response("200", body), nil
	}
}

func isUnavailable(header Header, body string) bool {
	return isProblem(header, body, "dependency_unavailable")
}

func isInternalError(header Header, body string) bool {
	return isProblem(header, body, "internal_error")
}

func isProblem(header Header, body, code string) bool {
	return value(header, ":status") == "503" && value(header, "idempotency-retry") == "same_key" &&
		value(header, "retry-after") == "5" && strings.Contains(body, `"code":"`+code+`"`)
}

func TestATrapOrALoopClosesTheInstanceAndTheNextRequestWorks(t *testing.T) {
	for _, test := range []struct {
		name, path string
		timedOut   uint64
	}{
		{"trap in the request's headers", "/t", 0},
		{"trap in the request's body", "/d", 0},
		{"trap in the response's headers", "/r", 0},
		{"loop in the request's headers", "/l", 1},
		{"loop in the allocator", "/g", 1},
		{"loop with the reply to a call", "/f", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log logLines
			b := acts(t, Options{
				Instances: 1, Deadline: 300 * time.Millisecond, Log: log.add, Upstreams: map[string]http.RoundTripper{"store": emptyReply},
			})
			header, body := mustExchange(t, b, ask(test.path, "body"), answering("answer"))
			if !isInternalError(header, body) {
				t.Errorf("the client got %v %q", header, body)
			}
			stats := b.Stats()
			if stats.TimedOut != test.timedOut || stats.Trapped != 1-test.timedOut || stats.Instances != 0 {
				t.Errorf("the bridge holds %+v", stats)
			}
			if !log.contains("its instance is closed") {
				t.Errorf("the log is %q", log.lines)
			}
			if header, body := mustExchange(t, b, ask("/z", "body"), answering("answer")); value(header, ":status") != "200" || body != "answer" {
				t.Errorf("the next client got %v %q", header, body)
			}
		})
	}
}

// A tick acts for no stream, so its loop fails no request.
func TestALoopInATickClosesTheInstance(t *testing.T) {
	b := acts(t, Options{Instances: 1, Deadline: 300 * time.Millisecond})
	mustExchange(t, b, ask("/y", "body"), answering("answer"))
	if !eventually(func() bool { return b.Stats().TimedOut == 1 }) {
		t.Errorf("the bridge holds %+v", b.Stats())
	}
	if header, body := mustExchange(t, b, ask("/z", "body"), answering("answer")); value(header, ":status") != "200" || body != "answer" {
		t.Errorf("the next client got %v %q", header, body)
	}
}

func TestALoopInTheResponsesBodyCutsTheBodyOff(t *testing.T) {
	b := acts(t, Options{Deadline: 300 * time.Millisecond})
	m, err := b.Exchange(context.Background(), ask("/s", ""), answering("answer"))
	if err != nil {
		t.Fatal(err)
	}
	if body, err := readBody(m); !errors.Is(err, errCutOff) || body != "" {
		t.Errorf("the body is %q with the error %v", body, err)
	}
}

func TestATrapAtTheEndOfAStreamHarmsNobody(t *testing.T) {
	b := acts(t, Options{Instances: 1})
	if header, body := mustExchange(t, b, ask("/x", ""), answering("answer")); value(header, ":status") != "200" || body != "answer" {
		t.Errorf("the client got %v %q", header, body)
	}
	if got := b.Stats().Trapped; got != 1 {
		t.Errorf("%d instances trapped", got)
	}
	mustExchange(t, b, ask("/z", ""), answering("answer"))
}

// never answers no call.
type never struct{}

func (never) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestAPauseThatNothingEndsIsAnswered(t *testing.T) {
	for _, path := range []string{"/p", "/q"} {
		var log logLines
		b := acts(t, Options{Log: log.add})
		if header, body := mustExchange(t, b, ask(path, "body"), answering("answer")); !isInternalError(header, body) {
			t.Errorf("%s: the client got %v %q", path, header, body)
		}
		if !log.contains("nothing can resume") || b.Stats().Trapped != 0 {
			t.Errorf("%s: the log is %q", path, log.lines)
		}
	}
}

func TestAPauseUnderTicksEndsAfterTheLimit(t *testing.T) {
	b := acts(t, Options{Instances: 1})
	if header, _ := mustExchange(t, b, ask("/k", "body"), answering("answer")); value(header, ":status") != "200" {
		t.Errorf("a tick does not resume: %v", header)
	}
	// The ticks go on, and resume nothing.
	b.pauseLimit = 30 * time.Millisecond
	if header, body := mustExchange(t, b, ask("/p", "body"), answering("answer")); !isInternalError(header, body) {
		t.Errorf("the client got %v %q", header, body)
	}
}

func TestTheDeadlineOfTheGatewayEndsAPauseAndTheWaitForTheUpstream(t *testing.T) {
	b := acts(t, Options{Upstreams: map[string]http.RoundTripper{"store": never{}}})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	silent, writer := io.Pipe()
	defer writer.Close()
	r := ask("/b", "")
	r.Body = silent
	m, err := b.Exchange(ctx, r, answering(""))
	silent.Close()
	if err != nil || !isUnavailable(m.Header, "\"code\":\"dependency_unavailable\"") {
		t.Errorf("a pause: %v %v", m, err)
	}
	expiring := expiring{context.Background(), make(chan struct{})}
	m, err = b.Exchange(expiring, ask("/z", ""), func(ctx context.Context, _ *Message) (*Message, error) {
		close(expiring.done)
		<-ctx.Done()
		return nil, ctx.Err()
	})
	if err != nil || value(m.Header, ":status") != "504" {
		t.Errorf("the wait for the upstream: %v %v", m, err)
	}
}

// expiring is a context whose deadline passes when done is closed.
type expiring struct {
	context.Context
	done chan struct{}
}

func (e expiring) Done() <-chan struct{} { return e.done }

func (e expiring) Err() error {
	select {
	case <-e.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func TestAnUpstreamThatFailsIsA503(t *testing.T) {
	b := acts(t, Options{})
	header, body := mustExchange(t, b, ask("/z", ""), func(context.Context, *Message) (*Message, error) {
		return nil, errors.New("connection refused")
	})
	if value(header, ":status") != "503" || !strings.HasPrefix(body, "upstream connect error") {
		t.Errorf("the client got %v %q", header, body)
	}
}

// replies answers calls with a function.
type replies func(*http.Request) (*http.Response, error)

func (f replies) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// emptyReply is a reply without header lines and body.
var emptyReply = replies(func(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: http.NoBody}, nil
})

func TestCalls(t *testing.T) {
	reply := func(body io.Reader) replies {
		return func(r *http.Request) (*http.Response, error) {
			if r.Host != "store" || r.URL.RequestURI() != "/" || r.Method != http.MethodGet {
				return nil, errors.New("not the call that the guest made")
			}
			header := http.Header{"X-A": {"1", "2"}}
			return &http.Response{StatusCode: 200, Header: header, Body: io.NopCloser(body)}, nil
		}
	}
	for _, test := range []struct {
		name, path string
		store      http.RoundTripper
		want       []string
	}{
		{"a reply", "/c", reply(strings.NewReader("x")), []string{"call0", "head3", "body1"}},
		{"a timeout is a 504", "/e", never{}, []string{"call0", "head3", "body1"}},
		{"no connection is a reply without headers", "/c", replies(func(*http.Request) (*http.Response, error) {
			return nil, errors.New("connection refused")
		}), []string{"call0", "head0", "body0"}},
		{"a reply that is too long", "/c", reply(bytes.NewReader(make([]byte, maxReplyBody+1))), []string{"call0", "head0", "body0"}},
		{"a reply that breaks off", "/c", reply(io.MultiReader(strings.NewReader("x"), broken{})), []string{"call0", "head0", "body0"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log logLines
			b := acts(t, Options{Log: log.add, Upstreams: map[string]http.RoundTripper{"store": test.store}})
			if header, _ := mustExchange(t, b, ask(test.path, "body"), answering("answer")); value(header, ":status") != "200" {
				t.Errorf("the client got %v", header)
			}
			for _, line := range test.want {
				if !log.contains("info " + line) {
					t.Errorf("there is no %q in %q", line, log.lines)
				}
			}
		})
	}
	t.Run("an unknown upstream", func(t *testing.T) {
		var log logLines
		b := acts(t, Options{Log: log.add})
		mustExchange(t, b, ask("/u", ""), answering("answer"))
		if !log.contains("info call2") {
			t.Errorf("the log is %q", log.lines)
		}
	})
}

func TestACallThatTakesTooLongIsA504(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	request, err := http.NewRequest(http.MethodGet, "http://store/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if status := value(carryOut(ctx, never{}, request).header, ":status"); status != "504" {
		t.Errorf("the status is %q", status)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("it broke off") }

func TestHeaderChanges(t *testing.T) {
	var log logLines
	b := acts(t, Options{Log: log.add})
	r := ask("/n", "")
	r.Header = append(r.Header, Line{"X-Gone", "1"}, Line{"x-twice", "1"}, Line{"x-kept", "\xff"}, Line{"x-gone", "2"}, Line{"x-twice", "2"})
	var got Header
	mustExchange(t, b, r, func(_ context.Context, m *Message) (*Message, error) {
		got = m.Header
		return response("200", ""), nil
	})
	want := Header{{":method", "POST"}, {":path", "/n"}, {":authority", "a"}, {"x-kept", "\xff"}, {"x-twice", "one"}, {"x-new", "one"}}
	if len(got) != len(want) {
		t.Fatalf("the upstream got %v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("line %d is %v", i, got[i])
		}
	}
	if !log.contains("info line2") || !log.contains("info fuch6") {
		t.Errorf("the log is %q", log.lines)
	}
}

func TestMemoryIsBounded(t *testing.T) {
	b := acts(t, Options{})
	if header, _ := mustExchange(t, b, ask("/m", ""), answering("answer")); value(header, ":status") != "507" {
		t.Errorf("the guest got its memory: %v", header)
	}
}

// A body that the guest lets pass is not kept: the upstream has a part of it while the client still sends.
func TestAModuleThatDoesNotFitIsRefused(t *testing.T) {
	for _, test := range []struct {
		name   string
		module []byte
		want   []string
	}{
		{"no module", []byte("text"), []string{"make wasm"}},
		{"an unknown import", guestFile(t, "unknown"), []string{"env.proxy_not_there", "env.proxy_log as Iii>i (the bridge has it as iii>i)"}},
		{"another ABI", guestFile(t, "other_abi"), []string{"proxy_abi_version_0_2_1"}},
	} {
		_, err := New(context.Background(), Options{Module: test.module})
		for _, text := range test.want {
			if err == nil || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: there is no %q in the error %v", test.name, text, err)
			}
		}
	}
}

func TestStreamsAreSpreadOverTheInstances(t *testing.T) {
	b := acts(t, Options{Instances: 4})
	release, arrived := make(chan struct{}), make(chan struct{})
	var clients sync.WaitGroup
	for range 40 {
		clients.Go(func() {
			mustExchange(t, b, ask("/z", ""), func(context.Context, *Message) (*Message, error) {
				arrived <- struct{}{}
				<-release
				return response("200", "answer"), nil
			})
		})
		<-arrived
	}
	for _, slot := range b.slots {
		if in := slot.instance.Load(); in == nil || in.open.Load() != 10 {
			t.Errorf("an instance does not have a fourth of the streams: %+v", b.Stats())
		}
	}
	close(release)
	clients.Wait()
	for i, open := range []int64{5, 1, 3, 2} {
		b.slots[i].instance.Load().open.Store(open)
	}
	for range 4 {
		if in, err := b.pick(); err != nil || in != b.slots[1].instance.Load() {
			t.Error("a stream goes to an instance with more streams than another", err)
		}
	}
	for _, slot := range b.slots {
		slot.instance.Load().open.Store(0)
	}
}

// A stream that is woken while nothing has changed waits on: it does not ask again and again.
func TestAWakeIsTakenOnce(t *testing.T) {
	release := make(chan struct{})
	b := acts(t, Options{Upstreams: map[string]http.RoundTripper{"store": replies(func(*http.Request) (*http.Response, error) {
		<-release
		return nil, errors.New("released")
	})}})
	x := newExchange(context.Background(), b, ask("/c", ""))
	if !x.open() {
		t.Fatal("the stream is not open")
	}
	s := &x.stream
	in := x.lock()
	wake := s.request.waiter()
	s.request.notify()
	in.mu.Unlock()
	x.await(toUpstream, wake)
	if len(wake) > 0 {
		t.Error("the wake is still there")
	}
	x.finish()
	close(release)
}

// The module reads how much of a request has arrived.

func TestTheModuleSaysWhatAPolicyNeeds(t *testing.T) {
	for policy, wanted := range map[string]string{
		webhookPolicy: `{"needs":{`, strings.Replace(webhookPolicy, "REQUIRED_A", "NONE", 1): `{"errors":"the policy document has 1 error:\n  /routes/1/policy: `, "": `{"errors":"`,
	} {
		text, err := Needs(context.Background(), Options{Compiled: compiledModule(t), Policy: []byte(policy)})
		if err != nil || !strings.HasPrefix(string(text), wanted) {
			t.Errorf("%q: %s, %v", policy, text, err)
		}
	}
	if _, err := Needs(context.Background(), Options{Compiled: compiledGuest(t, "acts")}); err == nil || !strings.Contains(err.Error(), "use a module and a bridge of the same release") {
		t.Errorf("a module without the function: %v", err)
	}
}
