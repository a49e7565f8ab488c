package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"edge-idempotency/krakend/bridge"
)

// exchangeOrder is one behaviour case.
type exchangeOrder struct {
	configuration
	Request       message         `json:"request"`
	Metadata      bridge.Metadata `json:"metadata"`
	RouteMetadata bridge.Metadata `json:"route_metadata"`
	// Response is what the upstream answers.
	Response message `json:"response"`
}

// outcome is what came of a case.
type outcome struct {
	// Upstream is what the upstream got; nil if it got nothing.
	Upstream *message `json:"upstream"`
	// Client is what the client got; nil if it got nothing.
	Client *message `json:"client"`
	// Metrics holds each counter as often as it counted, and each histogram with the value that it got.
	Metrics []string `json:"metrics"`
	// Record is the record of the request, a JSON object; nil if there was none.
	Record   []byte   `json:"record"`
	Log      []string `json:"log"`
	Failures []string `json:"failures"`
}

// startOutcome is what came of a start: what was logged as an error, and nothing if the policy started.
type startOutcome struct {
	Errors   []string `json:"errors"`
	Failures []string `json:"failures"`
}

// observed collects what the bridge tells, from any goroutine.
type observed struct {
	mutex   sync.Mutex
	log     []string
	errors  []string
	records [][]byte
}

func (r *runner) bridge(ctx context.Context, c *configuration, seen *observed) (*bridge.Bridge, error) {
	upstreams := make(map[string]http.RoundTripper, len(c.Upstreams))
	for _, name := range c.Upstreams {
		upstreams[name] = store{r}
	}
	now := time.UnixMilli(defaultNow)
	if c.NowUnixMS != nil {
		now = time.UnixMilli(*c.NowUnixMS)
	}
	return bridge.New(ctx, bridge.Options{
		Compiled:    r.module,
		Policy:      c.Policy,
		Environment: c.Environment,
		Upstreams:   upstreams,
		Instances:   1,
		// A busy machine is no failure of the module.
		Deadline: patience,
		Now:      func() time.Time { return now },
		Log: func(level bridge.Level, message string) {
			seen.mutex.Lock()
			defer seen.mutex.Unlock()
			seen.log = append(seen.log, fmt.Sprintf("%s %s", level, message))
			if level >= bridge.LevelError {
				seen.errors = append(seen.errors, message)
			}
		},
		Record: func(record []byte) {
			seen.mutex.Lock()
			defer seen.mutex.Unlock()
			seen.records = append(seen.records, bytes.Clone(record))
		},
	})
}

// exchange runs a case in a bridge of its own, and then a plain request, which has to be answered as ever.
func (r *runner) exchange(ctx context.Context, o *exchangeOrder) *outcome {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	result, seen := &outcome{Metrics: []string{}}, &observed{}
	fail := func(format string, values ...any) {
		result.Failures = append(result.Failures, fmt.Sprintf(format, values...))
	}
	b, err := r.bridge(ctx, &o.configuration, seen)
	if err != nil {
		fail("the bridge does not start: %v", err)
		return result
	}
	request := &bridge.Request{Message: o.Request.toBridge(), Metadata: o.Metadata, RouteMetadata: o.RouteMetadata}
	client, err := b.Exchange(ctx, request, func(_ context.Context, request *bridge.Message) (*bridge.Message, error) {
		if result.Upstream != nil {
			fail("the upstream got a second request")
		}
		var err error
		if result.Upstream, err = fromBridge(request); err != nil {
			return nil, err
		}
		response := o.Response.toBridge()
		return &response, nil
	})
	if err != nil {
		fail("the exchange: %v", err)
	} else if result.Client, err = fromBridge(client); err != nil {
		fail("the client's answer: %v", err)
	}

	if err := rest(ctx, b); err != nil {
		fail("%v", err)
	}
	b.Tick(ctx)
	result.Metrics = counted(b.Metrics().Samples())
	seen.mutex.Lock()
	records := seen.records
	seen.mutex.Unlock()
	switch len(records) {
	case 0:
	case 1:
		result.Record = records[0]
	default:
		fail("there are %d records of one request", len(records))
	}
	if problem := probe(ctx, b); problem != "" {
		fail("a plain request afterwards: %s", problem)
	}
	if stats := b.Stats(); stats != (bridge.Stats{Instances: 1}) {
		fail("the bridge is not at rest afterwards, or had to close an instance: %+v", stats)
	}
	if err := b.Close(ctx); err != nil {
		fail("the bridge does not close: %v", err)
	}
	result.Log = seen.log
	return result
}

