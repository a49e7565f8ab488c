package idempotency

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func TestNewKeyIsUUIDv4(t *testing.T) {
	form := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	known := map[string]bool{}
	for range 1000 {
		key := newKey()
		if !form.MatchString(key) || known[key] {
			t.Fatal(key)
		}
		known[key] = true
	}
}

func TestWhichRequestsGetAKey(t *testing.T) {
	for _, test := range []struct {
		method, key string
		methods     []string
		want        bool
	}{
		{"POST", "", nil, true},
		{"PATCH", "", nil, true},
		{"PUT", "", nil, false},
		{"DELETE", "", nil, false},
		{"GET", "", nil, false},
		{"DELETE", testKey, nil, true},
		{"PUT", "", []string{"PUT"}, true},
		{"POST", "", []string{"PUT"}, false},
	} {
		t.Run(test.method+test.key, func(t *testing.T) {
			client, upstream, _ := newTestClient(t, Options{Methods: test.methods}, says(503), says(200))
			request, _ := http.NewRequestWithContext(t.Context(), test.method, target, nil)
			if test.key != "" {
				request.Header.Set(keyHeader, test.key)
			}
			response, err := client.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			_, told := Of(response)
			wantEqual(t, "info", told, test.want)
			key := upstream.seen[0].header.Get(keyHeader)
			wantEqual(t, "has a key", key != "", test.want)
			// The request of the caller is not changed.
			wantEqual(t, "the caller's header", request.Header.Get(keyHeader), test.key)
			if test.want {
				wantEqual(t, "status", response.StatusCode, 200)
				wantEqual(t, "key of the second attempt", upstream.seen[1].header.Get(keyHeader), key)
			} else {
				wantEqual(t, "status", response.StatusCode, 503)
			}
		})
	}
}

// closable notes that it was closed.
type closable struct {
	io.Reader
	closed bool
}

func (c *closable) Close() error { c.closed = true; return nil }

func TestRefusedRequests(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*http.Request)
		says   string
	}{
		"empty key":   {func(r *http.Request) { r.Header[keyHeader] = []string{""} }, "is empty"},
		"two keys":    {func(r *http.Request) { r.Header["idempotency-key"] = []string{"b"} }, "2 headers"},
		"comma":       {func(r *http.Request) { r.Header.Set(keyHeader, "a,b") }, "','"},
		"space":       {func(r *http.Request) { r.Header.Set(keyHeader, "a b") }, "' '"},
		"not ASCII":   {func(r *http.Request) { r.Header.Set(keyHeader, "ä") }, "UUID v4"},
		"line feed":   {func(r *http.Request) { r.Header.Set("Authorization", "Bearer secret\n") }, "header Authorization has a control character"},
		"header name": {func(r *http.Request) { r.Header["X Y"] = []string{"a"} }, `"X Y"`},
		"no host":     {func(r *http.Request) { r.URL.Host = "" }, "no host"},
		"scheme":      {func(r *http.Request) { r.URL.Scheme = "ftp" }, "scheme"},
		"trailers":    {func(r *http.Request) { r.Trailer = http.Header{"X": nil} }, "trailers"},
		"body breaks": {func(r *http.Request) { r.Body = &closable{Reader: iotest.ErrReader(errReset)} }, "cannot be read"},
		"body too long": {func(r *http.Request) {
			r.Body = &closable{Reader: strings.NewReader("12345678901")}
			r.ContentLength = -1
		}, "MaxRequestBytes"},
		"body is shorter":   {func(r *http.Request) { r.Body = &closable{Reader: strings.NewReader("123")}; r.ContentLength = 4 }, "has 3 bytes"},
		"redirect with key": {func(r *http.Request) { r.Response = &http.Response{StatusCode: 307} }, "NewHTTPClient"},
	} {
		t.Run(name, func(t *testing.T) {
			client, upstream, _ := newTestClient(t, Options{MaxRequestBytes: 10}, says(200))
			request := post(t, "")
			body := &closable{Reader: strings.NewReader("1234567890")}
			request.Body, request.ContentLength = body, 10
			test.change(request)
			failure := failureOf(t, client, request, ErrInvalidRequest)
			if !strings.Contains(failure.Error(), test.says) || strings.Contains(failure.Error(), "secret") {
				t.Errorf("%v, want %q", failure, test.says)
			}
			if !request.Body.(*closable).closed {
				t.Error("the body is not closed")
			}
			wantEqual(t, "requests", len(upstream.seen), 0)
			wantEqual(t, "pending", pendingKeys(t, client), []string{})
		})
	}
}

