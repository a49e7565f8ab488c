// Package gateway connects the module (package bridge) with KrakenD: it reads krakend.json, checks that what surrounds the
// module is safe, gives the module the client's own request and the verified claims, and sends what the module lets through
// to the real upstream.
package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"edge-idempotency/krakend/bridge"
)

// Namespace is the name of the bridge in krakend.json: that of the plugin, and of the members with its configuration.
const Namespace = "edge-idempotency"

// Operations is the endpoint name to which the endpoints of the policy's backend.operations are bound.
const Operations = "_operations"

// Gateway answers the requests of the bound endpoints of one krakend.json.
type Gateway struct {
	bridge   *bridge.Bridge
	bindings map[string]*binding
	problems problems
	owned    func(name string) bool
	log      func(bridge.Level, string)
	// metricsListen is the address of the listener for metrics; empty: none.
	metricsListen string
	mutex         sync.Mutex // of metrics
	metrics       *metricsListener
	fallback      sync.Once
	requests      inFlight
	upstreams     map[string]*upstream
	// propagators are the forms in which a span of KrakenD's is named to upstreams.
	propagators []string
	// claimHeaders are the headers that carry claims, in Go's spelling.
	claimHeaders []string
	// ready is the beginning of the line of the log that says what is served.
	ready string
	// own is the bridge's own configuration, as krakend.json has it.
	own json.RawMessage
}

// binding is what the endpoints of one route have in common.
type binding struct {
	// endpoint is the policy's name of the route, or Operations.
	endpoint string
	// hosts are the route's hosts; none stands for all.
	hosts    []string
	upstream *upstream
	// identity is nil if no validator stands before the endpoints.
	identity *identitySource
}

// LoadOptions says what krakend.json does not.
type LoadOptions struct {
	// Directory is the directory that relative paths in krakend.json start from; empty stands for the working directory,
	// which KrakenD itself uses.
	Directory string
	// Plugin says that the gateway runs as KrakenD's plugin.
	Plugin bool
	// Aliases is config.ExtraConfigAlias of a custom build: KrakenD reads a short name such as auth/validator only if it is
	// there. It is not asked for with Plugin, because KrakenD's own build has all of them.
	Aliases map[string]string
	// Elsewhere says that the gateway runs on another machine, where the module is and the variables of the policy are set: if one
	// is missing here, that is a note. It is for Check only.
	Elsewhere bool
	// PolicyFile takes the place of policy_file, and ModuleFile that of module; empty: it does not.
	PolicyFile, ModuleFile string
	// Log gets the lines of the module and of the gateway. It is called from several goroutines. Nil: no log.
	Log func(level bridge.Level, message string)
	// LookupEnv reads environment variables: those that the policy names, and KrakenD's own. Nil stands for os.LookupEnv.
	LookupEnv func(name string) (value string, ok bool)
	// Now is the clock; nil stands for time.Now.
	Now func() time.Time
}

// Load reads krakend.json, checks it, and starts the module. It listens nowhere, so it can run beside a gateway that serves: see
// Start. All mistakes come in one error, each with its place and with
// what to change; those of the policy document are the module's own.
func Load(file string, o LoadOptions) (*Gateway, error) {
	if o.Log == nil {
		o.Log = func(bridge.Level, string) {}
	}
	plan, err := read(file, o)
	if err != nil {
		return nil, err
	}
	for _, note := range plan.notes {
		o.Log(bridge.LevelWarn, Prefix+note.String())
	}
	mistakes := plan.mistakes
	var host *bridge.Bridge
	if plan.known {
		if host, err = bridge.New(context.Background(), plan.options(o)); err != nil {
			mistakes.add(servicePointer, "", "%v", err)
		}
	}
	if mistakes = append(mistakes, plan.compared...); len(mistakes) > 0 {
		if host != nil {
			_ = host.Close(context.Background())
		}
		return nil, fmt.Errorf("%s: %w", file, mistakes)
	}
	return &Gateway{bridge: host, bindings: plan.bindings, problems: newProblems(&plan.needs),
		owned: plan.needs.owns, log: o.Log, metricsListen: plan.service.MetricsListen, upstreams: plan.upstreams, propagators: plan.spanForms, claimHeaders: plan.headersOfClaims(), ready: plan.ready(), own: plan.own}, nil
}

// ready says what the gateway serves.
func (p *plan) ready() string {
	bound := 0
	for index := range p.document.Endpoints {
		if slices.ContainsFunc(p.document.Endpoints[index].Backend, func(backend krakendBackend) bool { return backend.bound() }) {
			bound++
		}
	}
	return fmt.Sprintf("ready: %d of %d endpoints are bound to the policy; ", bound, len(p.document.Endpoints))
}

// Check validates krakend.json as Load does, without starting the module with the policy. The notes are what is allowed and probably not
// meant.
func Check(file string, o LoadOptions) (notes []string, err error) {
	plan, err := read(file, o)
	if err != nil {
		return nil, err
	}
	for _, note := range plan.notes {
		notes = append(notes, note.String())
	}
	if mistakes := append(plan.mistakes, plan.compared...); len(mistakes) > 0 {
		return notes, fmt.Errorf("%s: %w", file, mistakes)
	}
	return notes, nil
}

// Has says whether endpoints are bound to this name.
func (g *Gateway) Has(endpoint string) bool { return g.bindings[endpoint] != nil }

// RunsWith says whether this is the configuration of the bridge that KrakenD has read: own is what KrakenD hands over. If it is
// another one, the gateway has read another file than KrakenD.
func (g *Gateway) RunsWith(own any) bool {
	text, err := json.Marshal(own)
	var given, read any
	return err == nil && json.Unmarshal(text, &given) == nil && json.Unmarshal(g.own, &read) == nil && reflect.DeepEqual(given, read)
}

// Bridge returns the running module.
func (g *Gateway) Bridge() *bridge.Bridge { return g.bridge }

// MetricsAddress returns the address on which /metrics is served, or "" if there is none.
func (g *Gateway) MetricsAddress() string {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if g.metrics == nil {
		return ""
	}
	return g.metrics.address
}

// Drain waits until no request is under way, or ctx is done.
func (g *Gateway) Drain(ctx context.Context) { g.requests.wait(ctx) }

// inFlight counts requests.
type inFlight struct {
	mutex sync.Mutex
	count int
	idle  chan struct{}
}

func (f *inFlight) begin() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.count++
}

func (f *inFlight) end() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.count--; f.count == 0 && f.idle != nil {
		close(f.idle)
		f.idle = nil
	}
}

func (f *inFlight) wait(ctx context.Context) {
	f.mutex.Lock()
	if f.count == 0 {
		f.mutex.Unlock()
		return
	}
	if f.idle == nil {
		f.idle = make(chan struct{})
	}
	idle := f.idle
	f.mutex.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// Close ends the listener, the module and the idle connections to upstreams. Requests under way are answered 503.
func (g *Gateway) Close(ctx context.Context) error {
	if metrics := g.takeMetrics(); metrics != nil {
		metrics.close(ctx)
	}
	err := g.bridge.Close(ctx)
	for _, u := range g.upstreams {
		u.transport.CloseIdleConnections()
		if u.tokens != nil {
			u.tokens.client.CloseIdleConnections()
		}
	}
	return err
}

var _ http.RoundTripper = (*upstream)(nil)