// rest waits until no call of the module is under way: it can make one that the request does not wait for.
func rest(ctx context.Context, b *bridge.Bridge) error {
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for b.Stats().Calls > 0 {
		select {
		case <-ctx.Done():
			return fmt.Errorf("the bridge does not come to rest: %+v", b.Stats())
		case <-ticker.C:
		}
	}
	return nil
}

// start starts a bridge with a policy that is to be refused.
func (r *runner) start(ctx context.Context, c *configuration) *startOutcome {
	seen, result := &observed{}, &startOutcome{}
	b, err := r.bridge(ctx, c, seen)
	result.Errors = seen.errors
	if err != nil {
		return result
	}
	if len(seen.errors) > 0 {
		result.Failures = append(result.Failures, "the bridge starts with a policy that the module refuses")
	}
	if err := b.Close(ctx); err != nil {
		result.Failures = append(result.Failures, fmt.Sprintf("the bridge does not close: %v", err))
	}
	return result
}

// counted is how a case writes metrics.
func counted(samples bridge.Samples) []string {
	metrics := []string{}
	for name, count := range samples.Counters {
		for range count {
			metrics = append(metrics, name)
		}
	}
	for name, sample := range samples.Histograms {
		for _, value := range sample.Recent {
			metrics = append(metrics, fmt.Sprintf("%s %d", name, value))
		}
	}
	return metrics
}

// probe sends a request that no policy treats as special: it is forwarded or not found. It returns what is wrong.
func probe(ctx context.Context, b *bridge.Bridge) string {
	header := bridge.Header{
		{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "https"},
		{Name: ":authority", Value: "probe.example"}, {Name: ":path", Value: "/probe"},
	}
	request := &bridge.Request{Message: bridge.Message{Header: header}}
	response, err := b.Exchange(ctx, request, func(context.Context, *bridge.Message) (*bridge.Message, error) {
		return &bridge.Message{Header: bridge.Header{{Name: ":status", Value: "200"}}}, nil
	})
	if err != nil {
		return err.Error()
	}
	if _, err := fromBridge(response); err != nil {
		return err.Error()
	}
	if status, _ := response.Header.Get(":status"); status != "200" && status != "404" {
		return "it was answered with " + status
	}
	return ""
}

// store is the cluster that the module calls: the tests hold what the stores answer.
type store struct{ r *runner }

// RoundTrip asks the tests. A store that cannot be reached is an error.
func (s store) RoundTrip(request *http.Request) (*http.Response, error) {
	var body []byte
	if request.Body != nil {
		var err error
		if body, err = io.ReadAll(request.Body); err != nil {
			return nil, err
		}
		request.Body.Close()
	}
	call := map[string][]byte{"method": []byte(request.Method), "path": []byte(request.URL.RequestURI()), "body": body}
	var reply struct {
		Status *int   `json:"status"`
		Body   []byte `json:"body"`
	}
	s.r.turn.Lock()
	defer s.r.turn.Unlock()
	if err := s.r.write(map[string]any{"call": call}); err != nil {
		return nil, err
	}
	if err := s.r.read(&reply); err != nil {
		return nil, err
	}
	if reply.Status == nil {
		return nil, fmt.Errorf("the store %s cannot be reached", request.URL.Host)
	}
	return &http.Response{
		Status: fmt.Sprintf("%d %s", *reply.Status, http.StatusText(*reply.Status)), StatusCode: *reply.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
		Body: io.NopCloser(bytes.NewReader(reply.Body)), ContentLength: int64(len(reply.Body)), Request: request,
	}, nil
}
