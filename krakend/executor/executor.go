// Package executor puts the bridge into a custom build of KrakenD: a main.go of a few lines gives KrakenD's backend factory
// the executors that this package makes (docs/gateways.md shows it). It fits lura's client.HTTPRequestExecutor without
// importing lura.
package executor

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"

	"edge-idempotency/krakend/bridge"
	"edge-idempotency/krakend/gateway"
)

// Executor makes the request executors of bound backends.
type Executor struct {
	aliases map[string]string
	running atomic.Pointer[gateway.Gateway]
	log     atomic.Pointer[func(bridge.Level, string)]
	// mutex is of started and of what takes the place of running.
	mutex   sync.Mutex
	started bool
}

// New makes an executor that has read no configuration yet. Until then it writes its log to the standard error, and all
// requests to bound backends are answered 503. aliases is lura's config.ExtraConfigAlias, filled as in KrakenD's own main.go:
// without its names KrakenD overlooks auth/validator, and everybody could claim to be anybody. So Load refuses a file whose
// names are not there.
func New(aliases map[string]string) *Executor {
	e := &Executor{aliases: aliases}
	write := gateway.LogTo(nil)
	e.log.Store(&write)
	return e
}

// Start gives the executor KrakenD's logger (lura's logging.Logger), and opens the listener for metrics. main.go calls it
// where KrakenD makes its backend factory, which `krakend run` does and `krakend check` does not: so a configuration can be
// checked while another KrakenD runs with it.
func (e *Executor) Start(logger any) {
	write := gateway.LogTo(logger)
	e.log.Store(&write)
	e.mutex.Lock()
	defer e.mutex.Unlock()
	if running := e.running.Load(); running != nil && !e.started {
		running.Start(nil)
	}
	e.started = true
}

// Load reads krakend.json, checks it, and starts the module. It takes the place of what was loaded before. main.go calls it
// where KrakenD parses its configuration, and returns the error from there: then KrakenD does not start.
func (e *Executor) Load(file string) error {
	return e.LoadWith(file, gateway.LoadOptions{})
}

// LoadWith is Load with options, for tests. Log and Aliases are the executor's own.
func (e *Executor) LoadWith(file string, options gateway.LoadOptions) error {
	options.Log = func(level bridge.Level, message string) { (*e.log.Load())(level, message) }
	options.Aliases = e.aliases
	loaded, err := gateway.Load(file, options)
	if err != nil {
		return err
	}
	e.mutex.Lock()
	defer e.mutex.Unlock()
	before := e.running.Swap(loaded)
	if e.started {
		loaded.Start(before)
	}
	if before != nil {
		return before.Close(context.Background())
	}
	return nil
}

// Binds says whether a backend is bound to the policy, by its extra_config as KrakenD has read it. Others are made by KrakenD's own
// factory.
func (e *Executor) Binds(extra map[string]any) bool {
	_, bound := gateway.EndpointOf(extra)
	return bound
}

// For returns the executor of a bound backend. A backend that is bound to nothing known is answered 503.
//
// instrument puts KrakenD's telemetry around the connections to the backend's upstream, so that a request to it is a span of its own
// in KrakenD's traces, and has its headers. It is called once. Nil: there is no telemetry.
func (e *Executor) For(extra map[string]any, instrument func(http.RoundTripper) http.RoundTripper) func(ctx context.Context, request *http.Request) (*http.Response, error) {
	endpoint, _ := gateway.EndpointOf(extra)
	var via http.RoundTripper
	if instrument != nil {
		via = instrument(gateway.Plain)
	}
	return func(ctx context.Context, request *http.Request) (*http.Response, error) {
		running := e.running.Load()
		if running == nil {
			if request.Body != nil {
				_ = request.Body.Close()
			}
			return gateway.Misconfigured(), nil
		}
		if via != nil && via != gateway.Plain {
			ctx = gateway.WithTransport(ctx, via)
		}
		return running.RoundTrip(ctx, endpoint, request)
	}
}

// Guard gives what stands before KrakenD's router: see gateway.Gateway.Guard. main.go puts it there with a RunServerFactory.
func (e *Executor) Guard(router http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if running := e.running.Load(); running != nil {
			running.Guard(router).ServeHTTP(w, r)
			return
		}
		router.ServeHTTP(w, r)
	})
}

// Gateway returns what runs; nil if nothing is loaded.
func (e *Executor) Gateway() *gateway.Gateway { return e.running.Load() }

// Close ends the module.
func (e *Executor) Close(ctx context.Context) error {
	if running := e.running.Swap(nil); running != nil {
		return running.Close(ctx)
	}
	return nil
}
