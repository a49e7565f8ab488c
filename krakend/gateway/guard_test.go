package gateway

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// An endpoint that is not bound sees no key and no claim of a client, and a bound one has its key.
func TestTheGuardKeepsKeysFromEndpointsThatAreNotBound(t *testing.T) {
	upstream := newRecorder(t, answerOK)
	g := load(t, testConfig(t, upstream.URL))
	var status int
	gateway := g.Guard(http.HandlerFunc(func(_ http.ResponseWriter, client *http.Request) {
		for _, name := range []string{"Idempotency-Key", "Idempotency_key", "X-Claim-Tenant", "X-Claim-Subject", "X_claim_tenant"} {
			if lines, ok := client.Header[name]; ok {
				t.Errorf("KrakenD's router sees %s: %q", name, lines)
			}
		}
		if client.Header.Get("X-Other") != "kept" {
			t.Errorf("%v", client.Header)
		}
		for name, value := range map[string]string{"X-Claim-Tenant": "acme", "X-Claim-Project": "health", "X-Claim-Subject": "alice"} { // the validator
			client.Header.Set(name, value)
		}
		own, _ := http.NewRequest("POST", "http://edge-idempotency.invalid/api/refunds", client.Body)
		response, err := g.RoundTrip(&ginContext{context.Background(), client, nil}, "refunds.create", own)
		if err != nil {
			t.Fatal(err)
		}
		status = response.StatusCode
		_ = response.Body.Close()
		if _, ok := client.Header["Idempotency-Key"]; ok {
			t.Error("the key is in KrakenD's request again")
		}
	}))
	for keys, wanted := range map[string]int{"key-1": 200, "": 400, "one,two": 400} {
		request := httptest.NewRequest("POST", "/api/refunds", strings.NewReader("{}"))
		request.Header = alice()
		request.Header.Del("Idempotency-Key")
		request.Header["X-Other"], request.Header["X-Claim-Tenant"] = []string{"kept"}, []string{"globex"}
		request.Header["X_claim_tenant"], request.Header["Idempotency_key"] = []string{"globex"}, []string{"key-2"}
		if keys != "" {
			request.Header["Idempotency-Key"] = strings.Split(keys, ",")
		}
		gateway.ServeHTTP(httptest.NewRecorder(), request)
		if status != wanted {
			t.Errorf("%q: %d, not %d", keys, status, wanted)
		}
	}
	if upstream.count() != 1 || upstream.requests[0].Header.Get("Idempotency-Key") != "t-acme:health:user:alice:key-1" {
		t.Errorf("%v", upstream.requests)
	}
}

// KrakenD would answer an empty 500 where a parameter has such a character.
func TestTheGuardRefusesControlCharacters(t *testing.T) {
	g := load(t, testConfig(t, "http://backend:1"))
	gateway := g.Guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	for path, wanted := range map[string]int{"/a%0d%0ab": 400, "/a%00": 400, "/a%7F": 400, "/a%C2%85": 400, "/a%20b%C3%A4": 204} {
		answer := httptest.NewRecorder()
		gateway.ServeHTTP(answer, httptest.NewRequest("GET", path, nil))
		if answer.Code != wanted || wanted == 400 && !strings.Contains(answer.Body.String(), `"code":"path_ambiguous"`) {
			t.Errorf("%s: %d %s", path, answer.Code, answer.Body)
		}
	}
}