func TestLongestRequest(t *testing.T) {
	client, upstream, _ := newTestClient(t, Options{MaxRequestBytes: 10}, says(200))
	answerOf(t, client, post(t, "1234567890"))
	wantEqual(t, "body", upstream.seen[0].body, "1234567890")
}

// Secrets are sent with each attempt of this process, and never kept, in whatever case the caller writes the names.
func TestSecretsAreNotKept(t *testing.T) {
	client, upstream, _ := newTestClient(t, Options{Attempts: 2, SecretHeaders: []string{"x-api-KEY"}}, says(503))
	request := post(t, "body", "Cookie: a=secret", "Proxy-Authorization: secret", "X-Api-Key: secret", "X-Project: shop")
	request.Header["authorization"] = []string{"Bearer secret"}
	request.URL.User = url.UserPassword("bob", "secret")
	request.Host = "other.test"
	failureOf(t, client, request, ErrNoAnswer)
	records, _ := client.Pending()
	wantEqual(t, "kept", records[0], Record{
		Owner: ann,
		Key:   testKey, Method: "POST", URL: target, Host: "other.test", Header: http.Header{"X-Project": {"shop"}},
		Body: []byte("body"), KeptAt: time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC),
	})
	for _, sent := range upstream.seen {
		for _, name := range []string{"Authorization", "Cookie", "Proxy-Authorization", "X-Api-Key"} {
			if !strings.Contains(sent.header.Get(name), "secret") {
				t.Errorf("%s was not sent", name)
			}
		}
	}
}

func TestUserOfTheURLIsSent(t *testing.T) {
	client, upstream, _ := newTestClient(t, Options{}, says(200))
	request := post(t, "body")
	request.URL.User = url.UserPassword("bob", "pw")
	answerOf(t, client, request)
	wantEqual(t, "sent", upstream.seen[0].header.Get("Authorization"), "Basic Ym9iOnB3")
	wantEqual(t, "URL", upstream.seen[0].url, target)
}

func TestCredentialsThatFail(t *testing.T) {
	errLocked := errors.New("locked")
	calls := 0
	options := Options{Credentials: of(ann, func(context.Context, *url.URL) (http.Header, error) {
		if calls++; calls == 2 {
			return http.Header{"X": {"a\nb"}}, nil
		}
		if calls != 1 {
			return nil, errLocked
		}
		return nil, nil
	})}
	client, upstream, _ := newTestClient(t, options, breaks, says(200))
	failure := failureOf(t, client, post(t, "body"), ErrCredentials)
	wantEqual(t, "kept after an attempt", failure.Kept, true)
	wantEqual(t, "attempts", failure.Attempts, 1)
	wantEqual(t, "pending", pendingKeys(t, client), []string{testKey})
	other := post(t, "body")
	other.Header.Set(keyHeader, "other")
	failure = failureOf(t, client, other, errLocked)
	wantEqual(t, "kept before the first attempt", failure.Kept, false)
	wantEqual(t, "pending", pendingKeys(t, client), []string{testKey})
	wantEqual(t, "requests", len(upstream.seen), 1)
}

func TestCredentialsThatFailAfter401(t *testing.T) {
	calls := 0
	options := Options{Credentials: of(ann, func(context.Context, *url.URL) (http.Header, error) {
		if calls++; calls > 1 {
			return nil, errReset
		}
		return nil, nil
	})}
	client, _, _ := newTestClient(t, options, says(401))
	failure := failureOf(t, client, post(t, "body"), ErrCredentials)
	wantEqual(t, "kept", failure.Kept, true)
}

