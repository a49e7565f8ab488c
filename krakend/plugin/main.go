// Command plugin is the bridge as a plugin of KrakenD 2.x (plugin/http-client), built with -buildmode=plugin.
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

// ClientRegisterer is the symbol that KrakenD looks up.
var ClientRegisterer = registerer(gateway.Namespace)

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

// newHandler makes the handler of one backend. It never returns an error: KrakenD would send the requests to the backend
// without the plugin. If anything is wrong the handler answers 503.
func newHandler(ctx context.Context, extra map[string]interface{}) (http.Handler, error) {
	endpoint, _ := gateway.EndpointOf(map[string]any{"plugin/http-client": extra})
	if !wazeroIsKnown {
		log(bridge.LevelCritical, gateway.Namespace+": the plugin was built with a wazero that it does not know: build it with the version of its go.mod")
		return misconfigured("The gateway was built wrongly, and its log says how."), nil
	}
	running := plugins.get(ctx, os.Args, log)
	if running == nil {
		return misconfigured("The gateway's configuration is broken, and its log says where."), nil
	}
	if !running.Has(endpoint) {
		log(bridge.LevelCritical, gateway.Namespace+": a backend is bound to the endpoint "+endpoint+", which krakend.json did not have when the plugin read it: restart KrakenD")
		return misconfigured("The gateway's configuration has no such endpoint."), nil
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { running.ServeHTTP(w, r, endpoint) }), nil
}

func misconfigured(detail string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		response := gateway.Misconfigured(detail)
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
