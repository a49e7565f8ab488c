// Command plugin is the bridge as a plugin of KrakenD 2.x, built with -buildmode=plugin: of plugin/http-client, where it
// answers the requests of bound backends, and of plugin/http-server, where it closes the whole gateway if the configuration is
// broken.
package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"edge-idempotency/krakend/bridge"
	"edge-idempotency/krakend/gateway"
)

// ClientRegisterer and HandlerRegisterer are the symbols that KrakenD looks up.
var (
	ClientRegisterer  = registerer(gateway.Namespace)
	HandlerRegisterer = registerer(gateway.Namespace)
)

// registerer registers the plugin under its name.
type registerer string

// plugins is the state of the process: KrakenD calls the factory for each backend, and all share one module.
var plugins = pool{running: map[string]*instance{}, settle: 5 * time.Second}

// logger is KrakenD's, once it has given it.
var logger atomic.Pointer[func(bridge.Level, string)]

// RegisterLogger takes KrakenD's logger.
func (registerer) RegisterLogger(v interface{}) {
	write := gateway.LogTo(v)
	logger.Store(&write)
}

// RegisterClients registers the factory of handlers.
func (r registerer) RegisterClients(register func(name string, handler func(context.Context, map[string]interface{}) (http.Handler, error))) {
	register(string(r), newHandler)
}

// RegisterHandlers registers the factory that may take the place of KrakenD's router.
func (r registerer) RegisterHandlers(register func(name string, handler func(context.Context, map[string]interface{}, http.Handler) (http.Handler, error))) {
	register(string(r), newServer)
}

// newServer returns KrakenD's router behind the gateway's guard. If anything is wrong it returns a handler that answers 503 to every request, KrakenD's
// health endpoint among them: a plugin cannot keep KrakenD from starting, and what is wrong may concern endpoints that are not
// bound, such as one that lists Idempotency-Key in input_headers.
func newServer(ctx context.Context, extra map[string]interface{}, router http.Handler) (http.Handler, error) {
	const closed = gateway.Prefix + "all endpoints of this gateway answer 503, its health endpoint too"
	if !wazeroIsKnown {
		log(bridge.LevelCritical, closed)
		return misconfigured(), nil
	}
	running := plugins.get(ctx, os.Args, log)
	if running == nil {
		log(bridge.LevelCritical, closed)
		return misconfigured(), nil
	}
	if !running.RunsWith(extra[gateway.Namespace]) {
		log(bridge.LevelCritical, closed+": KrakenD runs with another configuration of the bridge than the file has that the plugin found: set "+
			gateway.ConfigVariable+" to the file that KrakenD runs with, and restart KrakenD")
		return misconfigured(), nil
	}
	return running.Guard(router), nil
}

// newHandler makes the handler of one backend. It never returns an error: KrakenD would send the requests to the backend
// without the plugin. If anything is wrong the handler answers 503.
func newHandler(ctx context.Context, extra map[string]interface{}) (http.Handler, error) {
	endpoint, _ := gateway.EndpointOf(map[string]any{"plugin/http-client": extra})
	if !wazeroIsKnown {
		log(bridge.LevelCritical, gateway.Prefix+"the plugin was built with a wazero that it does not know: build it with the version of its go.mod")
		return misconfigured(), nil
	}
	running := plugins.get(ctx, os.Args, log)
	if running == nil {
		return misconfigured(), nil
	}
	if !running.Has(endpoint) {
		log(bridge.LevelCritical, gateway.Prefix+"a backend is bound to the endpoint "+endpoint+", which krakend.json did not have when the plugin read it: restart KrakenD")
		return misconfigured(), nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { running.ServeHTTP(w, r, endpoint) }), nil
}

func misconfigured() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		response := gateway.Misconfigured()
		body, _ := io.ReadAll(response.Body)
		gateway.Write(w, response, body)
	})
}

func log(level bridge.Level, message string) {
	write := logger.Load()
	if write == nil {
		standard := gateway.LogTo(nil)
		write = &standard
	}
	(*write)(level, message)
}

func main() {}
