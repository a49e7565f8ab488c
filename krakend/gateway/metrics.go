package gateway

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"edge-idempotency/krakend/bridge"
)

// metricsListener serves /metrics in Prometheus's text format.
type metricsListener struct {
	// configured is the address in krakend.json, address the one that it became.
	configured, address string
	listener            net.Listener
	host                atomic.Pointer[bridge.Bridge]
	server              *http.Server
}

// Start opens the listener of metrics_listen, if there is one, and says in the log that the gateway serves. replaces is a gateway of
// the same process whose place this one has taken, or nil: its listener goes on with this one if both have the same address. If
// the address is taken, the log has a warning, and requests are served without metrics.
func (g *Gateway) Start(replaces *Gateway) {
	g.log(bridge.LevelInfo, Prefix+g.ready+g.openMetrics(replaces))
}

// openMetrics returns where the metrics are.
func (g *Gateway) openMetrics(replaces *Gateway) string {
	if g.metricsListen == "" {
		return "there is no metrics_listen"
	}
	var metrics *metricsListener
	if replaces.listensOn(g.metricsListen) {
		metrics = replaces.takeMetrics()
	} else {
		var err error
		if metrics, err = listen(g.metricsListen); err != nil {
			g.log(bridge.LevelWarn, Prefix+metricsPointer+": there are no metrics, because nobody can listen there: "+err.Error()+"; choose another address, or free this one and restart KrakenD")
			return "there are no metrics"
		}
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	g.metrics = metrics
	metrics.serve(g.bridge)
	return "metrics are at http://" + metrics.address + "/metrics"
}

// listen opens the listener at an address, `host:port`.
func listen(address string) (*metricsListener, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return &metricsListener{configured: address, address: listener.Addr().String(), listener: listener}, nil
}

// serve answers requests with the metrics of a bridge.
func (m *metricsListener) serve(host *bridge.Bridge) {
	if m.host.Swap(host) != nil {
		return
	}
	routes := http.NewServeMux()
	routes.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		host := m.host.Load()
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		host.Tick(r.Context()) // The module writes what it has counted on a tick.
		_ = host.Metrics().WriteText(w)
		writeMemory(w)
	})
	m.server = &http.Server{Handler: routes, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = m.server.Serve(m.listener) }()
}

// listensOn says whether the gateway has a listener with this address in krakend.json. A nil gateway has none.
func (g *Gateway) listensOn(configured string) bool {
	if g == nil {
		return false
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.metrics != nil && g.metrics.configured == configured
}

// takeMetrics takes the listener out of the gateway; nil if it has none.
func (g *Gateway) takeMetrics() *metricsListener {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	m := g.metrics
	g.metrics = nil
	return m
}

func (m *metricsListener) close(ctx context.Context) {
	if m.server == nil {
		_ = m.listener.Close()
		return
	}
	_ = m.server.Shutdown(ctx)
}
