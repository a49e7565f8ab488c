package idempotency

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	target  = "http://api.test/orders"
	testKey = "8e03978e-40d5-43e8-bc93-6894a57f9324"
	// ann is who sends, unless the test says otherwise.
	ann, bob = "acme/shop/ann", "acme/shop/bob"
)

// clock is a time that goes on only while a client waits.
type clock struct {
	mutex sync.Mutex
	at    time.Time
	waits []time.Duration
	// whileWaiting runs at the start of each wait.
	whileWaiting func()
}

func (c *clock) now() time.Time {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.at
}

func (c *clock) sleep(ctx context.Context, wait time.Duration) error {
	if c.whileWaiting != nil {
		c.whileWaiting()
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.waits = append(c.waits, wait)
	c.at = c.at.Add(wait)
	return ctx.Err()
}

// seen is what the upstream got in one attempt.
type seen struct {
	method, url, body string
	header            http.Header
}

// script is a transport that gives one answer after the other, and the last one for ever.
type script struct {
	mutex   sync.Mutex
	answers []func(*http.Request) (*http.Response, error)
	seen    []seen
}

func (s *script) RoundTrip(request *http.Request) (*http.Response, error) {
	body := ""
	if request.Body != nil {
		content, err := io.ReadAll(request.Body)
		if err != nil {
			return nil, err
		}
		body = string(content)
		_ = request.Body.Close()
	}
	s.mutex.Lock()
	s.seen = append(s.seen, seen{request.Method, request.URL.String(), body, request.Header.Clone()})
	answer := s.answers[min(len(s.seen), len(s.answers))-1]
	s.mutex.Unlock()
	return answer(request)
}

// says is an answer with a status, and headers as "Name: value".
func says(status int, headers ...string) func(*http.Request) (*http.Response, error) {
	return saysBody(status, "", headers...)
}

func saysBody(status int, body string, headers ...string) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) {
		header := http.Header{}
		for _, line := range headers {
			name, value, _ := strings.Cut(line, ": ")
			header.Add(name, value)
		}
		return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

var errReset = errors.New("connection reset")

func breaks(*http.Request) (*http.Response, error) { return nil, errReset }

// newTestClient returns a client with the answers, a clock of its own, and the highest jitter.
func newTestClient(t *testing.T, options Options, answers ...func(*http.Request) (*http.Response, error)) (*Client, *script, *clock) {
	t.Helper()
	transport := &script{answers: answers}
	if options.Transport == nil {
		options.Transport = transport
	}
	if options.Owner == "" {
		options.Owner = ann
	}
	if options.Credentials == nil {
		options.Credentials = of(options.Owner, func(context.Context, *url.URL) (http.Header, error) { return nil, nil })
	}
	client, err := New(options)
	if err != nil {
		t.Fatal(err)
	}
	time := &clock{at: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)}
	client.now, client.sleep, client.random = time.now, time.sleep, func() float64 { return 1 }
	return client, transport, time
}

// of makes credentials that are always of the owner.
func of(owner string, ask func(context.Context, *url.URL) (http.Header, error)) func(context.Context, *url.URL) (string, http.Header, error) {
	return func(ctx context.Context, target *url.URL) (string, http.Header, error) {
		header, err := ask(ctx, target)
		return owner, header, err
	}
}

// post makes a request with testKey and more headers as "Name: value".
func post(t *testing.T, body string, headers ...string) *http.Request {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set(keyHeader, testKey)
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		request.Header.Add(name, value)
	}
	return request
}

// answerOf sends the request, and fails the test if there is no answer.
func answerOf(t *testing.T, client *Client, request *http.Request) (*http.Response, Info) {
	t.Helper()
	response, err := client.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	info, known := Of(response)
	if !known {
		t.Fatal("Of knows nothing about the response")
	}
	return response, info
}

// failureOf sends the request, and fails the test if there is no error of this kind.
func failureOf(t *testing.T, client *Client, request *http.Request, kind error) *Error {
	t.Helper()
	response, err := client.RoundTrip(request)
	return asFailure(t, response, err, kind)
}

func asFailure(t *testing.T, response *http.Response, err error, kind error) *Error {
	t.Helper()
	var failure *Error
	if response != nil || !errors.As(err, &failure) || !errors.Is(err, kind) {
		t.Fatalf("want %v, got response %v, error %v", kind, response, err)
	}
	return failure
}

// pendingKeys returns the keys in the store.
func pendingKeys(t *testing.T, client *Client) []string {
	t.Helper()
	records, err := client.Pending()
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{}
	for _, record := range records {
		keys = append(keys, record.Key)
	}
	return keys
}

func wantEqual[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if shown, wanted := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); shown != wanted {
		t.Errorf("%s: got %s, want %s", what, shown, wanted)
	}
}

// failing is a store whose calls fail where an error is set.
type failing struct {
	Store
	put, get, delete error
	deletes          int
}

func (f *failing) Put(record Record) error {
	if f.put != nil {
		return f.put
	}
	return f.Store.Put(record)
}

func (f *failing) Get(owner, key string) (Record, bool, error) {
	if f.get != nil {
		return Record{}, false, f.get
	}
	return f.Store.Get(owner, key)
}

func (f *failing) Delete(owner, key string) error {
	f.deletes++
	if f.delete != nil {
		return f.delete
	}
	return f.Store.Delete(owner, key)
}