func TestStoreThatCannotKeep(t *testing.T) {
	for name, store := range map[string]*failing{
		"put":            {Store: NewMemoryStore(), put: errReset},
		"get":            {Store: NewMemoryStore(), get: errReset},
		"put and delete": {Store: NewMemoryStore(), put: errReset, delete: errReset},
	} {
		t.Run(name, func(t *testing.T) {
			client, upstream, _ := newTestClient(t, Options{Store: store}, says(200))
			failure := failureOf(t, client, post(t, "body"), ErrStore)
			wantEqual(t, "requests", len(upstream.seen), 0)
			wantEqual(t, "perhaps kept", failure.Kept, store.delete != nil)
			// What a failed Put has left must not be sent later.
			wantEqual(t, "deletes", store.deletes, map[bool]int{true: 1, false: 0}[store.put != nil])
		})
	}
}

func TestStoreThatCannotRemove(t *testing.T) {
	client, _, _ := newTestClient(t, Options{Store: &failing{Store: NewMemoryStore(), delete: errReset}}, saysBody(200, "done"))
	response, info := answerOf(t, client, post(t, "body"))
	body, _ := io.ReadAll(response.Body)
	wantEqual(t, "body", string(body), "done")
	wantEqual(t, "store's error", info.StoreError, errReset)
}

func TestAKeyThatIsKeptAlready(t *testing.T) {
	client, upstream, clock := newTestClient(t, Options{Attempts: 1}, breaks, breaks, says(200))
	failureOf(t, client, post(t, "body"), ErrNoAnswer)
	kept := clock.now()
	clock.at = clock.at.Add(time.Hour)
	failureOf(t, client, post(t, "other body"), ErrInvalidRequest)
	failureOf(t, client, post(t, "body"), ErrNoAnswer)
	records, _ := client.Pending()
	wantEqual(t, "body", string(records[0].Body), "body")
	wantEqual(t, "time", records[0].KeptAt, kept)
	clock.at = clock.at.Add(22 * time.Hour)
	wantEqual(t, "kept", failureOf(t, client, post(t, "body"), ErrExpired).Kept, true)
	wantEqual(t, "requests", len(upstream.seen), 2)
}

func TestOptionsThatCannotBeMeant(t *testing.T) {
	credentials := of(ann, nil)
	client, _ := New(Options{Owner: ann, Credentials: credentials})
	for want, options := range map[string]Options{
		`Options.Owner is ""`:         {Credentials: credentials},
		`Options.Owner is " "`:        {Owner: " ", Credentials: credentials},
		`Options.Owner is "\xff"`:     {Owner: "\xff", Credentials: credentials},
		"Options.Credentials is miss": {Owner: ann},
		"Options.Budget is -1ns":      {Budget: -1},
		"Options.Attempts is -1":      {Attempts: -1},
		"Options.MaxAnswerBytes is":   {MaxAnswerBytes: -1},
		`Options.Methods has "GET"`:   {Methods: []string{"GET"}},
		`Options.Methods has "post"`:  {Methods: []string{"post"}},
		"Options.Transport is a Clie": {Transport: client},
	} {
		if options.Owner == "" && !strings.Contains(want, "Owner") {
			options.Owner, options.Credentials = ann, credentials
		}
		if _, err := New(options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// README.md and the docstrings name these values.
func TestDefaults(t *testing.T) {
	options, err := Options{Owner: ann, Credentials: of(ann, nil)}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "defaults", fmt.Sprint(options.Methods, options.Attempts, options.Budget, options.AttemptTimeout, options.Base, options.Cap,
		options.MaxRetryAfter, options.ExpiresAfter, options.ResumeConcurrency, options.MaxRequestBytes, options.MaxAnswerBytes, options.SecretHeaders),
		"[POST PATCH] 10 10m0s 30s 500ms 30s 1m0s 23h0m0s 16 16777216 16777216 [Authorization Cookie Proxy-Authorization]")
}
