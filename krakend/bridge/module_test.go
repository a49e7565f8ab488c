package bridge

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// webhookPolicy has deliveries whose tenant and secret are looked up, and signed ones with a secret of the environment.
const webhookPolicy = `{
  "version": 1,
  "identity": {"sources": [{"name": "jwt", "metadata": ["envoy.filters.http.jwt_authn", "jwt"],
    "tenant": "tenant_id", "project": "project_id", "subject": {"field": "sub", "type": "user"}}]},
  "backend": {"kind": "restate"},
  "routes": [
    {"endpoint": "hooks", "path": "/h/{provider}/{webhook_id}", "policy": "REQUIRED_B", "webhook": {}},
    {"endpoint": "orders", "path": "/orders", "policy": "REQUIRED_A"}
  ],
  "webhooks": {
    "static": {"wh_env00001": {"tenant": "acme", "project": "shop", "provider": "github", "secrets": [{"env": "GITHUB_SECRET"}]}},
    "unkey": {"cluster": "unkey"}, "openbao": {"cluster": "openbao"}
  }
}`

func delivery(id, secret, body string) *Request {
	r := post("/h/github/"+id, "", body)
	r.Header = append(r.Header,
		Line{"x-hub-signature-256", "sha256=" + signedWith(secret, body)},
		Line{"x-github-delivery", "72d3162e-cc78-11e3-81ab-4c9367dc0958"})
	return r
}

