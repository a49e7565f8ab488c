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
	host                atomic.Pointer[bridge.Bridge]
	server              *http.Server
}

// listensAt says whether the gateway serves metrics at this address of krakend.json. A nil gateway does not.
func (g *Gateway) listensAt(configured string) bool {
	if g == nil {
		return false
	}
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.metrics != nil && g.metrics.configured == configured
}

// serveMetrics serves the metrics of a bridge at a listener, or goes on with that of the gateway that is replaced. It
// returns nil if there is neither.
func serveMetrics(address string, listener net.Listener, host *bridge.Bridge, replaced *Gateway) *metricsListener {
	if listener == nil {
		open := replaced.takeMetrics(address)
		if open != nil {
			open.host.Store(host)
		}
		return open
	}
	m := &metricsListener{configured: address, address: listener.Addr().String()}
	m.host.Store(host)
	routes := http.NewServeMux()
	routes.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		host := m.host.Load()
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		host.Tick(r.Context()) // The module writes what it has counted on a tick.
		_ = host.Metrics().WriteText(w)
	})
	m.server = &http.Server{Handler: routes, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = m.server.Serve(listener) }()
	return m
}

// takeMetrics takes the listener out of the gateway if it has this address in krakend.json, or any if it is empty.
func (g *Gateway) takeMetrics(configured string) *metricsListener {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	m := g.metrics
	if m == nil || configured != "" && m.configured != configured {
		return nil
	}
	g.metrics = nil
	return m
}

func (m *metricsListener) close(ctx context.Context) { _ = m.server.Shutdown(ctx) }
