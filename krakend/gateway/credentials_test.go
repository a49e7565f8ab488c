package gateway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// tokenServer gives tokens by client credentials.
type tokenServer struct {
	*httptest.Server
	mutex   sync.Mutex
	asked   int
	form    string
	status  int
	expires int
	hold    chan struct{}
}

func newTokenServer(t *testing.T) *tokenServer {
	s := &tokenServer{status: 200, expires: 3600}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		s.mutex.Lock()
		s.asked++
		user, password, _ := r.BasicAuth()
		s.form = string(text) + " " + user + ":" + password
		asked, status, expires, hold := s.asked, s.status, s.expires, s.hold
		s.mutex.Unlock()
		if hold != nil {
			select {
			case <-hold:
			case <-r.Context().Done():
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if status != 200 {
			_, _ = io.WriteString(w, `{"error":"invalid_client","error_description":"planted"}`)
			return
		}
		fmt.Fprintf(w, `{"access_token":"token-%d","token_type":"bearer","expires_in":%d}`, asked, expires)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *tokenServer) set(change func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	change()
}

func withCredentials(t *testing.T, upstream string, tokens *tokenServer) object {
	return withUpstream(t, object{"url": upstream, "client_credentials": object{"token_url": tokens.URL + "/token", "client_id": "gateway",
		"client_secret": object{"env": "UPSTREAM_SECRET"}, "scopes": list{"a", "b"}, "endpoint_params": object{"audience": list{"refunds"}}}})
}

func TestRequestsHaveTheUpstreamsTokenAndNotTheClients(t *testing.T) {
	t.Setenv("UPSTREAM_SECRET", "s3cret")
	upstream, tokens := newRecorder(t, answerOK), newTokenServer(t)
	g := load(t, withCredentials(t, upstream.URL, tokens))
	var all sync.WaitGroup
	for count := range 8 {
		all.Go(func() {
			response, body := refund(t, g, fmt.Sprint("key-", count))
			expect(t, "with a token", 200, response, body)
		})
	}
	all.Wait()
	for _, request := range upstream.requests {
		if got := request.Header["Authorization"]; len(got) != 1 || got[0] != "Bearer token-1" {
			t.Errorf("%q", got)
		}
	}
	if tokens.asked != 1 || tokens.form != "audience=refunds&grant_type=client_credentials&scope=a+b gateway:s3cret" {
		t.Errorf("%d requests for tokens, the last with %q", tokens.asked, tokens.form)
	}
	// The module's own calls have it, too.
	call, _ := http.NewRequest("GET", "http://backend/x", nil)
	call.Header.Set("Authorization", "Bearer policy")
	response, err := g.upstreams["backend"].RoundTrip(call)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if got := upstream.requests[len(upstream.requests)-1].Header["Authorization"]; len(got) != 1 || got[0] != "Bearer token-1" || call.Header.Get("Authorization") != "Bearer policy" {
		t.Errorf("%q", got)
	}
}

func TestATokenThatEndsIsReplaced(t *testing.T) {
	t.Setenv("UPSTREAM_SECRET", "s3cret")
	upstream, tokens := newRecorder(t, answerOK), newTokenServer(t)
	tokens.expires = 5 // It is replaced ten seconds before its end.
	g := load(t, withCredentials(t, upstream.URL, tokens))
	for count := range 2 {
		response, body := refund(t, g, fmt.Sprint("key-", count))
		expect(t, "short", 200, response, body)
		if got := upstream.requests[count].Header.Get("Authorization"); got != fmt.Sprint("Bearer token-", count+1) {
			t.Error(got)
		}
	}
}

// An upstream can take a token back. A new one is asked for when the refused one is not new itself.
func TestATokenThatIsRefusedIsReplaced(t *testing.T) {
	t.Setenv("UPSTREAM_SECRET", "s3cret")
	upstream := newRecorder(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer token-1" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		answerOK(w, r)
	})
	g := load(t, withCredentials(t, upstream.URL, newTokenServer(t)))
	now := time.Now()
	g.upstreams["backend"].tokens.now = func() time.Time { return now }
	for count, status := range []int{401, 401, 401, 200} {
		if count == 2 {
			now = now.Add(leastAge + time.Second)
		}
		response, body := refund(t, g, fmt.Sprint("key-", count))
		expect(t, fmt.Sprint("request ", count), status, response, body)
	}
}

// Without a token nothing is sent, and the next request asks again.
func TestWithoutATokenNothingIsSent(t *testing.T) {
	t.Setenv("UPSTREAM_SECRET", "s3cret")
	upstream, tokens := newRecorder(t, answerOK), newTokenServer(t)
	tokens.status = 401
	config := withCredentials(t, upstream.URL, tokens)
	log := new(lines)
	g, err := Load(writeConfig(t, config), LoadOptions{Plugin: true, Log: log.write})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close(context.Background()) }()
	response, body := refund(t, g, "key-1")
	expect(t, "refused", 503, response, body)
	if told := log.text(); !strings.Contains(told, "/token answers 401 invalid_client") || strings.Contains(told, "planted") || strings.Contains(told, "s3cret") {
		t.Error(told)
	}
	tokens.set(func() { tokens.status = 200 })
	response, body = refund(t, g, "key-1")
	expect(t, "given", 200, response, body)
	if upstream.count() != 1 {
		t.Errorf("%d requests", upstream.count())
	}
}

// A token that does not come holds requests up to the endpoint's timeout at most, with one request for it under way.
func TestATokenThatDoesNotComeIsA503(t *testing.T) {
	t.Setenv("UPSTREAM_SECRET", "s3cret")
	upstream, tokens := newRecorder(t, answerOK), newTokenServer(t)
	tokens.hold = make(chan struct{})
	defer close(tokens.hold)
	g := load(t, withCredentials(t, upstream.URL, tokens))
	var all sync.WaitGroup
	for count := range 4 {
		all.Go(func() {
			parent, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
			defer cancel()
			header := alice()
			header.Set("Idempotency-Key", fmt.Sprint("key-", count))
			ctx, request := call{method: "POST", path: "/api/refunds", header: header}.requests(parent)
			response, err := g.RoundTrip(ctx, "refunds.create", request)
			if err != nil {
				t.Error(err)
				return
			}
			var body bytes.Buffer
			_, _ = body.ReadFrom(response.Body)
			expect(t, "held", 503, response, body.String())
		})
	}
	all.Wait()
	kept := g.upstreams["backend"].tokens
	kept.mutex.Lock()
	if kept.fetch == nil {
		t.Error("the requests waited for the end of the request for a token")
	}
	kept.mutex.Unlock()
	tokens.set(func() {
		if tokens.asked != 1 || upstream.count() != 0 {
			t.Errorf("%d requests for tokens, %d sent", tokens.asked, upstream.count())
		}
	})
}