func signedWith(secret, text string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// stores answers the lookups for a webhook as Unkey and OpenBao do.
type stores struct {
	mu     sync.Mutex
	calls  []string
	status int
}

func (s *stores) RoundTrip(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.calls = append(s.calls, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	if s.status == 0 {
		return nil, errors.New("connection refused")
	}
	return &http.Response{StatusCode: s.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("{}"))}, nil
}

// A lookup that fails ends in the module's own refusal; all waiting requests get it.
func TestALookupThatFails(t *testing.T) {
	s := &stores{}
	b := startBridge(t, Options{Instances: 1, Policy: []byte(webhookPolicy), Environment: map[string]string{"GITHUB_SECRET": "s3cret"},
		Upstreams: map[string]http.RoundTripper{"unkey": s, "openbao": s}})
	var clients sync.WaitGroup
	for range 20 {
		clients.Go(func() {
			header, body := mustExchange(t, b, delivery("wh_other001", "s3cret", `{"action":"opened"}`), answering(""))
			if value(header, ":status") != "503" || !strings.Contains(body, "dependency_unavailable") {
				t.Errorf("the client got %v %q", header, body)
			}
		})
	}
	clients.Wait()
	if len(s.calls) == 0 {
		t.Error("nothing was looked up")
	}
}

func TestABrokenPolicyDoesNotStart(t *testing.T) {
	var log logLines
	_, err := New(context.Background(), Options{Compiled: compiledModule(t), Policy: []byte(`{"version": 1, "routes": 5}`), Log: log.add})
	if err == nil || !strings.Contains(err.Error(), "edge-idempotency: policy") {
		t.Errorf("the error is %v", err)
	}
	if !log.contains("error edge-idempotency: policy") {
		t.Errorf("the log is %q", log.lines)
	}
}

// When a fresh instance cannot be made, requests are answered, and the bridge does not try at every request.
func TestWithoutAnInstanceRequestsAreAnswered(t *testing.T) {
	var log logLines
	o := Options{Compiled: compiledModule(t), Policy: []byte(policy), Instances: 1, Log: log.add,
		Unavailable:  func(cause Cause) *Message { return response("503", fmt.Sprintf("the gateway's own: %s", cause)) },
		withoutSpare: true}
	b := startBridge(t, o)
	b.startPause = time.Hour
	in := b.slots[0].instance.Load()
	b.options.Policy = []byte("{")
	in.mu.Lock()
	in.end()
	in.mu.Unlock()
	for range 3 {
		header, body := mustExchange(t, b, post("/orders", "k", "{}"), answering(""))
		if value(header, ":status") != "503" || body != "the gateway's own: fault" {
			t.Errorf("the client got %v %q", header, body)
		}
	}
	if starts := log.count("error edge-idempotency: policy"); starts != 1 {
		t.Errorf("%d instances were started in vain: %q", starts, log.lines)
	}
	b.options.Policy = []byte(policy)
	b.slots[0].failed = time.Time{}
	if header, _ := mustExchange(t, b, post("/orders", "k", "{}"), answering("")); value(header, ":status") != "200" {
		t.Errorf("the client got %v", header)
	}
}

// Every client gets the answer to its own request, whatever runs beside it.
func TestManyRequestsAtOnce(t *testing.T) {
	var records sync.Map
	b := startBridge(t, Options{Instances: 3, Record: func(record []byte) {
		var members map[string]any
		if err := json.Unmarshal(record, &members); err != nil {
			t.Error(err)
		}
		records.Store(members["idempotency_outcome"], true)
	}})
	const clients, rounds = 30, 20
	var done sync.WaitGroup
	for client := range clients {
		done.Go(func() {
			for round := range rounds {
				id := fmt.Sprintf("%d-%d", client, round)
				body := fmt.Sprintf(`{"id":%q,"pad":%q}`, id, strings.Repeat("x", 97*(client*round%400)))
				key, path := "key-"+id, "/refunds"
				if round%5 == 4 {
					key = ""
				}
				header, got := mustExchange(t, b, post(path, key, body), func(_ context.Context, m *Message) (*Message, error) {
					sent, err := readBody(m)
					if value(m.Header, "idempotency-key") != "t-acme:shop:user:u1:"+key {
						err = fmt.Errorf("the key is %q", value(m.Header, "idempotency-key"))
					}
					return response("200", sent, Line{"content-type", "application/json"}, Line{"x-restate-id", "inv_" + id}), err
				})
				switch {
				case key == "" && value(header, ":status") != "400":
					t.Errorf("%s: the client got %v", id, header)
				case key != "" && (got != body || value(header, "x-operation-id") != "inv_"+id || value(header, ":status") != "201" && len(body) < 60_000):
					t.Errorf("%s: the client got %v %.100q", id, header, got)
				}
			}
		})
	}
	done.Wait()
	stats := b.Stats()
	if stats.Instances != 3 || stats.Trapped+stats.TimedOut > 0 {
		t.Errorf("the bridge holds %+v", stats)
	}
	for _, outcome := range []string{"stored", "rejected"} {
		if _, ok := records.Load(outcome); !ok {
			t.Errorf("no record has the outcome %s", outcome)
		}
	}
	b.Tick(context.Background())
	problems := uint64(0)
	for name, count := range b.Metrics().Samples().Counters {
		if strings.HasPrefix(name, "idempotency_problem_total;code=idempotency_key_required") {
			problems += count
		}
	}
	if problems != clients*rounds/5 {
		t.Errorf("%d problems were counted", problems)
	}
}

func TestTheInterpreterWorks(t *testing.T) {
	b := startBridge(t, Options{Module: builtModule(t), Interpreter: true, Instances: 1})
	u := &upstream{status: "200", body: `{"id":"re_1"}`, lines: Header{{"content-type", "application/json"}, {"x-restate-id", "inv_1"}}}
	if header, _ := mustExchange(t, b, post("/refunds", "k", `{}`), u.forward); value(header, ":status") != "201" {
		t.Errorf("the client got %v", header)
	}
}

func TestCloseAnswersOpenRequests(t *testing.T) {
	b := startBridge(t, Options{Instances: 1})
	arrived := make(chan struct{})
	var client sync.WaitGroup
	client.Go(func() {
		header, body := mustExchange(t, b, post("/orders", "k", ""), func(ctx context.Context, _ *Message) (*Message, error) {
			close(arrived)
			<-ctx.Done()
			return nil, ctx.Err()
		})
		if !isUnavailable(header, body) {
			t.Errorf("the client got %v %q", header, body)
		}
	})
	<-arrived
	if err := b.Close(context.Background()); err != nil {
		t.Error(err)
	}
	client.Wait()
	if header, body := mustExchange(t, b, post("/orders", "k", ""), answering("")); !isUnavailable(header, body) {
		t.Errorf("the closed bridge answered %v %q", header, body)
	}
}

func TestMoreMemoryThanAModuleCanAddressIsAnError(t *testing.T) {
	if _, err := Compile(context.Background(), nil, CompileOptions{MemoryPages: 1<<16 + 1}); err == nil || !strings.Contains(err.Error(), "at most 65536 pages") {
		t.Error(err)
	}
}
