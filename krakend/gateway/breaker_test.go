package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestTheCircuitBreakerStopsRequestsToAnUpstreamThatFails(t *testing.T) {
	address := closedAddress(t)
	config := withUpstream(t, object{"url": address, "circuit_breaker": object{"interval": 60, "timeout": 60, "max_errors": 2, "log_status_change": true}})
	log := new(lines)
	g, err := Load(writeConfig(t, config), LoadOptions{Plugin: true, Log: log.write})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = g.Close(context.Background()) }()
	for count := range 3 {
		response, body := refund(t, g, fmt.Sprint("key-", count))
		expect(t, "closed", 503, response, body)
	}
	// The upstream is there again, and the breaker keeps requests from it.
	listener, err := net.Listen("tcp", strings.TrimPrefix(address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	came := make(chan struct{}, 10)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { came <- struct{}{}; answerOK(w, r) }), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	defer server.Close()
	response, body := refund(t, g, "key-4")
	expect(t, "open", 503, response, body)
	if len(came) != 0 || !strings.Contains(log.text(), "the circuit breaker backend was closed and is open") || !strings.Contains(log.text(), "circuit breaker is open") {
		t.Errorf("%d requests\n%s", len(came), log.text())
	}
	// Without a breaker it gets them.
	response, body = refund(t, load(t, testConfig(t, address)), "key-5")
	expect(t, "without a breaker", 200, response, body)
}

// What a client does wrong does not open the breaker: one that goes, one whose body breaks off, and one whose body is not there in time.
func TestTheCircuitBreakerDoesNotCountWhatClientsDo(t *testing.T) {
	upstream := newRecorder(t, answerOK)
	config := withUpstream(t, object{"url": upstream.URL, "circuit_breaker": object{"interval": 60, "timeout": 60, "max_errors": 1}})
	set(config, object{"kind": "generic"}, policyAt("backend")...)
	set(config, list{object{"endpoint": "uploads", "path": "/api/uploads", "policy": "PROHIBITED"}}, policyAt("routes")...)
	set(config, list{testEndpoint("POST", "/api/uploads", "uploads")}, "endpoints")
	g := load(t, config)
	u := g.upstreams["backend"]
	gone, leave := context.WithCancel(context.Background())
	leave()
	for range 3 {
		reader, writer := io.Pipe()
		go func() {
			_, _ = io.WriteString(writer, "part")
			_ = writer.CloseWithError(io.ErrUnexpectedEOF)
		}()
		ctx, request := call{method: "POST", path: "/api/uploads", header: http.Header{}, body: reader}.requests(context.Background())
		if response, err := g.RoundTrip(ctx, "uploads", request); err == nil {
			_ = response.Body.Close()
		}
		if _, err := u.guarded(gone, &http.Request{Body: http.NoBody}, func() (*http.Response, error) { return nil, io.ErrClosedPipe }); err == nil {
			t.Error("no error")
		}
		slow, hold := io.Pipe()
		late, end := context.WithDeadline(context.Background(), time.Unix(1, 0))
		if _, err := u.guarded(late, &http.Request{Body: endingWith(context.Background(), slow)}, func() (*http.Response, error) { return nil, io.ErrClosedPipe }); err == nil {
			t.Error("no error")
		}
		end()
		_ = hold.Close()
	}
	if counts := u.breaker.Counts(); u.breaker.State().String() != "closed" || counts.TotalFailures != 0 || counts.TotalExclusions != 9 {
		t.Errorf("%s %+v", u.breaker.State(), counts)
	}
}
