package main

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"edge-idempotency/krakend/bridge"
	"edge-idempotency/krakend/gateway"
)

// gone waits until a gateway has closed.
func gone(t *testing.T, g *gateway.Gateway) {
	t.Helper()
	for until := time.Now().Add(20 * time.Second); g.Bridge().Stats().Instances != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the gateway is still there")
		}
	}
}

func TestAllBackendsOfARunShareOneGatewayAndItEndsWithTheRun(t *testing.T) {
	release, came := make(chan struct{}), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(came)
		<-release
		_, _ = io.WriteString(w, "done")
	}))
	defer upstream.Close()
	file := writeConfig(t, upstream.URL, moduleFile(t))
	arguments := []string{"krakend", "run", "-c", file}
	log := func(level bridge.Level, message string) { t.Log(level, message) }
	p := &pool{running: map[string]*instance{}}
	first, endFirst := context.WithCancel(context.Background())
	g := p.get(first, arguments, log)
	if g == nil || p.get(first, arguments, log) != g {
		t.Fatal("two backends of a run have two gateways")
	}
	second, endSecond := context.WithCancel(context.Background())
	if p.get(second, arguments, log) != g {
		t.Error("two runs with one configuration have two gateways")
	}

	// A new configuration gets a gateway of its own.
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Replace(string(text), `"60s"`, `"61s"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	third, endThird := context.WithCancel(context.Background())
	other := p.get(third, arguments, log)
	if other == nil || other == g {
		t.Fatal("the new configuration was not read")
	}
	endThird()
	gone(t, other)

	// The first gateway stays as long as the second run uses it, and then until its request has ended.
	endFirst()
	client := httptest.NewRequest("POST", "/api/refunds", nil)
	client.Header = http.Header{"Idempotency-Key": {"k"}, "X-Claim-Tenant": {"acme"}, "X-Claim-Project": {"health"}, "X-Claim-Subject": {"alice"},
		"Authorization": {"Bearer e30.eyJ0ZW5hbnRfaWQiOiJhY21lIiwicHJvamVjdF9pZCI6ImhlYWx0aCIsInN1YiI6ImFsaWNlIn0.c2ln"}}
	answered := make(chan int)
	go func() {
		recorder := httptest.NewRecorder()
		g.ServeHTTP(recorder, client.WithContext(&ginContext{context.Background(), client}), "refunds.create")
		answered <- recorder.Code
	}()
	<-came
	endSecond()
	for until := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		p.mutex.Lock()
		left := len(p.running)
		p.mutex.Unlock()
		if left == 0 {
			break
		}
		if time.Now().After(until) {
			t.Fatal("the run was not forgotten")
		}
	}
	close(release)
	if status := <-answered; status != http.StatusOK {
		t.Errorf("the request that was under way got %d", status)
	}
	gone(t, g)
}

// ginContext is gin's context as far as the gateway reads it.
type ginContext struct {
	context.Context
	Request *http.Request
}

// Value returns the context itself under gin's key.
func (c *ginContext) Value(key any) any {
	if key == "_gin-gonic/gin/contextkey" {
		return c
	}
	return c.Context.Value(key)
}
